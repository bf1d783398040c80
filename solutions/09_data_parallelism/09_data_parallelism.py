# ---
# jupyter:
#   course:
#     title: How do eight devices share one batch?
#     device: CPU
#     needs: ["01", "03", "08"]
#     lecture: [S16, S17, S18, S19, B9, B11, E4]
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
# ![One step of Llama-3.2-1B on eight devices, to scale: 92 ms of computing and 22 of exchange, 114 together; with buckets sent during backward 97, of which 5 are exposed.](hero.svg)
#
# Each device takes its share of the sequences, and all end up with the same gradient.
#
# Your training plan treats eight devices as one that is eight times as fast. What does their communication cost?
#
# 1. **Weigh** the shares of a batch so that every token counts the same.
# 2. **Write** data parallelism, gradient by gradient and in buckets.
# 3. **Compute** when communication can be hidden, and **explain** why real clusters do worse.
# 4. **Find** the rank that holds up the others in a trace.
#
# | here | lecture S | lecture B | meaning |
# |---|---|---|---|
# | $d$ | devices | DP | ranks that share a batch, `comm.size` |
# | $B$, $B/d$ | –, bs | B, B_D | sequences of a step, of one rank |
# | $N$ | | P | parameters |
# | $S$, $W$, $\lambda$ | | | bytes; bandwidth of a link; latency of a message |
# | $F$ | | | FLOP/s that a device reaches |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from math import prod

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile

