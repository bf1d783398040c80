# ---
# jupyter:
#   course:
#     title: What does your code wait for?
#     device: CPU
#     needs: ["00", "01"]
#     lecture: [S8, S9, E1, E3, B13]
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
# ![Bars, drawn to scale, of Llama-3-8B on one H100. A prompt of 1,024 tokens: 15.0 ms of arithmetic, 4.6 ms of memory. The next token: 0.02 ms of arithmetic, 4.5 ms of memory.](hero.svg)
#
# The next token of Llama-3-8B takes a thousandth of the arithmetic of a 1,024-token prompt, but reads the same weights. You will find out what a piece of code waits for, predict how long it takes, and remove the waste.
#
# Your training plan assumes 40 % of peak. It cannot yet say what the hardware would allow.
#
# 1. **Read** a profile and a GPU's trace: what ran, for how long, and what did the GPU wait for?
# 2. **Compute** the bytes that an operation and a whole step must move.
# 3. **Predict** run time from the roofline, compare it with the clock, and **explain** the gap.
# 4. **Say** what fusing gives at best, and **repair** a loop that wastes most of its work.
#
# | here | lecture S | meaning |
# |---|---|---|
# | $b$, $s$ | bs, L | sequences, tokens in each |
# | $m$, $k$, $n$ | M, D, N | a product of an $(m, k)$ and a $(k, n)$ matrix; $m$ is the number of tokens |
# | $h$, $f$, $v$ | D, F | width, inner width of the feed-forward block, vocabulary |
# | $a$, $a_{kv}$, $d$ | H, D' | query heads, key-value heads, width of a head |
# | $e$ | | bytes per element |

# %% setup=true
import os

os.environ["KINETO_LOG_LEVEL"] = "6"  # PyTorch's profiler keeps its messages to itself

from course_utils.preflight import check_setup

check_setup()

import math
from fractions import Fraction
from itertools import cycle
from typing import Any

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import record_function

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import Device, ModelConfig, device, preset
from course_utils.instruments import (
    count_bytes,
    fake_tensors,
    fastest_seconds,
    measure_roofline,
    profile,
)
from course_utils.intervals import difference, length, union
from course_utils.records.traces import about, recorded_trace
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, hidden_states
from course_utils.show import (
    Choice,
    device_roof,
    explorer,
    rooflines,
    steps_on_roofline,
    trace_lanes,
    try_it,
)
from course_utils.traces import GPU_WORK, Event, made, read_trace, select, span_seconds

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## What ran?
#
# We run a small Llama in three ways. **Prefill** runs a prompt through the model and keeps the keys and values of its tokens in a **cache**. **Decode** takes one new token, which attends to the cache. **Training** keeps no cache, and adds a backward pass.

# %%
torch.set_num_threads(1)
torch.manual_seed(0)
sizes = ModelConfig(
    num_layers=4, hidden_size=256, num_heads=8, num_kv_heads=4, ffn_size=688, vocab_size=2000
)
model, ids = Transformer(sizes), torch.randint(2000, (4, 128))
cache = Cache(model, num_sequences=4, max_len=129)


@torch.no_grad()
def prefill():
    cache.length = 0
    with record_function("prefill"):
        return model.head(hidden_states(model, ids, cache)[:, -1])


@torch.no_grad()
def decode():
    cache.length = 128
    with record_function("decode"):
        return model.head(hidden_states(model, ids[:, :1], cache)[:, -1])


def train():
    with record_function("forward"):
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    with record_function("backward"):
        loss.backward()


# %% [markdown]
# A **profiler** records every operator that runs (S9). The `schedule` below skips a step, warms up in the next, and records three: never trust a first run, which allocates, and on a GPU compiles and chooses kernels. The labels of `record_function` show up as ranges.

# %% tags=["nbval-ignore-output"]
schedule = torch.profiler.schedule(wait=1, warmup=1, active=3)
with torch.profiler.profile(schedule=schedule, record_shapes=True) as profiler:
    for _ in range(5):
        train()
        profiler.step()

columns = {"input_shapes": "shapes", "count": "calls"}
columns |= {"self_cpu_time_total": "own_us", "cpu_time_total": "total_us"}
by_shape = profiler.key_averages(group_by_input_shape=True)
table = pd.DataFrame(
    {name: [getattr(each, key) for each in by_shape] for key, name in columns.items()},
    index=[each.key for each in by_shape],
)
table.sort_values("own_us", ascending=False).round().head(8)

# %% [markdown]
# `total_us` includes the operators that an operator calls; `own_us` does not. `aten::linear` calls `aten::matmul`, and that calls `aten::mm`: one product, three rows. A range's own time is time spent in Python. By shape you see *which* product is slow. `by_shape.table(sort_by="self_device_time_total")` prints all columns, a GPU's too; `profiler.export_chrome_trace("step.json")` writes the time line for [ui.perfetto.dev](https://ui.perfetto.dev).
#
# **Guess first.** Prefill runs 128 tokens of each sequence through the model, decode one. How many times longer does prefill take? And what fills decode's time, if not products?

# %%
predict("u02-prefill", None, "times as long as decode")

# %% folded=true tags=["nbval-ignore-output"]
# Measured: prefill and decode; figure: the quickest of ten decode steps on its time line
ratio = fastest_seconds(prefill, num_runs=3) / fastest_seconds(decode, num_runs=3)
display(compare("u02-prefill", "times as long as decode", measured=ratio))
steps = (select(read_trace(profile(decode).trace), kind="cpu_op") for _ in range(10))
quickest = min(steps, key=span_seconds)
trace_lanes(quickest, "One decode step: what an operator calls stands below it.")

# %% [markdown]
# In its layers decode does 1/128 of the multiplications, and takes far more than 1/128 of the time. Zoom in (click, then `+`): the gaps are Python, and each operator costs time before it computes anything, the same for one token and for 128.
#
# ## What does the GPU wait for?
#
# On a GPU, `a @ b` only puts a kernel into a **queue**: a *launch*, some microseconds of the CPU's time. Python goes on at once, and the GPU works through the queue. CUDA's own clock is two events in the queue:
#
# ```python
# for _ in range(3):
#     step()  # warm up
# start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
# start.record()
# step()
# end.record()
# torch.cuda.synchronize()  # the CPU waits here until the queue is empty
# milliseconds = start.elapsed_time(end)
# ```
#
# When has the CPU launched everything, and when has the GPU finished? Two published traces, of a training step of modded-nanogpt on 8 H100s and of a forward pass of a small BERT on one:

