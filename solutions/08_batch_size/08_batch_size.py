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
# | lecture E, batch size and accumulation (E9, E10, E17); lecture S (*Scaling LLM Training, Part I*), accumulation (S15); lecture B (*Building LLMs in Practice*), accumulation and configuring a run (B8, B10) | 120 minutes, and more for the extras | CPU | 01, 03, 04 |
#
# Cells that came with the notebook stay where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do after it
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
# | B | bs, gbs | | B | sequences of one step of the optimizer, b · m · d |
# | s | seq | L | S | tokens of a sequence |
#
# A **step** is one update of the weights.

# %% [markdown]
# ## Setup

# %% nbgrader={"grade": false, "grade_id": "u08-setup", "locked": true, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
from course_utils.ready import check_setup

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

from course_utils.checks import answer, check, compare, predict
from course_utils.configs import ModelConfig, preset
from course_utils.formulas.batch_size import fit_tradeoff
from course_utils.instruments import (
    count_flops,
    count_saved_bytes,
    fake_tensors,
    time_call,
    trace_memory,
)
from course_utils.reference import Transformer, token_loss
from course_utils.reference.accumulation import ragged_batch
from course_utils.reference.batch_experiment import (
    Problem,
    descend,
    loss_after,
    new_network,
    per_sample_gradients,
    steps_to_loss,
)
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
# Lecture S (S15) adds up `g / steps`, where g is the gradient of a micro-batch's mean loss and `steps` the number of micro-batches. Here is its rule, and how far its gradient is from that of the whole batch at once:


# %%
def small_model():
    torch.manual_seed(0)
    layers = (nn.Embedding(11, 16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11))
    return nn.Sequential(*layers).double()


def running_mean(model, ids, targets, micro_batch_size):
    id_groups, target_groups = ids.split(micro_batch_size), targets.split(micro_batch_size)
    steps = len(id_groups)
    for some_ids, some_targets in zip(id_groups, target_groups, strict=True):
        (token_loss(model(some_ids), some_targets) / steps).backward()


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
# Now break it. Sequences of a batch rarely have one length: short ones are filled up, and what fills them has the target −100, which `F.cross_entropy` leaves out. Prompts that are not to be learnt are marked the same way. A **target** is from here on one that is not −100.

# %% tags=["nbval-check-output"]
ids, targets = ragged_batch([5, 1, 3], vocab_size=11)
print(targets)
print("equal up to rounding:", error(running_mean, [5, 1, 3], 1) < 1e-12)

# %% [markdown]
# **Predict.** Eight sequences of 32, 2, 30, 4, 28, 3, 31 and 5 tokens go through the model one at a time. How long is the error of the lecture's gradient, as a percentage of the true gradient's length?

# %%
predict("u08-running-mean", None, "%")

# %% [markdown] exercise={"id": "u08-mean-of-means", "title": "What a token counts", "difficulty": 2, "importance": 4, "minutes": 8}
# **Write** `token_weights`: how much **one token** of each sequence counts in the lecture's running mean, a list of one `float` for each sequence. All or nothing.
#
# The rule takes `micro_batch_size` sequences at a time, in order; the last micro-batch may be smaller. The loss of a micro-batch is the mean over *all* its tokens, and is divided by the number of micro-batches before it is added. A token counts as much as the sum changes when that token's loss grows by one: the check asks autograd for this derivative.
#
# *Worked case:* lengths 3, 1, 2 in micro-batches of two: **0.125**, **0.125**, **0.25**.


# %% nbgrader={"grade": false, "grade_id": "u08-mean-of-means", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u08-mean-of-means-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# Ragged and equal lengths; micro-batches of one, of all, and a smaller last one.
check("u08-mean-of-means", token_weights)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-mean-of-means", token_weights)
### END HIDDEN TESTS

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
rows = {
    b: {
        "in the longest": round(weights_of(lengths, b)[0] * sum(lengths), 2),
        "in the shortest": round(weights_of(lengths, b)[1] * sum(lengths), 2),
        "error, %": round(100 * error(running_mean, lengths, b), 1),
    }
    for b in (1, 2, 3, 4, 8)
}
pd.DataFrame(rows).T.rename_axis("micro-batch")

# %% tags=["nbval-check-output"]
compare("u08-running-mean", "%", measured=rows[1]["error, %"])

# %% [markdown]
# **Explain.** One at a time, a token of the sequence of two counts sixteen times as much as one of 32, and here short sequences teach something else than long ones. In pairs it is nearly hidden: each pair has one long and one short sequence. With equal numbers of targets the rule of S15 is right, which is why the mistake lived for years in well-known training libraries. And if a micro-batch has no target at all?

# %% tags=["nbval-check-output"]
ids, targets = ragged_batch([5, 0, 3], vocab_size=11)
print(token_loss(small_model()(ids[1:2]), targets[1:2]))

# %% [markdown]
# The mean of no numbers is 0/0, and one such micro-batch makes the loss of the whole step nan.

# %% [markdown]
# ## Accumulating exactly

# %% [markdown] exercise={"id": "u08-accumulate", "title": "Accumulate", "difficulty": 3, "importance": 5, "minutes": 18}
# **Write** `accumulate`: add the gradient of the **mean loss over all targets of the batch** to `grad`, in micro-batches, and return that mean as a `float`. Seven situations earn equal shares.
#
# - `model(ids)` gives logits (b, s, v). Each micro-batch goes through once, `micro_batch_size` sequences or, the last, fewer.
# - Gradients that are there before are added to.
# - A micro-batch without targets does no harm. A batch without any gives 0.0 and leaves `grad` as it is.
# - The peak of memory is that of one micro-batch, and there is one set of gradients.
#
# *Worked case:* 3, 1 and 2 targets in micro-batches of two: each target counts **1/6**.


