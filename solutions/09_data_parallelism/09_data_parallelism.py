# ---
# jupyter:
#   course:
#     title: Data parallelism
#     minutes: 120
#     device: CPU
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

# %% [markdown]
# # 09 · Data parallelism
#
# Several devices share the sequences of a batch, and all end with the same gradient. You write this, make it faster, and see on a clock what every device does.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture S (*Scaling LLM Training, Part I*): S16, S17, S18, hands-on S19; lecture B (*Building LLMs in Practice*): B9, B11; lecture E (*Efficient LLMs*): E4 | 120 minutes, and 60 for the extras | CPU | 01, 03, 08 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Weigh** the shares of a batch so that no token is lost.
# 2. **Write** data parallelism in several ways.
# 3. **Predict** when communication can no longer be hidden.
# 4. **Choose** ranks, buckets and accumulation.

# %% [markdown]
# ## Symbols of these lectures
#
# | here | lecture S | lecture B | meaning |
# |---|---|---|---|
# | d | devices | DP | ranks that share a batch; in code `comm.size` |
# | B | | B | sequences of one step of the optimizer |
# | B/d | bs | B_D | sequences of one rank |
# | N | | P | parameters |
# | S, W, λ | | | bytes of a tensor; bandwidth of a link; latency of a message |
# | F | | | FLOP/s of a device as it runs |
#
# A **rank** is one process with one device. A **collective** is a call that all ranks make together; an **exchange** is all those of one step.

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import time
from collections.abc import Callable
from contextlib import contextmanager

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.parallel import DistributedDataParallel

from autograder import answer, check, compare, predict
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
from course_utils.instruments import trace_memory
from course_utils.reference import Transformer, token_loss
from course_utils.reference.accumulation import count_targets, ragged_batch, sum_of_losses
from course_utils.reference.ring import everyone_to_everyone
from course_utils.show import (
    Picture,
    all_reduce_over_ranks,
    cluster_timeline,
    cluster_timelines,
    computed_and_measured,
    explorer,
    exposed_over_tokens,
    ring_steps,
    step_over_bucket_bytes,
    tokens_per_second_over_devices,
    try_it,
)

# %% [markdown]
# ## A tour: two ranks and one call
#
# Training can be spread over devices by the sequences of a batch (data parallelism), the numbers of each weight (tensor), the tokens of a sequence (context) or the layers (pipeline): the four ways of lecture E (E4). This unit is about the first. Every rank runs the same function; `comm` tells it who it is:


# %% tags=["nbval-check-output"]
def add_up(comm):
    mine = torch.tensor([1.0, 10.0]) * (comm.rank + 1)
    comm.all_reduce(mine)
    return mine


VirtualCluster(2).run(add_up).results

# %% [markdown]
# An **all-reduce** sums a tensor over all ranks, in place on each. The `VirtualCluster` runs its ranks in this process on a virtual clock: 400 TFLOP/s for a device, 200 GB/s for a link, 10 µs of latency for a message: 40 % of an H100's peak in bf16, and what a ring over a few nodes gives. Tensors on the device `meta` have sizes and no numbers. Rank 1 has twice the work:


# %%
def unequal_work(comm):
    weight = torch.empty(4096, 4096, device="meta")
    for _ in range(1 + comm.rank):
        weight @ weight
    comm.all_reduce(weight)


cluster_timeline(VirtualCluster(2).run(unequal_work))

# %% [markdown]
# Rank 0 is idle until rank 1 comes, then both wait for the links: "Every device is waiting for communication" (S17). Communication beside which a device computes nothing is **exposed**. Now break it: rank 1 leaves the call out.


# %% tags=["nbval-check-output"]
def one_is_missing(comm):
    if comm.rank == 0:
        comm.all_reduce(torch.ones(2))


try:
    VirtualCluster(2).run(one_is_missing)
except DeadlockError as error:
    print(error)

# %% [markdown]
# On real devices nothing is printed for minutes, until a timeout. Whatever one rank calls, all call, in the same order.
#
# ## Sharing a batch out
#
# Ten sequences for four ranks, cut in three ways:

# %% tags=["nbval-check-output"]
batch = torch.arange(10)
cuts = {
    "slices of 10 // 4": [batch[2 * rank : 2 * rank + 2] for rank in range(4)],
    "chunk": batch.chunk(4),
    "tensor_split": batch.tensor_split(4),
}
pd.DataFrame({name: [part.tolist() for part in parts] for name, parts in cuts.items()})

# %% [markdown]
# The first loses two sequences and says nothing. `tensor_split` loses none, and no two ranks differ by more than one: all wait for the slowest. `chunk` is less even, and may give fewer parts than ranks.
#
# ## Whose mean?
#
# Data parallelism is "distributed gradient accumulation" (B9): each rank runs its part of the batch forward and backward, then the gradients are summed. As in unit 08, a mean of means weighs sequences of different lengths wrong.
#
# **Predict.** Eight sequences of 32, 31, 30, 28, 5, 4, 3 and 2 targets on four ranks. Each takes the mean loss of its own targets, and gradients are averaged, as PyTorch's `DistributedDataParallel` does. How many times as much does a target on the last rank count as one on the first?

# %%
predict("u09-average", None, "times")

# %% A share of the mean [markdown] exercise="u09-global-mean" points=1.5 minutes=10 difficulty=2 importance=5
# **Write** `share_of_mean`: this rank's share of the mean loss over the targets of **all** ranks, so that the shares of all ranks add up to it. Three situations earn equal parts of the points: equal and ragged numbers of targets, and ranks without any.
#
# - `summed_loss` is the sum over this rank's targets. The share is a tensor from which backward can start, on every rank.
# - One call to the other ranks. `comm.all_reduce` sums a tensor in place; it refuses tensors that require grad.
# - A rank may have no targets. If no rank has any, the share is zero.
#
# *Worked case:* 3 and 1 targets, summed losses 6 and 4: shares **1.5** and **1**.


# %% solution="u09-global-mean"
def share_of_mean(comm: Comm, summed_loss: Tensor, num_targets: int) -> Tensor:
    """This rank's share of the mean loss over the targets of all ranks.

    Args:
        comm: The way to the other ranks.
        summed_loss: Sum of the losses of this rank's targets.
        num_targets: How many they are.
    """
    ### BEGIN SOLUTION
    num_targets_of_all = torch.tensor(num_targets)
    comm.all_reduce(num_targets_of_all)
    return summed_loss / max(1, int(num_targets_of_all))
    ### END SOLUTION


# %%
def shares(share_of_mean, summed_losses, counts):
    def rank(comm):
        loss = torch.tensor(summed_losses[comm.rank], requires_grad=True)
        return share_of_mean(comm, loss * 1, counts[comm.rank]).item()

    return VirtualCluster(len(counts)).run(rank).results


try_it(shares, share_of_mean, [6.0, 4.0], [3, 1])

