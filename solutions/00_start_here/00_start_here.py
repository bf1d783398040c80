# ---
# jupyter:
#   course:
#     title: Start here
#     minutes: 30
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

# %% [markdown]
# # 00 · Start here
#
# You solve five small exercises to learn how a notebook works, and you learn the words and the units of measure (GiB, FLOPs, tokens) that all later notebooks use.
#
# | time | device | before this |
# |---|---|---|
# | 30 minutes | CPU | nothing |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like. Work from top to bottom: **Shift-Enter** runs a cell and goes on to the next.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Predict** a number, **compute** it with a function of your own, **measure** it, and **explain** the gap.
# 2. **Convert** between GB and GiB, and tell FLOPs from FLOP/s and tokens from sequences.
# 3. **Name** the four memories of a training process and say which is which.
# 4. **Check**, validate and hand in a notebook, and mend one that you damaged.

# %% [markdown]
# ## Setup
#
# Run this cell first. It says whether anything is missing.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import torch

from autograder import answer, check, compare, original, predict, progress
from course_utils.instruments import storage_bytes
from course_utils.show import computed_and_measured, explorer, same_bytes_two_numbers, try_it

# %% [markdown]
# ## A tour in two minutes
#
# Inside a model, a batch of text is a tensor of shape `(b, s, h)`: `b` sequences of `s` tokens, and `h` numbers for each token, the **hidden size**. Here is the smallest one worth looking at: two sequences, three tokens, four numbers, each in **bf16**, a format that takes 2 bytes.

# %%
batch = torch.zeros(2, 3, 4, dtype=torch.bfloat16)
batch

# %% [markdown]
# How much memory does it hold? This course never takes a formula's word for it: an **instrument** looks. `storage_bytes` asks PyTorch for the size of the **storage**, the piece of memory behind a tensor.

# %% tags=["nbval-check-output"]
storage_bytes(batch)

# %% [markdown]
# Every exercise has a **check**. It tries your function on sizes that you did not choose and compares with the instrument. Here is a wrong function. Run its check and read what comes back: what was wanted, what came, for which sizes, and a hint.


# %%
def sum_of_sizes(shape, element_bytes):
    return sum(shape) * element_bytes


check("u00-tensor-bytes", sum_of_sizes)

# %% [markdown]
# A hint always ends in a question; it never gives the code. The number below the message is the points earned. Run a check as often as you like, and after a change run the cells below it again.
#
# A **core** exercise belongs to the unit; an **extra** one earns bonus points. ✎ marks a text that a person reads.

# %% [markdown]
# ## Predict, implement, measure, explain
#
# The rest of the course is many turns of this loop. Here is the first.
#
# **Predict.** A batch of 4 sequences of 2,048 tokens, 1,024 numbers for each token, every number in bf16, which takes 2 bytes. How many bytes is that? Put your guess in place of `None`, as `8_000_000` or `8e6`, without a calculator. Being wrong costs nothing.

# %%
predict("u00-batch", None, "bytes")

# %% Bytes of a tensor [markdown] exercise="u00-tensor-bytes" points=2 minutes=3 difficulty=1 importance=5
# **Write** `tensor_bytes`: from the shape of a tensor and the bytes of one element to the bytes of the whole tensor, an `int`.
#
# A shape has any number of axes. With no axis at all, `()`, a tensor is a single number.
#
# *Worked case:* shape `(2, 3)` in fp32, 4 bytes each: 6 numbers, **24 bytes**.