# %% nbgrader={"grade": false, "grade_id": "u08-accumulate", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
def is_exact(accumulate):
    return {b: error(accumulate, [3, 1, 2], b) < 1e-12 for b in (1, 2, 3)}


try_it(is_exact, running_mean)
try_it(is_exact, accumulate)

# %% nbgrader={"grade": true, "grade_id": "u08-accumulate-test", "locked": true, "points": 3.5, "schema_version": 3, "solution": false, "task": false}
# Gradients in float64; passes; what is held at the peak: activations and sets of gradients.
check("u08-accumulate", accumulate)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-accumulate", accumulate)
### END HIDDEN TESTS

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
# **Measure.** A small Llama and eight sequences of 128 tokens, all at once and one at a time, through your function:

# %%
accumulate_of = answer("u08-accumulate", accumulate)
tiny = ModelConfig(num_layers=2, hidden_size=64, num_heads=4, ffn_size=192, vocab_size=256)
tiny_model = Transformer(tiny)
tiny_ids = torch.arange(8 * 128).reshape(8, 128) % 256


def memory_of(micro_batch_size):
    tiny_model.zero_grad()
    return trace_memory(
        lambda: accumulate_of(tiny_model, tiny_ids, tiny_ids, micro_batch_size), tiny_model
    )


accumulation_traces = {f"micro-batch of {b}": memory_of(b) for b in (8, 2, 1)}
memory_timelines(accumulation_traces)

# %% [markdown]
# Gradients come with the first backward pass and stay; activations rise and fall with each micro-batch.
#
# **Predict.** Llama-3.2-1B in bf16, four sequences of 1,024 tokens: all at once, forward and backward take 8.6 GiB beside the weights. How many GiB one sequence at a time?

# %%
predict("u08-accumulated", None, "GiB")

# %% [markdown]
# On fake tensors, with two mistakes beside it (ten seconds):


# %% tags=["nbval-check-output"]
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


def beside_weights_gib(way):
    with fake_tensors():
        model = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        tokens = torch.ones(4, 1024, dtype=torch.long)

        def losses(b):
            return (token_loss(model(some), some) * b / 4 for some in tokens.split(b))

        trace = trace_memory(lambda: way(losses, model), model)
    return round((trace.peak_bytes - trace.total_bytes[0]) / 2**30, 2)


ways = (at_once, one_at_a_time, backward_at_the_end, gradients_in_a_list)
gib_of = {way.__name__.replace("_", " "): beside_weights_gib(way) for way in ways}
weights_of_llama = Transformer(preset("Llama-3.2-1B"), "meta", torch.bfloat16).parameters()
gib_of["gradients alone"] = round(sum(each.nbytes for each in weights_of_llama) / 2**30, 2)
pd.DataFrame({"GiB beside the weights": gib_of})

# %% tags=["nbval-check-output"]
compare("u08-accumulated", "GiB", measured=gib_of["one at a time"])

# %% [markdown]
# **Explain.** Activations fall to a quarter; the gradients stay, whole, and accumulation can never free them. Whoever waits with backward saves next to nothing, and a list of gradients takes more than the large batch. Adding up losses *after* backward, as numbers or as tensors, costs nothing: their graphs are empty by then.
#
# What does it cost? Lecture S says: more compute. Count (a few seconds):


# %% tags=["nbval-check-output"]
def flops_of(micro_batch_size):
    def call():
        accumulate_of(tiny_model, tiny_ids, tiny_ids, micro_batch_size)
        return torch.zeros(())

    return sum(count_flops(call))


print({b: f"{flops_of(b):,} FLOPs" for b in (8, 1)})

# %% [markdown]
# The **same** FLOPs, to the last one: the slide of S15 is wrong here. What is traded is parallelism. The passes come one after the other, each reads all weights again, and small matrix products use a device badly:

# %%
for b in (8, 1):
    timing = time_call(
        lambda b=b: accumulate_of(tiny_model, tiny_ids, tiny_ids, b), num_warm_up=1, num_runs=5
    )
    print(f"micro-batch of {b}: {timing}")

# %% [markdown]
# ## Training with it
#
# A training loop has a **scheduler**, which sets the learning rate by counting steps, and **clips** the gradient: if its norm, the length of all its numbers as one vector, is above a limit, it is shortened to that. Both speak of *steps*, and a step now has several micro-batches.

# %% [markdown] exercise={"id": "u08-train", "title": "A training loop", "difficulty": 3, "importance": 5, "minutes": 18}
# **Write** `train`: one step for every **group** of `micro_batches_per_step` micro-batches; the last group may have fewer and counts like any other. Six situations earn equal shares.
#
# - The gradient is that of the mean loss over all targets of the *group*, and of nothing before it.
# - It is clipped once, as a whole: `clip_grad_norm_(parameters, max_norm)` does it, and returns the norm from before.
# - Then optimizer and scheduler step, in this order. A group without targets, or with a loss or gradient that is not finite, makes neither step.
#
# Return for each group its mean loss, or `"no targets"`, or `"not finite"`.
#
# *Worked case:* micro-batches of 3, 1, 2 and 5 targets, two in a group: **2** steps, of **4** and **7** targets.