# %% check="u09-global-mean"
# Ragged and equal numbers of targets; a rank without any, and all without.

# %% [markdown]
# <details><summary>It says that autograd follows my tensor</summary>
#
# What does a rank have to know of the others to divide its own loss right?
# </details>

# %% [markdown]
# **Measure.** What does the loss of one target weigh? Autograd knows; on the first rank and on the last:

# %% tags=["nbval-check-output"]
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
# And to the gradient? Both ways against the whole batch at once: the length of the difference, in percent of the true gradient's.

# %%
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


# %% tags=["nbval-check-output"]
ways = {"average of means, error in %": average_of_means, "shares, error in %": share_of}
errors = {name: {d: error_in_percent(d, way) for d in (1, 2, 4, 8)} for name, way in ways.items()}
pd.DataFrame(errors).rename_axis("ranks")

# %% [markdown]
# **Explain.** Where each rank takes a mean of its own, a target weighs more the fewer targets its rank has, and the same batch gives another gradient on another number of ranks. "Distributed gradient accumulation" is right only with shares, or with equal numbers of targets.

# %% [markdown]
# ## What an all-reduce is made of
#
# Messages between two ranks. In one algorithm, which libraries such as NCCL use too, the ranks stand in a **ring**, and the tensor is cut into d parts, the columns below:

# %%
ring_steps(3)

# %% [markdown]
# In the first d − 1 turns the sum of each part grows as it travels: a **reduce-scatter**, after which each rank has one part of the sum. In the others complete sums travel on, and replace what is there: an **all-gather**. A turn is given. `comm.send(part, to)` and `comm.receive(buffer, source)` wait for each other. With `async_op=True` the call returns a **handle** at once, and until `handle.wait()` the tensor is not to be changed.


# %%
def pass_on(comm: Comm, outgoing: Tensor, arrived: Tensor) -> None:
    """Send a part to the next rank, and fill another with what the rank before sends."""
    sending = comm.send(outgoing, (comm.rank + 1) % comm.size, async_op=True)
    comm.receive(arrived, (comm.rank - 1) % comm.size)
    sending.wait()


# %% [markdown]
# **Predict.** How many bytes does one of 16 ranks send in this way, as a multiple of the tensor's bytes?

# %%
predict("u09-ring-bytes", None, "times the tensor")

# %% A ring [markdown] exercise="u09-ring" points=3 minutes=22 difficulty=4 importance=4
# **Write** the turns of `ring_all_reduce`, which sums `tensor` over all ranks, in place, by messages alone. Three situations earn equal parts of the points.
#
# - Each turn has one `pass_on` (or messages of your own). Which part goes out, which one comes in, and what becomes of what arrived?
# - `parts` is a list of **views** of the tensor, which share its numbers. They may differ in length by one, and be empty.
# - Each rank sends 2(d − 1) messages, empty ones too, none with more than ⌈n/d⌉ of the tensor's n numbers, and all send and receive at the same time.
#
# The tensor is contiguous, may have several dimensions, and n may be smaller than d.
#
# *Worked case:* six float64 numbers, three ranks: **4** messages of **16** bytes from each.


# %% solution="u09-ring"
def ring_all_reduce(comm: Comm, tensor: Tensor) -> None:
    """Sum a tensor over all ranks, in place on each.

    Args:
        comm: The way to the other ranks.
        tensor: Contiguous, of the same shape on all ranks.
    """
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


# %%
def on_three_ranks(ring_all_reduce):
    def rank(comm):
        tensor = torch.full((6,), 10.0**comm.rank, dtype=torch.float64)
        ring_all_reduce(comm, tensor)
        return tensor.tolist()

    run = VirtualCluster(3).run(rank)
    sent = [each.num_bytes for each in run.sent_by(0)]
    return {"bytes of the messages of rank 0": sent, **dict(enumerate(run.results))}


try_it(on_three_ranks, ring_all_reduce)

# %% check="u09-ring"
# Sums, messages, bytes and virtual time: even parts, a rest, fewer numbers than ranks, one rank.

# %% [markdown]
# <details><summary>Which part goes out?</summary>
#
# Write down from the figure which part rank 0 sends in turn 0, 1, 2 and 3, and below it rank 1. How does the number change from turn to turn, modulo d, and how from rank to rank? Do the last turns need a rule of their own?
# </details>
#
# <details><summary>It says that I changed a tensor</summary>
#
# Which part is on its way, and into which do you write before its handle was waited for?
# </details>

# %% [markdown]
# **Measure.** Bytes that one of 16 ranks sends; each rank's messages; and the time of 160 MB, beside the model of the links and beside ranks that send their whole tensor to everyone:

# %% tags=["nbval-check-output"]
ring_of = answer("u09-ring", ring_all_reduce)
link = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9)
network = Network(inside=link)
num_bytes = 160_000_000


