# ---
# jupyter:
#   course:
#     title: A bug clinic (optional)
#     device: CPU
#     needs: ["08", "09"]
#     lecture: [S17, S18, B9]
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
# ![One step of four layers on two devices, to scale: 11 ms of computing and 8 ms of exchange, one after the other, 19 ms in all. Every gradient is right.](hero.svg)
#
# Eight data-parallel trainers, each with one bug of a line or two. No type checker catches them, and only one of them hangs. You see what a colleague would show you: a timeline, a loss curve, a norm, an error message.
#
# Your training plan counts on eight devices to do the work of one, eight times faster. Each of these bugs breaks that promise.
#
# This unit is **optional**: all points are a bonus, and you can take the sections in any order.
#
# 1. **Recognise** a bug by its symptom, before you read the code.
# 2. **Predict** the number that the bug produces.
# 3. **Repair** it, so that several ranks compute what one rank with all rows would.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from itertools import pairwise

import torch
from torch import Tensor, nn

from autograder import check, compare, predict, progress
from course_utils import colours
from course_utils.distributed import (
    Comm,
    DeadlockError,
    Link,
    Network,
    NullComm,
    VirtualCluster,
)
from course_utils.reference.bucketing import backward_in_buckets as with_overlap
from course_utils.show import Choice, Picture, cluster_timeline, explorer
from course_utils.show.picture import axes
from course_utils.show.try_on_ranks import try_on_ranks

# %% [markdown]
# Every section has three steps:
#
# 1. *Symptom*: a folded cell runs the broken trainer and shows what happens.
# 2. *Guess*: write the name of the bug on paper, in two words, and predict its number in another run. The list below helps.
# 3. *Repair*: open the trainer's folded cell, copy its body into the answer cell, and fix it. Change as little as you can.
#
# A rank's loss is its **share** of the whole batch's loss, so gradients are *summed* over ranks (S17), not averaged. A repair is right if every rank ends with what one rank with all rows would have (in section 8: but for the masks), and makes no extra calls.
#
# <details><summary>The eight suspects, in no particular order</summary>
#
# - A seed that all ranks share.
# - A wait in the wrong place.
# - A gradient that is scaled down too early.
# - A rank that skips its calls.
# - A gradient that is summed twice.
# - A starting point that ranks do not share.
# - A mean that is taken twice.
# - A remainder that nobody sends.
# </details>

# %% folded=true
# Data and small models for all sections
torch.manual_seed(0)
data = torch.randn(16, 4, dtype=torch.float64)


def layers_between(*widths, seed=0):
    torch.manual_seed(seed)
    layers = (nn.Linear(*pair, dtype=torch.float64) for pair in pairwise(widths))
    return nn.Sequential(*layers)


def share_of_loss(comm, model):
    mine = data.tensor_split(comm.size)[comm.rank]
    return model(mine).square().sum() / len(data)


# %% [markdown]
# ## 1. One weight runs away
#
# "The loss explodes, but only since we tied the last layer's weight to the first's."


# %% folded=true
# Trainer 1, broken: guess first, then open it
def broken_1(comm, model, loss):
    loss.backward()
    for layer in model.modules():
        for parameter in layer.parameters(recurse=False):
            if parameter.requires_grad:
                comm.all_reduce(parameter.grad)


# %% folded=true tags=["nbval-check-output"]
# Symptom: the norm of each gradient, over that on one rank with all rows
def tied_layers(num_places):
    layers = layers_between(4, 4, 4, 4, 4)
    for number in range(1, num_places):
        layers[-number].weight = layers[0].weight
    return layers


def times_too_large(trainer, num_ranks, num_places):
    def step(comm, model):
        trainer(comm, model, share_of_loss(comm, model))
        return [each.grad.norm() for each in model.parameters()]

    model = tied_layers(num_places)
    got = VirtualCluster(num_ranks).run(step, model).results[0]
    (model(data).square().sum() / len(data)).backward()
    named = zip(model.named_parameters(), got, strict=True)
    return {name: round(float(one / each.grad.norm()), 6) for (name, each), one in named}


times_too_large(broken_1, 2, 2)

# %% [markdown]
# **Guess first.** Eight ranks, and *three* layers share the weight. How many times too large is its gradient?

# %%
predict("u15-tied", None, "times too large")

# %% folded=true tags=["nbval-check-output"]
# Measured: the same trainer on eight ranks, with the weight in three places
compare("u15-tied", "times too large", measured=times_too_large(broken_1, 8, 3)["0.weight"])

