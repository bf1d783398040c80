# ---
# jupyter:
#   course:
#     title: Which configuration?
#     device: CPU
#     needs: ["01", "02", "05", "10", "11", "12"]
#     lecture: [E5, B10, B11, B12, B13, B14]
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
# ![One token of a 1B model on an A100, to scale. Predicted: products 29.0 microseconds, gathers 1.0, attention 14.2, all other kernels 9.7, together 53.9. Measured: 56.2. Half of the time is no matrix product.](hero.svg)
#
# A model of 1B parameters, sequences of 4,096 tokens, four A100s: which configuration? That is the lectures' last problem.
#
# 1. **Convert** a printed utilisation into one convention.
# 2. **Fit** what sets the pace of a step, on one model, and predict others.
# 3. **Diagnose** layouts that take thirteen times as long as predicted.
# 4. **Choose** the fastest plan that fits, on machines you have not seen.
# 5. **Report** a configuration, with what it rests on.
#
# | here | lectures | meaning |
# |---|---|---|
# | MFU | MFU | FLOPs that the model needs, over the peak's |
# | $d$, $t$, $p$ | DP, TP, PP | replicas, tensor ranks, pipeline stages |
# | $b$, $m$ | b, accumulation | sequences of a micro-batch, micro-batches of a step |
# | $a$, $a_{kv}$ | heads, groups | query heads, key-value heads |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
from IPython.display import display

