# ---
# jupyter:
#   course:
#     title: Eight devices, one copy of the state
#     device: CPU
#     needs: ["03", "09"]
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
# ![GB that each of eight devices keeps for Llama-3-8B: 128 if nothing is sharded, 44 in stage 1, 30 in stage 2, 16 in stage 3.](hero.svg)
#
# Sharding keeps one copy of the state among all devices, and moves what is needed when it is needed.
#
# Your plan needs 128 GB of state on each device, and 83 fit. After this unit it fits.
#
# 1. **Compute** what a rank keeps and what it sends, for ZeRO's stages and FSDP.
# 2. **Write** a sharded optimizer step, and a layer that gathers its weight.
# 3. **Say** how many tokens hide a gather.
# 4. **Explain** where sharding stops being free.
#
# | here | elsewhere | meaning |
# |---|---|---|
# | $d$ | DP, $N_d$ | ranks that share one copy, `comm.size` |
# | $N$ | $\Psi$ | parameters |
# | $m$ | | micro-batches of a rank in a step |
# | $W$, $F$ | | bandwidth of a link (in 10.4: a weight); FLOP/s of a device |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.functional import pad

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import precision, preset
from course_utils.distributed import Comm, Link, Network, VirtualCluster, run_ranks
from course_utils.formulas.parameters import parameters
from course_utils.instruments import trace_memory
from course_utils.records.traces import recorded_rows, recorded_trace
from course_utils.reference import sharding
from course_utils.reference.naive_sharding import KeptLinear, all_reduced_step, waiting_step
from course_utils.show import (
    Choice,
    cluster_timelines,
    explorer,
    kept_and_sent,
    trace_lanes,
    transfer_and_waiting,
    try_it,
)
from course_utils.show.side_by_side import FSDP_STEPS, SideBySide
from course_utils.show.torch_source import FSDP_SOURCE, Excerpts
from course_utils.traces import COMPUTE, select

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Who needs all of it?
#
# Data parallelism repeats the state $d$ times (E4). Adam does not need that: it updates each weight from its own gradient and moments. So a rank can update *a part*, if others tell it the rest. ZeRO has three stages of this:
#
# | stage | kept in parts |
# |---|---|
# | 0 | nothing: data parallelism |
# | 1 | master weights and moments |
# | 2 | gradients too |
# | 3 | weights too: PyTorch's **FSDP**, fully sharded data parallel |
#
# Weights of any shape go into one flat row of $N$ numbers, padded until $d$ divides it and cut into equal parts. What stays whole is not padded. Padding counts. A single **all-gather** brings the whole back.
#
# **Guess first.** Llama-3-8B in bf16 on 64 devices, 16 bytes (2 + 2 + 12) for each of 8.03 billion parameters. How many GB does each keep in stage 1?

# %%
predict("u10-stage-1", None, "GB")

# %% What a rank keeps [markdown] exercise="u10-state-bytes" points=1.5 minutes=7 difficulty=1 importance=5
# **Write** `sharded_state_bytes`: bytes that each rank keeps from step to step, a dictionary with `weights`, `gradients` and `optimizer`. The optimizer holds master weights and moments. The table above says what each `stage` keeps in parts; parts include their padding. Each key is a third of the points.
#
# `precision(recipe)` has the bytes of one number: `weight_bytes`, `gradient_bytes`, `master_weight_bytes` and `moment_bytes` (both moments together).
#
# *By hand:* 10 parameters on 4 ranks, stage 2, `"bf16"` → **20**, **6** and **36**.


