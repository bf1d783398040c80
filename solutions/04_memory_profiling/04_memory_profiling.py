# ---
# jupyter:
#   course:
#     title: Memory profiling
#     minutes: 120
#     device: CPU
#     lecture: [E6, E8, S10]
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
# # 04 · Memory profiling
#
# What is in memory at every moment of a training step, and where is the most? You read the line that a trace of memory draws, predict its peak and place it. Then you repair loops that leak, and build what stands between your program and the device: an allocator.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture E (*Efficient LLMs*), one training step (E6) and the memory of its first four (E8); lecture S (*Scaling LLM Training, Part I*), memory over a step (S10) | 120 minutes, and 35 for the extras | CPU | 00, 03 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Read** a trace of memory and find its peak.
# 2. **Compute** what is live at each moment of a training step.
# 3. **Predict** and place the peak of a Llama's training step.
# 4. **Repair** loops that leak.
# 5. **Explain** what a caching allocator adds: rounding, splitting, reserved against allocated.

# %% [markdown]
# ## Symbols
#
# | here | lecture E | lecture S | meaning |
# |---|---|---|---|
# | b | bs, mbs | bs | sequences of a micro-batch |
# | s | seq | L | tokens of a sequence |
# | h | h | D | width of the hidden states |
# | a | n_heads | H | query heads; a_kv for keys and values |
# | L | L | num_layers | layers |
# | v | v | | words of the vocabulary |
# | N | N | P | parameters |

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import answer, check, compare, predict
from course_utils.configs import Kernels, ModelConfig, RunConfig, precision, preset
from course_utils.instruments import fake_tensors, measure_peak, trace_allocator, trace_memory
from course_utils.reference import Block, Training, Transformer
from course_utils.reference.allocator import CachingAllocator
from course_utils.reference.allocator_replay import Device, serve
from course_utils.show import (
    allocator_levels,
    computed_and_measured,
    explorer,
    memory_timeline,
    memory_timelines,
    recorded,
    try_it,
)

# %% [markdown]
# ## A tour: the life of every tensor
#
# Unit 03 counted what is kept when the forward pass is over. But memory is a *line*: it rises when an operation makes a tensor, and falls when nothing refers to it any more. An instrument draws this line. It numbers the operations from 1 and notes for each storage, the memory behind a tensor and its views, by which operation it was `born`, and the first operation after it `died`.


# %% tags=["nbval-check-output"]
layer = nn.Linear(3, 5)


def tiny_step():
    torch.relu(layer(torch.ones(2, 3))).sum().backward()


tiny_trace = trace_memory(tiny_step, layer)
pd.DataFrame(tiny_trace.storages).astype({"died": "Int64"})

# %% [markdown]
# What you name, here the layer, is there from the beginning, `born` at 0. `died` is `<NA>` where a storage outlives the trace: weights and gradients. Five **categories**: *parameters*, *optimizer states*, *gradients*; *activations*, which the forward pass makes and leaves to the backward pass; and *temporaries*, all the rest. The result of the linear layer is a temporary, because `relu` keeps its own result and nobody needs its input again. Operations without a row made only a view, a window on a storage that is there; `ones_like` is the gradient of the loss, 1, made as the backward pass is called.

# %%
memory_timeline(tiny_trace)

# %% [markdown]
# The axis counts operations, and not time. Thin lines mark where a phase begins.

# %% [markdown]
# Now break it on purpose. A model takes part that nobody named:

# %% tags=["nbval-check-output"]
try:
    trace_memory(tiny_step)
except ValueError as error:
    print(error)

# %% [markdown]
# The trace has to know them: weights made before it began would be missing from the line.
#
# Eight layers, once in training and once under `no_grad` (S10):

# %%
layers = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(8)))
batch = torch.ones(512, 256)


def training_step():
    layers(batch).sum().backward()
    layers.zero_grad()


@torch.no_grad()
def inference():
    layers(batch).sum()


lines = {
    "training": trace_memory(training_step, layers),
    "under no_grad": trace_memory(inference, layers),
}
memory_timelines(lines)

# %% [markdown]
# In training the line climbs through the forward pass, because every layer leaves something, and comes down through the backward pass, which uses it up. Without gradients it goes nowhere: each result is freed when the next one is there.

# %% [markdown]
# ## From births and deaths to the peak

# %% The peak of a line [markdown] exercise="u04-peak-of-line" points=1.5 minutes=9 difficulty=2 importance=4
# **Write** `peak`: from the storages of a trace three `int`s in a dictionary, each a third of the points:
#
# | key | what |
# |---|---|
# | `"peak_bytes"` | the most bytes that are live at once |
# | `"operation"` | the first operation at which they are |
# | `"end_bytes"` | bytes live at the last operation |
#
# `storages` is a list of tuples `(born, died, num_bytes)`. A storage is live **from** operation `born` on, and **no longer** at operation `died`; `died` is `None` if it outlives the trace. Operations have the numbers 0, for what is there before any has run, to `num_operations`, the last. What is freed after the last operation has `died` = `num_operations` + 1.
#
# *Worked case:* 5 operations; 60 bytes that stay, 24 born at 1 and dead at 4, 40 born at 3 and freed after the last operation: **124** bytes at operation **3**, and **100** at the end.


# %% solution="u04-peak-of-line"
def peak(storages: list[tuple[int, int | None, int]], num_operations: int) -> dict[str, int]:
    """Peak and end of the line that storages draw.

    Args:
        storages: Of each the operation that made it, the first one after it was freed or None,
            and its bytes.
        num_operations: Number of the last operation.

    Returns:
        "peak_bytes", "operation" and "end_bytes".
    """
    ### BEGIN SOLUTION
    line = []
    for operation in range(num_operations + 1):
        live_bytes = 0
        for born, died, num_bytes in storages:
            is_born, is_dead = born <= operation, died is not None and died <= operation
            if is_born and not is_dead:
                live_bytes += num_bytes
        line.append(live_bytes)
    highest = max(line)
    return {
        "peak_bytes": highest,
        "operation": line.index(highest),
        "end_bytes": line[num_operations],
    }
    ### END SOLUTION


# %%
try_it(peak, [(0, None, 60), (1, 4, 24), (3, 6, 40)], 5)

# %% check="u04-peak-of-line"
# Peaks at the beginning, inside, at the end and twice; deaths beside births and at the end.

# %% [markdown]
# <details><summary>My peak is too high where one dies and another is born</summary>
#
# Write down, for one storage, the operations at which it is live. Is `died` among them?
# </details>
#
# <details><summary>Only the end is wrong</summary>
#
# How many entries has your line, and which operation does the first of them belong to?
# </details>

# %% [markdown]
# **Measure.** Your function on the training step of the eight layers, beside what the instrument says:

# %% tags=["nbval-check-output"]
peak_of = answer("u04-peak-of-line", peak)
layers_trace = lines["training"]
lives = [(each.born, each.died, each.storage_bytes) for each in layers_trace.storages]
print(peak_of(lives, layers_trace.num_operations))
print(layers_trace)

# %% [markdown]
# **Explain.** Births and deaths are enough to find a peak. In the end the gradients are still there, since `zero_grad` frees them after the last operation; `batch`, made before the trace and not named, is in no number. What a peak is made *of* stands in the same list:

