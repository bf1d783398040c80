# ---
# jupyter:
#   course:
#     title: Gradient accumulation and batch size
#     minutes: 120
#     device: CPU
#     lecture: [E9, E10, E17, S15, B8, B10]
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
# # 08 · Gradient accumulation and batch size
#
# A batch that is too large for the memory goes through the model in pieces, and the gradient comes out the same, if the pieces are weighed right. Then: how large should a batch be at all? You measure when more examples in a step stop to pay.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture E (*Efficient LLMs*), batch size and accumulation (E9, E10, E17); lecture S (*Scaling LLM Training, Part I*), accumulation (S15); lecture B (*Building LLMs in Practice*), accumulation and configuring a run (B8, B10) | 120 minutes, and more for the extras | CPU | 01, 03, 04 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Accumulate** the gradients of a large batch exactly, whatever the lengths of its sequences.
# 2. **Measure** what accumulation saves, and what it costs.
# 3. **Configure** micro-batch, accumulation and devices for a batch that is given in tokens.
# 4. **Estimate** the noise scale of gradients, and **choose** a batch size.

# %% [markdown]
# ## Symbols of these lectures
#
# | here | lecture E | lecture S | lecture B | meaning |
# |---|---|---|---|---|
# | b | mbs | bs | b | sequences of a **micro-batch**: one forward and backward pass on one device |
# | m | grad_acc | steps | steps | micro-batches that a device accumulates in one step |
# | d | | | DP | devices that share a batch |
# | B | bs, gbs | | B | sequences of one step, b · m · d; from the noise scale on, examples |
# | s | seq | L | S | tokens of a sequence |
# | G, g | | | | gradient of the mean loss over all data, and that of one example's loss |
# | Σ | | | | covariance of the g |
# | S, E | | | | steps and examples that a run needs to reach a loss L |
# | B_c | | | | critical batch size |
#
# A **step** is one update of the weights. A letter with a number behind it, as in S15, is a place in a lecture; S, E, B and L alone are the symbols of the table.

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import itertools
import math

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from autograder import answer, check, compare, predict
from course_utils.configs import ModelConfig, preset
from course_utils.formulas.batch_size import fit_tradeoff
from course_utils.formulas.batch_size import power_law as fit_power_law
from course_utils.instruments import (
    count_flops,
    count_saved_bytes,
    fake_tensors,
    time_call,
    trace_memory,
)
from course_utils.reference import Transformer, batch_experiment, token_loss
from course_utils.reference.accumulation import ragged_batch
from course_utils.show import (
    batch_plan,
    batch_schedule,
    computed_and_measured,
    explorer,
    memory_timelines,
    noise_estimates,
    noise_over_loss,
    steps_against_examples,
    try_it,
    with_progress,
)

# %% [markdown]
# ## A tour: backward adds
#
# PyTorch never replaces a gradient. Each backward pass **adds** to what is in `grad`:

# %% tags=["nbval-check-output"]
weight = torch.ones(1, requires_grad=True)
for x in (3.0, 5.0):
    (weight * x).backward()
    print(weight.grad)

# %% [markdown]
# So a batch can go through the model one **micro-batch** after the other, before the optimizer makes one step: that is gradient accumulation (E17). Only one micro-batch of activations is in memory at a time.
#
# Lecture S (S15) takes the gradient of each micro-batch's mean loss, divides it by the number of micro-batches (its `steps`), and adds up. Here is its rule, and how far its gradient is from that of the whole batch at once. `token_loss(logits, targets)` is the mean of `F.cross_entropy` over all tokens; the **norm** of a gradient is the length of all its numbers as one vector.


# %%
def small_model():
    torch.manual_seed(0)
    layers = (nn.Embedding(11, 16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11))
    return nn.Sequential(*layers).double()


def running_mean(model, ids, targets, micro_batch_size):
    id_groups, target_groups = ids.split(micro_batch_size), targets.split(micro_batch_size)
    num_micro_batches = len(id_groups)
    for some_ids, some_targets in zip(id_groups, target_groups, strict=True):
        (token_loss(model(some_ids), some_targets) / num_micro_batches).backward()


def error(rule, lengths, micro_batch_size):
    ids, targets = ragged_batch(lengths, vocab_size=11)
    whole, pieces = small_model(), small_model()
    token_loss(whole(ids), targets).backward()
    rule(pieces, ids, targets, micro_batch_size)
    wanted, got = (
        torch.cat([each.grad.flatten() for each in model.parameters()]) for model in (whole, pieces)
    )
    return float((got - wanted).norm() / wanted.norm())


# %% tags=["nbval-check-output"]
print("equal up to rounding:", error(running_mean, [6, 6, 6, 6], 1) < 1e-12)

# %% [markdown]
# Now break it. Sequences of a batch rarely have one length: short ones are filled up, and what fills them has the target −100, which `F.cross_entropy`, and so `token_loss`, leaves out. Prompts that are not to be learnt are marked the same way. A **target** is from here on one that is not −100. `ragged_batch` makes such a batch, of sequences with so many targets. What is to be learnt differs: in a sequence of up to half the longest one's length each word is followed by the word before it in the vocabulary, in a longer one by the word after it.

# %% tags=["nbval-check-output"]
print(ragged_batch([5, 1, 3], vocab_size=11)[1])
print("equal up to rounding:", error(running_mean, [5, 1, 3], 1) < 1e-12)

# %% [markdown]
# **Predict.** Eight sequences of 32, 2, 30, 4, 28, 3, 31 and 5 tokens go through the model one at a time. Is the norm of the error of the lecture's gradient nearer to 1, 10 or 100 percent of the true gradient's norm?

# %%
predict("u08-running-mean", None, "%")

# %% What a token counts [markdown] exercise="u08-mean-of-means" points=1.5 minutes=12 difficulty=2 importance=4
# **Write** `token_weights`: how much **one token** of each sequence counts in the lecture's running mean, a list of one `float` for each sequence. All or nothing.
#
# The rule takes `micro_batch_size` sequences at a time, in order; the last micro-batch may be smaller. Here every token is a target: the loss of a micro-batch is the mean over the tokens of all its sequences, and is divided by the number of micro-batches before it is added. What a token counts is the derivative of the final sum by that token's loss: the check asks autograd for it, and allows a relative error of 10⁻¹² for rounding.
#
# *Worked case:* lengths 3, 1, 2 in micro-batches of two: **0.125**, **0.125**, **0.25**.


