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
# Several devices share the sequences of a batch, and all end with the same gradient. You write it in three steps, each faster than the one before, and see on a clock what every device does at every moment.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture S (*Scaling LLM Training, Part I*), strong scaling and data parallelism (S16, S17, S18), hands-on 2 (S19); lecture B (*Building LLMs in Practice*), data parallelism (B9, B11); lecture E, ways to scale (E4) | 120 minutes, and more for the extras | CPU | 01, 03, 08 |
#
# Cells that came with the notebook stay where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do after it
#
# 1. **Weigh** the shares of a batch so that no token is lost.
# 2. **Write** data parallelism in three steps.
# 3. **Predict** when communication can no longer be hidden.
# 4. **Choose** ranks, buckets and accumulation.

# %% [markdown]
# ## Symbols of these lectures
#
# | here | lecture S | lecture B | meaning |
# |---|---|---|---|
# | d | devices | DP | ranks that share a batch; in code `comm.size` |
# | B | | B | sequences of one step of the optimizer |
# | B/d | bs | B_D | sequences of one rank, if all have the same number |
# | N | | P | parameters of the model |
#
# A **rank** is one process with one device. A **collective** is a call that all ranks make together.

# %% [markdown]
# ## Setup

# %% nbgrader={"grade": false, "grade_id": "u09-setup", "locked": true, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
from course_utils.ready import check_setup

check_setup()


import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks import answer, check, compare, predict
from course_utils.configs import preset
from course_utils.instruments import (
    Comm,
    DeadlockError,
    Link,
    Network,
    VirtualCluster,
    trace_memory,
)
from course_utils.reference import Transformer, token_loss
from course_utils.reference.accumulation import ragged_batch
from course_utils.show import (
    cluster_timeline,
    cluster_timelines,
    computed_and_measured,
    ring_steps,
    try_it,
)

# %% [markdown]
# ## A tour: two ranks and one call
#
# Training can be spread over devices by the sequences of a batch (data parallelism), by the numbers of each weight (tensor), by the tokens of a sequence (context) or by the layers (pipeline): these are the four ways of lecture E (E4). This unit is about the first. Every rank runs the same function; `comm` tells it who it is:


# %% tags=["nbval-check-output"]
def add_up(comm):
    mine = torch.tensor([1.0, 10.0]) * (comm.rank + 1)
    comm.all_reduce(mine)
    return mine


VirtualCluster(2).run(add_up).results

# %% [markdown]
# An **all-reduce** sums a tensor over all ranks, in place on each. The `VirtualCluster` runs its ranks one after the other in this process, on a virtual clock: matrix products take time by their FLOPs, messages by their latency and bytes; as it stands each device is near an H100. The tensors below have no numbers (device `meta`), only sizes. Rank 1 has twice the work:


# %%
def unequal_work(comm):
    weight = torch.empty(4096, 4096, device="meta")
    for _ in range(1 + comm.rank):
        weight @ weight
    comm.all_reduce(weight)


cluster_timeline(VirtualCluster(2).run(unequal_work))

# %% [markdown]
# Rank 0 is idle until rank 1 comes: "every device waits" (S17). Now break it: rank 1 leaves the call out.


# %% tags=["nbval-check-output"]
def one_is_missing(comm):
    if comm.rank == 0:
        comm.all_reduce(torch.ones(2))


try:
    VirtualCluster(2).run(one_is_missing)
except DeadlockError as error:
    print(error)

# %% [markdown]
# On real devices nothing is printed: the program stands still until someone looks. Whatever rank 0 calls, all call, in the same order.
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
# The first loses two sequences and says nothing. `tensor_split` loses none, and no rank has more than one sequence above another: the slowest decides how long all take. `chunk` is less even, and may give fewer parts than ranks.
#
# ## Whose mean?
#
# Data parallelism is accumulation in space: "distributed accumulation" in lecture B (B9). Each rank runs its part of the batch forward and backward, then the gradients are summed. As in unit 08, sequences have different numbers of targets, and a mean of means weighs them wrong.
#
# **Predict.** Eight sequences, sorted by length, of 32, 31, 30, 28, 5, 4, 3 and 2 targets on four ranks. Every rank takes the mean loss of its own targets, and the gradients are averaged, as PyTorch's `DistributedDataParallel` does. How far is the result from the true gradient, as a percentage of its length?

# %%
predict("u09-average", None, "%")