def run_sum(way, num_ranks):
    cluster = VirtualCluster(num_ranks, network=network)
    return cluster.run(lambda comm: way(comm, torch.empty(num_bytes // 4, device="meta")))


rings = {num_ranks: run_sum(ring_of, num_ranks) for num_ranks in (2, 4, 8, 16)}
sent = sum(each.num_bytes for each in rings[16].sent_by(0))
compare("u09-ring-bytes", "times the tensor", measured=sent / num_bytes)

# %%
computed_and_measured(
    list(rings),
    computed=[2 * (d - 1) for d in rings],
    measured=[len(run.sent_by(0)) for run in rings.values()],
    size_label="ranks",
    unit="messages of each rank",
    is_log=False,
)

# %%
all_reduce_over_ranks(
    {
        "your ring": {d: run.step_seconds for d, run in rings.items()},
        "everyone to everyone": {d: run_sum(everyone_to_everyone, d).step_seconds for d in rings},
    },
    computed={d: network.seconds("all_reduce", num_bytes, range(d)) for d in range(2, 17, 2)},
)

# %% [markdown]
# **Explain.** On d ranks with links of latency λ and bandwidth W, S bytes take
#
# $$2(d-1)\,\lambda + 2\,\frac{d-1}{d}\,\frac{S}{W}.$$
#
# From two ranks to a thousand the second term does not even double. The first grows with every rank, for *each call*. `comm.all_reduce` takes this time.

# %% [markdown]
# ## Way 1: one call for each gradient
#
# The plainest data parallelism (S17): the same weights on all ranks, a share of the batch on each, gradients summed after backward. Call a function that does this a **trainer**. `loss` is a rank's share of the mean loss; afterwards every rank has in `grad` the gradient of the whole batch, so the weights stay equal.
#
# Where a rank's loss does not reach a parameter, `grad` is None, though other ranks may have a gradient for it. All must make the same calls, so it takes part with zeros. Frozen parameters (`requires_grad` is False) take no part. Both are given:


# %%
def gradients_or_zeros(model: nn.Module) -> list[Tensor]:
    """The `grad` of each parameter that wants one, filled with zeros where there was none."""
    trained = [each for each in model.parameters() if each.requires_grad]
    for each in trained:
        if each.grad is None:
            each.grad = torch.zeros_like(each)
    return [each.grad for each in trained]


# %% Gradient by gradient [markdown] exercise="u09-each" points=2 minutes=7 difficulty=2 importance=4
# **Write** `backward_each`: run backward from this rank's `loss`, then sum the gradients over all ranks, with one all-reduce for each parameter that wants a gradient. Four situations earn equal shares.
#
# - The losses are shares already: nothing is left to divide.
# - Before the call `grad` may hold gradients of earlier micro-batches of this rank, not summed over ranks yet. Backward adds to them, and the sum is what travels.
#
# *Worked case:* three layers with biases, two ranks: **6** calls.


# %% solution="u09-each"
def backward_each(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce for each gradient.

    Args:
        comm: The way to the other ranks.
        model: With the same parameters on all ranks.
        loss: This rank's share of the mean loss.
    """
    ### BEGIN SOLUTION
    loss.backward()
    for gradient in gradients_or_zeros(model):
        comm.all_reduce(gradient)
    ### END SOLUTION


# %%
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


try_it(on_a_batch, backward_each, 1)
try_it(on_a_batch, backward_each, 2)

# %% check="u09-each"
# Gradients in float64 on one rank to four; calls and bytes; unused and frozen parameters.

# %% [markdown]
# <details><summary>It says deadlock or mismatch, in the case with an unused parameter</summary>
#
# Which calls does each rank make for it, and which given function makes them equal?
# </details>

# %% [markdown]
# ## Way 2: one call for all
#
# **Predict.** Llama-3.2-1B has 146 parameter tensors. With eight ranks and a latency of 10 µs for each message: by how many milliseconds does one all-reduce shorten the step, instead of 146 for the same bytes?

# %%
predict("u09-latency", None, "ms")

# %% One buffer [markdown] exercise="u09-flat" points=2 minutes=13 difficulty=2 importance=3 extra=true
# **Write** `backward_flat`: the same gradients with **one** all-reduce, of one buffer that holds those of all parameters that want one. Five situations earn equal shares; the fifth is memory. This one is extra: without it the cells below take the course's.
#
# - Everything that the exercise of `backward_each` says holds here too; `gradients_or_zeros` helps again. All gradients have one precision, and so has the buffer.
# - Afterwards each `grad` has the shape of its parameter; it may be a view of the buffer, or a tensor of its own.
# - At the peak there are the gradients and one buffer of the same size; afterwards one of the two.
#
# *Worked case:* three layers with biases, two ranks: **1** call.


# %% solution="u09-flat"
def backward_flat(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce of all gradients.

    Args:
        comm: The way to the other ranks.
        model: With the same parameters on all ranks.
        loss: This rank's share of the mean loss.
    """
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
# <details><summary>The call is made, and grad stays as it was</summary>
#
# Is your buffer a copy of the gradients, or are they parts of it? Who brings the sums back?
# </details>

# %% [markdown]
# **Measure.** A step of Llama-3.2-1B with 4,096 tokens on each rank, on two and on eight (ten seconds; on a busy machine half a minute):


# %% tags=["nbval-check-output"]
def step_of_llama(comm, trainer):
    model = Transformer(preset("Llama-3.2-1B"), "meta", torch.bfloat16)
    tokens = torch.empty(1, 4096, dtype=torch.long, device="meta")
    trainer(comm, model, token_loss(model(tokens), tokens))


trainers = {
    "one call for each": answer("u09-each", backward_each),
    "one call for all": answer("u09-flat", backward_flat),
}
llama_runs = {
    (num_ranks, name): VirtualCluster(num_ranks, network=network).run(step_of_llama, trainer)
    for num_ranks in (2, 8)
    for name, trainer in trainers.items()
}
rows = {
    place: {
        "calls": len(run.communications()),
        "step, ms": round(1e3 * run.step_seconds, 2),
        "compute, ms": round(1e3 * run.compute_seconds(), 2),
        "communication, ms": round(1e3 * run.communication_seconds(), 2),
    }
    for place, run in llama_runs.items()
}
pd.DataFrame.from_dict(rows, orient="index").rename_axis(["ranks", "way"])

# %%
cluster_timelines({name: llama_runs[8, name] for name in trainers})

# %% tags=["nbval-check-output"]
one_message = network.seconds("all_reduce", 0, range(8))
saved = (
    llama_runs[8, "one call for each"].step_seconds - llama_runs[8, "one call for all"].step_seconds
)
compare(
    "u09-latency", "ms", computed=round(1e3 * 145 * one_message, 2), measured=round(1e3 * saved, 2)
)
weights = list(Transformer(preset("Llama-3.2-1B"), "meta", torch.bfloat16).parameters())
embedding_bytes, num_bytes_of_all = weights[0].nbytes, sum(each.nbytes for each in weights)
embedding_seconds = network.seconds("all_reduce", embedding_bytes, range(8))
print(
    f"embedding: {embedding_bytes / num_bytes_of_all:.0%} of all, {1e3 * embedding_seconds:.1f} ms"
)

# %% [markdown]
# **Explain.** The bytes are the same. One call saves the latency of the 145 others, each of 14 messages on eight ranks. The long bar that comes first in the upper row is the embedding, the first in the model's list: a fifth of all. What is left is bandwidth, all of it exposed. And memory? `NullComm` is a `comm` whose calls come back at once and do nothing, so that one rank can be traced. How many sets of gradients are there at the peak?


# %% tags=["nbval-check-output"]
def sets_at_peak(trainer):
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    loss = model(torch.ones(1, 256)).sum()
    trace = trace_memory(lambda: trainer(NullComm(), model, loss), model)
    return round((trace.peak_bytes - trace.total_bytes[0]) / trace.total_bytes[0], 1)


print({name: sets_at_peak(trainer) for name, trainer in trainers.items()})

# %% [markdown]
# For a moment the buffer is a second set of gradients: data parallelism saves no memory on a rank, and can cost some.
#
# ## Way 3: communicate while backward computes
#
# So far devices compute nothing while gradients travel (S17), though most are complete long before backward ends (S18). PyTorch calls a **hook** as soon as a parameter's `grad` is filled in. `hooks_on` sets one on all parameters and takes it away at the end of a `with`:


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
# The last layer comes first. Its gradient can travel while backward goes on: `comm.all_reduce(tensor, async_op=True)` returns a handle at once; until `handle.wait()` the tensor is neither read nor changed. The links take one call after the other.
#
# Each call has a latency, so gradients travel in **buckets**: several in one flat tensor. A bucket is *sent* when its all-reduce starts. How gradients come into a flat tensor and sums back into `grad` is given:


# %%
def joined(parameters: list[nn.Parameter]) -> Tensor:
    """A flat copy of the gradients of some parameters, one after the other."""
    return torch.cat([each.grad.flatten() for each in parameters])


def give_back(flat: Tensor, parameters: list[nn.Parameter]) -> None:
    """Make each `grad` a view of its piece of a flat tensor."""
    pieces = flat.split([each.numel() for each in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)


# %% [markdown]
# **Predict.** Llama-3.2-1B on eight ranks: forward and backward take 92 ms, and 22 ms more if all gradients travel at the end, in one call. How many ms does the step take with buckets of 25 MiB?

# %%
predict("u09-overlapped", None, "ms")

# %% Buckets beside backward [markdown] exercise="u09-buckets" points=4 minutes=24 difficulty=4 importance=5
# **Write** `backward_in_buckets`. Gradients wait in the order in which they become complete. As soon as those waiting have *at least* `bucket_bytes`, they are sent: one flat tensor, one asynchronous all-reduce. What is left after backward goes last. Two parts earn half of the points each:
#
# - *buckets*: number, bytes and order; every rank ends with the whole batch's gradients in `grad`, what was there before included. No hook stays: `hooks_on` in a `with` around backward sees to it.
# - *overlap*, with the same buckets: each leaves at the earliest moment, and backward waits for none.
#
# Nothing is divided. No parameter is frozen, and each gets a gradient on every rank.
#
# *Worked case:* gradients of 64, 96 and 48 bytes, complete in this order, `bucket_bytes=96`: buckets of **160** and **48** bytes.


# %% solution="u09-buckets"
def backward_in_buckets(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward, with an all-reduce of each bucket as soon as it is full.

    Args:
        comm: This rank's way to the others.
        model: Its `grad` hold the gradient of the whole batch afterwards.
        loss: This rank's share of the mean loss of the whole batch.
        bucket_bytes: A bucket is sent when it has at least as many.
    """
    ### BEGIN SOLUTION
    bucket: list[nn.Parameter] = []
    travelling = []

    def start() -> None:
        flat = joined(bucket)
        travelling.append((comm.all_reduce(flat, async_op=True), flat, bucket.copy()))
        bucket.clear()

    def hook(parameter: nn.Parameter) -> None:
        bucket.append(parameter)
        if sum(each.grad.nbytes for each in bucket) >= bucket_bytes:
            start()

    with hooks_on(model, hook):
        loss.backward()
    if bucket:
        start()
    for call, flat, members in travelling:
        call.wait()
        give_back(flat, members)
    ### END SOLUTION


# %%
slow = Network(inside=Link(latency_seconds=1.0, bandwidth_bytes_per_second=8.0))


def buckets_of_three_layers(backward_in_buckets, bucket_bytes):
    def step(comm, model):
        rows = torch.full((2, 2), 1.0 + comm.rank, dtype=torch.float64)
        loss = model(rows).square().mean() / comm.size
        backward_in_buckets(comm, model, loss, bucket_bytes)

    run = VirtualCluster(2, network=slow, flops_per_second=4.0).run(step, three_layers())
    return [event.num_bytes for event in run.communications()]


try_it(buckets_of_three_layers, backward_in_buckets, 96)
try_it(buckets_of_three_layers, backward_in_buckets, 1)

# %% check="u09-buckets"
# Gradients in float64; number, bytes and order of the buckets; when each leaves; the virtual time of the step.

# %% [markdown]
# <details><summary>UnboundLocalError in my hook</summary>
#
# A function inside another one may call methods of the outer one's lists. Which word does it need to give an outer *name* a new value?
# </details>
#
# <details><summary>TypeError: expected Variable, but hook returned something</summary>
#
# What must a hook return, and what would a lambda pass on?
# </details>
#
# <details><summary>Gradients are those of one rank</summary>
#
# Is the flat tensor the memory of your gradients, or a copy? When may you read it?
# </details>
#
# <details><summary>Only "overlap" fails</summary>
#
# Which line waits while backward could go on? Is a full bucket left lying?
# </details>

# %% [markdown]
# **Measure.** Your function beside one call at the end (some seconds):

# %%
buckets_of = answer("u09-buckets", backward_in_buckets)
overlapped = VirtualCluster(8, network=network).run(
    step_of_llama, lambda comm, model, loss: buckets_of(comm, model, loss, 25 * 2**20)
)
cluster_timelines({"one call": llama_runs[8, "one call for all"], "25 MiB": overlapped})

# %% tags=["nbval-check-output"]
compare("u09-overlapped", "ms", measured=round(1e3 * overlapped.step_seconds, 1))
tail_seconds = overlapped.exposed_seconds()
print(
    f"exposed: {1e3 * tail_seconds:.1f} ms, of which the embedding {1e3 * embedding_seconds:.1f} ms"
)

# %% [markdown]
# **Explain.** Of 22 ms exposed, 4.9 are left: the **tail**, the long bar at the end. For 4.7 of them it is the embedding again: it has twenty times the bytes of a bucket, and its gradient is complete last, since backward ends where forward began.
#
# What do buckets cost in memory?

# %% tags=["nbval-check-output"]
for kib in (1, 512, 4096):
    print(
        kib, "KiB:", sets_at_peak(lambda c, m, loss, kib=kib: buckets_of(c, m, loss, 2**10 * kib))
    )

# %% [markdown]
# Up to a second set of gradients again: each flat tensor is a copy. PyTorch's DDP saves it with `gradient_as_bucket_view=True`, where each `grad` is a view of its bucket.
#
# How large should a bucket be? Forty-eight small layers, eight ranks, two latencies:


# %%
def stack_step(comm, model, tokens, bucket_bytes):
    rows = torch.empty(tokens, model[0].in_features, dtype=torch.bfloat16, device="meta")
    buckets_of(comm, model, model(rows).sum() / comm.size, bucket_bytes)


def stack_of(num_layers, width):
    options = {"bias": False, "dtype": torch.bfloat16, "device": "meta"}
    return nn.Sequential(*(nn.Linear(width, width, **options) for _ in range(num_layers)))


def bucket_sweep(latency_seconds):
    link = Link(latency_seconds=latency_seconds, bandwidth_bytes_per_second=200e9)
    cluster, sizes = VirtualCluster(8, network=Network(inside=link)), [2**n for n in range(21, 28)]
    runs = {size: cluster.run(stack_step, stack_of(48, 1024), 8192, size) for size in sizes}
    return {size: run.step_seconds for size, run in runs.items()}


sweeps = {"latency 10 µs": bucket_sweep(10e-6), "latency 2 µs": bucket_sweep(2e-6)}
compute_seconds = VirtualCluster(1).run(stack_step, stack_of(48, 1024), 8192, 1).step_seconds
step_over_bucket_bytes(sweeps, compute_seconds)

# %% [markdown]
# On the left every bucket pays the latency of its 14 messages; on the right the last bucket is long, and nothing is left to hide it. (With 32 and 64 MiB the last one is the same: 32 of 96 MiB.) With a fifth of the latency the best size moves to the left. PyTorch's DDP takes 25 MiB by default, and 1 MiB for the bucket that is ready first.

# %% [markdown]
# ## Accumulation on top
#
# A rank may take its part of the batch in several micro-batches (B9). Its gradients add up in `grad` before anyone else needs them.

# %% One exchange for many micro-batches [markdown] exercise="u09-no-sync" points=1.5 minutes=8 difficulty=2 importance=4
# **Write** `accumulate_together`: the gradient of the whole batch on every rank, when each has several micro-batches. All or nothing.
#
# - `micro_batches` is a list of functions without arguments. Each runs forward when it is called, and returns this rank's share of the global mean loss. Call each once, in order; one micro-batch is in memory at a time.
# - `backward(comm, model, loss)` is a trainer as above: it runs backward from the loss, and sums over all ranks *what is then in* `grad`. Call it once, with the last loss: it may send in hooks meanwhile.
#
# *Worked case:* two ranks, three micro-batches each, three parameters sent one by one: **3** collectives, not 9.


# %% solution="u09-no-sync"
def accumulate_together(
    comm: Comm,
    model: nn.Module,
    micro_batches: list[Callable[[], Tensor]],
    backward: Callable[[Comm, nn.Module, Tensor], None],
) -> None:
    """Gradients of several micro-batches on each rank, exchanged once.

    Args:
        comm: This rank's way to the others.
        model: Without gradients before.
        micro_batches: Each gives the loss of one micro-batch when it is called.
        backward: Runs backward and sums what is in `grad` over all ranks.
    """
    ### BEGIN SOLUTION
    *earlier, last = micro_batches
    for micro_batch in earlier:
        micro_batch().backward()
    backward(comm, model, last())
    ### END SOLUTION


# %%
def collectives_together(accumulate_together, num_micro_batches):
    def step(comm, model):
        row = torch.ones(1, 2, dtype=torch.float64)
        micro_batches = [lambda: model(row).sum() / comm.size] * num_micro_batches
        accumulate_together(comm, model, micro_batches, trainers["one call for each"])

    return len(VirtualCluster(2).run(step, three_layers()).communications())


try_it(collectives_together, accumulate_together, 3)

# %% check="u09-no-sync"
# Gradients in float64; collectives and bytes; how many micro-batches are in memory at once.

# %% [markdown]
# <details><summary>My gradients are too large</summary>
#
# What is in `grad` before a second exchange: the sum of this rank, or already that of all?
# </details>

# %% [markdown]
# **Measure.** Sixteen layers, four ranks with slow links, one micro-batch and more:

# %%
together_of = answer("u09-no-sync", accumulate_together)
between_nodes = Network(inside=Link(latency_seconds=20e-6, bandwidth_bytes_per_second=25e9))


def accumulated_step(comm, model, num_micro_batches, tokens):
    rows = torch.empty(tokens, 1024, dtype=torch.bfloat16, device="meta")
    micro_batches = [lambda: model(rows).sum() / comm.size] * num_micro_batches
    together_of(comm, model, micro_batches, lambda c, m, loss: buckets_of(c, m, loss, 2**22))


accumulation_runs = {
    f"{m} x {8192 // m:,} tokens": VirtualCluster(4, network=between_nodes).run(
        accumulated_step, stack_of(16, 1024), m, 8192 // m
    )
    for m in (1, 2, 8)
}
cluster_timelines(accumulation_runs)

# %% [markdown]
# **Explain.** The same tokens, the same bytes: the exchange hides behind the backward pass of the *last* micro-batch alone. What accumulation saves are exchanges, where it makes the batch larger and there are more tokens to each. Together (B9): B = micro-batch · accumulation · ranks.
#
# And the weights of targets? `share_of_mean` in each micro-batch divides by the targets of *that* micro-batch on all ranks. The eight sequences from above, one in each of four micro-batches on two ranks: how long is the gradient against the true one, so divided and with all targets counted before?


# %% tags=["nbval-check-output"]
def accumulated_gradient(comm, model, is_counted_before):
    sequences = [each.tensor_split(comm.size)[comm.rank].split(1) for each in (ids, targets)]
    num_of_all = torch.tensor(sum(map(count_targets, sequences[1])))
    comm.all_reduce(num_of_all)

    def share_of_micro_batch(some_ids, some_targets):
        summed = sum_of_losses(model, some_ids, some_targets)
        if is_counted_before:
            return summed / num_of_all
        return share_of(comm, summed, count_targets(some_targets))

    pairs = zip(*sequences, strict=True)
    micro_batches = [lambda pair=pair: share_of_micro_batch(*pair) for pair in pairs]
    together_of(comm, model, micro_batches, trainers["one call for all"])
    return torch.cat([each.grad.flatten() for each in model.parameters()])


whole = VirtualCluster(1).run(gradient_of_rank, small_model(), share_of).results[0]
true_length = torch.cat([each.flatten() for each in whole]).norm()
for is_counted_before in (False, True):
    run = VirtualCluster(2).run(accumulated_gradient, small_model(), is_counted_before)
    way = "all targets counted before" if is_counted_before else "a share in each micro-batch"
    print(f"{way}: {run.results[0].norm() / true_length:.2f} times as long")

# %% [markdown]
# Four means are added up, one of each micro-batch, so the gradient is about four times too long; and a micro-batch with few targets counts as much as one with many. Count the targets of all ranks *and* micro-batches first, in one small call; then divide every summed loss by it.

# %% [markdown]
# ## When can communication no longer be hidden?
#
# On d ranks a ring sends and receives 2(d−1)/d of the bytes of the gradients, with bandwidth W. Backward makes 4 · N FLOPs for each token, at F FLOP/s. Leave out latency, attention and the tail.

# %% The fewest tokens that hide it [markdown] exercise="u09-hidden" points=2 minutes=11 difficulty=3 importance=4
# **Write** `min_tokens`: how many tokens each rank must have at least, so that the all-reduce takes no longer than backward; an `int`, and exact: rates are whole numbers, and a float may miss a number that comes out even.
#
# *Worked case:* 1,024 parameters of 2 bytes on 4 ranks: the ring moves 3,072 bytes, which takes 48 seconds at 64 bytes/s. Backward takes 4,096 FLOPs for a token, 8 seconds at 512 FLOP/s: **6**.


# %% solution="u09-hidden"
def min_tokens(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> int:
    """Tokens on each rank whose backward pass is as long as the all-reduce.

    Args:
        num_params: Parameters N.
        num_ranks: Ranks d.
        bytes_per_element: Of a gradient.
        bytes_per_second: Bandwidth of a link, in each direction.
        flops_per_second: Of a device, as it runs.
    """
    ### BEGIN SOLUTION
    dividend = bytes_per_element * (num_ranks - 1) * flops_per_second
    divisor = 2 * num_ranks * bytes_per_second
    return -(-dividend // divisor)
    ### END SOLUTION


# %%
try_it(min_tokens, 1024, 4, 2, 64, 512)

# %% check="u09-hidden"
# Against a search on the two times in fractions: one rank and many; slow and fast links; results that come out even or not.

# %% [markdown]
# <details><summary>I am off by one in some cases</summary>
#
# To which side do you round? What does a float make of a number that comes out even?
# </details>

# %% tags=["nbval-check-output"]
min_tokens_of = answer("u09-hidden", min_tokens)
links = {"fast links, 200 GB/s": 200 * 10**9, "slow links, 25 GB/s": 25 * 10**9}
rows = {
    name: {ranks: min_tokens_of(10**9, ranks, 2, rate, 400 * 10**12) for ranks in (2, 8, 64, 1024)}
    for name, rate in links.items()
}
pd.DataFrame(rows).T.rename_axis(columns="tokens on each rank, by ranks")

# %% [markdown]
# **Explain.** The parameters cancel: what counts is a rank's tokens, its speed against that of its links, and from eight ranks on hardly their number. The *Ultra-Scale Playbook* has a number of parameters left in this ratio, and forgets the bytes of an element; correct is
#
# $$\frac{\text{all-reduce}}{\text{backward}} = \text{bytes per element} \cdot \frac{d-1}{d} \cdot \frac{F}{2 \cdot \text{tokens} \cdot W}.$$
#
# **Measure** the exposed time of your trainer:

# %%
token_counts = [2**power for power in range(8, 15)]
token_runs = {
    tokens: VirtualCluster(8).run(stack_step, stack_of(32, 4096), tokens, 2**26)
    for tokens in token_counts
}
exposed_over_tokens(token_runs, min_tokens_of(32 * 4096**2, 8, 2, 200 * 10**9, 400 * 10**12))

# %% tags=["nbval-check-output"]
rows = {
    tokens: {
        "step, ms": round(1e3 * run.step_seconds, 1),
        "exposed, ms": round(1e3 * run.exposed_seconds(), 2),
        "million tokens/s of each rank": round(tokens / run.step_seconds / 1e6, 3),
    }
    for tokens, run in token_runs.items()
}
pd.DataFrame.from_dict(rows, orient="index").rename_axis("tokens on each rank")

# %% [markdown]
# Left of the line the links set the pace: 256 tokens take 12.4 ms, eight times as many 17.8. Near it latencies still show; from 4,096 tokens on only the tail is left.

# %% [markdown]
# ## How far does it scale?
#
# **Strong scaling** keeps the batch and adds devices (S16). **Weak scaling** keeps the work of a device, and the batch grows. Lecture B plots throughput and memory over data parallelism (B11). These are measured: a 1.34B model on nodes of eight H100 (Hugging Face, *Ultra-Scale Playbook*, data of its plots). Whether each kept its tokens or all shared a batch is not stated:

# %% tags=["nbval-check-output"]
measured_rates = {
    8: 40_149.94,
    16: 37_609.69,
    32: 35_367.61,
    64: 31_112.23,
    128: 26_446.44,
    256: 15_700.38,
}
pd.DataFrame(
    {
        "tokens/s of each": {n: round(rate) for n, rate in measured_rates.items()},
        "tokens/s together": {n: round(n * rate) for n, rate in measured_rates.items()},
        "of 8 GPUs' rate, %": {
            n: round(100 * rate / measured_rates[8], 1) for n, rate in measured_rates.items()
        },
    }
).rename_axis("GPUs")

# %% [markdown]
# The virtual cluster, in another case: 32 layers of 4,096 · 4,096 weights (0.54B), 16 buckets, 160 GB/s and 5 µs for each message. *Weak:* 16,384 tokens on each device. *Strong:* 2¹⁹ tokens that all share; once more without latency.


# %%
def virtual_rates(tokens_of_rank, latency_seconds=5e-6):
    """Tokens per second of each device; two run, with a link that takes a whole ring's time."""
    rates = {}
    for num_devices in measured_rates:
        tokens, others = tokens_of_rank(num_devices), num_devices - 1
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


rates = {
    "measured (tokens not stated)": measured_rates,
    "weak: 16,384 tokens each": virtual_rates(lambda num_devices: 16_384),
    "strong: 524,288 tokens in all": virtual_rates(tokens_if_shared),
    "strong, without latency": virtual_rates(tokens_if_shared, latency_seconds=0),
}
tokens_per_second_over_devices(rates)

# %% tags=["nbval-check-output"]
kept = {
    name: {n: round(100 * rate / of_count[8]) for n, rate in of_count.items()}
    for name, of_count in list(rates.items())[1:]
}
fewest = {n: min_tokens_of(32 * 4096**2, n, 2, 160 * 10**9, 400 * 10**12) for n in measured_rates}
shared_tokens = {n: tokens_if_shared(n) for n in measured_rates}
pd.DataFrame({**kept, "strong: tokens on each": shared_tokens, "min_tokens": fewest})

# %% Where does it end? [markdown] exercise="u09-scaling" points=2 minutes=10 difficulty=3 importance=5
# **Write** four to six sentences.
#
# 1. What do 256 GPUs get done against 8, together and each?
# 2. What bends the virtual cluster's strong scaling at 128 devices, and what more at 256? Compare its two curves, and tokens with `min_tokens`. Why is weak scaling bent less?
# 3. Name two things that real clusters have and the virtual one has not.
# 4. What would you change first to go on to 512?
#
# Double-click the cell below.

# %% [markdown] text_answer="u09-scaling"
# <!-- BEGIN SOLUTION -->
# 256 GPUs together do 12.5 times the work of 8 instead of 32 times, each at 39 % of its rate. In strong scaling the tokens of a rank shrink and the exchange does not: at 128 devices 4,096 tokens still hide the bytes (2,481 would), and latency, 16 buckets of 2 · 127 messages, takes the rate from 98 to 71 %; at 256 its 2,048 tokens are too few, bytes cost 16 % and latency the rest, down to 27 %. In weak scaling each rank keeps 16,384 tokens, whose backward pass is long enough for both. Real all-reduces get slower with every doubling of nodes, and the slowest of 256 devices keeps all others waiting; the virtual cluster has neither. To go on to 512 I would first give each rank more tokens between two exchanges, as far as the critical batch size allows, since fewer exchanges cost fewer bytes and fewer messages.
#
# *Rubric:* half a point for the numbers (about 12.5 times and 39 %); half for the bend (latency at 128, tokens below the threshold as well at 256; weak scaling keeps its tokens); half for two things that the virtual cluster lacks (bandwidth falling with nodes, stragglers, shared links, kernels disturbed, input loading); half for a change with its reason.
# <!-- END SOLUTION -->

# %% [markdown]
# ## All of it at once
#
# Sixteen layers of 1,024 · 1,024 weights in bf16 (2 MiB each), with your trainer. Find a setting with an efficiency over 95 % at 512 tokens, or a reason why there is none.


# %%
def data_parallel_plan(ranks, link_gb_per_second, latency_us, bucket_mib, tokens_per_rank):
    link = Link(
        latency_seconds=latency_us / 10**6,
        bandwidth_bytes_per_second=link_gb_per_second * 10**9,
    )
    cluster = VirtualCluster(ranks, network=Network(inside=link))
    run = cluster.run(stack_step, stack_of(16, 1024), tokens_per_rank, bucket_mib * 2**20)
    picture = cluster_timeline(run, ranks=[0])
    efficiency = run.compute_seconds() / run.step_seconds
    return Picture(picture.figure, f"Efficiency {efficiency:.0%}. {picture.caption}")


explorer(
    data_parallel_plan,
    ranks=([2, 4, 8], 4),
    link_gb_per_second=([10, 25, 50, 100, 200, 400], 100),
    latency_us=([0, 2, 10, 50], 10),
    bucket_mib=([2, 4, 8, 16, 32], 4),
    tokens_per_rank=([512, 2_048, 8_192, 32_768], 8_192),
)

# %% [markdown]
# <details><summary>Is there one?</summary>
#
# No: 94 % is the best, with two ranks, 400 GB/s, no latency and the smallest buckets. There 500 tokens hide the bytes, so the links are busy for nearly all of backward, and the last bucket has nothing left to hide behind. More ranks or slower links raise this number above 512.
# </details>
#
# The same picture standing still:

# %%
data_parallel_plan(4, 100, 10, 4, 8_192)

# %% [markdown]
# Every rank still holds all weights, gradients and optimizer states. The next step is **sharding**: each keeps a part of them, and asks for the rest when it needs it.

# %% [markdown]
# ## Going further
#
# What follows is **extra**: bonus points. Real processes and the recap are at the end.

# %% [markdown]
# ## What it does to memory
#
# Every rank is a **replica**: it holds all weights, gradients and optimizer states. For a model in float32 with Adam, traced on one rank and added up over more:


# %% tags=["nbval-check-output"]
def bytes_of_replica():
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step():
        model(torch.ones(1, 256)).sum().backward()
        optimizer.step()

    live = trace_memory(step, model, optimizer).live_bytes
    num_params = sum(each.numel() for each in model.parameters())
    kinds = ("parameters", "gradients", "optimizer_states")
    return {kind: round(live[kind][-1] / num_params, 2) for kind in kinds}


replica = bytes_of_replica()
pd.DataFrame(
    {f"ranks: {d}": {kind: d * each for kind, each in replica.items()} for d in (1, 8, 64)}
).rename_axis("bytes per parameter")

# %% [markdown]
# Of 1,024 bytes on 64 ranks 16 would do: nothing is saved, however many ranks there are. And buckets that are copies cost 4 more on each, as you have measured: a second set of gradients. A bucket that is there *before* backward costs nothing, if each `grad` is a view of it: backward adds into the bucket, which travels as it is.

# %% Gradients that live in buckets [markdown] exercise="u09-memory" points=2 minutes=12 difficulty=3 importance=3 extra=true
# **Write** `make_buckets`, which is called before backward: every parameter gets as `grad` a view, of its own shape, of a flat tensor of zeros; these buckets are returned in a list. All or nothing.
#
# - Parameters go from the last to the first of `model.parameters()`; a bucket ends with the one that brings it to at least `bucket_bytes`.
# - The call takes the bytes of one set of gradients, at its peak too, and nothing else.
# - All parameters want a gradient, have one precision, and `grad` is None.
#
# *Worked case:* parameters of 48, 96 and 64 bytes from first to last, `bucket_bytes=96`: buckets of **160** and **48** bytes.


# %% solution="u09-memory"
def make_buckets(model: nn.Module, bucket_bytes: int) -> list[Tensor]:
    """Flat tensors of zeros, of which every `grad` becomes a view.

    Args:
        model: Without gradients.
        bucket_bytes: A bucket has at least as many, but the last.
    """
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


# %%
def filled_buckets(make_buckets, bucket_bytes):
    model = three_layers()
    buckets = make_buckets(model, bucket_bytes)
    model(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    return {
        "bytes": [each.nbytes for each in buckets],
        "numbers that backward has filled": [each.count_nonzero().item() for each in buckets],
    }


try_it(filled_buckets, make_buckets, 96)

# %% check="u09-memory"
# Buckets and their bytes; what backward fills; bytes at the peak of the call and afterwards.

# %% [markdown]
# <details><summary>Backward fills grad, and my buckets stay zero</summary>
#
# Which operations give a part of a tensor that shares its numbers, and which make new ones? Ask two tensors for `untyped_storage().data_ptr()`.
# </details>

# %% [markdown]
# **Measure.** Sets of gradients at the peak of a step that sends them, in copies and in place:


# %% tags=["nbval-check-output"]
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
# **Explain.** What views take above one set is a single layer's gradient, before it is added to its bucket: of six layers a sixth. A second set is saved, and the copying. What is left to save are the replicas themselves: where each rank keeps a part of the optimizer states, gradients and weights and asks for the rest when it needs it, that is sharding.

# %% [markdown]
# ## Equal weights, different dropout
#
# Ranks that begin with different weights never agree again, however exactly they exchange gradients. Ranks that draw the *same* random numbers drop the same units of different rows, which is less random than a large batch on one device.

# %% Begin together [markdown] exercise="u09-dropout" points=1.5 minutes=9 difficulty=2 importance=3 extra=true
# **Write** `start_equal`: every rank gets the weights and buffers of rank 0 (`model.parameters()`, `model.buffers()`) by `comm.broadcast(tensor, source)`, and from then on draws the random numbers of seed `seed + rank`. All or nothing. Nothing is sent twice, and nothing else is sent.
#
# *Worked case:* layers from 2 to 3 and from 3 to 4 with biases, a buffer of 2, all in float64: 5 tensors of **216** bytes together.


# %% solution="u09-dropout"
def start_equal(comm: Comm, model: nn.Module, seed: int) -> None:
    """Give all ranks equal weights, and different random numbers.

    Args:
        comm: This rank's way to the others.
        model: Initialised differently on each rank.
        seed: Of the random numbers of rank 0.
    """
    ### BEGIN SOLUTION
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            comm.broadcast(tensor, source=0)
    torch.manual_seed(seed + comm.rank)
    ### END SOLUTION


# %%
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


try_it(begin, start_equal, 3)

# %% check="u09-dropout"
# Weights and buffers of all ranks; random numbers; bytes that are sent.

# %% [markdown]
# <details><summary>Only buffers differ</summary>
#
# What of a model is no parameter and yet part of its state, as the running mean of a normalisation?
# </details>

# %% [markdown]
# ## Parameters that a rank does not use
#
# A layer that is skipped, an expert that no token chose: their gradients never come, and no hook tells. If another rank has used them, the buckets no longer match. Ranks must then agree beforehand: on buckets that are made of *parameters*, not of what happens.

# %% Unused and shared parameters [markdown] exercise="u09-unused" points=3.5 minutes=25 difficulty=4 importance=3 extra=true
# **Write** `backward_with_unused`. All or nothing.
#
# - Buckets are made beforehand: parameters from the last to the first of `model.parameters()`; a bucket ends with the one that brings it to at least `bucket_bytes`.
# - They are sent in this order. Each is sent as soon as all its gradients are complete and all buckets before it are sent. What is left goes when backward is over.
# - A gradient that a rank lacks counts as zeros. Afterwards every rank has the sum for every parameter. No parameter is frozen, and every `grad` is None before.
# - A parameter that two modules share is there once, and its hook fires once.
#
# *Worked case:* as before, parameters of 48, 96 and 64 bytes from first to last, `bucket_bytes=96`: buckets of **160** and **48**, though rank 1 does not use the second parameter.


# %% solution="u09-unused"
def backward_with_unused(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward in buckets that all ranks know beforehand.

    Args:
        comm: This rank's way to the others.
        model: Some parameters may get no gradient on some ranks.
        loss: This rank's share of the mean loss of the whole batch.
        bucket_bytes: A bucket has at least as many, but the last.
    """
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
    travelling = []

    def start_next() -> None:
        members = buckets[len(travelling)]
        for member in members:
            if member.grad is None:
                member.grad = torch.zeros_like(member)
        flat = joined(members)
        travelling.append((comm.all_reduce(flat, async_op=True), flat))

    def hook(parameter: Tensor) -> None:
        complete.add(parameter)
        while len(travelling) < len(buckets) and complete.issuperset(buckets[len(travelling)]):
            start_next()

    with hooks_on(model, hook):
        loss.backward()
    while len(travelling) < len(buckets):
        start_next()
    for members, (call, flat) in zip(buckets, travelling, strict=True):
        call.wait()
        give_back(flat, members)
    ### END SOLUTION


# %%
def unused_on_rank_1(backward_with_unused, bucket_bytes):
    def step(comm, model):
        first = model[0](torch.ones(1, 2, dtype=torch.float64))
        middle = model[1](first) if comm.rank == 0 else pad(first, (0, 1))
        backward_with_unused(comm, model, model[2](middle).sum() / comm.size, bucket_bytes)

    run = VirtualCluster(2).run(step, three_layers())
    return [event.num_bytes for event in run.communications()]


try_it(unused_on_rank_1, backward_with_unused, 96)

# %% check="u09-unused"
# Unused on one rank and on all; shared parameters; number, bytes and order of buckets; when each leaves.

# %% [markdown]
# <details><summary>Rank 0 waits for a bucket, rank 1 for another one</summary>
#
# Which bucket may be sent second, if the second is complete before the first? What would another rank do at that moment?
# </details>

# %% [markdown]
# ## Real processes
#
# Your trainer knows nothing of clocks. The same function on two processes of this machine, which talk through gloo (PyTorch's way between processes without GPUs), against one process with the whole batch (a few seconds):


# %% tags=["demonstration"]
def wide_model():
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.Tanh())]
    return nn.Sequential(*layers)


def share_of_rows(model, comm):
    rows = torch.linspace(-1, 1, 64 * 256).reshape(64, 256).tensor_split(comm.size)
    return model(rows[comm.rank]).square().sum() / 64


def real_step(comm):
    model = wide_model()
    buckets_of(comm, model, share_of_rows(model, comm), 2**20)
    return [parameter.grad for parameter in model.parameters()]


gradients_of_two = run_ranks(real_step, 2)
alone = run_ranks(real_step, 1)[0]
for rank, gradients in enumerate(gradients_of_two):
    pairs = zip(gradients, alone, strict=True)
    print(f"rank {rank} as one:", all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs))

# %% [markdown]
# And beside PyTorch's own `DistributedDataParallel`, which registers such hooks in C++: in the same two processes, one step after the other. It takes the mean over ranks, so its loss is multiplied by their number (some seconds):


# %% tags=["demonstration"]
def both_in_turn(comm, num_steps):
    ours, theirs = wide_model(), wide_model()
    wrapped = DistributedDataParallel(theirs, bucket_cap_mb=1)

    def step_ours():
        buckets_of(comm, ours, share_of_rows(ours, comm), 2**20)

    def step_theirs():
        (share_of_rows(wrapped, comm) * comm.size).backward()

    milliseconds = {"your buckets": [], "DDP": []}
    for _ in range(num_steps):
        for name, step in (("your buckets", step_ours), ("DDP", step_theirs)):
            ours.zero_grad()
            theirs.zero_grad()
            comm.barrier()
            start = time.perf_counter()
            step()
            milliseconds[name].append(1e3 * (time.perf_counter() - start))
    return {name: sorted(each)[num_steps // 2] for name, each in milliseconds.items()}


for name, median in run_ranks(both_in_turn, 2, 21)[0].items():
    print(f"{name}: {median:.1f} ms a step")
if torch.cuda.device_count() > 1:
    print(f"several GPUs: run_ranks(real_step, {torch.cuda.device_count()}, backend='nccl')")

# %% [markdown]
# ## Recap
#
# 1. *Weigh*: a rank's loss is its sum over the targets of all ranks; then gradients are summed up and nothing is divided.
# 2. *Write*: one all-reduce for each parameter, one for all, or one for each bucket as soon as it is full.
# 3. *Predict*: bytes hide behind backward as long as each rank has enough tokens; the number of parameters does not matter. On many ranks latency ends it before, with each bucket's 2(d−1) messages.
# 4. *Choose*: buckets neither small (latency) nor large (the tail), at the price of up to a second set of gradients, where they are no views of the buckets; accumulation exchanges once a step; more ranks with fewer tokens each end where the threshold lies.
#
# | quantity | formula |
# |---|---|
# | share of a rank | its summed loss / targets of all ranks |
# | all-reduce in a ring of d: reduce-scatter, then all-gather | 2(d−1) · λ + 2(d−1)/d · S / W |
# | all-reduce / backward | bytes per element · (d−1)/d · F / (2 · tokens · W) |
# | fewest tokens that hide it | bytes per element · (d−1) · F / (2 · d · W) |
# | global batch | micro-batch · accumulation · ranks |
#
# ## Further reading
#
# - Li et al. 2020, *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, section 3 (20 minutes): buckets, overlap, accumulation, unused parameters.
# - Hugging Face, *The Ultra-Scale Playbook*, data parallelism (15 minutes): the three steps with traces of real GPUs.
# - Patarasuk and Yuan 2009, *Bandwidth optimal all-reduce algorithms for clusters of workstations* (JPDC 69(2)), section 4 (15 minutes): why a ring.