# %% One weight runs away [markdown] exercise="u15-tied" points=1.5 minutes=6 difficulty=2 importance=4 extra=true
# **Repair** `backward_tied`: backward, then one all-reduce for each parameter that requires a gradient, however many layers use it.
#
# - Layers may share a weight, a bias or both. Two layers with equal values are not tied.
# - A frozen parameter may have a `grad` from earlier: leave it alone.
#
# *By hand:* four layers with biases, two of which share their weight, on two ranks → **7** calls.


# %% solution="u15-tied"
def backward_tied(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce for each gradient."""
    ### BEGIN SOLUTION
    loss.backward()
    for each in model.parameters():
        if each.requires_grad:
            comm.all_reduce(each.grad)
    ### END SOLUTION


# %%
try_on_ranks(times_too_large, backward_tied, 2, 2)
try_on_ranks(times_too_large, backward_tied, 8, 3)

# %% check="u15-tied"
# Gradients in float64; calls and bytes; shared weights, biases and layers; layers that are merely equal.

# %% [markdown]
# <details><summary>Hint: `in` raises an error about sizes, or about a Boolean value</summary>
#
# `in` compares with `==`, and `==` goes through two tensors number by number. How do you ask whether two names stand for the *same* tensor, whatever its numbers?
# </details>

# %% [markdown]
# ## 2. It stops on Sunday
#
# "It ran for a week. Then came the last batch of the epoch, and since then nothing has happened."


# %% folded=true
# Trainer 2, broken: guess first, then open it
def broken_2(comm, model, rows):
    per_rank = -(-len(rows) // comm.size)  # rounded up, so that no row is lost
    mine = rows[per_rank * comm.rank :][:per_rank]
    if len(mine) == 0:
        return  # nothing to do
    loss = model(mine).square().sum() / len(rows)
    loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)


# %% folded=true tags=["nbval-check-output"]
# Symptom: sixteen rows on seven ranks, on the virtual cluster
def what_happens(trainer, num_ranks, num_rows):
    rows = data.repeat(10, 1)[:num_rows]
    try:
        run = VirtualCluster(num_ranks).run(trainer, layers_between(4, 3, 2), rows)
    except DeadlockError as error:
        return str(error)
    return f"all {num_ranks} ranks return, after {len(run.communications())} calls each"


print(what_happens(broken_2, 7, 16))

# %% [markdown]
# On a real cluster, the six would wait until a timeout. **Guess first.** The same trainer splits 130 rows over 64 ranks. How many ranks return at once?

# %%
predict("u15-hang", None, "ranks")


# %% folded=true tags=["nbval-check-output"]
# Measured: how many of 64 ranks come back from the broken trainer
def ranks_that_return(trainer, num_ranks, num_rows):
    returned = []

    def step(comm, model, rows):
        trainer(comm, model, rows)
        returned.append(comm.rank)

    with suppress(DeadlockError):
        VirtualCluster(num_ranks).run(step, layers_between(4, 3, 2), data.repeat(10, 1)[:num_rows])
    return len(returned)


compare("u15-hang", "ranks", measured=ranks_that_return(broken_2, 64, 130))

# %% [markdown]
# That is 2 · 64 + 2, so shares are rounded up to three rows: 43 ranks get three, the next gets one, and 20 get none. Having more rows than ranks is no protection.

# %% It stops on Sunday [markdown] exercise="u15-hang" points=1.5 minutes=7 difficulty=2 importance=5 extra=true
# **Repair** `backward_of_rows`: every rank makes every call, with or without rows, and every `grad` ends up holding the gradient over all rows.
#
# - Each row counts once. How you split the rows is up to you. The loss is the sum of squares over all rows, divided by the number of rows.
# - `grad` may hold gradients that this rank has accumulated and not yet summed. They belong to the total, on ranks without rows too.
# - One all-reduce for each parameter, and no other call. `rows` stays unchanged.
#
# *By hand:* five rows on four ranks, in shares of two: the last rank has none, and still makes **4** calls for two layers with biases.


# %% solution="u15-hang"
def backward_of_rows(comm: Comm, model: nn.Module, rows: Tensor) -> None:
    """Backward of this rank's rows, then one all-reduce for each gradient."""
    ### BEGIN SOLUTION
    part = -(-len(rows) // comm.size)
    share = rows[part * comm.rank :][:part]
    (model(share).square().sum() / len(rows)).backward()
    for each in model.parameters():
        comm.all_reduce(each.grad)
    ### END SOLUTION


# %%
try_on_ranks(what_happens, backward_of_rows, 7, 16)

# %% check="u15-hang"
# Gradients in float64; fewer rows than ranks, and more; accumulated gradients; every rank's calls.

# %% [markdown]
# <details><summary>Hint: must I treat a rank without rows as a special case?</summary>
#
# What does a layer return for a tensor with no rows, and what is the sum of no numbers?
# </details>

# %% [markdown]
# ## 3. Overlap that hides nothing
#
# "We send each gradient in a hook, asynchronously, while backward computes (S18). Yet the step takes as long as compute and communication added up."


# %% [markdown]
# `hooks_on`, from unit 09, calls a function as soon as a gradient is complete.


# %%
@contextmanager
def hooks_on(model, hook):
    """Call `hook(parameter)` as soon as a gradient is complete, while the `with` lasts."""
    handles = [one.register_post_accumulate_grad_hook(hook) for one in model.parameters()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# %% folded=true
# Trainer 3, broken: guess first, then open it
def broken_3(comm, model, loss):
    def send(parameter):
        comm.all_reduce(parameter.grad, async_op=True).wait()

    with hooks_on(model, send):
        loss.backward()


# %% folded=true
# Symptom: four layers on two ranks; each matmul takes 1 ms, each gradient 2 ms on the links
PRODUCT_FLOPS, GRADIENT_BYTES = 2 * 64**3, 4 * 64**2


def run_of_four_layers(trainer, exchange_ms=2.0):
    bandwidth = GRADIENT_BYTES / (exchange_ms / 1e3)
    link = Link(latency_seconds=0, bandwidth_bytes_per_second=bandwidth)
    cluster = VirtualCluster(2, network=Network(inside=link), flops_per_second=PRODUCT_FLOPS / 1e-3)

    def step(comm, model):
        trainer(comm, model, model(torch.ones(64, 64)).sum() / comm.size)

    return cluster.run(step, nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4))))