# %% solution="u00-tensor-bytes"
def tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a dense tensor.

    Args:
        shape: Sizes of the axes.
        element_bytes: Bytes of one element.
    """
    ### BEGIN SOLUTION
    num_bytes = element_bytes
    for size in shape:
        num_bytes *= size
    return num_bytes
    ### END SOLUTION


# %%
try_it(tensor_bytes, (2, 3), 4)

# %% check="u00-tensor-bytes"
# Zero to four axes, odd sizes, an empty axis; 1 to 8 bytes an element.

# %% [markdown]
# <details><summary>My answer is off by a factor that changes with the case</summary>
#
# Divide your answer by the wanted one. Is the ratio one of the sizes, or the bytes of an element? Which of them enters your product twice, or never?
# </details>
#
# <details><summary>It works for my shape and fails for another</summary>
#
# How many axes does your code expect? What would it do with one axis, or with none?
# </details>

# %% [markdown]
# **Measure.** Now the instrument, on the batch of your prediction. The cell takes your function if its check passes, and the course's own otherwise, so that an open exercise never stops you. (Only inside an answer of yours the course's own does not count.)

# %% tags=["nbval-check-output"]
bytes_of = answer("u00-tensor-bytes", tensor_bytes)
real_batch = torch.empty(4, 2048, 1024, dtype=torch.bfloat16)
compare(
    "u00-batch",
    "bytes",
    computed=bytes_of((4, 2048, 1024), 2),
    measured=storage_bytes(real_batch),
)

# %% [markdown]
# The same over five lengths: the function draws the line, the instrument the dots.


# %%
def measured_bytes(length):
    return storage_bytes(torch.empty(4, length, 1024, dtype=torch.bfloat16))


lengths = [512, 1024, 2048, 4096, 8192]
computed_and_measured(
    lengths,
    computed=[bytes_of((4, length, 1024), 2) for length in lengths],
    measured=[measured_bytes(length) for length in lengths],
    size_label="tokens in a sequence",
    unit="bytes",
)

# %% [markdown]
# Formula and instrument agree, until they do not. Keep only the first of the 2,048 tokens of each sequence:

# %%
first_token = real_batch[:, :1]
first_token.shape

# %% [markdown]
# **Predict.** How many bytes does `first_token` hold in memory?

# %%
predict("u00-first-token", None, "bytes")

# %% tags=["nbval-check-output"]
compare(
    "u00-first-token",
    "bytes",
    computed=bytes_of(tuple(first_token.shape), 2),
    measured=storage_bytes(first_token),
)

# %% Why does the small one hold so much? [markdown] exercise="u00-view" points=1 minutes=3 difficulty=2 importance=4
# **Explain.** Both numbers are right: the formula counts the numbers in `first_token`, the instrument sees the memory behind it. Such a slice is a **view**: a shape of its own over the storage of another tensor.
#
# **Write** two sentences: why does the whole storage stay as long as `first_token` lives? What changes if you write `real_batch[:, :1].clone()` instead, and why?
#
# Double-click the cell below to write. You may try things out in a cell of your own first.

# %% [markdown] text_answer="u00-view"
# <!-- BEGIN SOLUTION -->
# `first_token` is a *view*: it has a shape of its own but shares the storage of `real_batch`, and a storage is freed as a whole, when nothing uses it any more. So 16 MiB are kept alive for 8 KiB.
# `.clone()` makes a copy with a small storage of its own; when `real_batch` and the view are gone, the large storage is freed.
#
# *Rubric:* half for the shared storage, half for the copy that lets the rest go.
# <!-- END SOLUTION -->

# %% [markdown]
# <details><summary>I do not know what to look for</summary>
#
# Ask the instrument about both: what does `storage_bytes` say of the slice, and what of its clone? Which of the two can stay when `real_batch` is deleted, and what must stay with it?
# </details>

# %% [markdown]
# Gaps like this one are what the course is about. When a training run takes more memory than the formula says, the gap has a name.

# %% [markdown]
# ## Words and units that are never mixed
#
# | never mix | with | because |
# |---|---|---|
# | **GB**, 10⁹ bytes | **GiB**, 2³⁰ bytes | papers print GB, torch's messages GiB; a GiB has 7.4 % more bytes (2³⁰ ÷ 10⁹ = 1.074), so the number in GiB is 6.9 % smaller (1 ÷ 1.074 = 0.931) |
# | **FLOPs**, a count of floating-point operations | **FLOP/s**, a rate | work against speed; work ÷ speed = time |
# | **tokens** | **sequences** | 4 sequences of 2,048 tokens are 8,192 tokens |
# | bytes **saved** for backward | **allocated**, **reserved**, **driver** memory | four numbers for one process, see below |

# %% What a paper prints and what torch prints [markdown] exercise="u00-state-gib" points=1 minutes=2 difficulty=1 importance=4
# A lecture's table says that a model of 7 billion parameters fills 112 GB in training: 16 bytes for each parameter, for its weights, gradients and optimizer states. Torch's messages show GiB.
#
# **Write** `state_gib`: parameters and bytes for each of them to **GiB**, a `float`, right to nine digits.
#
# *Worked case:* 2³⁰ parameters of 2 bytes: **2.0** GiB.


# %% solution="u00-state-gib"
def state_gib(num_params: int, bytes_per_param: int) -> float:
    """GiB that a model's weights, gradients and optimizer states fill.

    Args:
        num_params: Parameters of the model.
        bytes_per_param: Bytes for each of them.
    """
    ### BEGIN SOLUTION
    num_bytes = num_params * bytes_per_param
    return num_bytes / 1024**3
    ### END SOLUTION


# %%
try_it(state_gib, 2**30, 2)

# %% check="u00-state-gib"
# A million to a trillion parameters, 1 to 18 bytes each.

# %% [markdown]
# <details><summary>My number is 7.4 % too large</summary>
#
# How many bytes are a GB, and how many a GiB? Which of them do you divide by?
# </details>

# %% [markdown]
# Move the sliders: how far apart are the two numbers for a model of 405 billion parameters at 16 bytes each?

# %%
explorer(
    same_bytes_two_numbers,
    billion_parameters=([1, 3, 7, 8, 13, 70, 405], 7),
    bytes_per_parameter=([2, 4, 16, 18], 16),
)

# %% [markdown]
# The same picture standing still, for readers on paper:

# %%
same_bytes_two_numbers(billion_parameters=70, bytes_per_parameter=16)

# %% How long does a step take? [markdown] exercise="u00-step-seconds" points=1 minutes=3 difficulty=2 importance=4
# A training step works through a batch of sequences. Each token costs a number of FLOPs; the device works at a number of FLOP/s.
#
# **Write** `step_seconds`: the **seconds** of one step, a `float`, right to nine digits.
#
# *Worked case:* 4 sequences of 1,000 tokens, 6·10⁹ FLOPs for each token, 10¹⁴ FLOP/s: **0.24** s.


# %% solution="u00-step-seconds"
def step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """Seconds that one training step takes at a steady rate.

    Args:
        num_sequences: Sequences in the batch.
        seq_len: Tokens of each sequence.
        flops_per_token: FLOPs, a count, spent on one token.
        flops_per_second: FLOP/s, the rate of the device.
    """
    ### BEGIN SOLUTION
    num_tokens = num_sequences * seq_len
    return num_tokens * flops_per_token / flops_per_second
    ### END SOLUTION


# %%
try_it(step_seconds, 4, 1000, 6 * 10**9, 10**14)

# %% check="u00-step-seconds"
# One sequence and thousands, odd lengths, rates from a laptop to a cluster.

# %% [markdown]
# <details><summary>My number is huge, or tiny</summary>
#
# Write the unit behind each of the four numbers. Which product of them is a count of FLOPs? What do you get when you divide FLOPs by FLOP/s?
# </details>

# %% Four memories [markdown] exercise="u00-four-memories" points=2 minutes=4 difficulty=2 importance=5
# Ask four people how much memory a training process takes on a GPU, and each is right:
#
# - autograd: `"saved_bytes"`, the tensors that it keeps for the backward pass,
# - PyTorch: `"allocated_bytes"`, all live tensors, whatever they are for,
# - its **caching allocator**, which keeps memory of tensors that are gone for the next ones: `"reserved_bytes"`, live tensors and these free blocks,
# - the GPU's **driver**, as `nvidia-smi` shows it: `"driver_bytes"`, all of that and what the process takes outside of PyTorch, such as the code of its kernels.
#
# **Write** `four_memories`: a dictionary with these four keys, in bytes. Each is a quarter of the points. Live tensors come by category; there may be others than those of the worked case, and each tensor is in one.
#
# *Worked case:* `{"parameters": 100, "saved_for_backward": 40}` live, 10 cached, 500 outside: saved **40**, allocated **140**, reserved **150**, driver **650**.


# %% solution="u00-four-memories"
def four_memories(
    live_bytes: dict[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The four memories of a training process on a GPU, in bytes.

    Args:
        live_bytes: Bytes of live tensors by category; one is "saved_for_backward".
        cached_bytes: Free blocks that the caching allocator keeps for later.
        outside_bytes: What the process takes outside of PyTorch's allocator.

    Returns:
        "saved_bytes", "allocated_bytes", "reserved_bytes" and "driver_bytes".
    """
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
# Categories in any number and order, empty ones too; with and without a cache.

