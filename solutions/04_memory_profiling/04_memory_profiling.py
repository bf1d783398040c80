# ---
# jupyter:
#   course:
#     title: When does memory run out?
#     device: CPU
#     needs: ["00", "03"]
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

# %% [markdown] opening=true
# ![One training step of Llama-3-8B: 112 GB at rest, 169 at the loss, 128 once all gradients exist; 177 were counted in unit 03.](hero.svg)
#
# Memory runs out at one moment: the peak. Predict what is live when, hunt down three leaks, and choose the fix for a real out-of-memory error.
#
# Your training plan adds up everything that Llama-3-8B needs, not what is in memory *at once*.
#
# 1. **Compute** what is live at each moment of a training step.
# 2. **Explain** the picture of a training step.
# 3. **Read** recorded timelines: what holds the peak, and what a fix saves.
# 4. **Repair** a loop that leaks.
# 5. **Choose** the fix for an out-of-memory error.
#
# | here | lecture E | lecture S | meaning |
# |---|---|---|---|
# | $b$ | bs, mbs | bs | sequences in a micro-batch |
# | $s$ | seq | L | tokens in a sequence |
# | $h$ | h | D | width of a hidden state |
# | $v$ | v | | entries in the vocabulary |
# | $N$ | N | P | parameters |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import ModelConfig, RunConfig, precision, preset
from course_utils.instruments import (
    fake_tensors,
    measure_peak,
    trace_allocator,
    trace_memory,
    watch_process,
)
from course_utils.records.traces import recorded_memory, recorded_rows
from course_utils.reference import Block, Training, Transformer
from course_utils.reference.allocator import CachingAllocator
from course_utils.reference.allocator_replay import Device, serve
from course_utils.reference.allocator_snapshot import snapshot_of, stacks_of
from course_utils.show import (
    Choice,
    allocator_levels,
    computed_and_measured,
    explorer,
    memory_timeline,
    memory_timelines,
    recorded_timelines,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Every tensor is born, and dies
#
# A program's live memory rises when an operation makes a tensor, and falls when nothing refers to that tensor any more.
#
# ![Bars: 60 bytes from operation 0 on, 24 from 1 until 4, 40 from 3 on. Below, live bytes: 60, 84, 84, 124, 100, 100.](lives.svg)
#
# One bar per **storage**, the memory behind a tensor and all its views. A tracer numbers the operations, and records which one made a storage (`born`) and which was the first after it was freed (`died`):


# %% tags=["nbval-check-output"]
layer = nn.Linear(3, 5)


def tiny_step():
    torch.relu(layer(torch.ones(2, 3))).sum().backward()


tiny_trace = trace_memory(tiny_step, layer)
pd.DataFrame(tiny_trace.storages).astype({"died": "Int64"})

# %% [markdown]
# What exists at the start has `born` = 0; `<NA>` means that a storage outlives the trace. *Activations* are what the forward pass leaves for the backward pass (the two single numbers are the loss and its gradient); *temporaries* are everything else. The linear layer's result is a temporary: ReLU keeps its own result only.

# %% [markdown]
# **Guess first.** Eight layers, each a linear map and a ReLU, produce sixteen outputs of the same size. Under `no_grad`, how many of them are alive at the peak?

# %%
predict("u04-alive", None, "results")

# %% folded=true tags=["nbval-check-output"]
# Measured: eight layers in training and under no_grad
layers = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(8)))
batch = torch.ones(512, 256)


def training_step():
    layers(batch).sum().backward()
    layers.zero_grad()


@torch.no_grad()
def inference():
    layers(batch).sum()


layers_trace, forward_trace = trace_memory(training_step, layers), trace_memory(inference, layers)
beside_weights = forward_trace.peak_bytes - forward_trace.total_bytes[0]
compare("u04-alive", "results", measured=beside_weights / (4 * batch.numel()))

# %% folded=true
# Figure: both curves on one scale
memory_timelines({"training": layers_trace, "under no_grad": forward_trace})

# %% [markdown]
# Three: a layer's input, its linear output and its ReLU output. (The loop over the layers still refers to the input.) In training the curve climbs, because every layer leaves something for the backward pass (S10), and comes down as that is used up.

# %% folded=true tags=["nbval-check-output"]
# Table: what the peak is made of
at_peak = layers_trace.live_at(layers_trace.peak_at)
pd.DataFrame({"bytes": at_peak}).rename(lambda name: name.replace("_", " ")).map("{:,}".format)

# %% [markdown]
# The peak comes early in the backward pass: the first gradients join nearly everything that the forward pass left.

# %% [markdown]
# ## Four moments of a step
#
# A training step has three phases (E6): the **forward pass** ends with the loss, the **backward pass** with a gradient for every parameter, the **optimizer's step** with new parameters.
#
# **Guess first.** Llama-3.2-1B (1,235,814,400 parameters) trains in fp32 with AdamW. How many GiB are live when its *second* step begins?

# %%
predict("u04-second-start", None, "GiB")

# %% What is live when [markdown] exercise="u04-moments" points=2 minutes=13 difficulty=3 importance=5
# **Write** `moments`: bytes live at four moments of one training step in **fp32 with AdamW**. Each key is worth a quarter of the points.
#
# | key | moment |
# |---|---|
# | `"before_forward"` | the step begins |
# | `"after_forward"` | the loss has been computed |
# | `"after_backward"` | every parameter has its gradient |
# | `"after_step"` | the optimizer is done, and gradients have been freed or set to zero |
#
# - `num_params` parameters are spread over `num_tensors` tensors. AdamW keeps two **running averages** for each *parameter* (papers say moments), and a count of steps for each *tensor*, 4 bytes.
# - `kept_bytes` is all that the forward pass leaves live; the backward pass frees it.
# - `step` counts from 1. Nothing is made before it is first needed.
# - `is_grad_freed`: whether gradients are freed after the step, as `zero_grad()` does. Otherwise `zero_grad(set_to_none=False)` fills them with zeros.
#
# *By hand:* 10 parameters in 2 tensors, 100 bytes kept, gradients freed → **40**, **140**, **80**, **128** in step 1, and **128**, **228**, **168**, **128** in step 2.