cluster_timeline(run_of_four_layers(broken_3), ranks=[0])

# %% [markdown]
# The forward pass has four matmuls of 1 ms. Backward has seven: two per layer, but one for the first, whose input needs no gradient. Each of the four gradients takes 2 ms on the links, one after the other.
#
# **Guess first.** Without the bug, how long is the step?

# %%
predict("u15-hooks", None, "ms")


# %% folded=true tags=["nbval-check-output"]
# Measured: the course's own overlap, with one gradient per call
def overlapping(comm, model, loss):
    with_overlap(comm, model, loss, bucket_bytes=1)


repaired = run_of_four_layers(overlapping)
compare("u15-hooks", "ms", measured=round(1e3 * repaired.step_seconds, 9))

# %% Overlap that hides nothing [markdown] exercise="u15-hooks" points=1.5 minutes=7 difficulty=3 importance=5 extra=true
# **Repair** `backward_in_hooks`: one asynchronous all-reduce per gradient, started as early as possible. Backward never waits, and when the function returns, every `grad` is the sum over all ranks. Every parameter gets a gradient on every rank.
#
# - `grad` may hold gradients that this rank has accumulated. Backward adds to them, and you send the total.
# - Leave no hook on the model.
#
# *By hand:* three gradients that are complete after 3, 5 and 6 s and take 2 s each on the links → the step ends after **9** s.