# %% solution="u08-mean-of-means"
def token_weights(lengths: list[int], micro_batch_size: int) -> list[float]:
    """Weight of one token of each sequence in the mean of the micro-batches' means.

    Args:
        lengths: Tokens of each sequence, none of them zero.
        micro_batch_size: Sequences b of a micro-batch; the last may be smaller.
    """
    ### BEGIN SOLUTION
    num_micro_batches = -(-len(lengths) // micro_batch_size)
    weights = []
    for start in range(0, len(lengths), micro_batch_size):
        group = lengths[start : start + micro_batch_size]
        weights += [1 / (num_micro_batches * sum(group))] * len(group)
    return weights
    ### END SOLUTION


# %%
try_it(token_weights, [3, 1, 2], 2)

# %% check="u08-mean-of-means"
# Ragged and equal lengths; micro-batches of one, of all, and a smaller last one.

# %% [markdown]
# <details><summary>I get one sixth for every token of the worked case</summary>
#
# That is what training wants. What does the *lecture* do with the micro-batch of four tokens, what with that of two, and what with both results?
# </details>

# %% [markdown]
# **Measure.** By what factor does a token count more than its share, and how wrong is the gradient?

# %% tags=["nbval-check-output"]
weights_of = answer("u08-mean-of-means", token_weights)
lengths = [32, 2, 30, 4, 28, 3, 31, 5]
by_micro_batch = {
    b: {
        "in the longest": round(weights_of(lengths, b)[0] * sum(lengths), 2),
        "in the shortest": round(weights_of(lengths, b)[1] * sum(lengths), 2),
        "error, %": round(100 * error(running_mean, lengths, b), 1),
    }
    for b in (1, 2, 3, 4, 8)
}
pd.DataFrame(by_micro_batch).T.rename_axis("micro-batch")

# %% tags=["nbval-check-output"]
compare("u08-running-mean", "%", measured=by_micro_batch[1]["error, %"])

# %% [markdown]
# **Explain.** One at a time, a token of the sequence of two counts sixteen times as much as one of 32, and here short sequences teach something else than long ones. In pairs it is nearly hidden: each pair has one long and one short sequence. With equal numbers of targets the rule of S15 is right, so the mistake is easy to miss: Hugging Face's transformers had it until October 2024 (issue 24725, pull request 34191).
#
# And if a micro-batch has no target at all?

# %% tags=["nbval-check-output"]
some_ids, no_targets = ragged_batch([0, 3], vocab_size=11)
model = small_model()
mean_of_none = token_loss(model(some_ids[:1]), no_targets[:1])
mean_of_none.backward()
is_zero = not any(each.grad.any() for each in model.parameters())
print("loss:", mean_of_none.item(), "  all gradients zero:", is_zero)

# %% [markdown]
# The mean of no numbers is 0/0: one such micro-batch makes the loss that you report nan, while its gradient is zero.

# %% [markdown]
# ## Accumulating exactly

# %% Accumulate [markdown] exercise="u08-accumulate" points=3.5 minutes=22 difficulty=3 importance=5
# **Write** `accumulate`: add the gradient of the **mean loss over all targets of the batch** to `grad`, in micro-batches, and return that mean, a `float`. You may use `token_loss`.
#
# - `model(ids)` gives logits (b, s, v). Each micro-batch of `micro_batch_size` sequences goes through once; the last may be smaller.
# - *Existing gradients* are added to.
# - An *empty micro-batch*, without targets, does no harm; you may skip it. A batch with *no targets* gives 0.0 and leaves `grad` as it is.
# - *Memory*: at the peak there is one micro-batch, and gradients live in `grad` only.
#
# These four, and lengths that are *equal*, *ragged* or leave a *rest*, earn equal shares.
#
# *Worked case:* 3, 1 and 2 targets in micro-batches of two: each target counts **1/6**, what is filled up **0**.


# %% solution="u08-accumulate"
def accumulate(model: nn.Module, ids: Tensor, targets: Tensor, micro_batch_size: int) -> float:
    """Add the gradients of a batch's mean loss, one micro-batch after the other.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        ids: Token ids (B, s).
        targets: What follows each token (B, s); -100 does not count.
        micro_batch_size: Sequences b of a micro-batch; the last may be smaller.

    Returns:
        The mean loss over all targets; 0.0 without any.
    """
    ### BEGIN SOLUTION
    num_targets = int((targets != -100).sum())
    if num_targets == 0:
        return 0.0
    mean_loss = 0.0
    for start in range(0, len(ids), micro_batch_size):
        some = slice(start, start + micro_batch_size)
        logits = model(ids[some]).flatten(0, 1)
        summed = F.cross_entropy(logits, targets[some].flatten(), reduction="sum")
        loss = summed / num_targets
        loss.backward()
        mean_loss += loss.item()
    return mean_loss
    ### END SOLUTION


# %%
def what_targets_count(rule):
    """A table of scores from zero: the gradient at a target is 8/9 of what it counts."""
    model = nn.Embedding(9, 9, _weight=torch.zeros(9, 9, dtype=torch.float64))
    _, targets = ragged_batch([3, 1, 2], vocab_size=9)
    rule(model, torch.arange(9).reshape(3, 3), targets, 2)
    counts = -9 / 8 * model.weight.grad.min(dim=1).values.reshape(3, 3)
    return (counts + 0.0).round(decimals=4).tolist()


print("the lecture's rule:", what_targets_count(running_mean))
try_it(what_targets_count, accumulate)

# %% check="u08-accumulate"
# Gradients in float64; passes; what is held at the peak: activations and sets of gradients.

# %% [markdown]
# <details><summary>Only batches of equal lengths are right</summary>
#
# What number do you divide by: one of the micro-batch, or one of the batch? Which `reduction` of `F.cross_entropy` has not divided yet?
# </details>
#
# <details><summary>My loss is nan</summary>
#
# In which micro-batch first, and how many targets has it? Which operation divides by their number?
# </details>
#
# <details><summary>My gradients are right, and "memory" fails</summary>
#
# Backward frees what a graph holds, once it went through. When does it go through yours? And is there anything besides `grad` in which you collect gradients?
# </details>

# %% [markdown]
# **Measure.** A small Llama and eight sequences of 128 tokens through your function, all at once, in pairs and one at a time (some seconds):

# %%
accumulate_of = answer("u08-accumulate", accumulate)
tiny = ModelConfig(num_layers=2, hidden_size=64, num_heads=4, ffn_size=192, vocab_size=256)
tiny_model = Transformer(tiny)
tiny_ids = torch.arange(16 * 128).reshape(16, 128) % 256
eight = tiny_ids[:8]


def memory_of(micro_batch_size):
    tiny_model.zero_grad()
    return trace_memory(
        lambda: accumulate_of(tiny_model, eight, eight, micro_batch_size), tiny_model
    )


accumulation_traces = {f"micro-batch of {b}": memory_of(b) for b in (8, 2, 1)}
memory_timelines(accumulation_traces)

# %% [markdown]
# Gradients come with the first backward pass and stay; activations rise and fall with each micro-batch.
#
# **Predict.** Llama-3.2-1B in bf16, four sequences of 1,024 tokens: all at once, forward and backward take 8.6 GiB beside the weights at the peak, and no gradient is there yet. All gradients are 2.3 GiB. How many GiB are there at the peak one sequence at a time?

# %%
predict("u08-accumulated", None, "GiB")

# %% [markdown]
# Here are the right way and two mistakes. `losses(b)` gives the loss of one micro-batch of b sequences after the other, each weighed as it must be:


# %%
def at_once(losses, model):
    next(losses(4)).backward()


def one_at_a_time(losses, model):
    for part in losses(1):
        part.backward()


def backward_at_the_end(losses, model):
    sum(losses(1)).backward()


def gradients_in_a_list(losses, model):
    every = []
    for part in losses(1):
        part.backward()
        every.append([each.grad for each in model.parameters()])
        model.zero_grad()


# %% [markdown]
# And what is in memory at the peak, beside the weights, on tensors that only have shapes (`fake_tensors`; ten seconds):


# %% tags=["nbval-check-output"]
def trace_of(way):
    with fake_tensors():
        model = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        tokens = torch.ones(4, 1024, dtype=torch.long)

        def losses(b):
            return (token_loss(model(some), some) * b / 4 for some in tokens.split(b))

        return trace_memory(lambda: way(losses, model), model)


peaks = {}
for way in (at_once, one_at_a_time, backward_at_the_end, gradients_in_a_list):
    trace = trace_of(way)
    peaks[way.__name__.replace("_", " ")] = trace.live_at(trace.peak_at)
peaks = pd.DataFrame(peaks).T[["gradients", "activations", "temporaries"]] / 2**30
peaks.assign(together=peaks.sum(axis=1)).round(2).rename_axis("GiB at the peak")

# %% tags=["nbval-check-output"]
compare("u08-accumulated", "GiB", measured=round(peaks.loc["one at a time"].sum(), 2))

# %% [markdown]
# **Explain.** The two peaks lie at different moments. All at once, it comes before there is any gradient: all 8.6 GiB are of the batch. One at a time, it comes in the second micro-batch, when all gradients of the first are there; they stay, and accumulation can never free them. So the rule is a quarter of everything plus the gradients, 8.6/4 + 2.3 = 4.45 GiB, and not (8.6 − 2.3)/4 + 2.3 = 3.9. It is not exact: activations fall a little below a quarter, and temporaries stay above one, since at this peak a new gradient of the vocabulary's matrix, 0.49 GiB, waits to be added to the old one.
#
# One backward at the end saves 4 %: all four graphs wait for it. A list of gradients takes more than the large batch. Adding up losses *after* backward, as numbers or as tensors, costs nothing: their graphs are empty by then.

# %% [markdown]
# What does accumulation cost? Lecture S (S15) says: more compute. Lecture B (B8) has a table of what grows with the micro-batch b and what with the whole batch B. **Measure** two of its rows: the bytes that one micro-batch keeps for backward, and the FLOPs of one step.


# %% tags=["nbval-check-output"]
def kept_bytes(b):
    some = tiny_ids[:b]
    return count_saved_bytes(lambda: token_loss(tiny_model(some), some), tiny_model).total_bytes


def flops_of(num_sequences, b):
    def call():
        some = tiny_ids[:num_sequences]
        return torch.tensor(accumulate_of(tiny_model, some, some, b))  # backward is in it already

    return sum(count_flops(call))


by_sizes = {
    (num_sequences, b, num_sequences // b): {
        "bytes kept": f"{kept_bytes(b):,}",
        "FLOPs": f"{flops_of(num_sequences, b):,}",
    }
    for num_sequences, b in ((8, 8), (8, 4), (8, 2), (16, 4))
}
pd.DataFrame(by_sizes).T.rename_axis(["batch", "micro-batch", "accumulated"])

# %% [markdown]
# **Explain.** Activations follow b, FLOPs follow B: accumulation spends the **same** FLOPs, to the last one, and the slide of S15 is wrong here. What it gives up is parallelism: the passes come one after the other, each reads all weights again, and small matrix products use a device badly:

# %%
for b in (8, 1):
    timing = time_call(
        lambda b=b: accumulate_of(tiny_model, eight, eight, b), num_warm_up=1, num_runs=5
    )
    print(f"micro-batch of {b}: {timing}")

# %% [markdown]
# On a machine that does nothing else, the same FLOPs take longer in eight passes than in one. So let the micro-batch be as large as the memory allows, and accumulate only what does not fit.

# %% [markdown]
# ## Training with it
#
# A training loop has a **scheduler**, which sets the learning rate by counting steps, and **clips** the gradient: if its norm is above a limit, it is shortened to that. Both speak of *steps*, and a step now has several micro-batches.
#
# The loop that gets all of this right is an **extra**, for bonus points and about 22 minutes. Without it go on at **Measure**.

# %% A training loop [markdown] exercise="u08-train" points=3 minutes=22 difficulty=3 importance=5 extra=true
# **Write** `train`. The list of micro-batches is cut into **groups** of `micro_batches_per_step`; the *last group* may have fewer. A group is one batch and makes one step. Return a list of the groups' mean losses. You may use `token_loss`.
#
# - *Accumulation*: the gradient is that of the mean loss over all targets of the group, and at the peak there is one micro-batch, as in your `accumulate`.
# - *Old gradients*, from before a group, do not go into it.
# - *Clipping*: `clip_grad_norm_(parameters, max_norm)`, once for the whole gradient, returns the norm from before.
# - The optimizer steps, then the scheduler (*schedule*). There is *no step* where loss or norm is not finite, as for a group without targets: its entry is `None`.
#
# The six words in italics earn equal shares.
#
# *Worked case:* 3, 1, 2 and 5 targets, two micro-batches in a group: two steps, losses **2.499** and **1.731**.


# %% solution="u08-train"
def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    micro_batches: list[tuple[Tensor, Tensor]],
    micro_batches_per_step: int,
    max_norm: float,
) -> list[float | None]:
    """Train, with one step for each group of micro-batches.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        optimizer: Of the model's parameters.
        scheduler: Of the optimizer.
        micro_batches: Ids and targets, each (b, s); the target -100 does not count.
        micro_batches_per_step: Micro-batches m of a group; the last may have fewer.
        max_norm: The longest that a group's gradient may be.

    Returns:
        For each group its mean loss, or None without a step.
    """
    ### BEGIN SOLUTION
    results: list[float | None] = []
    for start in range(0, len(micro_batches), micro_batches_per_step):
        group = micro_batches[start : start + micro_batches_per_step]
        num_targets = sum(int((targets != -100).sum()) for _, targets in group)
        optimizer.zero_grad()
        mean_loss = 0.0
        for ids, targets in group:
            logits = model(ids).flatten(0, 1)
            loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") / num_targets
            loss.backward()
            mean_loss += loss.item()
        norm = clip_grad_norm_(model.parameters(), max_norm)
        is_step = math.isfinite(mean_loss) and math.isfinite(norm)
        if is_step:
            optimizer.step()
            scheduler.step()
        results.append(mean_loss if is_step else None)
    return results
    ### END SOLUTION