# %% folded=true tags=["nbval-check-output"]
# Recorded: first and last launch, and the end of the last kernel, from the first kernel's start
rows = {}
for name in ("h100x8_nanogpt_before", "h100_bert_small_forward"):
    work = select(recorded_trace(name), kind=GPU_WORK)
    first_ns = min(each["start_ns"] for each in work)
    launches_ns = [each["launch_ns"] - first_ns for each in work]
    rows[name] = {
        "GPU events": f"{len(work):,}",
        "first launch, ms": f"{min(launches_ns) / 1e6:.2f}",
        "last launch, ms": f"{max(launches_ns) / 1e6:.2f}",
        "GPU finished, ms": f"{1000 * span_seconds(work):.2f}",
        "source": f"{about(name)['source'].split(',')[0]}, {about(name)['licence']}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# nanogpt's CPU has launched everything 1.5 ms after this step's first kernel starts, and the GPU works for 61 ms more. Without `synchronize`, Python's clock times the launches (here −57 to 1.5 ms), not the kernels. BERT's CPU is never that far ahead: each kernel begins some 6 µs after its launch, so the queue is never long.
#
# **Guess first.** BERT's 61 kernels and copies take 3.9 ms. For what share of that time is the H100 busy?

# %%
predict("u02-busy", None, "% of the time")

# %% folded=true tags=["nbval-ignore-output"]
# Figure: a forward pass of bert-small on an H100, the CPU above, the GPU below
bert = recorded_trace("h100_bert_small_forward")
bert_work = select(bert, kind=GPU_WORK)
busy_ns = length(union((each["start_ns"], each["end_ns"]) for each in bert_work))
display(compare("u02-busy", "% of the time", measured=busy_ns / 1e7 / span_seconds(bert_work)))
trace_lanes(bert, "bert-small on an H100 (TraceLens, MIT): what does the lowest lane wait for?")

# %% [markdown]
# An **event** of a trace is a dictionary, in whole nanoseconds. `select(events, kind=GPU_WORK)` picks what ran on the GPU: the kinds `kernel`, `compute` (several kernels as one event), `memcpy`, `memset` and `communication`.

# %% tags=["nbval-check-output"]
bert_work[0]

# %% What does the GPU wait for? [markdown] exercise="u02-waits" points=3 minutes=14 difficulty=3 importance=5
# **Write** `gpu_waits`: where one GPU's time goes, from the start of its first event to the end of its last. Each key is worth a quarter of the points. Events are in any order. A GPU event is **queued** from `launch_ns` to `start_ns`; if `launch_ns` is `None`, it was never queued.
#
# | key | nanoseconds in which |
# |---|---|
# | `"busy"` | at least one GPU event runs, on any stream |
# | `"loader"` | none runs, none is queued, and a CPU event with `DataLoader` in its name is open |
# | `"launches"` | likewise, but no such CPU event is open |
#
# `"at_best"` (to nine significant digits): how many times as fast the GPU would be through if one launch, that of a **CUDA graph**, queued everything. `busy` and `loader` stay as they are; other waits are gone.
#
# | given | |
# |---|---|
# | `select(events, lane="cpu*", name="*mm*")` | CPU events with `mm` in their name |
# | `union(spans)` | pairs (start, end), joined where they overlap or touch, in order |
# | `difference(spans, others)` | the parts of `spans` in none of `others`; both as `union` gives them |
# | `length(spans)` | their total |
#
# *By hand:* kernels launched at 0, 15, 60 run 10–30, 32–40, 70–80; a loader 25–55. Of 70 ns the GPU is busy for **38**, and waits **15** for the loader (40–55) and **5** for launches (55–60). In the other 12 (30–32, 60–70) a kernel is queued. At best **70/53** times as fast.


# %% solution="u02-waits"
def gpu_waits(events: list[Event]) -> dict[str, float]:
    """Nanoseconds "busy", and of waiting for "loader" and "launches"; times as fast "at_best"."""
    ### BEGIN SOLUTION
    work = select(events, kind=GPU_WORK)
    busy = union((each["start_ns"], each["end_ns"]) for each in work)
    whole = [(busy[0][0], busy[-1][1])]
    pending = []
    for each in work:
        launch_ns = each["start_ns"] if each["launch_ns"] is None else each["launch_ns"]
        pending.append((launch_ns, each["end_ns"]))
    starved = difference(whole, union(pending))
    loaders = select(events, lane="cpu*", name="*DataLoader*")
    loading = union((each["start_ns"], each["end_ns"]) for each in loaders)
    launches = length(difference(starved, loading))
    loader = length(starved) - launches
    return {
        "busy": length(busy),
        "loader": loader,
        "launches": launches,
        "at_best": length(whole) / (length(busy) + loader),
    }
    ### END SOLUTION


# %%
few_events = [
    made(lane="gpu:7", name=name, launch_ns=launch, start_ns=start, end_ns=end)
    for name, launch, start, end in (("A", 0, 10, 30), ("B", 15, 32, 40), ("C", 60, 70, 80))
]
loader = {"lane": "cpu", "kind": "range", "name": "DataLoader.__next__"}
few_events.append(made(**loader, start_ns=25, end_ns=55))


def by_hand(gpu_waits):
    return gpu_waits(few_events)


try_it(by_hand, gpu_waits)
trace_lanes(few_events, "The events by hand: click one to see when it was launched.")

# %% check="u02-waits"
# Parts of traces of V100, A100, H100 and B200; two streams at once; rows in any order.

# %% [markdown]
# <details><summary>Hint: when is nothing queued and nothing running?</summary>
#
# From when to when does the GPU have one event to run or running? What is left of its time when you take away all of those?
# </details>
#
# <details><summary>Hint: my loader waits too long</summary>
#
# During how much of 25–55 does a kernel above run, or stand in the queue?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Measured: what recorded GPUs waited for
waits_of = answer("u02-waits", gpu_waits)
parts = {
    "bert-small, forward, H100": ("h100_bert_small_forward", "*"),
    "Qwen1.5-0.5B, forward, H100": ("h100_qwen05b_forward", "*"),
    "GPT small, forward, A100": ("a100_gpt_small_step_fp32", "forward*"),
    "GPT small, backward, A100": ("a100_gpt_small_step_fp32", "backward"),
    "GPT small, optimizer, A100": ("a100_gpt_small_step_fp32", "optimizer"),
    "ResNet-50, 0 workers, V100": ("v100_resnet50_dataloader", "workers=0"),
    "ResNet-50, 4 workers, V100": ("v100_resnet50_dataloader", "workers=4"),
}
rows = {}
for row, (name, phase) in parts.items():
    events = select(recorded_trace(name), phase=phase)
    waits, work = waits_of(events), select(events, kind=GPU_WORK)
    whole_ns = 1e9 * span_seconds(work)
    times_ns = {key: waits[key] for key in ("busy", "loader", "launches")}
    times_ns |= {"queued": whole_ns - sum(times_ns.values()), "whole": whole_ns}
    rows[row] = {"GPU events": f"{len(work):,}"}
    rows[row] |= {f"{key}, ms": f"{abs(ns) / 1e6:.1f}" for key, ns in times_ns.items()}
    rows[row] |= {"at best": f"{waits['at_best']:.2f} ×"}
pd.DataFrame(rows).T

# %% [markdown]
# - BERT and the optimizer wait for launches longer than they work: they are **launch-bound**. (BERT's 12.6 × is high, since its profiler recorded stacks, too, which slows the CPU.) The optimizer, AdamW in plain Python, runs 16 kernels for each of 111 parameters: 11.8 ms of work in 59. Qwen's kernels, over 16 × 559 tokens, are so long that the CPU gets up to 3 ms ahead.
# - A CUDA graph (`torch.compile(mode="reduce-overhead")`) replays all launches as one. A **fused** optimizer (`AdamW(fused=True)`) has few launches, and less work besides.
# - ResNet's loader runs for 88.4 of 298 ms; the GPU waits for 63.4 of them, since at first it is still running earlier kernels. (This trace records no launches, so nothing is queued.) Four workers (`num_workers=4`) end that wait and save 53 ms.
#
# **The profiler slows the CPU, not the kernels.** The A100's step, busy for 148.4 ms, took 234.7 under the profiler, and by its authors' clock 152.6 without. (Source and licence: `about("a100_gpt_small_step_fp32")`.)
#
# <details><summary>So what would a CUDA graph save of this step, at best?</summary>
#
# Not 86 ms, but 152.6 − 148.4 = 4.2: without the profiler, the optimizer is launched while the GPU still runs backward. A trace tells who waits for whom; for how long, only a clock without the profiler tells.
# </details>

# %% folded=true tags=["nbval-ignore-output"]
# On a GPU: what does yours wait for?
if torch.cuda.is_available():
    on_gpu, gpu_ids = Transformer(sizes, device="cuda"), ids.cuda()

    def step():
        on_gpu(gpu_ids).sum().backward()

    display(waits_of(read_trace(profile(step).trace)))
    print(f"{fastest_seconds(step):.2e} s without the profiler; {measure_roofline('cuda')}")
else:
    print("There is no GPU here: the recorded traces stand in for yours.")

# %% [markdown]
# ## What has to move?
#
# Before a processor can multiply two numbers, they must come from memory. `count_bytes` counts the least each operation must move: every input read once, every output written once.

# %% tags=["nbval-check-output"]
a, b = torch.ones(7, 3, dtype=torch.bfloat16), torch.ones(3, 5, dtype=torch.bfloat16)
print(count_bytes(lambda: a @ b))
print(count_bytes(lambda: a + a))
print(count_bytes(a.t))

# %% [markdown]
# FLOPs over bytes is the **arithmetic intensity**. Only matrix products count as FLOPs, so an addition has intensity 0. A view moves nothing.

# %% Bytes of a product [markdown] exercise="u02-product-bytes" points=1 minutes=3 difficulty=1 importance=5
# **Write** `product_bytes`: the bytes that the product of a (`rows`, `inner`) and an (`inner`, `columns`) matrix must move. Each element takes `element_bytes`.
#
# *By hand:* 7 × 3 times 3 × 5 in bf16 → **142**.


# %% solution="u02-product-bytes"
def product_bytes(rows: int, inner: int, columns: int, element_bytes: int) -> int:
    """Bytes read and written by one matrix product, everything once."""
    ### BEGIN SOLUTION
    numbers = rows * inner + inner * columns + rows * columns
    return element_bytes * numbers
    ### END SOLUTION


# %%
try_it(product_bytes, 7, 3, 5, 2)

# %% check="u02-product-bytes"
# Formats of 1 to 8 bytes; one row and thousands; a layer of a real model.

# %% [markdown]
# ## The roofline
#
# A device computes at most $P$ FLOP/s and moves at most $W$ bytes/s. An operation of intensity $I$ reaches at most
#
# $$\min(P,\; I \cdot W)$$
#
# a slope and a flat roof (S8). They meet at the **ridge** $P / W$. Left of it an operation is **memory-bound**: it waits for bytes. Right of it, it is **compute-bound**.
#
# **Guess first.** In the time an H100 moves one byte, it can do 295 FLOPs in bf16. How many can one thread of your machine do in fp32?

# %%
predict("u02-ridge", None, "FLOP/B")

# %% tags=["nbval-ignore-output"]
roof = measure_roofline("cpu")
print(roof)
compare("u02-ridge", "FLOP/B", measured=roof.ridge)

# %% [markdown]
# Only this thread's own time is counted: other programs matter as far as they use the memory. If the spread exceeds 1.3, measure again.
#
# Run the next two cells. An addition counts here as one FLOP for 12 bytes. *Guess:* which of the two lies above the roof, and why?

# %% tags=["nbval-ignore-output"]
torch.set_num_threads(1)
far, near = torch.ones(3, 32_000_000).unbind(), torch.ones(3, 64_000).unbind()
scores = torch.randn(2000, 2000)
weights = cycle(torch.randn(5, 2048, 4096).unbind())  # one alone would stay in the cache


def linear(num_tokens):
    tokens = torch.randn(num_tokens, 2048)
    return lambda: tokens @ next(weights)


operations = {
    "add, 384 MB": lambda: torch.add(far[0], far[1], out=far[2]),
    "add, 0.8 MB": lambda: torch.add(near[0], near[1], out=near[2]),
    "softmax": lambda: scores.softmax(-1),
    **{f"linear, {n} token{'s' * (n > 1)}": linear(n) for n in (1, 4, 16, 128)},
}

# %% folded=true tags=["nbval-ignore-output"]
# Figure: the operations under your machine's roof, and other devices
names = ("A100-80", "H100-SXM", "H200", "B200")
roofs = {"one thread": (roof.flops_per_second, roof.bytes_per_second)}
roofs |= {name: device_roof(name) for name in names}
dots, gb_per_second = {}, {}
for name, call in operations.items():
    moved, seconds = count_bytes(call), fastest_seconds(call)
    gb_per_second[name] = moved.num_bytes / seconds / 1e9
    if moved.flops:
        dots[name] = (moved.intensity, moved.flops / seconds)
    elif name.startswith("add"):
        dots[name] = (1 / 12, moved.num_bytes / 12 / seconds)
for name in ("add, 384 MB", "add, 0.8 MB", "softmax"):
    print(f"{name}: {gb_per_second[name]:.1f} GB/s of {roof.bytes_per_second / 1e9:.1f}")
rooflines(roofs, dots, caches={"from a cache": 1e9 * gb_per_second["add, 0.8 MB"]})

# %% [markdown]
# One token lies near the slope, 128 near the roof: **the same weights serve more tokens**. In the middle, thin products fall short of both, and a softmax falls short of the bandwidth: its exponentials take time that the roofline does not count.
#
# The small addition lies above the roof, which is that of *main memory*. Each memory has a slope of its own, the steeper the nearer: the dashed one is a cache's, too small for the large arrays. Lecture E's figure for an A100-40 has 19 TB/s on chip, 1.5 TB/s in main memory and 12.8 GB/s from the host (E3).

# %% Seconds at the roof [markdown] exercise="u02-roofline-seconds" points=1.5 minutes=6 difficulty=2 importance=5
# **Write** `roofline_seconds`: the least seconds for operations that run one after the other, a `float` to nine significant digits. `operations` is a list of pairs (FLOPs, bytes), which may be empty. Computing and moving overlap within an operation, never across two. Your plan will use it.
#
# *By hand:* 10¹² FLOP/s and 10¹¹ bytes/s; (2·10⁹, 4·10⁶), (0, 5·10⁸), (3·10¹⁰, 2·10⁸) → **0.037** s.


# %% solution="u02-roofline-seconds"
def roofline_seconds(
    operations: list[tuple[int, int]], flops_per_second: float, bytes_per_second: float
) -> float:
    """Seconds of operations one after the other, each at its roof."""
    ### BEGIN SOLUTION
    return sum(
        max(flops / flops_per_second, num_bytes / bytes_per_second)
        for flops, num_bytes in operations
    )
    ### END SOLUTION


# %%
three_operations = [(2 * 10**9, 4 * 10**6), (0, 5 * 10**8), (3 * 10**10, 2 * 10**8)]
try_it(roofline_seconds, three_operations, 10**12, 10**11)

# %% check="u02-roofline-seconds"
# None, one and many; memory-bound, compute-bound, exactly on the ridge.

# %% [markdown]
# **Now the clock.** Your function, the operations that `count_bytes` saw, and your machine's own roof:

# %% folded=true tags=["nbval-ignore-output"]
# Measured: seconds by the roofline, and by the clock
seconds_at_roof = answer("u02-roofline-seconds", roofline_seconds)
rows = {}
for call in (prefill, decode, train):
    pairs = [(each.flops, each.num_bytes) for each in count_bytes(call).operations]
    at_roof = seconds_at_roof(pairs, roof.flops_per_second, roof.bytes_per_second)
    clock = fastest_seconds(call, num_runs=3)
    rows[call.__name__] = {
        "operations": len(pairs),
        "at the roof, ms": 1000 * at_roof,
        "by the clock, ms": 1000 * clock,
        "ratio": clock / at_roof,
        "µs per operation beyond the roof": 1e6 * (clock - at_roof) / len(pairs),
    }
pd.DataFrame(rows).T.style.format("{:.3g}")

# %% [markdown]
# In decode, part of the last column is the price of *calling* an operation: Python, dispatch, allocation; on a GPU, the launch. Prefill and training pay it too. The rest is kernels below their roof: thin products in decode; elsewhere the large products themselves, then attention.

# %% [markdown]
# ## Prefill, decode, training
#
# ![Prefill reads all layers and the head, writes the cache and reads it back. Decode reads all weights and the whole cache, and writes one token. Training reads all weights twice and has no cache.](steps.svg)
#
# **Guess first.** Llama-3-8B in bf16 decodes one token of one sequence, after 1,024 earlier tokens. How many FLOPs per byte moved?

# %%
predict("u02-decode", None, "FLOP/B")

# %% Bytes of a step [markdown] exercise="u02-step-bytes" points=3 minutes=14 difficulty=3 importance=5
# **Write** `step_bytes`: the bytes of weights and cache that a step moves, all in bf16, for an untied Llama. `elements`, below, counts all weights but the embedding. Each key is worth a third of the points.
#
# | phase | new tokens of each sequence |
# |---|---|
# | `"prefill"` | `seq_len`, into an empty cache |
# | `"decode"` | one, after `seq_len` tokens that are in the cache |
# | `"train"` | `seq_len`, forward and backward, no cache |
#
# Each operation that needs a matrix or norm reads it once, whatever the batch. A step also reads one embedding row per new token, in forward only. New keys and values are written first; then attention reads all that is in the cache. Ignore gradients and activations.
#
# *By hand:* `small`, below, has 320 `elements`, $h = 4$, one layer, and one key-value head of width 2. Two sequences decode after 3 tokens each → weights **656**, cache read **64**, written **16**. Prefill on 3 tokens each: **688**, **48**, **48**; training: **1,328**, **0**, **0**.


# %% solution="u02-step-bytes"
def step_bytes(model: ModelConfig, num_sequences: int, seq_len: int, phase: str) -> dict[str, int]:
    """Bytes that a step moves: "weights", "cache_read" and "cache_written"."""
    h, heads = model.hidden_size, model.num_heads * model.head_dim
    cached = model.num_kv_heads * model.head_dim
    layer = 2 * h * heads + 2 * h * cached + 3 * h * model.ffn_size + 2 * h
    elements = model.num_layers * layer + h + h * model.vocab_size  # with last norm and head
    ### BEGIN SOLUTION
    times = 2 if phase == "train" else 1
    new_tokens = num_sequences * (1 if phase == "decode" else seq_len)
    seen = num_sequences * (seq_len + 1 if phase == "decode" else seq_len)
    token_bytes = 4 * model.num_layers * cached
    is_cached = phase != "train"
    return {
        "weights": 2 * (times * elements + new_tokens * h),
        "cache_read": token_bytes * seen * is_cached,
        "cache_written": token_bytes * new_tokens * is_cached,
    }
    ### END SOLUTION


# %%
small = ModelConfig(
    num_layers=1, hidden_size=4, num_heads=2, num_kv_heads=1, head_dim=2, ffn_size=5, vocab_size=50
)
for phase in ("decode", "prefill", "train"):
    try_it(step_bytes, small, 2, 3, phase)

# %% check="u02-step-bytes"
# Counted on fake tensors, by storage: all phases; MHA and GQA; wide heads.

# %% [markdown]
# <details><summary>Hint: only training is wrong</summary>
#
# Backward makes two products for each forward one, $dX = dY\,W^T$ and $dW = X^T dY$. Which of them reads $W$?
# </details>
#
# <details><summary>Hint: only decode is wrong</summary>
#
# How many tokens are in the cache when attention reads it? Which of them is the new one?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Measured: Llama-3-8B decodes one token after 1,024
bytes_of = answer("u02-step-bytes", step_bytes)
llama = preset("Llama-3-8B")


def counted(model, num_sequences, seq_len, phase):
    with fake_tensors(), torch.set_grad_enabled(phase == "train"):
        built = Transformer(model, dtype=torch.bfloat16)
        if phase == "train":
            tokens = torch.zeros(num_sequences, seq_len, dtype=torch.long)
            return count_bytes(lambda: built(tokens).sum().backward())
        cache = Cache(built, num_sequences, seq_len + 1)
        cache.length = seq_len if phase == "decode" else 0
        new = torch.zeros(num_sequences, seq_len - cache.length or 1, dtype=torch.long)
        return count_bytes(lambda: built.head(hidden_states(built, new, cache)[:, -1]))


moved = counted(llama, 1, 1024, "decode")
parts = bytes_of(llama, 1, 1024, "decode")
compare(
    "u02-decode",
    "FLOP/B",
    computed=moved.flops / sum(parts.values()),
    measured=moved.intensity,
)

# %% [markdown]
# A multiply and an add for each weight of two bytes: **one FLOP per byte**, against an H100's ridge of 295. Batching helps: the weights are read once for all sequences. Move the batch, then the context. What stops decode from climbing?

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    steps_on_roofline,
    model=Choice("model", ["Llama-3.2-1B", "Llama-3-8B", "Llama-3-405B"], "Llama-3-8B"),
    hardware=Choice("device", ["A100-80", "H100-SXM", "H200", "B200"], "H100-SXM"),
    num_sequences=Choice("batch, sequences", [1, 4, 16, 64, 256, 1024], 1),
    seq_len=Choice("tokens in each", [128, 1024, 8192, 32768], 1024),
)