from autograder import answer, check, compare, plan, predict, progress
from course_utils import colours
from course_utils.configs import preset
from course_utils.distributed import (
    Comm,
    DeadlockError,
    Link,
    Network,
    NullComm,
    VirtualCluster,
    run_ranks,
)
from course_utils.distributed.ddp_log import logged_buckets
from course_utils.instruments import trace_memory
from course_utils.records.traces import about, recorded_trace
from course_utils.reference import Transformer, token_loss
from course_utils.reference.accumulation import count_targets, ragged_batch, sum_of_losses
from course_utils.reference.bucketing import accumulate_together as together_of_course
from course_utils.show import (
    Choice,
    Picture,
    cluster_timeline,
    cluster_timelines,
    explorer,
    exposed_over_tokens,
    ring_steps,
    step_over_bucket_bytes,
    tokens_per_second_over_devices,
    trace_lanes,
    try_it,
)
from course_utils.show.picture import axes
from course_utils.show.side_by_side import DDP_STEPS, SideBySide
from course_utils.show.torch_source import DDP_SOURCE, Excerpts
from course_utils.traces import (
    GPU_WORK,
    bus_bytes_per_second,
    busy_seconds,
    by_rank,
    collective_of,
    communicating,
    computing,
    exposed_seconds,
    queue_seconds,
    seconds_of,
    select,
    span_seconds,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Two ranks and one call
#
# Training can be split by sequences (**data** parallelism), by the entries of a weight matrix (tensor), by the tokens of a sequence (context) or by layers (pipeline) (E4). This unit is about the first. A **rank** is one process with one device. All run the same function, and `comm` tells each who it is:


# %% tags=["nbval-check-output"]
def add_up(comm):
    mine = torch.tensor([1.0, 10.0]) * (comm.rank + 1)
    comm.all_reduce(mine)
    return mine


VirtualCluster(2).run(add_up).results

# %% [markdown]
# An **all-reduce** sums a tensor over all ranks, in place on each. It is a **collective**: all ranks call it together.
#
# The `VirtualCluster` runs ranks in this process, on a virtual clock: 400 TFLOP/s for a device (40 % of an H100's peak), 200 GB/s and 10 µs of latency for a link (a toy: one adapter). Here rank 1 has twice the work:


# %%
def unequal_work(comm):
    weight = torch.empty(4096, 4096, device="meta")
    for _ in range(1 + comm.rank):
        weight @ weight
    comm.all_reduce(weight)


cluster_timeline(VirtualCluster(2).run(unequal_work))

# %% [markdown]
# Rank 0 waits for rank 1, then both wait for the links (S17). Communication is **exposed** while the device computes nothing. Now break it: rank 1 leaves the call out.


# %% tags=["nbval-check-output"]
def one_is_missing(comm):
    if comm.rank == 0:
        comm.all_reduce(torch.ones(2))


try:
    VirtualCluster(2).run(one_is_missing)
except DeadlockError as error:
    print(error)

# %% [markdown]
# A real cluster hangs until a timeout, minutes later. All ranks must make the same calls, in the same order.

# %% [markdown]
# ## Whose mean?
#
# `tensor_split` deals out the batch; no two ranks differ by more than one sequence. The rest is "distributed gradient accumulation" (B9): every rank runs forward and backward on its part, and gradients are summed.
#
# **Guess first.** Eight sequences with 32, 31, 30, 28, 5, 4, 3 and 2 targets on four ranks. Each takes the mean loss of its own targets, and gradients are averaged, as in PyTorch's `DistributedDataParallel`. How many times as much does a target on the last rank count as one on the first?

# %%
predict("u09-average", None, "times")

# %% A share of the mean [markdown] exercise="u09-global-mean" points=1.5 minutes=11 difficulty=2 importance=5
# **Write** `share_of_mean`: this rank's share of the mean loss over the targets of **all** ranks. All shares add up to it. Equal counts, ragged counts, and ranks without targets earn a third each.
#
# - `summed_loss` is the sum over this rank's targets, and stays as it is. On every rank, `share.backward()` must reach the weights.
# - Make one collective call. `comm.all_reduce` sums a tensor in place, and refuses one that autograd follows.
# - A rank may have no targets. If no rank has any, the share is zero.
# - Counts must be exact, even in the billions.
#
# *By hand:* 3 and 1 targets, summed losses 6 and 4 → **1.5** and **1**.


# %% solution="u09-global-mean"
def share_of_mean(comm: Comm, summed_loss: Tensor, num_targets: int) -> Tensor:
    """This rank's share of the mean loss over the targets of all ranks."""
    ### BEGIN SOLUTION
    num_targets_of_all = torch.tensor(num_targets)
    comm.all_reduce(num_targets_of_all)
    return summed_loss / max(1, int(num_targets_of_all))
    ### END SOLUTION


# %% folded=true
# Harness: runs your function on a rank for each loss
def shares(share_of_mean, summed_losses, counts):
    def rank(comm):
        loss = torch.tensor(summed_losses[comm.rank], requires_grad=True)
        return share_of_mean(comm, loss * 1, counts[comm.rank]).item()

    return VirtualCluster(len(counts)).run(rank).results


# %%
try_it(shares, share_of_mean, [6.0, 4.0], [3, 1])

# %% check="u09-global-mean"
# Ragged and equal numbers of targets; a rank without any, and all without.

# %% [markdown]
# **Check your guess.** Autograd knows how much one target's loss weighs:

# %% folded=true tags=["nbval-check-output"]
# Measured: the weight of a target on the last rank over that on the first
share_of = answer("u09-global-mean", share_of_mean)


def average_of_means(comm, summed_loss, num_targets):
    return summed_loss / num_targets / comm.size


def weight_of_a_target(comm, share):
    summed = torch.zeros((), dtype=torch.float64, requires_grad=True)
    share(comm, summed, [63, 58, 9, 5][comm.rank]).backward()
    return summed.grad.item()


averaged = VirtualCluster(4).run(weight_of_a_target, average_of_means).results
shared = VirtualCluster(4).run(weight_of_a_target, share_of).results
print(f"with shares: {shared[-1] / shared[0]:.1f} times")
compare("u09-average", "times", computed=63 / 5, measured=round(averaged[-1] / averaged[0], 9))

# %% [markdown]
# How far off is the gradient?

# %% folded=true tags=["nbval-check-output"]
# Measured: how wrong is the gradient of a small model?
ids, targets = ragged_batch([32, 31, 30, 28, 5, 4, 3, 2], vocab_size=11)


def small_model():
    torch.manual_seed(0)
    layers = (nn.Embedding(11, 16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11))
    return nn.Sequential(*layers).double()


def gradient_of_rank(comm, model, share):
    mine, wanted = (each.tensor_split(comm.size)[comm.rank] for each in (ids, targets))
    loss = share(comm, sum_of_losses(model, mine, wanted), count_targets(wanted))
    return torch.autograd.grad(loss, list(model.parameters()))


def error_in_percent(num_ranks, share):
    results = VirtualCluster(num_ranks).run(gradient_of_rank, small_model(), share).results
    got = torch.cat([sum(each).flatten() for each in zip(*results, strict=True)])
    model = small_model()
    token_loss(model(ids), targets).backward()
    true = torch.cat([each.grad.flatten() for each in model.parameters()])
    return round(float(100 * (got - true).norm() / true.norm()), 1)


ways = {"average of means": average_of_means, "shares": share_of}
errors = {name: {d: error_in_percent(d, way) for d in (1, 2, 4, 8)} for name, way in ways.items()}
pd.DataFrame(errors).T.rename_axis(columns="error in %, by ranks")

# %% [markdown]
# Averaging means is right only with equal numbers of targets.

# %% [markdown]
# ## What an all-reduce is made of
#
# Messages. In a **ring**, each rank sends to the next one only, and the tensor is cut into $d$ parts:

# %% folded=true
# Diagram: a ring of three ranks, turn by turn
ring_steps(3)

# %% [markdown]
# In the first $d - 1$ turns sums grow as they travel: a **reduce-scatter**. In the last $d - 1$, finished sums are passed around: an **all-gather**. In each turn a rank sends a $d$-th of the $S$ bytes, so all of it takes
#
# $$2(d-1)\,\lambda + 2\,\frac{d-1}{d}\,\frac{S}{W}$$
#
# From two ranks to a thousand the second term does not even double. The first grows with every rank, and is paid again for *each call*. The virtual cluster uses this formula. $W$ and $\lambda$ are measured, never looked up: NVIDIA's benchmarks print $W$ as *bus bandwidth*.

# %% [markdown]
# ## Gradient by gradient
#
# Plain data parallelism (S17): the same weights on all ranks, a share of the batch on each, gradients summed after backward. All ranks take the same step and stay equal.
#
# Where a rank's loss does not reach a parameter, `grad` is None. Other ranks may have a gradient for it, so it takes part with zeros:


# %%
def gradients_or_zeros(model: nn.Module) -> list[Tensor]:
    """The `grad` of each trainable parameter, zeros where there was none."""
    trained = [each for each in model.parameters() if each.requires_grad]
    for each in trained:
        if each.grad is None:
            each.grad = torch.zeros_like(each)
    return [each.grad for each in trained]


# %% Gradient by gradient [markdown] exercise="u09-each" points=2 minutes=6 difficulty=2 importance=4
# **Write** `backward_each`: run backward from this rank's `loss`, then sum the gradients over all ranks, with one all-reduce for each parameter that requires a gradient (only one where layers share it). Four situations earn equal shares: all used, unused on a rank, frozen, gradients from before.
#
# - Losses are shares already: divide nothing.
# - A frozen parameter's `grad` from earlier stays as it is.
# - `grad` may hold gradients of this rank's earlier micro-batches, not yet summed over ranks. Backward adds to them, and the total travels.
#
# *By hand:* three layers with biases, two ranks → **6** calls.


# %% solution="u09-each"
def backward_each(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce for each gradient."""
    ### BEGIN SOLUTION
    loss.backward()
    for gradient in gradients_or_zeros(model):
        comm.all_reduce(gradient)
    ### END SOLUTION


# %% folded=true
# Harness: one step of a small model on several ranks
def on_a_batch(trainer, num_ranks):
    rows = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(8, 3)

    def rank(comm, model):
        mine = rows.tensor_split(comm.size)[comm.rank]
        trainer(comm, model, model(mine).square().sum() / len(rows))
        return [round(number, 9) for number in model[0].bias.grad[:2].tolist()]

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 2)).double()
    run = VirtualCluster(num_ranks).run(rank, model)
    return {"calls": len(run.communications()), "two numbers of rank 0": run.results[0]}


# %%
try_it(on_a_batch, backward_each, 1)
try_it(on_a_batch, backward_each, 2)

# %% check="u09-each"
# Gradients in float64 on one rank to four; calls and bytes; unused and frozen parameters.

# %% [markdown]
# ## Communicate while backward computes
#
# Most gradients are complete long before backward ends (S18). PyTorch calls a **hook** as soon as a parameter's `grad` is filled. `hooks_on` sets one on each parameter inside a `with` block:


# %% tags=["nbval-check-output"]
@contextmanager
def hooks_on(model, hook):
    """Call `hook(parameter)` as soon as a gradient is complete, while the `with` lasts."""
    trained = [each for each in model.parameters() if each.requires_grad]
    set_hooks = [each.register_post_accumulate_grad_hook(hook) for each in trained]
    try:
        yield
    finally:
        for each in set_hooks:
            each.remove()


def three_layers():
    torch.manual_seed(0)
    sizes = ((2, 3), (3, 4), (4, 2))
    layers = (nn.Linear(*size, bias=False, dtype=torch.float64) for size in sizes)
    return nn.Sequential(*layers)


watched = three_layers()
print("in the model:", *(f"{each.nbytes} bytes" for each in watched.parameters()))
with hooks_on(watched, lambda parameter: print(f"{parameter.grad.nbytes} bytes are complete")):
    watched(torch.ones(1, 2, dtype=torch.float64)).sum().backward()

# %% [markdown]
# The last layer comes first, and its gradient can travel while backward goes on. `comm.all_reduce(tensor, async_op=True)` returns a **handle** at once; until `handle.wait()`, don't touch the tensor. The links handle one call at a time.
#
# Each call has its latency, so gradients travel in **buckets**, several in one flat tensor:


# %%
def joined(parameters: list[nn.Parameter]) -> Tensor:
    """A flat copy of the gradients of some parameters, one after the other."""
    return torch.cat([each.grad.flatten() for each in parameters])


def give_back(flat: Tensor, parameters: list[nn.Parameter]) -> None:
    """Make each `grad` a view of its piece of a flat tensor."""
    pieces = flat.split([each.numel() for each in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)


# %% Buckets beside backward [markdown] exercise="u09-buckets" points=4 minutes=20 difficulty=4 importance=5
# **Write** `backward_in_buckets`. Gradients wait in the order in which they become complete. As soon as those waiting have *at least* `bucket_bytes`, they are sent: one flat tensor, one asynchronous all-reduce. Send the remainder after backward. Two parts earn half each:
#
# - *buckets*: their number, bytes and order. Every rank ends with the whole batch's gradients in `grad`, including what was there before.
# - *overlap*: the same buckets, each sent at the earliest moment, and backward never waits.
#
# Divide nothing. On every rank, every parameter gets a gradient. You may change the given frame.
#
# *By hand:* gradients of 64, 96 and 48 bytes, complete in this order, `bucket_bytes=96` → buckets of **160** and **48** bytes.


# %% solution="u09-buckets"
def backward_in_buckets(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward, with an all-reduce of each bucket as soon as it is full."""
    bucket: list[nn.Parameter] = []  # complete, and not sent yet
    travelling = []  # of each bucket that left: handle, flat tensor, its parameters

    def start() -> None:
        ### BEGIN SOLUTION
        flat = joined(bucket)
        travelling.append((comm.all_reduce(flat, async_op=True), flat, bucket.copy()))
        bucket.clear()
        ### END SOLUTION

    def hook(parameter: nn.Parameter) -> None:
        ### BEGIN SOLUTION
        bucket.append(parameter)
        if sum(each.grad.nbytes for each in bucket) >= bucket_bytes:
            start()
        ### END SOLUTION

    with hooks_on(model, hook):
        loss.backward()
    ### BEGIN SOLUTION
    if bucket:
        start()
    for call, flat, members in travelling:
        call.wait()
        give_back(flat, members)
    ### END SOLUTION


# %% folded=true
# Harness: the bytes of each bucket of three layers
slow = Network(inside=Link(latency_seconds=1.0, bandwidth_bytes_per_second=8.0))


def buckets_of_three_layers(backward_in_buckets, bucket_bytes):
    def step(comm, model):
        rows = torch.full((2, 2), 1.0 + comm.rank, dtype=torch.float64)
        loss = model(rows).square().mean() / comm.size
        backward_in_buckets(comm, model, loss, bucket_bytes)

    run = VirtualCluster(2, network=slow, flops_per_second=4.0).run(step, three_layers())
    return [event.num_bytes for event in run.communications()]


# %%
try_it(buckets_of_three_layers, backward_in_buckets, 96)
try_it(buckets_of_three_layers, backward_in_buckets, 1)

# %% check="u09-buckets"
# Gradients in float64; number, bytes and order of the buckets; when each leaves; the virtual time of the step.

# %% [markdown]
# <details><summary>Hint: split_sizes=[], or a list that is empty later</summary>
#
# What does a list that you stored hold after you have cleared it?
# </details>
#
# <details><summary>Hint: my gradients are those of one rank</summary>
#
# Is the flat tensor the memory of your gradients, or a copy? When may you read it?
# </details>

# %% [markdown]
# **Compare with** the picture at the top: Llama-3.2-1B, 4,096 tokens on each of eight ranks.


# %% folded=true
# Measured: a step of Llama-3.2-1B, three ways (some 20 seconds)
def step_of_llama(comm, trainer):
    model = Transformer(preset("Llama-3.2-1B"), "meta", torch.bfloat16)
    tokens = torch.empty(1, 4096, dtype=torch.long, device="meta")
    trainer(comm, model, token_loss(model(tokens), tokens))


each_of = answer("u09-each", backward_each)
buckets_of = answer("u09-buckets", backward_in_buckets)
everything = 2**40  # bytes: a bucket that is never full is one call at the end
trainers = {
    "one call each": each_of,
    "one call": lambda comm, model, loss: buckets_of(comm, model, loss, everything),
    "25 MiB": lambda comm, model, loss: buckets_of(comm, model, loss, 25 * 2**20),
}
llama_runs = {name: VirtualCluster(8).run(step_of_llama, way) for name, way in trainers.items()}
cluster_timelines(llama_runs)

# %% [markdown]
# One call for each of 146 gradients pays the latency 146 times: 20 ms more. Buckets hide all but the **tail** after backward, 4.9 ms. Nearly all of it is the embedding's: a fifth of the bytes, and last to finish. On two real GPUs (`rtx3090x2_ddp_overlap`, MIT) it is last, too:

# %% folded=true tags=["nbval-check-output"]
# Measured: the last all-reduce of a trainer like `backward_each`, one in 111
for rank, events in by_rank(recorded_trace("rtx3090x2_ddp_overlap")).items():
    *_, tail = sorted(communicating(events), key=lambda each: each["start_ns"])
    others = [each for each in events if each is not tail]
    exposed = exposed_seconds(events) - exposed_seconds(others)
    size, taken = tail["bytes"] / 1e6, 1e3 * seconds_of(tail)
    print(
        f"rank {rank}: {tail['phase']}, {size:.0f} MB in {taken:.1f} ms, {1e3 * exposed:.1f} exposed"
    )

# %% [markdown]
# **Guess first.** Of six equal layers, two travel in each bucket. How many full sets of gradients are in memory at the peak?

# %%
predict("u09-sets", None, "sets")


# %% folded=true tags=["nbval-check-output"]
# Measured: sets of gradients at the peak
def sets_at_peak(trainer):
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    loss = model(torch.ones(1, 256)).sum()
    trace = trace_memory(lambda: trainer(NullComm(), model, loss), model)
    return round((trace.peak_bytes - trace.total_bytes[0]) / trace.total_bytes[0], 1)


two_layers = sets_at_peak(lambda comm, model, loss: buckets_of(comm, model, loss, 2**19))
print("gradient by gradient:", sets_at_peak(each_of))
compare("u09-sets", "sets", measured=two_layers)

# %% [markdown]
# Two sets, whatever the size of a bucket: each is a copy, and lives beside the gradients until sums are handed back. So data parallelism can cost memory. In published runs (Hugging Face's *Ultra-Scale Playbook*) each GPU held 36.66 GB, with 8 GPUs or 256 (B11).

# %% [markdown]
# ### The same step in PyTorch
#
# `DistributedDataParallel`, **DDP**, is what you wrote, mostly in C++. The names in its source:
#
# | name | what it is |
# |---|---|
# | `Reducer` | sets the hooks, fills the buckets, starts their all-reduces |
# | `bucket_cap_mb` | 25 by default, and 1 MiB for the first bucket |
# | `mul_out` | divides a gradient by $d$ first: the average of means |
# | `gradient_as_bucket_view` | each `grad` is a view of its bucket |
# | `find_unused_parameters` | marks unused parameters as ready |
# | `torchrun` | starts a process per device, as `run_ranks` does here |
#
# A **profiler** records when each operation ran, here in a step of DDP on two processes of this machine:


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: a trace of DDP, and three times beside it (some 10 seconds)
def traced_step(comm):
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(8)))
    wrapped = DistributedDataParallel(model, bucket_cap_mb=2)
    inputs, all_gradients = torch.ones(256, 512), torch.ones(8 * 512**2)

    def backward_alone():
        with wrapped.no_sync():
            wrapped(inputs).sum().backward()

    def both():
        wrapped(inputs).sum().backward()

    milliseconds = {}
    calls = {"no_sync": backward_alone, "all_reduce": lambda: comm.all_reduce(all_gradients)}
    for _ in range(9):
        for name, call in {**calls, "both": both}.items():
            comm.barrier()
            start = time.perf_counter()
            call()
            taken = 1e3 * (time.perf_counter() - start)
            milliseconds[name] = min(taken, milliseconds.get(name, taken))
    comm.barrier()
    with profile() as seen:
        both()
    events = [(e.name, e.time_range.start, e.time_range.elapsed_us()) for e in seen.events()]
    return milliseconds, [(name, at / 1e3, lasts / 1e3) for name, at, lasts in events]