# %% [markdown]
# <details><summary>Only some of the four are right</summary>
#
# Draw four boxes, one inside the other. Which box is the smallest? What does each larger one hold besides the one inside it?
# </details>

# %% [markdown]
# ## Where you are, and handing in

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ✓ right, ✗ not yet right, ○ not tried, ✎ read by a person.
#
# 1. **Save**: Ctrl-S.
# 2. **Validate**: the button above the notebook runs everything from a fresh kernel and lists each check that does not earn all its points ("partial credit", even where it is none).
# 3. **Hand in**: in a terminal, in the course's folder, `make submit UNIT=00`. It looks whether the notebook is saved and complete, says what you hand in, and writes one file into `work/hand_in`. Upload that file where your instructor says.

# %% [markdown]
# **A cell is damaged?** This prints it as it came, to be copied back:

# %%
original("u00-state-gib")

# %% [markdown]
# **More is damaged?** In a terminal, in the course's folder, `make fresh UNIT=00` gives you a fresh notebook with your answers and your own cells in it, and keeps the old one. With `CELL=u00-state-gib` behind it, it sets only that cell back.

# %% [markdown]
# ## Recap
#
# 1. *Predict, compute, measure, explain*: a formula counts numbers, an instrument looks at memory, and a view is where the two part.
# 2. *Units*: GiB = bytes ÷ 2³⁰; tokens = sequences × length; seconds = FLOPs ÷ FLOP/s.
# 3. *Four memories*: saved ≤ allocated ≤ reserved ≤ driver.
# 4. *Check → save → validate → hand in*; `original` and `make fresh` mend what breaks.
#
# | quantity | formula |
# |---|---|
# | bytes of a tensor | product of its sizes × bytes of an element |
# | seconds of a step | b · s · FLOPs per token ÷ FLOP/s |
#
# ## Further reading
#
# - PyTorch documentation, *CUDA semantics*, on memory management (10 minutes): allocated against reserved, from those who wrote it.
# - NIST, on prefixes for binary multiples (2 minutes): where the i in GiB comes from.