# %%
def setting(model):
    optimizer = SGD(model.parameters(), lr=0.5)
    return model, optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))


def in_twos(train, lengths):
    micro_batches = [ragged_batch([length], vocab_size=11) for length in lengths]
    losses = train(*setting(small_model()), micro_batches, micro_batches_per_step=2, max_norm=1.0)
    return [loss if loss is None else round(loss, 3) for loss in losses]


try_it(in_twos, train, [3, 1, 2, 5])
try_it(in_twos, train, [3, 1, 0, 0, 5])

# %% check="u08-train"
# Steps, learning rates, weights, losses and what is held at the peak: the six situations of the exercise.

# %% [markdown]
# <details><summary>Only "clipping" fails</summary>
#
# How often do you clip in one step, and is the gradient whole by then? A sum of gradients that were shortened one by one points elsewhere.
# </details>
#
# <details><summary>After a broken group nothing is ever right again</summary>
#
# Anything plus nan is nan. What is in `grad` when the next group begins?
# </details>
#
# <details><summary>"last group" fails</summary>
#
# Five micro-batches, two in a group: how many groups? How many targets has the last, and by which number do you divide?
# </details>

# %% [markdown]
# **Measure.** The same sequences as four micro-batches of one, and as one batch of four. Do both end with the same weights?

# %% tags=["nbval-check-output"]
train_of = answer("u08-train", train)
of_four = [ragged_batch([6, 2, 5, 3], vocab_size=11)] * 20
of_one = [
    one for ids, targets in of_four for one in zip(ids.split(1), targets.split(1), strict=True)
]


def losses_and_weights(micro_batches, micro_batches_per_step):
    model = small_model()
    losses = train_of(*setting(model), micro_batches, micro_batches_per_step, 1.0)
    return losses, torch.cat([each.detach().flatten() for each in model.parameters()])


run_losses, run_weights = losses_and_weights(of_four, 1)
_, accumulated_weights = losses_and_weights(of_one, 4)
print(f"loss from {run_losses[0]:.2f} to {run_losses[-1]:.2f} in {len(run_losses)} steps")
print("same weights:", torch.allclose(run_weights, accumulated_weights, rtol=1e-9))