# %% nbgrader={"grade": false, "grade_id": "u08-train", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    batches: list[tuple[Tensor, Tensor]],
    micro_batches_per_step: int,
    max_norm: float,
) -> list[float | str]:
    """Train, with one step for each group of micro-batches.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        optimizer: Of the model's parameters.
        scheduler: Of the optimizer.
        batches: Micro-batches: ids and targets, each (b, s); the target -100 does not count.
        micro_batches_per_step: Micro-batches m of a group; the last may have fewer.
        max_norm: The longest that a group's gradient may be.

    Returns:
        For each group its mean loss, or "no targets", or "not finite".
    """
    ### BEGIN SOLUTION
    results: list[float | str] = []
    for start in range(0, len(batches), micro_batches_per_step):
        group = batches[start : start + micro_batches_per_step]
        num_targets = sum(int((targets != -100).sum()) for _, targets in group)
        if num_targets == 0:
            results.append("no targets")
            continue
        optimizer.zero_grad()
        mean_loss = 0.0
        for ids, targets in group:
            logits = model(ids).flatten(0, 1)
            loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") / num_targets
            loss.backward()
            mean_loss += loss.item()
        norm = clip_grad_norm_(model.parameters(), max_norm)
        if math.isfinite(mean_loss) and math.isfinite(norm):
            optimizer.step()
            scheduler.step()
            results.append(mean_loss)
        else:
            results.append("not finite")
    return results
    ### END SOLUTION


# %%
def setting(model):
    optimizer = SGD(model.parameters(), lr=0.5)
    return model, optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))


def in_twos(train, lengths):
    batches = [ragged_batch([length], vocab_size=11) for length in lengths]
    return train(*setting(small_model()), batches, micro_batches_per_step=2, max_norm=1.0)


try_it(in_twos, train, [3, 1, 2, 5])
try_it(in_twos, train, [3, 1, 0, 0, 5])

# %% nbgrader={"grade": true, "grade_id": "u08-train-test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
# Steps, learning rates, weights and report: ragged, clipped, a short last group, and groups that make no step.
check("u08-train", train)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-train", train)
### END HIDDEN TESTS

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
batches_of_four = [ragged_batch([6, 2, 5, 3], vocab_size=11)] * 20
batches_of_one = [
    one
    for ids, targets in batches_of_four
    for one in zip(ids.split(1), targets.split(1), strict=True)
]


def losses_and_weights(batches, micro_batches_per_step):
    model = small_model()
    losses = train_of(*setting(model), batches, micro_batches_per_step, 1.0)
    return losses, torch.cat([each.detach().flatten() for each in model.parameters()])


losses, weights = losses_and_weights(batches_of_four, 1)
_, accumulated_weights = losses_and_weights(batches_of_one, 4)
print(f"loss from {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps")
print("same weights:", torch.allclose(weights, accumulated_weights, rtol=1e-9))

# %% [markdown]
# **Explain.** Whoever trains cannot tell the two apart. Clip each micro-batch, or let the scheduler count micro-batches, and that is over: the same numbers in a config then mean another training on another machine.

# %% [markdown]
# ## Configuring a run
#
# A batch size in sequences says nothing without their length, so it is given in **tokens** (B10): s · B. Lecture B writes the same B for tokens, "4–60 million", and for sequences; those millions are for models many times larger than yours. Lecture E's bs = mbs · grad_acc (E17) is for one device. On d devices, each with the same number of sequences, B = b · m · d.
#
# **Predict.** A batch of 2²⁰ tokens in sequences of 4,096 on four devices; at most 12 sequences fit on one. The micro-batch is to be as large as possible, and nothing left over. How many micro-batches does each device accumulate?

# %%
predict("u08-accumulation-steps", None, "micro-batches")

# %% [markdown] exercise={"id": "u08-configure", "title": "Configure a run", "difficulty": 2, "importance": 5, "minutes": 8}
# **Write** `configuration`: a dictionary of three `int`s, each a third of the points: `"micro_batch_size"` b, `"num_accumulation_steps"` m and `"tokens_per_step"`.
#
# - Every device has the same number of sequences, and a step has no more than `global_batch_tokens` tokens, but as many as possible.
# - Among all b and m that give this many, b is the largest that is no larger than `max_micro_batch`. All micro-batches are of that size.
#
# Every device gets at least one sequence.
#
# *Worked case:* 100 tokens, sequences of 4, two devices, at most 5 fit: 12 sequences for each device, so **4**, **3** and **96**.