# %% solution="u15-hooks"
def backward_in_hooks(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, with an all-reduce of each gradient as soon as it is complete."""
    ### BEGIN SOLUTION
    calls = []

    def start(weight: nn.Parameter) -> None:
        calls.append(comm.all_reduce(weight.grad, async_op=True))

    with hooks_on(model, start):
        loss.backward()
    for call in calls:
        call.wait()
    ### END SOLUTION


# %% folded=true
# Harness: milliseconds of the step of four layers
def milliseconds(trainer):
    run = run_of_four_layers(trainer)
    return {
        "step": round(1e3 * run.step_seconds, 9),
        "exposed": round(1e3 * run.exposed_seconds(), 9),
    }


# %%
try_on_ranks(milliseconds, broken_3)
try_on_ranks(milliseconds, backward_in_hooks)

# %% check="u15-hooks"
# Gradients in float64; calls and their times; waits during backward; the step's virtual time; hooks left behind.

# %% [markdown]
# What does the bug cost on other links? Find the speed at which it costs the largest share of the step. Why does it cost less on faster links, and on slower ones?


# %% folded=true
# Explorer: run this cell, then move the controls
def step_on_links(trainer, exchange_ms):
    trainers = {"waits in the hook": broken_3, "overlaps": overlapping}
    longest = run_of_four_layers(broken_3, exchange_ms).step_seconds
    run = run_of_four_layers(trainers[trainer], exchange_ms)
    return cluster_timeline(run, ranks=[0], limit_seconds=longest)


explorer(
    step_on_links,
    trainer=Choice("trainer", ["waits in the hook", "overlaps"], "waits in the hook"),
    exchange_ms=Choice("exchange, ms", [0.25, 0.5, 1, 2, 4, 8], 2),
)

# %% [markdown]
# <details><summary>The answer</summary>
#
# At 2 ms, which is as long as the two matmuls of a layer's backward pass. 5 of the 8 ms on the links can be hidden, and the bug costs these 5 ms of 19. Faster links leave little to hide; on slower ones there is too little compute to hide it behind.
# </details>

# %% [markdown]
# ## 4. Equal gradients, different models
#
# "I compare gradients after every all-reduce: they are identical on all ranks, to the last bit. The models are not."


# %% folded=true
# Trainer 4, broken: guess first, then open it
def broken_4(comm, model, batches, learning_rate):
    for rows in batches:
        mine = rows.tensor_split(comm.size)[comm.rank]
        (model(mine).square().sum() / len(rows)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                comm.all_reduce(parameter.grad)
                parameter.sub_(learning_rate * parameter.grad)
                parameter.grad = None


# %% folded=true tags=["nbval-check-output"]
# Symptom: the loss of the same rows on four ranks, after 50 steps
def weights_of(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def model_of_rank():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).double()  # random on each rank
    model.register_buffer("scale", torch.rand(1, dtype=torch.float64))
    return model


def train_on_ranks(trainer, num_steps):
    def train(comm):
        model = model_of_rank()
        trainer(comm, model, [data] * num_steps, 0.001)
        return model(data).square().mean().item(), weights_of(model)

    return VirtualCluster(4).run(train).results


def losses_of_ranks(trainer, num_steps):
    return [round(loss, 6) for loss, _ in train_on_ranks(trainer, num_steps)]


losses_of_ranks(broken_4, 50)

# %% [markdown]
# **Guess first.** Take the distance between the weights of ranks 0 and 1. By what factor has it grown after 50 steps?

# %%
predict("u15-apart", None, "times as far apart")


# %% folded=true tags=["nbval-check-output"]
# Measured: the distance between two ranks' weights
def distance(num_steps):
    (_, one), (_, other), *_ = train_on_ranks(broken_4, num_steps)
    return float((one - other).norm())


compare("u15-apart", "times as far apart", measured=round(distance(50) / distance(0), 9))

# %% [markdown]
# All ranks take the same steps, so they stay as far apart as they started. Comparing gradients cannot reveal it.

# %% Equal gradients, different models [markdown] exercise="u15-apart" points=1.5 minutes=7 difficulty=2 importance=5 extra=true
# **Repair** `train_together`: plain gradient descent, after which all ranks have the weights and buffers that rank 0 would have had, training alone on all rows.
#
# - Ranks are given different weights *and buffers*. Gradient descent leaves buffers alone.
# - The loss of a batch is that of trainer 4: the sum of squares over all its rows, divided by their number. Each step subtracts `learning_rate` times its gradient.
# - Each tensor of the model is sent once, each gradient once per step. Without a batch, ranks still end equal.
# - `comm.broadcast(tensor, source=0)` copies rank 0's tensor to all ranks, in place.
#
# *By hand:* two layers with biases and a buffer, two steps → 5 + 8 = **13** calls.


# %% solution="u15-apart"
def train_together(
    comm: Comm, model: nn.Module, batches: Sequence[Tensor], learning_rate: float
) -> None:
    """Steps of gradient descent; all ranks start from rank 0's model."""
    ### BEGIN SOLUTION
    for tensor in [*model.parameters(), *model.buffers()]:
        comm.broadcast(tensor.detach(), source=0)
    for batch in batches:
        share = batch.tensor_split(comm.size)[comm.rank]
        (model(share).square().sum() / len(batch)).backward()
        for each in model.parameters():
            comm.all_reduce(each.grad)
            each.detach().sub_(learning_rate * each.grad)
            each.grad = None
    ### END SOLUTION


# %% folded=true
# Harness: how far each rank ends from rank 0's model, had it trained alone
def distances_to_rank_0(trainer, num_steps):
    def train(comm):
        model = model_of_rank()
        alone = deepcopy(model)
        trainer(comm, model, [data] * num_steps, 0.001)
        broken_4(NullComm(size=1), alone, [data] * num_steps, 0.001)  # right on one rank
        return [(weights_of(each), each.scale) for each in (model, alone)]

    results = VirtualCluster(4).run(train).results
    (_, rank_0), *_ = results
    off = [
        [round(float((mine - right).norm()), 6) for mine, right in zip(model, rank_0, strict=True)]
        for model, _ in results
    ]
    weights, buffers = zip(*off, strict=True)
    return {"weights": [*weights], "buffers": [*buffers]}


# %%
try_on_ranks(losses_of_ranks, train_together, 50)
try_on_ranks(distances_to_rank_0, train_together, 50)

# %% check="u15-apart"
# Weights and buffers of all ranks after zero to three steps, in float64; what is sent, and how often.

# %% [markdown]
# ## 5. Longer than its limit
#
# "We clip the gradient's norm at 1. The optimizer's log says otherwise."


# %% folded=true
# Trainer 5, broken: guess first, then open it
def broken_5(comm, model, loss, max_norm):
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
    return norm


# %% folded=true tags=["nbval-check-output"]
# Symptom: the norm of the gradient that the optimizer gets, on four ranks, in five steps
def norms_on_ranks(trainer, num_ranks, batches):
    def step(comm, model, rows):
        trainer(comm, model, model(rows[comm.rank]).square().sum() / comm.size, 1.0)
        return float(torch.cat([each.grad.flatten() for each in model.parameters()]).norm())

    model = layers_between(4, 4, 2, seed=1)
    cluster = VirtualCluster(num_ranks)
    return [round(cluster.run(step, model, rows).results[0], 4) for rows in batches]


torch.manual_seed(0)
five_batches = 8 * torch.randn(5, 4, 2, 4, dtype=torch.float64)  # steps, ranks, rows, width
norms_on_ranks(broken_5, 4, five_batches)

# %% [markdown]
# **Guess first.** On sixteen ranks: what is the largest norm that the optimizer can get?

# %%
predict("u15-clip", None, "times the limit")

# %% folded=true tags=["nbval-check-output"]
# Measured: sixteen ranks with the same rows, so that all gradients are equal
same_rows = five_batches[:1, :1].expand(1, 16, 2, 4)
compare(
    "u15-clip",
    "times the limit",
    computed=16,
    measured=round(norms_on_ranks(broken_5, 16, same_rows)[0], 3),
)

# %% Longer than its limit [markdown] exercise="u15-clip" points=1.5 minutes=6 difficulty=2 importance=4 extra=true
# **Repair** `backward_clipped`: every rank ends with the gradient of the whole batch, clipped by the norm of that whole gradient, and returns this norm as it was before clipping.
#
# - A gradient whose norm is below `max_norm` stays as it is.
# - One all-reduce for each parameter, and no other call.
#
# *By hand:* two ranks with gradients (3, 0) and (0, 4), limit 1 → every rank has **(0.6, 0.8)** and returns **5**.


# %% solution="u15-clip"
def backward_clipped(comm: Comm, model: nn.Module, loss: Tensor, max_norm: float) -> Tensor:
    """Backward, and the summed gradient clipped; its norm before that."""
    ### BEGIN SOLUTION
    loss.backward()
    for each in model.parameters():
        comm.all_reduce(each.grad)
    return nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    ### END SOLUTION


# %%
try_on_ranks(norms_on_ranks, backward_clipped, 4, five_batches)

# %% check="u15-clip"
# Gradients and norms above the limit and below; ranks that agree and ranks that nearly cancel.

# %% [markdown]
# The wrong norm is the lesser harm. The broken trainer cuts a rank with a huge gradient down to the size of any other, so the *direction* is wrong too.

# %% [markdown]
# ## 6. Eight devices, one slow learner
#
# "Same batch, same learning rate, eight devices instead of one. No error, no NaN. It just learns slowly."


# %% folded=true
# Trainer 6, broken: guess first, then open it
def broken_6(comm, model, micro_batches):
    for rows in micro_batches:
        loss = model(rows).square().mean() / (comm.size * len(micro_batches))
        loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
        parameter.grad /= comm.size


# %% folded=true
# Symptom: the loss under plain gradient descent, on one rank and on eight
def losses_over_steps(trainer, num_ranks, num_steps=60):
    def train(comm, model):
        losses = []
        for _ in range(num_steps):
            losses.append(model(data).square().mean().item())
            trainer(comm, model, list(data.tensor_split(comm.size)[comm.rank].split(1)))
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(0.05 * parameter.grad)
                    parameter.grad = None
        return losses

    return VirtualCluster(num_ranks).run(train, layers_between(4, 4, 2)).results[0]


def loss_curves(trainer):
    figure, ax = axes(height=2.6)
    marks = {1: (colours.MEASURED, "-"), 8: (colours.COMMUNICATION, "--")}
    for num_ranks, (colour, line) in marks.items():
        label = f"{num_ranks} rank{'s' * (num_ranks > 1)}"
        ax.plot(losses_over_steps(trainer, num_ranks), line, color=colour, label=label)
    ax.set_yscale("log")
    ax.set_yticks(ticks := [0.005, 0.01, 0.02, 0.05], map(str, ticks))
    ax.minorticks_off()
    ax.set_xlabel("steps")
    ax.set_ylabel("loss (log scale)")
    ax.legend(frameon=False)
    return Picture(figure, "The loss of the same 16 rows, on one rank and shared by eight.")


loss_curves(broken_6)

# %% [markdown]
# **Guess first.** On eight ranks, with two micro-batches each: what fraction of the right norm does trainer 6's gradient have?

# %%
predict("u15-scale", None, "of the right norm")


# %% folded=true tags=["nbval-check-output"]
# Measured: the norm of the gradient on eight ranks, over that on one
def gradient_norm(trainer, num_ranks):
    def step(comm, model):
        trainer(comm, model, list(data.tensor_split(comm.size)[comm.rank].split(1)))
        return float(torch.cat([each.grad.flatten() for each in model.parameters()]).norm())

    return VirtualCluster(num_ranks).run(step, layers_between(4, 4, 2)).results[0]


def norm_over_right(trainer, num_ranks):
    model = layers_between(4, 4, 2)
    model(data).square().mean().backward()
    right = float(torch.cat([each.grad.flatten() for each in model.parameters()]).norm())
    return round(gradient_norm(trainer, num_ranks) / right, 9)


compare("u15-scale", "of the right norm", measured=norm_over_right(broken_6, 8))

# %% Eight devices, one slow learner [markdown] exercise="u15-scale" points=1 minutes=5 difficulty=1 importance=4 extra=true
# **Repair** `backward_of_mean`: every rank ends with the gradient of the mean of all squares, over all rows of all micro-batches of all ranks.
#
# - All micro-batches have the same number of rows, and all ranks have the same number of micro-batches. `grad` is None before.
# - One all-reduce for each parameter. The list `micro_batches` stays unchanged.
#
# *By hand:* two ranks with three micro-batches of one row each; the six rows' own gradients are 1 to 6 → **3.5** on both ranks.


# %% solution="u15-scale"
def backward_of_mean(comm: Comm, model: nn.Module, micro_batches: Sequence[Tensor]) -> None:
    """The gradient of the mean over all rows of all ranks, on each rank."""
    ### BEGIN SOLUTION
    num_parts = comm.size * len(micro_batches)
    for batch in micro_batches:
        (model(batch).square().mean() / num_parts).backward()
    for each in model.parameters():
        comm.all_reduce(each.grad)
    ### END SOLUTION


# %%
try_on_ranks(norm_over_right, backward_of_mean, 8)

# %% check="u15-scale"
# Gradients in float64 on one to four ranks, with one to four micro-batches; every rank's calls.

# %% [markdown]
# AdamW hides this bug: apart from $\epsilon$, its step does not depend on the gradient's scale. The norm that you log or clip is wrong all the same. PyTorch's DDP divides by the number of ranks *for you* (B9); code that divides by it once more has this very bug.

# %% [markdown]
# ## 7. The head drifts
#
# "Every layer agrees across ranks, except the last."


# %%
def send(comm: Comm, bucket: Sequence[nn.Parameter]) -> None:
    """Sum the gradients of some parameters over all ranks, in one call."""
    flat = torch.cat([each.grad.flatten() for each in bucket])
    comm.all_reduce(flat)
    pieces = flat.split([each.numel() for each in bucket])
    for parameter, piece in zip(bucket, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)


# %% folded=true
# Trainer 7, broken: guess first, then open it
def broken_7(comm, model, loss, bucket_bytes):
    loss.backward()
    bucket, held = [], 0
    for parameter in model.parameters():
        bucket.append(parameter)
        held += parameter.grad.nbytes
        if held >= bucket_bytes:
            send(comm, bucket)
            bucket, held = [], 0


# %% folded=true tags=["nbval-check-output"]
# Symptom: the largest difference between two ranks' gradients, by parameter
def differences(trainer, widths, bucket_bytes):
    def step(comm, model):
        trainer(comm, model, share_of_loss(comm, model), bucket_bytes)
        return [each.grad for each in model.parameters()]

    model = layers_between(*widths)
    one, other = VirtualCluster(2).run(step, model).results
    names = [name for name, _ in model.named_parameters()]
    pairs = zip(names, one, other, strict=True)
    return {name: round(float((a - b).abs().max()), 4) for name, a, b in pairs}


differences(broken_7, [4, 4, 2], 160)

# %% [markdown]
# These gradients have 128, 32, 64 and 16 bytes, and `bucket_bytes` is 160.
#
# **Guess first.** Eight gradients of 512, 64, 2,048, 256, 2,048, 64, 512 and 64 bytes, and `bucket_bytes` is 2,048. For how many bytes do ranks disagree?

# %%
predict("u15-drift", None, "bytes")


# %% folded=true tags=["nbval-check-output"]
# Measured: all bytes of the gradients, less those that were sent
def never_sent(trainer, widths, bucket_bytes):
    def step(comm, model):
        loss = model(torch.ones(1, widths[0], dtype=torch.float64)).sum()
        trainer(comm, model, loss, bucket_bytes)

    model = layers_between(*widths)
    sent = VirtualCluster(2).run(step, model).communications()
    return sum(each.nbytes for each in model.parameters()) - sum(each.num_bytes for each in sent)


compare("u15-drift", "bytes", measured=never_sent(broken_7, [8, 8, 32, 8, 8], 2048))

# %% The head drifts [markdown] exercise="u15-drift" points=1 minutes=6 difficulty=2 importance=4 extra=true
# **Repair** `exchange_in_buckets`: run backward, then sum every gradient over ranks, in exactly one bucket. `send`, given above, sums one bucket.
#
# - Fill buckets in the order of `model.parameters()`. Send one as soon as it holds at least `bucket_bytes`; what remains goes in one last bucket.
# - If nothing remains, send nothing.
#
# *By hand:* gradients of 48, 24, 96 and 32 bytes, `bucket_bytes=72` → buckets of **72**, **96** and **32**.


# %% solution="u15-drift"
def exchange_in_buckets(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward, then an all-reduce of each bucket."""
    ### BEGIN SOLUTION
    loss.backward()
    waiting, num_bytes = [], 0
    for each in model.parameters():
        waiting.append(each)
        num_bytes += each.grad.nbytes
        if num_bytes >= bucket_bytes:
            send(comm, waiting)
            waiting, num_bytes = [], 0
    if waiting:
        send(comm, waiting)
    ### END SOLUTION


# %%
try_on_ranks(differences, exchange_in_buckets, [4, 4, 2], 160)
try_on_ranks(never_sent, exchange_in_buckets, [8, 8, 32, 8, 8], 2048)

# %% check="u15-drift"
# Gradients in float64; number and bytes of the buckets, with a remainder and without.

# %% [markdown]
# ## 8. Sixteen devices, the noise of one
#
# "Dropout adds noise to the gradient. More devices should average it out. They don't."


# %% folded=true
# Trainer 8, broken: guess first, then open it
def broken_8(comm, model, batches, seed):
    torch.manual_seed(seed)  # so that the run can be repeated
    for rows in batches:
        mine = rows.tensor_split(comm.size)[comm.rank]
        (model(mine).square().sum() / len(rows)).backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)


# %% folded=true tags=["nbval-check-output"]
# Symptom: 32 hidden units on four ranks, in two steps; a dot is a dropped unit
def dropping_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Linear(32, 2)).double()


def dropped(trainer, seed):
    def run(comm):
        model, kept = dropping_layers(), []
        model[1].register_forward_hook(lambda layer, given, out: kept.append(out[0] != 0))
        trainer(comm, model, [data[:4], data[4:8]], seed)
        return "  ".join("".join("█" if each else "·" for each in mask) for mask in kept)

    return {f"rank {n}": each for n, each in enumerate(VirtualCluster(4).run(run).results)}


try_on_ranks(dropped, broken_8, 7)

# %% [markdown]
# **Guess first.** On sixteen ranks with the same rows, how many times as large is the standard deviation of the gradient, over many runs, as in a right trainer?

# %%
predict("u15-masks", None, "times the noise")


# %% folded=true tags=["nbval-check-output"]
# Measured: the gradient's standard deviation over 100 runs (some 10 seconds)
def gradients_of_runs(comm, trainer, num_runs):
    model, gradients = dropping_layers(), []
    for number in range(num_runs):
        model.zero_grad()
        trainer(comm, model, [data[:1].expand(comm.size, 4)], 7919 * number)
        gradients.append(torch.cat([each.grad.flatten() for each in model.parameters()]))
    return torch.stack(gradients)


def times_the_noise(trainer, num_runs=100):
    together = VirtualCluster(16).run(gradients_of_runs, trainer, num_runs).results[0]
    alone = gradients_of_runs(NullComm(size=1), broken_8, 16 * num_runs)  # right on one rank
    averaged = alone.view(num_runs, 16, -1).mean(1)  # sixteen ranks, each with masks of its own
    noise, right = (each.var(0).sum().sqrt() for each in (together, averaged))
    return round(float(noise / right), 1)


compare("u15-masks", "times the noise", computed=4, measured=times_the_noise(broken_8))

# %% Sixteen devices, the noise of one [markdown] exercise="u15-masks" points=1.5 minutes=7 difficulty=2 importance=3 extra=true
# **Repair** `backward_with_dropout`: no two ranks and no two steps drop the same units.
#
# - The same `seed` gives the same masks again, whatever ran before. With another seed, each rank's masks differ from its own before.
# - No two ranks draw from one sequence of random numbers, one a little later than the other.
# - Dropout stays on. Each rank runs the model once for each batch, on the rows that trainer 8 gives it. The gradients of all ranks and batches are still summed, with one all-reduce for each parameter.
#
# *By hand:* two ranks and two batches → **4** different masks.


# %% solution="u15-masks"
def backward_with_dropout(
    comm: Comm, model: nn.Module, batches: Sequence[Tensor], seed: int
) -> None:
    """Backward of several batches with dropout, then one all-reduce for each gradient."""
    ### BEGIN SOLUTION
    torch.manual_seed(seed + comm.rank)
    for batch in batches:
        share = batch.tensor_split(comm.size)[comm.rank]
        (model(share).square().sum() / len(batch)).backward()
    for each in model.parameters():
        comm.all_reduce(each.grad)
    ### END SOLUTION


# %%
try_on_ranks(dropped, backward_with_dropout, 7)
try_on_ranks(times_the_noise, backward_with_dropout)

# %% check="u15-masks"
# Masks of all ranks and steps; a second run with the same seed, and one with another; gradients with these masks.

# %% [markdown]
# ## What you know now
#
# <details><summary>The eight bugs by name: open when you have found them</summary>
#
# | symptom | bug | what shows it at once |
# |---|---|---|
# | one weight's gradient too large by a power of $d$, the number of ranks | a tied weight is reduced once per layer | number of calls against number of parameters |
# | hangs on some batches | a rank without rows skips its collectives | calls of each rank |
# | step = compute + communication | `wait` inside the hook | waits during backward |
# | equal gradients, different weights | no broadcast at the start | a checksum of the *weights* |
# | norm above the limit, up to $d$ times | clipping before the reduction | the norm *after* the reduction |
# | gradient $1/d$ of the right size | divided by $d$ twice | one rank against two, same rows |
# | the last parameters differ between ranks | the last bucket is never sent | bytes sent against bytes of gradients |
# | noise that does not shrink with $d$ | one dropout seed for all ranks | the masks, side by side |
# </details>
#
# Two tests find six of the eight: *one rank against several on the same rows*, fewer rows than ranks included, and *a checksum of all ranks' weights after a step*. The first needs a model with tied weights for bug 1, and a norm above the limit for bug 5. Which two do they miss? Write both tests before you need them.
#
# <details><summary>The two that they miss</summary>
#
# 3 and 8. In one every number is right, only late; in the other the numbers are random in a right trainer, too.
# </details>
#
# *Further reading:* Li et al. 2020, *PyTorch Distributed*, sections 3 and 4 (20 minutes): how PyTorch's DDP handles equal starts, buckets, overlap, and ranks that would wait forever.

# %%
progress("15")
