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
# A model of 1B parameters, sequences of 4,096 tokens, four A100s: which configuration? That is the lectures' last problem, and now you have every part of the answer. You will find out from published runs what sets the pace of a step and who waits without need. Then your planner chooses layouts on clusters that it has not seen, and others' clocks judge it.
#
# Your training plan gets its last lines: memory, days, cost.
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
# | $d$, $t$, $p$ | DP, TP, PP | replicas, tensor ranks, stages |
# | $b$, $m$ | b, accumulation | sequences of a micro-batch, micro-batches of a step |
# | $a$, $a_{kv}$ | heads, groups | query heads, key-value heads |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
from IPython.display import display

from autograder import answer, check, compare, plan, predict, progress, report
from course_utils.configs import Costs, Machine, ModelConfig, Plan, machine_of, preset
from course_utils.formulas.calibration import predicted_seconds
from course_utils.formulas.plan import Task, model_sizes
from course_utils.formulas.step_parts import token_forward_flops
from course_utils.formulas.utilisation import model_flops_utilisation
from course_utils.planner import MISSION
from course_utils.planner.calibrated import (
    machine_of_run,
    model_of_run,
    row_of_run,
    settled_runs,
)
from course_utils.records import SOURCES, foundry_runs, one_node_runs, published
from course_utils.show import (
    Choice,
    errors_by_size,
    explorer,
    plans_side_by_side,
    rates_over_devices,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## One number, many conventions
#
# Tokens per second alone do not tell how good a run is (B13): small models are fast. So people divide by what the device could do:
#
# $$\text{MFU} = \frac{\text{model FLOPs per token} \cdot \text{tokens per second}}{\text{peak FLOP/s}}$$
#
# The lecture (B12) prints these FLOPs as
#
# $$L\,h^2 \left(12 + 12\,\frac{a_{kv}}{a} + 18\,\frac{f}{h} + 12\,\frac{s}{h} + 6\,\frac{v}{h}\right)$$
#
# Two remarks. The last term is the head, which comes *once* and not in every layer: as printed, the formula gives Llama-3.2-1B at 4,096 tokens 4.0 times its FLOPs (with half of attention), and an honest 36.5 % becomes 145 %. And $12\,\frac{s}{h}$ is attention in full; a causal mask leaves half of it. The "groups" of the slide are key-value heads.
#
# Others count $6N$, or $6N$ and attention in full, or add what is recomputed. The Ultra-Scale Playbook's banner counts tied words once more as soon as there are stages: 11.27 instead of 9.65 GFLOPs for a token of the same 1.34B model. So its highest MFU is not its fastest plan in 7 of 26 cases, by up to 9.8 %. "40 to 60 % is good" means little without a convention and a device.

# %% Convert a utilisation [markdown] exercise="u14-convention" points=2 minutes=11 difficulty=2 importance=5
# **Write** `causal_percent`: a table prints `percent`, and you return what *this course* would print for the same run: all products, half of attention. (Without biases; without a gate $18\,\frac{f}{h}$ becomes $12\,\frac{f}{h}$.) `convention` says what the table counts:
#
# | `convention` | FLOPs per token |
# |---|---|
# | `"6N"` | $6N$, with `num_params` for $N$ |
# | `"6N + attention"` | $6N + 12\,L\,h\,s$ |
# | `"with recomputation"` | $\frac43$ of that |
# | `"lecture"` | the formula above as printed, the head once in each layer |
#
# *By hand:* a device's peak, the run's speed, everything but the FLOPs cancels. If a table counts twice as many FLOPs as we do, its 50 % are our **25 %**.


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

# %% [markdown]
# Only 2.2 times as fast as on the A100. And 59.0 % are 51.8 in our convention. ($6N$ with half of attention would give 52.1: these models' $N$ has a table of positions, which multiplies nothing.) The same program reaches 59 % on one device and 40 % on the other, so the rating changes with the device too. Where does the rest of the time go?

# %% [markdown]
# ## Three kinds of work
#
# Unit 02 asked of every operation: is it slower to compute, or to move? Sort them:
#
# - **Products** compute. Large ones reach 271 TFLOP/s on an A100 and 795 on an H100, of 312 and 989 (Bekman, *Machine Learning Engineering*, achievable matmul FLOPS).
# - **Attention** computes as well, in kernels that skip what the mask hides, and make the scores again in backward.
# - **All other kernels** only move: norms, residuals, activation functions, the loss.
#
# Each of these kernels reads its inputs once and writes its outputs once; an extra counts them.
#
# At the rates of the data sheet, beside the measurement (nothing is fitted yet):

# %% folded=true tags=["nbval-check-output"]
# Table: microseconds of a token, at full rates and measured (llm-foundry, eight devices)
def ideal_microseconds(run):
    """Products at the rate they reach, attention at the peak, the rest at the bandwidth."""
    model, machine = model_of_run(run), machine_of_run(run)
    forward = token_forward_flops(model, run.seq_len)
    work = token_work(model, forward, bool(run.recompute_all_layers))
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
# Products alone do not explain it, and nothing else is slow on paper. Attention of 2023 did not reach the peak, and real kernels move more than fused ones would. How much more? Ask the rows.

# %% [markdown]
# ## Two constants
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
compare("u14-held-out", "%", measured=round(median, 2))
errors_by_size(errors_of["A100-80"])

# %% [markdown]
# The median is within our goal of 5 %. The largest error is not within 10: it misses by 24 points on the A100 and by 20 on the H100.
#
# **Why 35 %?** Look at the source instead of the model. llm-foundry published its runs on A100-80 twice. The second time, 760m at 512 and at 1,024 tokens was 20 and 15 % *slower*; our predictions are 5 % from the first measurements. And 30b at 8,192 is started with another micro-batch than the table prints.
#
# So here is a rule that looks only at the sources, never at our errors: a row counts if its script asks for the micro-batch and the accumulation that the table prints, and if newer software was not slower than older by more than 3 %. These rows are dropped; below, the errors without them:

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
# The constants say that attention took three to five times as long as at the peak, other kernels three to four times as long as fused ones (software of 2023). They also absorb what is not in the model. So constants go with device *and* software.

# %% Your prediction and the record [markdown] exercise="u14-why" points=2 minutes=8 difficulty=3 importance=5
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

@@NEW@@
# %% [markdown]
# ## Does it fit?
#
# A configuration (B10) begins with tokens per step, not with devices. Mind the units: the lecture's 4 to 60 million *tokens* are steps of models from 7B on; llm-foundry's 1b takes 0.9 million. Then
#
# $$\text{sequences of a step} = d \cdot b \cdot m$$
#
# and with $d$ and $b$ chosen, $m$ follows. A `Plan` has `data`, `tensor` and `pipeline` ($d$, $t$, $p$), `zero_stage`, `micro_batch` ($b$) and `is_recomputed`.
#
# A planner adds up four parts of memory, each on its *worst* device: state, layers that `zero_stage` 3 gathers, the first stage's activations, and the last one's loss. (An extra computes them.)

# %% [markdown]
# ## The fastest plan that fits
#
# A `Machine` has `num_devices`, `memory_bytes` of each, rates, and the two constants. `costs.bytes_of(plan)` adds up these parts, `costs.seconds_of(plan)` gives a step's seconds. A plan is made with names, as in `Plan(data=4, zero_stage=1)`. Only the choice is left.

# %% The fastest plan [markdown] exercise="u14-plan" points=4 minutes=13 difficulty=4 importance=5
# **Write** `best_plan`: try every plan, and return the one with the fewest seconds among those that fit into `machine.memory_bytes`. A plan
#
# - uses all devices: $d\,t\,p$ = `machine.num_devices`;
# - divides what it cuts: $t$ the key-value heads, $p$ the layers, $d$ the sequences of a step, and $b$ a replica's share of them;
# - has a `zero_stage` from 0 to 3, with one replica only 0; layers may run again or not.
#
# It is tried on machines that you have not seen. Half of the points: never more than 10 % slower than the best plan. The other half: never more than 2 %.


# %% solution="u14-plan"
def best_plan(model: ModelConfig, num_sequences: int, machine: Machine, costs: Costs) -> Plan:
    """The fastest of all plans that fit."""
    ### BEGIN SOLUTION
    seconds = {}
    sizes = range(1, machine.num_devices + 1)
    for data, tensor, pipeline in itertools.product(sizes, repeat=3):
        if data * tensor * pipeline != machine.num_devices:
            continue
        if model.num_kv_heads % tensor or model.num_layers % pipeline or num_sequences % data:
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
    return min(seconds, key=seconds.get)
    ### END SOLUTION


# %%
llama = preset("Llama-3.2-1B")
node = machine_of("A100-80", num_devices=4)
task = Task(llama, seq_len=4096, num_sequences=256, machine=node)


def on_four_a100(best_plan):
    return best_plan(llama, 256, node, task)


try_it(on_four_a100, best_plan)

# %% check="u14-plan"
# Against every plan, on machines with fast links and slow ones, with memory for some of the plans.

# %% [markdown]
# <details><summary>Hint: there are too many nested loops</summary>
#
# `itertools.product` makes one loop of several. Begin with the three sizes, `continue` where something does not divide, and only then go through micro-batches, stages and recomputation.
# </details>
#
# Look at the choice beside others. The explorer moves memory and links: when do stages win, when tensor ranks, and when is it worth running layers again?


# %% folded=true
# Explorer: run this cell, then move the controls
best_of = answer("u14-plan", best_plan)
MODELS = {"1B, 4,096 tokens": ("Llama-3.2-1B", 4096), "8B, 8,192 tokens": ("Llama-3-8B", 8192)}


def plans_of(what, devices, memory, link):
    name, seq_len = MODELS[what]
    model, base = preset(name), machine_of("A100-80", devices)
    machine = replace(base, memory_bytes=memory * 10**9, link_bytes_per_second=link * 1e9)
    each = Task(model, seq_len, 128, machine)
    others = {
        "replicas": Plan(data=devices),
        "replicas, stage 3": Plan(data=devices, zero_stage=3),
        "tensor ranks": Plan(tensor=devices),
        "stages": Plan(pipeline=devices),
        "layers run again": Plan(data=devices, zero_stage=2, is_recomputed=True),
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
# There is rarely *the* plan: this model gives a micro-batch no price of its own. For the practice problem (B14):

# %% folded=true tags=["nbval-check-output"]
# Table: 1B, 4,096 tokens, steps of 256 sequences, on four A100s; some plans and the chosen one
rows = {}
for name in ("A100-80", "A100-40"):
    each = Task(llama, 4096, 256, machine_of(name, num_devices=4))
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
# Somebody has four A100-80 and wants Llama-3.2-1B trained on 24.7 billion tokens, in sequences of 4,096 (B14). **Write** a report of five to seven sentences on one row of this table.
#
# 1. The plan: $d$, $t$, $p$, stage, $b$, and $m$ for 256 sequences. How many of 80 GB does it take?
# 2. Seconds of a step, days, MFU with its convention.
# 3. The days, with 1b's held-out error of 14.4 either way; one assumption behind the two constants, and in which direction it could move the days.

# %% [markdown] text_answer="u14-report"
# <!-- BEGIN SOLUTION -->
# On four A100-80 take four replicas, no tensor ranks and no stages, stage 1, and micro-batches of one sequence, 64 of them in a step: 4 · 1 · 64 = 256. A device needs 20 of 80 GB, so there is room for what the planner leaves out, such as the context and NCCL's buffers. The step takes 12.4 s and the run 3.4 days, at 61.0 % with attention in full and 55.5 % with half of it. The held-out row of this size was predicted 4 % too fast, so I expect 3.4 to 3.6 days, and would not be surprised by 3.8. The constants come from software of 2023: a newer attention kernel makes the run shorter. The first thing to do is a hundred steps, and to compare.
#
# *Rubric:* half a point each: a plan whose $d\,b\,m$ is 256; memory of that row, which fits; seconds and days of that row; MFU with a named convention; an interval that leans to the slow side by at least the error of 4 %; one assumption with the direction in which it moves the days.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Your plan
#
# Llama-3-8B on eight H100s, with your planner:

# %% folded=true tags=["nbval-check-output"]
# Table: the running case, the chosen plan and its parts
case = Task(MISSION.model, MISSION.seq_len, MISSION.sequences_per_step, MISSION.machine)
chosen = best_of(MISSION.model, MISSION.sequences_per_step, MISSION.machine, case)
print(MISSION)
print(chosen)
plans_side_by_side(
    case,
    {
        "chosen": chosen,
        "stages": Plan(pipeline=8),
        "tensor ranks": Plan(tensor=8),
        "stage 3": Plan(data=8, zero_stage=3),
        "again": Plan(data=8, zero_stage=2, is_recomputed=True),
    },
)

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% [markdown]
# ### What fills a device

# %% Bytes of a plan [markdown] exercise="u14-fits" points=2 minutes=15 difficulty=4 importance=5 extra=true
# **Write** `plan_bytes`, by part. `sizes` has `"parameters"` $N$, `"layer_parameters"` (of one layer's matrices) and `"layer_bytes"` (what one layer keeps for one sequence). All divisions come out even, except for the parameters: round up, first $N$ over $t\,p$, then over $d$.
#
# | key | bytes |
# |---|---|
# | `"state"` | 2 + 2 + 12 for each parameter of this device: weights from stage 3 on, gradients from 2, optimizer from 1, each shared by the replicas |
# | `"gathered"` | stage 3 with several replicas: two whole layers in bf16, their $t$-th part |
# | `"layers"` | the first stage's layers × micro-batches in flight with 1F1B × what a layer keeps, its $t$-th part |
# | `"loss"` | 10 bytes × tokens of a micro-batch × $v$, its $t$-th part |
#
# If layers run again, each keeps only its input ($h$ numbers of a token, in bf16, its $t$-th part) for every micro-batch in flight, and *one* layer everything, for one micro-batch.
#
# *By hand:* Llama-3.2-1B below, $d = b = 4$: **19.8**, **0**, **24.2**, **21.0** GB.


# %% solution="u14-fits"
def plan_bytes(
    model: ModelConfig, sizes: dict[str, int], seq_len: int, num_sequences: int, plan: Plan
) -> dict[str, int]:
    """Bytes on the fullest device, by part."""
    ### BEGIN SOLUTION
    stage = plan.zero_stage
    own = -(-sizes["parameters"] // (plan.tensor * plan.pipeline))
    part = -(-own // plan.data)
    state = 2 * (part if stage >= 3 else own) + 2 * (part if stage >= 2 else own)
    state += 12 * (part if stage >= 1 else own)
    num_micro_batches = num_sequences // (plan.data * plan.micro_batch)
    held = min(plan.pipeline, num_micro_batches)
    own_layers = model.num_layers // plan.pipeline
    tokens = plan.micro_batch * seq_len
    kept = plan.micro_batch * sizes["layer_bytes"] // plan.tensor
    layers = held * own_layers * kept
    if plan.is_recomputed:
        boundary = 2 * tokens * model.hidden_size // plan.tensor
        layers = held * own_layers * boundary + kept
    is_gathered = stage == 3 and plan.data > 1
    return {
        "state": state,
        "gathered": 4 * sizes["layer_parameters"] // plan.tensor if is_gathered else 0,
        "layers": layers,
        "loss": 10 * tokens * model.vocab_size // plan.tensor,
    }
    ### END SOLUTION


# %%
try_it(plan_bytes, llama, model_sizes(llama, 4096), 4096, 256, Plan(data=4, micro_batch=4))

# %% check="u14-fits"
# Against tensors without data and a simulated pipeline: every stage, few micro-batches, divisions with a remainder.

# %% folded=true tags=["nbval-check-output"]
# Table: GB of the fullest device by part, for 1B on four A100s, with your bytes
bytes_of = answer("u14-fits", plan_bytes)
rows = {}
for choice in [
    *(Plan(data=4, micro_batch=4, zero_stage=stage) for stage in range(4)),
    Plan(data=4, micro_batch=4, is_recomputed=True),
    Plan(tensor=4, micro_batch=4),
    Plan(pipeline=4, micro_batch=4),
]:
    taken = bytes_of(llama, model_sizes(llama, 4096), 4096, 256, choice)
    rows[str(choice)] = {name: each / 1e9 for name, each in taken.items()}
pd.DataFrame(rows).T.round(1)

# %% [markdown]
# Stage 3 cuts the state to a quarter, running again cuts the layers to a ninth. Only $b$ and $t$ cut the loss.

# %% [markdown]
# ### What is exposed
#
# Gradients are summed layer by layer behind the last backward pass. How much of it is not hidden?

# %% Exposed [markdown] exercise="u14-exposed" points=3 minutes=9 difficulty=3 importance=4 extra=true
# **Write** `seconds_of_step`. A stage has `num_layers` equal layers; a micro-batch takes `forward_seconds` on it, and twice that backward. Messages between stages take nothing; 1F1B. Gradients of a layer are complete in the *last* micro-batch's backward pass, the last layer's first, and are then summed over the replicas, one layer after the other: `reduce_seconds` for all layers together. Each number is a third of the points:
#
# | key | seconds |
# |---|---|
# | `"work"` | a stage computes |
# | `"bubble"` | a stage is idle |
# | `"exposed"` | from the end of its last backward pass to the end of the last sum |
#
# *By hand:* 8 micro-batches, 4 stages, 4 layers, 6 seconds forward, 4 to sum → **144**, **54**, and **1.0**: the first layer's gradients have nothing left to hide behind.


# %% solution="u14-exposed"
def seconds_of_step(
    num_micro_batches: int,
    num_stages: int,
    num_layers: int,
    forward_seconds: float,
    reduce_seconds: float,
) -> dict[str, float]:
    """Seconds of work, of the bubble, and of the sum that is not hidden."""
    ### BEGIN SOLUTION
    backward = 2 * forward_seconds
    both = forward_seconds + backward
    hidden = backward * (num_layers - 1) / num_layers
    return {
        "work": num_micro_batches * both,
        "bubble": (num_stages - 1) * both,
        "exposed": max(reduce_seconds / num_layers, reduce_seconds - hidden),
    }
    ### END SOLUTION


# %%
try_it(seconds_of_step, 8, 4, 4, 6, 4)
try_it(seconds_of_step, 8, 4, 4, 6, 40)

# %% check="u14-exposed"
# Against a simulated pipeline and a link that takes one layer at a time: one layer, one stage, nothing to sum, too much to hide.

# %% [markdown]
# ### Days and cost

# %% Days and cost [markdown] exercise="u14-days" points=1.5 minutes=6 difficulty=1 importance=3 extra=true
# **Write** `days_and_cost` of a run: `"days"`, `"device_hours"` and `"usd"`. The last step may not be full; it takes as long as the others. `step_seconds` is one step of all devices.
#
# *By hand:* 86.4 billion tokens in steps of a million, 2 seconds each, on 4 devices at 1.50 USD → **2.0** days, **192.0** device hours, **288.0** USD.


# %% solution="u14-days"
def days_and_cost(
    num_tokens: int,
    tokens_per_step: int,
    step_seconds: float,
    num_devices: int,
    usd_per_device_hour: float,
) -> dict[str, float]:
    """Days, device hours and USD of a run."""
    ### BEGIN SOLUTION
    num_steps = math.ceil(num_tokens / tokens_per_step)
    hours = num_steps * step_seconds / 3600
    return {
        "days": hours / 24,
        "device_hours": hours * num_devices,
        "usd": hours * num_devices * usd_per_device_hour,
    }
    ### END SOLUTION


# %%
try_it(days_and_cost, 86_400 * 10**6, 10**6, 2, 4, 1.5)

# %% check="u14-days"
# Against whole steps and fractions: full last steps and others, one device and many.

# %% folded=true tags=["nbval-check-output"]
# Table: your plan, and what changes if one input is 10 % worse
days_of = answer("u14-days", days_and_cost)


def run_with(machine):
    """Days and USD of the running case on another machine, with the best plan for it."""
    other = Task(MISSION.model, MISSION.seq_len, MISSION.sequences_per_step, machine)
    best = best_of(MISSION.model, MISSION.sequences_per_step, machine, other)
    price = MISSION.num_devices, MISSION.usd_per_device_hour
    step = other.seconds_of(best)
    return days_of(MISSION.num_tokens, MISSION.tokens_per_step, step, *price) | {"plan": str(best)}


base = MISSION.machine
changed = {
    "as it is": base,
    "products 10 % slower": replace(
        base, matmul_flops_per_second=base.matmul_flops_per_second / 1.1
    ),
    "attention 10 % slower": replace(base, attention=1.1 * base.attention),
    "other kernels 10 % slower": replace(base, elementwise=1.1 * base.elementwise),
    "links 10 % slower": replace(base, link_bytes_per_second=base.link_bytes_per_second / 1.1),
    "memory 10 % less": replace(base, memory_bytes=int(0.9 * base.memory_bytes)),
}
pd.DataFrame(
    {name: run_with(machine) for name, machine in changed.items()}
).T.infer_objects().round(2)

# %% [markdown]
# ## What you know now
#
# | question | answer |
# |---|---|
# | MFU | FLOPs of the model · tokens/s / dense peak; name the convention |
# | the lecture's formula, mended | $L\,h^2 (12 + 12\,\frac{a_{kv}}{a} + 18\,\frac{f}{h} + 12\,\frac{s}{h}) + 6\,v\,h$ |
# | a token's time | products + $c_1$ attention + $c_2$ other kernels + what is exposed |
# | two constants, unseen sizes | median error 4 %; the worst 7 to 9 % where the source agrees with itself, 35 % where not |
# | exposed sum of gradients | $\max\left(\frac{R}{n}, R - B\,\frac{n-1}{n}\right)$ for $n$ layers |
# | which plan | the fastest that fits; several are equally fast, so take the one with more memory to spare |
#
# You can now say what a training run needs before it begins, what that rests on, and how wrong it may be. That is what the course was for.
#
# *To read on:* llm-foundry's benchmark tables (10 minutes). Korthikanti et al. 2022, *Reducing Activation Recomputation*, section 6 (15 minutes). The Ultra-Scale Playbook, *Finding the best training configuration* (30 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# **Take it with you.** `report` plans any model on any machine, and says what would move the time most. Put in your own. A script of yours that starts in the folder `work` has it with `from planner import report`.

# %% tags=["demonstration", "nbval-ignore-output"]
other = replace(
    MISSION,
    name="Llama-3.2-1B on 4 × A100-80",
    model=preset("Llama-3.2-1B"),
    machine=machine_of("A100-80", num_devices=4),
    num_tokens=24 * 10**9,
)
report(other)

# %%
progress("14")