# %% nbgrader={"grade": false, "grade_id": "u08-configure", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
        "micro_batch_size", "num_accumulation_steps" and "tokens_per_step".
    """
    ### BEGIN SOLUTION
    sequences_each = global_batch_tokens // seq_len // num_devices
    b = min(max_micro_batch, sequences_each)
    while sequences_each % b:
        b -= 1
    return {
        "micro_batch_size": b,
        "num_accumulation_steps": sequences_each // b,
        "tokens_per_step": num_devices * sequences_each * seq_len,
    }
    ### END SOLUTION


# %%
try_it(configuration, 100, 4, 2, 5)

# %% nbgrader={"grade": true, "grade_id": "u08-configure-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# One device and many; batches that come out even or not; a prime number of sequences.
check("u08-configure", configuration)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-configure", configuration)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My micro-batch is max_micro_batch, and it is wrong</summary>
#
# How many sequences has each device in a step? Twelve in micro-batches of five: what happens to the last two?
# </details>

# %% tags=["nbval-check-output"]
configuration_of = answer("u08-configure", configuration)
chosen = configuration_of(2**20, 4096, 4, 12)
passes = []
counted_model = small_model()
counted_model.register_forward_pre_hook(lambda module, inputs: passes.append(len(inputs[0])))
share_of_device = torch.zeros(2**20 // 4096 // 4, 1, dtype=torch.long)
accumulate_of(counted_model, share_of_device, share_of_device, chosen["micro_batch_size"])
compare(
    "u08-accumulation-steps",
    "micro-batches",
    computed=chosen["num_accumulation_steps"],
    measured=len(passes),
)

# %% tags=["nbval-check-output"]
budgets = {"0.92M": 920_000, "2^20": 2**20, "4M": 4_000_000, "2^22": 2**22, "60M": 60_000_000}
table = {name: configuration_of(tokens, 4096, 4, 12) for name, tokens in budgets.items()}
pd.DataFrame(table).T.rename_axis("global batch")

# %% [markdown]
# The first is what one published 1B run uses. A round number of millions is a trap: 4M leaves each device with 244 = 4 · 61 sequences, so that of the 12 that fit only 4 go at a time. Batches are powers of two for a reason.
#
# **Measure** the table of lecture B (B8): which of activations and FLOPs follow the micro-batch, which the batch?

# %% tags=["nbval-check-output"]


def kept_bytes(b):
    some = tiny_ids[:b]
    return count_saved_bytes(lambda: token_loss(tiny_model(some), some), tiny_model).total_bytes


sizes = {(b, 8 // b): {"bytes kept": kept_bytes(b), "FLOPs": flops_of(b)} for b in (8, 4, 2)}
pd.DataFrame(sizes).T.rename_axis(["micro-batch", "accumulated"])

# %% [markdown]
# **Explain.** Activations follow b, FLOPs follow B. The passes are independent of one another until the optimizer steps, so that they can as well run on several devices at the same time: data parallelism is accumulation in space (E17), and has to weigh tokens as carefully.

# %% [markdown]
# ## How large should a batch be?
#
# Accumulation and devices make every global batch possible. Which one is good? Reports give it in **tokens**, sequences times their length (E9). Some that were used:

# %% tags=["nbval-check-output"]
used = {
    "MosaicML, 1B": 224 * 4096,
    "Llama-1": 4 * 10**6,
    "DeepSeek-V3, at first": 3_072 * 4096,
    "DeepSeek-V3, after 469 billion tokens": 15_360 * 4096,
}
for run, tokens in used.items():
    print(f"{run}: {tokens / 10**6:.1f} million tokens a step")

# %% [markdown]
# The slide's "DeepSeek about 60M" is the *end* of a ramp that begins at a fifth of it. Lecture B's "4–60 million tokens per step" (B10) is for models of 7B and far more.
#
# The slide says what batches do: small ones are noisy, need more steps and "may evade optima"; large ones are stable, need fewer steps and "arrive at better optima". You measure how noisy, how many steps, and which arrive.

# %% [markdown]
# ## How noisy is a batch?
#
# Let G be the gradient over all data, and g the gradient of one example's loss. The g scatter around G with a **covariance** Σ, a matrix with a row and a column for each parameter. On its diagonal stand the variances; their sum, the **trace** tr(Σ), is the mean squared distance of a g from G.
#
# A batch of B examples averages B of them: its squared distance from G is tr(Σ)/B on average. It is as long as G itself at
#
# $$B_{noise} = \frac{\mathrm{tr}(\Sigma)}{|G|^2},$$
#
# the **simple noise scale** (McCandlish et al. 2018), in examples. A much smaller batch points almost anywhere; a much larger one repeats what it knows.
#
# **Predict.** A small network, just initialised, is to tell five classes of 4,096 points apart. How many examples is its noise scale?

# %%
predict("u08-noise", None, "examples")

# %% [markdown] exercise={"id": "u08-noise-scale", "title": "The noise scale", "difficulty": 2, "importance": 5, "minutes": 8}
# **Write** `noise_scale`: tr(Σ)/|G|² of a float64 matrix with one row for each example and one column for each parameter, a `float`. The rows are *all* the data, not a sample of it: divide by their number. Where G is zero, `math.inf`. A relative error of 10⁻⁹ is allowed, for sums in another order.
#
# *Worked case:* gradients (3, 1) and (1, −1): G is (2, 0), both lie at a squared distance of 2 from it, and |G|² is 4: **0.5**.


# %% nbgrader={"grade": false, "grade_id": "u08-noise-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u08-noise-scale-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Against the distances of every batch of two: few and many rows; equal ones; rows that cancel.
check("u08-noise-scale", noise_scale)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-noise-scale", noise_scale)
### END HIDDEN TESTS

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
# **Measure** what the noise scale is about: draw batches of 32, and see how far their gradients lie from G. No covariance here, only distances.


# %%
def batches_of(rows, batch_size, count, seed=0):
    """Mean gradients of batches drawn with replacement, one row for each batch."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(rows), (count, batch_size), generator=generator)
    return torch.stack([rows[points].mean(0) for points in drawn])


torch.set_num_threads(1)  # on small matrices a second thread only waits
noise_scale_of = answer("u08-noise-scale", noise_scale)
problem = Problem()
gradients = per_sample_gradients(new_network(), problem.inputs, problem.labels)
distances = (batches_of(gradients, 32, 1000) - gradients.mean(0)).square().sum(1)
compare(
    "u08-noise",
    "examples",
    computed=noise_scale_of(gradients),
    measured=(32 * distances.mean() / gradients.mean(0).square().sum()).item(),
)