from autograder import answer, check, compare, plan, predict, progress, report
from course_utils.configs import Costs, Machine, ModelConfig, Plan, machine_of, preset
from course_utils.configs.shop import Shop, SweptRun
from course_utils.formulas.bought_runs import PUBLISHED, at_random, nearest_rates, one_rate
from course_utils.formulas.calibration import calibrate, predicted_seconds
from course_utils.formulas.step_parts import token_forward_flops
from course_utils.formulas.step_parts import token_work as work_of_token
from course_utils.formulas.utilisation import model_flops_utilisation
from course_utils.planner import MISSION, PlanCosts
from course_utils.planner.calibrated import (
    machine_of_run,
    model_of_run,
    row_of_run,
    settled_runs,
)
from course_utils.planner.first_rank import first_rank_of
from course_utils.planner.measured_plans import clusters
from course_utils.planner.predicted import predictions
from course_utils.planner.swept import sale
from course_utils.planner.truth.kinds import memory_line
from course_utils.planner.truth.measured import step_of
from course_utils.records import SOURCES, foundry_runs, one_node_runs, published
from course_utils.records.sweeps import rows as banner_rows
from course_utils.records.sweeps import runs
from course_utils.show import (
    Choice,
    errors_by_size,
    errors_over_hours,
    explorer,
    extra_by_stages,
    pace_by_work,
    plans_side_by_side,
    rates_over_devices,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## One number, many conventions
#
# Tokens per second alone do not tell how good a run is (B13): small models are fast. So divide by what the device could do:
#
# $$\text{MFU} = \frac{\text{model FLOPs per token} \cdot \text{tokens per second}}{\text{peak FLOP/s}}$$
#
# The lecture (B12) prints these FLOPs as
#
# $$L\,h^2 \left(12 + 12\,\frac{a_{kv}}{a} + 18\,\frac{f}{h} + 12\,\frac{s}{h} + 6\,\frac{v}{h}\right)$$
#
# The last term is the head, which comes *once* and not in every layer: as printed, the formula gives Llama-3.2-1B at 4,096 tokens 3.97 times its FLOPs (with half of attention), and an honest 36.5 % becomes 145 %. And $12\,\frac{s}{h}$ is attention in full; a causal mask leaves half of it.
#
# The Ultra-Scale Playbook's banner counts tied words once more as soon as there are pipeline stages: 11.27 instead of 9.65 GFLOPs a token. Of the 26 pairs of a model and a number of nodes that it swept, there are 7 where the plan with the highest printed MFU is not the fastest, by up to 9.8 %. "40 to 60 % is good" means little without a convention and a device.

# %% Convert a utilisation [markdown] exercise="u14-convention" points=2 minutes=11 difficulty=2 importance=5
# **Write** `causal_percent`: a table prints `percent`; return what *this course* would print for this run, not rounded. We count the formula above, but the head once, and half of attention. The table counts by its `convention`:
#
# | `convention` | FLOPs per token |
# |---|---|
# | `"6N"` | $6N$, with `num_params` for $N$ |
# | `"6N + attention"` | $6N + 12\,L\,h\,s$ |
# | `"with recomputation"` | $\frac43$ of that |
# | `"lecture"` | the formula above as printed, the head once in each layer |
#
# Without a gate $18\,\frac{f}{h}$ becomes $12\,\frac{f}{h}$. Biases do not count.
#
# *By hand:* peak and speed cancel. If a table counts twice as many FLOPs as we do, its 50 % are our **25 %**.


# %% solution="u14-convention"
def causal_percent(
    model: ModelConfig, num_params: int, seq_len: int, percent: float, convention: str
) -> float:
    """The printed percentage, with all products and half of attention instead."""
    ### BEGIN SOLUTION
    h = model.hidden_size
    matrices = 3 if model.is_gated else 2
    shares = 12 + 12 * model.num_kv_heads / model.num_heads + 6 * matrices * model.ffn_size / h
    layers = model.num_layers * h**2 * shares
    core = 12 * model.num_layers * h * seq_len
    head = 6 * model.vocab_size * h
    theirs = {
        "6N": 6 * num_params,
        "6N + attention": 6 * num_params + core,
        "with recomputation": 4 / 3 * (6 * num_params + core),
        "lecture": layers + core + model.num_layers * head,
    }
    return percent * (layers + core / 2 + head) / theirs[convention]
    ### END SOLUTION


# %%
try_it(causal_percent, preset("Llama-3.2-1B"), 1_235_814_400, 4096, 60.0, "6N + attention")
try_it(causal_percent, preset("Llama-3.2-1B"), 1_235_814_400, 4096, 145.0, "lecture")

# %% check="u14-convention"
# Against FLOPs that are counted while the model runs: four conventions, tied and untied heads, gated and not.

# %% [markdown]
# **Guess first.** llm-foundry's 1B at 4,096 tokens does 17,807 tokens per second on an A100. An H100 has 3.2 times the peak. How many tokens per second did it do there?

# %%
predict("u14-h100", None, "tokens/s")

# %% folded=true tags=["nbval-check-output"]
# Table: published rows as printed, and in one convention; measured by others, named below
percent_of = answer("u14-convention", causal_percent)


def of_foundry(run):
    """A row of llm-foundry, which counts 6N and attention in full."""
    printed = run.published_mfu_percent
    sizes = model_of_run(run), run.num_parameters, run.seq_len
    return printed, percent_of(*sizes, printed, "6N + attention")


rows = {}
for name in ("A100-80", "H100"):
    for run in one_node_runs(name):
        if run.name in ("1b at 4,096", "13b at 4,096") and run.num_devices == 8:
            percents = of_foundry(run)
            rows[f"{run.model}, {name}"] = run.tokens_per_second_per_device, *percents
for row in published("korthikanti_2022_table5"):
    if row["recompute"] == "selective" and row["model"] in ("22B", "1T"):
        sizes = {
            "num_layers": int(row["num_layers"]),
            "hidden_size": int(row["hidden_size"]),
            "num_heads": int(row["num_heads"]),
            "ffn_size": int(row["ffn_size"]),
            "vocab_size": int(row["vocab_size"]),
        }
        gpt = ModelConfig(**sizes, is_gated=False, is_tied=True)
        seq_len, devices = int(row["seq_len"]), int(row["tensor"]) * int(row["pipeline"])
        tokens = int(row["global_batch_sequences"]) * seq_len
        rate = tokens / float(row["step_seconds"]) / devices
        printed, ours = (
            100 * model_flops_utilisation(gpt, seq_len, rate, 312 * 10**12, each)
            for each in ("exact", "causal")
        )
        rows[f"{row['model']}, A100, {devices} devices"] = rate, printed, ours
columns = ["tokens/s of a device", "attention in full, %", "half of it, %"]
display(pd.DataFrame(rows, index=columns).T.round(1))
for name in ("mosaicml_llm_foundry", "korthikanti_2022_table5"):
    print(f"{SOURCES[name].where}. Not given: {SOURCES[name].not_given}.")
h100 = next(
    run for run in one_node_runs("H100") if run.name == "1b at 4,096" and run.num_devices == 8
)
compare("u14-h100", "tokens/s", measured=h100.tokens_per_second_per_device)

# %% folded=true tags=["nbval-check-output"]
# Table: two counts in one banner, 1.34B on 4 nodes (Playbook); then with your function
banner = [
    (float(row["printed_percent"]), run)
    for row, run in zip(banner_rows("playbook_runs"), runs("playbook_runs"), strict=True)
    if (run.model, run.nodes, run.num_sequences) == ("1.34", 4, 256)
]
some = {
    "highest printed MFU": max(banner, key=lambda each: each[0]),
    "fastest": min(banner, key=lambda each: each[1].step_seconds),
}
rows = {}
for what, (printed, run) in some.items():
    num_params = round(1e9 * run.counted_params)
    sizes = step_of(run).model, num_params, run.seq_len
    rows[f"{what}: d {run.data}, p {run.pipeline}"] = {
        "tokens/s of a device": run.num_sequences * run.seq_len / run.step_seconds / 32,
        "N as counted, 10⁹": run.counted_params,
        "printed, %": printed,
        "half of attention, %": percent_of(*sizes, printed, "6N + attention"),
    }
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# Only 2.2 times as fast. And 59.0 % is 51.8 in our convention. ($6N$ with half of attention gives 52.1: this $N$ has a table of positions, which multiplies nothing.) The same program reaches 59 % on one device and 40 % on the other. Where does the time go?

# %% [markdown]
# ## Three kinds of work
#
# - **Products** compute. Large ones reach 271 TFLOP/s on an A100 and 795 on an H100, of 312 and 989 (Bekman, *Machine Learning Engineering*).
# - **Attention** computes as well, in kernels that skip what the mask hides and make the scores again in backward.
# - **All other kernels** only move: norms, residuals, activation functions, the loss.
#
# Products at the rate that they reach, the rest at that of the data sheet, beside the measurement (nothing is fitted yet):


# %% folded=true tags=["nbval-check-output"]
# Table: microseconds of a token, at full rates and measured (llm-foundry, eight devices)
def ideal_microseconds(run):
    """Products at the rate they reach, attention at the peak, the rest at the bandwidth."""
    model, machine = model_of_run(run), machine_of_run(run)
    forward = token_forward_flops(model, run.seq_len)
    work = work_of_token(model, forward, bool(run.recompute_all_layers))
    rates = {
        "products": machine.matmul_flops_per_second,
        "attention": machine.peak_flops_per_second,
        "elementwise": machine.memory_bytes_per_second,
    }
    return {name: 1e6 * work[name] / rate for name, rate in rates.items()}


rows = {}
for run in [*one_node_runs("A100-80"), *one_node_runs("H100")]:
    if run.name in ("1b at 4,096", "7b at 4,096"):
        parts = ideal_microseconds(run)
        total, measured = sum(parts.values()), 1e6 / run.tokens_per_second_per_device
        rows[f"{run.name}, {run.device}"] = {**parts, "sum": total, "measured": measured}
pd.DataFrame(rows).T.round(1)

# %% [markdown]
# Products alone do not explain it. Attention of 2023 fell far short of the peak, and real kernels move more than fused ones would: about three to five and a half times the time on paper. And there is one more thing.

# %% [markdown]
# ## What sets the pace?
#
# The Playbook tried over 4,000 layouts on up to 512 GPUs (E5); we have the 1,728 that ran (nanotron, nodes of eight H100s, 4,096 tokens, one step each). Here each micro-batch is split over eight tensor ranks of one node:

# %% folded=true tags=["nbval-check-output"]
# Table: ms of a micro-batch of 1.34B on eight tensor ranks, work as predicted and measured (Playbook)
layouts = [
    each
    for each in predictions("playbook_runs")
    if each.run.pipeline == 1 and 1 < each.run.tensor <= 8
    if each.run.nodes <= 2 and each.run.num_micro_batches >= 8 and each.run.model != "80.0"
]


def rows_of(size, tensor=8, zero_stage=0):
    """Layers, seconds of the GPU's work and measured seconds, by sequences of a micro-batch."""
    return {
        each.run.micro_batch: [
            each.run.num_layers,
            each.work_seconds,
            each.run.step_seconds / each.run.num_micro_batches,
        ]
        for each in layouts
        if (each.run.model, each.run.tensor, each.run.zero_stage) == (size, tensor, zero_stage)
        if each.run.nodes == 2
    }


small_rows = {b: row for b, row in rows_of("1.34").items() if b in (1, 2, 4)}
pd.DataFrame(
    {
        f"b = {b}": {"work, ms": 1e3 * row[1], "measured, ms": 1e3 * row[2]}
        for b, row in sorted(small_rows.items())
    }
).T.round(1)

# %% [markdown]
# A third of the work takes almost the same time. The CPU sets the pace: it launches every kernel of every layer, one after the other. For one sequence that takes longer than the GPU's work, so the GPU waits:
#
# $$\text{micro-batch} = \max(\text{work}, \text{launch} \cdot L)$$
#
# **Guess first.** 3.57B is 1.5 times as wide, with 28 layers instead of 16. Its GPUs have work for 57 ms. How many ms does a micro-batch of one sequence take?

# %%
predict("u14-pace-ms", None, "ms")

# %% What sets the pace [markdown] exercise="u14-pace" points=3 minutes=13 difficulty=3 importance=5
# **Write** `pace`. Each row is `[num_layers, work_seconds, measured_seconds]` of a micro-batch; `launch` is the same for all of them. A maximum has kinks, so don't differentiate: *try* each launch from 0 to 20 ms in steps of 0.01 ms, and keep the one with the smallest sum of squared relative errors, $\frac{\text{predicted}}{\text{measured}} - 1$. Then predict a micro-batch of another model, with `num_layers` layers and `work_seconds`. Each key is a third of the points, to one per cent:
#
# | key | seconds |
# |---|---|
# | `"launch"` | of the CPU for one layer |
# | `"seconds"` | of the other micro-batch |
# | `"idle"` | in which its GPU waits |
#
# *By hand:* ten layers take 50, 50 and 90 ms, with work for 20, 30 and 90 ms. The CPU sets the pace of the first two: **5 ms** a layer. 20 layers with work for 40 ms: **100 ms**, and the GPU waits for **60**.


# %% solution="u14-pace"
def pace(rows: list[list[float]], num_layers: int, work_seconds: float) -> dict[str, float]:
    """Seconds of a layer's launches, of another micro-batch, and in which its GPU waits."""

    ### BEGIN SOLUTION
    def error(launch: float) -> float:
        predicted = [max(work, launch * layers) for layers, work, _ in rows]
        return sum((each / row[2] - 1) ** 2 for each, row in zip(predicted, rows, strict=True))

    launch = min((step * 1e-5 for step in range(2001)), key=error)
    seconds = max(work_seconds, launch * num_layers)
    return {"launch": launch, "seconds": seconds, "idle": seconds - work_seconds}
    ### END SOLUTION


# %%
try_it(pace, [[10, 0.02, 0.05], [10, 0.03, 0.05], [10, 0.09, 0.09]], 20, 0.04)

# %% check="u14-pace"
# Against a finer search: rows of the sweep, of one size for another, and of slower CPUs.

# %% folded=true tags=["nbval-check-output"]
# Measured: 3.57B and 8.86B with the launch of 1.34B alone; then every such layout of the sweep
pace_of = answer("u14-pace", pace)
rows = {}
for size in ("3.57", "8.86"):
    for b, (layers, work, measured) in sorted(rows_of(size).items()):
        if b <= 4:
            said = pace_of(list(small_rows.values()), layers, work)
            rows[f"{size}B, b = {b}"] = {
                "work, ms": 1e3 * work,
                "predicted, ms": 1e3 * said["seconds"],
                "measured, ms": 1e3 * measured,
                "off by, %": 100 * (said["seconds"] / measured - 1),
            }
display(pd.DataFrame(rows).T.round(1))
display(compare("u14-pace-ms", "ms", measured=round(1e3 * rows_of("3.57")[1][2], 1)))
pace_by_work(layouts, pace_of(list(small_rows.values()), 1, 0)["launch"])

# %% [markdown]
# One constant of one size predicts models three and seven times as large: launches cost the same whatever the width. That is why splitting a layer further stops paying (tensor ranks shrink the work, not the launches), and why CUDA graphs exist. (Your 4.7 ms come from three micro-batches; a `Machine` has 4.5, fitted to whole steps on up to 16 nodes.)
#
# ## Who waits?
#
# With launches, gradients and links, the course's model of a step has a median error of 3 % on one node, for sizes that it has not seen. Then some layouts with pipeline stages (here just *stages*) behave like this. The same layout of 8.86B ($p$ = 4, $t$ = 2, $b$ = 1), on more and more nodes:

# %% folded=true tags=["nbval-check-output"]
# Table: seconds of a micro-batch of one layout on more nodes; then all layouts of eight micro-batches or more
every = [
    each
    for each in predictions("playbook_runs")
    if each.run.tensor <= 8 and each.run.nodes <= 32 and each.run.num_micro_batches >= 8
    if each.run.num_sequences == 256 and each.run.model != "80.0"
]
twice = {name for name, n in Counter(each.run.name for each in every).items() if n > 1}
every = [each for each in every if each.run.name not in twice]
same = [
    each
    for each in every
    if (each.run.model, each.run.pipeline, each.run.tensor) == ("8.86", 4, 2)
    if (each.run.zero_stage, each.run.micro_batch) == (0, 1)
]
display(
    pd.DataFrame(
        {
            f"nodes: {each.run.nodes}": {
                "predicted, s": each.step_seconds / each.num_passes,
                "measured, s": each.run.step_seconds / each.num_passes,
            }
            for each in sorted(same, key=lambda each: each.run.nodes)
        }
    ).round(3)
)
extra_by_stages(every)

# %% [markdown]
# No network is slow on 4 and 8 nodes and quick on 32. These are two populations: most layouts take what is predicted, some pay for every micro-batch, and between 0.1 and 0.3 s there are no layouts. nanotron's pipeline code was changed between the runs, so one of its lines is a suspect:
#
# | | a line | what it costs a micro-batch |
# |---|---|---|
# | 1 | `while not shapes.is_completed(): time.sleep(0.1)` | tenths of a second at each border of a stage, whatever is sent. An end stage has one neighbour, an inner stage two; the slowest stage sets the pace |
# | 2 | `torch.cuda.empty_cache()` | as much on every layout that runs this code, also with one stage |
# | 3 | `hidden = hidden.cpu()`, before it is sent | in proportion to $b$, at each border |
# | 4 | `dist.barrier()` of all ranks, at each border | in proportion to the nodes |

# %% Who waits [markdown] exercise="u14-waits" points=4 minutes=20 difficulty=3 importance=4
# **Write** `who_waits`. Each row has `"stages"`, `"nodes"`, `"micro_batch"` ($b$), `"num_micro_batches"` ($m$), and the `"predicted"` and `"measured"` seconds of a *step*. A micro-batch pays the extra seconds, measured less predicted, divided by $m + p - 1$. A row pays if that exceeds 0.2 s; some row always does. Each key is a quarter of the points:
#
# | key | |
# |---|---|
# | `"paying"` | number of paying rows |
# | `"two"` | what a micro-batch pays, median of the paying rows with two stages |
# | `"more"` | the same with more than two; each is 0 where no row is |
# | `"line"` | 1 to 4: the line above that explains who pays how much |
#
# Other sweeps have other culprits. Where $b$ or the nodes matter, rows with the largest pay several times as much as rows with the smallest; else less than twice.
#
# *By hand:* two stages, 15 micro-batches, predicted 1.6 s, measured 8.0 → 16 times **0.4** s. Four stages, 13 micro-batches, 1.6 and 16.0 → 16 times **0.9**. One stage, 2.0 and 2.1 → does not pay. With one node and $b$ = 1 throughout: line **1**.


# %% solution="u14-waits"
def who_waits(rows: list[dict[str, float]]) -> dict[str, float]:
    """Rows that pay, what they pay by stages, and the line of code that explains it."""
    ### BEGIN SOLUTION
    paying = []
    for row in rows:
        passes = row["num_micro_batches"] + row["stages"] - 1
        extra = (row["measured"] - row["predicted"]) / passes
        if extra > 0.2:
            paying.append((row, extra))

    def typical(belongs) -> float:
        return float(np.median([each for row, each in paying if belongs(row)] or [0]))

    def grows_with(name: str) -> bool:
        least, most = (limit(row[name] for row, _ in paying) for limit in (min, max))
        few, many = typical(lambda row: row[name] == least), typical(lambda row: row[name] == most)
        return many > 2 * few

    line = 1
    if any(row["stages"] == 1 for row, _ in paying):
        line = 2
    elif grows_with("micro_batch"):
        line = 3
    elif grows_with("nodes"):
        line = 4
    return {
        "paying": len(paying),
        "two": typical(lambda row: row["stages"] == 2),
        "more": typical(lambda row: row["stages"] > 2),
        "line": line,
    }
    ### END SOLUTION


# %%
keys = "stages", "nodes", "micro_batch", "num_micro_batches", "predicted", "measured"
by_hand = (2, 1, 1, 15, 1.6, 8.0), (4, 1, 1, 13, 1.6, 16.0), (1, 1, 1, 16, 2.0, 2.1)
try_it(who_waits, [dict(zip(keys, each, strict=True)) for each in by_hand])

# %% check="u14-waits"
# Against slopes: rows of the sweep by size, and made ones in which each of the four lines is to blame.

# %% folded=true tags=["nbval-check-output"]
# Measured: who pays in the sweep, by size and in all, with your function
waits_of = answer("u14-waits", who_waits)


def said_of(chosen):
    """What the function says of some layouts."""
    rows = [
        (
            run.pipeline,
            run.nodes,
            run.micro_batch,
            run.num_micro_batches,
            each.step_seconds,
            run.step_seconds,
        )
        for each in chosen
        for run in [each.run]
    ]
    said = waits_of([dict(zip(keys, row, strict=True)) for row in rows])
    return {"layouts": len(rows), **said}


by_size = {
    f"{size}B": [each for each in every if each.run.model == size]
    for size in ("1.34", "3.57", "8.86")
}
pd.DataFrame({name: said_of(own) for name, own in {**by_size, "all": every}.items()}).T.round(2)

# %% [markdown]
# Half a second with two stages, almost a full one with more. A stage receives shapes before tensors, and slept a tenth of a second while it waited.
#
# That is an **inference**: the line stands in one version of nanotron's code (67c5ebb6, `pipeline_parallel/p2p.py`), and no other cause that we know fits; but no row says which version ran it. On 64 nodes almost all layouts with stages pay. So who compares stages with tensor ranks there compares a `sleep` with a network.

# %% [markdown]
# ## Does it fit?
#
# A configuration (B10) begins with tokens per step. Mind the units: the lecture's 4 to 60 million *tokens* are steps of models from 7B on; llm-foundry's 1b takes 0.9 million. Then
#
# $$\text{sequences of a step} = d \cdot b \cdot m$$
#
# and with $d$ and $b$ chosen, $m$ follows: passes whose gradients a replica adds up before one update (*gradient accumulation*, unit 08). Each pass reads its gradients and the sum, and writes the sum: 10.6 ms for 1B on an A100.
#
# A `Plan` has `data`, `tensor` and `pipeline` ($d$, $t$, $p$), `zero_stage`, `micro_batch` ($b$) and `is_recomputed`; leave `has_fp32_gradients`, with which the sum is kept in fp32. Printed, “stage” is ZeRO's.
#

# %% [markdown]
# ## The fastest plan that fits
#
# A `Machine` has `num_devices`, `memory_bytes` of each, and rates. `costs.bytes_of(plan)` gives the bytes of the fullest device (state, gathered weights, activations in flight, loss), `costs.seconds_of(plan)` the predicted seconds of a step. A plan is made with names, as in `Plan(data=4, zero_stage=1)`.

# %% The fastest plan [markdown] exercise="u14-plan" points=4 minutes=16 difficulty=4 importance=5
# **Write** `best_plan`: try every plan, and return the one with the fewest seconds among those that fit into `machine.memory_bytes`; where none fits, raise a `ValueError`. A plan
#
# - uses all devices: $d\,t\,p$ = `machine.num_devices`;
# - divides what it cuts: $t$ the key-value heads, $p$ the layers, $d$ the sequences of a step, and $b$ a replica's share of them;
# - has a ZeRO stage from 0 to 3, with one replica only 0; layers may run again or not.
#
# Half of the points, *by the model*: on machines that you have not seen, your plan is predicted at most 2 % slower than the best one.
#
# The other half, *by the clock*: clusters of up to 256 H100s on which the Playbook measured some plans. `costs` knows these, with constants from *other* sizes, and those that were too large; for every other plan it gives a billion seconds. Your choice took at most 10 % longer than the best measured plan. With 256 devices, loop over divisors.
#
# *By hand:* two devices, two layers, one head, two sequences. Two replicas never fit → two pipeline stages, $b$ 1 or 2, whichever is faster.


# %% solution="u14-plan"
def best_plan(model: ModelConfig, num_sequences: int, machine: Machine, costs: Costs) -> Plan:
    """The fastest of all plans that fit."""
    ### BEGIN SOLUTION
    n, seconds = machine.num_devices, {}
    divisors = [each for each in range(1, n + 1) if n % each == 0]
    for tensor, pipeline in itertools.product(divisors, divisors):
        data, rest = divmod(n, tensor * pipeline)
        if rest or not data or num_sequences % data:
            continue
        if model.num_kv_heads % tensor or model.num_layers % pipeline:
            continue
        mine = num_sequences // data
        micro_batches = [each for each in range(1, mine + 1) if mine % each == 0]
        stages = range(4 if data > 1 else 1)
        for micro_batch, stage, again in itertools.product(micro_batches, stages, (False, True)):
            plan = Plan(
                data=data,
                tensor=tensor,
                pipeline=pipeline,
                zero_stage=stage,
                micro_batch=micro_batch,
                is_recomputed=again,
            )
            if costs.bytes_of(plan) <= machine.memory_bytes:
                seconds[plan] = costs.seconds_of(plan)
    if not seconds:
        raise ValueError(f"no plan fits {n} devices: take more of them, or shorter sequences")
    return min(seconds, key=seconds.get)
    ### END SOLUTION


# %%
llama = preset("Llama-3.2-1B")
node = machine_of("A100-80", num_devices=4)
task = PlanCosts(llama, seq_len=4096, num_sequences=256, machine=node)


def on_four_a100(best_plan):
    return best_plan(llama, 256, node, task)


try_it(on_four_a100, best_plan)

# %% check="u14-plan"
# Against every plan, by the model; against measured plans, by the clock.

# %% [markdown]
# <details><summary>Hint: there are too many nested loops</summary>
#
# `itertools.product` makes one loop of several. Begin with the three sizes, and `continue` where something does not divide.
# </details>
#
# **Guess first.** 8.86B on 8 nodes, 70 measured plans. A common rule takes tensor ranks up to the node, then replicas, then the largest micro-batch. By how many per cent is its plan slower than the best?

# %%
predict("u14-rule", None, "%")

# %% folded=true tags=["nbval-check-output"]
# Measured: what your planner's choice cost on some clusters, beside two rules; the last ones have 64 nodes
best_of = answer("u14-plan", best_plan)


def tensor_first(plan):
    """Tensor ranks up to the node, then replicas, then large micro-batches."""
    return plan.tensor > 8, -plan.tensor, plan.pipeline, -plan.micro_batch, -plan.zero_stage


def replicas_first(plan):
    """As few ranks of a model as possible, then large micro-batches."""
    return plan.tensor * plan.pipeline, plan.pipeline, -plan.micro_batch, -plan.zero_stage


shown = "1.34B on 8 nodes", "3.57B on 16 nodes", "8.86B on 2 nodes", "8.86B on 8 nodes"
rows, losses = {}, []
for cluster in clusters():
    chosen = {
        "yours": best_of(cluster.model, 256, cluster.machine, cluster.costs),
        "tensor ranks first": min(cluster.plans, key=tensor_first),
        "replicas first": min(cluster.plans, key=replicas_first),
    }
    if cluster.nodes <= 32:
        losses.append({name: 100 * cluster.regret(each) for name, each in chosen.items()})
    if cluster.name in shown or cluster.nodes == 64:
        rows[cluster.nodes == 64, cluster.name] = {
            "plans": len(cluster.seconds),
            "best, s": min(cluster.seconds.values()),
            **{f"{name}, % slower": 100 * cluster.regret(each) for name, each in chosen.items()},
            "your plan": str(chosen["yours"]),
        }
        if cluster.name == shown[-1]:
            measured = round(100 * cluster.regret(chosen["tensor ranks first"]), 1)
display(compare("u14-rule", "%", measured=measured))
display(pd.DataFrame({name: rows[_, name] for _, name in sorted(rows)}).T.infer_objects().round(2))
for name, column in pd.DataFrame(losses).items():
    print(
        f"{name}: on {len(column)} clusters of up to 32 nodes {column.median():.0f} % slower ",
        end="",
    )
    print(f"in the median, {column.max():.0f} % at worst, {(column <= 10).sum()} within 10 %")

# %% [markdown]
# On one of the 21 clusters, 80B on 8 nodes, the planner loses 129 %: it knows no tensor ranks beyond a node. *Replicas first* beats it on two of the four shown; up to 8 nodes it is as good a rule, but for 80B. From 16 nodes on it loses 11 to 110 %. On **64 nodes the planner is wrong by a factor of 2.7 to eight**: sleeps and a crowded network which none of its constants contain. Do not use it there.
#
# The explorer moves memory and links: when do pipeline stages win, and when tensor ranks?


# %% folded=true
# Explorer: run this cell, then move the controls
MODELS = {"1B, 4,096 tokens": ("Llama-3.2-1B", 4096), "8B, 8,192 tokens": ("Llama-3-8B", 8192)}


def plans_of(what, devices, memory, link):
    name, seq_len = MODELS[what]
    model, base = preset(name), machine_of("A100-80", devices)
    machine = replace(base, memory_bytes=memory * 10**9, link_bytes_per_second=link * 1e9)
    each = PlanCosts(model, seq_len, 128, machine)
    others = {
        "replicas": Plan(data=devices),
        "replicas, ZeRO stage 3": Plan(data=devices, zero_stage=3),
        "tensor ranks": Plan(tensor=devices),
        "pipeline stages": Plan(pipeline=devices),
        "ZeRO stage 2, layers run again": Plan(data=devices, zero_stage=2, is_recomputed=True),
    }
    try:
        chosen = best_of(model, 128, machine, each)
    except ValueError:
        chosen = None
    if chosen is None:
        return plans_side_by_side(each, others)
    picture = plans_side_by_side(each, {"chosen": chosen, **others})
    return replace(picture, caption=f"Chosen: {chosen}. {picture.caption}")


explorer(
    plans_of,
    what=Choice("model", list(MODELS), "8B, 8,192 tokens"),
    devices=Choice("devices", [4, 8], 8),
    memory=Choice("GB of a device for tensors", [22, 38, 78, 140], 78),
    link=Choice("GB/s of a link", [5, 20, 235, 450], 235),
)

# %% [markdown]
# For the practice problem (B14):

# %% folded=true tags=["nbval-check-output"]
# Table: 1B, 4,096 tokens, steps of 256 sequences, on four A100s; some plans and the chosen one
rows = {}
for name in ("A100-80", "A100-40"):
    each = PlanCosts(llama, 4096, 256, machine_of(name, num_devices=4))
    some = [
        best_of(llama, 256, each.machine, each),
        *(Plan(data=4, micro_batch=b) for b in (1, 2, 4)),
        Plan(data=4, micro_batch=4, is_recomputed=True),
        Plan(data=4, micro_batch=4, zero_stage=3),
        Plan(tensor=4),
        Plan(pipeline=4),
    ]
    for number, choice in enumerate(some):
        seconds = each.seconds_of(choice)
        rate = 256 * 4096 / seconds / 4
        percents = [
            100 * model_flops_utilisation(llama, 4096, rate, 312 * 10**12, convention)
            for convention in ("exact", "causal")
        ]
        fits = each.bytes_of(choice) <= each.machine.memory_bytes
        rows[name, f"{'chosen: ' if number == 0 else ''}{choice}"] = {
            "GB": each.bytes_of(choice) / 1e9,
            "fits": fits,
            "s": seconds,
            "tokens/s of a device": rate,
            "days": 24.7e9 / (4 * rate) / 86_400,
            "MFU, full, %": percents[0],
            "causal, %": percents[1],
        }
pd.DataFrame(rows).T.infer_objects().round(1)

# %% A report [markdown] exercise="u14-report" points=3 minutes=10 difficulty=3 importance=5
# Somebody wants Llama-3.2-1B trained on 24.7 billion tokens, in sequences of 4,096, on four A100-80 (B14). **Write** a report of five to seven sentences on one row of this table.
#
# 1. The plan: $d$, $t$, $p$, ZeRO stage, $b$, and $m$ for 256 sequences. How many of 83 GB does it take?
# 2. Seconds of a step, days, MFU with its convention.
# 3. The days, with the error of a row like this one, 4 % too fast; one assumption behind the constants, and in which direction it could move the days.

# %% [markdown] text_answer="u14-report"
# <!-- BEGIN SOLUTION -->
# On four A100-80 take four replicas, no tensor ranks and no pipeline stages, ZeRO stage 1, and micro-batches of four sequences, 16 of them in a step: 4 · 4 · 16 = 256. A device needs 52 of 83 GB, with what the framework adds, so there is room for what the planner leaves out. The step takes 13.0 s and the run 3.5 days, at 58.6 % with attention in full and 53.3 % with half of it. A published row of this size is predicted 4 % too fast, so I expect 3.5 to 3.7 days, and would not be surprised by 3.9. The constants come from software of 2023: a newer attention kernel makes the run shorter. The first thing to do is a hundred steps, and to compare.
#
# *Rubric:* half a point each: a plan whose $d\,b\,m$ is 256; memory of that row, which fits; seconds and days of that row; MFU with a named convention; an interval that leans to the slow side by at least the error of 4 %; one assumption with the direction in which it moves the days.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Your plan
#
# Llama-3-8B on eight H100s, with your planner:

# %% folded=true tags=["nbval-check-output"]
# Picture: the running case, the chosen plan and others by their parts
case = PlanCosts.of(MISSION)
chosen = best_of(MISSION.model, MISSION.sequences_per_step, MISSION.machine, case)
roomy = Plan(data=4, tensor=2, zero_stage=1)
print(MISSION)
for name, each in {"chosen": chosen, "with room": roomy}.items():
    days, taken = MISSION.days(case.seconds_of(each)), case.bytes_of(each) / 1e9
    print(f"{name + ':':11}{each}: {case.seconds_of(each):.2f} s a step, {days:.1f} days, ", end="")
    print(f"{taken:.1f} of {MISSION.machine.memory_bytes / 1e9:.1f} GB")
plans_side_by_side(
    case,
    {
        "chosen": chosen,
        "with room": roomy,
        "pipeline stages": Plan(pipeline=8),
        "tensor ranks": Plan(tensor=8),
        "ZeRO stage 3": Plan(data=8, zero_stage=3),
        "ZeRO stage 2, again": Plan(data=8, zero_stage=2, is_recomputed=True),
    },
)

# %% [markdown]
# Which would you start? The choice is 1.3 % faster, where nine in ten plans of one node are predicted within 8 %, and leaves 3.5 GB. *With room* leaves 20 for what no planner counts, and has no pipeline to balance. A careful person starts with it, and measures both for a hundred steps.

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% [markdown]
# ### More devices
#
# Without such sleeps more devices are faster, but sublinearly (B10, B11). The global batch grows with the devices:

# %% folded=true tags=["nbval-check-output"]
# Picture: rates of a device on 8 to 512 H100s, 2,048 tokens (llm-foundry)
many = [
    run
    for run in foundry_runs()
    if run.device == "H100" and run.seq_len == 2048 and run.precision == "amp_bf16"
]
big = {run.model for run in many if run.num_devices == 512}
rates_over_devices([run for run in many if run.model in big])

# %% [markdown]
# Even 1b keeps 87 %: most messages run beside the work.

# %% [markdown]
# ### A budget of measurements
#
# How many GPU-hours does it take to know a new cluster?

# %% Buy, then predict [markdown] exercise="u14-budget" points=4 minutes=18 difficulty=4 importance=4 extra=true
# **Write** `predict_runs`: seconds of a step of each run in `asked`. What you buy tells the cluster's own `gpu`, `launch` and `turn`; $[\,]$ is 1 if true, else 0:
#
# $$(m + p - 1) \cdot \max(\text{gpu} \cdot \text{work},\ (\text{launch} + \text{turn} \cdot t\,[p > 1 \text{ and nodes} > 1]) \cdot L)$$
#
# - A run has `nodes`, `tensor` ($t$), `stages` ($p$), `num_micro_batches` ($m$), `num_layers` ($L$, of a stage), `work_seconds`, `price` (a start and 20 steps).
# - `shop.buy(run)` returns the measured seconds of a step of a run in `shop.offers`. It raises `OverBudget` above `shop.left` GPU-hours.
# - A shop has 34 offers and pays about eight; small ones have three, and pay all.
# - Runs in `asked` have another size, or more nodes, than any offer.
#
# Two points if the median error in each shop is at most 12 %; two more if at most 30 % for each kind of run: paced there by the GPU, by the CPU, or by the CPU with stages on several nodes.
#
# *By hand:* three runs of 10 layers and eight passes. 0.1 s of work take 1.6 s → `gpu` **2**; 0.01 s take 0.8 → `launch` **10 ms**; on two nodes with $t$ = 4, 1.6 → `turn` **2.5 ms**. Eight passes of 20 layers and 0.1 s on six nodes, $t$ = 8: **4.8 s**.


# %% solution="u14-budget"
def predict_runs(shop: Shop, asked: list[SweptRun]) -> list[float]:
    """Seconds of a step of each run, from those that are bought."""

    ### BEGIN SOLUTION
    def is_wide(run: SweptRun) -> bool:
        return run.stages > 1 and run.nodes > 1

    def passes(run: SweptRun) -> int:
        return run.num_micro_batches + run.stages - 1

    def layer_work(run: SweptRun) -> float:
        return run.work_seconds / run.num_layers

    few = len(shop.offers) // 8 or 1
    wide = [run for run in shop.offers if is_wide(run)]
    others = sorted((run for run in shop.offers if not is_wide(run)), key=layer_work)
    telling = {
        "turn": sorted(wide, key=lambda run: layer_work(run) / run.tensor)[:few],
        "launch": others[:few],
        "gpu": others[-few:],
    }
    bought = {kind: {} for kind in telling}
    by_price = [sorted(own, key=lambda run: run.price) for own in telling.values()]
    for chosen in zip(*by_price, strict=False):
        for kind, run in zip(telling, chosen, strict=True):
            if run.price <= shop.left:
                bought[kind][run] = shop.buy(run) / passes(run)

    gpu = np.median([each / run.work_seconds for run, each in bought["gpu"].items()])
    launch = np.median([each / run.num_layers for run, each in bought["launch"].items()])
    turns = [(each / run.num_layers - launch) / run.tensor for run, each in bought["turn"].items()]

    def seconds(run: SweptRun) -> float:
        of_layer = launch + np.median(turns) * run.tensor * is_wide(run)
        return passes(run) * max(gpu * run.work_seconds, of_layer * run.num_layers)

    return [float(seconds(run)) for run in asked]
    ### END SOLUTION


# %%
rows = (
    ("much work", 1, 1, 1, 8, 10, 0.1, 0.30, 1.6),
    ("little work", 1, 1, 1, 8, 10, 0.01, 0.28, 0.8),
    ("two nodes", 2, 4, 2, 7, 10, 0.01, 0.63, 1.6),
)
by_hand = {SweptRun(*row): seconds for *row, seconds in rows}
other = SweptRun("other", 6, 8, 6, 3, 20, 0.1)
try_it(predict_runs, Shop(by_hand, budget=2.0), [other])

# %% check="u14-budget"
# Against rows of the sweep that nobody sells, moved to clusters with other GPUs, links and CPUs.

# %% [markdown]
# The runs are the Playbook's, rescaled by the model to other GPUs, links and CPUs. (Without those that sleep, and 13 of 337 that it misses by more than 15 %.)
#
# **Guess first.** Twenty such clusters, 8.86B asked: how far off is your worst kind after 4 GPU-hours, in per cent?

# %%
predict("u14-hours", None, "%")

# %% folded=true tags=["nbval-check-output"]
# Picture: error in the worst kind over GPU-hours, median of twenty clusters; then the Playbook's own
runs_of = answer("u14-budget", predict_runs)
buyers = {
    "yours": runs_of,
    "same formula, bought at random": at_random,
    "nearest run": nearest_rates,
    "one MFU": one_rate,
}
sales, hours = [sale(n) for n in range(20)], (2, 3, 4, 6, 8, 12, 16)
curves = {
    name: {each: float(np.median([one.percent(buyer, each) for one in sales])) for each in hours}
    for name, buyer in buyers.items()
}
display(compare("u14-hours", "%", measured=round(curves["yours"][4], 1)))
own = sale(0, cluster=PUBLISHED).percent(runs_of, 8)
print(f"on the Playbook's own cluster 8 GPU-hours predict 8.86B to within {own:.1f} %")
errors_over_hours(curves, at=4)

# %% [markdown]
# About four GPU-hours are enough for whoever buys all three kinds on purpose, and eight to twelve for who buys at random. More bring nothing: what is left, the formula misses.

# %% [markdown]
# ### Who ran out of memory?
#
# The sweep also says what world rank 0 reserved, which lies on the first pipeline stage, and which 1,578 layouts failed. nanotron cuts by cost: the head costs as much as several layers, so the first of two pipeline stages of 1.34B has 10 of the 16.

# %% Bytes of the first rank [markdown] exercise="u14-memory" points=3 minutes=14 difficulty=3 importance=4 extra=true
# **Write** `rank_bytes`, exact `int`s by part. `sizes` has the `"parameters"` $N$ and `"layers"` of rank 0, and for one sequence, on all $t$ ranks together, `"layer_bytes"` (what one layer keeps) and `"logits"` (numbers). `plan.zero_stage` is 0 (DDP) or 1.
#
# | key | bytes |
# |---|---|
# | `"state"` | all weights in bf16 and gradients in fp32; Adam's moments and a master copy in fp32, in ZeRO stage 1 of $\lceil N/d \rceil$ parameters; DDP with several replicas also has a gradient in bf16, its buckets |
# | `"layers"` | what the rank's layers keep for all micro-batches in flight with 1F1B |
# | `"logits"` | in fp32, and as large a gradient; with several pipeline stages they lie elsewhere |
# | `"added"` | nanotron's own: each new gradient in bf16; in ZeRO stage 1 with several replicas, all weights gathered once more |
#
# The first three are a *lower bound*.
#
# *By hand:* 10 parameters, 3 layers that keep 400 bytes, 60 logits; $d$ = 4, $p$ = 2, $b$ = 2, ZeRO stage 1, eight micro-batches → **96**, **4,800**, **0**, **40**.


# %% solution="u14-memory"
def rank_bytes(sizes: dict[str, int], plan: Plan, num_micro_batches: int) -> dict[str, int]:
    """Bytes of the first rank, by part."""
    ### BEGIN SOLUTION
    n, d, b = sizes["parameters"], plan.data, plan.micro_batch
    is_sharded = plan.zero_stage == 1 and d > 1
    optimizer = 12 * (-(-n // d) if is_sharded else n)
    buckets = 2 * n if plan.zero_stage == 0 and d > 1 else 0
    in_flight = min(plan.pipeline, num_micro_batches)
    kept = b * sizes["layers"] * sizes["layer_bytes"] // plan.tensor
    return {
        "state": 2 * n + 4 * n + optimizer + buckets,
        "layers": in_flight * kept,
        "logits": 8 * b * sizes["logits"] // plan.tensor if plan.pipeline == 1 else 0,
        "added": 2 * n + (2 * n if is_sharded else 0),
    }
    ### END SOLUTION


# %%
sizes = {"parameters": 10, "layers": 3, "layer_bytes": 400, "logits": 60}
try_it(rank_bytes, sizes, Plan(data=4, pipeline=2, zero_stage=1, micro_batch=2), 8)

# %% check="u14-memory"
# Against tensors without data and a simulated pipeline: DDP and ZeRO-1, few micro-batches, remainders.

# %% folded=true tags=["nbval-check-output"]
# Measured: GiB of rank 0 on all layouts that ran, and who ran or failed, with your bytes
bytes_of = answer("u14-memory", rank_bytes)


def gib_of(run):
    """At least, and with what nanotron adds."""
    parts = bytes_of(*first_rank_of(run), run.num_micro_batches)
    whole = sum(parts.values())
    return (whole - parts["added"]) / 2**30, whole / 2**30


ran = {run: gib_of(run) for run in runs("playbook_runs")}
failed = [gib_of(each.run)[0] for each in predictions("playbook_failed")]
whole_layers = [run for run in ran if run.tensor == 1]
off = [abs(ran[run][1] / run.first_rank_gib - 1) for run in whole_layers]
print(
    f"the bound holds (2 % of grace): {sum(ran[r][0] <= 1.02 * r.first_rank_gib for r in ran):,} of {len(ran):,}"
)
print(f"t = 1, {len(off)} layouts: median error {100 * np.median(off):.1f} %, ", end="")
print(f"{sum(each <= 0.1 for each in off)} within 10 %; ", end="")
print(f"the planner's, {memory_line().of_class.median:.1f} %, has the head's inputs besides")
right = sum(ran[run][0] <= 60 for run in ran) + sum(each > 60 for each in failed)
print(
    f"ran if at least 60 GiB suffice, else failed: {100 * right / (len(ran) + len(failed)):.1f} % right"
)

# %% [markdown]
# Nothing is fitted here but the 60 of an H100's 79 GiB. With tensor ranks the sum is up to a third too low on half of the layouts: the allocator keeps blocks that the links' stream still holds. (The rate of right answers leaves out 234 layouts that nanotron refuses to start.)

# %% [markdown]
# ### The work of a token
#
# What is *one* kernel is a convention; this is ours. Each reads its inputs once and writes its outputs once, in bf16:
#
# | kernel of a layer, forward | numbers of a token |
# |---|---|
# | norm, twice | reads $h$, writes $h$ |
# | addition to the residual, twice | reads $2h$, writes $h$ |
# | GELU | reads $f$, writes $f$ |
# | or: SiLU times its factor | reads $2f$, writes $f$ |
#
# In backward each moves twice as much. The loss moves three tensors of $v$ numbers in *fp32*, logits, log-probabilities and their gradient, each written once and read once: 24 bytes for every entry of the vocabulary.

# %% Work of a token [markdown] exercise="u14-work" points=3 minutes=11 difficulty=3 importance=4 extra=true
# **Write** `token_work`: what training on one token takes. `forward` has the FLOPs of a token's forward pass from unit 01 (`"projections"`, `"attention"` in full, `"feed_forward"`, `"head"`, over all layers). If `is_recomputed`, every layer runs forward once more in backward; the head does not. All numbers are integers; each key is a third of the points:
#
# | key | what it counts |
# |---|---|
# | `"products"` | FLOPs of projections, feed-forward and head |
# | `"attention"` | FLOPs of attention: *half* of the square; backward is 2.5 times forward |
# | `"elementwise"` | bytes of all other kernels |
#
# *By hand:* one layer without a gate, $h = 4$, $f = 10$, $v = 20$: kernels move 60 numbers forward, so $2 \cdot 60 \cdot 3 + 24 \cdot 20 =$ **840** bytes.


# %% solution="u14-work"
def token_work(model: ModelConfig, forward: dict[str, int], is_recomputed: bool) -> dict[str, int]:
    """FLOPs of products and of attention, bytes of all other kernels."""
    ### BEGIN SOLUTION
    h, again = model.hidden_size, int(is_recomputed)
    layers = forward["projections"] + forward["feed_forward"]
    numbers = 2 * 2 * h + 2 * 3 * h + (3 if model.is_gated else 2) * model.ffn_size
    return {
        "products": 3 * (layers + forward["head"]) + again * layers,
        "attention": (7 + 2 * again) * forward["attention"] // 4,
        "elementwise": 2 * (3 + again) * model.num_layers * numbers + 24 * model.vocab_size,
    }
    ### END SOLUTION


# %%
small = ModelConfig(
    num_layers=1, hidden_size=4, num_heads=1, ffn_size=10, vocab_size=20, is_gated=False
)
forward_of_small = {"projections": 128, "attention": 128, "feed_forward": 160, "head": 160}
try_it(token_work, small, forward_of_small, False)

# %% check="u14-work"
# Against products counted while they run, and kernels on tensors without data: gated and not, run again and not.

# %% [markdown]
# ### Two constants
#
# A row's seconds for one token, with gathered weights (unit 10) not hidden at all:
#
# $$\underbrace{\text{products} + \text{gathers}}_{\text{fixed}} + c_1 \cdot \text{attention} + c_2 \cdot \text{elementwise}$$
#
# Two constants and 59 rows: both are at least zero, with the least squares of *relative* errors.
#
# **Guess first.** Take the constants from all model sizes *but one*, and predict that one. What is the median error, in per cent?

# %%
predict("u14-held-out", None, "%")


# %% folded=true tags=["nbval-check-output"]
# Measured: every row of one node predicted without its own model size
def held_out(runs):
    """Error of each row's *rate*, with constants from the other sizes."""
    rows = {run: row_of_run(run) for run in runs}
    errors = {}
    for run, row in rows.items():
        constants = calibrate([each for other, each in rows.items() if other.model != run.model])
        errors[run] = row[3] / predicted_seconds(row, constants) - 1
    return errors


def summary(errors):
    """Constants of all these rows, and how near the held-out predictions come to the goals."""
    sizes = [100 * abs(each) for each in errors.values()]
    return {
        "rows": len(sizes),
        **calibrate([row_of_run(run) for run in errors]),
        "median error, %": np.median(sizes),
        "goal": 5,
        "largest in rate, %": max(sizes),
        "limit": 10,
        "missed by": max(0, max(sizes) - 10),
    }


errors_of = {name: held_out(one_node_runs(name)) for name in ("A100-80", "H100")}
display(pd.DataFrame({name: summary(errors) for name, errors in errors_of.items()}).T.round(2))
median = summary(errors_of["A100-80"])["median error, %"]
display(compare("u14-held-out", "%", measured=round(median, 2)))
errors_by_size(errors_of["A100-80"])

# %% [markdown]
# The median is within our goal of 5 %. The largest error is not within 10: it misses by 25 points on the A100 and by 15 on the H100. (One MFU for all rows is 8 and 11 % off in the median.)
#
# **Why 35 %?** llm-foundry published its runs on A100-80 twice. The second time, 760m at 512 and at 1,024 tokens was 20 and 15 % *slower*; our predictions are 5 % from the first measurements. And 30b at 8,192 is started with another micro-batch than the table prints.
#
# So here is a rule that looks only at the sources: a row counts if its script asks for the micro-batch and the accumulation that the table prints, and if newer software was not slower than older by more than 3 %. Without the others:

# %% folded=true tags=["nbval-check-output"]
# Table: rows on which the source contradicts itself; then the same goals without them
fallen = {
    (name, run.name, run.micro_batch_sequences): {
        "printed": f"{run.tokens_per_second_per_device:,.0f} tokens/s, "
        f"micro-batch {run.micro_batch_sequences}, accumulation {run.accumulation}",
        "but": run.contradiction,
        "too fast by, %": round(100 * each, 1),
    }
    for name, errors in errors_of.items()
    for run, each in errors.items()
    if run.contradiction
}
display(pd.DataFrame(fallen).T)
settled = {name: summary(held_out(settled_runs(name))) for name in errors_of}
pd.DataFrame(settled).T.round(2)

# %% [markdown]
# Both goals are met, on 52 of 59 rows and on 36 of 37. We searched the sources *because* some rows were far off, but the rule treats all alike: it also drops four that we predict within 10 %.
#
# The constants say that attention took three times (A100) to more than five times (H100) as long as at the peak, other kernels three to four times as long as fused ones (software of 2023). So constants go with device *and* software.

# %% Your prediction and the record [markdown] exercise="u14-why" points=2 minutes=10 difficulty=3 importance=4 extra=true
# llm-foundry prints 59.0 % for 1b at 4,096 on A100-80, with $6N$ and attention in full. The table below predicts it without any row of that size. **Write** three to five sentences.
#
# 1. What do you predict in *their* convention, and by how many points is that off?
# 2. What is 59.0 % in our convention? Which is larger, your error or the change of convention?
# 3. A100-40 has the same peak, but 1,555 GB/s instead of 2,039. Which part of a token's time grows most, and why? (Each device has constants of its own.)

# %% folded=true tags=["nbval-check-output"]
# Table: 1b at 4,096, predicted with constants of all other sizes of the same table
rows = {}
for name in ("A100-80", "A100-40"):
    all_rows = {run: row_of_run(run) for run in one_node_runs(name)}
    run = next(each for each in all_rows if each.name == "1b at 4,096")
    constants = calibrate([row for each, row in all_rows.items() if each.model != "1b"])
    fixed, attention, elementwise, measured = all_rows[run]
    seconds = predicted_seconds(all_rows[run], constants)
    rows[name] = {
        "products and gathers, µs": 1e6 * fixed,
        "attention, µs": 1e6 * constants["attention"] * attention,
        "elementwise, µs": 1e6 * constants["elementwise"] * elementwise,
        "predicted, µs": 1e6 * seconds,
        "measured, µs": 1e6 * measured,
        "predicted MFU, %": run.published_mfu_percent * measured / seconds,
        "printed MFU, %": run.published_mfu_percent,
        "printed, causal, %": of_foundry(run)[1],
    }
pd.DataFrame(rows).round(2)

# %% [markdown] text_answer="u14-why"
# <!-- BEGIN SOLUTION -->
# In their convention, 6N and attention in full, I predict 61.5 % for 59.0: 2.5 points too many (4.2 % too fast), near the median error of held-out rows. With all products and half of attention 59.0 are 51.8 %. The convention moves the number by 7.2 points, almost three times my error: a comparison of two percentages without their conventions says less than my model. Less bandwidth slows the kernels that only move: they go from 9.7 to 10.8 µs, and no other part grows more.
#
# *Rubric:* half a point for the prediction with its convention and error; half for 51.8 % (or 52.1 with half of attention beside 6N); half for the comparison of 7 points with 2.5; half for the kernels that only move, which grow most.
# <!-- END SOLUTION -->

# %% [markdown]
# ## What you know now
#
# | question | answer |
# |---|---|
# | MFU | FLOPs of the model · tokens/s / dense peak; name the convention |
# | the lecture's formula, mended | $L\,h^2 (12 + 12\,\frac{a_{kv}}{a} + 18\,\frac{f}{h} + 12\,\frac{s}{h}) + 6\,v\,h$ |
# | a micro-batch | the longer of the GPU's work and the CPU's launches: 4.5 to 4.7 ms a layer in nanotron |
# | rows far off | two populations, so look for a cause before you average |
# | which plan | the fastest that fits; those within the error are equally fast, so take one with memory to spare |
#
# *Further reading:* Korthikanti et al. 2022, *Reducing Activation Recomputation*, section 6. The Ultra-Scale Playbook, *Finding the best training configuration* (30 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# **Take it with you.** `report` plans any model on any machine: first roughly, then with its fastest plan. In a script of yours in the folder `work`: `from planner import report`.

# %% tags=["demonstration", "nbval-ignore-output"]
other = replace(
    MISSION,
    name="Llama-3.2-1B",
    model=preset("Llama-3.2-1B"),
    machine=machine_of("A100-80", num_devices=4),
    seq_len=4096,
    num_tokens=247 * 10**8,
    tokens_per_step=256 * 4096,
)
report(other)

# %%
progress("14")