# %% [markdown]
# Each sequence has its own cache. A byte of it serves the $a / a_{kv}$ query heads that share it: $a / a_{kv}$ FLOPs per byte, whatever the batch (the dotted line). The longer the context, the more of the bytes are cache.
#
# ### "Prefill is compute-bound"
#
# You will read that everywhere; lecture S adds that inference from a small prompt is memory-bound (S8). The explorer counts only weights and cache. Here are *all* operations, one by one, beside the products alone:

# %% folded=true tags=["nbval-check-output"]
# Measured: FLOPs per byte, and milliseconds one operation after the other
h100, rows = device("H100-SXM"), {}
for name in ("Llama-3.2-1B", "Llama-3-8B"):
    for phase in ("prefill", "train"):
        everything = counted(preset(name), 1, 1024, phase)
        multiplying = [each for each in everything.operations if each.flops]
        num_bytes = sum(each.num_bytes for each in multiplying)
        pairs = [(each.flops, each.num_bytes) for each in everything.operations]
        rates = h100.dense_flops_per_second("bf16"), h100.bandwidth_bytes_per_second
        one_by_one, as_one = (
            1000 * seconds_at_roof(some, *rates)
            for some in (pairs, [(everything.flops, everything.num_bytes)])
        )
        rows[name, phase] = {
            "products, FLOP/B": f"{everything.flops / num_bytes:.0f}",
            "everything, FLOP/B": f"{everything.intensity:.0f}",
            "at an H100's roof, ms": f"{one_by_one:.1f}",
            "if all overlapped, ms": f"{as_one:.1f}",
        }
