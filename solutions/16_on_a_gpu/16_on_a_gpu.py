# ---
# jupyter:
#   course:
#     title: On a GPU (optional)
#     device: GPU, or a CPU with recorded ones
#     needs: ["02", "04"]
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
# ![Two bars: one token through a matrix of 4,096 by 4,096 takes an H200 7.8 µs by its memory bandwidth, and a question mark by its clock.](hero.svg)
#
# The roofline says 7.8 µs for one token's product on an H200. What does its clock say? This page holds the course's formulas against a real GPU, and explains each gap.
#
# It is **optional** and has no points. With a CUDA device, the cells measure yours.
#
# 1. **Measure** products, attention, memory, a training step and two streams with the instruments of the course.
# 2. **Predict** each by a formula, and **explain** what the formula leaves out.
# 3. **Calibrate** the planner with one step of your own, test it on a step that it has not seen, and judge the constant that comes out.
#
# | without a GPU, cells show | recorded by | on |
# |---|---|---|
# | 1: products and copies | this course | H200 |
# | 1: two products on other devices | NVIDIA (aiconfigurator) | A100, H100, H200, B200 |
# | 2: attention | NVIDIA (cudnn-frontend) | H200 |
# | 3: peaks | this course | H200 |
# | 3: a snapshot | a student of CS336 | one GPU of 95 GiB, not named |
# | 4: the queue; 5: two streams | modded-nanogpt | 8 H100, rank 0 |
# | 4: steps by batch | this course | H200 |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import pickle
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

import pandas as pd
import torch

from autograder import compare, predict, progress_file
from course_utils.configs import Plan, RunConfig, device, machine_of, precision, preset
from course_utils.configs.machine import OUTSIDE_BYTES
from course_utils.formulas.attention_tiles import visited_tiles
from course_utils.formulas.utilisation import model_flops_utilisation
from course_utils.instruments import (
    fake_tensors,
    measure_peak,
    named_range,
    profile,
    read_history,
    time_call,
    trace_allocator,
    trace_memory,
)
from course_utils.instruments.device_record import (
    dense_peak_flops_per_second,
    empty_record,
    write_record,
)
from course_utils.instruments.rates import (
    attention_seconds,
    copy_bytes_per_second,
    measure_overlap,
    on_two_streams,
    product_and_copy,
    product_flops_per_second,
)
from course_utils.instruments.timing import seconds_on_cpu
from course_utils.planner import PlanCosts, Step, calibrate_from
from course_utils.records import measured
from course_utils.records.traces import about, recorded_memory, recorded_rows, recorded_trace
from course_utils.reference import Training
from course_utils.show import (
    computed_and_measured,
    memory_timeline,
    recorded_timelines,
    trace_lanes,
)
from course_utils.traces import (
    GPU_WORK,
    busy_seconds,
    communicating,
    exposed_seconds,
    queue_seconds,
    read_trace,
    select,
    span_seconds,
    write_perfetto,
)

# %% folded=true
# Sizes: of products, copies, attention and training steps
SIDES = (512, 1024, 2048, 4096, 8192)
TOKEN = (1, 4096, 4096)
COPIES = (2**20, 2**24, 2**28, 2**30)
LENGTHS = (2048, 4096, 8192, 16384)
NUM_HEADS, HEAD_DIM = 64, 128
TRAINED = {"Llama-3.2-1B": 4096, "GPT-2-124M": 1024}
BATCHES = (1, 2, 4)
OVERLAP_SIDE, OVERLAP_BYTES = 8192, 2**31

# %% folded=true tags=["nbval-ignore-output"]
# Where the numbers come from: your GPU, or records of others
has_gpu = torch.cuda.is_available()


def recorded(part):
    """What `tests.gpu.measure` recorded of this part on an H200."""
    return next(each for each in measured(part) if each["device"] == "NVIDIA H200")


def rows_of(part, **wanted):
    rows = recorded(part)["results"]
    return [row for row in rows if wanted.items() <= row.items()]


if has_gpu:
    record = empty_record("on_a_gpu", device="cuda", command="notebooks/16_on_a_gpu")
    gpu_name = record["device"]
    memory_bytes = torch.cuda.mem_get_info()[1]
    print(f"Every cell below measures this device: {gpu_name}.")
else:
    record = None
    gpu_name = recorded("times")["device"]
    memory_bytes = device("H200").memory_bytes
    print(
        f"No GPU here: the cells show what the course recorded on an {gpu_name} "
        f"({recorded('times')['date']}), and others' records where they are named."
    )