# %% solution="u04-moments"
def moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_freed: bool
) -> dict[str, int]:
    """Bytes live at four moments of a training step in fp32 with AdamW."""
    ### BEGIN SOLUTION
    is_first = step == 1
    weights, gradients = 4 * num_params, 4 * num_params
    optimizer_states = 2 * 4 * num_params + 4 * num_tensors
    after_step = weights + optimizer_states + (0 if is_grad_freed else gradients)
    before_forward = weights if is_first else after_step
    return {
        "before_forward": before_forward,
        "after_forward": before_forward + kept_bytes,
        "after_backward": weights + gradients + (0 if is_first else optimizer_states),
        "after_step": after_step,
    }
    ### END SOLUTION


# %%
try_it(moments, 10, 2, 100, 1, True)
try_it(moments, 10, 2, 100, 2, True)

# %% check="u04-moments"
# Real training steps: the first and later ones; gradients freed and set to zero.

# %% [markdown]
# <details><summary>Hint: only the first step is wrong</summary>
#
# Follow step 1 line by line: forward, backward, `optimizer.step()`. At which line does Adam need its running averages for the first time?
# </details>
#
# <details><summary>Hint: later steps with zeroed gradients are wrong</summary>
#
# How many bytes does a tensor of zeros take? Does the next backward pass need another tensor, or add to this one?
# </details>

# %% [markdown]
# **Your function beside the instrument:** three steps of a small network, in bytes.


# %% folded=true tags=["nbval-check-output"]
# Measured: what is live at each moment of three steps
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
columns = {}
for n in (1, 2, 3):
    made = moments_of(sum(small_sizes), len(small_sizes), ends[1] - ends[0], n, True)
    columns[f"step {n}", "computed"] = made
    columns[f"step {n}", "measured"] = dict(zip(made, ends[3 * n - 3 :], strict=False))
pd.DataFrame(columns).map("{:,}".format)

# %% [markdown]
# **Check your guess.** Four training steps of the Llama, on one sequence of 1,024 tokens (about 10 seconds):


# %%
def trace_llama(seq_len, num_steps=4, adamw="for-loop", **options):
    options = {"precision": precision("fp32"), "is_loss_fp32": True} | options
    run = RunConfig(seq_len=seq_len, **options)
    with fake_tensors():
        training = Training(preset("Llama-3.2-1B"), run, adamw=adamw)
        return trace_memory(training.step, *training.owners, num_steps=num_steps)


traces = {1024: trace_llama(1024)}