pd.DataFrame(rows).T

# %% [markdown]
# The products alone lie right of the H100's ridge (295) in every row. But operations run one after the other: while norms, gates, rotations and copies stream through memory, no product is running, so their time is added. The 8B model shows it: even *everything* together lies right of the ridge, and still 6 of 21 ms run no product. So the slogan holds for the products, and for code as far as it is **fused**.

# %% [markdown]
# ## Fewer trips to memory
#
# The rest is norms, gates, rotations, additions: few FLOPs, many bytes. A GPU runs each as a kernel that reads from main memory and writes back. A **fused** kernel does several while the numbers are on the chip.
#
# **Guess first.** The A100's optimizer above ran 1,776 kernels, which worked for 11.8 ms. Fused, it would read weight, gradient and both moments of each parameter once, and write all but the gradient: in fp32, for 128 million parameters. How many milliseconds would that take at the roof?

# %%
predict("u02-fused", None, "ms")

# %% folded=true tags=["nbval-check-output"]
# Computed: seven numbers of four bytes for each parameter, on an A100-40
a100_40 = device("A100-40")
rates = a100_40.dense_flops_per_second("fp32"), a100_40.bandwidth_bytes_per_second
optimizer = select(recorded_trace("a100_gpt_small_step_fp32"), phase="optimizer")
compare(
    "u02-fused",
    "ms",
    computed=1000 * seconds_at_roof([(0, 7 * 4 * 128 * 10**6)], *rates),
    measured=waits_of(optimizer)["busy"] / 1e6,
)