def keep(rows):
    """Add measured rows to the record, and give them back."""
    record["results"].extend(rows)
    return rows


# %% [markdown]
# ## 1. The two rates of a device
#
# A GPU's data sheet promises two rates: FLOP/s of its tensor cores, and bytes/s of its memory. Real code reaches a share of each, which depends on the shape.
#
# Python only *queues* work on a GPU, and the call returns at once. So the course's `time_call` reads the GPU's own clock: a **CUDA event** before and one after each run, and one wait for the whole queue at the end (unit 02).

# %% folded=true tags=["nbval-ignore-output"]
# Measured here, or recorded by this course on an H200: products in three number formats, and copies
shapes = [(kind, (side, side, side)) for kind in ("bf16", "tf32", "fp32") for side in SIDES]
if has_gpu:
    products = keep(
        [
            {
                "what": "product",
                "kind": kind,
                "shape": list(shape),
                "flops_per_second": product_flops_per_second(*shape, kind=kind, device="cuda"),
            }
            for kind, shape in [*shapes, ("bf16", TOKEN)]
        ]
    )
    copies = keep(
        [
            {
                "what": "copy",
                "num_bytes": num_bytes,
                "bytes_per_second": copy_bytes_per_second(num_bytes, device="cuda"),
            }
            for num_bytes in COPIES
        ]
    )
else:
    products, copies = rows_of("times", what="product"), rows_of("times", what="copy")

rate_of = {(row["kind"], tuple(row["shape"])): row["flops_per_second"] for row in products}
best_rate = max(rate for (kind, _), rate in rate_of.items() if kind == "bf16")
bandwidth = max(row["bytes_per_second"] for row in copies)
peak = dense_peak_flops_per_second(gpu_name) or best_rate
pd.DataFrame(
    {
        f"{kind}, TFLOP/s": [f"{rate_of[kind, (side, side, side)] / 1e12:.3g}" for side in SIDES]
        for kind in ("bf16", "tf32", "fp32")
    },
    index=pd.Index(SIDES, name="side of both matrices"),
)

# %% [markdown]
# The largest products in bf16 reach about four fifths of the H200's data sheet (989 TFLOP/s); at full load, a GPU lowers its clock to stay within its power limit. Small ones reach almost nothing. What holds them back?
#
# **Guess first.** Decoding sends a single token through a layer: a (1, 4,096) times a (4,096, 4,096) matrix in bf16. The GPU has to read 33.6 MB, and an H200 copies 4.3 TB/s. How many microseconds does this product take?

# %%
predict("u16-token", None, "microseconds")


# %% folded=true tags=["nbval-ignore-output"]
# Measured here, or recorded on an H200: the product of one token, against the bytes that it moves
def moved_bytes(rows, inner, columns):
    return 2 * (rows * inner + inner * columns + rows * columns)


def product_seconds(kind, shape):
    rows, inner, columns = shape
    return 2 * rows * inner * columns / rate_of[kind, shape]


compare(
    "u16-token",
    "microseconds",
    computed=1e6 * moved_bytes(*TOKEN) / bandwidth,
    measured=1e6 * product_seconds("bf16", TOKEN),
)


# %% folded=true tags=["nbval-ignore-output"]
# Figure: seconds of square products, against the roofline of the two rates
def roofline_seconds(shape):
    rows, inner, columns = shape
    return max(2 * rows * inner * columns / best_rate, moved_bytes(*shape) / bandwidth)


squares = [(side, side, side) for side in SIDES]
computed_and_measured(
    SIDES,
    computed=[roofline_seconds(shape) for shape in squares],
    measured=[product_seconds("bf16", shape) for shape in squares],
    size_label="side of both matrices",
    unit="seconds of a product in bf16",
    message="The line takes the best of these products as the peak, so that one lies on it.",
)

# %% [markdown]
# The H200's clock says 24.9 µs. The gap has nothing to do with arithmetic: products of 512 and of 1,024 take 22 and 24 µs, though the larger has eight times the FLOPs. The GPU is done before Python has launched the next product, and the clock shows the **launch**. A roofline has no term for it. A model of 16 layers has about a hundred such products for each token, which is why serving engines record them once as a CUDA graph.
#
# (The runs follow each other, so the 33.6 MB may stay in the H200's L2 cache of 50 MB: without launches this product may take even less than 7.8 µs.)
#
# From 4,096 on, a product takes long enough to hide the next launch.
#
# Other devices, from NVIDIA's *aiconfigurator*: the same two products.