# %% [markdown] exercise={"id": "u09-global-mean", "title": "A share of the mean", "difficulty": 2, "importance": 5, "minutes": 8}
# **Write** `share_of_mean`: this rank's share of the mean loss over the targets of **all** ranks, so that the shares of all ranks add up to it. Four situations earn equal shares of the points.
#
# - `summed_loss` is the sum over this rank's targets; autograd follows it. The share is a tensor from which backward can start, on every rank.
# - One call to the other ranks. `comm.all_reduce` sums a tensor in place; it refuses tensors that autograd follows.
# - A rank may have no targets. If no rank has any, the share is zero.
#
# *Worked case:* 3 and 1 targets, summed losses 6 and 4: shares **1.5** and **1**.


# %% nbgrader={"grade": false, "grade_id": "u09-global-mean", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u09-global-mean-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Ragged and equal numbers of targets; a rank without any, and all without.
check("u09-global-mean", share_of_mean)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u09-global-mean", share_of_mean)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>It says that autograd follows my tensor</summary>
#
# Which tensor do you send? What does a rank have to know of the others to divide its own loss right?
# </details>
#
# <details><summary>It says deadlock</summary>
#
# Does a rank without targets make the call too?
# </details>

# %% [markdown]
# **Measure.** Both ways against the gradient of the whole batch at once, on 1, 2, 4 and 8 ranks:

# %% tags=["nbval-check-output"]
share_of = answer("u09-global-mean", share_of_mean)
ids, targets = ragged_batch([32, 31, 30, 28, 5, 4, 3, 2], vocab_size=11)


def small_model():
    torch.manual_seed(0)
    layers = (nn.Embedding(11, 16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11))
    return nn.Sequential(*layers).double()


def summed_loss_and_targets(comm, model):
    mine, wanted = (each.tensor_split(comm.size)[comm.rank] for each in (ids, targets))
    logits = model(mine).flatten(0, 1)
    summed = F.cross_entropy(logits, wanted.flatten(), reduction="sum")
    return summed, int((wanted != -100).sum())


def average_of_means(comm, summed_loss, num_targets):
    return summed_loss / num_targets / comm.size


def gradient_of_rank(comm, model, share):
    loss = share(comm, *summed_loss_and_targets(comm, model))
    return torch.autograd.grad(loss, list(model.parameters()))


def error_in_percent(num_ranks, share):
    results = VirtualCluster(num_ranks).run(gradient_of_rank, small_model(), share).results
    got = torch.cat([sum(each).flatten() for each in zip(*results, strict=True)])
    model = small_model()
    token_loss(model(ids), targets).backward()
    true = torch.cat([each.grad.flatten() for each in model.parameters()])
    return round(float(100 * (got - true).norm() / true.norm()), 1)


pd.DataFrame(
    {
        "average of means, error in %": {
            d: error_in_percent(d, average_of_means) for d in (1, 2, 4, 8)
        },
        "your shares, error in %": {d: error_in_percent(d, share_of) for d in (1, 2, 4, 8)},
    }
).rename_axis("ranks")

# %% tags=["nbval-check-output"]
compare("u09-average", "%", measured=error_in_percent(4, average_of_means))

# %% [markdown]
# **Explain.** "Distributed accumulation" is right only if the weights of tokens do not depend on the rank that they are on. With means of its own, each rank's target counts by how few there are beside it, and the same batch gives another gradient on another number of ranks. With shares it is one gradient, on as many ranks as you like.

# %% [markdown]
# ## What an all-reduce is made of
#
# Collectives consist of messages from one rank to another. Here is one algorithm, which libraries such as NCCL use too: the ranks stand in a **ring**, and the tensor is cut into d parts.

# %%
ring_steps(3)

# %% [markdown]
# In the first d − 1 steps the sum of each part grows as it travels; in the other d − 1 steps the complete sums travel on, and replace what is there.
#
# **Predict.** How many bytes does one of 16 ranks send in this way, as a multiple of the tensor's bytes?

# %%
predict("u09-ring-bytes", None, "times the tensor")

# %% [markdown] exercise={"id": "u09-ring", "title": "A ring", "difficulty": 4, "importance": 4, "minutes": 20}
# **Write** `ring_all_reduce`: sum `tensor` over all ranks, in place, by messages alone. Four situations earn equal shares.
#
# - `comm.send(part, to)` and `comm.receive(buffer, source)` wait for each other. With `async_op=True` they return a handle at once; until `handle.wait()` the tensor is not to be changed. Parts are **views** of the tensor, which share its numbers.
# - Each rank sends 2(d − 1) messages, empty ones too, none with more than ⌈n/d⌉ of the tensor's n numbers.
# - In each step all ranks send and receive at the same time.
#
# The tensor is contiguous, may have several dimensions, and n may be smaller than d.
#
# *Worked case:* six float64 numbers, three ranks: **4** messages of **16** bytes from each.