# %% [markdown]
# ## Two batches tell it
#
# A large model never shows the gradients of single examples. But accumulation has gradients of two sizes at hand: that of a micro-batch b, and the whole one B. Their squared norms are enough, because on average
#
# $$|G_B|^2 = |G|^2 + \frac{\mathrm{tr}(\Sigma)}{B}$$
#
# for every batch size: noise makes a gradient longer. Two sizes are two equations for two unknowns.

# %% [markdown] exercise={"id": "u08-two-batch", "title": "The noise scale from two norms", "difficulty": 3, "importance": 4, "minutes": 9}
# **Write** `estimate_noise`: from the squared norms of the gradients of a small and of a big batch, a dictionary of three `float`s: `"squared_norm"`, the estimate of |G|²; `"trace"`, that of tr(Σ); and `"noise_scale"`, the second over the first, `math.inf` where the first is not positive. Each is a third of the points. Estimates of both may come out negative by chance: leave them so. Rounding: 10⁻⁹.
#
# *Worked case:* squared norms 5 of 2 examples and 3 of 4: **1**, **8** and **8**, since 1 + 8/2 = 5 and 1 + 8/4 = 3.


# %% nbgrader={"grade": false, "grade_id": "u08-two-batch", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u08-two-batch-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# Sizes near each other and far apart; estimates that are not positive.
check("u08-two-batch", estimate_noise)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-two-batch", estimate_noise)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>I do not see how to solve it</summary>
#
# Write the line above twice, once for b and once for B. What disappears when you subtract one from the other?
# </details>
#
# <details><summary>My squared norm is negative in some cases</summary>
#
# It is an estimate, made of a difference of two noisy numbers. What does the card ask for then?
# </details>

# %% [markdown]
# **Measure.** *Unbiased* means: right on average. Of three examples, every batch of one and every batch of two can be written down, so the average is exact:


# %% tags=["nbval-check-output"]
estimate_of = answer("u08-two-batch", estimate_noise)
three_examples = np.array([[3.0, 1.0], [1.0, -1.0], [2.0, 3.0]])


def squared_norms(batch_size):
    batches = itertools.product(three_examples, repeat=batch_size)
    return [float((np.mean(batch, axis=0) ** 2).sum()) for batch in batches]


pairs = itertools.product(squared_norms(1), squared_norms(2))
estimates = pd.DataFrame([estimate_of(one, two, 1, 2) for one, two in pairs])
mean = three_examples.mean(0)
exact = {"squared_norm": (mean**2).sum(), "trace": ((three_examples - mean) ** 2).sum(1).mean()}
print(f"{len(estimates)} pairs: mean of estimates", end=" ")
print({name: round(float(estimates[name].mean()), 9) for name in exact}, end=", exact ")
print({name: round(float(value), 9) for name, value in exact.items()})
print(f"infinite noise scales: {np.isinf(estimates['noise_scale']).sum()}")

# %% [markdown]
# The two estimates are right on average. Their *ratio* is not: in some pairs it is infinite, and so is its mean. And how far is one pair off? Three hundred pairs of batches of 8 and 64 at the start of the training problem:

# %%
norms = {
    size: batches_of(gradients, size, 300, seed=size).square().sum(1).tolist() for size in (8, 64)
}
pairs = zip(norms[8], norms[64], strict=True)
means = estimate_of(sum(norms[8]) / 300, sum(norms[64]) / 300, 8, 64)
noise_estimates(
    [estimate_of(small, big, 8, 64)["noise_scale"] for small, big in pairs],
    of_means=means["noise_scale"],
    exact=noise_scale_of(gradients),
)

# %% [markdown]
# **Explain.** One pair tells little. Average the two *estimates* over many steps, and divide once: a ratio of means, never a mean of ratios.
#
# ## The noise grows as the loss falls
#
# At five moments of a run with the gradients of all data, exact and estimated:

# %% tags=["demonstration"]
exact_of = answer("u08-noise-scale", noise_scale)
estimated_of = answer("u08-two-batch", estimate_noise)
moments = {"loss": [], "exact": [], "estimated": []}
network = new_network()
for step in with_progress(range(21), "steps"):
    if step in (0, 3, 5, 10, 20):
        rows = per_sample_gradients(network, problem.inputs, problem.labels)
        small, big = (
            batches_of(rows, size, 100, seed=size).square().sum(1).mean().item()
            for size in (8, 1024)
        )
        moments["loss"].append(problem.loss(network))
        moments["exact"].append(exact_of(rows))
        moments["estimated"].append(estimated_of(small, big, 8, 1024)["noise_scale"])
    descend(network, problem.inputs, problem.labels, learning_rate=1.0)
noise_over_loss(moments["loss"], moments["exact"], moments["estimated"])

# %% [markdown]
# **Explain.** At first all examples pull the same way; later they agree on little, G shrinks, and tr(Σ) stays. That is why a batch that is too large at the start is right at the end, and why reports raise it on the way.
#
# ## What a larger batch buys
#
# To reach one loss, a batch size B needs S optimizer **steps** and E = B·S **examples**. There is a fewest number of steps S_min, with exact gradients, and a fewest number of examples E_min, with tiny batches. McCandlish et al. found that all sizes between lie on a hyperbola:
#
# $$\left(\frac{S}{S_{min}} - 1\right)\left(\frac{E}{E_{min}} - 1\right) = 1$$
#
# Its knee is the **critical batch size** B_c = E_min / S_min (E10). It is near the noise scale, averaged over the run.

