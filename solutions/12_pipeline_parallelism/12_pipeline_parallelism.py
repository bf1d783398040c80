# ---
# jupyter:
#   course:
#     title: Layers on a row of devices
#     device: CPU
#     needs: ["01", "03", "08", "09"]
#     lecture: [E4]
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
# ![Four devices, each with eight forward and eight backward passes to do: 24 seconds of work, to scale. The first micro-batch has gone down through all of them. In which order does the rest come, when does it end, and how much is kept in memory?](hero.svg)
#
# Give the first layers of a model to one device, the next layers to another, and send micro-batches through. Whether devices work or wait depends on the *order* in which each of them works. You will write that order twice, and see it drawn.
#
# Your training plan keeps all of Llama-3-8B on every device: 128 GB of state where 83 fit (an H100 of 80 GB: what its driver gives, less 2 GB outside of tensors). A pipeline of eight stages leaves 16 on each if it is cut evenly. What does that cost in time, and what happens to the activations?
#
# 1. **Write** two schedules: GPipe and 1F1B.
# 2. **Compute** what a pipeline costs in seconds and in memory.
# 3. **Cut** a backward pass in two.
# 4. **Explain** what "zero bubble" does not say.
#
# | here | lecture | meaning |
# |---|---|---|
# | $p$ | PP | stages, one on each device |
# | $s$ | | one stage, from 0 |
# | $m$ | | micro-batches of a step |
# | $v$ | | chunks: parts of the model on each stage |
# | $f$, $b$ | | seconds of a micro-batch's forward and backward pass on one stage |
# | F, B | | a forward and a backward pass |
# | I, W | | the two halves of B: gradient of the input, gradients of the weights |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from torch import Tensor, nn

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import Placement, preset
from course_utils.distributed import Link, Network, VirtualCluster, run_ranks
from course_utils.instruments import (
    PassSeconds,
    count_flops,
    fake_tensors,
    simulate_pipeline,
)
from course_utils.records.traces import recorded_rows
from course_utils.reference import Block, pipeline_schedules
from course_utils.reference.pipeline_schedules import greedy_halves
from course_utils.reference.pipeline_stage import run_stage
from course_utils.show import (
    Choice,
    draw_schedule,
    explorer,
    hidden_by_phase,
    pipeline_timeline,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## A cut by layers
#
# **Pipeline parallelism** cuts a model by layers (E4). Each device holds one **stage**: some layers in a row, with their gradients and optimizer states. Between two stages one tensor travels forward, the activations of a micro-batch, and its gradient travels back: for one sequence of your plan $8{,}192 \cdot 4{,}096 \cdot 2$ bytes, 67 MB each way. Tensor parallelism sends as much several times in *every layer*. That is why pipelines are laid across the slow links between nodes.
#
# A pipeline is as fast as its slowest stage. All stages take equally long here; extra 12.8 is about the head, which takes as long as two layers.

# %% [markdown]
# ## All forward, then all backward
#
# An **action** is a tuple `(kind, micro_batch, chunk)`: `("F", 3, 0)` is the forward pass of micro-batch 3. (The chunk is 0 until a stage holds several.) A **schedule** is a list of lists: the actions of stage 0, of stage 1, and so on. `simulate_pipeline` follows it: F waits for F of the stage before, B for its own F and for B of the stage after. F takes one second here, B two.
#
# One micro-batch on four stages:

# %%
alone = [[("F", 0, 0), ("B", 0, 0)] for stage in range(4)]
pipeline_timeline(simulate_pipeline(alone, num_micro_batches=1))

# %% [markdown]
# One stage works, three wait. That is why there are micro-batches. The idle part is called the **bubble**.
#
# **Guess first.** Four stages and 16 micro-batches, all forward, then all backward: every stage has $16 \cdot 3 = 48$ seconds of work. How long does the step take?

# %%
predict("u12-gpipe", None, "seconds")

# %% GPipe [markdown] exercise="u12-gpipe" points=1 minutes=5 difficulty=1 importance=4
# **Write** `gpipe`: return a list for each stage, with `("F", k, 0)` for every micro-batch `k`, then `("B", k, 0)` for every micro-batch, both in ascending order. All or nothing.
#
# *By hand:* one stage and two micro-batches → `[[("F", 0, 0), ("F", 1, 0), ("B", 0, 0), ("B", 1, 0)]]`.


# %% solution="u12-gpipe"
def gpipe(num_stages: int, num_micro_batches: int) -> list[list[tuple[str, int, int]]]:
    """All forward passes, then all backward passes."""
    ### BEGIN SOLUTION
    schedule = []
    for _ in range(num_stages):
        actions = [("F", k, 0) for k in range(num_micro_batches)]
        actions += [("B", k, 0) for k in range(num_micro_batches)]
        schedule.append(actions)
    return schedule
    ### END SOLUTION


# %%
draw_schedule(gpipe, 4, 8)

# %% check="u12-gpipe"
# The simulator follows your lists: every action once, seconds, micro-batches held.

# %% [markdown]
# **Check your guess.** The strip below a stage is what it holds: the activations of a micro-batch are **in flight** from F to B.

# %% folded=true tags=["nbval-check-output"]
# Measured: GPipe on four stages
gpipe_of = answer("u12-gpipe", gpipe)
compare("u12-gpipe", "s", measured=simulate_pipeline(gpipe_of(4, 16), 16).seconds)

# %% [markdown]
# The last stage waits only while the first micro-batch goes down and the last gradient comes up. The others wait as long. GPipe's authors report rates of a Transformer on TPUs, as multiples of the rate of two stages with one micro-batch:

# %% folded=true tags=["nbval-check-output"]
# Table: times the rate of two stages with one micro-batch, published (Huang et al. 2019, table 2) and simulated
published = {(2, 4): 1.7, (4, 4): 3.2, (8, 4): 4.8, (2, 32): 1.8, (4, 32): 3.4, (8, 32): 6.3}


def rate(p, m):
    """Batches per second: a stage is a p-th of the model, a micro-batch an m-th of the batch."""
    return p * m / simulate_pipeline(gpipe_of(p, m), m).seconds


rows = {
    f"{m} micro-batches, {p} stages": {
        "published": number,
        "simulated": rate(p, m) / rate(2, 1),
        "published / simulated": number / rate(p, m) * rate(2, 1),
    }
    for (p, m), number in published.items()
}
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# With 32 micro-batches the published rate is 4 to 7 % lower: the simulator leaves out messages, and small matrices that fill a device badly. With four, and more than two stages, it is far *higher*. The table's footnote may tell why: *batch size was adjusted to fit memory*. So more than the number of micro-batches changed.

# %% [markdown]
# ## Backward as soon as possible
#
# More micro-batches, less bubble. But GPipe holds them all until the first backward pass. As soon as the last stage has run F0 it could run B0, and let it go.
#
# But lists can wait for each other:

# %%
stuck = [
    [("F", 0, 0), ("B", 0, 0), ("F", 1, 0), ("B", 1, 0)],
    [("F", 0, 0), ("F", 1, 0), ("B", 0, 0), ("B", 1, 0)],
]
pipeline_timeline(simulate_pipeline(stuck, num_micro_batches=2))

# %% [markdown]
# Stage 0 wants B0 before it gives F1, and stage 1 wants F1 before it gives B0. On a real cluster nothing is printed until a timeout.

# %% 1F1B [markdown] exercise="u12-one-f-one-b" points=3 minutes=15 difficulty=3 importance=5
# **Write** `one_forward_one_backward`: return a list for each stage. It begins with some F, no more than it must. Then F and B alternate, and the B that are left come last. F and B each take micro-batches in ascending order. The step takes as long as GPipe's, and stage $s$ never has more than $p - s$ micro-batches in flight.
#
# Two scenarios, half of the points each: `many`, at least as many micro-batches as stages, and `few`.
#
# *By hand:* two stages, two micro-batches → stage 0: F0 F1 B0 B1, stage 1: F0 B0 F1 B1.


# %% solution="u12-one-f-one-b"
def one_forward_one_backward(
    num_stages: int, num_micro_batches: int
) -> list[list[tuple[str, int, int]]]:
    """Forward passes ahead, then F and B in turn."""
    ### BEGIN SOLUTION
    schedule = []
    for stage in range(num_stages):
        ahead = min(num_stages - 1 - stage, num_micro_batches)
        actions = [("F", k, 0) for k in range(ahead)]
        for k in range(num_micro_batches - ahead):
            actions.append(("F", k + ahead, 0))
            actions.append(("B", k, 0))
        actions += [("B", k, 0) for k in range(num_micro_batches - ahead, num_micro_batches)]
        schedule.append(actions)
    return schedule
    ### END SOLUTION


# %%
draw_schedule(one_forward_one_backward, 4, 8)

# %% check="u12-one-f-one-b"
# Every action once, no deadlock, seconds, micro-batches in flight on every stage.

# %% [markdown]
# <details><summary>Hint: I do not know how many come ahead</summary>
#
# Begin with the last stage: what does it need before B0? What must the stage before it have run by then, and the one before that?
# </details>
#
# <details><summary>Hint: deadlock</summary>
#
# The caption names an action, and what it waits for. Find that one in its own list: what stands before it?
# </details>

# %% [markdown]
# Not faster than GPipe: the same 33 seconds, the same bubble. It only holds less, and so *allows* more micro-batches.
#
# Now with real tensors. Four ranks of the virtual cluster follow your lists: each has a matrix, a product takes a second, and messages carry activations and gradients.


# %% folded=true tags=["nbval-check-output"]
# Measured: your 1F1B with real tensors on four ranks
def parts_of_model(num_parts):
    torch.manual_seed(0)
    return [nn.Linear(8, 8, bias=False).double() for _ in range(num_parts)]


def step_of_rank(comm, schedule, placement, micro_batches):
    parts = parts_of_model(placement.num_parts)
    mine = [parts[placement.part(comm.rank, chunk)] for chunk in range(placement.num_chunks)]
    loss = {"loss": lambda output: output.square().sum()}
    run_stage(comm, schedule, placement, modules=mine, micro_batches=micro_batches, **loss)
    return [each.weight.grad for each in mine]


def run_for_real(schedule, placement, num_micro_batches, latency_seconds=0.0):
    """Virtual seconds, and whether the gradients are those of the model in one piece."""
    micro_batches = torch.linspace(-1, 1, num_micro_batches * 32).double().view(-1, 4, 8)
    link = Link(latency_seconds=latency_seconds, bandwidth_bytes_per_second=1e30)
    cluster = VirtualCluster(
        placement.num_stages, network=Network(inside=link), flops_per_second=2 * 4 * 8 * 8
    )
    run = cluster.run(step_of_rank, schedule, placement, micro_batches)
    whole = nn.Sequential(*parts_of_model(placement.num_parts))
    whole(micro_batches).square().sum().backward()
    are_right = all(
        torch.allclose(gradient, whole[placement.part(stage, chunk)].weight.grad)
        for stage, gradients in enumerate(run.results)
        for chunk, gradient in enumerate(gradients)
    )
    return {"virtual time, s": round(run.step_seconds, 6), "gradients are right": are_right}


one_of = answer("u12-one-f-one-b", one_forward_one_backward)
run_for_real(one_of(4, 8), Placement(4), 8)

# %% [markdown]
# **Guess first.** Messages are not free. With 0.1 seconds for each of them GPipe takes 33.6 seconds: six messages lie on the way down and up. How long does 1F1B take?

# %%
predict("u12-latency", None, "seconds")

# %% folded=true tags=["nbval-check-output"]
# Measured: both with messages of 0.1 seconds
with_messages = PassSeconds(message=0.1)
for name, schedule in {"GPipe": gpipe_of(4, 8), "1F1B": one_of(4, 8)}.items():
    print(f"{name:6}{float(simulate_pipeline(schedule, 8, seconds=with_messages).seconds):.1f} s")
compare(
    "u12-latency",
    "s",
    measured=float(simulate_pipeline(one_of(4, 8), 8, seconds=with_messages).seconds),
)

# %% [markdown]
# In the middle of 1F1B two neighbours wait for each other in turn: ten messages more. GPipe has sent everything ahead.

# %% What a pipeline costs [markdown] exercise="u12-costs" points=2 minutes=6 difficulty=2 importance=5
# **Write** `pipeline_costs` for stages of equal work and messages that take no time. Return exact `int`s, each a quarter of the points:
#
# | key | meaning |
# |---|---|
# | `"seconds"` | of a step, GPipe or 1F1B |
# | `"idle_seconds"` | of *one* stage |
# | `"gpipe"` | most micro-batches in flight on stage `stage`, with GPipe |
# | `"1f1b"` | the same with 1F1B |
#
# *By hand:* 2 stages, 3 micro-batches, F of 1 second, B of 2, stage 1 → **12** seconds, **3** of them idle; **3** and **1** in flight.


# %% solution="u12-costs"
def pipeline_costs(
    num_stages: int,
    num_micro_batches: int,
    forward_seconds: int,
    backward_seconds: int,
    stage: int,
) -> dict[str, int]:
    """Seconds of a step, idle seconds, and micro-batches in flight on a stage."""
    ### BEGIN SOLUTION
    of_one = forward_seconds + backward_seconds
    idle = (num_stages - 1) * of_one
    return {
        "seconds": num_micro_batches * of_one + idle,
        "idle_seconds": idle,
        "gpipe": num_micro_batches,
        "1f1b": min(num_micro_batches, num_stages - stage),
    }
    ### END SOLUTION


# %%
try_it(pipeline_costs, 2, 3, 1, 2, 1)

# %% check="u12-costs"
# Against the simulator: one stage and many, few micro-batches, unequal F and B, seconds beyond 2⁵³.

# %% [markdown]
# So the bubble is $\frac{p-1}{m}$ of the work, or $\frac{p-1}{m+p-1}$ of the step. Papers give one or the other; ask which. For Llama-3-8B, one sequence of 8,192 tokens in each micro-batch (your plan has 512 of them):

# %% folded=true tags=["nbval-check-output"]
# Table: eight stages, with few micro-batches and many; a layer keeps 1.38 GB
costs_of = answer("u12-costs", pipeline_costs)
LAYER_GB = 44 / 32  # unit 06
rows = {}
for m in (8, 32, 128, 512):
    first = costs_of(8, m, 1, 2, 0)
    rows[f"{m} micro-batches"] = {
        "bubble, % of the step": 100 * first["idle_seconds"] / first["seconds"],
        "GPipe, stage 0, GB": 4 * LAYER_GB * first["gpipe"],
        "1F1B, stage 0, GB": 4 * LAYER_GB * first["1f1b"],
        "1F1B, stage 7, GB": 4 * LAYER_GB * costs_of(8, m, 1, 2, 7)["1f1b"],
    }
pd.DataFrame(rows).T.round(1)

# %% [markdown]
# **Weights are divided by $p$, activations are not.** Stage 0 has an eighth of the layers and eight micro-batches in flight: as much as a device that has the whole model and one micro-batch. State and activations together are now $16 + 44$ GB. Your plan fits.

# %% [markdown]
# ## More turns
#
# The bubble gets shorter if a stage passes a micro-batch on earlier, after a *part* of its layers. So give each stage $v$ **chunks**: with $p = 4$ and $v = 2$ stage 0 holds parts 0 and 4 of the model, stage 1 holds 1 and 5. A micro-batch goes around twice, and each pass takes half as long.
#
# Micro-batches go in groups of $p$: a group through chunk 0, the same group through chunk 1, then the next group. Backward passes go through the chunks from the last to the first. The order of F is the same on every stage, and so is that of B. (An extra asks you for the lists.)


# %% [markdown]
# **Guess first.** GPipe and 1F1B take 33 seconds on four stages with eight micro-batches, nine of them bubble. How long with two chunks?

# %%
predict("u12-interleaved", None, "seconds")

# %% [markdown]
# **Check your guess**, with F of one second for a whole stage and B of two:


# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: one to eight chunks, and what they cost
def simulate_chunks(num_chunks, message=0.0, p=4, m=8):
    share = 1 / num_chunks
    seconds = PassSeconds(
        forward=share, input_gradient=share, weight_gradient=share, message=message
    )
    schedule = pipeline_schedules.interleaved(p, m, num_chunks)
    return simulate_pipeline(schedule, m, Placement(p, num_chunks), seconds)


def chunk_facts(run, with_messages, num_chunks):
    return {
        "time, s": run.seconds,
        "with messages of 0.1 s": with_messages.seconds,
        "in flight, stage 0": run.in_flight(0),  # a chunk of v counts 1 / v
        "messages of a micro-batch": 2 * (4 * num_chunks - 1),
    }


one, late = (simulate_pipeline(one_of(4, 8), 8, seconds=each) for each in (None, with_messages))
rows = {"1F1B": chunk_facts(one, late, 1)}
for v in (2, 4, 8):
    rows[f"{v} chunks"] = chunk_facts(simulate_chunks(v), simulate_chunks(v, 0.1), v)
display(pd.DataFrame(rows).T.round(2))
compare("u12-interleaved", "s", measured=simulate_chunks(2).seconds)

# %% [markdown]
# The bubble is divided by $v$. The price: more than $v$ times the messages, so that more chunks do not help for ever, and $1 + \frac{p-1}{p\,v}$ times as much in flight on the first stage.

# %% [markdown]
# ### 512 devices, and 8,192
#
# Does the formula hold for a model of 126 layers? For MLPerf NVIDIA trained Llama 3.1 405B on H100s in fp8, always with $t = 8$, two context ranks, $p = 8$ and $v = 8$ chunks of two layers. (64 chunks would make 128 layers: the first and the last have one less.) 512 H100 make four replicas, each with 288 micro-batches of one sequence: a step takes 55.13 s.
#
# 8,192 H100 make 64 replicas, each with only 24 micro-batches. (The batch is a third larger then: 1,536 sequences instead of 1,152.) **Guess first.** How many seconds does their step take? The bubble is $\frac{p-1}{v}$ micro-batches now.

# %%
predict("u12-mlperf", None, "seconds")

# %% folded=true tags=["nbval-check-output"]
# Table: steps of Llama 3.1 405B on H100s, as submitted to MLPerf Training 5.0 (Apache-2.0)
submitted = sorted(
    (row["gpus"], row["grad_accum"], row["step_seconds"])
    for row in recorded_rows("mlperf_training")
    if (row["benchmark"], row["submitter"]) == ("llama31_405b", "NVIDIA")
    if "H100" in row["accelerator"] and row["pp"] == row["interleave"] == 8
)
_, most, longest = submitted[0]


def step_of(m, chunks):
    """Seconds with m micro-batches, from the step with most of them and the bubble's formula."""
    bubble = (8 - 1) / chunks
    return longest / (most + bubble) * (m + bubble)


rows = {
    f"{gpus:,} H100, m = {m:.0f}": {
        "one chunk would say, s": step_of(m, 1),
        "eight chunks say, s": step_of(m, 8),
        "measured, s": measured,
        "longer by, s": measured - step_of(m, 8),
    }
    for gpus, m, measured in submitted
}
display(pd.DataFrame(rows).T.round(2))
fewest, shortest = submitted[-1][1:]
each, once = np.polyfit([m + 7 / 8 for _, m, _ in submitted], [s for *_, s in submitted], 1)
errors = [abs(each * (m + 7 / 8) + once - s) / s for _, m, s in submitted]
print(f"{1e3 * each:.1f} ms a micro-batch and {once:.2f} s once a step: within {max(errors):.1%}")
compare("u12-mlperf", "s", computed=round(step_of(fewest, 8), 2), measured=shortest)

# %% [markdown]
# The first row sets the scale. With one chunk every other step would be longer than measured; with eight the formula is 2 to 8 % short. The gap is nearly the same, 0.3 to 0.4 s, whether a step has 72 micro-batches or 24. So it is something that a step does *once*, such as the optimizer, and gradients and weights that travel between replicas. With it as a second constant, of 0.44 s (the first row has its part of it, too), the formula meets all five within a per cent. On 8,192 devices this constant costs more than the bubble, which eight chunks have made small.

# %% [markdown]
# ## Backward in two halves
#
# B does two things. The stage before waits for one of them, the gradient of the input. Nobody waits for the gradients of the weights. For a layer $x_{l+1} = \tanh(x_l W_l)$ with upstream gradient $g_{l+1}$:
#
# $$z_l = g_{l+1} \circ (1 - x_{l+1}^2) \qquad \underbrace{g_l = z_l W_l^\top}_{\text{I: at once}} \qquad \underbrace{dW_l = x_l^\top z_l}_{\text{W: any time later}}$$
#
# Each is one product. So I takes as long as F, and so does W.

# %% A backward pass in two halves [markdown] exercise="u12-halves" points=2.5 minutes=11 difficulty=3 importance=4
# **Write** `backward_in_halves` for a stage of such layers. `kept` holds $x_0, \dots, x_L$: the input of each layer, and the output of the last. `weights` holds $W_0, \dots, W_{L-1}$, and `upstream` is the gradient of $x_L$. Return two things:
#
# - the gradient of $x_0$,
# - a **function** without arguments, which somebody calls later: it returns the gradients of the weights, in the order of `weights`.
#
# Each half may do one matrix product for each layer and no other. The arguments stay unchanged. All or nothing.
#
# *By hand:* one layer, $x_0 = 2$, $W_0 = 3$, $x_1 = 0.5$ (taken as given), upstream 1 → $z_0 = 0.75$, gradient of the input **2.25**, later **1.5**.


# %% solution="u12-halves"
def backward_in_halves(
    weights: list[Tensor], kept: list[Tensor], upstream: Tensor
) -> tuple[Tensor, Callable[[], list[Tensor]]]:
    """The gradient of the input now, and a function that gives those of the weights later."""
    ### BEGIN SOLUTION
    gradient = upstream
    of_products = []
    for layer in reversed(range(len(weights))):
        of_product = gradient * (1 - kept[layer + 1] ** 2)
        of_products.insert(0, of_product)
        gradient = of_product @ weights[layer].T

    def weight_gradients() -> list[Tensor]:
        return [x.T @ z for x, z in zip(kept, of_products, strict=False)]

    return gradient, weight_gradients
    ### END SOLUTION


# %%
def both_halves(backward_in_halves):
    numbers = [torch.tensor([[each]]).double() for each in (3.0, 2.0, 0.5, 1.0)]
    weight, x, output, upstream = numbers
    gradient, weight_gradients = backward_in_halves([weight], [x, output], upstream)
    return {"now": gradient.tolist(), "later": [each.tolist() for each in weight_gradients()]}


try_it(both_halves, backward_in_halves)

# %% check="u12-halves"
# Gradients in float64, one layer to four, wide and narrow; FLOPs of each half.

# %% [markdown]
# <details><summary>Hint: all my weight gradients come from one layer</summary>
#
# When does a function read the variables of the loop around it: when it is defined, or when it is called?
# </details>

# %% [markdown]
# ## A list without gaps
#
# With I and W apart, the order gets a new freedom: W fills gaps.
#
# **Guess first.** 27 seconds is the least, with one chunk (you will say why). Replace each B in your 1F1B by I and W, one right after the other: how long does *that* take, instead of 33?

# %%
predict("u12-split", None, "seconds")

# %% folded=true tags=["nbval-check-output"]
# Measured: 1F1B with each B in two halves, W at once
split = [
    [
        half
        for kind, k, c in actions
        for half in ([("I", k, c), ("W", k, c)], [(kind, k, c)])[kind == "F"]
    ]
    for actions in one_of(4, 8)
]
compare("u12-split", "s", measured=simulate_pipeline(split, 8).seconds)

# %% [markdown]
# Half of the gain, for nothing: gradients leave a second earlier. For the other half some W must wait for a gap of their stage: 27 seconds, with no more than $p$ micro-batches in flight, from F to **W** now. (Extra 12.6 asks you for the lists.)
#
# Zero? Three seconds of bubble are left. The paper (Qi et al. 2024) calls this *ZB-H1* and goes on to *ZB-H2*, with up to $2p - 1$ micro-batches in flight:

# %% folded=true
# Figure: as many micro-batches ahead as it takes
pipeline_timeline(simulate_pipeline(greedy_halves(4, 8, most_in_flight=7), 8))

# %% [markdown]
# Nobody waits once it has begun, and it is 27 seconds again. Where has the gain gone? Look at one stage **from its own first action to its own last**: after that it could begin the next step, if it did not have to wait for the others.


# %% folded=true tags=["nbval-check-output"]
# Table: a step for all stages, and the time of one
def facts(schedule, num_micro_batches):
    run = simulate_pipeline(schedule, num_micro_batches)
    own = [run.of(stage)[-1].end - run.of(stage)[0].start for stage in run.stages]
    return {
        "the step, s": run.seconds,
        "one stage, at most, s": max(own),
        "in flight, at most": max(map(run.in_flight, run.stages)),
    }


rows = {
    f"{name}, p = {p}, m = {m}": facts(schedule, m)
    for p, m in ((4, 8), (8, 24))
    for name, schedule in {
        "1F1B": one_of(p, m),
        "ZB-H1": pipeline_schedules.zero_bubble(p, m),
        "ZB-H2": greedy_halves(p, m, 2 * p - 1),
    }.items()
}
pd.DataFrame(rows).T.astype(int)

# %% [markdown]
# Between two steps stands the optimizer. It usually clips gradients by their norm over the *whole* model: an all-reduce, at which everybody waits for everybody. The authors of zero bubble let each stage go on without it, check afterwards, and undo a step that was wrong. With the barrier, their repository reports, about 8 % is lost ($p$ and $m$ are not stated).

# %% What does "zero bubble" not say? [markdown] exercise="u12-why" points=2 minutes=14 difficulty=4 importance=5
# **Write** four to six sentences.
#
# 1. Four stages, eight micro-batches: why can no schedule with one chunk end before second 27?
# 2. Take $p = 8$ and $m = 24$. What share of its step does ZB-H2 save if nobody waits between two steps? Compare it with the reported 8 %.
# 3. Your plan: eight H100, on which 83 GB fit, 512 micro-batches. Would you take ZB-H2 instead of 1F1B? Decide by time, and by the memory of stage 0.

# %% [markdown] text_answer="u12-why"
# <!-- BEGIN SOLUTION -->
# The last stage gets its first input after three forward passes, at second 3, and then has 8 times F, I and W to do: 3 + 24 = 27. ZB-H1 reaches that, so ZB-H2 makes no single step shorter. But with p = 8 and m = 24 each of its stages works 72 seconds without a gap and could then begin the next step, while the whole step takes 79. Without a barrier it saves 7 of 79 seconds, 9 %, near the reported 8 %. In my plan the bubble of 1F1B is 1.3 % of a step, so there is no more to gain. ZB-H2 holds 15 micro-batches instead of 8 on stage 0: 82.5 GB instead of 44, and 16 GB of state do not leave room for that. I stay with 1F1B, which also needs no optimizer that can undo a step.
#
# *Rubric:* half a point for the bound (the last stage begins at 3 and has 24 to do); half for 7 of 79, or 9 %, beside 8 %; half for the time in the plan (at most 1.3 %); half for its memory (15 in flight, about 82 GB) with a decision. 7 of 72 is as good as 7 of 79.
# <!-- END SOLUTION -->

# %% [markdown]
# ### All of it at once
#
# Find a setting in which interleaving loses to 1F1B. Begin with two stages.
#
# <details><summary>Answer</summary>
#
# Two stages with messages of one second: two chunks send three times as many, and the bubble that they halve is short.
# </details>


# %% folded=true
# Explorer: run this cell, then move the controls
def pipeline_of(order, num_stages, groups, message):
    num_micro_batches = groups * num_stages
    num_chunks = 2 if order == "interleaved, 2 chunks" else 1
    share = 1 / num_chunks
    seconds = PassSeconds(
        forward=share, input_gradient=share, weight_gradient=share, message=message
    )
    schedule = {
        "GPipe": lambda: gpipe_of(num_stages, num_micro_batches),
        "1F1B": lambda: one_of(num_stages, num_micro_batches),
        "interleaved, 2 chunks": lambda: pipeline_schedules.interleaved(
            num_stages, num_micro_batches, 2
        ),
        "zero bubble": lambda: pipeline_schedules.zero_bubble(num_stages, num_micro_batches),
    }[order]()
    placement = Placement(num_stages, num_chunks)
    return pipeline_timeline(simulate_pipeline(schedule, num_micro_batches, placement, seconds))


explorer(
    pipeline_of,
    order=Choice("order", ["GPipe", "1F1B", "interleaved, 2 chunks", "zero bubble"], "1F1B"),
    num_stages=Choice("stages", [2, 3, 4], 4),
    groups=Choice("micro-batches per stage", [1, 2, 3], 2),
    message=Choice("message, seconds", [0, 0.1, 0.3, 1], 0),
)

# %% [markdown]
# ### The same in PyTorch
#
# `torch.distributed.pipelining` has these schedules and more. Two real processes, each with one stage of the model above, note what they do; beside them your lists, with the same numbers, on two virtual ranks:

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: PyTorch's GPipe and 1F1B in two processes, and yours (some 10 seconds)
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

from course_utils.instruments.torch_pipeline import recorded_step

PAIRS = {"GPipe": (ScheduleGPipe, gpipe_of(2, 4)), "1F1B": (Schedule1F1B, one_of(2, 4))}
FOUR = torch.linspace(-1, 1, 4 * 32).double().view(-1, 4, 8)


def steps_of_torch(comm):
    """What this process did, and the gradient of its stage, for each kind."""
    done = {}
    for name, (kind, _) in PAIRS.items():
        stage = parts_of_model(comm.size)[comm.rank]
        actions = recorded_step(kind, stage, FOUR, lambda output: output.square().sum())
        done[name] = actions, stage.weight.grad
    return done


def beside_yours(name, processes):
    schedule = PAIRS[name][1]
    yours = VirtualCluster(2).run(step_of_rank, schedule, Placement(2), FOUR).results
    theirs = [process[name] for process in processes]
    lists = {
        f"process {i}": " ".join(f"{k}{m}" for k, m, _ in a) for i, (a, _) in enumerate(theirs)
    }
    pairs = zip(theirs, schedule, yours, strict=True)
    facts = [(done == wanted, torch.allclose(g, own[0])) for (done, g), wanted, own in pairs]
    orders, gradients = map(all, zip(*facts, strict=True))
    return lists | {"your order": orders, "your gradients": gradients}


processes = run_ranks(steps_of_torch, 2)
pd.DataFrame({name: beside_yours(name, processes) for name in PAIRS})

# %% [markdown]
# Now the orders that PyTorch *plans*, in the same simulator, for four stages and eight micro-batches. Two put their chunks in a **V**: stage 0 holds the first part *and* the last.

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the orders of PyTorch's schedules
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules
from torch.testing._internal.distributed.fake_pg import FakeStore


def order_of(kind, placement, num_micro_batches):
    """A schedule of PyTorch as lists of actions; overlapped pairs one after the other."""
    parts = [placement.part(0, chunk) for chunk in range(placement.num_chunks)]
    device = torch.device("cpu")
    made = [PipelineStage(nn.Linear(2, 2), each, placement.num_parts, device) for each in parts]
    stages = made if placement.num_chunks > 1 else made[0]
    order = kind(stages, num_micro_batches, loss_fn=lambda output, _: output.sum()).pipeline_order
    return [
        [
            (one.computation_type.value, one.microbatch_index, placement.chunk_of(one.stage_index))
            for each in order[rank]
            if each is not None
            for one in each.sub_actions or (each,)
            if one.microbatch_index is not None
        ]
        for rank in range(placement.num_stages)
    ]


KINDS = {
    "GPipe": (schedules.ScheduleGPipe, Placement(4)),
    "Interleaved1F1B": (schedules.ScheduleInterleaved1F1B, Placement(4, 2)),
    "InterleavedZeroBubble": (schedules.ScheduleInterleavedZeroBubble, Placement(4, 2)),
    "ZBVZeroBubble": (schedules.ScheduleZBVZeroBubble, Placement(4, 2, is_v=True)),
    "DualPipeV": (schedules.ScheduleDualPipeV, Placement(4, 2, is_v=True)),
}
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
rows, runs = {}, {}
for name, (kind, placement) in KINDS.items():
    share = 1 / placement.num_chunks
    seconds = PassSeconds(forward=share, input_gradient=share, weight_gradient=share)
    runs[name] = simulate_pipeline(order_of(kind, placement, 8), 8, placement, seconds)
    flights = [runs[name].in_flight(stage) for stage in range(4)]
    rows[name] = {"seconds": runs[name].seconds, "in flight": flights}
dist.destroy_process_group()
display(pd.DataFrame(rows).T)
pipeline_timeline(runs["ZBVZeroBubble"])

# %% [markdown]
# Chunks and halves together, looped or in a V, take 25.5 seconds with four or 4.5 micro-batches in flight: chunks shorten the way down, halves fill the gaps.

# %% [markdown]
# ### Two chunks at once
#
# In a mixture of experts every layer sends its tokens to the experts' devices (**dispatch**) and back (**combine**), forward and backward. These are all-to-alls, and the next product waits for them. DualPipe (DeepSeek-AI 2024) runs the F of one micro-batch *together with* the B of another.
#
# DeepSeek published a profile of such a pair on H800s (github.com/deepseek-ai/profile-data): four layers of DeepSeek-V3 forward and four backward, sequences of 4,096 tokens, experts on 64 devices, products in fp8. Their all-to-alls take 113 ms, and computing takes 124 ms. **Guess first.** How many ms of all-to-alls does nothing hide?

# %%
predict("u12-exposed", None, "ms")

# %% [markdown]
# **Before you run the next cell:** the dispatch of F waits for attention of its own layer, and the experts wait for it. So which phases can run meanwhile?

# %% folded=true
# Figure: which phase hides which all-to-all, by sums of DeepSeek's profile
sums = recorded_rows("deepseek_v3_sums")
total = {row["quantity"]: row["seconds"] for row in sums if row["communication"] is None}
display(compare("u12-exposed", "ms", measured=round(1e3 * total["exposed"], 2)))
hidden_by_phase()

# %% [markdown]
# F can hide none of its own all-to-alls, since each of its products waits for one. *B* hides them all. Those of B are hidden by F, and for two fifths by W of B itself: nobody waits for W, so it can lie anywhere. Laid end to end, these kernels are 124.31 + 113.44 = 237.75 ms; together they take 129.01. That is an upper bound of the gain: alone each would be faster, since here all-to-alls and products share the GPU, and calls wait for other ranks. (The profile simulates balanced experts and leaves out the pipeline's own messages.)

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% [markdown]
# ### Your own zero bubble

# %% Zero bubble [markdown] exercise="u12-zero" points=3 minutes=28 difficulty=4 importance=4 extra=true
# **Write** `zero_bubble`: lists of F, I and W (one second each, chunk 0) that take the fewest seconds possible, with no more than $p$ micro-batches in flight on any stage.
#
# - I waits as B did: for its own F, and for I of the stage after. W waits only for its own I.
# - A micro-batch is in flight from F to **W** now.
#
# Two scenarios, half of the points each: `many`, at least as many micro-batches as stages, and `few`.
#
# *By hand:* one stage, two micro-batches → F0 I0 W0 F1 I1 W1. Two stages, two micro-batches → **7** seconds. Four stages, two micro-batches → **11** seconds.


# %% solution="u12-zero"
def zero_bubble(num_stages: int, num_micro_batches: int) -> list[list[tuple[str, int, int]]]:
    """1F1B in halves, with weight gradients put off."""
    ### BEGIN SOLUTION
    schedule = []
    for stage in range(num_stages):
        ahead = min(num_stages - 1 - stage, num_micro_batches)
        put_off = stage
        actions = [("F", k, 0) for k in range(ahead)]
        for k in range(num_micro_batches):
            if k + ahead < num_micro_batches:
                actions.append(("F", k + ahead, 0))
            actions.append(("I", k, 0))
            if k >= put_off:
                actions.append(("W", k - put_off, 0))
        left = range(max(0, num_micro_batches - put_off), num_micro_batches)
        schedule.append(actions + [("W", k, 0) for k in left])
    return schedule
    ### END SOLUTION


# %%
draw_schedule(zero_bubble, 4, 8)

# %% check="u12-zero"
# Every action once, no deadlock, seconds, micro-batches in flight on every stage.

# %% [markdown]
# <details><summary>Hint: I am at 30 seconds, with W right after I</summary>
#
# Which stages have gaps at the end, and which W could lie in them? What has to come earlier instead?
# </details>
#
# <details><summary>Hint: I am at 29 or 30 seconds, with W late</summary>
#
# The gaps between the first I stay empty. And how many micro-batches does a stage hold until W?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Measured: your lists with real tensors on four ranks
run_for_real(answer("u12-zero", zero_bubble)(4, 8), Placement(4), 8)

# %% [markdown]
# ### More turns, in your own order
#
# Groups of $p$ micro-batches, as above. These are all F and all B of one stage:


# %%
def forward_order(num_stages: int, num_micro_batches: int, num_chunks: int):
    """All F of one stage, in groups of p micro-batches."""
    return [
        ("F", k, chunk)
        for first in range(0, num_micro_batches, num_stages)
        for chunk in range(num_chunks)
        for k in range(first, first + num_stages)
    ]


def backward_order(num_stages: int, num_micro_batches: int, num_chunks: int):
    """All B of one stage: the same groups, chunks from the last to the first."""
    forward = forward_order(num_stages, num_micro_batches, num_chunks)
    return [("B", k, num_chunks - 1 - chunk) for _, k, chunk in forward]


forward_order(2, 2, 2), backward_order(2, 2, 2)

# %% Interleaved 1F1B [markdown] exercise="u12-interleaved" points=3 minutes=22 difficulty=4 importance=4 extra=true
# **Write** `interleaved`: 1F1B in these two orders. Every stage begins with some F, then runs F and B in turn, then the B that are left. Find out how many F each stage runs ahead. `num_micro_batches` is a multiple of `num_stages`. All or nothing; three things must hold:
#
# - The step takes the fewest seconds possible: $v\,m + p - 1$ times those of F and B of one chunk, if messages take no time.
# - With messages that each take a tenth of an F, the step is longer by at most $2\,(p\,v - 1)$ messages: one way down through all parts of the model, and one way up.
# - No stage has more passes in flight, from F to B, than these two rules need.
#
# *By hand:* two stages, two micro-batches, two chunks → stage 1: F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1 (F0.1 is chunk 1). With four micro-batches stage 0 runs five F before its first B.


# %% solution="u12-interleaved"
def interleaved(
    num_stages: int, num_micro_batches: int, num_chunks: int
) -> list[list[tuple[str, int, int]]]:
    """1F1B over several chunks of each stage."""
    forward = forward_order(num_stages, num_micro_batches, num_chunks)
    backward = backward_order(num_stages, num_micro_batches, num_chunks)
    ### BEGIN SOLUTION
    schedule = []
    for stage in range(num_stages):
        ahead = 2 * (num_stages - 1 - stage) + (num_chunks - 1) * num_stages
        ahead = min(ahead, len(forward))
        actions = forward[:ahead]
        for k in range(len(forward) - ahead):
            actions += [forward[ahead + k], backward[k]]
        schedule.append(actions + backward[len(forward) - ahead :])
    return schedule
    ### END SOLUTION


# %%
draw_schedule(interleaved, 4, 8, 2)

# %% check="u12-interleaved"
# Every action once, no deadlock, seconds, chunks in flight; one chunk, one stage, one group.

# %% [markdown]
# <details><summary>Hint: I do not know how many come ahead</summary>
#
# Before its first F in the last chunk the last stage has run the first group through all other chunks. How many F is that? Then go one stage up. Its first gradient comes later by a turn of F and B, and two messages. How many F is that, so that it never waits?
# </details>

# %% [markdown]
# ### Where to cut
#
# Layers are equal. But the first stage also has the embedding, and the last has the head:

# %% folded=true tags=["nbval-check-output"]
# Measured: FLOPs of the parts of Llama-3-8B for one token, forward
model = preset("Llama-3-8B")
with fake_tensors():
    layer = Block(model, 0, dtype=torch.bfloat16)
    head = nn.Linear(model.hidden_size, model.vocab_size, bias=False, dtype=torch.bfloat16)
    x = torch.empty(1, 8192, model.hidden_size, dtype=torch.bfloat16)
    of_layer = count_flops(lambda: layer(x)).forward_flops // 8192
    of_head = count_flops(lambda: head(x)).forward_flops // 8192
print(f"layer {of_layer / 1e6:,.0f} MFLOP, head {of_head / 1e6:,.0f} MFLOP")
print(f"The head takes as long as {of_head / of_layer:.2f} layers.")

# %% Cut into stages [markdown] exercise="u12-stages" points=1.5 minutes=6 difficulty=3 importance=3 extra=true
# **Write** `cut_into_stages`: how many pieces of the model each stage gets, so that the slowest stage is as fast as possible. `seconds` has the time of each piece, in the order of the model; stages take pieces in this order, and none is empty. Return a list of `num_stages` `int`s. Of equally good cuts, return any. All or nothing.
#
# *By hand:* pieces of 0, 2, 2, 2, 2 and 5 seconds on three stages → **[3, 2, 1]**, 5 seconds on the slowest. Equal numbers of pieces would take 7.


# %% solution="u12-stages"
def cut_into_stages(seconds: list[int], num_stages: int) -> list[int]:
    """Pieces of each stage, for the fastest slowest stage."""

    ### BEGIN SOLUTION
    def filled(limit: int) -> list[int] | None:
        """As many pieces on each stage as the limit allows, but one for each that follows."""
        sizes, start = [], 0
        for stage in range(num_stages):
            end, most = start + 1, len(seconds) - (num_stages - stage - 1)
            while end < most and sum(seconds[start : end + 1]) <= limit:
                end += 1
            sizes.append(end - start)
            start = end
        return sizes if start == len(seconds) else None

    limit = max(seconds)
    while (sizes := filled(limit)) is None:
        limit += 1
    return sizes
    ### END SOLUTION


# %%
try_it(cut_into_stages, [0, 2, 2, 2, 2, 5], 3)

# %% check="u12-stages"
# Against every possible cut: equal pieces and unequal ones, heavy ends, as many pieces as stages, one stage.

# %% [markdown]
# <details><summary>Hint: I do not know where to start</summary>
#
# Suppose no stage may take longer than 5 seconds. Fill the stages from the first to the last: does it work out? And with 4 seconds?
# </details>

# %% [markdown]
# Llama-3-8B on eight stages, in units of one layer:

# %% folded=true tags=["nbval-check-output"]
# Table: the slowest stage, cut by number and cut by time
cut_of = answer("u12-stages", cut_into_stages)
pieces = [0, *[100] * 32, round(100 * of_head / of_layer)]  # embedding, layers, head


def slowest(sizes):
    starts = [sum(sizes[:stage]) for stage in range(len(sizes))]
    return max(sum(pieces[a : a + n]) for a, n in zip(starts, sizes, strict=True)) / 100


cuts = {"four layers each": [5, *[4] * 6, 5], "by time": cut_of(pieces, 8)}
pd.DataFrame(
    {
        name: {"pieces": str(sizes), "slowest, layers": slowest(sizes)}
        for name, sizes in cuts.items()
    }
).T

# %% [markdown]
# For this reason Llama 3 405B has 126 layers and not 128: one less on the first stage, and one less on the last.

# %% [markdown]
# ### What travels

# %% Bytes between stages [markdown] exercise="u12-messages" points=1.5 minutes=7 difficulty=2 importance=3 extra=true
# **Write** `boundary_bytes`: bytes of all messages of a step, activations and gradients, an exact `int`. A tensor of `tensor_bytes` crosses from each part of the model to the next, for every micro-batch. Between two parts on *one* stage nothing is sent.
#
# - looped (`is_v=False`): chunk $c$ of stage $s$ is part $c\,p + s$;
# - V (`is_v=True`): odd chunks run backwards, from the last stage to the first.
#
# *By hand:* 2 stages, 2 chunks, 3 micro-batches, tensors of 10 bytes → looped **180**, V **120**.


# %% solution="u12-messages"
def boundary_bytes(
    num_stages: int, num_chunks: int, num_micro_batches: int, tensor_bytes: int, is_v: bool
) -> int:
    """Bytes of all messages between stages in one step."""
    ### BEGIN SOLUTION
    between_parts = num_stages * num_chunks - 1
    if is_v or num_stages == 1:
        between_parts -= num_chunks - 1
    return 2 * num_micro_batches * between_parts * tensor_bytes
    ### END SOLUTION


# %%
try_it(boundary_bytes, 2, 2, 3, 10, False)
try_it(boundary_bytes, 2, 2, 3, 10, True)

# %% check="u12-messages"
# Against the messages that real ranks send: looped and V, one stage, one chunk, bytes beyond 2⁵³.

# %% [markdown]
# ### The simulator

# %% Follow a schedule [markdown] exercise="u12-simulator" points=3 minutes=18 difficulty=4 importance=3 extra=true
# **Write** `follow`: seconds from the start to the end of the last action, for a schedule of F and B with one chunk. F takes `forward_seconds`, B `backward_seconds`, messages nothing. A stage begins an action as soon as it has done the one before and all that the action waits for:
#
# - F of stage $s$ waits for F of the same micro-batch on stage $s - 1$,
# - B for its own F, and for B on stage $s + 1$.
#
# Return an `int`, and **−1** for a deadlock. Every stage's list has each F and B once, perhaps in an impossible order.
#
# *By hand:* the lists called `stuck` above → **−1**; GPipe on two stages with two micro-batches, F of 1 second and B of 2 → **9**.


# %% solution="u12-simulator"
def follow(
    schedule: list[list[tuple[str, int, int]]], forward_seconds: int, backward_seconds: int
) -> int:
    """Seconds of a schedule, or -1 for a deadlock."""
    ### BEGIN SOLUTION
    ends = {}
    position = [0] * len(schedule)
    free = [0] * len(schedule)
    has_moved = True
    while has_moved:
        has_moved = False
        for stage, actions in enumerate(schedule):
            if position[stage] == len(actions):
                continue
            kind, k, _ = actions[position[stage]]
            needs = [("F", k, stage - 1)] if stage > 0 else []
            if kind == "B":
                needs = [("F", k, stage)]
                if stage + 1 < len(schedule):
                    needs.append(("B", k, stage + 1))
            if all(each in ends for each in needs):
                start = max([free[stage], *(ends[each] for each in needs)])
                seconds = forward_seconds if kind == "F" else backward_seconds
                ends[kind, k, stage] = free[stage] = start + seconds
                position[stage] += 1
                has_moved = True
    is_stuck = any(position[stage] < len(schedule[stage]) for stage in range(len(schedule)))
    return -1 if is_stuck else max(free)
    ### END SOLUTION


# %%
def on_stuck(follow):
    return follow(stuck, 1, 2)


def on_gpipe(follow):
    return follow(gpipe_of(2, 2), 1, 2)


try_it(on_stuck, follow)
try_it(on_gpipe, follow)

# %% check="u12-simulator"
# Orders of every kind, shuffled ones too; deadlocks; unequal F and B.

# %% [markdown]
# ## What you know now
#
# | quantity | value |
# |---|---|
# | step of GPipe and of 1F1B | $(m + p - 1)(f + b)$ |
# | bubble | $\frac{p-1}{m+p-1}$ of the step, $\frac{p-1}{m}$ of the work |
# | in flight on stage $s$ | GPipe $m$; 1F1B $\min(m, p - s)$; halves $\min(m, p)$ |
# | interleaved, $v$ chunks | bubble divided by $v$, more than $v$ times the messages |
# | backward in halves, one chunk, one step, $m \ge p$ | bubble $(p-1) f$ |
# | activations of stage 0, 1F1B, $m \ge p$ | those of the whole model for one micro-batch |
#
# **Your plan** fits in 83 GB: eight stages cut evenly, 16 GB of state and 44 of activations on the first one, for 1.3 % of bubble. With whole layers and the embedding the fullest one, the first, has 25.9 GB of state. It still says nothing of where stages should lie, or whether sharding the state would be cheaper. Unit 14 tries all of them.
#
# *Further reading:* Huang et al. 2019, *GPipe*, sections 2 and 3 (20 minutes). Narayanan et al. 2021, *Efficient Large-Scale Language Model Training on GPU Clusters*, section 2.2 (15 minutes). Qi et al. 2024, *Zero Bubble Pipeline Parallelism*, sections 1 to 4 (30 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("12")