# %% nbgrader={"grade": false, "grade_id": "u09-ring", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ring_all_reduce(comm: Comm, tensor: Tensor) -> None:
    """Sum a tensor over all ranks, in place on each.

    Args:
        comm: The way to the other ranks.
        tensor: Contiguous, of the same shape on all ranks.
    """
    ### BEGIN SOLUTION
    num_ranks, rank = comm.size, comm.rank
    parts = tensor.view(-1).tensor_split(num_ranks)
    for step in range(2 * (num_ranks - 1)):
        outgoing = parts[(rank - step) % num_ranks]
        incoming = parts[(rank - step - 1) % num_ranks]
        arrived = torch.empty_like(incoming)
        sending = comm.send(outgoing, (rank + 1) % num_ranks, async_op=True)
        comm.receive(arrived, (rank - 1) % num_ranks)
        sending.wait()
        if step < num_ranks - 1:
            incoming += arrived
        else:
            incoming.copy_(arrived)
    ### END SOLUTION


# %%
def on_three_ranks(ring_all_reduce):
    def rank(comm):
        tensor = torch.full((6,), 10.0**comm.rank)
        ring_all_reduce(comm, tensor)
        return tensor.tolist()

    return dict(enumerate(VirtualCluster(3).run(rank).results))


try_it(on_three_ranks, ring_all_reduce)

# %% nbgrader={"grade": true, "grade_id": "u09-ring-test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
# Sums, messages, bytes and virtual time: even parts, a rest, fewer numbers than ranks, one rank.
check("u09-ring", ring_all_reduce)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u09-ring", ring_all_reduce)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>It says deadlock</summary>
#
# A message is over when its receiver is there. If every rank sends first and waits, who receives?
# </details>
#
# <details><summary>It says that I changed a tensor</summary>
#
# Which part is on its way, and into which do you write before its handle was waited for?
# </details>
#
# <details><summary>Only my last step is wrong</summary>
#
# In the figure: which part does rank 0 send in each step? Which one came in the step before?
# </details>

# %% [markdown]
# **Measure.** Bytes that one of 16 ranks sends, and the time of 160 MB on 2 to 16 ranks, beside what the model of the links says for an all-reduce:

# %% tags=["nbval-check-output"]
ring_of = answer("u09-ring", ring_all_reduce)
link = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9)
network = Network(inside=link)
num_bytes = 160_000_000