# %% [markdown]
# **Explain.** Whoever trains cannot tell the two apart. Clip each micro-batch instead, and that is over: the sum of shortened gradients points elsewhere.

# %% tags=["nbval-check-output"]
long, short = torch.tensor([9.0, 0.0]), torch.tensor([0.0, 1.0])
print("each clipped to norm 1:", F.normalize(F.normalize(long, dim=0) + short, dim=0))
print("the sum clipped to it: ", F.normalize(long + short, dim=0))

# %% [markdown]
# ## Configuring a run
#
# A batch size in sequences says nothing without their length, so it is given in **tokens** (E9, B10): B · s. Lecture B writes the same B for tokens and for sequences; its "4–60 million tokens per step" are for models of 7B and far more. Lecture E's bs = mbs · grad_acc (E17) is for one device. On d devices, each with the same number of sequences, B = b · m · d.
#
# **Predict.** A batch of 2²⁰ tokens in sequences of 4,096 on four devices; at most 12 sequences fit on one. The micro-batch is to be as large as possible, and nothing left over. How many micro-batches does each device accumulate?

# %%
predict("u08-num-micro-batches", None, "micro-batches")

# %% Configure a run [markdown] exercise="u08-configure" points=1.5 minutes=9 difficulty=2 importance=5
# **Write** `configuration`: a dictionary of three `int`s, each a third of the points: `"micro_batch_size"` b, `"num_micro_batches"` m and `"tokens_per_step"`.
#
# - Every device has the same number of sequences, and a step has no more than `global_batch_tokens` tokens, but as many as possible.
# - Among all b and m that give this many, b is the largest that is no larger than `max_micro_batch`. All micro-batches are of that size.
#
# The inputs allow at least one sequence for each device.
#
# *Worked case:* 100 tokens, sequences of 4, two devices, at most 5 fit: 12 sequences for each device, so **4**, **3** and **96**.