# %% tags=["nbval-check-output"]
pd.Series(layers_trace.live_at(layers_trace.peak_at), name="bytes at the peak")

# %% [markdown]
# ## The moments of a training step
#
# A training step has three phases (E6): the **forward pass** ends with the loss, the **backward pass** ends with a gradient for every parameter, and the **optimizer's step** changes the parameters, whereupon the gradients are freed. On the lecture's slide it is noted by hand what lives when; write it as numbers.
#
# **Predict.** A Llama-3.2-1B, 1,235,814,400 parameters, trains in fp32 with AdamW. How many GiB are live when its *second* step begins?

# %%
predict("u04-second-start", None, "GiB")

# %% What is live when [markdown] exercise="u04-moments" points=2 minutes=14 difficulty=3 importance=5
# **Write** `moments`: bytes live at four moments of one training step in **fp32 with AdamW**, a dictionary of four `int`s, each a quarter of the points:
#
# | key | moment |
# |---|---|
# | `"before_forward"` | the step begins |
# | `"after_forward"` | the loss is there |
# | `"after_backward"` | every parameter has its gradient |
# | `"after_step"` | the optimizer is done, and gradients have been freed or set to zero |
#
# - `num_params` parameters lie in `num_tensors` tensors. AdamW keeps two **running means** for each *parameter*, of its gradient and of the square (papers call them Adam's *moments*), and for each *tensor* the number of its steps, one number of 4 bytes.
# - `kept_bytes` is all that the forward pass leaves live. Nothing of it is left after the backward pass.
# - `step` counts from 1. Nothing is made before it is needed for the first time.
# - `is_grad_let_go`: whether `zero_grad(set_to_none=True)` frees the gradients. Else `zero_grad(set_to_none=False)` fills them with zeros.
#
# *Worked case:* 10 parameters in 2 tensors, 100 bytes kept, gradients freed: in step 1 **40**, **140**, **80** and **128**; in step 2 **128**, **228**, **168** and **128**.


# %% solution="u04-moments"
def moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_let_go: bool
) -> dict[str, int]:
    """Bytes live at four moments of a training step in fp32 with AdamW.

    Args:
        num_params: Parameters N.
        num_tensors: Tensors in which they lie.
        kept_bytes: What the forward pass leaves live.
        step: Number of the training step, from 1.
        is_grad_let_go: Whether gradients are freed after each step, or set to zero.

    Returns:
        "before_forward", "after_forward", "after_backward" and "after_step".
    """
    ### BEGIN SOLUTION
    is_first = step == 1
    of_weights, of_gradients = 4 * num_params, 4 * num_params
    of_adam = 2 * 4 * num_params + 4 * num_tensors
    stays = of_weights + of_adam if is_grad_let_go else of_weights + of_adam + of_gradients
    start = of_weights if is_first else stays
    return {
        "before_forward": start,
        "after_forward": start + kept_bytes,
        "after_backward": of_weights + of_gradients + (0 if is_first else of_adam),
        "after_step": stays,
    }
    ### END SOLUTION


# %%
try_it(moments, 10, 2, 100, 1, True)
try_it(moments, 10, 2, 100, 2, True)

# %% check="u04-moments"
# Real training steps: the first and later ones; gradients freed and set to zero.

# %% [markdown]
# <details><summary>Only the first step is wrong</summary>
#
# Follow step 1 line by line: forward, backward, `optimizer.step()`. At which line does Adam need its running means for the first time?
# </details>
#
# <details><summary>Later steps with zeroed gradients are wrong</summary>
#
# How many bytes does a tensor of zeros take? Does the next backward pass need another tensor, or add to this one?
# </details>

# %% [markdown]
# **Measure.** Three steps of a small network, traced, beside your numbers:


# %% tags=["nbval-check-output"]
small = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
adamw = torch.optim.AdamW(small.parameters(), foreach=False)
data = torch.ones(32, 64)


def small_step():
    small(data).square().mean().backward()
    adamw.step()
    adamw.zero_grad()


small_trace = trace_memory(small_step, small, adamw, num_steps=3)
ends = [small_trace.total_bytes[0], *(phase.end_bytes for phase in small_trace.phases)]
small_sizes = [each.numel() for each in small.parameters()]
moments_of = answer("u04-moments", moments)
rows = []
for n in (1, 2, 3):
    made = moments_of(sum(small_sizes), len(small_sizes), ends[1] - ends[0], n, True)
    for (name, computed), live in zip(made.items(), ends[3 * n - 3 :], strict=False):
        rows.append({"step": n, "moment": name, "computed": computed, "measured": live})
pd.DataFrame(rows).assign(equal=lambda table: table["computed"] == table["measured"])

# %% [markdown]
# And the Llama of the prediction, on fake tensors: the same operations, and no memory. The whole training step of the course is `Training`; one sequence of 1,024 tokens, four steps:


# %% tags=["nbval-check-output"]
def trace_llama(seq_len, num_steps=4, adamw="for-loop", **options):
    options = {"precision": precision("fp32"), "is_loss_fp32": True} | options
    run = RunConfig(seq_len=seq_len, **options)
    with fake_tensors():
        training = Training(preset("Llama-3.2-1B"), run, adamw=adamw)
        return trace_memory(training.step, *training.owners, num_steps=num_steps)