# %% [markdown] exercise={"id": "u08-tradeoff", "title": "Steps against examples", "difficulty": 2, "importance": 5, "minutes": 6}
# **Write** `steps_and_examples`: where a batch size lies on the hyperbola, a dictionary with `"steps"` and `"examples"`, two `float`s, each half of the points. Put E = B·S and E_min = B_c·S_min into it and solve for S. Rounding: 10⁻⁹.
#
# *Worked case:* at least 100 steps, critical batch size 30, batches of 10: **400** steps and **4,000** examples. (400/100 − 1 = 3, and 4,000/3,000 − 1 = 1/3.)


# %% nbgrader={"grade": false, "grade_id": "u08-tradeoff", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u08-tradeoff-test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# At the critical size; far below it; far above it.
check("u08-tradeoff", steps_and_examples)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-tradeoff", steps_and_examples)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My equation becomes quadratic</summary>
#
# Multiply the two brackets out. Which number stands alone on both sides, and what can you divide by then?
# </details>

# %% tags=["nbval-check-output"]
tradeoff_of = answer("u08-tradeoff", steps_and_examples)
sizes = {f"B_c · {factor:g}": tradeoff_of(1, 1024, int(1024 * factor)) for factor in (1 / 8, 1, 8)}
table = pd.DataFrame(sizes).T
table["examples"] /= 1024
table.rename(columns={"steps": "S / S_min", "examples": "E / E_min"}).round(3)

# %% [markdown]
# Far below B_c twice the batch halves the steps and costs nothing: **perfect scaling**. At B_c both are twice the fewest. Far above it twice the batch costs twice the examples and saves nothing.
#
# **Predict.** On the training problem batches of 8 reach a loss of 0.6 with about 4,300 examples. How many will batches of 4,096 need?

# %%
predict("u08-large-batch", None, "examples")

# %% [markdown]
# **Measure.** Six batch sizes, each with five learning rates around one that suits it, of which the best counts: without tuning you compare learning rates, not batches. It takes about ten seconds.

# %% tags=["demonstration"]
steps = {
    size: steps_to_loss(problem, size, 0.6)
    for size in with_progress((8, 32, 128, 512, 2048, 4096), "batch sizes")
}
pd.DataFrame({"steps": steps, "examples": {size: size * count for size, count in steps.items()}})

# %% [markdown]
# By the hyperbola S = S_min + E_min · (1/B) is a straight line over 1/B. Its two numbers, by least squares of the relative deviations:

# %% tags=["demonstration"]
min_steps, critical = fit_tradeoff(list(steps), list(steps.values()))
fitted = answer("u08-tradeoff", steps_and_examples)(min_steps, critical, 4096)
print(f"at least {min_steps:.1f} steps, critical batch size {critical:.0f}")
compare("u08-large-batch", "examples", computed=fitted["examples"], measured=4096 * steps[4096])

# %% tags=["demonstration"]
steps_against_examples(steps, min_steps, critical)

# %% [markdown]
# **Explain.** Compare the critical size with the noise scales above: it lies among them, as it must, since the noise grows along every run. The fit is not exact: rates come in steps, and small batches still differ by luck.
#
# ## Do large batches arrive at better optima?
#
# It depends on what is held fixed. The lowest loss after 32 **steps**, and after 16,384 **examples**, over the same learning rates (another ten seconds):