# %% folded=true tags=["nbval-check-output"]
# Measured: where the second step begins
sizes = [s.storage_bytes // 4 for s in traces[1024].storages if s.category == "parameters"]
num_params = sum(sizes)
compare(
    "u04-second-start",
    "GiB",
    computed=moments_of(num_params, len(sizes), 0, 2, True)["before_forward"] / 2**30,
    measured=traces[1024].phases[2].end_bytes / 2**30,
)

# %% [markdown]
# Step 1 begins with $4N$ bytes, step 2 with $12N$: Adam makes its running averages at the *end* of step 1. Surviving the first step doesn't prove that a program fits. (Lecture E explains the lower first step by the allocator's warm-up, which changes what is *reserved*.)

# %% [markdown]
# ## Four steps of a Llama
#
# **Guess first.** The same model on one sequence of 4,096 tokens, fp32, fused attention: how many GiB at the peak of four steps? (Start from the 13.8 GiB above; each of the 16 layers keeps 0.7 GiB.)

# %%
predict("u04-peak-4096", None, "GiB")

# %% folded=true tags=["nbval-check-output"]
# Measured: the peak of four steps at 4,096 tokens (10 to 20 seconds)
traces |= {seq_len: trace_llama(seq_len) for seq_len in (2048, 4096)}
for each in traces.values():
    assert each.peak_bytes_of(2) == each.peak_bytes_of(3) == each.peak_bytes_of(4)
compare("u04-peak-4096", "GiB", measured=traces[4096].peak_bytes / 2**30)

# %% folded=true
# Figure: four steps at 4,096 tokens
memory_timeline(traces[4096])

# %% [markdown]
# This is the lecture's picture (E8; its own is the *Ultra-Scale Playbook*'s, in fp32, with batch and length unstated). Steps 2 to 4 are identical:
#
# - **forward**: activations climb, layer by layer.
# - **backward**: it begins with the spike, at the loss, while all activations are live. Then activations fall and gradients rise. The thin band on top is the gradient of the output head, which shares its matrix with the embedding (they are **tied**); the embedding adds its part at the very end.
# - **optimizer's step**: a small spike, then gradients are freed. Step 1 makes Adam's running averages here.
#
# Look at step 2, and change the length. Where is the peak at 4,096 tokens, and where at 1,024?

# %% folded=true
# Explorer: run this cell, then move the controls
highest_bytes = max(trace.peak_bytes for trace in traces.values())


def llama_timeline(seq_len, step):
    which = None if step == "all" else step
    return memory_timeline(traces[seq_len], which, limit_bytes=highest_bytes)


explorer(
    llama_timeline,
    seq_len=Choice("sequence, tokens", list(traces), 1024),
    step=Choice("training step", ["all", 1, 2, 3, 4], 2),
)

# %% [markdown]
# The peak *moves*. At 4,096 tokens it is the loss; at 1,024 the end of the backward pass, and the optimizer's step is just as high. What helps at one length does nothing at the other.

# %% [markdown]
# ## The optimizer's temporaries
#
# AdamW divides one running average by the root of the other, in one of three ways:
#
# | `adamw` | how | temporaries |
# |---|---|---|
# | `"for-loop"` | one tensor at a time | its **root** and its **quotient** |
# | `"foreach"` | all tensors at once: PyTorch's choice on a GPU | the roots of **all** tensors; the division is in place |
# | `"fused"` | one kernel, numbers stay in registers | nothing |
#
# **Guess first.** At 1,024 tokens the peak was 20.4 GiB with the loop. How many GiB is it with `"foreach"`?

# %%
predict("u04-foreach", None, "GiB")


# %% folded=true tags=["nbval-check-output"]
# Measured: two steps at 1,024 tokens with "foreach"
def temporary_bytes(sizes, adamw):
    return {"for-loop": 2 * 4 * max(sizes), "foreach": 4 * sum(sizes), "fused": 0}[adamw]


in_step = moments_of(num_params, len(sizes), 0, 2, True)["after_backward"]
compare(
    "u04-foreach",
    "GiB",
    computed=(in_step + temporary_bytes(sizes, "foreach")) / 2**30,
    measured=trace_llama(1024, num_steps=2, adamw="foreach").peak_bytes / 2**30,
)

# %% [markdown]
# The roots take $4N$ bytes and make $16N$ into $20N$. So on a GPU a short sequence peaks in the optimizer's step, unless you ask for `fused=True`. In the loop only the largest tensor counts, here the embedding.

# %% Explain the picture [markdown] exercise="u04-read-picture" points=2.5 minutes=6 difficulty=2 importance=4
# **Write** three or four sentences, with numbers, for a colleague who is new to the picture of four steps at 4,096 tokens:
#
# - What is the baseline of steps 2 to 4, and why does step 1 start lower?
# - What is the spike in the middle of each step, and what would lower it?

# %% [markdown] text_answer="u04-read-picture"
# <!-- BEGIN SOLUTION -->
# The baseline of steps 2 to 4 is 13.8 GiB: weights and Adam's two running averages, 12 bytes for each of 1.24 billion parameters. Step 1 starts with the weights alone, 4.6 GiB, because Adam makes its running averages, 9.2 GiB, only at the end of step 1. The spike is the beginning of the backward pass: 13.3 GiB of activations are all still there, and the loss makes two gradients as large as the logits, 3.9 GiB, on top of them. A shorter sequence or a smaller micro-batch lowers both parts; the loss in chunks lowers the 3.9 GiB; recomputation of layers lowers the 13.3 GiB (freeing gradients does not help: there are none at that moment).
#
# *Rubric:* half a point for each of baseline, step 1, the activations in the spike, the loss's gradients in it, and what lowers it; each of the first four counts half without its number.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Llama-3-8B
#
# Unit 03 counted 177 GB for one sequence of 8,192 tokens in bf16. Here is such a step (1 GiB is 1.074 GB):

# %% folded=true
# Figure: one training step of Llama-3-8B (about 10 seconds)
plan_run = RunConfig(seq_len=8192, precision=precision("bf16"), is_loss_fp32=True)
with fake_tensors():
    plan_training = Training(preset("Llama-3-8B"), plan_run, adamw="fused")
    plan_trace = trace_memory(plan_training.step, *plan_training.owners, num_steps=2)
memory_timeline(plan_trace, step=2)

# %% folded=true tags=["nbval-check-output"]
# Measured: the peak, beside the count of unit 03, GB
at_peak = plan_trace.live_at(plan_trace.peak_at)
counted = at_peak | {"gradients": at_peak["parameters"], "temporaries": 0}  # each bf16
in_gb = pd.DataFrame({"counted in unit 03": counted, "live at the peak": at_peak}) / 10**9
in_gb.loc["together"] = in_gb.sum()
in_gb.rename(lambda name: name.replace("_", " ")).round().astype(int)

# %% [markdown]
# At the loss all activations are there, and no parameter has a gradient yet: 16 GB less than you counted. But the loss adds two gradients as large as the logits: 8 GB more.

# %% [markdown]
# ## Two recorded steps
#
# A GPU of 95 GiB recorded a step of a 3.4B transformer, in fp32 and under bf16 autocast, with `foreach` (LINYUNLinYun for CS336, MIT licence). **Look first:** where does each run peak, and what would you get rid of?

# %% folded=true
# Figure: live memory of both recorded steps
runs = {run: list(recorded_memory(run)) for run in ("fp32", "bf16 autocast")}
recorded_timelines(runs)

# %% [markdown]
# **Guess first.** At the bf16 run's peak, 63.7 GiB, `foreach` holds 12.7 GiB of temporaries. By how many GiB does the peak fall with `fused=True`, which has none?

# %%
predict("u04-fused-saves", None, "GiB")

# %% What a fix saves [markdown] exercise="u04-timeline" points=1.5 minutes=9 difficulty=2 importance=5
# **Write** `read_timeline`: the peak of a recorded timeline, and what a fix would save. Each key is worth a third of the points.
#
# | key | what |
# |---|---|
# | `"peak_bytes"` | the most bytes that are live at any moment |
# | `"peak_us"` | the first moment at which so many are live |
# | `"saved_bytes"` | how much lower the timeline's peak is if the categories in `avoided` are never allocated |
#
# `changes` is a list of tuples `(time_us, category, num_bytes)` in order of time. From `time_us` on, the category has `num_bytes` in all, not in addition; before its first change it has none. Changes at one moment take effect together.
#
# *By hand:* the next cell's timeline → peak **90** at **1**; without activations 85, so **5** are saved.


# %% solution="u04-timeline"
def read_timeline(changes: list[tuple[int, str, int]], avoided: list[str]) -> dict[str, int]:
    """Peak, its moment, and what a fix saves: "peak_bytes", "peak_us" and "saved_bytes"."""
    ### BEGIN SOLUTION
    live, wholes, rests = {}, {}, {}
    for time_us, category, num_bytes in changes:
        live[category] = num_bytes
        wholes[time_us] = sum(live.values())
        rests[time_us] = sum(size for name, size in live.items() if name not in avoided)
    peak = max(wholes.values())
    return {
        "peak_bytes": peak,
        "peak_us": next(time_us for time_us, whole in wholes.items() if whole == peak),
        "saved_bytes": peak - max(rests.values()),
    }
    ### END SOLUTION


# %%
small_timeline = [
    (0, "state", 50),
    (1, "activations", 40),
    (2, "gradients", 20),
    (2, "activations", 10),
    (3, "activations", 0),
    (3, "temporaries", 15),
]
try_it(read_timeline, small_timeline, ["activations"])

# %% check="u04-timeline"
# Windows of recorded steps and made-up ones: peaks that move, stay, or never held what is avoided.

# %% [markdown]
# <details><summary>Hint: I save too much</summary>
#
# Draw the curve without what is avoided. Where is *its* highest point?
# </details>

# %% [markdown]
# **Check your guess.** (Recomputation, unit 05, keeps some activations.)

# %% folded=true tags=["nbval-check-output"]
# Table: what three fixes save at the recorded peaks, GiB
read_of = answer("u04-timeline", read_timeline)
kept = sorted({name for _, live in runs["fp32"] for name in live if name.startswith("forward")})
by_adamw = ["optimizer temporaries"]
fixes = {"fused AdamW": by_adamw, "no activations": kept, "both": [*by_adamw, *kept]}


def saved_gib(run, avoided):
    names = {name for _, live in runs[run] for name in live}
    changes = [(round(1e6 * s), name, live.get(name, 0)) for s, live in runs[run] for name in names]
    return read_of(changes, avoided)["saved_bytes"] / 2**30


saved = {run: {fix: saved_gib(run, names) for fix, names in fixes.items()} for run in runs}
display(pd.DataFrame(saved).round(2))
compare("u04-fused-saves", "GiB", measured=saved["bf16 autocast"]["fused AdamW"])

# %% [markdown]
# 12.7 GiB of temporaries go, and the peak falls by 1: it *moves* to the other hump, at the start of the backward pass. Each fix alone saves 2 GiB or less; both save 12 and more. Before you choose a fix, look at the second highest hump.

# %% [markdown]
# ## Three leaks
#
# A colleague's Llama-3.2-1B trains for hours and dies in its first evaluation: out of memory. Each batch is one sequence of 4,096 tokens in bf16.


# %% folded=true tags=["nbval-check-output"]
# Measured: what is left after 1, 2 and 4 batches of this evaluation
def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def left_after(num_batches):
    with fake_tensors():
        llama = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        ids = torch.zeros(1, 4096, dtype=torch.long)
        results = []
        leak_trace = trace_memory(
            lambda: results.extend(loss_of(llama(ids), ids) for _ in range(num_batches)), llama
        )
    return leak_trace.phases[-1].end_bytes - leak_trace.total_bytes[0]


left = {f"after {n}": left_after(n) / 2**30 for n in (1, 2, 4)}
pd.DataFrame({"GiB": left}).round(1)

# %% [markdown]
# A **leak**: something holds tensors that nobody will use again. The loop also keeps a running average of the model's confidence (its largest probability), and the hidden state of each sequence's last token.


# %%
def leaking_train(body, head, optimizer, batches, held_out):
    confidence, states = 0.0, []
    for ids, targets in batches:
        hidden = body(ids)
        logits = head(hidden)
        confidence = 0.9 * confidence + 0.1 * logits.softmax(-1).amax(-1).mean()
        states.append(hidden.detach()[:, -1])
        loss_of(logits, targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    losses = []
    for ids, targets in held_out:
        losses.append(loss_of(head(body(ids)), targets))
    return {"loss": torch.stack(losses).mean(), "confidence": confidence, "states": states}


# %% folded=true
# Figure: four batches of training, then four of evaluation
torch.set_num_threads(1)  # operations on small tensors lose time when they share their work
torch.manual_seed(0)
tiny = ModelConfig(num_layers=4, hidden_size=64, num_heads=4, ffn_size=256, vocab_size=500)
body = nn.Sequential(nn.Embedding(500, 64), *(Block(tiny, n) for n in range(4)))
head = nn.Linear(64, 500, bias=False)
model = nn.Sequential(body, head)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randint(500, (2, 2, 32)).unbind() for _ in range(8)]


def trace_loop(loop):
    return trace_memory(
        lambda: loop(body, head, optimizer, batches[:4], batches[4:]), model, optimizer
    )


of_loop = [*(f"batch {n}" for n in range(1, 5)), "the evaluation"]
memory_timeline(trace_loop(leaking_train), names=of_loop)

# %% [markdown]
# Each training step raises the next one's baseline: two leaks. Then the evaluation climbs and never comes down.
#
# **The usual suspect** is a sum of losses that are not detached; PyTorch's FAQ warns about it. Two loops:


# %%
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


# %% [markdown]
# **Guess first.** One batch's graph holds about 1.7 MB. How many bytes are left after `summed` has gone through 8 batches?

# %%
predict("u04-summed", None, "bytes")


# %% folded=true tags=["nbval-check-output"]
# Measured: bytes left after 8 batches
def held(call):
    results = []
    call_trace = trace_memory(lambda: results.append(call()), model, optimizer)
    before = call_trace.total_bytes[0]
    left = call_trace.phases[-1].end_bytes
    return {"peak_bytes": call_trace.peak_bytes - before, "left_bytes": left - before}


def left_bytes(loop, num_batches):
    return held(lambda: loop(num_batches))["left_bytes"]


compare("u04-summed", "bytes", measured=left_bytes(summed, 8))

# %% folded=true tags=["nbval-check-output"]
# Table: bytes left by both loops
loops = {loop.__name__: [left_bytes(loop, n) for n in (2, 4, 8)] for loop in (summed, collected)}
pd.DataFrame(loops, index=["2 batches", "4 batches", "8 batches"]).map("{:,}".format)

# %% [markdown]
# The suspect is innocent: `backward` **frees** the saved tensors that it walks through. A graph leaks if *no backward pass ever walks through it*, and a tensor if something still refers to it.

# %% Three leaks [markdown] exercise="u04-repair-training" points=3 minutes=14 difficulty=3 importance=5
# **Write** `train`: the same loop without the leaks. It ends with the same weights and returns the same numbers. Each leak repaired is worth a third of the points:
#
# | key | what | what it may hold |
# |---|---|---|
# | `"loss"` | the mean of the held-out batches' losses, each batch counting alike: a number or one-element tensor | during the evaluation, less than one batch's activations |
# | `"confidence"` | the running average, which starts at 0: a number or one-element tensor | nothing of an earlier batch |
# | `"states"` | one tensor $(b, h)$ for each training batch, in the model's dtype and without a graph | these numbers and nothing else |
#
# In the evaluation do not call `eval()`, and leave weights, `.grad`, `requires_grad` and grad mode, on or off, as you found them. Without batches to train on, `train` only evaluates. Batches may differ in size.
#
# *By hand:* four batches leave four tensors (2, 64) in fp32 and two numbers: `left_bytes` is at most **2,056**. In the evaluation alone `peak_bytes` stays far below one graph's 1.7 MB.


# %% solution="u04-repair-training"
def train(
    body: nn.Module,
    head: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[Tensor, Tensor]],
    held_out: list[tuple[Tensor, Tensor]],
) -> dict[str, float | list[Tensor]]:
    """Train, then evaluate: "loss", "confidence" and "states"."""
    ### BEGIN SOLUTION
    sure, kept = 0.0, []
    for inputs, wanted in batches:
        states = body(inputs)
        scores = head(states)
        sure = 0.9 * sure + 0.1 * scores.detach().softmax(-1).amax(-1).mean()
        kept.append(states.detach()[:, -1].clone())
        loss_of(scores, wanted).backward()
        optimizer.step(None)
        optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        losses = [loss_of(head(body(inputs)), wanted) for inputs, wanted in held_out]
    return {"loss": sum(losses) / len(losses), "confidence": sure, "states": kept}
    ### END SOLUTION