# %% solution="u10-state-bytes"
def sharded_state_bytes(num_params: int, num_ranks: int, stage: int, recipe: str) -> dict[str, int]:
    """Bytes that a rank keeps: "weights", "gradients" and "optimizer"."""
    one = precision(recipe)
    ### BEGIN SOLUTION
    part = -(-num_params // num_ranks)
    of_optimizer = one.master_weight_bytes + one.moment_bytes
    return {
        "weights": one.weight_bytes * (part if stage == 3 else num_params),
        "gradients": one.gradient_bytes * (part if stage >= 2 else num_params),
        "optimizer": of_optimizer * (part if stage >= 1 else num_params),
    }
    ### END SOLUTION


# %%
try_it(sharded_state_bytes, 10, 4, 2, "bf16")

# %% check="u10-state-bytes"
# Every stage and recipe; ranks that divide and ranks that do not; more ranks than parameters.

# %% [markdown]
# <details><summary>Hint: I am off by a few bytes</summary>
#
# Ten numbers on four ranks: how many does each rank hold, padding included? Do you round numbers or bytes?
# </details>

# %% [markdown]
# **Check your guess**, and compare with a published table: ZeRO's figure 1 has 120, 31.4, 16.6 and 1.9 GB for 7.5 billion parameters on 64 devices.

# %% folded=true tags=["nbval-check-output"]
# Measured: your bytes, for the paper's model and for ours
state_of = answer("u10-state-bytes", sharded_state_bytes)
llama_params = sum(parameters(preset("Llama-3-8B")).values())
settings = {
    "7.5B on 64": (7_500_000_000, 64),
    "Llama-3-8B on 8": (llama_params, 8),
    "Llama-3-8B on 64": (llama_params, 64),
}
gigabytes = {
    name: {stage: sum(state_of(*sizes, stage, "bf16").values()) / 1e9 for stage in range(4)}
    for name, sizes in settings.items()
}
display(pd.DataFrame(gigabytes).T.round(1).rename_axis(columns="GB on each, by stage"))
compare("u10-stage-1", "GB", measured=round(gigabytes["Llama-3-8B on 64"][1], 1))

# %% [markdown]
# <details><summary>From the slides: "cannot train if parameters, gradients and optimizer do not fit"</summary>
#
# True for plain data parallelism. Here a model with 128 GB of state trains on devices of 80.
# </details>

# %% [markdown]
# ## Who sums, who updates, who tells
#
# Stage 1: every rank has all weights, and the gradient of its own data. The natural sharded step: all-reduce the gradient, update your part, gather the new weights. **Guess first.** How long does that take, compared with the all-reduce alone?

# %%
predict("u10-natural", None, "times an all-reduce")

# %% A sharded step [markdown] exercise="u10-owners" points=3 minutes=13 difficulty=3 importance=5
# **Write** `sharded_step`, which takes as long as **one** all-reduce in all. `sgd` and `adam` are half of the points each.
#
# - `weights` is flat, of a length that $d$ divides, and equal on all ranks: fill it with the new weights. `gradient` is this rank's share of their gradient: shares add up, so divide nothing.
# - `part` is this rank's own copy of its part of the weights, and `optimizer` a PyTorch optimizer of `part` alone: it updates from `part.grad`, which on entry is None or an old gradient.
# - `comm.reduce_scatter(output, tensor)` sums `tensor` over all ranks; `output` gets this rank's part of the sum. `comm.all_gather(output, tensor)` fills `output` with the tensors of all ranks, one after the other.
#
# *By hand:* weights 0, gradients $(1, 2)$ and $(3, 4)$ on two ranks, plain SGD with a rate of 1 → $(-4, -6)$ on both.


# %% solution="u10-owners"
def sharded_step(
    comm: Comm,
    weights: Tensor,
    gradient: Tensor,
    part: nn.Parameter,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Sum the gradient, update this rank's part, and tell the others."""
    ### BEGIN SOLUTION
    part.grad = torch.empty_like(part)
    comm.reduce_scatter(part.grad, gradient)
    optimizer.step()
    comm.all_gather(weights, part.detach())
    ### END SOLUTION


# %% folded=true
# Harness: two ranks, two weights, a step of SGD
def one_step_of_two(sharded_step):
    def rank(comm):
        weights, part = torch.zeros(2), nn.Parameter(torch.zeros(1))
        gradient = torch.tensor([[1.0, 2.0], [3.0, 4.0]][comm.rank])
        sharded_step(comm, weights, gradient, part, torch.optim.SGD([part], lr=1.0))
        return weights.tolist()

    return VirtualCluster(2).run(rank).results


# %%
try_it(one_step_of_two, sharded_step)

# %% check="u10-owners"
# Weights of all ranks over two steps in float64; calls, bytes and virtual time.

# %% [markdown]
# <details><summary>Hint: right, and too slow by a half</summary>
#
# Of the summed gradient, how much does this rank use?
# </details>

# %% [markdown]
# **Check your guess**, on four ranks with 50 million weights:

# %% folded=true tags=["nbval-check-output"]
# Measured: virtual time of three ways, as multiples of one all-reduce
step_of = answer("u10-owners", sharded_step)


def all_reduce_alone(comm, weights, gradient, part, optimizer):
    comm.all_reduce(gradient)


def seconds_of_step(way):
    def rank(comm):
        weights = torch.empty(50_000_000, device="meta")
        part = nn.Parameter(weights[: len(weights) // comm.size])
        way(comm, weights, torch.empty_like(weights), part, torch.optim.SGD([part], lr=0.1))

    return VirtualCluster(4).run(rank).step_seconds


alone, natural, sharded = map(seconds_of_step, (all_reduce_alone, all_reduced_step, step_of))
print(f"yours: {sharded / alone:.2f} times an all-reduce")
compare("u10-natural", "times an all-reduce", computed=1.5, measured=round(natural / alone, 9))

# %% [markdown]
# An all-reduce *is* a reduce-scatter and an all-gather (unit 09), and the optimizer fits between the two: in bytes, sharding it is free. In time it is free only where the gather hides, too. It comes after backward, so it has to travel beside the next forward pass. (An extra shows one that does not.) In the natural way each rank gets sums that it never reads.

# %% [markdown]
# ## What it costs to forget
#
# Stage 2 keeps no whole gradient. Each of $m$ micro-batches reduce-scatters (**scatters**) its gradient before the next begins, and adds the result to the rank's part. Stage 3 keeps no whole weight either. In every micro-batch it gathers for forward, forgets, gathers again for backward, and scatters.

# %% What a rank sends [markdown] exercise="u10-volume" points=2 minutes=9 difficulty=2 importance=4
# **Write** `step_sent_bytes`: bytes that each rank sends in one step, as in a ring: $(d-1)/d$ of the whole in a gather or scatter, twice that in an all-reduce. An exact `int`, all or nothing.
#
# Weights and gradients travel with `bytes_per_element`, and $d$ divides $N$. Stages 0 and 1 add up the gradients of all micro-batches, and send them once. In stages 1 and 2, ranks learn the new weights once, at the end of the step.
#
# *By hand:* 8 parameters of 2 bytes on 4 ranks, stage 2, 3 micro-batches → **48**.


# %% solution="u10-volume"
def step_sent_bytes(
    num_params: int, num_ranks: int, stage: int, num_micro_batches: int, bytes_per_element: int
) -> int:
    """Bytes that a rank sends in a step."""
    ### BEGIN SOLUTION
    one_round = (num_ranks - 1) * (num_params // num_ranks) * bytes_per_element
    if stage == 3:
        return 3 * num_micro_batches * one_round
    if stage == 2:
        return (num_micro_batches + 1) * one_round
    return 2 * one_round
    ### END SOLUTION


# %%
try_it(step_sent_bytes, 8, 4, 2, 3, 2)

# %% check="u10-volume"
# Against the calls of a step on virtual ranks: every stage, one micro-batch and many.

# %% [markdown]
# <details><summary>Hint: stage 2</summary>
#
# List the calls of two micro-batches and of the optimizer's step. Which of them happen twice?
# </details>

# %% [markdown]
# Move the controls: which stages fit on 8 ranks? With how many micro-batches does stage 3 send twice as much as stage 2?

# %% folded=true
# Explorer: run this cell, then move the controls
sent_of = answer("u10-volume", step_sent_bytes)


def state_and_volume(ranks, micro_batches):
    kept = {s: sum(state_of(llama_params, ranks, s, "bf16").values()) for s in range(4)}
    sent = {s: sent_of(llama_params // ranks * ranks, ranks, s, micro_batches, 2) for s in range(4)}
    return kept_and_sent(kept, sent, limit_bytes=80 * 10**9)


explorer(
    state_and_volume,
    ranks=Choice("ranks", [1, 2, 4, 8, 16, 64, 512], 8),
    micro_batches=Choice("micro-batches in a step", [1, 2, 4, 8, 16], 1),
)

# %% [markdown]
# ## A layer that owns a part of its weight
#
# ![Three whole weights over a step, each gathered and forgotten twice, above the parts, which stay.](lives.svg)
#
# Stage 3, one layer: $y = x W^\top$, where each rank keeps a part of the flat $W$. With PyTorch's `linear`, autograd would keep the gathered weight for backward. So write both passes, in a `torch.autograd.Function`: what `forward` gives to `ctx.save_for_backward` is all that stays.
#
# **Guess first.** Six such layers. If autograd keeps the gathered weights, how many tensors of that size are in memory at the peak?

# %%
predict("u10-alive", None, "tensors")

# %% A sharded layer [markdown] exercise="u10-layer" points=3 minutes=19 difficulty=4 importance=5
# **Write** `ShardedLinear`. Three scenarios, a third of the points each: `one rank`, `some ranks` and `memory`.
#
# - `part` is this rank's part of the flat weight, whose `shape` is (out, in); $d$ divides out · in. `x` is (rows, in); rows differ between ranks, in number too.
# - `backward` returns a gradient for each argument of `forward` but `ctx`, None where there is none. That of `part` is this rank's part of the **sum** over all ranks, flat like `part`.
# - Two gathers and one reduce-scatter, in each scenario.
# - `memory`: autograd keeps `x` and `part`, and nothing more stays alive after `forward`. Besides, at most **one** tensor as large as the whole weight is alive at once; the weight's gradient is one, too.
#
# *By hand:* $x = (1, 2)$, $W = (3\ 4)$ on one rank → $y =$ **11**, and with $\mathrm dy = 1$: $\mathrm dx = (3, 4)$, $\mathrm dW = (1, 2)$.


# %% solution="u10-layer"
class ShardedLinear(torch.autograd.Function):
    """A linear layer that has its whole weight only while it multiplies."""

    @staticmethod
    def forward(ctx: Any, comm: Comm, x: Tensor, part: Tensor, shape: tuple[int, int]) -> Tensor:
        """Gather, multiply, forget."""
        ctx.comm, ctx.shape = comm, shape
        weight = x.new_empty(shape)  # flat or not: all_gather fills it in order
        ### BEGIN SOLUTION
        comm.all_gather(weight, part)
        ctx.save_for_backward(x, part)
        return x @ weight.T
        ### END SOLUTION

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Gather again; scatter the sum of the weight's gradient."""
        x, part = ctx.saved_tensors
        ### BEGIN SOLUTION
        weight = x.new_empty(ctx.shape)
        ctx.comm.all_gather(weight, part)
        dx = dy @ weight
        del weight
        dw = dy.T @ x
        dpart = torch.empty_like(part)
        ctx.comm.reduce_scatter(dpart, dw)
        return None, dx, dpart, None
        ### END SOLUTION


# %% folded=true
# Harness: one row and one column on one rank
def on_one_rank(ShardedLinear):
    def rank(comm):
        x, part = (
            torch.tensor(numbers, requires_grad=True) for numbers in ([[1.0, 2.0]], [3.0, 4.0])
        )
        y = ShardedLinear.apply(comm, x, part, (1, 2))
        y.sum().backward()
        return {"y": y.tolist(), "dx": x.grad.tolist(), "dpart": part.grad.tolist()}

    return VirtualCluster(1).run(rank).results[0]


# %%
try_it(on_one_rank, ShardedLinear)

# %% check="u10-layer"
# Gradients in float64 on one rank to four; calls; what is kept, and what is alive.

# %% [markdown]
# <details><summary>Hint: two whole weights alive</summary>
#
# When is the weight's gradient made, and which name still holds the weight then?
# </details>
#
# <details><summary>Hint: a shape is refused</summary>
#
# The weight is (out, in) where it multiplies. What shape has a part, and what shape has its gradient?
# </details>

# %% [markdown]
# **Check your guess:** six layers on four ranks, with the memory of one rank traced while all four run.

# %% folded=true tags=["nbval-check-output"]
# Measured: tensors as large as a whole weight
layer_of = answer("u10-layer", ShardedLinear)


def traced_layers(comm, layer, width=64, num_layers=6):
    parts = [torch.zeros(width**2 // comm.size, requires_grad=True) for _ in range(num_layers)]

    def step():
        y = torch.ones(8, width)
        for part in parts:
            y = torch.tanh(layer.apply(comm, y, part, (width, width)))
        y.sum().backward()

    return trace_memory(step, *parts)


traces = {
    name: VirtualCluster(4).run(traced_layers, layer).results[0]
    for name, layer in {"yours": layer_of, "kept by autograd": KeptLinear}.items()
}
alive = {name: trace.most_alive(4 * 64**2) for name, trace in traces.items()}
print(alive)
compare("u10-alive", "tensors", measured=alive["kept by autograd"])

# %% [markdown]
# Six kept weights, and the first gradient is the seventh tensor of that size.

# %% [markdown]
# ## Ask before you need it
#
# Your layer waits for every gather. But the order of layers is known: first to last, then back. With `async_op=True` the next gather travels while this layer multiplies: **prefetching**. A scatter has time until the next gradient is ready. (Writing this step is an extra.)
#
# **Guess first.** Eight layers of 4,096 × 4,096 in bf16 on eight ranks, 4,096 tokens on each: 8.2 ms of computing, and 24 transfers of 0.217 ms (16 gathers, 8 scatters). How many ms stay exposed at best?

# %%
predict("u10-exposed", None, "ms")

# %% folded=true
# Harness: layers of width 4,096 in bf16, without numbers
link = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9)
WIDTH = 4096


def step_of_layers(comm, way, num_layers, tokens):
    options = {"dtype": torch.bfloat16, "device": "meta"}
    parts = [torch.empty(WIDTH**2 // comm.size, **options) for _ in range(num_layers)]
    gradients = [torch.empty_like(each) for each in parts]
    seconds = 2 * tokens * WIDTH**2 / 400e12

    def compute(number, weight):
        if number < num_layers:
            return comm.compute(seconds, "forward")
        comm.compute(2 * seconds, "backward")
        return torch.empty_like(weight)

    uses = [*range(num_layers), *reversed(range(num_layers))]
    way(comm, parts, uses, compute, gradients)


def run_layers(way, num_layers=8, tokens=4096, num_ranks=8):
    cluster = VirtualCluster(num_ranks, network=Network(inside=link))
    return cluster.run(step_of_layers, way, num_layers, tokens)


# %% [markdown]
# **Check your guess**, beside a step that waits after each call:

# %% folded=true tags=["demonstration"]
# Measured: 4,096 tokens on each rank, with and without prefetching
layer_runs = {
    "waiting": run_layers(waiting_step),
    "prefetching": run_layers(sharding.prefetched_step),
}
exposed = {name: round(1e3 * run.exposed_seconds(), 3) for name, run in layer_runs.items()}
display(compare("u10-exposed", "ms", computed=2 * 0.217, measured=exposed["prefetching"]))
cluster_timelines(layer_runs)

# %% [markdown]
# The first gather and the last scatter have nothing to hide behind. With fewer tokens more is exposed:

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Table: virtual ms of a step, by tokens on each rank
rows = {}
for tokens in (1024, 2048, 4096, 16384):
    runs = (
        run_layers(waiting_step, tokens=tokens),
        run_layers(sharding.prefetched_step, tokens=tokens),
    )
    seconds = [runs[0].step_seconds, runs[1].step_seconds, runs[1].compute_seconds()]
    rows[tokens] = [*seconds, runs[1].exposed_seconds()]
columns = ["waiting", "prefetching", "compute", "exposed"]
(1e3 * pd.DataFrame(rows, index=columns)).round(3).rename_axis(columns="ms, by tokens")

# %% [markdown]
# Forward takes 2 FLOPs for each weight and token, and hides one gather; backward takes 4 and hides two transfers. So both have the same threshold. Without latency it is unit 09's: $\text{bytes per element} \cdot \frac{d-1}{d} \cdot \frac{F}{2W}$. At 400 TFLOP/s and 200 GB/s it is 1,750 tokens. (A latency of 10 µs makes it 2,585: an extra.)

# %% [markdown]
# And on real devices? Somebody wrote this for two A100s, and trained 3.4 billion parameters in fp32 (`fsdp_ddp_a100x2`, MIT). Forward and backward take DDP, which gathers nothing, 1,383 ms. With a wait at each gather they take 1,578, or 195 more. **Guess first.** How many of these 195 ms does gathering one layer ahead win back?

# %%
predict("u10-ahead", None, "ms")


# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: FSDP with gathers some layers ahead, on two A100s
def more_seconds(row, than):
    return row["forward_backward_seconds"] - than["forward_backward_seconds"]


fsdp_runs = {row["run"]: row for row in recorded_rows("fsdp_ddp_a100x2")}
ddp_row = fsdp_runs["DDP + AdamW"]
ahead = {depth: fsdp_runs[f"FSDP fp32 prefetch={depth}"] for depth in (0, 1, 2, 4)}
columns = {"DDP": ddp_row, **{f"FSDP, {depth} ahead": row for depth, row in ahead.items()}}
cells = {
    name: {
        "step, ms": 1e3 * row["step_seconds"],
        "of it forward and backward, ms": 1e3 * row["forward_backward_seconds"],
        "more than DDP's, ms": 1e3 * more_seconds(row, ddp_row),
        "from step to step, GiB": row["steady_bytes"] / 2**30,
        "at the peak, GiB": row["peak_bytes"] / 2**30,
    }
    for name, row in columns.items()
}
display(pd.DataFrame(cells).round(1))
hidden_share = 1 - exposed["prefetching"] / exposed["waiting"]
at_stake = 1e3 * more_seconds(ahead[0], ddp_row)
won = 1e3 * more_seconds(ahead[0], ahead[1])
print(f"on the virtual cluster prefetching hides {hidden_share:.0%}")
compare("u10-ahead", "ms", computed=round(hidden_share * at_stake), measured=round(won))

# %% [markdown]
# The state is halved, as your formula says, and each layer ahead costs 0.1 to 0.2 GiB at the peak. But one layer ahead wins back 72 ms, and four 95. Two reasons that the virtual cluster leaves out: a gather's kernel runs on multiprocessors and memory that products need, too; and here each *matrix* is gathered by itself, 452 times a step on each device (`fsdp_a100x2_kernels`), and pays latency each time. Only a trace can tell them apart.

# %% [markdown]
# ## The same in PyTorch
#
# `fully_shard`, **FSDP2**, replaces each parameter by a **DTensor**, of which a rank holds some rows; hooks gather and forget around forward and backward. On two processes of this machine:


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: calls of FSDP2 and of your layer, two processes (some 10 seconds)
def calls_of_fsdp(comm, num_layers):
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(num_layers)))
    for each in model:
        fully_shard(each)
    fully_shard(model)
    with CommDebugMode() as seen:
        model(torch.ones(8, 64)).sum().backward()
    return {str(name).split(".")[-1]: count for name, count in seen.get_comm_counts().items()}


def calls_of_yours(num_layers):
    run = VirtualCluster(2).run(traced_layers, layer_of, num_layers=num_layers)
    names = [each.name.split(" #")[0] for each in run.communications()]
    return {name: names.count(name) for name in sorted(set(names))}


print("FSDP2, four layers:", run_ranks(calls_of_fsdp, 2, 4)[0])
print("yours, four layers:", calls_of_yours(4))

# %% [markdown]
# The same counts. (`reshard_after_forward=False` keeps gathered weights until backward.) `unshard` gathers, `reshard` forgets, and `MixedPrecisionPolicy` gathers bf16 from fp32 parts. And `fully_shard` *averages* gradients over ranks; yours adds shares.

# %% [markdown]
# ## Where is it free?
#
# Bus bandwidths of all-reduce and all-gather, from the *Ultra-Scale Playbook*, on nodes of eight H100s. A scatter's bandwidth is taken as a gather's.

# %% folded=true tags=["nbval-check-output"]
# Table: published bandwidths, and what follows from them for a gather
all_reduce_gb = {8: 436, 16: 362, 32: 160, 64: 99.6, 128: 84.7, 256: 64.9, 512: 32.9}
all_gather_gb = {8: 249.8, 16: 184.6, 32: 119, 64: 69, 128: 55, 256: 28, 512: 11}
published = pd.DataFrame({"all-reduce, GB/s": all_reduce_gb, "all-gather, GB/s": all_gather_gb})
published["gather + scatter, times an all-reduce"] = (
    published["all-reduce, GB/s"] / published["all-gather, GB/s"]
)
devices = published.index.to_series()
published["tokens that hide a gather, at 400 TFLOP/s"] = (
    (devices - 1) / devices * 400e12 / (published["all-gather, GB/s"] * 1e9)
)
published["state of 8B, GB"] = [
    sum(state_of(llama_params, d, 3, "bf16").values()) / 1e9 for d in all_gather_gb
]
published.rename_axis("devices").T.map(lambda each: f"{each:,.{int(each < 100)}f}")

# %% [markdown]
# These are bandwidths of the *transfer*. In a real step ranks also wait for each other. On eight MI300X, Llama 70B in stage 3 (`mi300x8_llama70b_fsdp_collectives`, MIT), rank 0 spends 72 ms inside each reduce-scatter of 3.4 GB. **Guess first.** How many of them are transfer?

# %%
predict("u10-transfer", None, "ms")

# %% folded=true tags=["nbval-check-output"]
# Measured: each rank inside a gather and a scatter, and what of it is transfer
CALLS = {"gather": 318, "scatter": 160}  # of layers, in the record; the others are few
inside = {
    kind: {
        row["rank"]: row["mean_seconds"]
        for row in recorded_rows("mi300x8_llama70b_fsdp_collectives")
        if row["calls"] == number
    }
    for kind, number in CALLS.items()
}
of_transfer = {row["calls"]: row for row in recorded_rows("mi300x8_llama70b_transfer")}
transfer = {kind: of_transfer[number]["transfer_seconds"] for kind, number in CALLS.items()}
scattered_bytes = of_transfer[CALLS["scatter"]]["size_bytes"]
for name, seconds in {"rank 0": inside["scatter"][0], "transfer": transfer["scatter"]}.items():
    print(f"{name}: {1e3 * seconds:.1f} ms, {7 / 8 * scattered_bytes / seconds / 1e9:.0f} GB/s")
display(compare("u10-transfer", "ms", measured=round(1e3 * transfer["scatter"], 1)))
transfer_and_waiting(inside, transfer)

# %% [markdown]
# Rank 4 never waits: it comes last (unit 09). By rank 0's own trace the links look six times as slow as they are. Before you blame links, compare ranks.

# %% Where sharding stops being free [markdown] exercise="u10-far" points=2 minutes=12 difficulty=3 importance=5
# **Write** three or four sentences, with numbers from this table.
#
# 1. On the virtual cluster a sharded step takes as long as one all-reduce. By the published bandwidths, as long as how many all-reduces does it take on 8 devices, and on 512?
# 2. A rank has one sequence of 8,192 tokens in a micro-batch. Up to how many devices does stage 3 hide its gathers?
# 3. **Hybrid sharding** shards among the eight devices of a node and repeats that state in each node. On 512 devices, how does it change the GB of state for Llama-3-8B, and the tokens that hide a gather?

# %% [markdown] text_answer="u10-far"
# <!-- BEGIN SOLUTION -->
# In a ring a gather and a scatter take together as long as one all-reduce. By the published bandwidths a sharded step takes 1.7 of them on 8 devices (436 over 249.8 GB/s) and 3.0 on 512, so it is not free. Hiding a gather takes 7,216 tokens on 128 devices, which 8,192 cover, and 14,230 on 256, which they do not: stage 3 hides its gathers up to 128 devices. Hybrid sharding keeps gathers inside a node, where 1,401 tokens hide them, in place of 36,293 on 512 devices. It costs 16.1 GB of state on each device in place of 0.3.
#
# *Rubric:* half a point for both numbers of all-reduces, on 8 and 512; half for 128 devices with a threshold beside 8,192; half for hybrid sharding's state, before and after; half for its tokens, before and after.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% [markdown]
# ### A part of everything, and back

# %% A flat shard [markdown] exercise="u10-flat" points=2 minutes=13 difficulty=2 importance=4 extra=true
# **Write** `FlatShard`. All or nothing.
#
# - `self.part`, of one dimension: lay the $n$ numbers of all `tensors` one after the other, in order, and fill up with zeros to $d$ parts of $\lceil n/d \rceil$. This rank keeps part number `comm.rank`. Nothing else of the tensors stays in memory, so `part` is no view. No call is made.
# - `whole()` returns a list of all tensors in their shapes, from the parts as they are *now*, with one `comm.all_gather`.
#
# Tensors have one dtype, and any shapes. There may be fewer numbers than ranks.
#
# *By hand:* shapes (3, 4) and (3) on 4 ranks → parts of **4**, and **1** zero on the last.


# %% solution="u10-flat"
class FlatShard:
    """This rank's part of some tensors, flat and padded."""

    def __init__(self, comm: Comm, tensors: list[Tensor]) -> None:
        """Keep this rank's part as `self.part`."""
        self.comm, self.shapes = comm, [each.shape for each in tensors]
        ### BEGIN SOLUTION
        flat = torch.cat([each.flatten() for each in tensors])
        length = -(-len(flat) // comm.size)
        flat = pad(flat, (0, length * comm.size - len(flat)))
        self.part = flat[comm.rank * length : (comm.rank + 1) * length].clone()
        ### END SOLUTION

    def whole(self) -> list[Tensor]:
        """All tensors, from the parts of all ranks."""
        ### BEGIN SOLUTION
        flat = self.part.new_empty(len(self.part) * self.comm.size)
        self.comm.all_gather(flat, self.part)
        sizes = [shape.numel() for shape in self.shapes]
        pieces = flat[: sum(sizes)].split(sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        ### END SOLUTION


# %% folded=true
# Harness: 15 numbers in two tensors, on some ranks
def parts_of_two_tensors(FlatShard, num_ranks):
    def rank(comm):
        tensors = [torch.arange(12.0).view(3, 4), torch.arange(12.0, 15.0)]
        shard = FlatShard(comm, tensors)
        whole = shard.whole()
        return shard.part.tolist(), all(map(torch.equal, whole, tensors))

    parts, are_back = zip(*VirtualCluster(num_ranks).run(rank).results, strict=True)
    return {"parts": parts, "the whole comes back": are_back}


# %%
try_it(parts_of_two_tensors, FlatShard, 4)

# %% check="u10-flat"
# Parts and wholes on one rank to five; calls; parts that change; what stays in memory.

# %% [markdown]
# <details><summary>Hint: the last numbers get lost</summary>
#
# With 15 numbers on 4 ranks, what does `15 // 4` leave out?
# </details>
#
# <details><summary>Hint: my part keeps too much memory</summary>
#
# A slice is a view. Whose storage does it keep alive?
# </details>

# %% [markdown]
# ### Write the step that prefetches

# %% Prefetching [markdown] exercise="u10-prefetch" points=3 minutes=22 difficulty=4 importance=5 extra=true
# **Write** `prefetched_step`: forward and backward through sharded layers. Three scenarios, a third of the points each: `numbers`, `time` (only the first gather and the last scatter are exposed) and `memory`.
#
# - `uses` lists layers in the order in which they are needed, as `[0, 1, 2, 2, 1, 0]`. `parts[layer]` is this rank's flat part. Each use gathers anew.
# - `compute(number, weight)` runs `uses[number]` with that layer's whole weight, flat. Call it once for each, in order. It returns None in forward, and in backward this rank's gradient of the whole weight, flat.
# - `gradients[layer]` is given: fill it with this rank's part of the sum over all ranks.
# - Memory: at most **two** whole weights and **two** whole gradients at once. A call holds its tensors until you have waited for it.
#
# *By hand:* three layers on several ranks → **6** gathers and **3** scatters.


# %% solution="u10-prefetch"
def prefetched_step(
    comm: Comm,
    parts: list[Tensor],
    uses: list[int],
    compute: Callable[[int, Tensor], Tensor | None],
    gradients: list[Tensor],
) -> None:
    """Gather ahead of each use, scatter behind it."""

    ### BEGIN SOLUTION
    def ask(layer: int) -> tuple[Any, Tensor]:
        weight = parts[layer].new_empty(comm.size * len(parts[layer]))
        return comm.all_gather(weight, parts[layer], async_op=True), weight

    coming = ask(uses[0])
    scatter = None
    for number, layer in enumerate(uses):
        gather, weight = coming
        gather.wait()
        if number + 1 < len(uses):
            coming = ask(uses[number + 1])
        gradient = compute(number, weight)
        del weight
        if scatter is not None:
            scatter.wait()
            scatter = None
        if gradient is not None:
            scatter = comm.reduce_scatter(gradients[layer], gradient, async_op=True)
    if scatter is not None:
        scatter.wait()
    ### END SOLUTION


# %% folded=true
# Harness: the calls of three layers
def calls_of_three_layers(prefetched_step):
    names = [each.name.split(" #")[0] for each in run_layers(prefetched_step, 3).communications()]
    return {name: names.count(name) for name in sorted(set(names))}


# %%
try_it(calls_of_three_layers, prefetched_step)

# %% check="u10-prefetch"
# Gradients in float64; calls; virtual time; whole weights and gradients alive at once.

# %% [markdown]
# <details><summary>Hint: only "time" fails</summary>
#
# What does the rank do between a call and its `wait`? In backward, two transfers hide behind each use: which two?
# </details>
#
# <details><summary>Hint: only "memory" fails</summary>
#
# Which names still hold a weight that is used up: `weight`, a list, a pair, a handle? And how many scatters are under way at the end?
# </details>

# %% [markdown]
# PyTorch's `FSDPMemTracker`, without any device, on eight layers of 256 MiB and 64 ranks: a peak of **1,145 MiB**, somewhat over four tensors of a layer's size. Your step may have four, too.

# %% [markdown]
# ### What hides the gathers of a real step?
#
# A step of modded-nanogpt on eight H100s, as its authors recorded it (`h100x8_nanogpt_after`, MIT): a sharded optimizer scatters gradients, updates, and gathers weights. Which are exposed more, scatters or gathers?

# %% Exposed by kind [markdown] exercise="u10-overlap" points=1.5 minutes=12 difficulty=3 importance=4 extra=true
# **Write** `exposed_by_kind`, from kernels and messages of one rank. A third of the points each:
#
# - `gathers_ns`: how long at least one gather runs.
# - `exposed_gathers_ns`: how much of that time no kernel runs.
# - `exposed_scatters_ns`: how long at least one scatter runs, and no kernel.
#
# Events have `start_ns`, `end_ns`, a `name`, and the `kind` "kernel" or "communication"; they come in any order. Names of gathers contain `AllGather`, those of scatters `ReduceScatter`. Events of one kind may run at the same time. Messages hide nothing.
#
# *By hand:* kernels from 20 to 50 and from 60 to 90, gathers from 0 to 30 and from 65 to 100, a scatter from 40 to 70 → **65**, **30** and **10**.


# %% solution="u10-overlap"
def exposed_by_kind(events: list[dict]) -> dict[str, int]:
    """Nanoseconds of gathers, of exposed gathers, and of exposed scatters."""

    ### BEGIN SOLUTION
    def runs(some: list[dict], moment: int) -> bool:
        return any(each["start_ns"] <= moment < each["end_ns"] for each in some)

    kernels = [each for each in events if each["kind"] == "kernel"]
    gathers = [each for each in events if "AllGather" in each["name"]]
    scatters = [each for each in events if "ReduceScatter" in each["name"]]
    moments = sorted({each[key] for each in events for key in ("start_ns", "end_ns")})
    gathers_ns = exposed_gathers_ns = exposed_scatters_ns = 0
    for start, end in pairwise(moments):
        if runs(gathers, start):
            gathers_ns += end - start
        if runs(gathers, start) and not runs(kernels, start):
            exposed_gathers_ns += end - start
        if runs(scatters, start) and not runs(kernels, start):
            exposed_scatters_ns += end - start
    return {
        "gathers_ns": gathers_ns,
        "exposed_gathers_ns": exposed_gathers_ns,
        "exposed_scatters_ns": exposed_scatters_ns,
    }
    ### END SOLUTION


# %% folded=true
# Given: the events of the worked case
five_events = [
    {"kind": kind, "name": name, "start_ns": start, "end_ns": end}
    for kind, name, start, end in (
        ("communication", "AllGather_RING", 0, 30),
        ("kernel", "gemm", 20, 50),
        ("kernel", "gemm", 60, 90),
        ("communication", "ReduceScatter_RING", 40, 70),
        ("communication", "AllGather_RING", 65, 100),
    )
]

# %%
try_it(exposed_by_kind, five_events)

# %% check="u10-overlap"
# Pieces of recorded steps; made steps with two streams of kernels, of gathers or of scatters.

# %% folded=true tags=["nbval-check-output"]
# Measured: rank 0 after backward, message by message
by_kind_of = answer("u10-overlap", exposed_by_kind)
optimizer = select(
    recorded_trace("h100x8_nanogpt_after"), kind=(*COMPUTE, "communication"), phase="optimizer"
)
milliseconds = {name: each / 1e6 for name, each in by_kind_of(optimizer).items()}
print({name.replace("_ns", ", ms"): round(each, 2) for name, each in milliseconds.items()})
trace_lanes(optimizer, "Messages on stream 23, and little beside them on stream 7.")

# %% [markdown]
# Scatters, by a hair: 1.72 ms of them. Of 2.25 ms of gathers 1.62 are exposed: the update of other weights hides some, and the next forward pass could hide the rest.

# %% [markdown]
# ### The norm of something that nobody has
#
# Clipping scales all gradients so that their norm, as one vector, is at most `max_norm`. With a sharded gradient no rank has that vector.

# %% Clip what is sharded [markdown] exercise="u10-norm" points=2 minutes=9 difficulty=2 importance=4 extra=true
# **Write** `clip_sharded`. `gradients` holds this rank's parts of the gradient. *The norm* is that of all parts of all ranks, as one vector. All or nothing.
#
# - If it is above `max_norm`, scale this rank's parts in place, so that it becomes `max_norm`. If not, leave them as they are.
# - On every rank, return the norm before scaling, a `float`.
# - Every rank makes one call, with one number.
# - Parts may be empty. Padding is zero, so it adds nothing.
#
# *By hand:* parts $(3)$ and $(4)$ on two ranks, `max_norm` 1 → norm **5**, parts **0.6** and **0.8**.


# %% solution="u10-norm"
def clip_sharded(comm: Comm, gradients: list[Tensor], max_norm: float) -> float:
    """Scale the parts of a gradient in place; the norm of the whole before."""
    ### BEGIN SOLUTION
    squares = torch.stack([each.square().sum() for each in gradients]).sum()
    comm.all_reduce(squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        for each in gradients:
            each.mul_(max_norm / norm)
    return norm
    ### END SOLUTION


# %% folded=true
# Harness: one number on each of several ranks
def clipped(clip_sharded, numbers, max_norm):
    def rank(comm):
        gradient = torch.tensor([numbers[comm.rank]], dtype=torch.float64)
        return clip_sharded(comm, [gradient], max_norm), gradient.item()

    return VirtualCluster(len(numbers)).run(rank).results


# %%
try_it(clipped, clip_sharded, [3.0, 4.0], 1.0)

# %% check="u10-norm"
# Norms above and below the limit; empty parts; one rank and several; calls and bytes.

# %% folded=true tags=["nbval-check-output"]
# Compare with: PyTorch's own, on one process that has all parts
clip_of = answer("u10-norm", clip_sharded)
norm_of_parts = clipped(clip_of, [3.0, 3.0, 4.0, 4.0], 1.0)[0][0]
whole = nn.Parameter(torch.zeros(4))
whole.grad = torch.tensor([3.0, 3.0, 4.0, 4.0])
print(f"four ranks {norm_of_parts:.4f}, one {nn.utils.clip_grad_norm_([whole], 1.0):.4f}")

# %% [markdown]
# ### How many tokens, with latency?

# %% The fewest tokens that hide a gather [markdown] exercise="u10-hide" points=2 minutes=8 difficulty=3 importance=3 extra=true
# **Write** `gather_hiding_tokens`: the fewest tokens on each rank for which the product of one layer's forward pass takes at least as long as the gather of the next layer's weight. Both layers have $n$ numbers, in bf16. An exact `int`, all or nothing. All arguments are whole numbers.
#
# A gather takes $(d-1)\,\lambda + \frac{d-1}{d}\,\frac{2n}{W}$. The latency $\lambda$ comes in nanoseconds.
#
# *By hand:* 1,024 numbers on 4 ranks at 64 bytes/s: 1,536 bytes take 24 s, and 3 messages at $2 \cdot 10^9$ ns take 6. A token takes 2,048 FLOPs, 2 s at 1,024 FLOP/s → **15**. On one rank: **0**.


# %% solution="u10-hide"
def gather_hiding_tokens(
    num_weights: int,
    num_ranks: int,
    bytes_per_second: int,
    latency_ns: int,
    flops_per_second: int,
) -> int:
    """Tokens on each rank whose product is as long as a gather."""
    ### BEGIN SOLUTION
    billion = 10**9
    messages = num_ranks - 1
    latency = latency_ns * num_ranks * bytes_per_second
    passing = 2 * num_weights * billion
    dividend = messages * (latency + passing) * flops_per_second
    divisor = 2 * num_weights * num_ranks * bytes_per_second * billion
    return -(-dividend // divisor)
    ### END SOLUTION


# %%
try_it(gather_hiding_tokens, 1024, 4, 64, 2 * 10**9, 1024)

# %% check="u10-hide"
# Against a search in fractions: one rank and many; no latency and much; with a rest and without.

# %% [markdown]
# The layers above need 2,585 with 10 µs.

# %% [markdown]
# ### A copy in each node
#
# Hybrid sharding keeps one copy of the state in each node, so that gathers stay on fast links. Gradients still have to be summed over all nodes. How little of them can cross the slow links?

# %% Hybrid sharding [markdown] exercise="u10-hybrid" points=2 minutes=11 difficulty=3 importance=4 extra=true
# **Write** `hybrid_sum`: return this rank's part of the gradient, summed over **all** ranks. All or nothing, with the fewest bytes and the least time.
#
# - Nodes have `node_size` neighbouring ranks each: 0 to `node_size - 1`, and so on. These share one copy, in equal flat parts, in the order of ranks.
# - `gradient` is this rank's share of the whole gradient, flat, of a length that `node_size` divides. You may change it.
# - `comm.split(colour)`, which all ranks call, gives a `comm` of those ranks that name the same colour.
#
# *By hand:* two nodes of two ranks, shares $(1, 2)$, $(1, 2)$, $(3, 4)$, $(3, 4)$ → parts **8**, **12**, **8**, **12**.


# %% solution="u10-hybrid"
def hybrid_sum(comm: Comm, gradient: Tensor, node_size: int) -> Tensor:
    """This rank's part of the gradient, summed over all ranks of all nodes."""
    ### BEGIN SOLUTION
    node = comm.split(comm.rank // node_size)
    across = comm.split(comm.rank % node_size)
    part = gradient.new_empty(len(gradient) // node_size)
    node.reduce_scatter(part, gradient)
    across.all_reduce(part)
    return part
    ### END SOLUTION


# %% folded=true
# Harness: two nodes of two ranks
def parts_of_two_nodes(hybrid_sum):
    shares = ([1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [3.0, 4.0])
    run = VirtualCluster(4).run(lambda comm: hybrid_sum(comm, torch.tensor(shares[comm.rank]), 2))
    return [each.tolist() for each in run.results]


# %%
try_it(parts_of_two_nodes, hybrid_sum)

# %% check="u10-hybrid"
# Parts in float64 on nodes of every size; bytes; virtual time with slow links between nodes.

# %% [markdown]
# ### Sixty-four ranks in this kernel
#
# Llama-3.2-1B in stage 3 on 64 virtual ranks: each has its parts and a sequence of 2,048 tokens, all without numbers.


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: one step on 64 ranks (some 10 seconds)
prefetch_of = answer("u10-prefetch", prefetched_step)


def shapes_of_llama():
    model, layers = preset("Llama-3.2-1B"), []
    h, f, kv = model.hidden_size, model.ffn_size, model.num_kv_heads * model.head_dim
    for _ in range(model.num_layers):
        layers += [(h, h), (2 * kv, h), (h, h), (2 * f, h), (h, f)]
    return [*layers, (model.vocab_size, h)]


def llama_step(comm, shapes, tokens):
    options = {"dtype": torch.bfloat16, "device": "meta"}
    parts = [torch.empty(a * b // comm.size, **options) for a, b in shapes]
    gradients = [torch.empty_like(each) for each in parts]
    uses = [*range(len(shapes)), *reversed(range(len(shapes)))]

    def compute(number, weight):
        out, into = shapes[uses[number]]
        x, dy = (torch.empty(tokens, width, **options) for width in (into, out))
        if number < len(shapes):
            x @ weight.view(out, into).T
            return None
        dy @ weight.view(out, into)
        return (dy.T @ x).flatten()

    prefetch_of(comm, parts, uses, compute, gradients)
    return 8 * sum(each.nbytes for each in parts)


llama_run = VirtualCluster(64, network=Network(inside=link)).run(
    llama_step, shapes_of_llama(), 2048
)
milliseconds = 1e3 * llama_run.step_seconds, 1e3 * llama_run.exposed_seconds()
print("a step takes {:.0f} ms, {:.0f} of them exposed".format(*milliseconds))
print(f"a rank keeps {llama_run.results[0]:,} bytes and sends {llama_run.sent_bytes():,}")

# %% [markdown]
# The state is 16/64 bytes for each number in a matrix, as your formula says (norms are left out). And most of the step is exposed: 63 messages of 10 µs in each of 243 calls take 153 ms. FSDP gathers a whole transformer layer in one call.

# %% [markdown]
# ### Read the real thing
#
# FSDP2 beside your step that prefetches, in the lines of the version that runs here:

# %% folded=true tags=["nbval-ignore-output"]
# Your step, and where FSDP2 does the same
SideBySide(answer("u10-prefetch", prefetched_step), FSDP_STEPS)

# %% [markdown]
# It sends groups of parameters:

# %% folded=true tags=["nbval-ignore-output"]
# Excerpts of PyTorch: groups of parameters
Excerpts(FSDP_SOURCE)

# %% [markdown]
# **Guess first.** A model has an embedding, four blocks of two layers each, and a head. `fully_shard` is called on each block, then on the model. How many all-gathers does one step make, forward and backward together?

# %%
predict("u10-groups", None, "all-gathers")


# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: collectives of FSDP2, two processes (some 10 seconds)
class Blocks(nn.Module):
    def __init__(self, num_blocks):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        blocks = (nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8)) for _ in range(num_blocks))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, ids):
        return self.head(self.blocks(self.embedding(ids)))


def collectives_of_groups(comm, num_blocks):
    model = Blocks(num_blocks)
    for each in model.blocks:
        fully_shard(each)
    fully_shard(model)
    with CommDebugMode() as seen:
        model(torch.arange(11)).sum().backward()
    counts = seen.get_comm_counts().items()
    return {str(name).split(".")[-1].strip("_"): count for name, count in counts}


groups = run_ranks(collectives_of_groups, 2, 4)[0]
print(groups)
compare("u10-groups", "all-gathers", computed=2 * 4 + 1, measured=groups["allgather_base"])

# %% [markdown]
# Five groups: each block, and what is left of the model for the root, embedding and head together. Blocks are gathered twice. The root stays whole from its forward pass to its backward pass, so it is gathered once. Without the calls on blocks there would be one group: one gather, and all weights whole at once.

# %% [markdown]
# ## What you know now
#
# | stage | a rank keeps, in bf16 | a rank sends, times $\frac{d-1}{d}$ of the weights' bytes |
# |---|---|---|
# | 0 | $16N$ | 2 |
# | 1 | $4N + 12N/d$ | 2 |
# | 2 | $2N + 14N/d$ | $m + 1$ |
# | 3 | $16N/d$ | $3m$ |
#
# With several micro-batches stages 2 and 3 send more: shard no more than memory asks for.
#
# **Your plan** keeps 16 GB of state on each device in stage 3, of 83. Activations are as before: the next unit cuts those.
#
# *Further reading:* Rajbhandari et al. 2020, *ZeRO*, sections 5 and 7 (20 minutes). Zhao et al. 2023, *PyTorch FSDP*, section 3 (20 minutes). Hugging Face, *The Ultra-Scale Playbook*, ZeRO (15 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("10")