def run_ring(num_ranks):
    cluster = VirtualCluster(num_ranks, network=network)
    return cluster.run(lambda comm: ring_of(comm, torch.empty(num_bytes // 4, device="meta")))


rings = {num_ranks: run_ring(num_ranks) for num_ranks in (2, 4, 8, 16)}
sent = [each.num_bytes for each in rings[16].communications(0) if "from rank 0 to" in each.name]
compare("u09-ring-bytes", "times the tensor", measured=sum(sent) / num_bytes)

# %%
computed_and_measured(
    list(rings),
    computed=[round(1e3 * network.seconds("all_reduce", num_bytes, range(d)), 6) for d in rings],
    measured=[round(1e3 * run.step_seconds, 6) for run in rings.values()],
    size_label="ranks",
    unit="milliseconds",
    is_log=False,
)

# %% [markdown]
# **Explain.** On d ranks with links of latency L and B bytes a second, S bytes take
#
# $$2(d-1)\,L + 2\,\frac{d-1}{d}\,\frac{S}{B}.$$
#
# On two ranks each sends its tensor once, and on a thousand not quite twice: the second term hardly grows. The first grows with every rank, for *each call*. From here on `comm.all_reduce` takes this time.

# %% [markdown]
# ## Step 1: one call for each gradient
#
# The plainest data parallelism (S17): the same weights on all ranks, a share of the batch on each, and after the backward pass the gradients are summed. All three steps of this unit have one form: `loss` is a rank's share of the mean loss, and afterwards every rank has in `grad` the gradient of the whole batch. Then every optimizer makes the same step, and the weights stay equal.

# %% [markdown] exercise={"id": "u09-each", "title": "Gradient by gradient", "difficulty": 2, "importance": 4, "minutes": 8}
# **Write** `backward_each`: run backward from this rank's `loss`, then sum the gradients over all ranks, with one all-reduce for each parameter that wants a gradient. Four situations earn equal shares.
#
# - The losses are shares already: see above.
# - `grad` may hold gradients of earlier micro-batches of this rank, not summed yet: these go along.
# - A parameter that this rank's loss does not reach has the `grad` None, and may have one elsewhere. It takes part with zeros.
# - Frozen parameters (`requires_grad` is False) take no part.
#
# *Worked case:* two layers in a row and one beside them, two ranks: **6** calls.


# %% nbgrader={"grade": false, "grade_id": "u09-each", "locked": false, "schema_version": 3, "solution": true, "task": false}
def backward_each(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce for each gradient.

    Args:
        comm: The way to the other ranks.
        model: With the same parameters on all ranks.
        loss: This rank's share of the mean loss.
    """
    ### BEGIN SOLUTION
    loss.backward()
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        comm.all_reduce(parameter.grad)
    ### END SOLUTION


# %%
def on_a_batch(trainer, num_ranks):
    def rank(comm):
        model = small_model()
        trainer(comm, model, share_of(comm, *summed_loss_and_targets(comm, model)))
        return [round(number, 9) for number in model[1].bias.grad[:2].tolist()]

    run = VirtualCluster(num_ranks).run(rank)
    beside_the_count = len(run.communications()) - 1
    return {"calls for gradients": beside_the_count, "two numbers of rank 0": run.results[0]}


try_it(on_a_batch, backward_each, 1)
try_it(on_a_batch, backward_each, 4)

# %% nbgrader={"grade": true, "grade_id": "u09-each-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Gradients in float64 on one rank to four; calls and bytes; unused and frozen parameters.
check("u09-each", backward_each)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u09-each", backward_each)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>It says deadlock or mismatch, in the case with an unused parameter</summary>
#
# One rank has a gradient for it, another has None. Which calls does each of them make?
# </details>
#
# <details><summary>My gradient is too short by the number of ranks</summary>
#
# By how many targets is each loss divided before it comes to you? What is left to divide?
# </details>

# %% [markdown]
# ## Step 2: one call for all
#
# **Predict.** Llama-3.2-1B has 146 parameter tensors. With eight ranks and a latency of 10 µs for each message: by how many milliseconds does one all-reduce shorten the step, instead of 146 for the same bytes?

# %%
predict("u09-latency", None, "ms")

# %% [markdown] exercise={"id": "u09-flat", "title": "One buffer", "difficulty": 2, "importance": 4, "minutes": 8}
# **Write** `backward_flat`: the same gradients with **one** all-reduce, of one buffer that holds those of all parameters that want one. Five situations earn equal shares; the fifth is memory.
#
# - Everything that the card of `backward_each` says holds here too. All gradients have one precision, and so has the buffer.
# - Afterwards each `grad` has the shape of its parameter; it may be a view of the buffer, or a tensor of its own.
# - At the peak there are the gradients and one buffer of the same size; afterwards one of the two.
#
# *Worked case:* two layers in a row and one beside them, two ranks: **1** call.


# %% nbgrader={"grade": false, "grade_id": "u09-flat", "locked": false, "schema_version": 3, "solution": true, "task": false}
def backward_flat(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce of all gradients.

    Args:
        comm: The way to the other ranks.
        model: With the same parameters on all ranks.
        loss: This rank's share of the mean loss.
    """
    ### BEGIN SOLUTION
    loss.backward()
    trained = [each for each in model.parameters() if each.requires_grad]
    buffer = torch.cat(
        [(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in trained]
    )
    comm.all_reduce(buffer)
    lengths = [each.numel() for each in trained]
    for each, part in zip(trained, buffer.split(lengths), strict=True):
        each.grad = part.view_as(each)
    ### END SOLUTION


# %%
try_it(on_a_batch, backward_flat, 1)
try_it(on_a_batch, backward_flat, 4)

# %% nbgrader={"grade": true, "grade_id": "u09-flat-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Gradients in float64 on one rank to four; one call and its bytes; sets of gradients at the peak and afterwards.
check("u09-flat", backward_flat)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u09-flat", backward_flat)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>The call is made, and grad stays as it was</summary>
#
# Is your buffer a copy of the gradients, or are they parts of it? Who brings the sums back?
# </details>

# %% [markdown]
# **Measure.** A step of Llama-3.2-1B on sequences of 4,096 tokens, one for each rank, on two and on eight (ten seconds):


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

# %% [markdown]
# **Explain.** The bytes are the same. What one call saves is the latency of the 145 others: 14 messages for each of them on eight ranks, two on two. What is left is bandwidth, and all of it is **exposed**: the device computes nothing while the links work. And memory? A `comm` without others, so that both ways can be traced; how many sets of gradients are there at the peak?


# %% tags=["nbval-check-output"]
class NobodyElse:
    rank, size = 0, 1

    def all_reduce(self, tensor, async_op=False):
        return None


def sets_at_peak(trainer):
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    loss = model(torch.ones(1, 256)).sum()
    trace = trace_memory(lambda: trainer(NobodyElse(), model, loss), model)
    return round((trace.peak_bytes - trace.total_bytes[0]) / trace.total_bytes[0], 1)


print({name: sets_at_peak(trainer) for name, trainer in trainers.items()})

# %% [markdown]
# For a moment the buffer is a second set of gradients: data parallelism saves no memory on a rank, and can cost some. And the links stand still until the whole backward pass is over, though the gradient of the last layer was ready long before.