# %% [markdown]
# 59 ms with a profiler's launches, 11.8 in a graph, 2.3 fused: a graph removes waiting, fusing removes work. Each of the sixteen kernels wrote what the next one reads.

# %% [markdown]
# ## Repair a loop
#
# `wasteful` generates text one token at a time, always the most likely one. Its tokens are right, and it wastes work in five ways.


# %%
def wasteful(model, prompt, num_new):
    tokens = prompt
    while tokens.shape[1] < prompt.shape[1] + num_new:
        logits = model(tokens)
        shares = torch.softmax(logits.double(), dim=-1)[:, -1]
        new = [[int(row.argmax())] for row in shares]
        tokens = torch.cat([tokens, torch.tensor(new)], dim=1)
    return tokens


# %% Repair the loop [markdown] exercise="u02-repair-generate" points=2.5 minutes=13 difficulty=3 importance=5
# **Write** `generate`: the same tokens, prompt included, without the waste. Each fix earns a fifth of the points, if the tokens are right:
#
# | fix | what is allowed |
# |---|---|
# | `layers` | each position goes once through the layers, and once into the cache |
# | `head` | per new token, one position of each sequence goes through `model.head` |
# | `logits` | only the search for the largest reads them: no copy, no probabilities |
# | `graph` | nothing is saved for a backward pass |
# | `waits` | Python reads no number of a tensor (`int`, `item`, `tolist`, `if`): on a GPU it would wait each time |
#
# | given | |
# |---|---|
# | `Cache(model, num_sequences, max_len)` | an empty cache for `max_len` tokens of each sequence |
# | `hidden_states(model, new_tokens, cache)` | runs a prompt $(b, s)$ into an empty cache, or one more token $(b, 1)$; raises `cache.length`; returns the states that `model.head` reads, $(b, s, h)$ or $(b, 1, h)$ |
#
# *By hand:* 2 prompts of 6 tokens, 5 new ones → a tensor (2, 11), at most **22** positions through the layers and **10** through the head.