traces = {1024: trace_llama(1024)}
llama_weights = [each for each in traces[1024].storages if each.category == "parameters"]
num_params = sum(each.storage_bytes // 4 for each in llama_weights)
print(f"{num_params:,} parameters in {len(llama_weights)} tensors")

# %% tags=["nbval-check-output"]
compare(
    "u04-second-start",
    "GiB",
    computed=moments_of(num_params, len(llama_weights), 0, 2, True)["before_forward"] / 2**30,
    measured=traces[1024].phases[2].end_bytes / 2**30,
)

# %% [markdown]
# **Explain.** Step 1 begins with 4 N bytes and step 2 with 12 N, because Adam's running means come at the *end* of step 1: 8 N, twice the weights. A slide (E8) gives another reason why step 1 differs: PyTorch's caching allocator is then asking the device for memory that later steps find ready. That is true too; it costs *time*, and it concerns what is reserved (below), which no line of live bytes shows. The slide's picture starts lower because of Adam.

# %% [markdown]
# ## Four steps of a Llama
#
# **Predict.** The same model at 4,096 tokens, one sequence, fp32, fused attention: how many GiB at the peak of four steps?

# %%
predict("u04-peak-4096", None, "GiB")

# %% tags=["nbval-check-output"]
traces |= {seq_len: trace_llama(seq_len) for seq_len in (2048, 4096)}
compare("u04-peak-4096", "GiB", measured=traces[4096].peak_bytes / 2**30)

# %%
memory_timeline(traces[4096])

# %% [markdown]
# The picture of the lecture (E8), for this model. Read it from the left:
#
# - **forward**: activations climb, layer after layer. At its end stands a spike of temporaries, the loss.
# - **backward**: activations come down and gradients go up, each layer in turn. The thin band of temporaries on top is *one* gradient: that of the output head, finished first. The matrix is the embedding's too (it is **tied**), so that its gradient has to wait for its other half until the end.
# - **optimizer's step**: in step 1 the running means are made; later only a spike at its start, explained in *For a moment only*. Then the gradients go.
#
# A step by itself shows the loss, the thinnest of spikes, and the phases:

# %%
memory_timeline(traces[4096], 2)

# %% [markdown]
# Steps 2, 3 and 4 are alike, to the byte:

# %% tags=["nbval-check-output"]
print([trace.peak_bytes_of(step) for trace in traces.values() for step in (2, 3, 4)])

# %% [markdown]
# Step 2 alone, for three lengths on one scale:

# %%
memory_timelines({f"{s:,} tokens": trace for s, trace in traces.items()}, step=2)

# %% [markdown]
# The peak *moves*. At 4,096 tokens it is the loss; at 1,024 it is the end of the backward pass, where the two halves of the embedding's gradient meet. What would help at one length does nothing at the other. Move the sliders, and read in the caption what is live at the peak, and which tensor is the largest beside the parameters:


# %%
def llama_timeline(seq_len, step):
    return memory_timeline(traces[seq_len], None if step == "all" else step)


explorer(
    llama_timeline,
    seq_len=(list(traces), 1024),
    step=(["all", 1, 2, 3, 4], 2),
)

# %% [markdown]
# One of these pictures standing still:

# %%
llama_timeline(1024, 2)

# %% [markdown]
# ## For a moment only: the optimizer
#
# AdamW divides the running mean of the gradient by the root of the running mean of its square. PyTorch computes that in three ways:
#
# | `adamw` | how | what lives for a moment |
# |---|---|---|
# | `"for-loop"` | one tensor of parameters after the other | the **root** and the **quotient**, each as large as the tensor, until the next tensor's turn |
# | `"foreach"` | each operation for all tensors at once, with few kernel launches: PyTorch's choice on a GPU | the roots of **all** tensors; the division is done in place |
# | `"fused"` | one kernel that keeps its numbers in registers | nothing |
#
# With a **master copy** (bf16 weights, fp32 copies for the optimizer) each gradient is turned to fp32 as well: in the loop and for the fused kernel just before the update of its tensor, and freed after it; for `"foreach"` all of them before the update.
#
# **Predict.** At 1,024 tokens the peak was 20.4 GiB with the loop. How many GiB is it with `"foreach"`?

# %%
predict("u04-foreach", None, "GiB")

# %% What the update needs for a moment [markdown] exercise="u04-optimizer-temporaries" points=1.5 minutes=8 difficulty=3 importance=3
# **Write** `temporary_bytes`: the most bytes that the update needs at once *beside* what is there before and after it, an `int`. `sizes` are the numbers in each tensor of parameters; `adamw` is one of the three ways; `is_mixed` says whether there is a master copy. Everything that the optimizer computes is in fp32. All of it happens in step 2 or later, when the running means are there. All or nothing.
#
# In `"for-loop"` each tensor has an optimizer of its own here; with a single one, the previous tensor's quotient is still held while the next root is made.
#
# *Worked case:* three tensors of 3, 5 and 2 numbers, `"for-loop"`, no master copy: **40**.


# %% solution="u04-optimizer-temporaries"
def temporary_bytes(sizes: list[int], adamw: str, is_mixed: bool) -> int:
    """Most bytes that live for a moment while AdamW updates.

    Args:
        sizes: Numbers in each tensor of parameters.
        adamw: "for-loop", "foreach" or "fused".
        is_mixed: Whether the optimizer updates fp32 copies of bf16 weights.
    """
    ### BEGIN SOLUTION
    gradient_copies = 1 if is_mixed else 0
    if adamw == "foreach":
        return (1 + gradient_copies) * 4 * sum(sizes)
    root_and_quotient = 2 if adamw == "for-loop" else 0
    return (root_and_quotient + gradient_copies) * 4 * max(sizes)
    ### END SOLUTION


# %%
try_it(temporary_bytes, [3, 5, 2], "for-loop", False)

# %% check="u04-optimizer-temporaries"
# Real updates in all six ways: one tensor, equal ones, one large among small ones, many.

# %% [markdown]
# <details><summary>Only some of the six ways are right</summary>
#
# For each way write down a time line for two tensors: what is made, when is it freed, and at which point are the most bytes live?
# </details>

# %% [markdown]
# **Measure.** Two steps with `"foreach"` at 1,024 tokens:

# %% tags=["nbval-check-output"]
temporary_of = answer("u04-optimizer-temporaries", temporary_bytes)
sizes = [each.storage_bytes // 4 for each in llama_weights]
in_step = moments_of(num_params, len(sizes), 0, 2, True)["after_backward"]
compare(
    "u04-foreach",
    "GiB",
    computed=(in_step + temporary_of(sizes, "foreach", False)) / 2**30,
    measured=trace_llama(1024, num_steps=2, adamw="foreach").peak_bytes / 2**30,
)

# %% tags=["nbval-check-output"]
ways = ("for-loop", "foreach", "fused")
table = {
    recipe: {way: temporary_of(sizes, way, recipe == "bf16") / 2**30 for way in ways}
    for recipe in ("fp32", "bf16")
}
pd.DataFrame(table).round(2)  # GiB for the Llama

# %% [markdown]
# **Explain.** On a GPU the peak of a short sequence is in the optimizer's step, unless you ask for `fused=True`: 4 N bytes of roots, as much as all weights, make 16 N into 20 N. In the loop it is the one largest tensor that counts, here the embedding.

# %% [markdown]
# ## Place the peak
#
# Three moments compete: the loss, the end of the backward pass, the optimizer's step. Now compute all three.

# %% Three candidates for the peak [markdown] exercise="u04-peak" points=3 minutes=15 difficulty=4 importance=5
# **Write** `peaks`: bytes live in step 2 of fp32 training with AdamW at three moments, a dictionary of three `int`s, each a third of the points. The model is a Llama with `num_params` parameters, N. Weights and running means, 12 N bytes, are there all the time; beside them:
#
# | key | moment | what is there beside 12 N |
# |---|---|---|
# | `"loss"` | the gradient of the logits has just been made | all that is kept, `kept_bytes`; the gradient of the log-softmax, and that of the logits, made *from it*. The logits are freed, and no parameter has its gradient yet |
# | `"backward"` | the gradient of the embedding, the last of all, is complete | the gradients of all parameters, and what this last one was made *from*. Nothing is kept any more |
# | `"step"` | the most in the optimizer's step | the gradients of all parameters, and `temporary_bytes` |
#
# Logits and both their gradients have the shape (`num_tokens`, `model.vocab_size`), hidden states and their gradient (`num_tokens`, `model.hidden_size`), the embedding's matrix (`model.vocab_size`, `model.hidden_size`). An embedding of its own has its gradient made from that of the hidden states. If `model.is_tied`, the matrix has two uses, and its gradient is the **sum** of two parts; that of the hidden states is freed by then:
#
# ```
# from the head                   ├───────────────────────┤
# from the embedding                                 ├────┤
# their sum, the gradient that stays                    ├─────────
#                                  time →               ↑ here
# ```
#
# Numbers that stand alone (the loss, Adam's counts of steps) are left out.
#
# *Worked case:* the small model below, tied, 132 parameters, 488 bytes kept, 2 tokens, 160 temporary bytes: **2,152**, **2,272** and **2,272**.


# %% solution="u04-peak"
def peaks(
    model: ModelConfig, num_params: int, kept_bytes: int, num_tokens: int, temporary_bytes: int
) -> dict[str, int]:
    """Bytes live at three moments of a training step in fp32 with AdamW.

    Args:
        model: Supplies ``vocab_size``, ``hidden_size`` and ``is_tied``.
        num_params: Parameters N.
        kept_bytes: What the forward pass leaves live.
        num_tokens: Tokens of the batch.
        temporary_bytes: What the optimizer needs for a moment.

    Returns:
        "loss", "backward" and "step".
    """
    ### BEGIN SOLUTION
    logits_bytes = 4 * num_tokens * model.vocab_size
    hidden_bytes = 4 * num_tokens * model.hidden_size
    matrix_bytes = 4 * model.vocab_size * model.hidden_size
    without_gradients, with_gradients = 12 * num_params, 16 * num_params
    # tied: two parts and their sum, one of which is the gradient that stays
    beside_gradients = 2 * matrix_bytes if model.is_tied else hidden_bytes
    return {
        "loss": without_gradients + kept_bytes + logits_bytes + logits_bytes,
        "backward": with_gradients + beside_gradients,
        "step": with_gradients + temporary_bytes,
    }
    ### END SOLUTION


# %%
tiny_llama = ModelConfig(
    num_layers=1, hidden_size=4, num_heads=1, ffn_size=3, vocab_size=5, is_tied=True
)
try_it(peaks, tiny_llama, 132, 488, 2, 160)

# %% check="u04-peak"
# Real training: tied and not; own and shared keys; one sequence and two; three ways of AdamW.

# %% [markdown]
# <details><summary>Only the loss is wrong</summary>
#
# Draw a box for every tensor as large as the logits: logits, log-softmax, and the gradient of each. Which of the four boxes exist at this moment, and which of them is in `kept_bytes` already?
# </details>
#
# <details><summary>Only the backward pass is wrong</summary>
#
# Do the tied and the untied model separately. Which tensors are live that are not a gradient which stays?
# </details>
#
# <details><summary>I do not know whether to count the sum</summary>
#
# The gradients of all parameters are 4 N bytes. Which of the three bars of the sketch is one of them?
# </details>

# %% [markdown]
# **Measure.** The three candidates for the Llama at three lengths in GiB, and the peak of the trace, numbers that stand alone left out of both:


# %% tags=["nbval-check-output"]
def without_single_numbers(trace):
    return replace(trace, storages=tuple(each for each in trace.storages if each.shape))


clean = {s: without_single_numbers(trace) for s, trace in traces.items()}
measured = {s: trace.peak_bytes_of(2) for s, trace in clean.items()}
end_of_forward = clean[4096].phases[3].stop - 1  # of step 2
kept_for_token = clean[4096].live_at(end_of_forward)["activations"] // 4096
in_loop = temporary_of(sizes, "for-loop", False)
peaks_of = answer("u04-peak", peaks)


def candidates(seq_len):
    kept = kept_for_token * seq_len
    return peaks_of(preset("Llama-3.2-1B"), num_params, kept, seq_len, in_loop)


table = pd.DataFrame({s: candidates(s) for s in traces})
table.loc["measured peak"] = measured
(table / 2**30).round(2)

# %% tags=["nbval-check-output"]
for s, peak_bytes in measured.items():
    print(f"{s:,} tokens: highest of three / measured {max(candidates(s).values()) / peak_bytes}")

# %% [markdown]
# **Explain.** To the byte. At 1,024 tokens the end of the backward pass and the optimizer's step are equal, because what is largest in the loop is the embedding too, twice. At 2,048 and 4,096 it is the loss: 2 · 4 sbv bytes of gradients on top of all that was kept. Such gradients are what the estimate of unit 03 left out. Fewer tokens at a time lower all of it; the loss computed in pieces, or logits that stay in bf16, lower the two gradients; recomputation (unit 05) lowers what is kept. Over the length the peak has a knee: flat while the state decides, then a straight line.

# %% tags=["nbval-check-output"]
flat = candidates(0)["backward"] - candidates(0)["loss"]
slope = candidates(1)["loss"] - candidates(0)["loss"]
knee = flat // slope
knee_in_words = (
    f"Flat at {candidates(0)['backward'] / 2**30:.2f} GiB up to {knee:,} tokens, where the loss "
    f"takes the lead, then {slope / 2**20:.1f} MiB a token."
)
print(knee_in_words)

# %%
clean |= {s: without_single_numbers(trace_llama(s, num_steps=2)) for s in (1536, 3072)}
lengths = sorted([*clean, knee])
computed_and_measured(
    lengths,
    computed=[max(candidates(s).values()) / 2**30 for s in lengths],
    measured=[clean[s].peak_bytes_of(2) / 2**30 if s in clean else None for s in lengths],
    size_label="tokens of the sequence",
    unit="peak in GiB",
    is_log=False,
    message=knee_in_words,
)

# %% [markdown]
# ## Above 50 GB?
#
# Lecture E says of its picture (E8): memory for one sequence is "shooting above 50 GB". With what you know: 1B, fp32, and instead of fused attention one that is **written out** (papers say *materialised*), which keeps every score in memory: 32 heads of 4,096 · 4,096 scores in each of 16 layers.
#
# **Predict.** How many GiB at the peak of step 2?

# %%
predict("u04-written-out", None, "GiB")

# %% tags=["nbval-check-output"]
written_out = trace_llama(4096, num_steps=2, kernels=Kernels(is_attention_fused=False))
in_bf16 = trace_llama(4096, num_steps=2, precision=precision("bf16"))
scores_bytes = 16 * 32 * 4096**2 * 4
compare(
    "u04-written-out",
    "GiB",
    computed=(traces[4096].peak_bytes_of(2) + scores_bytes) / 2**30,
    measured=written_out.peak_bytes / 2**30,
)

# %%
kinds = {"fp32, written out": written_out, "fp32, fused": traces[4096], "bf16, fused": in_bf16}
memory_timelines(kinds, step=2)

# %% [markdown]
# "Computed" is the fused peak and the scores of all layers. Name the gap: written out, attention keeps keys and values once for each of 32 query heads, fused for each of their own 8, and fused it keeps a log-sum-exp for each query and head.

# %% tags=["nbval-check-output"]
repeated, log_sum_exp = 2 * 4 * 4096 * (32 - 8) * 64, 4 * 32 * 4096
print(f"computed gap {16 * (repeated - log_sum_exp):,} bytes")
gap = written_out.peak_bytes_of(2) - traces[4096].peak_bytes_of(2) - scores_bytes
print(f"measured gap {gap:,}")

# %% [markdown]
# The peaks of steps 1 and 2, and what the source of the lecture's figure, the Ultra-Scale Playbook, states for its own (E8), in GiB:

# %% tags=["nbval-check-output"]
for name, each in kinds.items():
    print(f"{name}: " + ", ".join(f"{each.peak_bytes_of(n) / 2**30:.2f}" for n in (1, 2)))
source = {"parameters": 4.60, "optimizer_states": 9.21, "activations": 45.62}
ours = written_out.live_at(written_out.peak_at)
pd.DataFrame({"here": {name: ours[name] / 2**30 for name in ours}, "source": source}).round(2)

# %% tags=["nbval-check-output"]
print(f"the source's three together: {sum(source.values()):.2f} GiB, and its peak is 59.49")
print(f"here: {written_out.peak_bytes / 2**30:.2f} GiB are {written_out.peak_bytes / 10**9:.2f} GB")

# %% [markdown]
# **Explain.** The source's figure is fp32, and its peak is a moment without gradients, like ours. It states neither batch nor length: "one sequence" is the lecture's addition, which this trace of one sequence of 4,096 tokens makes plausible, activations being nearly the same. What is larger here are temporaries, the two gradients as large as the logits. Parts add up in GiB under an axis that says GB; mind the 7 %. And none of it is fate: fused attention alone brings the same sequence below half. bf16 then saves little more: it halves the activations, but weights, their master copy and the running means are 14 N bytes at the loss, where fp32 has 12 N.

# %% [markdown]
# ## What a trace does not see
#
# A trace follows tensors. It does not see what a kernel takes and gives back while it runs (a workspace for matrix products, a sum that a fused kernel keeps in fp32), nor what an allocator makes of each request (below). Some kernels of a GPU are others than a CPU's, too. So ask a real device, where there is one: `trace_allocator` draws what the GPU's allocator noted, and `measure_peak` reads its own peaks; without a GPU they say so, and the first traces the CPU.


# %% tags=["nbval-ignore-output"]
device = "cuda" if torch.cuda.is_available() else "cpu"
real_model = ModelConfig(num_layers=4, hidden_size=256, num_heads=4, ffn_size=704, vocab_size=8000)
real_run = RunConfig(seq_len=512, precision=precision("fp32"))
real = Training(real_model, real_run, device=device)
real_trace = trace_allocator(real.step, *real.owners, num_steps=2)
real_peak = measure_peak(real.step)
if real_peak is not None:
    print(real_peak)
memory_timeline(real_trace)

# %% [markdown]
# And what was recorded on a GPU, bytes of the trace beside those that its allocator gave:

# %% tags=["nbval-ignore-output"]
case = ["model_name", "seq_len", "precision", "policy", "adamw"]
recorded("memory", [*case, "traced_bytes", "measured.allocated_bytes", "rounded_by_allocated"])

# %% Read the picture to somebody [markdown] exercise="u04-read-picture" points=2 minutes=5 difficulty=2 importance=4
# **Write** four sentences for a colleague who sees the picture of four steps at 4,096 tokens for the first time, with its numbers: what is the floor on which steps 2 to 4 stand, why does step 1 start lower, what is the spike in the middle of each step, and what would lower that spike?
#
# Double-click the cell below to write.

# %% [markdown] text_answer="u04-read-picture"
# <!-- BEGIN SOLUTION -->
# The floor of steps 2 to 4 is 13.8 GiB: weights and Adam's two running means, 12 bytes for each of 1.24 billion parameters, whatever the batch. Step 1 starts with the weights alone, 4.6 GiB, because Adam makes its running means, 9.2 GiB, only when the optimizer steps for the first time, at the end of step 1. The spike is the beginning of the backward pass: 13.3 GiB of activations are all still there, and the loss makes two gradients as large as the logits, 3.9 GiB, on top of them. A shorter sequence or a smaller micro-batch lowers both parts; the loss in pieces, or in bf16, lowers the 3.9 GiB; bf16 or recomputation of layers lowers the 13.3 GiB (freeing gradients does not help: there are none at that moment).
#
# *Rubric:* half a point for each of the four; without its number a quarter.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Loops that leak
#
# A step gives back what it took. Where memory grows from step to step all the same, something in the loop holds tensors that nobody will use: a **leak**. A small model to look for some, and an instrument: what a call holds beside what was there before, at its peak and, in the end, while its result is held. (One thread is enough from here on: operations on tensors as small as these spend more time sharing their work than doing it.)


# %% tags=["nbval-check-output"]
torch.set_num_threads(1)
torch.manual_seed(0)
tiny = ModelConfig(num_layers=4, hidden_size=64, num_heads=4, ffn_size=256, vocab_size=500)
body = nn.Sequential(nn.Embedding(500, 64), *(Block(tiny, n) for n in range(4)))
head = nn.Linear(64, 500, bias=False)
model = nn.Sequential(body, head)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randint(500, (2, 2, 32)).unbind() for _ in range(8)]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def held(call):
    results = []
    call_trace = trace_memory(lambda: results.append(call()), model, optimizer)
    before = call_trace.total_bytes[0]
    left = call_trace.phases[-1].end_bytes
    return {"peak_bytes": call_trace.peak_bytes - before, "left_bytes": left - before}


print(held(lambda: loss_of(model(batches[0][0]), batches[0][1])))

# %% [markdown]
# The result is one loss of 4 bytes, and 1.7 MB are left: the loss holds its **graph**, and the graph every tensor saved for backward.
#
# **Smaller than its reputation.** A sum of losses that are not detached is the best-known "leak": PyTorch's own FAQ warns of it. Two loops, over 2, 4 and 8 batches:


# %% tags=["nbval-check-output"]
def summed(num_batches):
    total = 0.0
    for ids, targets in batches[:num_batches]:
        loss = loss_of(model(ids), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = total + loss
    return total


def collected(num_batches):
    return [loss_of(model(ids), targets) for ids, targets in batches[:num_batches]]


for loop in (summed, collected):
    left = [held(lambda loop=loop, n=n: loop(n))["left_bytes"] for n in (2, 4, 8)]
    print(f"{loop.__name__}: {left[0]:,}, {left[1]:,}, {left[2]:,} bytes left")

# %% [markdown]
# The sum costs nothing worth the name: its graph grows too, but `backward` **frees** the saved tensors that it walks through, and what is left are nodes and a few numbers (in a loop of millions they add up, and `.item()` is good style). The real leak is a graph that *no backward pass ever walks through*. Two loops that have one; you repair them. (A third leak without a graph is in *Going further*.)

# %% [markdown]
# ### A loss that nobody differentiates


# %%
def leaking_evaluate(model, batches):
    losses = []
    for ids, targets in batches:
        losses.append(loss_of(model(ids), targets))
    return torch.stack(losses).mean()


memory_timeline(trace_memory(lambda: leaking_evaluate(model, batches), model))

# %% [markdown]
# It climbs through every batch and never comes down. The trace calls them temporaries, and not activations, for no backward pass follows that would use them.

# %% Repair the evaluation [markdown] exercise="u04-repair-evaluation" points=1 minutes=5 difficulty=2 importance=5
# **Write** `evaluate`: the same mean, a number or a tensor of one without a graph. At no moment, and not in the end, may the activations of even one whole batch be live. The model comes back as it was: its mode, its weights, their gradients; so does the recording of gradients. Do not call `model.eval()`: with dropout it would change the mean, and the mode is the caller's to choose. All or nothing: the check counts how often what one batch keeps for backward fits into what is live.


# %% solution="u04-repair-evaluation"
def evaluate(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> float:
    """The mean of the batches' losses, without a graph.

    Args:
        model: From ids (b, s) to logits (b, s, v).
        batches: Pairs of ids and targets.
    """
    ### BEGIN SOLUTION
    with torch.inference_mode():
        numbers = [loss_of(model(inputs), wanted).item() for inputs, wanted in batches]
    return sum(numbers) / len(numbers)
    ### END SOLUTION


# %%
def held_by(loop):
    return held(lambda: loop(model, batches))


try_it(held_by, leaking_evaluate)
try_it(held_by, evaluate)

# %% check="u04-repair-evaluation"
# Mean, side effects, and live bytes of a model in float64; few batches and many, both modes.

# %% [markdown]
# <details><summary>Nothing is left, and yet two batches are live at the peak</summary>
#
# When the next batch's forward pass runs, which names of the last turn are still bound, and to what?
# </details>
#
# <details><summary>One batch is live, wherever I detach</summary>
#
# `detach` drops a graph that is there already. When were its tensors saved? What would have to be said before?
# </details>

# %% [markdown]
# **Measure.** Two half repairs between the two, in batches that are live at the peak:


# %% tags=["nbval-check-output"]
def detached(model, batches):
    return [loss_of(model(ids), targets).item() for ids, targets in batches]


def detached_with_a_name(model, batches):
    numbers = []
    for ids, targets in batches:
        loss = loss_of(model(ids), targets)
        numbers.append(loss.item())
    return numbers


evaluate_of = answer("u04-repair-evaluation", evaluate)
one_batch = held(lambda: loss_of(model(batches[0][0]), batches[0][1]))["left_bytes"]
for loop in (leaking_evaluate, detached_with_a_name, detached):
    print(f"{loop.__name__}: {held_by(loop)['peak_bytes'] / one_batch:.1f}")
print(f"repaired: {held_by(evaluate_of)['peak_bytes'] / one_batch:.1f}")

# %% [markdown]
# `.item()` frees the graph, but only after the forward pass has built all of it. And as long as the name `loss` stands for the last one, the next batch is computed beside it.
#
# **Explain.** On a model of the size that you train, in bf16 at 4,096 tokens, on fake tensors:


# %% tags=["nbval-check-output"]
def left_after(num_batches):
    with fake_tensors():
        llama = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        pairs = [torch.zeros(2, 1, 4096, dtype=torch.long).unbind() for _ in range(num_batches)]
        results = []
        leak_trace = trace_memory(lambda: results.append(leaking_evaluate(llama, pairs)), llama)
    return leak_trace.phases[-1].end_bytes - leak_trace.total_bytes[0]


print(", ".join(f"{left_after(n) / 2**30:.1f} GiB after {n}" for n in (1, 2, 4)))

# %% [markdown]
# A training that fits runs out of memory at its first evaluation, some batches later.

# %% [markdown]
# ### An average that backward never reaches
#
# This loop trains, and keeps a moving average of how far the hidden states spread, to look at it later:


# %% tags=["nbval-check-output"]
def leaking_train(body, head, optimizer, batches):
    average = torch.zeros(())
    for ids, targets in batches:
        hidden = body(ids)
        average = 0.9 * average + 0.1 * hidden.std()
        loss_of(head(hidden), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    return average


for n in (2, 4, 8):
    left = held(lambda n=n: leaking_train(body, head, optimizer, batches[:n]))["left_bytes"]
    print(f"{n} batches: {left:,} bytes left, {left // (2 * 32 * 64 * 4)} hidden states")

# %% Repair the average [markdown] exercise="u04-repair-average" points=1.5 minutes=7 difficulty=2 importance=4
# **Write** `train_with_average`: the same training and the same average, a number, without holding a hidden state longer than training itself needs it. Weights and average must be those of the loop above. All or nothing: the check counts hidden states, at the peak and in the end, beyond those of a loop without a leak.


# %% solution="u04-repair-average"
def train_with_average(
    body: nn.Module,
    head: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[Tensor, Tensor]],
) -> float:
    """Train, and average the standard deviation of the hidden states.

    Args:
        body: From ids (b, s) to hidden states (b, s, h).
        head: From hidden states to logits (b, s, v).
        optimizer: Of the weights of both.
        batches: Pairs of ids and targets.

    Returns:
        The moving average: 0.9 of what it was and 0.1 of the new deviation, from 0 on.
    """
    ### BEGIN SOLUTION
    spread = 0.0
    for inputs, wanted in batches:
        states = body(inputs)
        spread = 0.9 * spread + 0.1 * states.detach().std().item()
        loss_of(head(states), wanted).backward()
        optimizer.step(None)
        optimizer.zero_grad(set_to_none=True)
    return spread
    ### END SOLUTION


# %%
def held_by_training(loop):
    return held(lambda: loop(body, head, optimizer, batches))


try_it(held_by_training, leaking_train)
try_it(held_by_training, train_with_average)

# %% check="u04-repair-average"
# Weights and average against a twin in float64; live bytes against a loop without a leak.

# %% [markdown]
# <details><summary>My body is not trained any more</summary>
#
# The hidden state has two readers. Which of them needs the way back to the weights?
# </details>
#
# <details><summary>`del hidden` changes nothing</summary>
#
# Who else holds the tensor? What did `std` save for its own backward pass?
# </details>

# %% [markdown]
# **Explain.** Backward begins at the loss and frees what it walks through. `std` saved the hidden state for a backward pass of its own; no loss depends on it, so none ever comes, and the average chains the graphs of all steps. Whatever you log (norms, entropies, the load of experts): make it a number before you keep it.

# %% [markdown]
# ### A part that holds the whole
#
# No graph at all: the state of the last token of each sequence, as one keeps it to compare texts.


# %% tags=["nbval-check-output"]
@torch.no_grad()
def leaking_states(body, batches):
    states = []
    for ids, _ in batches:
        hidden = body(ids)
        states.append(hidden[:, -1])
    return states


states = leaking_states(body, batches)
shown_bytes = sum(state.numel() * state.element_size() for state in states)
print(f"{shown_bytes:,} bytes of numbers; {held(lambda: leaking_states(body, batches))}")

# %% Repair the samples [markdown] exercise="u04-repair-samples" points=1 minutes=5 difficulty=2 importance=3
# **Write** `last_states`: the same list, one tensor of shape (b, h) for each batch, which holds nothing but these numbers, in their own precision and without a graph; and at no moment are more than the last batch's states whole. One sequence in a batch or many. All or nothing.


# %% solution="u04-repair-samples"
@torch.no_grad()
def last_states(body: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The hidden state of the last token of every sequence.

    Args:
        body: From ids (b, s) to hidden states (b, s, h).
        batches: Pairs of ids and targets.
    """
    ### BEGIN SOLUTION
    return [body(inputs)[:, -1].clone() for inputs, _ in batches]
    ### END SOLUTION


# %%
def held_by_states(loop):
    return held(lambda: loop(body, batches))


try_it(held_by_states, leaking_states)
try_it(held_by_states, last_states)

# %% check="u04-repair-samples"
# One sequence in a batch, and several; live bytes at the peak and in the end.

# %% [markdown]
# <details><summary>Only batches of one sequence are wrong</summary>
#
# `contiguous` copies where it has to. The last row of a *single* sequence: do its numbers lie side by side already?
# </details>

# %% [markdown]
# **Explain.** A view is a window; memory is freed by the **storage**, whole, when its last window closes. `detach`, `view`, slices and mostly `reshape` open another window; `clone` always makes a storage of its own.

# %% [markdown]
# ## What the device is asked for
#
# Four memories, never mixed:
#
# | memory | what it counts | seen with |
# |---|---|---|
# | saved | what autograd keeps for backward | `count_saved_bytes` (unit 03) |
# | allocated | live tensors; in an allocator their blocks, rounded up | `trace_memory`; `torch.cuda.memory_allocated` |
# | reserved | what the allocator has asked of the device and not given back | below; `torch.cuda.memory_reserved` |
# | driver | everything missing from the device's free memory: reserved, its context and kernels, other libraries | `nvidia-smi` |
#
# A trace shows the first two. What the driver adds, half a GB to two, is not modelled here. The third is made by PyTorch itself: to ask a device for memory, and to give it back, is slow and can make the device wait, so that PyTorch keeps what it has got, in a **caching allocator**. The course has a small one, with the rules of PyTorch's for CUDA:

# %% tags=["nbval-check-output"]
allocator = CachingAllocator()
for name in ("a", "b", "c"):
    allocator.allocate(name, 1)
allocator.levels

# %% [markdown]
# Three tensors of one byte: blocks are rounded up to 512 B, and a **segment** of 2 MiB was reserved, of which they were **split** off. A larger tensor comes from another **pool**, with larger segments:

# %% tags=["nbval-check-output"]
allocator.allocate("logits", 3 * 2**20)
allocator.levels

# %% [markdown]
# Free everything, and look at what is reserved:

# %% tags=["nbval-check-output"]
for name in ("a", "b", "c", "logits"):
    allocator.free(name)
allocator.levels

# %% [markdown]
# Nothing is allocated and 22 MiB stay reserved: the device thinks that they are in use, and the next request gets them without asking. `empty_cache()` gives them back. It rarely makes a training fit: the allocator does it by itself before it gives up.
#
# Now break it, on a device of 20 MiB:

# %% tags=["nbval-check-output"]
crowded = CachingAllocator(device_bytes=20 * 2**20)
crowded.play([("a", 8 * 2**20), ("b", 4 * 2**20), ("c", 8 * 2**20), ("a", None), ("c", None)])
print(crowded.levels)
try:
    crowded.allocate("d", 9 * 2**20)
except MemoryError as error:
    print(error)

# %% [markdown]
# 16 of 20 MiB are free and 9 cannot be had: they lie in two pieces on both sides of b, and for a new segment, 20 MiB, there is no room. This is **fragmentation**. `inactive_split_bytes` is an upper bound of it: free blocks in segments of which a part is in use, so that they cannot go back; but it also counts room that will be used.
#
# **Predict.** The four steps of Llama-3.2-1B at 1,024 tokens have at most 20.37 GiB live. How many GiB are reserved?

# %%
predict("u04-reserved", None, "GiB")

# %% [markdown]
# You can write such an allocator yourself: an **extra**, for bonus points and about half an hour. Without it the course's serves the requests below; go on at **Measure** then.
#
# A segment is a row of pieces. To allocate **splits** one, to free **joins** neighbours:
#
# ```
# reserve      |                           free                           |
# allocate a   |    a    |                      free                      |
# allocate b   |    a    |       b       |              free              |
# free a       |   free  |       b       |              free              |
# free b       |                           free                           |
# ```

# %% A small caching allocator [markdown] exercise="u04-allocator" points=4.5 minutes=30 difficulty=5 importance=3 extra=true
# **Write** `Allocator`, a class with `allocate(num_bytes)`, which returns an address, and `free(address)`. It is made with `reserve`: `reserve(n)` asks the device for a segment of `n` bytes and returns its first address. The device never takes it back. A new segment may lie above or below the others, and right beside one.
#
# 1. A request becomes a block of `rounded_bytes(num_bytes)`.
# 2. Blocks of up to 1 MiB belong to the **small** pool, others to the **large** one; a segment serves one pool.
# 3. Of the free blocks of the pool that are large enough take the smallest; of equal ones that with the lowest address.
# 4. If there is none, reserve `new_segment_bytes(size)` for a block of `size`.
# 5. If at least 512 B (small pool) or *more than* 1 MiB (large pool) of the block would be left over, split them off as a free block behind; otherwise the block is given whole.
# 6. A freed block is joined with free neighbours, before and behind, of the same segment.
#
# A **script** of requests is a list of whole numbers: one above zero asks for so many bytes, `-n` frees the n-th block that was asked for. Each of three kinds of scripts is a third of the points: only small blocks, only large ones, both. The check counts the requests up to the first whose address, or what is reserved after it, is not as the rules say.
#
# *Worked case:* `[1, 1, 1, -2, 600, 400]` gives the addresses **0, 512, 1024, 1536, 512** and reserves **2,097,152** bytes: 600 bytes do not fit into the hole of the second block, 400 do.
#
# Below, for you to use or not: a segment as a list of `Piece`s in the order of their addresses, and `place_of`, which finds one.

# %%
MIB = 2**20


def rounded_bytes(num_bytes: int) -> int:
    return -(-num_bytes // 512) * 512


def new_segment_bytes(size: int) -> int:
    if size <= MIB:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB


@dataclass
class Piece:
    address: int
    size: int
    is_free: bool = False


def place_of(address, segments):
    """The segment with the piece at an address, and its number in it."""
    return next(
        (row, n) for row in segments for n, each in enumerate(row) if each.address == address
    )


# %% solution="u04-allocator"
class Allocator:
    """Blocks for requests, out of segments that are kept."""

    def __init__(self, reserve: Callable[[int], int]) -> None:
        """Hold no segment yet.

        Args:
            reserve: From a number of bytes to the address of a new segment.
        """
        ### BEGIN SOLUTION
        self.reserve = reserve
        self.small, self.large = [], []  # segments
        ### END SOLUTION

    def allocate(self, num_bytes: int) -> int:
        """The address of a block with at least so many bytes."""
        ### BEGIN SOLUTION
        size = rounded_bytes(num_bytes)
        pool, least_rest = (self.small, 512) if size <= MIB else (self.large, MIB + 1)
        free = [piece for row in pool for piece in row if piece.is_free and piece.size >= size]
        if not free:
            total = new_segment_bytes(size)
            free = [Piece(self.reserve(total), total)]
            pool.append(free)
        best = min(free, key=lambda piece: (piece.size, piece.address))
        best.is_free = False
        if best.size - size >= least_rest:
            row, at = place_of(best.address, pool)
            row.insert(at + 1, Piece(best.address + size, best.size - size, True))
            best.size = size
        return best.address
        ### END SOLUTION

    def free(self, address: int) -> None:
        """Take back the block at an address."""
        ### BEGIN SOLUTION
        row, at = place_of(address, self.small + self.large)
        row[at].is_free = True
        for first in (at, at - 1):
            if first >= 0 and all(piece.is_free for piece in row[first : first + 2]):
                row[first].size += sum(piece.size for piece in row[first + 1 : first + 2])
                del row[first + 1 : first + 2]
        ### END SOLUTION


# %%
def played(allocator_class, script, segments="upwards"):
    """Addresses, and what is reserved; new segments lie "upwards", "downwards" or "scattered"."""
    device = Device(segments)
    served = list(serve(allocator_class(device.reserve), device, script))
    return {
        "addresses": [each.address for each, n in zip(served, script, strict=True) if n > 0],
        "reserved_bytes": [each.reserved_bytes for each in served],
    }


try_it(played, Allocator, [1, 1, 1, -2, 600, 400])

# %% check="u04-allocator"
# Each rule alone; random scripts; a traced training step; segments side by side and apart.

# %% [markdown]
# <details><summary>I do not know how to find a block's neighbours</summary>
#
# A segment is a row of pieces from its first address to its last. If you keep each row in order, where in it are the neighbours?
# </details>
#
# <details><summary>A script goes wrong in the middle and I cannot see why</summary>
#
# Copy it from the sizes below the verdict into a cell: `played(Allocator, [...], "downwards")`, with the word that stands there for `segments`. If the verdict got 5, five requests were as they should be. Draw the segments on paper up to the sixth: which rule acts there?
# </details>
#
# <details><summary>It reserves too much</summary>
#
# Which free block should have served the request? Did it exist: was it split off, joined, and in the right pool?
# </details>

# %% [markdown]
# **Measure.** Four steps of a real training, without the memory for it: the requests of a trace, served by your allocator. What is allocated, with blocks as large as they are, comes from the course's.

# %%
allocator_of = answer("u04-allocator", Allocator)
reserved = played(allocator_of, traces[1024].script())["reserved_bytes"]
course_levels = {s: CachingAllocator().play_script(traces[s].script()) for s in (1024, 4096)}
allocator_levels(traces[1024], [each.allocated_bytes for each in course_levels[1024]], reserved)

# %% tags=["nbval-check-output"]
compare(
    "u04-reserved",
    "GiB",
    computed=traces[1024].peak_bytes / 2**30,
    measured=max(reserved) / 2**30,
)

# %% [markdown]
# "Computed" is what is live. Where is the rest, at the moment when most is allocated?


# %% tags=["nbval-check-output"]
def at_peak(levels):
    most = max(levels, key=lambda each: each.allocated_bytes)
    beyond = most.reserved_bytes - most.allocated_bytes
    return {
        "allocated": most.allocated_bytes,
        "free, in segments in use": most.inactive_split_bytes,
        "free, whole segments": beyond - most.inactive_split_bytes,
        "most reserved at any moment": max(each.reserved_bytes for each in levels),
    }


in_mib = {f"{s:,} tokens": at_peak(levels) for s, levels in course_levels.items()}
pd.DataFrame(in_mib) // MIB

# %% [markdown]
# Whole free segments of the wrong size the allocator can give back, before it fails. So how small may the device be?

# %% tags=["nbval-check-output"]
for gib in (20.5, 21.0, 21.6, 21.7):
    try:
        CachingAllocator(int(gib * 2**30)).play_script(traces[1024].script())
        print(f"{gib} GiB: fits")
    except MemoryError:
        print(f"{gib} GiB: out of memory")

# %% [markdown]
# **Explain.** Reserved is not what you need, and live is not enough. What is reserved beyond the blocks in use is at this peak mostly whole segments that no request fits any more; under pressure they go back. What cannot go back are the holes in segments in use, and a new segment needs its room in one piece. At 4,096 tokens both are small: half a percent. Rounding is not the reason: blocks are rounded by a few bytes.
#
# Lecture E (E8) says that the caching allocator warms up in the first step. That is one half: most segments are asked for in step 1, at whose end the optimizer states come and stay (E6), so that step 2 peaks higher and asks again. From step 3 on the device is not asked for anything.
#
# Left out: several CUDA streams, the settings in `PYTORCH_CUDA_ALLOC_CONF` (`expandable_segments` lets a segment grow and is the cure for much fragmentation), what cuBLAS and NCCL take beside the allocator.

# %% [markdown]
# ## Going further
#
# One more **extra**, about 5 minutes. The recap is below.

# %% [markdown]
# ### Free, and of no use

# %% Break the memory up [markdown] exercise="u04-fragment" points=1 minutes=5 difficulty=2 importance=2 extra=true
# **Write** `fragment`: a script of at most 1,000 requests for a device of `device_bytes`, a multiple of 20 MiB from 40 MiB on. Every request of it is served; when it is over, at least half of the device is free; and yet a request of a quarter of the device would fail, although the allocator first gives back all segments that are free altogether. All or nothing; the course's `CachingAllocator` plays it.


# %% solution="u04-fragment"
def fragment(device_bytes: int) -> list[int]:
    """Requests that leave half of a device free and useless.

    Args:
        device_bytes: Of the device, 40 MiB or more.
    """
    ### BEGIN SOLUTION
    num_pairs = device_bytes // (4 * MIB)
    fill = [2 * MIB] * (2 * num_pairs)
    return fill + [-(2 * pair + 1) for pair in range(num_pairs)]
    ### END SOLUTION


# %%
def left_on_a_device(device_bytes):
    return str(CachingAllocator(device_bytes).play_script(fragment(device_bytes))[-1])


try_it(left_on_a_device, 40 * MIB)

# %% check="u04-fragment"
# Devices of 40 MiB to 400 MiB: played; the free share; the last request.

# %% [markdown]
# <details><summary>The last request is served</summary>
#
# From where: a free block, or a new segment? What has to stay in use in each segment, and between which blocks, so that it is from neither?
# </details>

# %% [markdown]
# ## Recap
#
# 1. *Read*: a trace is the line of live bytes over operations; its peak is where most is live, and `live_at` says what.
# 2. *Compute*: what is live at each moment follows from what exists by then; step 1 differs because the optimizer states come at its end.
# 3. *Predict*: the peak is the largest of a few candidates: the start of backward under the loss, its end with all gradients, or the optimizer's temporaries.
# 4. *Repair*: a graph that no backward pass walks through holds all that it saved, so make a number of what you log, and record nothing where nothing is trained.
# 5. *Explain*: a caching allocator keeps segments, rounds, splits and joins; what is reserved is at least what is allocated, and the driver counts more still.
#
# | moment, in fp32 | bytes |
# |---|---|
# | before the first forward pass / before later ones | 4 N / 12 N |
# | end of backward, optimizer states there | 16 N |
# | AdamW's temporaries beside it, largest tensor of E numbers | for-loop 8 E, foreach 4 N (20 N in all), fused 0 |
# | start of backward at the loss, beside weights, states and activations | 8 sbv |
# | evaluation with graphs kept | what a batch saves, for each batch |
# | block of a tensor | its bytes, rounded up to 512 |
#
# ## Further reading
#
# - PyTorch documentation, *Understanding CUDA Memory Usage* (15 minutes): snapshots of a real device, drawn in the browser; the same line as a trace's, and segments with their blocks.
# - PyTorch documentation, *CUDA semantics*, memory management (10 minutes): the allocator's settings, and which number is which.
# - PyTorch, `c10/cuda/CUDACachingAllocator.cpp`, the comment at its top and `get_free_block`, `should_split`, `try_merge_blocks` (20 minutes): the rules that you wrote, with CUDA streams.
# - Shi and DeVito 2023, *Understanding GPU Memory*, parts 1 and 2, PyTorch's blog (15 minutes each): reading snapshots; leaks by cycles of Python objects, a fourth kind that only the garbage collector ends.
# - PyTorch documentation, *Frequently Asked Questions*, on memory (5 minutes): common leaks; compare what it says of sums of losses with your measurement.
