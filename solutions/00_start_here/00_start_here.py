# ---
# jupyter:
#   course:
#     title: Start here
#     device: CPU
#     lecture: []
#   jupytext:
#     notebook_metadata_filter: course
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] opening=true
# ![Four questions about one training run, each leading to the next: how long, will it fit, on eight, at what cost.](hero.svg)
#
# This course makes one plan: train an 8-billion-parameter model on eight GPUs before a deadline. Here you learn how the notebooks work, and the units of measurement used throughout.
#
# 1. **Predict** a number, **compute** it with a function of your own, **measure** it, and **explain** the gap.
# 2. **Convert** between GB and GiB, and tell FLOPs from FLOP/s and tokens from sequences.
# 3. **Name** the four memories of a training process, and say which is which.
# 4. **Check**, validate and hand in a notebook, and repair one that you damaged.

# %% [markdown]
# Work from top to bottom. **Shift-Enter** runs a cell and goes on to the next. A gray bar with three dots is folded code: run it like any other cell, and open it if you are curious. Leave the cells that came with the notebook where they are; add your own wherever you like.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import torch

from autograder import answer, check, compare, original, plan, predict, progress
from course_utils.instruments import measure_roofline, storage_bytes, time_call
from course_utils.show import Choice, explorer, same_bytes_two_numbers, try_it

# %% [markdown]
# ## A tour in two minutes
#
# Inside a model, a batch of text is a tensor of shape $(b, s, h)$: $b$ sequences of $s$ tokens, and $h$ numbers per token, the **hidden size**. Here is a tiny one in **bf16**, a format of 2 bytes:

# %%
batch = torch.zeros(2, 3, 4, dtype=torch.bfloat16)
batch

# %% [markdown]
# How much memory does it take? This course never just trusts a formula: an **instrument** measures. This one returns the size of the tensor's **storage**, the piece of memory behind it.

# %% tags=["nbval-check-output"]
storage_bytes(batch)

# %% [markdown]
# Every exercise has a **check**. It tries your function on sizes that you did not choose and compares the results with a measurement or another calculation. Here is a wrong function. Run its check and read what it says:


# %%
def sum_of_sizes(shape, element_bytes):
    return sum(shape) * element_bytes


check("u00-tensor-bytes", sum_of_sizes)

# %% [markdown]
# A hint ends in a question and never gives the code. Your points are next to the title. Run a check as often as you like.

# %% [markdown]
# ## Predict, implement, measure, explain
#
# The course goes around this loop many times. Here is the first.
#
# **Guess first.** A batch has 4 sequences of 2,048 tokens, 1,024 numbers per token, 2 bytes each. How many bytes is that? Replace `None` with a guess, such as `8e6`, without a calculator. Being wrong costs nothing.

# %%
predict("u00-batch", None, "bytes")

# %% Bytes of a tensor [markdown] exercise="u00-tensor-bytes" points=2 minutes=3 difficulty=1 importance=5
# **Write** `tensor_bytes`: the bytes of a whole tensor, given its shape and the bytes of one element. A shape can have any number of axes; with none, `()`, the tensor is a single number.
#
# *By hand:* shape `(2, 3)` in fp32, 4 bytes each → 6 numbers, **24** bytes.