# %%
def held_by(loop, num_batches=4):
    return held(lambda: loop(body, head, optimizer, batches[:num_batches], batches[4:]))


try_it(held_by, leaking_train)
try_it(held_by, train)
try_it(held_by, train, 0)  # the evaluation alone

# %% check="u04-repair-training"
# A model in float64: its weights and numbers; the bytes that it holds with few batches and with many.

# %% [markdown]
# <details><summary>Hint: one batch is live in the evaluation, wherever I detach</summary>
#
# `detach` drops a graph that is there already. When were its tensors saved?
# </details>
#
# <details><summary>Hint: <code>del logits</code> changes nothing</summary>
#
# Who else holds the tensor? What did `softmax` save for a backward pass of its own?
# </details>

# %% [markdown]
# Three rules for three leaks:
#
# - **Record nothing where nothing is trained.** `.item()` frees a graph too, but only after the forward pass has built all of it.
# - **Detach what you log.** `softmax` saved its probabilities for a backward pass of its own, which never comes, and the average chains the graphs of all steps.
# - **A view keeps the whole storage alive.** `detach` and slices make another view; `clone` makes a new storage.

# %% [markdown]
# ## Reserved is not allocated
#
# Asking a device for memory is slow. So PyTorch's **caching allocator** asks for large **segments**, splits blocks off them, and keeps what is freed for the next request. What it has asked for is *reserved*; what is in use is *allocated*. The course's allocator follows its rules, and replays your trace.
#
# **Guess first.** Four steps of Llama-3.2-1B at 1,024 tokens peak at 20.37 GiB live. How many GiB are reserved?