# %% tags=["demonstration"]
rows = {}
for size in with_progress((32, 128, 512, 2048), "batch sizes"):
    in_steps, in_examples = loss_after(problem, size, 32), loss_after(problem, size, 16_384 // size)
    rows[size] = {"after 32 steps": in_steps, "after 16,384 examples": in_examples}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# **Explain.** For as many steps the large batch ends lower: it has seen more data. For as many *tokens*, which is what a training run is given, it ends **higher**. The slide's "evade" and "better optima" is not what McCandlish et al. show: above the critical size returns diminish, below it steps are wasted. The small batch, at a learning rate that suits it, arrived lowest here. What large batches buy is **time**, as long as there are devices to run them side by side.
#
# ## The critical batch of a language model
#
# MiniMax trained models of 50M, 150M and 600M parameters and found a critical batch for each loss (E10). Losses and batch sizes in tokens, as the lecture shows them:

# %% tags=["nbval-check-output"]
losses = [2.22, 1.98, 1.77, 1.58]
critical_tokens = [16e6, 32e6, 64e6, 128e6]
pd.DataFrame({"loss": losses, "critical batch, tokens": critical_tokens})

# %% [markdown]
# Each time the batch doubles the loss has fallen by the same *factor*: a **power law** $B = c \cdot L^{k}$, which is a straight line in the logarithms of both.

# %% [markdown] exercise={"id": "u08-power-law", "title": "Fit a power law", "difficulty": 2, "importance": 3, "minutes": 8}
# **Write** `power_law`: the line of least squares through the points (log L, log B), as a dictionary with `"exponent"`, k, and `"batch_at_loss_1"`, c: two `float`s, each half of the points. Every point counts alike. Natural logarithms or others: the result is the same. Rounding: 10⁻⁹.
#
# *Worked case:* losses 1, 2, 4 with batches 4,096, 512, 8. In powers of two: 0, 1, 2 with 12, 9, 3; the slope is **−4.5**, and the line stands at 12.5 where the loss is 1: 2^12.5, about **5,793**.


# %% nbgrader={"grade": false, "grade_id": "u08-power-law", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u08-power-law-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Two points and many; exact laws and scattered points; rising and falling.
check("u08-power-law", power_law)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-power-law", power_law)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>I have a slope that is far too large</summary>
#
# On which scales is a power law a straight line? Are your points on them, in both directions?
# </details>

# %% tags=["nbval-check-output"]
law_of = answer("u08-power-law", power_law)
law = law_of(losses, critical_tokens)
print(f"exponent {law['exponent']:.2f}")
print(f"to double it, the loss has to fall by {1 - 2 ** (1 / law['exponent']):.1%}")
for loss in (3.0, 2.5, 2.0):
    tokens = law["batch_at_loss_1"] * loss ** law["exponent"]
    print(f"at a loss of {loss}: {tokens / 10**6:.1f} million tokens")

# %% [markdown]
# Kaplan et al. 2020 have −1/0.21 = −4.8 for this exponent, from other models and data: it is no constant of nature. The schedule that MiniMax made of it, doubling the batch when the loss allows it:

# %%
minimax = [
    (0, 16 * 10**6),
    (69 * 10**9, 32 * 10**6),
    (790 * 10**9, 64 * 10**6),
    (4_700 * 10**9, 128 * 10**6),
]
batch_schedule(minimax, 10_400 * 10**9)

# %% [markdown]
# Most of the tokens come with the largest batch, most of the steps without it.
#
# ## Choose one
#
# A model of 1B, sequences of 4,096 tokens, four GPUs, and a budget of 25 billion tokens. What would each batch mean, if the critical one were 4 million tokens?

# %% tags=["nbval-check-output"]
critical_guess, budget = 4 * 10**6, 25 * 10**9
choices = {"": [], "sequences": [], "on each GPU": [], "steps": [], "E / E_min": []}
for sequences in (64, 224, 512, 1024, 4096, 15_360):
    tokens = sequences * 4096
    cost = tradeoff_of(1, critical_guess, tokens)["examples"] / critical_guess
    row = (
        f"{tokens / 10**6:.2f}M tokens",
        sequences,
        sequences // 4,
        budget // tokens,
        round(cost, 2),
    )
    for name, value in zip(choices, row, strict=True):
        choices[name].append(value)
pd.DataFrame(choices).set_index("")

# %% [markdown] exercise={"id": "u08-choose", "title": "Which batch?", "difficulty": 3, "importance": 5, "minutes": 6}
# **Write** four to six sentences: which global batch do you choose for this run, in tokens and in sequences, and how do four GPUs make it? What would the lecture's 4–60 million tokens mean here? What have others used, and where would you get the noise scale from?
#
# Double-click the cell below to write.

# %% [markdown] nbgrader={"grade": true, "grade_id": "u08-choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# <!-- BEGIN SOLUTION -->
# About one million tokens, as MosaicML's 1B model with 0.92 million: 224 sequences of 4,096, for example micro-batches of 4 on four GPUs, accumulated 14 times; that is 27,000 steps and a quarter more than the fewest tokens. With 60 million tokens there would be about 400 steps for the whole run, hardly more than a warm-up of the learning rate, and at a critical batch of 4 million some 17 times the fewest tokens would be needed for the same loss; 4 million tokens are 6,000 steps and already twice the fewest tokens. Four GPUs accumulate anyway, so a larger batch would not even save time. The noise scale can be looked up in the run itself, from the norms of the gradients of a micro-batch and of the whole batch, averaged over many steps; before the run from a smaller model at the same loss, or from a published fit. It grows, so the batch may be doubled on the way.
#
# *Rubric:* half a point for a batch between about 0.25 and 2 million tokens with its sequences; half for micro-batch · accumulation · 4 GPUs that multiply to it; half for what 4–60 million would mean (few steps, or tokens wasted above the critical batch; those are figures of far larger models); half for a comparison and a source of the noise scale (two norms in the run, a smaller run at the same loss).
# <!-- END SOLUTION -->

# %% [markdown]
# ## All of it at once
#
# Move the sliders: which choices leave the place on the hyperbola alone, and which leave the memory alone?

# %%
explorer(
    batch_plan,
    model=(["Llama-3.2-1B", "Llama-3-8B"], "Llama-3.2-1B"),
    global_batch_size=([16, 64, 256, 1024, 4096, 16_384], 256),
    micro_batch_size=([1, 2, 4, 8], 4),
    num_devices=([1, 4, 64, 512], 4),
    critical_batch_tokens=([10**6, 4 * 10**6, 16 * 10**6, 128 * 10**6], 4 * 10**6),
)

# %% [markdown]
# The same picture standing still:

# %%
batch_plan(
    "Llama-3.2-1B",
    global_batch_size=256,
    micro_batch_size=4,
    num_devices=4,
    critical_batch_tokens=4 * 10**6,
)

# %% [markdown]
# Of the three numbers only the micro-batch changes the memory; only the global batch decides how the model learns; devices decide how long a step takes.

# %% [markdown]
# ## Going further
#
# What follows is **extra**: bonus points. The recap is at the end.

# %% [markdown]
# ## How many steps is that?

# %% [markdown] exercise={"id": "u08-schedule", "title": "Steps of a growing batch", "difficulty": 3, "importance": 2, "minutes": 8, "extra": true}
# **Write** `num_steps`: the optimizer steps of a run until it has seen `total_tokens`, an `int`. Each pair of `schedule` is the number of tokens from which on a batch is due, and the batch in tokens; the first begins at 0. A step takes the batch that is due when it *begins*, also where it crosses the next boundary or the end of the run. A loop over all steps is right too; a division for each stage is quicker.
#
# *Worked case:* 16 tokens a step, from token 40 on 32, to 100 tokens: three steps end at 48, two more at 112: **5**.


# %% nbgrader={"grade": false, "grade_id": "u08-schedule", "locked": false, "schema_version": 3, "solution": true, "task": false}
def num_steps(schedule: list[tuple[int, int]], total_tokens: int) -> int:
    """Optimizer steps of a run.

    Args:
        schedule: Pairs of tokens seen and batch in tokens, in order.
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

# %% nbgrader={"grade": true, "grade_id": "u08-schedule-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# One stage and several; steps that end on a boundary and that cross it; stages that are skipped or never reached.
check("u08-schedule", num_steps)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-schedule", num_steps)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>I am one step off in some cases</summary>
#
# Where does the first step of a stage begin: at its boundary, or where the last step before it ended?
# </details>

# %% tags=["nbval-check-output"]
steps_of = answer("u08-schedule", num_steps)
for name, schedule in {
    "always 16 million": [(0, 16 * 10**6)],
    "MiniMax": minimax,
    "always 128 million": [(0, 128 * 10**6)],
}.items():
    print(f"{name}: {steps_of(schedule, 10_400 * 10**9):,} steps")

# %% [markdown]
# The schedule takes a fifth of the steps of its first batch, and stays near the critical batch of its time.
#
# **Measure.** Your function against a run that takes every step, over the tokens seen:

# %%
billions = [10, 69, 300, 790, 2_000, 4_700, 10_400]


def steps_taken(total_tokens):
    seen = count = 0
    while seen < total_tokens:
        seen += max(batch for first, batch in minimax if first <= seen)
        count += 1
    return count


computed_and_measured(
    billions,
    computed=[steps_of(minimax, each * 10**9) for each in billions],
    measured=[steps_taken(each * 10**9) for each in billions],
    size_label="billion tokens seen",
    unit="steps",
)

# %% [markdown]
# ## A sum that loses its terms
#
# `grad` has the precision of its parameter. In bf16 a number has 8 significant bits: when the sum of many gradients is 512 times as large as the next one, adding it changes nothing.

# %% [markdown] exercise={"id": "u08-buffer", "title": "Gradients summed in fp32", "difficulty": 3, "importance": 3, "minutes": 10, "extra": true}
# **Write** `sum_in_fp32`: make a buffer of zeros in fp32 for each parameter that wants a gradient, and see to it that every backward pass from now on adds its gradients there. Return the list of buffers, in the order of `model.parameters()`. All or nothing.
#
# - After a backward pass every `grad` is None.
# - The gradients in bf16 are never all there: each goes as soon as it is added.
#
# `parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)` as soon as backward has filled in its `grad`.
#
# *Worked case:* twelve layers of 16 · 16 weights and two backward passes: **12** buffers.


# %% nbgrader={"grade": false, "grade_id": "u08-buffer", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(3))).bfloat16()
    buffers = sum_in_fp32(model)
    for _ in range(2):
        model(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    left = [each.grad for each in model.parameters()]
    return {"buffers": len(buffers), "dtype": str(buffers[0].dtype), "left in grad": left}


try_it(numbers_in_buffers, sum_in_fp32)

# %% nbgrader={"grade": true, "grade_id": "u08-buffer-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Sums in float64 of the same gradients; precision; gradients that are there at once; frozen layers.
check("u08-buffer", sum_in_fp32)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u08-buffer", sum_in_fp32)
### END HIDDEN TESTS

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
# 1. *Accumulate*: every micro-batch adds the sum of its tokens' gradients over the number of tokens of the whole batch; a mean of means weighs tokens of short sequences more.
# 2. *Measure*: only one micro-batch of activations is in memory; FLOPs are those of the large batch, passes are more.
# 3. *Configure*: global batch = micro-batch · accumulation · devices, in sequences; times the length, in tokens.
# 4. *Estimate and choose*: two squared norms give the noise scale; a batch far below it wastes steps, one far above it wastes tokens, and it grows as the loss falls.
#
# | quantity | formula |
# |---|---|
# | gradient of a batch | Σ over micro-batches of the sum of token gradients, over all its tokens |
# | global batch B, in sequences | b · accumulation · devices |
# | tokens of a step | B · s |
# | noise of a batch | tr(Σ)/B |
# | noise scale | tr(Σ)/\|G\|² |
# | from two batches | \|G\|² = (B·\|G_B\|² − b·\|G_b\|²)/(B − b), tr(Σ) = (\|G_b\|² − \|G_B\|²)/(1/b − 1/B) |
# | steps to a loss | S_min (1 + B_c/B) |
# | examples to a loss | E_min (1 + B/B_c), E_min = B_c S_min |
# | critical batch over loss | c · L^k |
#
# ## Further reading
#
# - McCandlish et al. 2018, *An Empirical Model of Large-Batch Training*, sections 2.2 and 2.3, appendix A (25 minutes): noise scale, hyperbola, and the estimate from two norms.
# - Kaplan et al. 2020, *Scaling Laws for Neural Language Models*, section 5.1 (10 minutes): the critical batch as a power of the loss.
# - MiniMax 2025, *MiniMax-01*, on pre-training (10 minutes): the fit and the schedule of the lecture.
# - DeepSeek-AI 2024, *DeepSeek-V3 Technical Report*, section 4.2 (5 minutes): a ramp of the batch in a real run.