# %% solution="u00-tensor-bytes"
def tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a dense tensor."""
    ### BEGIN SOLUTION
    num_bytes = element_bytes
    for size in shape:
        num_bytes *= size
    return num_bytes
    ### END SOLUTION


# %%
try_it(tensor_bytes, (2, 3), 4)

# %% check="u00-tensor-bytes"
# Zero to four axes, odd sizes, an empty axis; 1 to 8 bytes per element.

# %% [markdown]
# <details><summary>Hint: I am off by a factor that changes with the case</summary>
#
# Divide your answer by the right one. Is the ratio one of the sizes, or the bytes of an element? Which of them is in your product twice, or not at all?
# </details>
#
# <details><summary>Hint: it works for my shape and fails for another</summary>
#
# How many axes does your code expect? What does it do with one axis, or none?
# </details>

# %% [markdown]
# **Check your guess.** Cells like the next one use your function if it passes its check, and the course's otherwise, so an unsolved exercise never stops you.

# %% folded=true tags=["nbval-check-output"]
# Measured: the storage of the batch
bytes_of = answer("u00-tensor-bytes", tensor_bytes)
real_batch = torch.empty(4, 2048, 1024, dtype=torch.bfloat16)
compare(
    "u00-batch",
    "bytes",
    computed=bytes_of((4, 2048, 1024), 2),
    measured=storage_bytes(real_batch),
)

# %% [markdown]
# Formula and instrument agree, until they don't. Keep only the first of the 2,048 tokens of each sequence:

# %%
first_token = real_batch[:, :1]
first_token.shape

# %% [markdown]
# **Guess first.** How many bytes of memory does `first_token` hold?

# %%
predict("u00-first-token", None, "bytes")

# %% folded=true tags=["nbval-check-output"]
# Measured: the storage behind the first tokens
compare(
    "u00-first-token",
    "bytes",
    computed=bytes_of(tuple(first_token.shape), 2),
    measured=storage_bytes(first_token),
)

# %% Why does the small one hold so much? [markdown] exercise="u00-view" points=1 minutes=4 difficulty=2 importance=4
# Both numbers are right. The formula counts the numbers in `first_token`; the instrument sees the memory behind it. Such a slice is a **view**: it has its own shape, but uses the storage of another tensor.
#
# **Write** two sentences: why does the whole storage stay in memory as long as `first_token` exists? What would stay in memory with `real_batch[:, :1].clone()` instead, and why? Try things out in a cell of your own.

# %% [markdown] text_answer="u00-view"
# <!-- BEGIN SOLUTION -->
# `first_token` is a *view*: it has a shape of its own but shares the storage of `real_batch`, and a storage is freed as a whole, when nothing uses it anymore. So 16 MiB are kept alive for 8 KiB.
# `.clone()` makes a copy with a small storage of its own; when `real_batch` and the view are gone, the large storage is freed.
#
# *Rubric:* half for the shared storage, half for the copy that lets the rest be freed.
# <!-- END SOLUTION -->

# %% [markdown]
# <details><summary>Hint: I do not know what to look for</summary>
#
# Ask the instrument about the slice and about its clone. Delete `real_batch`: what has to stay in memory for each of them?
# </details>

# %% [markdown]
# ## Units that are never mixed
#
# | never mix | with | because |
# |---|---|---|
# | **GB**, 10⁹ bytes | **GiB**, 2³⁰ bytes | papers print GB, PyTorch's messages GiB; a GiB is 7.4% more bytes |
# | **FLOPs**, a count of floating-point operations | **FLOP/s**, a rate | one is work, the other speed; work ÷ speed = time |
# | **tokens** | **sequences** | 4 sequences of 2,048 tokens are 8,192 tokens |

# %% What a paper prints and what torch prints [markdown] exercise="u00-state-gib" points=1 minutes=2 difficulty=1 importance=4
# A table in a lecture says that a model of 7 billion parameters takes 112 GB in training: 16 bytes per parameter. PyTorch's messages show GiB.
#
# **Write** `state_gib`: the memory of `num_params` parameters at `bytes_per_param` bytes each in **GiB**, a `float` correct to nine significant digits.
#
# *By hand:* 2³⁰ parameters of 2 bytes → **2.0** GiB.


# %% solution="u00-state-gib"
def state_gib(num_params: int, bytes_per_param: int) -> float:
    """GiB that a model's weights, gradients and optimizer states take."""
    ### BEGIN SOLUTION
    num_bytes = num_params * bytes_per_param
    return num_bytes / 1024**3
    ### END SOLUTION


# %%
try_it(state_gib, 2**30, 2)

# %% check="u00-state-gib"
# A million to a trillion parameters, 1 to 18 bytes each.

# %% [markdown]
# <details><summary>Hint: my number is 7.4% too large</summary>
#
# How many bytes are in a GB, and how many in a GiB? Which one do you divide by?
# </details>

# %% [markdown]
# How far apart are the two numbers for 405 billion parameters at 16 bytes each?

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    same_bytes_two_numbers,
    billion_parameters=Choice("parameters, billions", [1, 3, 7, 8, 13, 70, 405], 7),
    bytes_per_parameter=Choice("bytes per parameter", [2, 4, 16, 18], 16),
)

# %% How long does a step take? [markdown] exercise="u00-step-seconds" points=1 minutes=3 difficulty=2 importance=4
# A training step works through a batch of sequences. Each token costs some FLOPs, and the device runs at some rate in FLOP/s.
#
# **Write** `step_seconds`: the **seconds** that one step takes, a `float` correct to nine significant digits.
#
# *By hand:* 4 sequences of 1,000 tokens, 6·10⁹ FLOPs per token, 10¹⁴ FLOP/s → **0.24** s.


# %% solution="u00-step-seconds"
def step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """Seconds that one training step takes at a steady rate."""
    ### BEGIN SOLUTION
    num_tokens = num_sequences * seq_len
    return num_tokens * flops_per_token / flops_per_second
    ### END SOLUTION


# %%
try_it(step_seconds, 4, 1000, 6 * 10**9, 10**14)

# %% check="u00-step-seconds"
# One sequence to thousands, odd lengths, rates from a laptop's to a cluster's.

# %% [markdown]
# <details><summary>Hint: my number is huge, or tiny</summary>
#
# Write the unit next to each of the four numbers. Which of them multiply to a count of FLOPs? What is FLOPs ÷ FLOP/s?
# </details>

# %% [markdown]
# ### Is work ÷ speed really the time?
#
# **Guess first.** This machine will multiply a 1,024 × 1,024 matrix by another one, and then by 1,024 vectors of 1,024 numbers, one at a time. Both are the same work, 2.1·10⁹ FLOPs. How many times longer do the vectors take?