# %%
predict("u04-reserved", None, "GiB")

# %% folded=true tags=["nbval-check-output"]
# Measured: what the course's allocator reserves for the requests of the trace
levels = {s: CachingAllocator().play_script(traces[s].script()) for s in (1024, 4096)}
reserved = [each.reserved_bytes for each in levels[1024]]
compare("u04-reserved", "GiB", measured=max(reserved) / 2**30)

# %% folded=true
# Figure: allocated and reserved, request by request
allocator_levels(traces[1024], [each.allocated_bytes for each in levels[1024]], reserved)

# %% [markdown]
# Most segments are asked for in step 1 (E6, E8). What makes up the gap?


# %% folded=true tags=["nbval-check-output"]
# Table: reserved memory at the allocation peak, MiB
def where_it_is(levels):
    most = max(levels, key=lambda each: each.allocated_bytes)
    beyond = most.reserved_bytes - most.allocated_bytes
    return {
        "allocated": most.allocated_bytes,
        "inactive split: free, in segments in use": most.inactive_split_bytes,
        "free, whole segments": beyond - most.inactive_split_bytes,
        "most reserved at any moment": max(each.reserved_bytes for each in levels),
    }


in_use = {f"{s:,} tokens": where_it_is(each) for s, each in levels.items()}
(pd.DataFrame(in_use) // 2**20).map("{:,}".format)

# %% [markdown]
# Holes in segments that are in use, and whole segments that wait for a request.

# %% [markdown]
# ## Out of memory
#
# Llama-3.1-8B on four A100s of 40 GB. Each holds a quarter of the weights and gathers the rest as needed (FSDP, unit 10). Each GPU's batch is 4 sequences of 2,048 tokens; every other layer is checkpointed: it keeps its input only (unit 05). The loss of step 1 fails (figures quoted from ccl-bench):

# %% folded=true tags=["nbval-check-output"]
# Table: the error in numbers, and what is allocated, bytes
oom = {row["quantity"]: row["bytes"] for row in recorded_rows("llama8b_oom_numbers")}
pd.Series(oom).map("{:,}".format).to_frame("bytes")

# %% [markdown]
# **Guess first.** Which tensor is requested? Each token has 128,256 logits: of how many bytes each?

# %%
predict("u04-requested", None, "bytes a number")

# %% folded=true tags=["nbval-check-output"]
# Measured: bytes of the request for each number
compare("u04-requested", "bytes a number", measured=oom["requested"] / (4 * 2048 * 128_256))

# %% [markdown]
# So it is fp32: the log-softmax, beside the logits. 0.17 GB are missing.

# %% Which fix serves the request? [markdown] exercise="u04-oom" points=2 minutes=11 difficulty=3 importance=5
# **Write** `left_free`: the bytes left free once the request is served, with each of four fixes alone; negative if so many are missing. A quarter of the points each.
#
# | key | the fix |
# |---|---|
# | `"expandable"` | expandable segments: what is reserved but not allocated serves requests, too (otherwise it does not) |
# | `"half_batch"` | half the sequences: the request, and all of `live` but both kinds of weights, is halved |
# | `"checkpoint_all"` | all layers are checkpointed; all inputs are equally large |
# | `"chunked_loss"` | the loss in `"num_chunks"` chunks: fp32 logits and the request shrink to one chunk, bf16 logits stay whole |
#
# - `error`: `"requested"`, `"free"` (on the device), `"reserved"` and `"allocated"`.
# - `live`, all that is allocated: this device's `"weights"`; `"gathered weights"`; `"layer inputs"` of all checkpointed layers; `"layers"`, what the layers without a checkpoint keep; `"bf16 logits"`, `"fp32 logits"`, `"others"`.
# - `run`: `"num_layers"`, `"num_checkpointed"`, `"num_chunks"`, `"step"`. Error and live were recorded in step 1. If `"step"` is 2 or later, AdamW's two averages, each as large as `"weights"`, take room from `"free"` as well.
# - What a fix no longer allocates serves the request. No division leaves a remainder.
#
# *By hand:* the next cell's numbers, in the order of the table → **10**, **142**, **40**, **110** in step 1 and **−70**, **62**, **−40**, **30** in step 2.


# %% solution="u04-oom"
def left_free(error: dict[str, int], live: dict[str, int], run: dict[str, int]) -> dict[str, int]:
    """Bytes free after a request that failed, under each of four fixes."""
    ### BEGIN SOLUTION
    averages = 0 if run["step"] == 1 else 2 * live["weights"]
    free, request = error["free"] - averages, error["requested"]
    with_tokens = sum(live.values()) - live["weights"] - live["gathered weights"]
    one_input = live["layer inputs"] // run["num_checkpointed"]
    new_inputs = (run["num_layers"] - run["num_checkpointed"]) * one_input
    chunk = live["fp32 logits"] // run["num_chunks"]
    return {
        "expandable": free + error["reserved"] - error["allocated"] - request,
        "half_batch": free + with_tokens // 2 - request // 2,
        "checkpoint_all": free + live["layers"] - new_inputs - request,
        "chunked_loss": free + live["fp32 logits"] - chunk - request // run["num_chunks"],
    }
    ### END SOLUTION


# %%
small_error = {"requested": 80, "free": 70, "reserved": 300, "allocated": 280}
small_live = {"weights": 40, "gathered weights": 16, "layer inputs": 20, "layers": 90}
small_live |= {"bf16 logits": 30, "fp32 logits": 80, "others": 4}
small_run = {"num_layers": 6, "num_checkpointed": 2, "num_chunks": 4, "step": 1}
try_it(left_free, small_error, small_live, small_run)
try_it(left_free, small_error, small_live, small_run | {"step": 2})

# %% check="u04-oom"
# Errors of many models: layers checkpointed, some, all but one or all; the first step and later ones.

# %% [markdown]
# <details><summary>Hint: only the checkpointed layers are wrong</summary>
#
# How many layers are newly checkpointed, and what does each of them still keep?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Table: GB left after the recorded request, in steps 1 and 2
left_of, of = answer("u04-oom", left_free), lambda name: oom[f"allocated: {name}"]
in_layers = ("linear outputs", "products and residuals", "feed-forward silu", "norms")
last_norm = of("norms") // 33  # two in each of 16 layers, and the last
rotated = of("attention: rotary + repeated kv + output")
recorded_live = {
    "weights": of("sharded weights and FSDP buffers"),
    "gathered weights": of("FSDP all-gathered weights"),
    "layer inputs": of("checkpointed layer inputs and residuals"),
    "layers": sum(map(of, in_layers)) + rotated - last_norm,
    "bf16 logits": of("logits in bf16"),
    "fp32 logits": of("loss: logits in fp32"),
    "others": last_norm + of("embedding") + of("batch"),
}
recorded_error = {name: oom[name] for name in ("requested", "reserved", "allocated")}
recorded_error["free"] = oom["free on the device"]
recorded_run = {"num_layers": 32, "num_checkpointed": 16, "num_chunks": 8}
left_in = {
    f"step {n}": left_of(recorded_error, recorded_live, recorded_run | {"step": n}) for n in (1, 2)
}
(pd.DataFrame(left_in) / 1e9).round(2)

# %% [markdown]
# In step 1 every fix serves this request. That is not yet a step: backward then asks for another 4.2 GB or more, and expandable segments leave 0.67 GB. In step 2 the averages take 8 GB, and only halving the batch or checkpointing all layers still serves it.

# %% [markdown]
# ## Extras
#
# Bonus points.

# %% [markdown]
# ### Place the peak
#
# Three moments compete: the loss, the end of the backward pass, the optimizer's step. A tied matrix is used twice, so its gradient is the sum of two parts:
#
# ![The part from the head lives through the backward pass. When the part from the embedding is there, their sum is made beside both.](tied.svg)

# %% Three candidates for the peak [markdown] exercise="u04-peak" points=3 minutes=17 difficulty=4 importance=5 extra=true
# **Write** `peaks`: bytes live at three moments of step 2, in fp32 with AdamW. The model is a Llama with `num_params` parameters, $N$. Weights and running averages, $12N$ bytes, are always there. Each key is worth a third of the points.
#
# | key | at this moment | in addition |
# |---|---|---|
# | `"loss"` | the gradient of the logits has just been made | everything kept: `kept_bytes`; the gradient of the log-softmax; the gradient of the logits, made from it. The logits are gone, and no parameter has a gradient yet |
# | `"backward"` | the embedding's gradient, the last of all, is complete | the gradients of all parameters, and what this last one was made from. No activations are left |
# | `"step"` | the optimizer's temporaries peak | the gradients of all parameters, and `temporary_bytes` |
#
# Shapes: logits and both their gradients (`num_tokens`, `model.vocab_size`); hidden states and their gradient (`num_tokens`, `model.hidden_size`); the embedding (`model.vocab_size`, `model.hidden_size`). The embedding's gradient is made from the two parts in the drawing if `model.is_tied`, otherwise from the hidden states' gradient. Leave out single numbers such as the loss.
#
# *By hand:* `tiny_llama` ($h = 4$, $v = 5$, tied), 132 parameters, 488 bytes kept, 2 tokens, 160 temporary bytes → **2,152**, **2,272**, **2,272**. Untied, with 152 parameters, `"backward"` is **2,464**.


# %% solution="u04-peak"
def peaks(
    model: ModelConfig, num_params: int, kept_bytes: int, num_tokens: int, temporary_bytes: int
) -> dict[str, int]:
    """Bytes live at three moments of a step: "loss", "backward" and "step"."""
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
# Real training: tied and untied; keys shared or not; one sequence and two; three ways of AdamW.

# %% [markdown]
# <details><summary>Hint: only the loss is wrong</summary>
#
# Logits, log-softmax, and the gradient of each: which of the four exist at this moment, and which of them is in `kept_bytes` already?
# </details>
#
# <details><summary>Hint: only the backward pass is wrong</summary>
#
# Which of the three bars of the drawing is one of the $4N$ bytes of gradients, and what else is live?
# </details>

# %% [markdown]
# **Your function beside the Llama.** Three candidates at three lengths, and the peak of the trace, in GiB:


# %% folded=true tags=["nbval-check-output"]
# Measured: three candidates and the peak, GiB (single numbers left out)
def without_single_numbers(trace):
    return replace(trace, storages=tuple(each for each in trace.storages if each.shape))


clean = {s: without_single_numbers(trace) for s, trace in traces.items()}
measured = {s: trace.peak_bytes_of(2) for s, trace in clean.items()}
end_of_forward = clean[4096].phases[3].stop - 1  # of step 2
kept_for_token = clean[4096].live_at(end_of_forward)["activations"] // 4096
in_loop = temporary_bytes(sizes, "for-loop")
peaks_of = answer("u04-peak", peaks)


def candidates(seq_len):
    kept = kept_for_token * seq_len
    return peaks_of(preset("Llama-3.2-1B"), num_params, kept, seq_len, in_loop)


table = pd.DataFrame({f"{s:,} tokens": candidates(s) for s in traces})
table.loc["measured peak"] = [*measured.values()]
(table / 2**30).round(2)

# %% folded=true
# Figure: the peak over the length
flat = candidates(0)["backward"] - candidates(0)["loss"]
slope = candidates(1)["loss"] - candidates(0)["loss"]
bend = flat // slope
clean |= {s: without_single_numbers(trace_llama(s, num_steps=2)) for s in (1536, 3072)}
lengths = sorted([*clean, bend])
computed_and_measured(
    lengths,
    computed=[max(candidates(s).values()) / 2**30 for s in lengths],
    measured=[clean[s].peak_bytes_of(2) / 2**30 if s in clean else None for s in lengths],
    size_label="tokens of the sequence",
    unit="peak in GiB",
    is_log=False,
    message=f"Flat up to {bend:,} tokens, then {slope / 2**20:.1f} MiB a token.",
)

# %% [markdown]
# They agree to the byte: below the bend the state sets the peak, above it the loss.

# %% [markdown]
# ### Build the allocator
#
# Three tensors of one byte, and one of 3 MiB:

# %% tags=["nbval-check-output"]
allocator = CachingAllocator()
for name in ("a", "b", "c"):
    allocator.allocate(name, 1)
after_small = allocator.levels
allocator.allocate("logits", 3 * 2**20)
after = ["after a, b, c", "after the logits"]
pd.DataFrame([after_small, allocator.levels], index=after).map("{:,}".format)

# %% [markdown]
# Blocks are rounded up to 512 B and split off a segment of 2 MiB; larger ones come from another **pool**, with larger segments. Allocating **splits** a piece of a segment; freeing **joins** neighbors:
#
# ![Allocating a and b splits a segment; freeing a leaves a hole; freeing b joins all pieces.](segment.svg)

# %% A small caching allocator [markdown] exercise="u04-allocator" points=4.5 minutes=35 difficulty=5 importance=3 extra=true
# **Write** `Allocator`, a class with `allocate(num_bytes)`, which returns an address, and `free(address)`. `Allocator(reserve)` takes a function: `reserve(n)` asks the device for a segment of `n` bytes, which the device never takes back, and returns its first address. A new segment may lie above or below the others, or right beside one.
#
# 1. A request becomes a block of `rounded_bytes(num_bytes)`.
# 2. Blocks of up to 1 MiB belong to the **small** pool, others to the **large** one; a segment serves one pool.
# 3. Of the free blocks of the pool that are large enough, take the smallest; on ties, the one with the lowest address.
# 4. If there is none, reserve `new_segment_bytes(size)` for a block of `size`.
# 5. If at least 512 B (small pool) or *more than* 1 MiB (large pool) of the block would be left over, split them off as a free block behind; otherwise the block is handed out whole.
# 6. A freed block is joined with its free neighbors in the same segment, before and behind.
#
# A **script** is a list of integers: a positive n requests n bytes, `-n` frees the n-th block requested. Scripts of small blocks, of large ones, and of both: a third of the points each. Requests count up to the first that breaks a rule.
#
# *By hand:* `[1, 1, 1, -2, 600, 400]` → addresses **0, 512, 1024, 1536, 512**, and **2,097,152** bytes reserved: 600 bytes do not fit into the hole of the second block, 400 do.

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
    """The segment with the piece at an address, and the piece's index in it."""
    return next(
        (row, n) for row in segments for n, each in enumerate(row) if each.address == address
    )


# %% solution="u04-allocator"
class Allocator:
    """Serves requests from cached segments."""

    def __init__(self, reserve: Callable[[int], int]) -> None:
        """Hold no segment yet; `reserve` gives the address of a new one of so many bytes."""
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
# <details><summary>Hint: a script goes wrong in the middle and I cannot see why</summary>
#
# Play it: `played(Allocator, [...], "downwards")`. If the verdict says "got 5", which rule acts at the sixth request?
# </details>

# %% [markdown]
# **Your allocator beside the course's,** on the four steps of the Llama:

# %% folded=true tags=["nbval-check-output"]
# Measured: your allocator serves the trace
allocator_of = answer("u04-allocator", Allocator)
yours = played(allocator_of, traces[1024].script())["reserved_bytes"]
most = {"yours": max(yours) / 2**30, "the course's": max(reserved) / 2**30}
pd.DataFrame({"reserved at most, GiB": most}).round(2)

# %% [markdown]
# ### Fragmentation
#
# Four steps peak at 20.37 GiB live. How small may the device be?


# %% folded=true tags=["nbval-check-output"]
# Measured: the smallest device for 1,024 tokens
def outcome(device_gib):
    device = CachingAllocator(int(device_gib * 2**30))
    try:
        device.play_script(traces[1024].script())
    except MemoryError:
        return f"out of memory, {device.levels.inactive_split_bytes / 2**30:.1f} GiB in holes"
    return "fits"


pd.DataFrame({"four steps": {f"{gib} GiB": outcome(gib) for gib in (20.5, 21.0, 21.6, 21.7)}})

# %% [markdown]
# Wholly free segments go back before the allocator gives up, so `empty_cache()` rarely helps. Holes cannot go back, and on a tight device they grow: **fragmentation**. (`expandable_segments` cure much of it.)

# %% [markdown]
# ### What the machine says
#
# **Guess first.** A small Llama takes its first step. By its trace it leaves 223 MiB behind. By how many MiB does the process grow?

# %%
predict("u04-process", None, "MiB")


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: three training steps, traced and as this process (up to a minute)
def small_llama():
    sizes = ModelConfig(
        num_layers=4, hidden_size=512, num_heads=8, ffn_size=1408, vocab_size=32_000, is_tied=True
    )
    return Training(sizes, RunConfig(seq_len=512, precision=precision("fp32")))


with fake_tensors():
    twin = small_llama()
    twin_trace = trace_memory(twin.step, *twin.owners, num_steps=3)
starts = [twin_trace.total_bytes[0], *(twin_trace.phases[n].end_bytes for n in (2, 5, 8))]
real = small_llama()
growths = [watch_process(real.step) for _ in range(3)]
in_mib = {
    f"step {n}": {
        "traced, at the peak": (twin_trace.peak_bytes_of(n) - starts[n - 1]) // 2**20,
        "process, at the peak": growth.peak_bytes // 2**20,
        "traced, left behind": (starts[n] - starts[n - 1]) // 2**20,
        "process, left behind": growth.kept_bytes // 2**20,
    }
    for n, growth in enumerate(growths, 1)
}
compare("u04-process", "MiB", measured=growths[0].kept_bytes / 2**20)

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Table: growth in each step, MiB
pd.DataFrame(in_mib)

# %% [markdown]
# The first step leaves more than the trace sees; the third asks for less: what PyTorch frees may stay with the process.

# %% [markdown]
# ### Read a snapshot
#
# A GPU's allocator records **snapshots**, for `pytorch.org/memory_viz`. Without a GPU, the course's allocator writes one in the same format.

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: two steps of a small Llama, written to snapshot.pickle
where = "cuda" if torch.cuda.is_available() else "cpu"
on_device = ModelConfig(num_layers=4, hidden_size=256, num_heads=4, ffn_size=704, vocab_size=8000)
device_run = RunConfig(seq_len=512, precision=precision("fp32"))
device_training = Training(on_device, device_run, device=where)
file = Path(tempfile.gettempdir()) / "snapshot.pickle"
device_trace = trace_allocator(
    device_training.step, *device_training.owners, num_steps=2, path=file
)
if (device_peak := measure_peak(device_training.step)) is not None:
    print(device_peak)
if where == "cpu":  # what the course's allocator does with the same requests
    made_by = [device_trace.storages[number].operation for number, _ in device_trace.requests()]
    file.write_bytes(pickle.dumps(snapshot_of(device_trace.script(), stacks_of(made_by))))
print(f"{file}: {file.stat().st_size:,} bytes")
memory_timeline(device_trace)

# %% A reader of snapshots [markdown] exercise="u04-snapshot" points=2 minutes=20 difficulty=4 importance=3 extra=true
# **Write** `read_snapshot`. Half a point each:
#
# | key | what |
# |---|---|
# | `"peak_bytes"` | the most bytes allocated after any event, in requested sizes |
# | `"peak_event"` | index of the first event after which so many are allocated |
# | `"holder_bytes"` | after that event, the bytes of the function that holds most; 0 if nobody holds any |
# | `"trapped_bytes"` | at the end, free bytes of segments with a block in use |
#
# `snapshot["device_traces"][0]` lists the events; only `alloc` and `free_requested` change what is allocated. The recording may begin late: blocks from before it count, but have no `alloc` and no holder. `snapshot["segments"]` shows the blocks after the last event. A stack (`frames`) begins with the innermost frame; the holder is the function of the first frame with a file outside `/torch/`, else nobody.
#
# *By hand:* the next cell's snapshot → **1600**, **2**, **1000**, **2,095,616**.

# %%
example = snapshot_of([600, 1000, -1, 300], stacks_of(["embed", "mlp", "mlp", "loss"]))
{"event": example["device_traces"][0][2], "block": example["segments"][0]["blocks"][0]}


# %% solution="u04-snapshot"
def read_snapshot(snapshot: dict) -> dict[str, int]:
    """Of a memory snapshot: "peak_bytes", "peak_event", "holder_bytes" and "trapped_bytes"."""
    ### BEGIN SOLUTION
    sign = {"alloc": 1, "free_requested": -1}
    events, segments = snapshot["device_traces"][0], snapshot["segments"]
    blocks = [block for segment in segments for block in segment["blocks"]]
    in_use = sum(
        block["requested_size"] for block in blocks if block["state"] == "active_allocated"
    )
    changes = [sign.get(event["action"], 0) * event["size"] for event in events]
    line = [in_use - sum(changes)]
    for change in changes:
        line.append(line[-1] + change)
    line = line[1:]  # after each event
    peak = max(line)
    at = line.index(peak)
    live = {}
    for event in events[: at + 1]:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_requested":
            live.pop(event["addr"], None)
    held = {}
    for event in live.values():
        frames = event["frames"]
        own = [each for each in frames if "/torch/" not in each["filename"]]
        if own:
            name = own[0]["name"]
            held[name] = held.get(name, 0) + event["size"]
    trapped = 0
    for segment in segments:
        if any(block["state"] == "active_allocated" for block in segment["blocks"]):
            trapped += sum(
                block["size"] for block in segment["blocks"] if block["state"] == "inactive"
            )
    return {
        "peak_bytes": peak,
        "peak_event": at,
        "holder_bytes": max(held.values(), default=0),
        "trapped_bytes": trapped,
    }
    ### END SOLUTION


# %%
def read_again(script, functions, recorded_from=0):  # a verdict names all three
    return read_snapshot(snapshot_of(script, stacks_of(functions), recorded_from))


try_it(read_again, [600, 1000, -1, 300], ["embed", "mlp", "mlp", "loss"])

# %% check="u04-snapshot"
# Recordings from the start and late, peaks reached twice, segments wholly free.


# %% tags=["demonstration", "nbval-ignore-output"]
def read_file(path):
    return read_snapshot(pickle.loads(Path(path).read_bytes()))


try_it(read_file, str(file))

# %% [markdown]
# ## What you know now
#
# | moment, in fp32 | bytes |
# |---|---|
# | before the first step, and before later ones | $4N$, $12N$ |
# | end of backward | $16N$ |
# | inside AdamW's step | $20N$ (foreach), $16N$ (fused) |
# | start of backward, at the loss | $12N$ + all that is kept + $8\,sbv$ |
# | a fix for one of two humps | saves their difference at most |
#
# **Your plan** adds up 177 GB: at the loss 169 GB are live, between steps 112 GB. Unit 05 shrinks the activations; units 09 and 10 spread the state over devices.
#
# *Further reading:* PyTorch's *Understanding CUDA Memory Usage* (15 minutes) and Shi and DeVito 2023, *Understanding GPU Memory* (30 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("04")