def draw_trace(events):
    lanes = {
        "MmBackward0": colours.COMPUTE,
        "torch::distributed::reducer::mul_out": colours.GRADIENTS,
        "gloo:all_reduce": colours.COMMUNICATION,
        "torch.distributed.ddp.reducer::copy_bucket_to_grad": colours.OPTIMIZER_STATES,
    }
    figure, ax = axes(height=2.4)
    spans = [[(at, lasts) for name, at, lasts in events if name == lane] for lane in lanes]
    for row, (each, colour) in enumerate(zip(spans, lanes.values(), strict=True)):
        ax.broken_barh(each, (-row - 0.3, 0.6), facecolor=colour, edgecolor=colour, linewidth=1)
    ax.set_yticks([0, -1, -2, -3], [lane.split("::")[-1] for lane in lanes])
    ax.set_xlim(left=min(at for at, _ in spans[0]))
    ax.set_xlabel("ms since the profiler started")
    return Picture(figure, "The backward pass of one DDP step, as the profiler saw it on rank 0.")


times_of_ddp, trace_of_ddp = run_ranks(traced_step, 2)[0]
print(f"forward and backward {times_of_ddp['no_sync']:6.1f} ms")
print(f"exchange             {times_of_ddp['all_reduce']:6.1f} ms")
print(f"a step of DDP        {times_of_ddp['both']:6.1f} ms")
draw_trace(trace_of_ddp)

# %% [markdown]
# Products (`MmBackward0`) go on while `gloo:all_reduce` runs (gloo is PyTorch's library for CPUs). Yet a step usually takes as long as both together: sending needs the two cores that compute. On a GPU, products and messages are **kernels** in two **streams**, queues that run side by side, and the effect is smaller.

# %% [markdown]
# ## Accumulation on top
#
# A rank may split its share into micro-batches (B9): $B$ = micro-batch · accumulation · ranks. Gradients add up in `grad`, so one exchange is enough. In DDP, `with model.no_sync():` wraps all micro-batches but the last: its hooks then only accumulate.
#
# **Guess first:** 8,192 tokens of a rank as one, two or eight micro-batches, on slow links. Which hides most of the exchange?

# %% folded=true
# Figure: sixteen layers on four ranks with slow links
between_nodes = Network(inside=Link(latency_seconds=20e-6, bandwidth_bytes_per_second=25e9))


def stack_step(comm, model, tokens, bucket_bytes):
    rows = torch.empty(tokens, model[0].in_features, dtype=torch.bfloat16, device="meta")
    buckets_of(comm, model, model(rows).sum() / comm.size, bucket_bytes)


def stack_of(num_layers, width):
    options = {"bias": False, "dtype": torch.bfloat16, "device": "meta"}
    return nn.Sequential(*(nn.Linear(width, width, **options) for _ in range(num_layers)))


def accumulated_step(comm, model, num_micro_batches, tokens):
    rows = torch.empty(tokens, 1024, dtype=torch.bfloat16, device="meta")
    micro_batches = [lambda: model(rows).sum() / comm.size] * num_micro_batches
    together_of_course(comm, model, micro_batches, lambda *given: buckets_of(*given, 2**22))


accumulation_runs = {
    f"{m} x {8192 // m:,} tokens": VirtualCluster(4, network=between_nodes).run(
        accumulated_step, stack_of(16, 1024), m, 8192 // m
    )
    for m in (1, 2, 8)
}
cluster_timelines(accumulation_runs)