# %% solution="u02-repair-generate"
def generate(model: Transformer, prompt: Tensor, num_new: int) -> Tensor:
    """Prompt (b, s) and its num_new most likely next tokens, (b, s + num_new)."""
    ### BEGIN SOLUTION
    cache = Cache(model, len(prompt), prompt.shape[1] + num_new)
    tokens = [prompt]
    new = prompt
    with torch.no_grad():
        for _ in range(num_new):
            last = hidden_states(model, new, cache)[:, -1]
            scores = model.head(last)
            new = scores.argmax(-1, keepdim=True)
            tokens.append(new)
    return torch.cat(tokens, dim=1)
    ### END SOLUTION


# %%
def cost_of(function):
    moved = count_bytes(lambda: function(model, ids[:, :32], 8))
    return {"million_flops": moved.flops // 10**6, "megabytes": moved.num_bytes // 10**6}


try_it(cost_of, wasteful)
try_it(cost_of, generate)

# %% check="u02-repair-generate"
# Small models in five scenarios; one sequence and several; a prompt of one token.

# %% [markdown]
# <details><summary>Hint: how do I join the new tokens without reading them?</summary>
#
# `argmax(-1, keepdim=True)` gives a tensor. What is its shape, and what shape does `hidden_states` take?
# </details>
#
# <details><summary>Hint: the second iteration fails, or its token is wrong</summary>
#
# What do you pass in the first iteration, and what in all others? Where are the tokens in between?
# </details>

# %% folded=true tags=["nbval-ignore-output"]
# Measured: 16 new tokens after 64
generate_of = answer("u02-repair-generate", generate)
slow, quick = (
    fastest_seconds(lambda f=each: f(model, ids[:, :64], 16), num_runs=2)
    for each in (wasteful, generate_of)
)
print(
    f"{1000 * slow:.0f} ms wasteful, {1000 * quick:.0f} ms repaired: {slow / quick:.1f} times faster"
)

# %% [markdown]
# ## Is it good?
#
# gpt-fast, a short PyTorch program, publishes **104.9 tokens/s** for Llama-2-7B in bf16 on one A100-80 limited to 330 W: batch 1, 200 tokens after a prompt of 5. Lecture E compares models of equal quality by what they cost (E1). Here the model is fixed: how good is the *program*?

# %% folded=true tags=["nbval-check-output"]
# Computed: the published rate beside the A100's roof, halfway through (100 cached tokens)
llama_2 = ModelConfig(
    num_layers=32, hidden_size=4096, num_heads=32, ffn_size=11008, vocab_size=32000
)
step = counted(llama_2, 1, 100, "decode")
num_bytes = sum(bytes_of(llama_2, 1, 100, "decode").values())
a100 = device("A100-80")
at_best = 1 / seconds_at_roof(
    [(step.flops, num_bytes)],
    a100.dense_flops_per_second("bf16"),
    a100.bandwidth_bytes_per_second,
)
used = 104.9 * step.flops / a100.dense_flops_per_second("bf16")
print(f"FLOPs used: {used:.2%} of the peak")
print(f"at the roof: {at_best:.0f} tokens/s; published: 104.9, which is {104.9 / at_best:.0%}")

# %% Is 105 tokens per second good? [markdown] exercise="u02-throughput" points=2 minutes=8 difficulty=2 importance=5
# **Answer** in three or four sentences (B13).
#
# - Half a per cent of the peak, or two thirds of the roof: which says how good the program is, and why?
# - What could account for the missing third? Name one thing this unit has shown, and the measurement that would test it.

# %% [markdown] text_answer="u02-throughput"
# <!-- BEGIN SOLUTION -->
# The share of the roof. At batch 1 each weight of two bytes is used for one multiply and one add, so decode waits for the memory, and no program could use more than about 0.7 % of the arithmetic: the FLOPs tell nothing about its quality. The missing third can be bandwidth that the kernels do not reach, which thin products showed here: time one product of a single token, or a plain copy, on that A100 and compare GB/s. (Also right: the price of calls or launches, which a trace shows as gaps between kernels; the limited power, tested without the limit.)
#
# *Rubric.* Share of the roof: 0.5; because decode at batch 1 is memory-bound: 0.5. One cause that fits (bandwidth reached, calls or launches, power): 0.5; a measurement that would show it: 0.5. Activations and norms add only 0.2 % to the bytes: full points for them with `count_bytes` of the whole step as the measurement.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points.

# %% [markdown]
# ### Tokens that make a layer compute-bound
#
# More tokens, more intensity. How far?

# %% Enough tokens [markdown] exercise="u02-fewest-tokens" points=2 minutes=12 difficulty=3 importance=4 extra=true
# **Write** `fewest_tokens`: the fewest rows with which a product reaches the ridge of a device, an `int`. On the ridge counts as reached. If no number of rows is enough, return `math.inf`.
#
# A float can miss a ridge that is met exactly. `Fraction(p, q)` is exact.
#
# *By hand:* an (m, 4) times a (4, 6) matrix in bf16; 20 FLOP/s, 10 bytes/s, so the ridge is at 2 FLOP/B → **12**.


# %% solution="u02-fewest-tokens"
def fewest_tokens(
    inner: int, columns: int, element_bytes: int, flops_per_second: int, bytes_per_second: int
) -> int | float:
    """Fewest rows of a compute-bound product, or math.inf."""
    ### BEGIN SOLUTION
    ridge = Fraction(flops_per_second, bytes_per_second)
    left_over = 2 * inner * columns - ridge * element_bytes * (inner + columns)
    if left_over <= 0:
        return math.inf
    return math.ceil(ridge * element_bytes * inner * columns / left_over)
    ### END SOLUTION


# %%
try_it(fewest_tokens, 4, 6, 2, 20, 10)

# %% check="u02-fewest-tokens"
# Real layers and devices in three formats; layers too small; ridges met exactly.

# %% [markdown]
# <details><summary>Hint: how do I begin?</summary>
#
# Write FLOPs, bytes and ridge as one inequality with $m$ in it. On which side does $m$ appear in every term?
# </details>
#
# <details><summary>Hint: negative numbers</summary>
#
# What is the intensity of a product with a million rows? Can more rows raise it?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Table: tokens that make a layer compute-bound, in bf16
tokens_of = answer("u02-fewest-tokens", fewest_tokens)
layers = ((512, 512), (2048, 2048), (4096, 14336), (8192, 28672))
pd.DataFrame(
    {
        name: {
            f"{k:,} → {n:,}": f"{tokens_of(k, n, 2, *map(int, device_roof(name))):,}"
            for k, n in layers
        }
        for name in names
    }
)

# %% [markdown]
# You may meet the rule of thumb that a batch needs as many tokens as the ridge has FLOP/B. In 16-bit formats it is the limit for infinitely wide layers. For narrow ones, no batch is enough.

# %% [markdown]
# ### A device's decoding limit
#
# <details><summary>From the slides: "Total compute = 29D.D + 4D"</summary>
#
# Lecture S says this of "one user, one small prompt" (S8). It sets the length to 1 in the attention too, as if there were no earlier tokens. With $s$ tokens in the cache, the new one included, it is $29D^2 + 4Ds$: for $D = 4096$ and 131,072 tokens, 5.4 times the slide.
# </details>

# %% Tokens per second at best [markdown] exercise="u02-decode-bound" points=2 minutes=14 difficulty=3 importance=4 extra=true
# **Write** `decode_tokens_per_second`: the most tokens per second, of all sequences together, that a device can decode in bf16 after `context` cached tokens of each: a `float` to nine significant digits. Models are untied Llamas.
#
# - A step moves weights and cache as in `step_bytes`, written keys and values included, and computes its products; those with the cache take $4\,a\,d$ FLOPs for each cached token, layer and sequence, the new token included. Take the whole step as one operation.
# - `hardware.dense_flops_per_second("bf16")`, `.bandwidth_bytes_per_second`, `.memory_bytes`.
# - `0.0` if all parameters, embedding included, and the cache with the new tokens do not fit.
#
# *By hand:* the model `small`, two sequences after 3 tokens each, on an A100-80: 736 bytes → about **5.54·10⁹**.


# %% solution="u02-decode-bound"
def decode_tokens_per_second(
    model: ModelConfig, hardware: Device, num_sequences: int, context: int
) -> float:
    """Tokens per second of decoding at the roof; 0.0 where it does not fit."""
    h, heads, layers = model.hidden_size, model.num_heads * model.head_dim, model.num_layers
    cached = model.num_kv_heads * model.head_dim
    ### BEGIN SOLUTION
    products = layers * (2 * h * heads + 2 * h * cached + 3 * h * model.ffn_size)
    products += h * model.vocab_size
    read = products + (2 * layers + 1) * h
    cache = 4 * layers * cached * num_sequences
    held = 2 * (read + model.vocab_size * h)
    held += cache * (context + 1)
    if held > hardware.memory_bytes:
        return 0.0
    moved = 2 * (read + num_sequences * h)
    moved += cache * (context + 2)
    core = 4 * layers * heads * (context + 1) * num_sequences
    flops = 2 * num_sequences * products + core
    computing = flops / hardware.dense_flops_per_second("bf16")
    moving = moved / hardware.bandwidth_bytes_per_second
    return num_sequences / max(computing, moving)
    ### END SOLUTION


# %%
try_it(decode_tokens_per_second, small, device("A100-80"), 2, 3)

# %% check="u02-decode-bound"
# Counted on fake tensors: memory-bound, compute-bound, and caches one sequence too large.

# %% folded=true tags=["nbval-check-output"]
# Table: tokens/s at best, Llama-3-8B on an A100-80
rate_of = answer("u02-decode-bound", decode_tokens_per_second)
pd.DataFrame(
    {
        f"{context:,} cached": {
            f"batch {n}": f"{rate_of(llama, a100, n, context):,.0f}" for n in (1, 8, 64, 256)
        }
        for context in (256, 1256, 8192)
    }
)

# %% [markdown]
# ### Products in a profile
#
# The course's `profile` warms up, profiles one call, and gives its table as rows:

# %% tags=["nbval-ignore-output"]
profiles = {call.__name__: profile(call) for call in (prefill, decode, train)}
profiles["prefill"].rows[0]

# %% Read a profile [markdown] exercise="u02-profile" points=1.5 minutes=6 difficulty=1 importance=4 extra=true
# **Write** `products_in`, which sums up the matrix products in a profile's rows. Three operators are products: `aten::mm`, `aten::addmm` (with a bias) and `aten::bmm` (a batch of matrices). Fused attention, a kernel of its own, does not count. Each key is worth half the points.
#
# | key | what |
# |---|---|
# | `"calls"` | how often the three were called |
# | `"share"` | the time in the three themselves, not in operators that they call, over all the time, in which nothing counts twice: 0 to 1, to nine significant digits |
#
# *By hand:* `mm` 3 calls, own 70 µs, total 75; `empty` own 5; `matmul` own 5, total 80; `linear` own 5, total 85; `mul` own 15 → **3** and **0.7**.


# %% solution="u02-profile"
def products_in(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of all matrix products in a profile: "calls", and "share" of the time."""
    ### BEGIN SOLUTION
    names = {"aten::mm", "aten::addmm", "aten::bmm"}
    chosen = [row for row in rows if row["operator"] in names]
    return {
        "calls": sum(row["calls"] for row in chosen),
        "share": sum(row["own_us"] for row in chosen) / sum(row["own_us"] for row in rows),
    }
    ### END SOLUTION


# %%
def by_hand(products_in):
    columns = ("operator", "calls", "own_us", "total_us")
    rows = [("aten::mm", 3, 70, 75), ("aten::linear", 3, 5, 85), ("aten::matmul", 3, 5, 80)]
    rows += [("aten::empty", 3, 5, 5), ("aten::mul", 4, 15, 15)]
    return products_in([dict(zip(columns, row, strict=True)) for row in rows])


try_it(by_hand, products_in)

# %% check="u02-profile"
# Tables with all three operators, with some and with none; nested calls; rows in any order.

# %% [markdown]
# <details><summary>Hint: my share is too large, or too small</summary>
#
# Add up the column that you divide by, for the case by hand. Is any microsecond counted twice?
# </details>

# %% folded=true tags=["nbval-ignore-output"]
# Measured: products in the three profiles
products_of = answer("u02-profile", products_in)
table = {name: products_of(each.rows) for name, each in profiles.items()}
pd.DataFrame(table).T.style.format({"calls": "{:.0f}", "share": "{:.0%}"})

# %% [markdown]
# Four layers of seven matrices and a head: 29 products for prefill and decode, 87 for training.

# %% [markdown]
# ### Fewer trips for a softmax
#
# The softmax of attention, written out:


# %%
def written_out(scores, bias, scale):
    scaled = scores * scale
    biased = scaled + bias
    exponents = (biased - biased.amax(-1, keepdim=True)).exp()
    return exponents / exponents.sum(-1, keepdim=True)


# %% tags=["nbval-check-output"]
scores, bias = torch.randn(2, 8, 256, 256), torch.randn(256, 256)
moved = count_bytes(lambda: written_out(scores, bias, 0.125))
print({each.name: round(each.num_bytes / scores.nbytes, 1) for each in moved.operations})

# %% Fewer trips for a softmax [markdown] exercise="u02-fuse" points=1.5 minutes=9 difficulty=3 importance=4 extra=true
# **Write** `attention_weights`: the same result, in the same dtype, with PyTorch functions that move at most 4.5 times the bytes of `scores`, not 12. Do not change `scores` or `bias`, which may hold −∞. All or nothing.
#
# `torch.compile` does not help here: `count_bytes` sees its operations one by one.


# %% solution="u02-fuse"
def attention_weights(scores: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Softmax over keys of scores (b, a, s, t) times scale, plus bias (s, t)."""
    ### BEGIN SOLUTION
    biased = torch.add(bias, scores, alpha=scale)
    return torch.softmax(biased, dim=-1)
    ### END SOLUTION


# %%
def times_moved(function):
    return count_bytes(lambda: function(scores, bias, 0.125)).num_bytes / scores.nbytes


try_it(times_moved, written_out)
try_it(times_moved, attention_weights)

# %% check="u02-fuse"
# In float64: causal masks of -inf; scores in one piece or transposed; inputs unchanged.

# %% [markdown]
# <details><summary>Hint: I am stuck at six</summary>
#
# Two operations are left before the softmax. Read the first line of `help(torch.add)`: what does it add?
# </details>
#
# What does the clock say?

# %% folded=true tags=["nbval-ignore-output"]
# Measured: seconds of both
large, bias_512 = torch.randn(4, 8, 512, 512), torch.randn(512, 512)


def clocked(function):
    moved = count_bytes(lambda: function(large, bias_512, 0.125))
    seconds = fastest_seconds(lambda: function(large, bias_512, 0.125), num_runs=3)
    return {
        "ms": round(1000 * seconds, 1),
        "gb_per_second": round(moved.num_bytes / seconds / 1e9, 1),
    }


try_it(clocked, written_out)
try_it(clocked, attention_weights)

# %% [markdown]
# Compare the GB/s with your machine's bandwidth. Two things keep them below it: the system hands out new memory for each result, page by page, and the exponentials take time that no count of *products* shows. On a GPU PyTorch reuses memory, arithmetic is cheap, and the bytes decide.

# %% [markdown]
# ### Waiting for data
#
# How many workers end a wait for the loader?

# %% An epoch with workers [markdown] exercise="u02-loader" points=1.5 minutes=9 difficulty=3 importance=3 extra=true
# **Write** `epoch_ms`: milliseconds until the last step ends, an `int`. `num_workers` processes load batches in turn (the first makes batches 0, w, 2w, …), each batch in `load_ms`, and never wait. (PyTorch's workers run at most `prefetch_factor` batches ahead.) Steps take the batches in order, one after the other, each in `step_ms`.
#
# *By hand:* load 3, step 2, one worker, three batches → **11**.


# %% solution="u02-loader"
def epoch_ms(load_ms: int, step_ms: int, num_workers: int, num_batches: int) -> int:
    """Milliseconds until the last step of an epoch is over."""
    ### BEGIN SOLUTION
    free = [0] * num_workers
    now = 0
    for batch in range(num_batches):
        free[batch % num_workers] += load_ms
        now = max(now, free[batch % num_workers]) + step_ms
    return now
    ### END SOLUTION


# %%
try_it(epoch_ms, 3, 2, 1, 3)

# %% check="u02-loader"
# Loading faster than a step, slower, and nearly hidden; batches left over.

# %% folded=true tags=["nbval-check-output"]
# Table: 100 batches, 120 ms to load, 40 ms to train on
epoch_of = answer("u02-loader", epoch_ms)
epochs = {f"{w} worker{'s' * (w > 1)}": epoch_of(120, 40, w, 100) for w in (1, 2, 3, 4, 8)}
pd.DataFrame({"ms": epochs}).map("{:,}".format)

# %% [markdown]
# ## What you know now
#
# | quantity | value |
# |---|---|
# | bytes of a product | $e\,(mk + kn + mn)$ |
# | seconds of an operation | the larger of FLOPs$/P$ and bytes$/W$; operations add up |
# | ridge of an H100 in bf16 | 295 FLOP/B |
# | decode at batch 1 | about 1 FLOP/B in bf16; a batch lifts it, a long context pulls it to the cache's $a/a_{kv}$ |
# | what the roofline leaves out | calls and launches, kernels below their roof, caches |
# | launch-bound | the GPU has nothing to do for longer than it works; a CUDA graph removes that, fusing also work |
#
# **Your plan** now shows how many days the products alone would take at the roof: compare them with those at 40 % of peak. It still assumes that attention's scores go through memory; unit 06 removes that.

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# *Further reading:* Williams, Waterman, Patterson 2009, *Roofline* (25 minutes). Horace He 2022, *Making Deep Learning Go Brrrr From First Principles* (20 minutes). PyTorch's recipe on `torch.profiler` (15 minutes).

# %%
progress("02")