# %% solution="u08-configure"
def configuration(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """Micro-batch, accumulation and tokens of one step.

    Args:
        global_batch_tokens: Tokens that a step should have at most.
        seq_len: Tokens s of a sequence.
        num_devices: Devices d that share the batch.
        max_micro_batch: Sequences that fit on one device.

    Returns:
        "micro_batch_size", "num_micro_batches" and "tokens_per_step".
    """
    ### BEGIN SOLUTION
    sequences_each = global_batch_tokens // seq_len // num_devices
    b = min(max_micro_batch, sequences_each)
    while sequences_each % b:
        b -= 1
    return {
        "micro_batch_size": b,
        "num_micro_batches": sequences_each // b,
        "tokens_per_step": num_devices * sequences_each * seq_len,
    }
    ### END SOLUTION


# %%
try_it(configuration, 100, 4, 2, 5)

# %% check="u08-configure"
# One device and many; batches that come out even or not; a prime number of sequences.

# %% [markdown]
# <details><summary>My micro-batch is max_micro_batch, and it is wrong</summary>
#
# How many sequences has each device in a step? Twelve in micro-batches of five: what happens to the last two?
# </details>

# %% [markdown]
# **Measure.** Let the model count its passes for every micro-batch up to 12, and keep those in which no pass is smaller than the others:

# %% tags=["nbval-check-output"]
configuration_of = answer("u08-configure", configuration)
share_of_device = torch.zeros(2**20 // 4096 // 4, 1, dtype=torch.long)
num_passes = {}
for b in range(1, 13):
    passes = []
    counted_model = small_model()
    counted_model.register_forward_pre_hook(lambda _, inputs, to=passes: to.append(len(inputs[0])))
    accumulate_of(counted_model, share_of_device, share_of_device, b)
    if len(set(passes)) == 1:
        num_passes[b] = len(passes)
print("passes by micro-batch:", num_passes)
compare(
    "u08-num-micro-batches",
    "micro-batches",
    computed=configuration_of(2**20, 4096, 4, 12)["num_micro_batches"],
    measured=min(num_passes.values()),
)

# %% tags=["nbval-check-output"]
budgets = {"0.92M": 920_000, "2^20": 2**20, "4M": 4_000_000, "2^22": 2**22, "60M": 60_000_000}
configurations = {name: configuration_of(tokens, 4096, 4, 12) for name, tokens in budgets.items()}
pd.DataFrame(configurations).T.rename_axis("global batch")

# %% [markdown]
# **Explain.** A round number of millions is a trap: 4M leaves each device with 244 = 4 · 61 sequences, so that of the 12 that fit only 4 go at a time; 60M with 3,662 = 2 · 1,831, and only 2. Choose a number of *sequences* with many small divisors.
#
# The passes are independent of one another until the optimizer steps, so that they can as well run on several devices at the same time: data parallelism is accumulation in space (E17), and has to weigh targets as carefully.

# %% [markdown]
# ## How large should a batch be?
#
# Accumulation and devices make every global batch possible. Which one is good? Some settings, in sequences times their length:

# %% tags=["nbval-check-output"]
used = {
    "llm-foundry's benchmark of a 1B model": 224 * 4096,
    "Llama-1": 4 * 10**6,
    "DeepSeek-V3, at first": 3_072 * 4096,
    "DeepSeek-V3, after 469 billion tokens": 15_360 * 4096,
}
for run, tokens in used.items():
    print(f"{run}: {tokens / 10**6:.1f} million tokens a step")

# %% [markdown]
# The slide's "DeepSeek about 60M" (E9) is the *end* of a ramp that begins at a fifth of it; the first line is a setting to measure throughput with, no training run.
#
# The slide also says: small batches are noisy, need more steps and "may evade optima"; large ones are stable, need fewer and "arrive at better optima". You measure the noise, the steps to one loss, and how low the loss is after as many steps or examples. No run here is long enough to tell of optima.

# %% [markdown]
# ## How noisy is a batch?
#
# An **example** is what is drawn at random into a batch: here a point, for a language model a sequence; reports multiply by its length and give tokens. From here on B counts examples.
#
# Let G be the gradient over all data, and g the gradient of one example's loss. The g scatter around G with a **covariance** Σ, a matrix with a row and a column for each parameter. On its diagonal stand the variances; their sum, the **trace** tr(Σ), is the mean squared distance of a g from G.
#
# A batch of B examples averages B of them: its squared distance from G is tr(Σ)/B on average. That equals the squared norm |G|² at
#
# $$B_{noise} = \frac{\mathrm{tr}(\Sigma)}{|G|^2},$$
#
# the **simple noise scale** (McCandlish et al. 2018), in examples. A much smaller batch points almost anywhere; a much larger one repeats what it knows.
#
# **Predict.** A small network, just initialised, is to tell five classes of 4,096 points apart. Is its noise scale nearer to 6, 60, 600 or 6,000 examples?

# %%
predict("u08-noise", None, "examples")

# %% The noise scale [markdown] exercise="u08-noise-scale" points=2 minutes=12 difficulty=2 importance=5
# **Write** `noise_scale`: tr(Σ)/|G|² of a float64 matrix with one row for each example and one column for each parameter, a `float`. The rows are *all* the data, not a sample of it: divide by their number. Where G is zero, and only there, `math.inf`. A relative error of 10⁻⁹ is allowed, for sums in another order.
#
# *Worked case:* gradients (3, 1) and (1, −1): G is (2, 0), both lie at a squared distance of 2 from it, and |G|² is 4: **0.5**.


# %% solution="u08-noise-scale"
def noise_scale(gradients: Tensor) -> float:
    """Simple noise scale, in examples.

    Args:
        gradients: (example, parameter), float64.
    """
    ### BEGIN SOLUTION
    whole = gradients.mean(dim=0)
    size = float((whole**2).sum())
    if size == 0:
        return math.inf
    trace = float(gradients.var(dim=0, correction=0).sum())
    return trace / size
    ### END SOLUTION


# %%
try_it(noise_scale, torch.tensor([[3.0, 1.0], [1.0, -1.0]], dtype=torch.float64))

# %% check="u08-noise-scale"
# Against the distances of every batch of two: few and many rows; equal, tiny, zero ones; rows that cancel.

# %% [markdown]
# <details><summary>I do not know how to get a covariance of so many parameters</summary>
#
# Which of its numbers do you need? What is each of them, of one column alone?
# </details>
#
# <details><summary>My number is a little too large when there are few examples</summary>
#
# By what do you divide a sum of squares: by the number of rows, or by one less?
# </details>

# %% [markdown]
# **Measure** what the noise scale is about: draw 1,000 batches of 32, and see how far their gradients lie from G. No covariance here, only distances.

# %%
noise_scale_of = answer("u08-noise-scale", noise_scale)
problem = batch_experiment.Problem()
gradients = batch_experiment.per_sample_gradients(
    batch_experiment.new_network(), problem.inputs, problem.labels
)
mean_gradient = gradients.mean(0)
drawn = batch_experiment.batches_of(gradients, 32, 1000)
mean_squared_distance = (drawn - mean_gradient).square().sum(1).mean()
compare(
    "u08-noise",
    "examples",
    computed=noise_scale_of(gradients),
    measured=(32 * mean_squared_distance / mean_gradient.square().sum()).item(),
)

# %% [markdown]
# ## Two batches tell it
#
# A large model never shows the gradients of single examples. But accumulation has gradients of two sizes at hand: that of a micro-batch b, and the whole one B. Their squared norms are enough, because on average
#
# $$\overline{|G_B|^2} = |G|^2 + \frac{\mathrm{tr}(\Sigma)}{B}$$
#
# for every batch size (the line is the mean over all batches): noise makes a gradient longer. Two sizes are two equations for two unknowns.

# %% The noise scale from two norms [markdown] exercise="u08-two-batch" points=1.5 minutes=9 difficulty=3 importance=4
# **Write** `estimate_noise`: from the squared norms of the gradients of a small and of a big batch, a dictionary of three `float`s: `"squared_norm"`, the estimate of |G|²; `"trace"`, that of tr(Σ); and `"noise_scale"`, the second over the first, `math.inf` where the first is not positive, and only there. Each is a third of the points. Estimates of both may come out negative by chance: leave them so. Rounding: 10⁻⁹.
#
# *Worked case:* squared norms 5 of 2 examples and 3 of 4: **1**, **8** and **8**, since 1 + 8/2 = 5 and 1 + 8/4 = 3.


# %% solution="u08-two-batch"
def estimate_noise(
    small_squared_norm: float, big_squared_norm: float, small_batch_size: int, big_batch_size: int
) -> dict[str, float]:
    """Unbiased estimates of |G|² and tr(Σ), and their ratio.

    Args:
        small_squared_norm: Of the gradient of the small batch.
        big_squared_norm: Of that of the big one.
        small_batch_size: Examples b.
        big_batch_size: Examples B.

    Returns:
        "squared_norm", "trace" and "noise_scale".
    """
    ### BEGIN SOLUTION
    trace = (small_squared_norm - big_squared_norm) / (1 / small_batch_size - 1 / big_batch_size)
    squared_norm = big_squared_norm - trace / big_batch_size
    return {
        "squared_norm": squared_norm,
        "trace": trace,
        "noise_scale": trace / squared_norm if squared_norm > 0 else math.inf,
    }
    ### END SOLUTION


# %%
try_it(estimate_noise, 5.0, 3.0, 2, 4)

# %% check="u08-two-batch"
# Sizes near each other and far apart; estimates that are not positive.

# %% [markdown]
# <details><summary>I do not see how to solve it</summary>
#
# Write the line above twice, once for b and once for B. What disappears when you subtract one from the other?
# </details>
#
# <details><summary>My squared norm is negative in some cases</summary>
#
# It is an estimate, made of a difference of two noisy numbers. What does the exercise ask for then?
# </details>

# %% [markdown]
# **Measure.** *Unbiased* means: right on average. Of three examples, every batch of one and every batch of two can be written down, so the average is exact:


# %% tags=["nbval-check-output"]
estimate_of = answer("u08-two-batch", estimate_noise)
three_examples = np.array([[3.0, 1.0], [1.0, -1.0], [2.0, 3.0]])


def squared_norms(batch_size):
    batches = itertools.product(three_examples, repeat=batch_size)
    return [float((np.mean(batch, axis=0) ** 2).sum()) for batch in batches]


every_pair = itertools.product(squared_norms(1), squared_norms(2))
estimates = pd.DataFrame([estimate_of(one, two, 1, 2) for one, two in every_pair])
center = three_examples.mean(0)
exact = {"squared_norm": (center**2).sum(), "trace": ((three_examples - center) ** 2).sum(1).mean()}
print(f"{len(estimates)} pairs, {np.isinf(estimates['noise_scale']).sum()} infinite noise scales")
pd.DataFrame({"mean of estimates": estimates[list(exact)].mean(), "exact": exact}).round(9)

# %% [markdown]
# The two estimates are right on average. Their *ratio* is not: in some pairs it is infinite, and so is its mean. And how far is one pair off? Three hundred pairs of batches of 8 and 64 at the start of the training problem:

# %%
norms = {
    size: batch_experiment.batches_of(gradients, size, 300, seed=size).square().sum(1).tolist()
    for size in (8, 64)
}
of_means = estimate_of(sum(norms[8]) / 300, sum(norms[64]) / 300, 8, 64)
noise_estimates(
    [estimate_of(*pair, 8, 64)["noise_scale"] for pair in zip(norms[8], norms[64], strict=True)],
    of_means=of_means["noise_scale"],
    exact=noise_scale_of(gradients),
)

# %% [markdown]
# **Explain.** One pair tells little. Average the two *estimates* over many steps, and divide once: a ratio of means, never a mean of ratios.

# %% [markdown]
# ## The noise grows as the loss falls
#
# At five moments of a run with the gradients of all data, exact and estimated:

# %% tags=["demonstration"]
exact_of = answer("u08-noise-scale", noise_scale)
estimated_of = answer("u08-two-batch", estimate_noise)
moments = {}
network = batch_experiment.new_network()
for step in with_progress(range(21), "steps"):
    if step in (0, 3, 5, 10, 20):
        rows = batch_experiment.per_sample_gradients(network, problem.inputs, problem.labels)
        small, big = (
            batch_experiment.batches_of(rows, size, 100, seed=size).square().sum(1).mean().item()
            for size in (8, 1024)
        )
        moments[step] = {
            "loss": problem.loss(network),
            "|G|²": rows.mean(0).square().sum().item(),
            "tr(Σ)": rows.var(0, correction=0).sum().item(),
            "exact": exact_of(rows),
            "estimated": estimated_of(small, big, 8, 1024)["noise_scale"],
        }
    batch_experiment.descend(network, problem.inputs, problem.labels, learning_rate=1.0)
moments = pd.DataFrame(moments).T.rename_axis("step")
moments.round(3)

# %% tags=["demonstration"]
noise_over_loss(list(moments["loss"]), list(moments["exact"]), list(moments["estimated"]))

# %% [markdown]
# **Explain.** The examples agree on little from the start: tr(Σ) is sixty times |G|². What they agree on is then learnt and gone: |G|² shrinks to a thirtieth, while tr(Σ) even grows by half. That is why a batch that is too large at the start is right at the end, and why reports raise it on the way.
#
# The last estimate is a sixth too low. By then tr(Σ)/1024 is three times |G|², so that even the batch of 1,024 has a gradient that is mostly noise. |G|² is what is left when that is subtracted, and a hundred batches tell it badly.

# %% [markdown]
# ## What a larger batch buys
#
# To reach one loss, a batch size B needs S optimizer **steps** and E = B·S **examples**. There is a fewest number of steps S_min, with exact gradients, and a fewest number of examples E_min, with tiny batches. McCandlish et al. found that all sizes between lie on a hyperbola:
#
# $$\left(\frac{S}{S_{min}} - 1\right)\left(\frac{E}{E_{min}} - 1\right) = 1$$
#
# In its middle, at B_c = E_min / S_min, lies the **critical batch size** (E10). The theory promises that it has the order of magnitude of the noise scale during the run.

# %% Steps against examples [markdown] exercise="u08-tradeoff" points=1 minutes=8 difficulty=2 importance=5
# **Write** `steps_and_examples`: where a batch size lies on the hyperbola, a dictionary with `"steps"` and `"examples"`, two `float`s, each half of the points. Put E = B·S and E_min = B_c·S_min into it and solve for S. Rounding: 10⁻⁹.
#
# *Worked case:* at least 100 steps, critical batch size 30, batches of 10: **400** steps and **4,000** examples. (400/100 − 1 = 3, and 4,000/3,000 − 1 = 1/3.)


# %% solution="u08-tradeoff"
def steps_and_examples(
    min_steps: float, critical_batch_size: float, batch_size: int
) -> dict[str, float]:
    """Steps and examples that a batch size needs.

    Args:
        min_steps: S_min.
        critical_batch_size: B_c, in examples.
        batch_size: B, in examples.

    Returns:
        "steps" and "examples".
    """
    ### BEGIN SOLUTION
    steps = min_steps + min_steps * critical_batch_size / batch_size
    return {"steps": steps, "examples": steps * batch_size}
    ### END SOLUTION


# %%
try_it(steps_and_examples, 100.0, 30.0, 10)

# %% check="u08-tradeoff"
# At the critical batch size; far below it; far above it.

# %% [markdown]
# <details><summary>My equation becomes quadratic</summary>
#
# Multiply the two brackets out. Which number stands alone on both sides, and what can you divide by then?
# </details>

# %% tags=["nbval-check-output"]
tradeoff_of = answer("u08-tradeoff", steps_and_examples)
by_factor = {
    f"B = {factor:g} · B_c": tradeoff_of(1, 1024, int(1024 * factor)) for factor in (1 / 8, 1, 8)
}
places = pd.DataFrame(by_factor).T / [1, 1024]
places.rename(columns={"steps": "S / S_min", "examples": "E / E_min"}).round(3)

# %% [markdown]
# Far below B_c twice the batch halves the steps and costs nothing: **perfect scaling**. At B_c both are twice the fewest. Far above it twice the batch costs twice the examples and saves nothing.
#
# **Predict.** On the training problem batches of 16 reach a loss of 0.6 with about 5,600 examples. Will batches of 4,096 need nearer to 5,000, 40,000 or 1,000,000?

# %%
predict("u08-large-batch", None, "examples")

# %% [markdown]
# **Measure.** Six batch sizes, each with five learning rates, of which the best counts: without tuning you compare learning rates, not batches. And three draws of the batches, since one may be luck (ten seconds).

# %% tags=["demonstration"]
steps = pd.DataFrame(
    {
        f"draw {seed}": {
            size: batch_experiment.steps_to_loss(problem, size, 0.6, seed=seed)
            for size in (16, 64, 256, 512, 1024, 4096)
        }
        for seed in with_progress((7, 8, 9), "draws")
    }
).rename_axis("batch size")
steps["median"] = steps.median(axis=1).astype(int)
steps["examples"] = steps["median"] * steps.index
steps

# %% [markdown]
# By the hyperbola S = S_min + E_min · (1/B) is a straight line over 1/B, fitted by least squares of the relative deviations. First without the largest batch, which it then predicts:

# %% tags=["demonstration"]
medians = {int(size): int(count) for size, count in steps["median"].items()}
smaller = {size: count for size, count in medians.items() if size < 4096}
predicted = answer("u08-tradeoff", steps_and_examples)(
    *fit_tradeoff(list(smaller), list(smaller.values())), 4096
)
compare(
    "u08-large-batch", "examples", computed=predicted["examples"], measured=4096 * medians[4096]
)

# %% tags=["demonstration"]
for name in steps.columns[:4]:
    min_steps, critical = fit_tradeoff(list(medians), [int(count) for count in steps[name]])
    print(f"{name}: at least {min_steps:.1f} steps, critical batch size {critical:.0f}")
steps_against_examples(medians, min_steps, critical)

# %% [markdown]
# **Explain.** Fitted to the smaller batches, the hyperbola predicts 34,600 examples for batches of 4,096, and 40,960 are needed: ten steps where it says 8.4. It knows S_min least of all from them: 7.1 steps, and 8.0 with the largest batch.
#
# A dot and the point of the curve that belongs to it have the same batch size. Batches of 64 need 6 % more steps than the curve says, and so 6 % more examples: the dot lies up and to the right of its point. Straight above the dot's examples the curve is far lower, since it is steep there. The steps differ by a few percent, since learning rates come in steps and small batches differ by luck.
#
# From draw to draw the critical batch size moves by some hundred examples. All of them lie between the noise scales after 10 and after 20 steps above, 381 and 3,016. As the noise scale grows fifty times in one run, that is a weak test: the theory promises the order of magnitude of a mean over the run, no more.

# %% [markdown]
# ## Do large batches arrive at better optima?
#
# No run here gets to an optimum, but it shows how far batches get, and that depends on what is held fixed. The lowest loss after 32 **steps**, and after 16,384 **examples**, over the same learning rates, for three draws:

# %% tags=["demonstration"]
lowest = {}
for size in with_progress((32, 128, 512, 2048), "batch sizes"):
    for what, count in (("32 steps", 32), ("16,384 examples", 16_384 // size)):
        for seed in (7, 8, 9):
            loss = batch_experiment.loss_after(problem, size, count, seed)
            lowest.setdefault((f"after {what}", f"draw {seed}"), {})[size] = loss
pd.DataFrame(lowest).rename_axis("batch size").round(3)

# %% [markdown]
# **Explain.** For as many steps the large batch ends lower: it has seen more data. For as many *examples*, which is what a training run is given, the largest ends **highest** in every draw. The slide's "evade" and "better optima" is not what McCandlish et al. show: above the critical batch size returns diminish. What large batches buy is **time**, as long as there are devices to run them side by side.

# %% [markdown]
# ## The critical batch size of a language model
#
# MiniMax trained models of 50M, 150M and 600M parameters and found a critical batch size for each loss (E10). The points of the lecture lie near a **power law** $B_c = c \cdot L^{k}$:

# %% tags=["nbval-check-output"]
minimax_losses = [2.22, 1.98, 1.77, 1.58]
minimax_tokens = [16e6, 32e6, 64e6, 128e6]
fitted = fit_power_law(minimax_losses, minimax_tokens)
by_fit = [fitted["batch_at_loss_1"] * loss ** fitted["exponent"] for loss in minimax_losses]
print(f"exponent k = {fitted['exponent']:.2f}; twice the batch for every")
print(f"{1 - 2 ** (1 / fitted['exponent']):.1%} that the loss falls")
pd.DataFrame(
    {
        "million tokens": [f"{each / 10**6:g}" for each in minimax_tokens],
        "by the fit": [f"{each / 10**6:.1f}" for each in by_fit],
    },
    index=pd.Index(minimax_losses, name="loss"),
)

# %% [markdown]
# Kaplan et al. 2020 have −1/0.21 = −4.8 for this exponent, from other models and data: it is no constant of nature. The schedule that MiniMax made of it doubles the batch when the loss allows it:

# %%
minimax_schedule = [
    (0, 16 * 10**6),
    (69 * 10**9, 32 * 10**6),
    (790 * 10**9, 64 * 10**6),
    (4_700 * 10**9, 128 * 10**6),
]
batch_schedule(minimax_schedule, 10_400 * 10**9)

# %% [markdown]
# More than half of the tokens come with the largest batch, and two thirds of the steps before it.

# %% [markdown]
# ## Choose one
#
# A model of 1B, sequences of 4,096 tokens, four GPUs, and a budget of 25 billion tokens. What would each batch mean, if the critical batch size were 4 million tokens? The steps are those of the budget; S / S_min and E / E_min compare the steps and the tokens that one and the same loss takes. Four GPUs accumulate all of these batches, so that the time to that loss goes with its tokens.

# %% tags=["nbval-check-output"]
critical_guess, budget = 4 * 10**6, 25 * 10**9


def what_it_means(num_sequences):
    tokens = num_sequences * 4096
    place = tradeoff_of(1, critical_guess, tokens)
    return {
        "million tokens": f"{tokens / 10**6:.2f}",
        "on each GPU": num_sequences // 4,
        "steps of the budget": budget // tokens,
        "S / S_min": round(place["steps"], 2),
        "E / E_min": round(place["examples"] / critical_guess, 2),
    }


choices = {each: what_it_means(each) for each in (64, 256, 512, 1024, 4096, 15_360)}
pd.DataFrame(choices).T.rename_axis("sequences")

# %% [markdown]
# Does it fit? Move the sliders: which of them move the dot on the hyperbola, and which change the memory of a GPU?

# %%
explorer(
    batch_plan,
    model=(["Llama-3.2-1B", "Llama-3-8B"], "Llama-3.2-1B"),
    global_batch_size=([16, 64, 256, 1024, 4096, 16_384], 1024),
    micro_batch_size=([1, 2, 4, 8], 1),
    num_devices=([1, 4, 64, 512], 4),
    critical_batch_tokens=([10**6, 4 * 10**6, 16 * 10**6, 128 * 10**6], 4 * 10**6),
)

# %% [markdown]
# The same picture standing still:

# %%
batch_plan(
    "Llama-3.2-1B",
    global_batch_size=1024,
    micro_batch_size=1,
    num_devices=4,
    critical_batch_tokens=4 * 10**6,
)

# %% [markdown]
# Only the model and the micro-batch change the memory. Only the global batch and the critical batch size move the dot. Devices decide how many micro-batches come one after the other.

# %% Which batch? [markdown] exercise="u08-choose" points=2 minutes=14 difficulty=3 importance=5
# **Write** four to six sentences: which global batch do you choose for this run, in tokens and in sequences, and how do four GPUs make it? What would the lecture's 4–60 million tokens mean here? Where would you get the noise scale from?
#
# Double-click the cell below to write.

# %% [markdown] text_answer="u08-choose"
# <!-- BEGIN SOLUTION -->
# About one million tokens: 256 sequences of 4,096, for example micro-batches of 4 on four GPUs, accumulated 16 times; that is 24,000 steps, and if the critical batch size is 4 million, a quarter more than the fewest tokens. With 60 million tokens there would be about 400 steps for the whole run, and some 16 times the fewest tokens would be needed for the same loss; 4 million tokens are 6,000 steps and already twice the fewest tokens. Those figures are of far larger models: Llama-1 has 4 million, DeepSeek-V3 ends at 60; llm-foundry's benchmark of a 1B model uses 0.92. Four GPUs accumulate anyway, so a larger batch would not even save time. The noise scale can be looked up in the run itself, from the norms of the gradients of a micro-batch and of the whole batch, averaged over many steps; before the run from a smaller model at the same loss, or from a published fit. It grows, so the batch may be doubled on the way.
#
# *Rubric:* half a point for a batch between about 0.25 and 2 million tokens with its sequences; half for micro-batch · accumulation · 4 GPUs that multiply to it; half for what 4–60 million would mean (few steps, or tokens wasted above the critical batch size; those are figures of far larger models); half for a source of the noise scale (two norms in the run, a smaller run at the same loss).
# <!-- END SOLUTION -->

# %% [markdown]
# ## Going further
#
# What follows is **extra**: bonus points. The recap is at the end.

# %% [markdown]
# ## The power law and its schedule
#
# A power law is a straight line in the logarithms of both quantities. Where does the exponent of MiniMax's points come from?

# %% Fit a power law [markdown] exercise="u08-power-law" points=2 minutes=8 difficulty=2 importance=3 extra=true
# **Write** `power_law`: the line of least squares through the points (log L, log B), as a dictionary with `"exponent"`, k, and `"batch_at_loss_1"`, c: two `float`s, each half of the points. Every point counts alike. Take any logarithm, and the same base on the way back. Rounding: 10⁻⁹.
#
# *Worked case:* losses 1, 2, 4 with batches 4,096, 512, 8. In powers of two: 0, 1, 2 with 12, 9, 3; the slope is **−4.5**, and the line stands at 12.5 where the loss is 1: 2^12.5, about **5,793**.


# %% solution="u08-power-law"
def power_law(losses: list[float], batch_sizes: list[float]) -> dict[str, float]:
    """Power law of batch size over loss.

    Args:
        losses: L of each point.
        batch_sizes: B of each point.

    Returns:
        "exponent" and "batch_at_loss_1".
    """
    ### BEGIN SOLUTION
    exponent, log_at_one = np.polyfit(np.log(losses), np.log(batch_sizes), 1)
    return {"exponent": float(exponent), "batch_at_loss_1": float(np.exp(log_at_one))}
    ### END SOLUTION


# %%
try_it(power_law, [1.0, 2.0, 4.0], [4096.0, 512.0, 8.0])

# %% check="u08-power-law"
# Two points and many; exact laws and scattered points; rising and falling.

# %% [markdown]
# <details><summary>I have a slope that is far too large</summary>
#
# On which scales is a power law a straight line? Are your points on them, in both directions?
# </details>

# %% [markdown]
# Your law, and the course's from above:

# %% tags=["nbval-check-output"]
law = answer("u08-power-law", power_law)(minimax_losses, minimax_tokens)
for name, value in law.items():
    print(f"{name}: {value:.5g}, above {fitted[name]:.5g}")

# %% Steps of a growing batch [markdown] exercise="u08-schedule" points=1.5 minutes=14 difficulty=3 importance=2 extra=true
# **Write** `num_steps`: the optimizer steps of a run until it has seen `total_tokens`, an `int`. Each pair of `schedule` is the number of tokens from which on a batch is due, and the batch in tokens; the first begins at 0, and each batch is larger than the one before it. A step takes the batch that is due when it *begins*, also where it crosses the next boundary or the end of the run. A loop over all steps is right too; a division for each stage is quicker.
#
# *Worked case:* 16 tokens a step, from token 40 on 32, to 100 tokens: three steps end at 48, two more at 112: **5**.


# %% solution="u08-schedule"
def num_steps(schedule: list[tuple[int, int]], total_tokens: int) -> int:
    """Optimizer steps of a run.

    Args:
        schedule: Pairs of tokens seen and batch in tokens, both growing.
        total_tokens: Where the run ends.
    """
    ### BEGIN SOLUTION
    boundaries = [first for first, _ in schedule] + [total_tokens]
    steps, seen = 0, 0
    for stage, (_, batch) in enumerate(schedule):
        left = min(boundaries[stage + 1], total_tokens) - seen
        if left > 0:
            in_stage = math.ceil(left / batch)
            steps += in_stage
            seen += in_stage * batch
    return steps
    ### END SOLUTION


# %%
try_it(num_steps, [(0, 16), (40, 32)], 100)

# %% check="u08-schedule"
# One stage and several; steps that end on a boundary and that cross it; stages that are skipped or never reached.

# %% [markdown]
# <details><summary>I am one step off in some cases</summary>
#
# Where does the first step of a stage begin: at its boundary, or where the last step before it ended?
# </details>

# %% tags=["nbval-check-output"]
steps_of = answer("u08-schedule", num_steps)
for name, schedule in {
    "always 16 million": [(0, 16 * 10**6)],
    "MiniMax": minimax_schedule,
    "always 128 million": [(0, 128 * 10**6)],
}.items():
    print(f"{name}: {steps_of(schedule, 10_400 * 10**9):,} steps")

# %% [markdown]
# The schedule takes a fifth of the steps of its first batch.
#
# **Measure.** Your function against a run that takes every step, over the tokens seen:

# %%
billions = [10, 69, 300, 790, 2_000, 4_700, 10_400]


def steps_taken(total_tokens):
    seen = count = 0
    while seen < total_tokens:
        seen += max(batch for first, batch in minimax_schedule if first <= seen)
        count += 1
    return count


computed_and_measured(
    billions,
    computed=[steps_of(minimax_schedule, each * 10**9) for each in billions],
    measured=[steps_taken(each * 10**9) for each in billions],
    size_label="billion tokens seen",
    unit="steps",
)

# %% [markdown]
# ## A sum that loses its terms
#
# `grad` has the precision of its parameter. In bf16 a number has 8 significant bits, 7 of mantissa and the one before them: when the sum of many gradients is 512 times as large as the next one, adding it changes nothing.

# %% Gradients summed in fp32 [markdown] exercise="u08-buffer" points=2 minutes=15 difficulty=3 importance=3 extra=true
# **Write** `sum_in_fp32`: make a buffer of zeros in fp32 for each parameter that wants a gradient, and see to it that every backward pass from now on adds its gradients there. Return the list of buffers, in the order of `model.parameters()`. All or nothing.
#
# - After a backward pass every `grad` is None.
# - The gradients in bf16 are never all there: each goes as soon as it is added.
#
# `parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)` as soon as backward has filled in its `grad`.
#
# *Worked case:* twelve layers of 16 · 16 weights and two backward passes: **12** buffers.


# %% solution="u08-buffer"
def sum_in_fp32(model: nn.Module) -> list[Tensor]:
    """Buffers into which all later backward passes add their gradients.

    Args:
        model: With parameters in bf16, of which some may be frozen.
    """
    ### BEGIN SOLUTION
    buffers = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        total = torch.zeros(parameter.shape, dtype=torch.float32, device=parameter.device)

        def add(parameter: Tensor, total: Tensor = total) -> None:
            total.add_(parameter.grad)
            parameter.grad = None

        parameter.register_post_accumulate_grad_hook(add)
        buffers.append(total)
    return buffers
    ### END SOLUTION


# %%
def numbers_in_buffers(sum_in_fp32):
    model = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(12))).bfloat16()
    buffers = sum_in_fp32(model)
    for _ in range(2):
        model(torch.ones(1, 16, dtype=torch.bfloat16)).sum().backward()
    left = sum(each.grad is not None for each in model.parameters())
    return {"buffers": len(buffers), "dtype": str(buffers[0].dtype), "left in grad": left}


try_it(numbers_in_buffers, sum_in_fp32)

# %% check="u08-buffer"
# Sums in float64 of the same gradients; precision; gradients that are there at once; frozen layers.

# %% [markdown]
# <details><summary>All my hooks add to the last buffer</summary>
#
# A function that you define in a loop looks its variables up when it is *called*. Which ways do you know to give it a value of its own?
# </details>

# %% [markdown]
# **Measure.** The gradient of K micro-batches, summed in bf16 and in your buffers, against the same in float64:

# %%
fp32_of = answer("u08-buffer", sum_in_fp32)


def sum_of_gradients(num_micro_batches, dtype, has_buffers=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11)).bfloat16().to(dtype)
    buffers = fp32_of(model) if has_buffers else None
    inputs = torch.randn(num_micro_batches, 8, 16).bfloat16().to(dtype)
    labels = torch.randint(11, (num_micro_batches, 8))
    for x, y in zip(inputs, labels, strict=True):
        F.cross_entropy(model(x), y).backward()
    gradients = buffers or [each.grad for each in model.parameters()]
    return torch.cat([each.double().flatten() for each in gradients])


def error_in_percent(num_micro_batches, has_buffers):
    true = sum_of_gradients(num_micro_batches, torch.float64)
    rounded = sum_of_gradients(num_micro_batches, torch.bfloat16, has_buffers)
    return round(float(100 * (rounded - true).norm() / true.norm()), 2)


pd.DataFrame(
    {
        "sum in bf16, error in %": {k: error_in_percent(k, False) for k in (8, 64, 512)},
        "sum in fp32, error in %": {k: error_in_percent(k, True) for k in (8, 64, 512)},
    }
).rename_axis("micro-batches")

# %% [markdown]
# **Explain.** Every single gradient has the rounding of bf16 either way. In fp32 those errors average out as more are added; in bf16 the sum itself goes wrong, the longer it is the more. That is the 18 bytes for each parameter of unit 03: gradients in fp32, those in bf16 there for a moment only.

# %% [markdown]
# ## Recap
#
# 1. *Accumulate*: every micro-batch adds the gradient of its sum of losses over the number of targets of the whole batch; a mean of means weighs targets of short sequences more.
# 2. *Measure*: only one micro-batch of activations is in memory; FLOPs are those of the large batch, passes are more.
# 3. *Configure*: global batch = micro-batch · accumulation · devices, in sequences; times the length, in tokens.
# 4. *Estimate and choose*: two squared norms give the noise scale; a batch far below it wastes steps, one far above it wastes tokens, and it grows as the loss falls.
#
# | quantity | formula |
# |---|---|
# | gradient of a batch | sum over its micro-batches of the gradients of all targets, over the number of its targets |
# | global batch B, in sequences | b · m · d |
# | tokens of a step | B · s |
# | noise of a batch | mean of \|G_B − G\|² = tr(Σ)/B |
# | noise scale | tr(Σ)/\|G\|² |
# | estimated from two batches | \|G\|² ≈ (B·\|G_B\|² − b·\|G_b\|²)/(B − b), tr(Σ) ≈ (\|G_b\|² − \|G_B\|²)/(1/b − 1/B) |
# | steps to a loss | S_min (1 + B_c/B) |
# | examples to a loss | E_min (1 + B/B_c), E_min = B_c S_min |
# | critical batch size over loss | c · L^k |
#
# ## Further reading
#
# - McCandlish et al. 2018, *An Empirical Model of Large-Batch Training*, sections 2.2 and 2.3, appendix A (25 minutes): noise scale, hyperbola, and the estimate from two norms.
# - Kaplan et al. 2020, *Scaling Laws for Neural Language Models*, section 5.1 (10 minutes): the critical batch size as a power of the loss.
# - MiniMax 2025, *MiniMax-01*, on pre-training (10 minutes): the fit and the schedule of the lecture.
# - DeepSeek-AI 2024, *DeepSeek-V3 Technical Report*, section 4.2 (5 minutes): a ramp of the batch in a real run.