# %% [markdown]
# The exchange hides behind the *last* micro-batch alone, so smaller micro-batches expose more. Accumulation pays only when it makes the batch **larger**.
#
# For shares, first count the targets of all ranks *and* micro-batches.

# %% [markdown]
# ## When can communication no longer be hidden?
#
# A rank sends $2(d-1)/d$ times the gradients' bytes, with bandwidth $W$. Backward takes $4N$ FLOPs for each token, at $F$ FLOP/s. Leave out latency, attention and the tail.

# %% The fewest tokens that hide it [markdown] exercise="u09-hidden" points=2 minutes=10 difficulty=3 importance=4
# **Write** `min_tokens`: the fewest tokens on each rank for which the all-reduce takes no longer than backward. An exact `int`, all or nothing. All arguments are whole numbers; a float can be off by one.
#
# *By hand:* 1,024 parameters of 2 bytes on 4 ranks: 3,072 bytes take 48 seconds at 64 bytes/s. 4,096 FLOPs for a token take 8 seconds at 512 FLOP/s → **6**. On one rank: **0**.


# %% solution="u09-hidden"
def min_tokens(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> int:
    """Tokens on each rank whose backward pass is as long as the all-reduce."""
    ### BEGIN SOLUTION
    dividend = bytes_per_element * (num_ranks - 1) * flops_per_second
    divisor = 2 * num_ranks * bytes_per_second
    return -(-dividend // divisor)
    ### END SOLUTION


# %%
try_it(min_tokens, 1024, 4, 2, 64, 512)

# %% check="u09-hidden"
# Against a search on the two times in fractions: one rank and many; slow and fast links; divisions with a remainder and without.

# %% [markdown]
# **Compare with** your buckets, 32 layers on eight ranks:

# %% folded=true
# Figure: exposed communication over the tokens of a rank
min_tokens_of = answer("u09-hidden", min_tokens)
token_counts = [2**power for power in range(8, 15)]
token_runs = {
    tokens: VirtualCluster(8).run(stack_step, stack_of(32, 4096), tokens, 2**26)
    for tokens in token_counts
}
exposed_over_tokens(token_runs, min_tokens_of(32 * 4096**2, 8, 2, 200 * 10**9, 400 * 10**12))

# %% [markdown]
# Well to the right of the line only the tail is left; just beside it latency still shows. The parameters cancel:
#
# $$\frac{\text{all-reduce}}{\text{backward}} = \text{bytes per element} \cdot \frac{d-1}{d} \cdot \frac{F}{2 \cdot \text{tokens} \cdot W}$$
#
# What counts is tokens per rank, and device speed over link speed:

# %% folded=true tags=["nbval-check-output"]
# Table: fewest tokens on each rank, by ranks
links = {"200 GB/s, inside a node": 200 * 10**9, "25 GB/s, between nodes": 25 * 10**9}
rows = {
    name: {ranks: min_tokens_of(10**9, ranks, 2, rate, 400 * 10**12) for ranks in (2, 8, 64, 1024)}
    for name, rate in links.items()
}
pd.DataFrame(rows).T.rename_axis(columns="tokens on each rank, by ranks")

# %% [markdown]
# Your plan's micro-batch has 8,192, so its exchange hides; at the 445 GB/s of its node 779 suffice.
#
# <details><summary>From the slides: why your ratio has no number of parameters</summary>
#
# The lectures' *Playbook* keeps a number of parameters in this ratio and drops the bytes of an element.
# </details>

# %% [markdown]
# ## How far does it scale?
#
# **Strong scaling** keeps the batch and adds devices (S16). **Weak scaling** keeps the work per device, and the batch grows. We compute both for 32 layers in 16 buckets, with links of 5 µs and 160 GB/s.
#
# Beside them: a 1.34B model on nodes of eight H100 (B11, *Playbook*). **Guess first.** What share of its 8-GPU rate does a GPU keep at 256?

# %%
predict("u09-256", None, "per cent")


# %% folded=true
# Figure: what a device keeps of its rate, computed and published
def virtual_rates(tokens_of_rank, latency_seconds=5e-6):
    """Tokens per second of each device; two run, with a link that takes a whole ring's time."""
    rates = {}
    for num_devices in measured_rates:
        tokens, others = tokens_of_rank(num_devices), num_devices - 1
        # A ring of d takes 2 (d - 1) latency + 2 (d - 1) / d bytes / bandwidth, and a ring of two
        # 2 latency + bytes / bandwidth. So the two need (d - 1) latency, d / (2 (d - 1)) bandwidth.
        ring = Link(
            latency_seconds=latency_seconds * others,
            bandwidth_bytes_per_second=160e9 * num_devices / (2 * others),
        )
        cluster = VirtualCluster(2, network=Network(inside=ring))
        run = cluster.run(stack_step, stack_of(32, 4096), tokens, 2**26)
        rates[num_devices] = tokens / run.step_seconds
    return rates


def tokens_if_shared(num_devices):
    return 2**19 // num_devices


measured_rates = {
    8: 40_149.94,
    16: 37_609.69,
    32: 35_367.61,
    64: 31_112.23,
    128: 26_446.44,
    256: 15_700.38,
}
rates = {
    "published (tokens not stated)": measured_rates,
    "weak: 16,384 tokens each": virtual_rates(lambda num_devices: 16_384),
    "strong: 524,288 tokens in all": virtual_rates(tokens_if_shared),
    "strong, without latency": virtual_rates(tokens_if_shared, latency_seconds=0),
}
tokens_per_second_over_devices(rates)

# %% folded=true tags=["nbval-check-output"]
# Published against computed: 256 GPUs
compare(
    "u09-256",
    "per cent",
    computed=100 * rates["weak: 16,384 tokens each"][256] / rates["weak: 16,384 tokens each"][8],
    measured=100 * measured_rates[256] / measured_rates[8],
)

# %% [markdown]
# With the bus bandwidth that the *Playbook* measured, and your `min_tokens` for it:

# %% folded=true tags=["nbval-check-output"]
# Table: rates in per cent of 8 devices, published bandwidths, and tokens
kept = {
    name.split(":")[0].split(" (")[0]: {n: round(100 * each / rate[8]) for n, each in rate.items()}
    for name, rate in rates.items()
}
bus_gb_per_second = {8: 436, 16: 362, 32: 160, 64: 99.6, 128: 84.7, 256: 64.9}


def fewest_tokens(num_devices, gb_per_second):
    rate = round(gb_per_second * 10**9)
    return min_tokens_of(32 * 4096**2, num_devices, 2, rate, 400 * 10**12)


columns = {
    **kept,
    "published bus bandwidth, GB/s": bus_gb_per_second,
    "min_tokens with it": {n: fewest_tokens(n, w) for n, w in bus_gb_per_second.items()},
}
pd.DataFrame(columns).rename_axis("devices").T.map("{:,.0f}".format)

# %% [markdown]
# ## Eight GPUs on one clock
#
# The authors of modded-nanogpt recorded a step on eight H100s twice (`h100x8_nanogpt_before` and `_after`, MIT): with gradients reduced in the optimizer, and from backward hooks, like yours. Before, 4.38 of 5.85 ms of communication were exposed. **Guess first.** How many ms are exposed with hooks?

# %%
predict("u09-hooks", None, "ms")

# %% folded=true tags=["nbval-check-output"]
# Measured: exposed communication of rank 0, and what followed its backward pass
runs_of_rank_0 = {
    name: select(recorded_trace(f"h100x8_nanogpt_{name}"), kind=GPU_WORK)
    for name in ("before", "after")
}
for name, events in runs_of_rank_0.items():
    milliseconds = [1e3 * busy_seconds(communicating(events)), 1e3 * exposed_seconds(events)]
    print("{}: {:.2f} ms of communication, {:.2f} of them exposed".format(name, *milliseconds))
hooked = runs_of_rank_0["after"]
backward_end = max(each["end_ns"] for each in select(hooked, phase="backward"))
first_message = min(each["start_ns"] for each in communicating(hooked))
print(f"first message {(first_message - backward_end) / 1e6:.2f} ms after the end of backward")
display(compare("u09-hooks", "ms", measured=round(1e3 * exposed_seconds(hooked), 2)))
trace_lanes(
    [each for each in hooked if each["start_ns"] > backward_end - 2e6],
    "Rank 0 with hooks: two ms of backward, then stream 23 communicates, mostly alone.",
)

# %% [markdown]
# No message leaves before backward is over: `torch.compile` makes it one operation, and hooks run after that.


# %% folded=true tags=["nbval-check-output"]
# Table: each kind of message, shortest to longest, and the bus bandwidth of the shortest
def times_of_messages(events):
    found = {}
    for each in communicating(events):
        found.setdefault((collective_of(each), each["bytes"]), []).append(each)
    rows = {}
    for (collective, num_bytes), some in sorted(found.items()):
        if num_bytes == 256 or num_bytes > 10**6:
            some.sort(key=seconds_of)
            shortest, longest = (1e6 * seconds_of(some[place]) for place in (0, -1))
            rate = bus_bytes_per_second(some[0], 8) / 1e9
            cells = [f"{shortest:,.0f} to {longest:,.0f}", f"{rate:,.0f}"]
            rows[f"{collective}, {num_bytes:,} bytes"] = cells
    return pd.DataFrame(rows, index=["µs", "GB/s"]).T


pd.concat({name: times_of_messages(each) for name, each in runs_of_rank_0.items()}, axis=1)

# %% [markdown]
# Gathers of 151 MB reach 278 GB/s. But why does a scatter of 256 *bytes* take 1,167 µs in one run, and 52 in the other? It was the first message of its step. No rank leaves a collective before the last one has arrived: a rank that arrives early waits *inside*. So hooks hid nothing here: the whole millisecond is one wait. Only the traces of all ranks tell waiting from transfer (`h100x8_nanogpt_8ranks`, another step; one clock, good to some 20 µs):

# %% folded=true tags=["nbval-check-output"]
# Table: ms that each rank spends in collectives
eight = by_rank(recorded_trace("h100x8_nanogpt_8ranks"))
in_collectives = {r: 1e3 * busy_seconds(communicating(each)) for r, each in eight.items()}
pd.DataFrame({"ms in collectives": in_collectives}).rename_axis("rank").T.round(1)

# %% [markdown]
# **Guess first.** Which rank holds up the others?

# %%
predict("u09-straggler", None, "rank")

# %% Who is late? [markdown] exercise="u09-late" points=1.5 minutes=12 difficulty=3 importance=5
# **Write** `who_is_late`, from the collectives of all ranks in one step. A third of the points each:
#
# - `straggler`: the rank that costs the others the most waiting: sum, over collectives in which it comes last, what each other rank waits.
# - `waiting_ns`: how long `rank` waits in all, each time from its start to the last rank's.
# - `saved_ns`: how much shorter the step would be if the straggler, wherever it comes last, arrived at the same moment as the second-to-last rank. Assume that all that follows moves forward by as much.
#
# Events, with `rank`, `start_ns` and `end_ns`, come in any order. All ranks call the same collectives in the same order. In each, one alone comes last.
#
# *By hand:* three ranks start a gather at 0, 40 and 30, the next at 60, 85 and 90. For rank 1 the others wait 40 + 10, for rank 2 30 + 5. `rank=0` → **1**, **70** and **10**; the last is 40 − 30.


# %% solution="u09-late"
def who_is_late(events: list[dict], rank: int) -> dict[str, int]:
    """The straggler; nanoseconds that a rank waits, and that the step would be shorter."""
    ### BEGIN SOLUTION
    calls_of: dict[int, list[dict]] = {}
    for event in sorted(events, key=lambda each: each["start_ns"]):
        calls_of.setdefault(event["rank"], []).append(event)
    caused, saved = dict.fromkeys(calls_of, 0), dict.fromkeys(calls_of, 0)
    waiting_ns = 0
    for call in zip(*calls_of.values(), strict=True):
        *others, last = sorted(call, key=lambda each: each["start_ns"])
        waits = {each["rank"]: last["start_ns"] - each["start_ns"] for each in call}
        caused[last["rank"]] += sum(waits.values())
        saved[last["rank"]] += waits[others[-1]["rank"]]
        waiting_ns += waits[rank]
    straggler = max(caused, key=lambda each: caused[each])
    return {"straggler": straggler, "waiting_ns": waiting_ns, "saved_ns": saved[straggler]}
    ### END SOLUTION


# %% folded=true
# Given: the events of the worked case
two_collectives = [
    {"rank": rank, "name": "AllGather", "bytes": 64, "start_ns": start, "end_ns": end}
    for call in (
        [(0, 55), (40, 54), (30, 56)],
        [(60, 101), (85, 103), (90, 102)],
    )
    for rank, (start, end) in enumerate(call)
]

# %%
try_it(who_is_late, two_collectives, 0)

# %% check="u09-late"
# Some ranks and collectives of the recorded step; made steps in which another rank looks guilty.

# %% [markdown]
# **Check your guess:**

# %% folded=true tags=["nbval-check-output"]
# Measured: who waits, who computes, and how far each CPU is ahead of its GPU
late_of = answer("u09-late", who_is_late)
calls = [each for events in eight.values() for each in communicating(events)]
found = {rank: late_of(calls, rank) for rank in eight}
straggler = found[0]["straggler"]
last_calls = {r: max(communicating(e), key=lambda c: c["start_ns"]) for r, e in eight.items()}
step_ms = 1e3 * span_seconds([each for events in eight.values() for each in events])
launches_ms = {r: each["launch_ns"] / 1e6 for r, each in last_calls.items() if r != straggler}
next_rank = max(launches_ms, key=launches_ms.get)
tail_ms = step_ms - last_calls[straggler]["start_ns"] / 1e6
print(f"saved_ns: {found[0]['saved_ns'] / 1e6:.1f} ms of {step_ms:.1f}")
print(
    f"rank {next_rank} launches its last gather at {launches_ms[next_rank]:.1f} ms, and the step "
    f"ends {tail_ms:.1f} ms after one: {step_ms - launches_ms[next_rank] - tail_ms:.1f} ms saved"
)
early = {r: [each for each in e if each["start_ns"] < 15e6] for r, e in eight.items()}
columns = {
    "in collectives, ms": in_collectives,
    "of them waiting, ms": {rank: each["waiting_ns"] / 1e6 for rank, each in found.items()},
    "computing, ms": {rank: 1e3 * busy_seconds(computing(e)) for rank, e in eight.items()},
    "idle in the first 15 ms, ms": {
        rank: 1e3 * (span_seconds(each) - busy_seconds(each)) for rank, each in early.items()
    },
    "last gather after its launch, ms": {r: 1e3 * queue_seconds(c) for r, c in last_calls.items()},
}
display(pd.DataFrame(columns).rename_axis("rank").T.round(2))
compare("u09-straggler", "rank", measured=straggler, is_label=True)

# %% folded=true tags=["nbval-check-output"]
# Figure: the last 20 ms of the step on all ranks
trace_lanes(
    [each for events in eight.values() for each in events if each["start_ns"] > 28e6],
    "Rank 1 comes late to the first message and to the last ones; the others wait inside them.",
)

# %% [markdown]
# Rank 1 spends the least time in collectives *because* nobody makes it wait. Its GPU computes as long as the others, but was idle for 6 ms early in the step, and at the end each gather starts as soon as its **CPU** launches it (rank 3's waits 39 ms). A quick rank 1 saves **at most** 9.3 ms: ranks 0 and 2 are little faster, and would hold it up next, after 3.6. Faster links would not help: of 18 ms, 4.4 are transfer.

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% Where does it end? [markdown] exercise="u09-scaling" points=2 minutes=9 difficulty=3 importance=5 extra=true
# **Write** three to five sentences, with numbers from *How far does it scale?*
#
# 1. How does published throughput on 256 GPUs compare with 8, per GPU and in all?
# 2. What bends the virtual cluster's strong scaling at 128 devices? (Compare strong with and without latency.)
# 3. What does the published bandwidth do as GPUs are added, and what would you change so that the exchange stays hidden?

# %% [markdown] text_answer="u09-scaling"
# <!-- BEGIN SOLUTION -->
# On 256 each GPU keeps 39 % of its rate. Together they do 32 · 0.39, or 12.5 times the work of 8, instead of 32 times. In strong scaling it is latency: without it a device keeps 98 % at 128, with it 71. The published bandwidth falls with every doubling, from 436 to 65 GB/s, so hiding an exchange takes 6,140 tokens on each rank instead of 803. So I would give each rank more tokens before an exchange, as far as the critical batch size allows.
#
# *Rubric:* half a point for the numbers (39 % and about 12.5 times); half for latency at 128; half for bandwidth that falls; half for a change with its reason (more tokens on each rank, as `min_tokens` grows).
# <!-- END SOLUTION -->

# %% One exchange for many micro-batches [markdown] exercise="u09-no-sync" points=1.5 minutes=7 difficulty=2 importance=4 extra=true
# **Write** `accumulate_together`: the gradient of the whole batch on every rank, from several micro-batches on each. All or nothing.
#
# - Each of `micro_batches`, functions without arguments, runs forward and returns this rank's share of the global mean loss. Call each once, in order, with one micro-batch in memory at a time. The list stays as it is.
# - `backward(comm, model, loss)` runs backward and sums *what is then in* `grad` over all ranks. Call it once, with the last loss: it may send in its hooks.
#
# *By hand:* two ranks, three micro-batches each, three parameters sent singly → **3** collectives.


# %% solution="u09-no-sync"
def accumulate_together(
    comm: Comm,
    model: nn.Module,
    micro_batches: list[Callable[[], Tensor]],
    backward: Callable[[Comm, nn.Module, Tensor], None],
) -> None:
    """Gradients of several micro-batches on each rank, exchanged once."""
    ### BEGIN SOLUTION
    *earlier, last = micro_batches
    for micro_batch in earlier:
        micro_batch().backward()
    backward(comm, model, last())
    ### END SOLUTION


# %% folded=true
# Harness: how many collectives does a rank call?
def collectives_together(accumulate_together, num_micro_batches):
    def step(comm, model):
        row = torch.ones(1, 2, dtype=torch.float64)
        micro_batches = [lambda: model(row).sum() / comm.size] * num_micro_batches
        accumulate_together(comm, model, micro_batches, each_of)

    return len(VirtualCluster(2).run(step, three_layers()).communications())


# %%
try_it(collectives_together, accumulate_together, 3)

# %% check="u09-no-sync"
# Gradients in float64; collectives and bytes; how many micro-batches are in memory at once.

# %% [markdown]
# ### All of it at once
#
# Sixteen layers of 2 MiB, your buckets. Is there a setting with an efficiency (computing over step) above 95 % at 512 tokens?


# %% folded=true
# Explorer: run this cell, then move the controls
def data_parallel_plan(ranks, link_gb_per_second, latency_us, bucket_mib, tokens_per_rank):
    link = Link(
        latency_seconds=latency_us / 10**6,
        bandwidth_bytes_per_second=link_gb_per_second * 10**9,
    )
    cluster = VirtualCluster(ranks, network=Network(inside=link))
    run = cluster.run(stack_step, stack_of(16, 1024), tokens_per_rank, bucket_mib * 2**20)
    picture = cluster_timeline(run, ranks=[0], limit_seconds=2 * run.compute_seconds())
    efficiency = run.compute_seconds() / run.step_seconds
    return Picture(picture.figure, f"Efficiency {efficiency:.0%}. {picture.caption}")


explorer(
    data_parallel_plan,
    ranks=Choice("ranks", [2, 4, 8], 4),
    link_gb_per_second=Choice("link, GB/s", [10, 25, 50, 100, 200, 400], 100),
    latency_us=Choice("latency, µs", [0, 2, 10, 50], 10),
    bucket_mib=Choice("bucket, MiB", [2, 4, 8, 16, 32], 4),
    tokens_per_rank=Choice("tokens on each rank", [512, 2_048, 8_192, 32_768], 8_192),
)

# %% [markdown]
# <details><summary>Is there one?</summary>
#
# No: 94 % is the best. The last bucket has nothing to hide behind.
# </details>

# %% [markdown]
# ### How large should a bucket be?
#
# Forty-eight small layers on eight ranks:


# %% folded=true
# Figure: the step over the size of a bucket
def bucket_sweep(latency_seconds):
    link = Link(latency_seconds=latency_seconds, bandwidth_bytes_per_second=200e9)
    cluster, sizes = VirtualCluster(8, network=Network(inside=link)), [2**n for n in range(21, 28)]
    runs = {size: cluster.run(stack_step, stack_of(48, 1024), 8192, size) for size in sizes}
    return {size: run.step_seconds for size, run in runs.items()}


sweeps = {"latency 10 µs": bucket_sweep(10e-6), "latency 2 µs": bucket_sweep(2e-6)}
compute_seconds = VirtualCluster(1).run(stack_step, stack_of(48, 1024), 8192, 1).step_seconds
step_over_bucket_bytes(sweeps, compute_seconds)

# %% [markdown]
# Small buckets pay latency; large ones have a long tail.

# %% [markdown]
# ### Write the ring
#
# `comm.send(part, to)` and `comm.receive(buffer, source)` wait for each other. A turn:


# %%
def pass_on(comm: Comm, outgoing: Tensor, arrived: Tensor) -> None:
    """Send a part to the next rank, and fill another with what the rank before sends."""
    sending = comm.send(outgoing, (comm.rank + 1) % comm.size, async_op=True)
    comm.receive(arrived, (comm.rank - 1) % comm.size)
    sending.wait()


# %% A ring [markdown] exercise="u09-ring" points=3 minutes=24 difficulty=4 importance=4 extra=true
# **Write** the turns of `ring_all_reduce`, which sums `tensor` over all ranks, in place, by messages alone, without a barrier. Even parts, uneven parts, and fewer numbers than ranks (or one rank) earn a third each.
#
# - Each turn has one `pass_on` (or messages of your own).
# - `parts` is a list of **views** of the tensor. They may differ in length by one, and be empty.
# - Each rank sends $2(d-1)$ messages, empty ones too, none with more than $\lceil n/d \rceil$ of the tensor's $n$ numbers, and all send and receive at once.
#
# The tensor may have several dimensions. A number that is infinite on a rank is infinite in the sum.
#
# *By hand:* six float64 numbers, three ranks → **4** messages of **16** bytes from each.


# %% solution="u09-ring"
def ring_all_reduce(comm: Comm, tensor: Tensor) -> None:
    """Sum a contiguous tensor over all ranks, in place on each."""
    parts = list(tensor.view(-1).tensor_split(comm.size))
    for turn in range(2 * (comm.size - 1)):
        ### BEGIN SOLUTION
        mine = parts[(comm.rank - turn - 1) % comm.size]
        theirs = torch.empty_like(mine)
        pass_on(comm, parts[(comm.rank - turn) % comm.size], theirs)
        if turn < comm.size - 1:
            mine += theirs
        else:
            mine.copy_(theirs)
        ### END SOLUTION


# %% folded=true
# Harness: six numbers on three ranks
def on_three_ranks(ring_all_reduce):
    def rank(comm):
        tensor = torch.full((6,), 10.0**comm.rank, dtype=torch.float64)
        ring_all_reduce(comm, tensor)
        return tensor.tolist()

    run = VirtualCluster(3).run(rank)
    sent = [each.num_bytes for each in run.sent_by(0)]
    return {"bytes of the messages of rank 0": sent, **dict(enumerate(run.results))}


# %%
try_it(on_three_ranks, ring_all_reduce)

# %% check="u09-ring"
# Sums, messages, bytes and virtual time: even and uneven parts, fewer numbers than ranks, one rank.

# %% folded=true tags=["nbval-check-output"]
# Measured: bytes that one of 16 ranks sends
ring_of = answer("u09-ring", ring_all_reduce)
num_bytes = 160_000_000
network = Network(inside=Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9))


def run_sum(way, num_ranks):
    cluster = VirtualCluster(num_ranks, network=network)
    return cluster.run(lambda comm: way(comm, torch.empty(num_bytes // 4, device="meta")))


rings = {num_ranks: run_sum(ring_of, num_ranks) for num_ranks in (2, 4, 8, 16)}
sent = sum(each.num_bytes for each in rings[16].sent_by(0))
print(f"each of 16 ranks sends {sent / num_bytes:.3f} times the tensor")

# %% [markdown]
# ### One call for all gradients

# %% One buffer [markdown] exercise="u09-flat" points=2 minutes=7 difficulty=2 importance=3 extra=true
# **Write** `backward_flat`: as `backward_each`, with **one** all-reduce of one buffer that holds all gradients. Its four situations and memory earn equal shares.
#
# - Gradients and buffer have one precision.
# - A weight may be stored transposed: its gradient is not contiguous then.
# - Afterwards each `grad` has its parameter's shape, as a view of the buffer or on its own.
# - At the peak there are the gradients and one buffer of their size; afterwards one of the two.
#
# *By hand:* three layers with biases, two ranks → **1** call.


# %% solution="u09-flat"
def backward_flat(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce of all gradients."""
    ### BEGIN SOLUTION
    loss.backward()
    gradients = gradients_or_zeros(model)
    buffer = torch.cat([each.flatten() for each in gradients])
    comm.all_reduce(buffer)
    summed = buffer.split([each.numel() for each in gradients])
    for each, part in zip(gradients, summed, strict=True):
        each.copy_(part.view_as(each))
    ### END SOLUTION


# %%
try_it(on_a_batch, backward_flat, 1)
try_it(on_a_batch, backward_flat, 2)

# %% check="u09-flat"
# Gradients in float64 on one rank to four; one call and its bytes; sets of gradients at the peak and afterwards.

# %% [markdown]
# ### Gradients that live in buckets
#
# A bucket that exists *before* backward costs no second set of gradients, if each `grad` is a view of it: backward adds into the bucket.

# %% Gradients that live in buckets [markdown] exercise="u09-memory" points=2 minutes=9 difficulty=3 importance=3 extra=true
# **Write** `make_buckets`, called before backward: make the buckets, flat tensors of zeros that require no gradient, and return them in a list. Every `grad` becomes a view of a piece of its bucket, in its parameter's shape. All or nothing.
#
# - Parameters go from the last to the first of `model.parameters()`; a bucket ends with the one that brings it to at least `bucket_bytes`, the last bucket with what is left.
# - Even at its peak, the call takes no more memory than one set of gradients.
# - All parameters require a gradient and have one precision, which buckets have too. Every `grad` starts as None.
#
# *By hand:* parameters of 48, 96 and 64 bytes from first to last, `bucket_bytes=96` → buckets of **160** and **48** bytes.


# %% solution="u09-memory"
def make_buckets(model: nn.Module, bucket_bytes: int) -> list[Tensor]:
    """Flat tensors of zeros, of which every `grad` becomes a view."""
    ### BEGIN SOLUTION
    groups: list[list[nn.Parameter]] = []
    num_bytes = bucket_bytes
    for parameter in reversed(list(model.parameters())):
        if num_bytes >= bucket_bytes:
            groups.append([])
            num_bytes = 0
        groups[-1].append(parameter)
        num_bytes += parameter.nbytes
    made = []
    for group in groups:
        lengths = [each.numel() for each in group]
        made.append(group[0].new_zeros(sum(lengths)))
        for each, view in zip(group, made[-1].split(lengths), strict=True):
            each.grad = view.view_as(each)
    return made
    ### END SOLUTION


# %% folded=true
# Harness: the buckets of three layers, after a backward pass
def filled_buckets(make_buckets, bucket_bytes):
    model = three_layers()
    buckets = make_buckets(model, bucket_bytes)
    model(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    return {
        "bytes": [each.nbytes for each in buckets],
        "numbers that backward has filled": [each.count_nonzero().item() for each in buckets],
    }


# %%
try_it(filled_buckets, make_buckets, 96)

# %% check="u09-memory"
# Buckets and their bytes; what backward fills; bytes at the peak of the call and afterwards.

# %% folded=true tags=["nbval-check-output"]
# Measured: sets of gradients at the peak, in copies and in views
make_buckets_of = answer("u09-memory", make_buckets)


def backward_in_place(comm, model, share):
    flat_buckets = make_buckets_of(model, 2**19)
    share.backward()
    for flat in flat_buckets:
        comm.all_reduce(flat)


ways_of_buckets = {
    "copies": lambda comm, model, loss: buckets_of(comm, model, loss, 2**19),
    "views": backward_in_place,
}
print({name: sets_at_peak(way) for name, way in ways_of_buckets.items()})

# %% [markdown]
# ### Equal weights, different dropout
#
# Ranks that begin with different weights never agree again; with the *same* random numbers, all drop the same units.

# %% Begin together [markdown] exercise="u09-dropout" points=1.5 minutes=8 difficulty=2 importance=3 extra=true
# **Write** `start_equal`. All or nothing.
#
# - Every rank gets the weights and buffers of rank 0, bit for bit, by `comm.broadcast(tensor, source)`.
# - Send each of `model.parameters()` and `model.buffers()` once, frozen, unsaved and integer ones too, and nothing else.
# - At the end, seed PyTorch's generator with `seed + rank`.
#
# *By hand:* layers from 2 to 3 and from 3 to 4 with biases, a buffer of 2, all in float64 → 5 tensors of **216** bytes together.


# %% solution="u09-dropout"
def start_equal(comm: Comm, model: nn.Module, seed: int) -> None:
    """Give all ranks equal weights, and different random numbers."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            comm.broadcast(tensor, source=0)
    torch.manual_seed(seed + comm.rank)
    ### END SOLUTION


# %% folded=true
# Harness: what each rank begins with
def begin(start_equal, num_ranks):
    def step(comm):
        torch.manual_seed(comm.rank)
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4)).double()
        model.register_buffer("scale", torch.rand(2, dtype=torch.float64))
        start_equal(comm, model, 7)
        return [
            round(each.item(), 3) for each in (model[0].bias[0], model.scale[0], torch.rand(()))
        ]

    run = VirtualCluster(num_ranks).run(step)
    num_bytes = sum(event.num_bytes for event in run.communications())
    return {"bytes": num_bytes, "weight, buffer, random number": run.results}


# %%
try_it(begin, start_equal, 3)

# %% check="u09-dropout"
# Weights and buffers of all ranks; random numbers; bytes that are sent.

# %% [markdown]
# ### Parameters that a rank does not use
#
# An expert that no token chose gets no gradient, and its hook never fires. So ranks agree beforehand on buckets of *parameters*.

# %% Unused and shared parameters [markdown] exercise="u09-unused" points=3.5 minutes=22 difficulty=4 importance=3 extra=true
# **Write** `backward_with_unused`. All or nothing.
#
# - Make the buckets beforehand, filled as by `make_buckets`. Shared parameters count once.
# - Send a bucket, in one asynchronous all-reduce, as soon as it is complete and all before it are sent. Backward never waits. What is left goes when it is over.
# - A gradient that a rank lacks counts as zeros. On every rank, every `grad` ends as the sum. No parameter is frozen; every `grad` starts as None.
# - Remove all hooks, even if backward raises.
#
# *By hand:* parameters of 48, 96 and 64 bytes from first to last, `bucket_bytes=96` → buckets of **160** and **48**, though rank 1 does not use the second parameter.


# %% solution="u09-unused"
def backward_with_unused(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward in buckets that all ranks know beforehand."""
    ### BEGIN SOLUTION
    buckets: list[list[Tensor]] = []
    room = 0
    for parameter in reversed(list(model.parameters())):
        if room <= 0:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(parameter)
        room -= parameter.nbytes
    complete: set[Tensor] = set()
    under_way = []

    def start_next() -> None:
        members = buckets[len(under_way)]
        for member in members:
            if member.grad is None:
                member.grad = torch.zeros_like(member)
        flat = joined(members)
        under_way.append((comm.all_reduce(flat, async_op=True), flat))

    def on_gradient(parameter: Tensor) -> None:
        complete.add(parameter)
        while len(under_way) < len(buckets) and complete.issuperset(buckets[len(under_way)]):
            start_next()

    with hooks_on(model, on_gradient):
        loss.backward()
    while len(under_way) < len(buckets):
        start_next()
    for members, (call, flat) in zip(buckets, under_way, strict=True):
        call.wait()
        give_back(flat, members)
    ### END SOLUTION


# %% folded=true
# Harness: two ranks, of which the second skips a layer
def unused_on_rank_1(backward_with_unused, bucket_bytes):
    def step(comm, model):
        first = model[0](torch.ones(1, 2, dtype=torch.float64))
        middle = model[1](first) if comm.rank == 0 else pad(first, (0, 1))
        backward_with_unused(comm, model, model[2](middle).sum() / comm.size, bucket_bytes)

    run = VirtualCluster(2).run(step, three_layers())
    return [event.num_bytes for event in run.communications()]


# %%
try_it(unused_on_rank_1, backward_with_unused, 96)

# %% check="u09-unused"
# Unused on one rank and on all; shared parameters; number, bytes and order of buckets; when each leaves.

# %% [markdown]
# ### Read the real thing
#
# Your lines beside PyTorch's:

# %% folded=true tags=["nbval-ignore-output"]
# Your trainer, and where DDP does the same
SideBySide(buckets_of, DDP_STEPS)

# %% [markdown]
# And question by question:

# %% folded=true tags=["nbval-ignore-output"]
# Excerpts of PyTorch: its reducer, and what stands around it
Excerpts(DDP_SOURCE)

# %% Predict DDP's buckets [markdown] exercise="u09-ddp-buckets" points=2 minutes=10 difficulty=3 importance=4 extra=true
# **Write** `ddp_buckets`: two lists with the bytes of DDP's buckets, in the first step and in later ones, in the order of sending. All or nothing.
#
# - `parameter_bytes` are in the order of definition. `arrival` lists their places in the order in which gradients arrive.
# - The excerpts say when there is only one bucket, and when buckets are rebuilt. `finds_unused` is `find_unused_parameters`: buckets are then filled in the order of definition, and their *list* is reversed.
# - The limit is `first_limit_bytes` for the first bucket that is filled, `limit_bytes` for others. A bucket ends with the gradient that brings it to *at least* its limit, the last with what is left.
#
# *By hand:* parameters of 48, 96 and 64 bytes that arrive in reverse, limits 40 and 100 → **208**, later **64** and **144**.


# %% solution="u09-ddp-buckets"
def ddp_buckets(
    parameter_bytes: list[int],
    arrival: list[int],
    first_limit_bytes: int,
    limit_bytes: int,
    finds_unused: bool,
) -> tuple[list[int], list[int]]:
    """Bytes of the buckets in the first step, and in later ones."""

    ### BEGIN SOLUTION
    def filled(sizes: list[int]) -> list[int]:
        full: list[int] = []
        waiting = 0
        for size in sizes:
            limit = limit_bytes if full else first_limit_bytes
            waiting += size
            if waiting >= limit:
                full.append(waiting)
                waiting = 0
        return [*full, waiting] if waiting else full

    if finds_unused:
        guessed = filled(parameter_bytes)[::-1]
        return guessed, guessed
    arrived = [parameter_bytes[place] for place in arrival]
    first = [sum(parameter_bytes)]
    return first, filled(arrived)
    ### END SOLUTION


# %%
try_it(ddp_buckets, [48, 96, 64], [2, 1, 0], 40, 100, False)
try_it(ddp_buckets, [48, 96, 64], [2, 1, 0], 40, 100, True)

# %% check="u09-ddp-buckets"
# Against PyTorch's own functions: arrival in any order, limits met exactly, unused parameters looked for or not.

# %% [markdown]
# **Compare with** ResNet-50 on two A100s (`a100x2_resnet50_ddp_buckets`, MIT). Why does the first bucket have 8.2 MB?


# %% folded=true tags=["nbval-check-output"]
# Measured: the all-reduces of ResNet-50, beside your prediction for its 161 parameters
def parameter_bytes_of_resnet():
    shapes, inputs = [(64, 3 * 49), (64,), (64,)], 64
    for num_blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(num_blocks):
            matrices = [(width, inputs), (width, 9 * width), (4 * width, width)]
            matrices += [(4 * width, inputs)] if block == 0 else []
            shapes += [each for rows, cols in matrices for each in ((rows, cols), (rows,), (rows,))]
            inputs = 4 * width
    return [4 * prod(shape) for shape in [*shapes, (1000, inputs), (1000,)]]


ddp_buckets_of = answer("u09-ddp-buckets", ddp_buckets)
resnet = parameter_bytes_of_resnet()
backwards = list(reversed(range(len(resnet))))
print("predicted", ddp_buckets_of(resnet, backwards, 2**20, 25 * 2**20, False)[1])
sent_by_ddp = select(recorded_trace("a100x2_resnet50_ddp_buckets"), name="*AllReduce*")
print("recorded ", [each["bytes"] for each in sent_by_ddp])
print(f"the last two parameters: {resnet[-1]:,} and {resnet[-2]:,} bytes")

# %% [markdown]
# And with the log of DDP on two processes:

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: what DDP logs of its buckets, beside your prediction (some 10 seconds)
logs = {flag: run_ranks(logged_buckets, 2, (256, 512, 768, 512), flag)[0] for flag in (False, True)}
for finds_unused, log in logs.items():
    predicted = ddp_buckets_of(
        log["parameter_bytes"], log["arrival"], 2**20, 25 * 2**20, finds_unused
    )
    print(f"find_unused_parameters={finds_unused}")
    for step, mine in zip(("first_step", "later_steps"), predicted, strict=True):
        print(f"  {step}: predicted {mine}, DDP's log {log[step]}")

# %% [markdown]
# A step on two processes, recorded:

# %% folded=true tags=["nbval-check-output"]
# Figure: five layers, four buckets, two of gloo's threads on each rank
recorded = recorded_trace("cpu2_ddp_step")
trace_lanes(
    recorded, "Two ranks in one step of a real DDP: operators, and each bucket on a thread of gloo."
)

# %% Read a real trace [markdown] exercise="u09-read-step" points=1.5 minutes=12 difficulty=3 importance=5 extra=true
# **Write** `read_step`, from the events of one rank, in any order. A third of the points each:
#
# - `first_bytes` of the bucket that is sent first,
# - `tail_ns` from the end of backward to the end of the last all-reduce,
# - `exposed_ns` in which at least one all-reduce runs and no operator does.
#
# `gloo:all_reduce` sends a bucket; `c10d::allreduce_` only hands it over. All but `gloo:all_reduce` are operators; names of backward's begin with `autograd::`.
#
# *By hand:* backward from 0 to 54 with a gap from 34 to 36, all-reduces from 33 to 60 (800 bytes) and 53 to 70 (400 bytes), a copy from 60 to 63 → **800**, **16** and **15**.


# %% solution="u09-read-step"
def read_step(events: list[dict]) -> dict[str, int]:
    """Bytes of the first bucket; nanoseconds of the tail and of exposed communication."""

    ### BEGIN SOLUTION
    def runs(some: list[dict], moment: int) -> bool:
        return any(each["start_ns"] <= moment < each["end_ns"] for each in some)

    sent = [each for each in events if each["name"] == "gloo:all_reduce"]
    others = [each for each in events if each not in sent]
    nodes = [each for each in others if each["name"].startswith("autograd::")]
    moments = sorted({each[key] for each in events for key in ("start_ns", "end_ns")})
    exposed_ns = 0
    for start, end in pairwise(moments):
        if runs(sent, start) and not runs(others, start):
            exposed_ns += end - start
    return {
        "first_bytes": min(sent, key=lambda each: each["start_ns"])["bytes"],
        "tail_ns": max(each["end_ns"] for each in sent) - max(each["end_ns"] for each in nodes),
        "exposed_ns": exposed_ns,
    }
    ### END SOLUTION


# %% folded=true
# Given: the events of the worked case
by_hand = [
    {"name": name, "start_ns": start, "end_ns": end, "bytes": num_bytes}
    for name, start, end, num_bytes in (
        ("autograd::engine::evaluate_function: MmBackward0", 0, 30, 0),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 30, 34, 0),
        ("c10d::allreduce_", 32, 33, 800),
        ("autograd::engine::evaluate_function: MmBackward0", 36, 50, 0),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 50, 54, 0),
        ("c10d::allreduce_", 52, 53, 400),
        ("gloo:all_reduce", 33, 60, 800),
        ("gloo:all_reduce", 53, 70, 400),
        ("torch.distributed.ddp.reducer::copy_bucket_to_grad", 60, 63, 0),
    )
]

# %%
try_it(read_step, by_hand)

# %% check="u09-read-step"
# Against the course's instrument: slow links and fast ones, last buckets that overtake, events in any order.

# %% folded=true tags=["nbval-check-output"]
# Compare with: DDP's log of its buckets, and what each rank's trace says
read_step_of = answer("u09-read-step", read_step)
print("DDP's log:", about("cpu2_ddp_step")["buckets by DDP's own log, in bytes"])
for rank, events in by_rank(recorded).items():
    found = read_step_of(events)
    milliseconds = {name: found[f"{name}_ns"] / 1e6 for name in ("tail", "exposed")}
    times = ", ".join(f"{name} {each:.1f} ms" for name, each in milliseconds.items())
    print(f"rank {rank}: first bucket {found['first_bytes']:,} bytes, {times}")

# %% [markdown]
# ## What you know now
#
# | quantity | formula |
# |---|---|
# | share of a rank | its summed loss / targets of all ranks and micro-batches |
# | all-reduce in a ring | $2(d-1)\,\lambda + 2\frac{d-1}{d}\,S/W$ |
# | all-reduce over backward | bytes per element · $\frac{d-1}{d} \cdot F / (2 \cdot \text{tokens} \cdot W)$ |
# | fewest tokens that hide it | bytes per element · $(d-1)\,F / (2\,d\,W)$ |
#
# **Your plan** can now say what eight devices cost: hardly any time, if each has a few thousand tokens in the micro-batch before an exchange. But each still holds all 128 GB of Llama-3-8B's state. **Sharding** gives each a part (unit 10).
#
# *Further reading:* Li et al. 2020, *PyTorch Distributed*, section 3 (20 minutes). Hugging Face, *The Ultra-Scale Playbook*, data parallelism (15 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("09")