# %% folded=true tags=["nbval-check-output"]
# Recorded: a large product and that of one token, on four devices
gemm = {
    (row["device"], row["m"]): row
    for row in recorded_rows("gemm_rates")
    if row["dtype"] == "bfloat16" and row["n"] == row["k"] == 4096
}
others = sorted({name for name, _ in gemm})
pd.DataFrame(
    {
        "TFLOP/s, 4,096 tokens": [
            f"{gemm[n, 4096]['flops_per_second'] / 1e12:.0f}" for n in others
        ],
        "µs, one token": [f"{1e6 * gemm[n, 1]['latency_seconds']:.1f}" for n in others],
    },
    index=others,
)

# %% [markdown]
# Between an A100 and a B200 lies a factor of 4.6 in the large product, and less than 3 in the token's. On the H200 the token's takes 13.3 µs here and 24.9 above: other software launches it, and the record does not say how. A time this short is one of product *and* launch.
#
# ## 2. Attention
#
# Under a causal mask a token sees only those before it: half of the scores. A fused kernel skips tiles that are masked as a whole, so it should save half of the time.
#
# **Guess first.** 64 heads of 128, one sequence of 2,048 tokens, forward. How many times as long does attention take *without* the mask?

# %%
predict("u16-causal", None, "times as long")

# %% folded=true tags=["nbval-ignore-output"]
# Measured here, or recorded by NVIDIA (cudnn-frontend, H200): attention with and without the mask
if has_gpu:
    attention = keep(
        [
            {"what": "attention", "seq": s, "heads": NUM_HEADS, "head_dim": HEAD_DIM}
            | {"is_causal": is_causal, "pass": name, "seconds": seconds}
            for s in LENGTHS
            for is_causal in (True, False)
            for name, seconds in attention_seconds(
                NUM_HEADS, s, HEAD_DIM, is_causal=is_causal, device="cuda"
            ).items()
        ]
    )
else:
    wanted = {"device": "H200", "model": "llama3.1", "backend": "cudnn", "dtype": "bfloat16"}
    attention = [
        row | {"is_causal": row["mask"] == "top_left"}
        for row in recorded_rows("attention_training_rates")
        if wanted.items() <= row.items()
    ]