# %%
predict("u00-vectors", None, "times")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the same FLOPs twice, on this machine (about 5 seconds)
threads = torch.get_num_threads()
torch.set_num_threads(1)
roof = measure_roofline("cpu")
matrix, vectors = torch.ones(1024, 1024), [torch.ones(1024) for _ in range(1024)]
flops = 2 * 1024**3
print(f"FLOP/s at best    {roof.flops_per_second / 1e9:6.1f} · 10⁹")
print(f"FLOPs ÷ FLOP/s    {flops / roof.flops_per_second * 1e3:6.1f} ms")
as_one = time_call(lambda: matrix @ matrix, num_runs=5, device="cpu").median_seconds
apart = time_call(
    lambda: [matrix @ each for each in vectors], num_runs=5, device="cpu"
).median_seconds
torch.set_num_threads(threads)
print(f"as one product    {as_one * 1e3:6.1f} ms")
print(f"vector by vector  {apart * 1e3:6.1f} ms")
compare("u00-vectors", "times", measured=apart / as_one)

# %% [markdown]
# The rate was measured on a large product, so one product takes about as long as FLOPs ÷ FLOP/s says, unless other programs are running. The vectors take longer: each of them reads the whole matrix from memory again, and reading is slower than multiplying. FLOPs give only a lower bound on time, and this course is about the gap. (Times vary: run the cell twice.)

# %% Four memories [markdown] exercise="u00-four-memories" points=2 minutes=5 difficulty=2 importance=5
# Ask four people how much memory a training process takes on a GPU, and you get four answers, all right:
#
# ![Four nested boxes: saved inside allocated inside reserved inside driver memory. Each larger one adds something: other live tensors, free blocks of the caching allocator, memory outside PyTorch.](memories.svg)
#
# **Write** `four_memories`: the bytes in each box, a dictionary of `"saved_bytes"`, `"allocated_bytes"`, `"reserved_bytes"` and `"driver_bytes"`, each an `int` and worth a quarter of the points.
#
# | given | |
# |---|---|
# | `live_bytes` | bytes of all live tensors by category, each tensor in exactly one; `"saved_for_backward"` is always there, other categories vary |
# | `cached_bytes` | bytes of the allocator's free blocks |
# | `outside_bytes` | the process's bytes outside PyTorch |
#
# *By hand:* `{"parameters": 100, "saved_for_backward": 40}` live, 10 cached, 500 outside → saved **40**, allocated **140**, reserved **150**, driver **650**.


# %% solution="u00-four-memories"
def four_memories(
    live_bytes: dict[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """Saved, allocated, reserved and driver memory of a process on a GPU, in bytes."""
    ### BEGIN SOLUTION
    live = sum(live_bytes.values())
    return {
        "saved_bytes": live_bytes["saved_for_backward"],
        "allocated_bytes": live,
        "reserved_bytes": live + cached_bytes,
        "driver_bytes": live + cached_bytes + outside_bytes,
    }
    ### END SOLUTION


# %%
try_it(four_memories, {"parameters": 100, "saved_for_backward": 40}, 10, 500)

# %% check="u00-four-memories"
# Any number of categories in any order, empty ones too; with and without a cache.

# %% [markdown]
# <details><summary>Hint: only some of the four are right</summary>
#
# Which box is the smallest? What does each larger box add to the one inside it?
# </details>

# %% [markdown]
# ## Where you are, and handing in

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ✓ right, ✗ not right yet, ○ not tried, ✎ read by a person, who also gives its points. **Extra** exercises earn bonus points.
#
# 1. **Save**: Ctrl-S.
# 2. **Validate**: the button above the notebook runs everything in a fresh kernel and lists each check that does not earn all its points (it calls that "partial credit", even at 0 points).
# 3. **Hand in**: in a terminal, in the course folder, run `make submit UNIT=00`. It checks that the notebook is saved and complete, and writes one file to `work/hand_in`. Upload that file where your instructor tells you to.
#
# **Damaged a cell?** `original("u00-state-gib")` prints it as it was, for you to copy back. **Damaged more?** In a terminal, `make fresh UNIT=00` gives you a fresh notebook with your answers in it, and keeps the old one. Add `CELL=u00-state-gib` to reset only that cell. **Passed, and want another round?** `make practice UNIT=00` gives the checks that you have passed new sizes; your points stay.

# %%
original("u00-state-gib")

# %% [markdown]
# **Your plan** is still empty. When your function passes its check in a later unit, it becomes part of the plan, and a module of your own in `work/planner`:

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## What you know now
#
# | quantity | formula |
# |---|---|
# | bytes of a tensor | product of its sizes × bytes of an element |
# | GiB | bytes ÷ 2³⁰ |
# | seconds of a step, at best | $b \cdot s \cdot$ FLOPs per token ÷ FLOP/s |
# | four memories | saved ≤ allocated ≤ reserved ≤ driver |
#
# *Further reading:* PyTorch's *CUDA semantics*, on memory management (10 minutes): allocated and reserved, explained by the people who wrote it.