attention_of = {(row["seq"], row["is_causal"], row["pass"]): row["seconds"] for row in attention}
shortest = LENGTHS[0]
tiles = {
    True: visited_tiles(shortest, shortest, 128, 128),
    False: (shortest // 128) ** 2,
}
compare(
    "u16-causal",
    "times as long",
    computed=tiles[False] / tiles[True],
    measured=attention_of[shortest, False, "fwd"] / attention_of[shortest, True, "fwd"],
)


# %% folded=true tags=["nbval-ignore-output"]
# The same by length: the FLOPs that the mask leaves, and what the tiles do not explain
def attention_flops(seq, name):
    half = 4 * NUM_HEADS * seq**2 * HEAD_DIM / 2  # of the full square
    return {"fwd": 1, "bwd": 2.5}[name] * half


def attention_rate(seq, name):
    return attention_flops(seq, name) / attention_of[seq, True, name]


def beside_the_tiles(seq):
    """Seconds left if each tile takes the same, by the two times of this length."""
    full, causal = (attention_of[seq, is_causal, "fwd"] for is_causal in (False, True))
    whole, visited = (seq // 128) ** 2, visited_tiles(seq, seq, 128, 128)
    return full - whole * (full - causal) / (whole - visited)


pd.DataFrame(
    {
        "without the mask, times as long": [
            f"{attention_of[s, False, 'fwd'] / attention_of[s, True, 'fwd']:.2f}" for s in LENGTHS
        ],
        "causal forward, TFLOP/s": [f"{attention_rate(s, 'fwd') / 1e12:.0f}" for s in LENGTHS],
        "causal backward, TFLOP/s": [f"{attention_rate(s, 'bwd') / 1e12:.0f}" for s in LENGTHS],
        "forward, share of the best product": [
            f"{attention_rate(s, 'fwd') / best_rate:.0%}" for s in LENGTHS
        ],
        "beside the tiles, µs": [f"{1e6 * beside_the_tiles(s):.0f}" for s in LENGTHS],
        "share of causal forward": [
            f"{beside_the_tiles(s) / attention_of[s, True, 'fwd']:.0%}" for s in LENGTHS
        ],
    },
    index=pd.Index(LENGTHS, name="tokens"),
)

# %% [markdown]
# Tiles explain a part: those on the diagonal are computed whole, so of 256 tiles of 128 by 128 the mask leaves 136, and the ratio is 1.88, not 2. Something does not shrink with the mask. Let each tile take the same time: then 217 and 142 µs at 2,048 tokens are 0.63 µs a tile (of all heads) and 57 µs beside the tiles.
#
# Is that the kernel's start? Two times and two unknowns always fit, so test it on the next row. **Look at the last two columns:** a start would be the same at each length. What is left grows to 444 µs at 16,384 tokens, though its share falls from 40 to 7 %; and 0.63 µs a tile would be 859 TFLOP/s, more than the best product of section 1. So it is no constant and the tiles are not equal: those on the diagonal also apply the mask, and programs with few tiles wait for those with many. The two times do not separate these.
#
# The backward pass computes five products where forward has two (unit 06), hence the 2.5, and is slower for each FLOP.
#
# ## 3. Memory of a training step
#
# The planner counts what a rank holds: weights, gradients, optimizer states, activations, the loss. It first chooses the largest model that fits your device.
#
# **Guess first.** One sequence of 4,096 tokens through Llama-3.2-1B in bf16, AdamW with fp32 master weights, no recomputation. How many GB are allocated at the peak?

# %%
predict("u16-peak", None, "GB")

# %% folded=true tags=["nbval-ignore-output"]
# Computed: the machine by the rates of section 1, and the bytes of the planner
machine = replace(
    machine_of("H100-SXM", 1),  # its constants of software, until section 4
    name=gpu_name,
    memory_bytes=memory_bytes - OUTSIDE_BYTES,
    matmul_flops_per_second=best_rate,
    peak_flops_per_second=peak,
    memory_bytes_per_second=bandwidth,
)


def costs_of(name, batch, on=machine):
    return PlanCosts(preset(name), TRAINED[name], batch, on)


planned = {name: costs_of(name, 1).bytes_of(Plan()) for name in TRAINED}
fitting = [name for name, num_bytes in planned.items() if num_bytes <= machine.memory_bytes]
model_name = fitting[0] if fitting else min(planned, key=planned.get)
counted = costs_of(model_name, 1).bytes_by_part(Plan())
pd.DataFrame(
    {f"GB of {model_name}": {part: f"{each / 1e9:.1f}" for part, each in counted.items() if each}}
)


# %% folded=true tags=["nbval-ignore-output"]
# Measured here, or recorded by this course on an H200: the allocator's peak in one training step
def new_training(name, batch, where, seq_len=None):
    run = RunConfig(
        micro_batch_size=batch,
        seq_len=seq_len or TRAINED[name],
        precision=precision("bf16"),
        is_loss_fp32=True,
    )
    return Training(preset(name), run, adamw="fused", device=where)


def first_steps(training):
    """Make what stays from step to step: optimizer states, workspaces of kernels."""
    for _ in range(2):
        training.step()


if has_gpu:
    training = new_training(model_name, 1, "cuda")
    first_steps(training)
    peak_memory = asdict(measure_peak(training.step))
    keep([{"what": "peak", "model_name": model_name, "micro_batch_size": 1, **peak_memory}])
else:
    peak_memory = rows_of("times", what="step", policy="none", is_attention_fused=True)[0]["peak"]
peak_bytes = peak_memory["start_allocated_bytes"] + peak_memory["allocated_bytes"]
compare("u16-peak", "GB", computed=planned[model_name] / 1e9, measured=peak_bytes / 1e9)

# %% [markdown]
# A planner has to be right to a few percent without running anything, so it takes other software's habits: here those of nanotron. `trace_memory` knows this very step, operation by operation, on fake tensors. How near is that to a device?

# %% folded=true tags=["nbval-ignore-output"]
# Measured here, or recorded on an H200: requested bytes at the peak, over those of a trace
if has_gpu:
    with fake_tensors():
        oracle = new_training(model_name, 1, "cpu")
        traced = trace_memory(oracle.step, *oracle.owners, oracle.ids, oracle.targets, num_steps=2)
    start = torch.cuda.memory_stats()["requested_bytes.all.current"]
    ratios = [(start + peak_memory["requested_bytes"]) / traced.peak_bytes]
else:
    ratios = [1 / row["traced_by_requested"] for row in recorded("memory")["results"]]
print(
    f"{len(ratios)} configurations: between {min(ratios):.4f} and {max(ratios):.4f} times the "
    f"trace's bytes; within 0.1 % in {sum(abs(each - 1) < 1e-3 for each in ratios)}."
)

# %% [markdown]
# On the H200, 21 of 24 configurations lie within 0.1 %. The other three need up to 8 % more: Llama-3.2-1B at 4,096 tokens in fp32 with attention that is not fused. Some kernel requests bytes there that are no operation's result, so no trace of operations can show them; the device's own history can.
#
# What the allocator did is in its own history, a **snapshot** (unit 04). **Look for it:** what is the largest part at the peak, and would recomputation help?


# %% folded=true tags=["nbval-ignore-output"]
# Figure: the snapshot of a step; yours, or recorded by a student of CS336 (3.4 B, 95 GiB)
if has_gpu:
    home = progress_file.find()
    folder = home.parent if home else Path(tempfile.gettempdir())
    snapshot = folder / "on_a_gpu.pickle"
    trace = trace_allocator(training.step, *training.owners, path=snapshot)
    events = read_history(pickle.loads(snapshot.read_bytes()), device=torch.cuda.current_device())
    print(f"{snapshot} opens at pytorch.org/memory_viz. Without the step's marks: {events}")
    picture = memory_timeline(trace)
else:
    print(f"{about('mem_xl_step')['what']}; here in bf16.")
    picture = recorded_timelines({"bf16 autocast": list(recorded_memory("bf16 autocast"))})
picture

# %% [markdown]
# In the recorded step, weights and AdamW's averages are 38.3 of the 63.7 GiB at the peak. (Until 4 ms the blue also holds the last step's gradients.) The peak is the optimizer's: it makes temporaries as large as all gradients, while these are still there. Would an update in one kernel (`fused=True`) help? By 1.0 GiB: behind this peak stands that of the activations, 62.8 GiB at 63 ms. Recomputation alone would save nothing. Both together save up to 12.7 GiB: then weights, averages and gradients hold the peak.
#
# ## 4. A training step
#
# First the trap: a CPU's clock stops when `step()` returns, and a GPU's when the work is done. With a GPU the next cell shows the same step by both; without one, how far the launches of a recorded step run ahead.


# %% folded=true tags=["nbval-ignore-output"]
# How busy is the GPU, and how long do launches wait? Yours, or recorded by modded-nanogpt (H100)
def ranged_step():
    with named_range("training step"):
        training.step()


if has_gpu:
    torch.cuda.synchronize()
    by_cpu = seconds_on_cpu(training.step, 1)[0]
    by_gpu = time_call(training.step, num_warm_up=1, num_runs=5)
    print(f"by the CPU's clock {1e3 * by_cpu:.1f} ms; by events: {by_gpu}")
    step_trace = read_trace(profile(ranged_step).trace)
else:
    step_trace = recorded_trace("h100x8_nanogpt_before")
work = select(step_trace, kind=GPU_WORK)
waits = [queue_seconds(each) for each in work if each["launch_ns"] is not None]
pd.Series(
    {
        "kernels, copies and fills": f"{len(work):,}",
        "from the first to the last": f"{1e3 * span_seconds(work):.1f} ms",
        "GPU busy": f"{busy_seconds(work) / span_seconds(work):.0%}",
        "median wait from launch to start": f"{1e3 * median(waits):.1f} ms",
    },
    name="one step",
).to_frame()

# %% [markdown]
# In the recorded step, half of the kernels start more than 65 ms after Python launched them, longer than the whole step of 62 ms. A CPU's clock without `torch.cuda.synchronize()` would show launches only. It is also good news: with such a queue the GPU never waits for Python, and is busy 98 % of the time.
#
# ### One step calibrates the planner
#
# The planner knows FLOPs and bytes; how well software uses the device it has to be told. Its constants for an H100 are those of other people's programs. Replace what you know: attention takes the time of section 2, and launches that of *your* step. (The recorded step has compiled layers, and nobody recorded its launches: there they count as hidden.) One constant is left, `elementwise`: how many times as long as their bytes all other kernels take, the update's too. `calibrate_from` fits it to *one* measured step.
#
# **Guess first.** On the H200, an optimised step (compiled layers, the loss in chunks) takes 79.6 ms with one sequence. How many milliseconds with sixteen? (On your GPU: how many with the largest batch of 1, 2, 4 that fits.)

# %%
predict("u16-batch", None, "milliseconds")

# %% folded=true tags=["nbval-ignore-output"]
# Measured here, or recorded by this course on an H200: growing batches, and the planner that saw one
if has_gpu:
    steps = {}
    for batch in BATCHES:
        training = None  # frees the last one
        num_bytes = costs_of(model_name, batch).bytes_of(Plan(micro_batch=batch))
        if steps and num_bytes > machine.memory_bytes:
            break
        training = new_training(model_name, batch, "cuda")
        timing = time_call(training.step, num_warm_up=3, num_runs=10)
        steps[batch] = timing.median_seconds
        keep(
            [
                {"what": "step", "model_name": model_name, "seq_len": TRAINED[model_name]}
                | {"micro_batch_size": batch, "seconds": timing.seconds}
                | {"median_seconds": timing.median_seconds}
            ]
        )
else:
    fast = rows_of("utilisation", trainer="fast")
    steps = {row["micro_batch_size"]: row["median_seconds"] for row in fast}


def seconds_of(batch, on):
    return costs_of(model_name, batch, on).seconds_of(Plan(micro_batch=batch))


def fitted(batch, to=None):
    """The machine on which so many sequences take as long as they did."""
    plan = Plan(micro_batch=batch)
    step = Step(preset(model_name), TRAINED[model_name], batch, plan)
    try:
        return calibrate_from(to or own, step, steps[batch])
    except ValueError as error:  # as where other work runs on the device
        print(f"Not calibrated with {batch}: {error}")
        return to or own


length = min(LENGTHS, key=lambda each: abs(each - TRAINED[model_name]))
both = sum(attention_of[length, True, name] for name in ("fwd", "bwd"))
own = replace(
    machine,
    attention=both * peak / sum(attention_flops(length, name) for name in ("fwd", "bwd")),
    launch_seconds=by_cpu / preset(model_name).num_layers if has_gpu else 0.0,
)
calibrated, largest = fitted(1), max(steps)
compare(
    "u16-batch",
    "milliseconds",
    computed=1e3 * seconds_of(largest, calibrated),
    measured=1e3 * steps[largest],
)


# %% folded=true tags=["nbval-ignore-output"]
# Table: each batch by the planner before and after, the constant of each row, and the utilisation
def share_of_peak(batch, convention):
    tokens = batch * TRAINED[model_name] / steps[batch]
    sizes = preset(model_name), TRAINED[model_name]
    return f"{model_flops_utilisation(*sizes, tokens, peak, convention):.0%}"


pd.DataFrame(
    [
        {
            "sequences": batch,
            "step, ms": f"{1e3 * seconds:.1f}",
            "others' constants": f"{seconds_of(batch, machine) / seconds - 1:+.0%}",
            "calibrated on the first": f"{seconds_of(batch, calibrated) / seconds - 1:+.1%}",
            "elementwise, by this row alone": f"{fitted(batch).elementwise:.2f}",
            "MFU, attention whole": share_of_peak(batch, "exact"),
            "MFU, half masked": share_of_peak(batch, "causal"),
        }
        for batch, seconds in steps.items()
    ]
).set_index("sequences")

# %% [markdown]
# On the H200, others' constants are 36 to 59 % too slow. With one step seen, the planner is 6.2 % too fast on a batch that it has not seen.
#
# **Look at the constant, not only at the error.** With others' attention (5.5 times as long as at the peak; 2.0 in section 2) and nanotron's launches the same fit is only 3.4 % off. But such launches put 72 ms under forward and backward, so the measured time fixes the update alone, at 7.5 ms, and `elementwise` comes out as 0.52: kernels twice as fast as their bytes allow. From sixteen sequences it is 0.28. Ours is above 1 and the rows agree better: 1.42, 1.63, 1.86. It still rises, so what grows with the batch is counted too fast: products, all at the rate of the best, or attention, timed with heads of 128 where this model has 64. One time cannot tell which.
#
# Sixteen times the tokens take 12.5 times as long, so something is paid once a step. Three more sequences take 180 ms more, 60.1 each, which leaves 19.5 of the first 79.6 ms; the calibrated planner gives the update 20.4. This update casts gradients, updates in one kernel and copies the weights: 40 bytes a parameter, 11.5 ms at the bandwidth of copies. Whether the other 8 are gaps, or slower products in a short batch, only a trace of this step could say.
#
# ## 5. Two streams
#
# Kernels on one stream run one after the other; on two they *may* run at once. All data parallelism lives from it: an all-reduce on a stream beside the backward pass (unit 09).
#
# **Guess first.** The H100 step above spends 5.85 ms in NCCL, of which 4.38 are exposed: gradients are reduced in the optimizer. Then its authors moved the reduce-scatters into hooks of the backward pass, and NCCL took 5.26 ms. How many of these milliseconds are still exposed? (On your GPU: a product and a copy that you run at once; how many ms does the pair take?)

# %%
predict("u16-streams", None, "milliseconds")

# %% folded=true tags=["nbval-ignore-output"]
# Measured here: two streams at once; or recorded by modded-nanogpt after the change, rank 0 of 8
if has_gpu:
    training = None
    product, copy = product_and_copy(OVERLAP_SIDE, OVERLAP_BYTES, device="cuda")
    overlap = measure_overlap(product, copy)
    keep([{"what": "overlap", **asdict(overlap), "hidden_fraction": overlap.hidden_fraction}])
    print(f"{overlap}: {overlap.hidden_fraction:.0%} of the shorter one is hidden")
    shown = read_trace(profile(on_two_streams(product, copy)).trace)
    computed = 1e3 * max(overlap.first_seconds, overlap.second_seconds)
    milliseconds = 1e3 * overlap.together_seconds
else:
    shown = recorded_trace("h100x8_nanogpt_after")
    before = recorded_trace("h100x8_nanogpt_before")
    saved = busy_seconds(communicating(before)) - busy_seconds(communicating(shown))
    computed = 1e3 * (exposed_seconds(before) - saved)
    milliseconds = 1e3 * exposed_seconds(shown)
compare("u16-streams", "milliseconds", computed=computed, measured=milliseconds)

# %% folded=true tags=["nbval-ignore-output"]
# Figure: both streams; the recorded step from millisecond 54 on
late = [each for each in select(shown, kind=GPU_WORK) if has_gpu or each["start_ns"] > 54e6]
write_perfetto(shown, Path(tempfile.gettempdir()) / "two_streams.json")
trace_lanes(late, caption=f"Streams of {'this GPU' if has_gpu else 'rank 0, an H100'}")

# %% [markdown]
# The hooks gained 1 ms, not 4. By themselves, fewer milliseconds of NCCL would have left 3.80 exposed (*computed*); the first reduce-scatter now starts 0.4 ms earlier, and hides a little more. Look at the lanes: all-gathers of updated weights take 2.2 of the 5.3 ms, and here they run after the backward pass, with little left to hide behind. A hook on gradients does not move them. Sending one layer's weights while the next layer is updated would, or sending them under the next forward pass.
#
# On your GPU, a copy inside the device and a product share the memory's bandwidth, and a large product occupies every multiprocessor: expect less than all of the shorter one to be hidden, even on two streams.
#
# ## What you know now
#
# | the formula leaves out | seen where | what helps |
# |---|---|---|
# | the launch, about 20 µs | one token's product | larger batches, CUDA graphs |
# | tiles that are not equal | attention: 40 % of 2,048 tokens, 7 % of 16,384 | longer sequences |
# | workspaces of kernels | 3 of 24 peaks | the allocator's history |
# | how well software uses a device | step, before calibration | one measured step, and a look at the constant |
# | what has to wait | NCCL after the last gradient | an order that frees something to hide behind |
#
# **The record.** On a GPU the next cell writes all that you measured as a JSON file into `work/`, in the form of the course's own records: with device, driver, versions and date. Hand it in beside a notebook, if your course collects them; nobody grades it.

# %% tags=["nbval-ignore-output"]
# Record: written where there is a GPU
if has_gpu:
    home = progress_file.find()
    path = write_record(record, home.parent if home else Path.cwd())
    print(f"{len(record['results'])} rows in {path}")
else:
    print("Nothing was measured here, so there is no record to write.")

# %% [markdown]
# <details><summary>Was this page itself tried on a GPU?</summary>
#
# The course's tests run these cells on a CPU with a simulated `torch.cuda` (tensors on the CPU, events by its clock, an allocator that counts, the trace of a recorded step), and so try every line of the GPU's branches, but no number. The instruments that they call were run on an H200, but for `attention_seconds` and `measure_overlap`, which have met the simulated device alone.
# </details>
