# ---
# jupyter:
#   course:
#     title: How large should a batch be?
#     device: CPU
#     needs: ["01", "03", "04"]
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

# %% [markdown] opening=true
# ![512 squares, 8 devices by 64 passes: one step of 4 million tokens of Llama-3-8B. Each device holds the activations of one sequence at a time.](hero.svg)
#
# Llama-1 trained in steps of 4 million tokens. No device can hold that many at once. You will send them through in pieces, get the same gradient, and measure what that saves and costs. Then you find out when a larger batch stops paying off, and train with your choice.
#
# Your training plan counts tokens. It cannot say yet how many make one step, or how to fit a step that is larger than memory.
#
# 1. **Accumulate** the gradient of a large batch exactly, whatever the lengths of its sequences.
# 2. **Measure** what accumulation saves in memory, and what it costs in seconds.
# 3. **Split** a batch into devices, passes and micro-batches.
# 4. **Compute** how noisy a batch is, and **choose** a batch size under a budget.
#
# | here | lecture E | lecture S | lecture B | meaning |
# |---|---|---|---|---|
# | $b$ | mbs | bs | b | sequences in a **micro-batch**: one forward and backward pass on one device |
# | $m$ | grad_acc | steps | steps | micro-batches that a device accumulates in a step |
# | $d$ | | | DP | devices that share a batch |
# | $B$ | bs, gbs | | B | sequences in a step, $b\,m\,d$; examples, in the noise sections |
# | $s$ | seq | L | S | tokens in a sequence |
# | $G$, $g$ | | | | gradient of the mean loss over all data; gradient of one example's loss |
# | $\Sigma$ | | | | covariance of the $g$ |
# | $S$, $E$ | | | | steps and examples that a run needs to reach a given loss |
# | $B_c$ | | | | critical batch size |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import math

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import ModelConfig, preset
from course_utils.formulas.batch_size import fit_tradeoff
from course_utils.formulas.batch_size import steps_and_examples as tradeoff_of
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
    Choice,
    batch_plan,
    batch_schedule,
    explorer,
    learning_rates,
    memory_timelines,
    noise_estimates,
    noise_over_loss,
    steps_against_examples,
    try_it,
    with_progress,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Backward adds
#
# PyTorch does not replace a gradient. Each backward pass **adds** to `grad`:

# %% tags=["nbval-check-output"]
weight = torch.ones(1, requires_grad=True)
for x in (3.0, 5.0):
    (weight * x).backward()
    print(weight.grad)

# %% [markdown]
# So a batch can go through the model as **micro-batches**, one after the other, before the optimizer takes one step. That is **gradient accumulation** (E17): only one micro-batch of activations is in memory at a time.

# %% [markdown]
# ## A mean of means
#
# How should the pieces be weighted? Lecture S takes the mean loss of each micro-batch, divides it by the number of micro-batches, and adds these up (S15):


# %%
def running_mean(model, ids, targets, micro_batch_size):
    id_groups, target_groups = ids.split(micro_batch_size), targets.split(micro_batch_size)
    num_micro_batches = len(id_groups)
    for some_ids, some_targets in zip(id_groups, target_groups, strict=True):
        (token_loss(model(some_ids), some_targets) / num_micro_batches).backward()


# %% folded=true tags=["nbval-check-output"]
# Measured: the error of a rule's gradient
def small_model():
    torch.manual_seed(0)
    layers = (nn.Embedding(11, 16), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11))
    return nn.Sequential(*layers).double()


def error(rule, lengths, micro_batch_size):
    ids, targets = ragged_batch(lengths, vocab_size=11)
    whole, pieces = small_model(), small_model()
    token_loss(whole(ids), targets).backward()
    rule(pieces, ids, targets, micro_batch_size)
    wanted, got = (
        torch.cat([each.grad.flatten() for each in model.parameters()]) for model in (whole, pieces)
    )
    return float((got - wanted).norm() / wanted.norm())


exact = error(running_mean, [6, 6, 6, 6], 1) < 1e-12
print("four sequences of equal length, one at a time: exact up to rounding:", exact)

# %% [markdown]
# In real batches lengths differ. Short sequences are padded to the longest length, and the padding gets the target −100, which `F.cross_entropy` ignores; so does `token_loss`, the mean loss over what remains. From here on, **target** means one that is not −100. Three sequences, with 5, 1 and 3 targets:

# %% tags=["nbval-check-output"]
ragged_batch([5, 1, 3], vocab_size=11)[1]

# %% [markdown]
# **Guess first.** Eight sequences of 32, 2, 30, 4, 28, 3, 31 and 5 targets go through one at a time. How large is the error of the lecture's gradient, as a percentage of the true gradient's norm?

# %%
predict("u08-running-mean", None, "%")

# %% [markdown]
# **Check your guess.** The error of the lecture's gradient, with micro-batches of one, two, three and eight:

# %% folded=true tags=["nbval-check-output"]
# Measured: the error of the gradient
lengths = [32, 2, 30, 4, 28, 3, 31, 5]
errors = {b: {"error, %": round(100 * error(running_mean, lengths, b), 1)} for b in (1, 2, 3, 8)}
pd.DataFrame(errors).T.rename_axis("micro-batch")

# %% folded=true tags=["nbval-check-output"]
# Your guess beside the measurement
compare("u08-running-mean", "%", measured=errors[1]["error, %"])

# %% [markdown]
# One at a time, every sequence counts the same, so a token in the shortest counts sixteen times as much as one in the longest. In pairs the bug nearly hides: each pair holds one long and one short sequence. Hugging Face's transformers had this bug until October 2024 (issue 24725, pull request 34191).

# %% [markdown]
# ## Accumulate exactly

# %% Accumulate [markdown] exercise="u08-accumulate" points=3.5 minutes=22 difficulty=3 importance=5
# **Write** `accumulate`: add the gradient of the **mean loss over all targets of the batch** to `grad`, in micro-batches, and return that mean, a `float`. You may call `token_loss`.
#
# - `model(ids)` gives logits $(b, s, v)$, one score per vocabulary entry. Each micro-batch of `micro_batch_size` sequences goes through it once; the last may be smaller (*remainder*).
# - Sequences have *equal* or *ragged* numbers of targets; padding (−100) is none.
# - An *empty micro-batch*, without targets, changes nothing; you may skip it. (Its mean is 0/0, nan.) A batch with *no targets* gives 0.0, and every `grad` stays as it is: None stays None.
# - Add to *existing gradients*. Leave `ids` and `targets` unchanged.
# - *Memory*: hold one micro-batch's activations at a time, and gradients in `grad` only. Let `backward` add them: `torch.autograd.grad` would make a second set.
#
# The seven situations in italics earn equal shares.
#
# *By hand:* 3, 1 and 2 targets in micro-batches of two → each target's loss has weight **0.1667** in the mean, padding **0**.


# %% solution="u08-accumulate"
def accumulate(model: nn.Module, ids: Tensor, targets: Tensor, micro_batch_size: int) -> float:
    """Add the gradients of a batch's mean loss, one micro-batch after the other."""
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


# %% folded=true
# Helper: each target's weight, from the gradient
def what_targets_count(rule):
    model = nn.Embedding(9, 9, _weight=torch.zeros(9, 9, dtype=torch.float64))
    _, targets = ragged_batch([3, 1, 2], vocab_size=9)
    rule(model, torch.arange(9).reshape(3, 3), targets, 2)
    counts = -9 / 8 * model.weight.grad.min(dim=1).values.reshape(3, 3)
    return (counts + 0.0).round(decimals=4).tolist()


# %%
try_it(what_targets_count, running_mean)
try_it(what_targets_count, accumulate)

# %% check="u08-accumulate"
# Also a batch of nothing but padding, and gradients that are there before.

# %% [markdown]
# <details><summary>Hint: only batches of equal lengths are right</summary>
#
# Do you divide by a count for the micro-batch or for the batch? Which `reduction` of `F.cross_entropy` does not divide?
# </details>
#
# <details><summary>Hint: my loss is nan</summary>
#
# In which micro-batch first, and how many targets does it have? Which operation divides by their number?
# </details>
#
# <details><summary>Hint: my gradients are right, but "memory" fails</summary>
#
# Backward frees what a graph holds as it goes through. When does it go through yours? And do you collect gradients anywhere besides `grad`?
# </details>

# %% [markdown]
# **Look at the memory.** Run your function on a small Llama and eight sequences of 128 tokens, all at once, in pairs, and one at a time:

# %% folded=true
# Figure: live memory during one accumulated gradient (a few seconds)
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


memory_timelines({f"micro-batch of {b}": memory_of(b) for b in (8, 2, 1)})

# %% [markdown]
# Gradients come with the first backward pass and stay. Activations rise and fall with each micro-batch.
#
# **Guess first.** Llama-3.2-1B in bf16, four sequences of 1,024 tokens. All at once, the peak is 8.6 GiB, not counting the weights, and at that moment there is no gradient yet. All gradients together take 2.3 GiB. What is the peak with one sequence at a time?

# %%
predict("u08-accumulated", None, "GiB")

# %% [markdown]
# Here is the right way, and two mistakes. `losses(b)` yields the weighted losses of micro-batches of $b$ sequences:


# %%
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


# %% folded=true tags=["nbval-check-output"]
# Measured: the peak on fake tensors, GiB (about ten seconds)
def at_once(losses, model):
    next(losses(4)).backward()


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
peaks.assign(together=peaks.sum(axis=1)).round(2)

# %% folded=true tags=["nbval-check-output"]
# Your guess beside the measurement
compare("u08-accumulated", "GiB", measured=round(peaks.loc["one at a time"].sum(), 2))

# %% [markdown]
# All at once, the peak comes before there is any gradient, so all 8.6 GiB belong to the batch. One at a time, it comes in the second pass, when the gradients of the first are already there: 8.6/4 + 2.3 = 4.45 GiB. The tempting (8.6 − 2.3)/4 + 2.3 is too low. Accumulation never frees the gradients.
#
# One backward pass at the end saves almost nothing: all four graphs wait for it. A list of gradients takes more memory than the large batch.

# %% [markdown]
# ## What does it cost?
#
# Lecture B says that activations scale with the micro-batch, and FLOPs with the batch (B8). The instruments agree:


# %% folded=true tags=["nbval-check-output"]
# Measured: bytes kept by one micro-batch, and FLOPs of one step
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
    for num_sequences, b in ((8, 8), (8, 2), (8, 1), (16, 8))
}
pd.DataFrame(by_sizes).T.rename_axis(["batch", "micro-batch", "passes"])

# %% [markdown]
# Eight passes of one sequence cost exactly the same FLOPs as one pass of eight. **Guess first.** How many times as long do they take on this machine?

# %%
predict("u08-passes", None, "times as long")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: seconds of the same batch in one pass and in eight (a few seconds)
in_passes = {
    8 // b: time_call(
        lambda b=b: accumulate_of(tiny_model, eight, eight, b), num_warm_up=1, num_runs=8
    ).median_seconds
    for b in (8, 4, 2, 1)
}
for num_passes_timed, seconds in in_passes.items():
    print(f"passes: {num_passes_timed}   {seconds * 1e3:6.1f} ms")
compare(
    "u08-passes",
    "times as long",
    computed=flops_of(8, 1) / flops_of(8, 8),
    measured=in_passes[8] / in_passes[1],
)

# %% [markdown]
# Counting FLOPs says 1. The clock disagrees: each pass launches every operation again and reads all weights again, and its matrices are too small to keep the processor busy. So make the micro-batch as large as memory allows, and accumulate only what does not fit.
#
# <details><summary>From the slides: "spent more compute"</summary>
#
# Lecture S says so of accumulation (S15). It spends more *time*. The FLOPs are those of the large batch.
# </details>

# %% [markdown]
# ## Split a batch
#
# A batch size in sequences says nothing without their length, so reports give it in **tokens**: $B$ sequences of $s$ tokens are $B \cdot s$ (E9, B10). If $d$ devices each accumulate $m$ micro-batches of $b$ sequences each, $B = b\,m\,d$.

# %% Configure a run [markdown] exercise="u08-configure" points=1.5 minutes=9 difficulty=2 importance=5
# **Write** `configuration`: a dictionary of three exact `int`s, each a third of the points.
#
# | key | what |
# |---|---|
# | `"micro_batch_size"` | $b$, the same in all passes: as large as possible, at most `max_micro_batch` |
# | `"num_micro_batches"` | $m$, on each device |
# | `"tokens_per_step"` | of all devices: as many as possible, at most `global_batch_tokens` |
#
# Every device gets the same number of sequences, at least one. The tokens come first: among all $b$ and $m$ that give the most tokens, take the largest $b$.
#
# *By hand:* 60 tokens, sequences of 4, two devices, at most 5 fit → **1**, **7**, **56**.


# %% solution="u08-configure"
def configuration(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """Micro-batch, accumulation and tokens of one step."""
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
try_it(configuration, 60, 4, 2, 5)

# %% check="u08-configure"
# One device and many; batches that divide evenly or not; a prime number of sequences.

# %% [markdown]
# <details><summary>Hint: my micro-batch is max_micro_batch, and it is wrong</summary>
#
# How many sequences does each device get in a step? Twelve in micro-batches of five: what happens to the last two?
# </details>

# %% [markdown]
# Four devices, sequences of 4,096 tokens, at most 12 in a micro-batch:

# %% folded=true tags=["nbval-check-output"]
# Table: how four batches are split
configuration_of = answer("u08-configure", configuration)
budgets = {"2²¹": 2**21, "4,000,000": 4_000_000, "2²²": 2**22, "60,000,000": 60_000_000}
configurations = {name: configuration_of(tokens, 4096, 4, 12) for name, tokens in budgets.items()}
pd.DataFrame(configurations).T.rename_axis("tokens").map("{:,}".format)

# %% [markdown]
# Round millions are a trap. Of 4,000,000 tokens each device gets 244 = 4 · 61 sequences: 12 would fit, but only 4 go through at a time. Choose a number of *sequences* with many small divisors.
#
# The passes of a step do not depend on one another, so they can also run on several devices at once. That is data parallelism (unit 09).
#
# <details><summary>From the slides: one letter, several batches</summary>
#
# Lecture B writes $B$ for tokens and for sequences; its "4–60M tokens" are for models of 7B and much larger. Lecture E's bs = mbs · grad_acc (E17) holds on one device. Its "DeepSeek about 60M" (E9) is the *end* of a ramp: DeepSeek-V3 starts with 12.6 million tokens, and reaches 62.9 million after 469 billion.
# </details>

# %% [markdown]
# ## How noisy is a batch?
#
# Accumulation makes every batch size possible. Which one is good? An **example** is one item drawn at random for a batch: a point in our small problem, a sequence in a language model. $B$ now counts examples.
#
# Let $G$ be the gradient over all data, and $g$ that of one example's loss. The $g$ scatter around $G$ with a covariance matrix $\Sigma$. The sum of its diagonal, the **trace** $\mathrm{tr}(\Sigma)$, is the mean squared distance of a $g$ from $G$. A batch averages $B$ of them, so its own mean squared distance is $\mathrm{tr}(\Sigma)/B$:
#
# ![Gradients of batches, drawn as dots around the arrow G. The noise of batches of 15 is twice |G|, of 61 equal to it, of 970 a quarter of it.](noise.svg)
#
# Noise and gradient have the same length at
#
# $$B_{noise} = \frac{\mathrm{tr}(\Sigma)}{|G|^2},$$
#
# the **simple noise scale** (McCandlish et al. 2018). A much smaller batch points almost anywhere. A much larger one tells you little more.
#
# The picture shows the problem that we train below: a network of 837 parameters classifies 4,096 points into five classes. At the start its noise scale is 61 examples.

# %% The noise scale [markdown] exercise="u08-noise-scale" points=2 minutes=9 difficulty=2 importance=5
# **Write** `noise_scale`: $\mathrm{tr}(\Sigma)/|G|^2$ of a float64 matrix with one row per example and one column per parameter, a `float`. The rows are *all* the data, not a sample: divide by their number. Where $G$ is zero, return `math.inf`. Relative tolerance: 10⁻⁹, even where rows are nearly equal.
#
# *By hand:* the gradients of two examples are (4, 1) and (0, −3) → **1.6**.


# %% solution="u08-noise-scale"
def noise_scale(gradients: Tensor) -> float:
    """Simple noise scale, in examples."""
    ### BEGIN SOLUTION
    whole = gradients.mean(dim=0)
    size = float((whole**2).sum())
    if size == 0:
        return math.inf
    trace = float(gradients.var(dim=0, correction=0).sum())
    return trace / size
    ### END SOLUTION


# %%
try_it(noise_scale, torch.tensor([[4.0, 1.0], [0.0, -3.0]], dtype=torch.float64))

# %% check="u08-noise-scale"
# Also rows that are equal, tiny, zero, or cancel.

# %% [markdown]
# <details><summary>Hint: the covariance of so many parameters is too large</summary>
#
# Which of its numbers do you need? Can you get each from a single column?
# </details>
#
# <details><summary>Hint: my number is a little too large when there are few examples</summary>
#
# By what do you divide a sum of squares: by the number of rows, or by one less?
# </details>

# %% [markdown]
# **Compare with** a measurement without any covariance: draw 1,000 batches of 32, and see how far their gradients are from $G$.

# %% folded=true
# Measured: 32 times the mean squared distance of a batch of 32, over |G|²
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
# ## What a larger batch buys
#
# To reach a given loss, a batch size $B$ needs $S$ optimizer **steps** and $E = B \cdot S$ **examples**. No batch size gets there in fewer than $S_{min}$ steps, or with fewer than $E_{min}$ examples. McCandlish et al. found that batch sizes lie on a hyperbola between these limits:
#
# $$\left(\frac{S}{S_{min}} - 1\right)\left(\frac{E}{E_{min}} - 1\right) = 1$$
#
# At its middle lies the **critical batch size** $B_c = E_{min}/S_{min}$ (E10).

# %% folded=true tags=["nbval-check-output"]
# Table: far below, at, and far above the critical batch size
by_factor = {
    f"B = {factor:g} · B_c": tradeoff_of(1, 1024, int(1024 * factor)) for factor in (1 / 8, 1, 8)
}
places = pd.DataFrame(by_factor).T / [1, 1024]
places.rename(columns={"steps": "S / S_min", "examples": "E / E_min"}).round(3)

# %% [markdown]
# Far below $B_c$, twice the batch halves the steps and costs nothing. Far above it, twice the batch costs twice the examples and saves nothing.

# %% [markdown]
# ### Does the noise scale predict it?
#
# The theory predicts $B_c$ ≈ noise scale. At the start, that was 61 examples. **Guess first:** the network trains to a loss of 0.6 with batches of 16 to 4,096. Where will the critical batch size of these runs lie?

# %%
predict("u08-critical", None, "examples")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: steps to a loss of 0.6, each batch size at the best of five learning rates (ten seconds)
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

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Figure: the runs, and the hyperbola fitted to them
medians = {int(size): int(count) for size, count in steps["median"].items()}
min_steps, critical = fit_tradeoff(list(medians), list(medians.values()))
steps_against_examples(medians, min_steps, critical)

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Your guess, the noise scale at the start, and the critical batch size of the runs
compare("u08-critical", "examples", computed=noise_scale_of(gradients), measured=critical)

# %% [markdown]
# The hyperbola holds, but $B_c$ is about ten times the noise scale at the start. What changes on the way to a loss of 0.6? Follow one run:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the noise scale at five moments of a run with exact gradients
moments, rows_at = {}, {}
network = batch_experiment.new_network()
for step in with_progress(range(21), "steps"):
    if step in (0, 3, 5, 10, 20):
        rows = batch_experiment.per_sample_gradients(network, problem.inputs, problem.labels)
        rows_at[step] = rows
        moments[step] = {
            "loss": problem.loss(network),
            "|G|²": rows.mean(0).square().sum().item(),
            "tr(Σ)": rows.var(0, correction=0).sum().item(),
            "noise scale": noise_scale_of(rows),
        }
    batch_experiment.descend(network, problem.inputs, problem.labels, learning_rate=1.0)
moments = pd.DataFrame(moments).T.rename_axis("step")
moments.round({"loss": 2, "|G|²": 3, "tr(Σ)": 1, "noise scale": 0})

# %% [markdown]
# What the examples agree on is learned first and leaves the gradient: $|G|^2$ falls to a thirtieth, while $\mathrm{tr}(\Sigma)$ even grows. So the noise scale grows fiftyfold in this short run, and $B_c$ is roughly its average.
#
# A batch should therefore grow during training, and in real runs it does. MiniMax measured critical batch sizes from 16 million tokens at a loss of 2.22 to 128 million at 1.58 (E10): the size doubles whenever the loss falls by 11 %. Their schedule:

# %% folded=true
# Figure: the batch of MiniMax-01 over its training tokens
minimax_schedule = [
    (0, 16 * 10**6),
    (69 * 10**9, 32 * 10**6),
    (790 * 10**9, 64 * 10**6),
    (4_700 * 10**9, 128 * 10**6),
]
batch_schedule(minimax_schedule, 10_400 * 10**9)

# %% [markdown]
# ### Scale the learning rate too
#
# A less noisy gradient deserves a longer step. A common rule scales the learning rate in proportion to the batch. **Guess first:** in the small problem, batches of 64 do best at a learning rate near 0.35. What is best for batches of 1,024, sixteen times as large?

# %%
predict("u08-learning-rate", None, "learning rate")

# %% folded=true tags=["nbval-check-output"]
# Figure: the best learning rate over the batch, recorded (the extras measure it)
recorded_rates = {16: 0.12, 64: 0.35, 256: 1.41, 1024: 2.0, 4096: 2.83}
display(learning_rates(recorded_rates, 64, 660))
compare(
    "u08-learning-rate",
    "learning rate",
    computed=16 * recorded_rates[64],
    measured=recorded_rates[1024],
)

# %% [markdown]
# The rule holds for small batches and breaks near $B_c$: above that the gradient is nearly exact, and a longer step overshoots. McCandlish et al. derive the bend: the best rate is proportional to $1/(1 + B_c/B)$.
#
# <details><summary>From the slides: do large batches "arrive at better optima"?</summary>
#
# Lecture E says that small batches "may evade optima" and large ones "arrive at better optima" (E9). But above the critical batch size returns diminish: in the table above, batches of 4,096 take seven times the examples of batches of 16. Large batches buy *time*, as long as there are devices to share them.
# </details>

# %% [markdown]
# ## Choose a batch, and train with it
#
# Deadline and budget: the network must reach a loss of 0.6 within **25 steps** and **10,000 examples**. The runs above have $S_{min} = 8$ and $B_c = 660$. Choose a batch size from 16 to 4,096 by its place on the hyperbola:

# %%
my_batch_size = 64  # your choice
tradeoff_of(8.0, 660.0, my_batch_size)  # S_min, B_c, B

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: three runs with your batch size, against the plan (about five seconds)
my_runs = [
    batch_experiment.steps_to_loss(problem, min(4096, max(16, my_batch_size)), 0.6, seed=seed)
    for seed in with_progress((7, 8, 9), "draws")
]
planned, trained_steps = tradeoff_of(8.0, 660.0, my_batch_size), sorted(my_runs)[1]
rows = {
    "steps": (planned["steps"], trained_steps, 25),
    "examples": (planned["examples"], trained_steps * my_batch_size, 10_000),
}
table = pd.DataFrame(rows, index=["planned", "trained", "allowed"]).T.round(0).astype(int)
table.assign(verdict=["✓" if done <= most else "✗ too many" for _, done, most in rows.values()])

# %% [markdown]
# 64 is within budget but misses the deadline. Change it and run both cells again, until both hold.

# %% [markdown]
# ## Choose one for a language model
#
# A 1B model, sequences of 4,096 tokens, four GPUs, 25 billion tokens. Suppose that the critical batch size is 4 million tokens. *Steps* are those of the whole run. The last two columns say what it takes to reach a given loss:

# %% folded=true tags=["nbval-check-output"]
# Table: what each batch would mean
critical_guess, budget = 4 * 10**6, 25 * 10**9


def what_it_means(num_sequences):
    tokens = num_sequences * 4096
    place = tradeoff_of(1, critical_guess, tokens)
    return {
        "million tokens": f"{tokens / 10**6:.2f}",
        "steps": f"{budget // tokens:,}",
        "S / S_min": round(place["steps"], 2),
        "E / E_min": round(place["examples"] / critical_guess, 2),
    }


choices = {f"{each:,}": what_it_means(each) for each in (64, 256, 1024, 4096, 15_360)}
pd.DataFrame(choices).T.rename_axis("sequences")

# %% [markdown]
# Does it fit? Before you move a control, predict what it will change: the dot on the hyperbola, the memory of a GPU, or neither.

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    batch_plan,
    model=Choice("model", ["Llama-3.2-1B", "Llama-3-8B"], "Llama-3.2-1B"),
    global_batch_size=Choice("batch, sequences", [16, 64, 256, 1024, 4096, 16_384], 1024),
    micro_batch_size=Choice("micro-batch, sequences", [1, 2, 4, 8], 1),
    num_devices=Choice("devices", [1, 4, 64, 512], 4),
    critical_batch_tokens=Choice(
        "critical batch, tokens", [10**6, 4 * 10**6, 16 * 10**6, 128 * 10**6], 4 * 10**6
    ),
)

# %% [markdown]
# <details><summary>What changes what</summary>
#
# Model and micro-batch change the memory. The batch and the critical batch size move the dot. Devices only decide how many passes come one after the other.
# </details>

# %% Which batch? [markdown] exercise="u08-choose" points=2 minutes=9 difficulty=3 importance=5
# **Write** three or four sentences:
#
# - Which batch in the table do you choose, and why? What would 60 million tokens per step do here?
# - In the small problem the noise scale at the start missed the critical batch size by a factor of ten. When in the 1B run would you measure the noise scale, and why?

# %% [markdown] text_answer="u08-choose"
# <!-- BEGIN SOLUTION -->
# About one million tokens: 256 sequences of 4,096. That is 24,000 steps, and if the critical batch size is 4 million, a quarter more than the fewest tokens. With 60 million tokens there would be about 400 steps for the whole run, and some 16 times the fewest tokens would be needed for the same loss. DeepSeek-V3, a far larger model, ends there; llm-foundry's benchmark of a 1B model uses 0.92 million. Four GPUs accumulate anyway, so a larger batch would not even save time.
#
# At the start all examples still agree on a direction. As the loss falls, |G|² shrinks and tr(Σ) does not, so the noise scale grows, fifty times in that run; the critical batch size is about its average over the run. So I would measure it during the run, several times and late rather than early, near the loss that the run is meant to reach. As it grows, the batch may be doubled on the way.
#
# *Rubric:* half a point for a batch between about 0.25 and 2 million tokens, with its steps or its E / E_min as the reason; half for what 60 million would mean (few steps, or tokens wasted above the critical batch size); half for a moment (during the run, again as the loss falls, or late; not before the first step); half for the reason (the noise scale grows as the loss falls, so its value at the start is far too low).
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% [markdown]
# ### A point on the hyperbola

# %% Steps against examples [markdown] exercise="u08-tradeoff" points=1 minutes=7 difficulty=2 importance=5 extra=true
# **Write** `steps_and_examples`: where a batch size lies on the hyperbola, a dictionary of two `float`s, `"steps"` ($S$) and `"examples"` ($E$), not rounded. Each is half of the points. Relative tolerance: 10⁻⁹.
#
# *By hand:* $S_{min}$ = 100, $B_c$ = 30, $B$ = 10 → **400** and **4,000**.


# %% solution="u08-tradeoff"
def steps_and_examples(
    min_steps: float, critical_batch_size: float, batch_size: int
) -> dict[str, float]:
    """Steps and examples that a batch size needs."""
    ### BEGIN SOLUTION
    steps = min_steps + min_steps * critical_batch_size / batch_size
    return {"steps": steps, "examples": steps * batch_size}
    ### END SOLUTION


# %%
try_it(steps_and_examples, 100.0, 30.0, 10)

# %% check="u08-tradeoff"
# At the critical batch size; far below it; far above it.

# %% [markdown]
# <details><summary>Hint: my equation becomes quadratic</summary>
#
# Put $E = B \cdot S$ and $E_{min} = B_c \cdot S_{min}$ into it, and multiply the brackets out. Which number stands alone on both sides, and what can you divide by then?
# </details>

# %% [markdown]
# **Compare with** the runs above:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: steps to a loss of 0.6, on the fitted hyperbola and in the runs
place_of = answer("u08-tradeoff", steps_and_examples)
on_the_curve = {size: round(place_of(min_steps, critical, size)["steps"]) for size in medians}
pd.DataFrame({"computed": on_the_curve, "measured": medians}).rename_axis("batch size")

# %% [markdown]
# ### The best learning rate, measured
#
# The rates in the figure above were recorded with draws 7, 8 and 9. Measure them with other draws:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the learning rate with the lowest loss after as many steps as in the table (ten seconds)
RATES = [round(2 ** (halves / 2), 2) for halves in range(-8, 9)]


def loss_at(size, rate, seed):
    trained, generator = batch_experiment.new_network(), torch.Generator().manual_seed(seed)
    for _ in range(medians[size]):
        points = torch.randint(len(problem.labels), (size,), generator=generator)
        batch_experiment.descend(trained, *problem.batch(points), rate)
    return problem.loss(trained)


with batch_experiment.one_thread():
    best_rates = {
        size: min(RATES, key=lambda rate: sum(loss_at(size, rate, seed) for seed in (17, 18, 19)))
        for size in with_progress(recorded_rates, "batch sizes")
    }
pd.DataFrame({"recorded": recorded_rates, "here": best_rates}).rename_axis("batch size")

# %% [markdown]
# The rates tried lie a factor of √2 apart, and the two best end nearly level. So a neighbour of the recorded rate is no surprise.

# %% [markdown]
# ### What a mean of means does to a token

# %% The weight of a token [markdown] exercise="u08-mean-of-means" points=1.5 minutes=12 difficulty=2 importance=3 extra=true
# **Write** `token_weights`: the weight that `running_mean` gives **any one token** of each sequence, a list of one `float` per sequence, in order. All or nothing.
#
# - The weight is the derivative of the loss whose gradient the rule accumulates with respect to this one token's loss.
# - Micro-batches hold `micro_batch_size` sequences, in order; the last may be smaller.
# - Every token is a target.
#
# *By hand:* lengths 3, 1, 2 in micro-batches of two → **0.125**, **0.125**, **0.25**.


# %% solution="u08-mean-of-means"
def token_weights(lengths: list[int], micro_batch_size: int) -> list[float]:
    """Weight of one token of each sequence in the mean of the micro-batches' means."""
    ### BEGIN SOLUTION
    num_micro_batches = -(-len(lengths) // micro_batch_size)
    weights = []
    for start in range(0, len(lengths), micro_batch_size):
        group = lengths[start : start + micro_batch_size]
        weights += [1 / (num_micro_batches * sum(group)) for _ in group]
    return weights
    ### END SOLUTION


# %%
try_it(token_weights, [3, 1, 2], 2)

# %% check="u08-mean-of-means"
# Ragged and equal lengths; micro-batches of one, of all, and a smaller last one.

# %% [markdown]
# <details><summary>Hint: I get one sixth for every token in the worked case</summary>
#
# That is what training should do. What does the *lecture* do with the micro-batch of four tokens, with that of two, and then with both results?
# </details>

# %% [markdown]
# **Compare with** the error above. Weights are multiples of the fair share:

# %% folded=true tags=["nbval-check-output"]
# Measured: weights of tokens, and the error of the gradient
weights_of = answer("u08-mean-of-means", token_weights)
by_micro_batch = {
    b: {
        "in the longest": round(weights_of(lengths, b)[0] * sum(lengths), 2),
        "in the shortest": round(weights_of(lengths, b)[1] * sum(lengths), 2),
        "error, %": errors[b]["error, %"],
    }
    for b in errors
}
pd.DataFrame(by_micro_batch).T.rename_axis("micro-batch")

# %% [markdown]
# ### A training loop
#
# A **scheduler** sets the learning rate by counting steps. **Clipping** rescales a gradient whose norm exceeds a limit. Both work on *steps*, and a step now has several micro-batches.

# %% A training loop [markdown] exercise="u08-train" points=3 minutes=22 difficulty=3 importance=5 extra=true
# **Write** `train`. Cut `micro_batches`, pairs of ids and targets, into **groups** of `micro_batches_per_step`; the *last group* may have fewer. A group is one batch and makes one step. Return a list with each group's mean loss.
#
# - *Accumulation*: the gradient is that of the mean loss over all targets of the group, with one micro-batch in memory at a time. A micro-batch may have no targets.
# - *Old gradients* in `grad` do not count.
# - *Clipping*: call `clip_grad_norm_(parameters, max_norm)` once per group, on its complete gradient. It returns the norm before clipping.
# - *Schedule*: the optimizer steps, then the scheduler.
# - *No step*: where the group's loss or norm is not finite, or it has no targets, neither steps. Its entry is `None`.
#
# The six situations in italics earn equal shares.
#
# *By hand:* 3, 1, 2 and 5 targets, two micro-batches in a group → losses **2.499** and **1.731**.


# %% solution="u08-train"
def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    micro_batches: list[tuple[Tensor, Tensor]],
    micro_batches_per_step: int,
    max_norm: float,
) -> list[float | None]:
    """Train, with one step for each group of micro-batches."""
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


# %% folded=true
# Helper: train a small model on sequences of these lengths, two in a group
def setting(model):
    optimizer = SGD(model.parameters(), lr=0.5)
    return model, optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))


def in_twos(train, lengths):
    micro_batches = [ragged_batch([length], vocab_size=11) for length in lengths]
    losses = train(*setting(small_model()), micro_batches, micro_batches_per_step=2, max_norm=1.0)
    return [loss if loss is None else round(loss, 3) for loss in losses]


# %%
try_it(in_twos, train, [3, 1, 2, 5])
try_it(in_twos, train, [3, 1, 0, 0, 5])

# %% check="u08-train"
# Steps, learning rates, weights, losses and what is held at the peak: the six situations of the exercise.

# %% [markdown]
# <details><summary>Hint: only "clipping" fails</summary>
#
# How often do you clip in one step, and is the gradient complete by then? Clip (9, 0) and (0, 1) to length 1 each and add them: does the sum still point in the direction of (9, 1)?
# </details>
#
# <details><summary>Hint: my micro-batches cannot be joined</summary>
#
# They differ in width. Must they become one tensor?
# </details>
#
# <details><summary>Hint: after a group without a step, everything is wrong</summary>
#
# Anything plus nan is nan. What is in `grad` when the next group begins?
# </details>

# %% [markdown]
# **Compare with** one large batch. The same sequences as four micro-batches of one, and as one batch of four:

# %% folded=true tags=["nbval-check-output"]
# Measured: the weights after twenty steps, with and without accumulation
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
# ### The noise scale of a real run
#
# With a large model you never see per-example gradients. But accumulation makes two gradients anyway: that of a micro-batch and that of the whole batch. Their squared norms are enough. Let $G_B$ be the gradient of a batch of $B$ examples; on average
#
# $$\overline{|G_B|^2} = |G|^2 + \frac{\mathrm{tr}(\Sigma)}{B}$$
#
# for every batch size. Two sizes give two equations for two unknowns.

# %% The noise scale from two norms [markdown] exercise="u08-two-batch" points=1.5 minutes=9 difficulty=3 importance=4 extra=true
# **Write** `estimate_noise`: from the squared norms of the gradients of a small and of a big batch, a dictionary of three `float`s, each a third of the points. Relative tolerance: 10⁻⁹.
#
# | key | what |
# |---|---|
# | `"squared_norm"` | the estimate of $\lvert G\rvert^2$; by chance it may be negative: leave it |
# | `"trace"` | that of $\mathrm{tr}(\Sigma)$, likewise |
# | `"noise_scale"` | the second over the first; `math.inf` where the first is not positive, and only there |
#
# *By hand:* squared norms 5 of 2 examples and 3 of 4 → **1**, **8**, **8**.


# %% solution="u08-two-batch"
def estimate_noise(
    small_squared_norm: float, big_squared_norm: float, small_batch_size: int, big_batch_size: int
) -> dict[str, float]:
    """Unbiased estimates of |G|² and tr(Σ), and their ratio."""
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
# <details><summary>Hint: I do not see how to solve it</summary>
#
# Write the equation above twice, once for each batch size. What disappears when you subtract one from the other?
# </details>

# %% [markdown]
# How far off is one pair of batches? Three hundred pairs of 8 and 64 examples, at the start of the training problem:

# %% folded=true
# Figure: single estimates of the noise scale
estimate_of = answer("u08-two-batch", estimate_noise)
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
# One pair tells little. Both estimates are unbiased; their ratio is not. So average both over many steps and divide once: a ratio of means, never a mean of ratios. With 100 batches of 8 and of 1,024, at five moments of the run above:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Figure: the noise scale as the loss falls, exact and estimated
estimated = []
for rows in rows_at.values():
    small, big = (
        batch_experiment.batches_of(rows, size, 100, seed=size).square().sum(1).mean().item()
        for size in (8, 1024)
    )
    estimated.append(estimate_of(small, big, 8, 1024)["noise_scale"])
noise_over_loss(list(moments["loss"]), list(moments["noise scale"]), estimated)

# %% [markdown]
# ### A sum that loses its terms
#
# `grad` has the precision of its parameter. A bf16 number has 8 significant bits. Once the sum is 512 times as large as the next gradient, adding it changes nothing.

# %% Gradients summed in fp32 [markdown] exercise="u08-buffer" points=2 minutes=15 difficulty=3 importance=3 extra=true
# **Write** `sum_in_fp32`: make an fp32 buffer of zeros for each parameter that requires a gradient, and make every later backward pass add its gradients there. Return the list of buffers, shaped like the parameters and in the order of `model.parameters()`. All or nothing.
#
# - After a backward pass every `grad` is None.
# - The bf16 gradients are never all in memory: each is freed as soon as it is added.
#
# `parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)` as soon as backward has filled in its `grad`.
#
# *By hand:* twelve layers and two backward passes, in which all gradients are 1, then 1/512 → **12** buffers full of **1.001953125**.


# %% solution="u08-buffer"
def sum_in_fp32(model: nn.Module) -> list[Tensor]:
    """Buffers into which all later backward passes add their gradients."""
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


# %% folded=true
# Helper: two backward passes through twelve layers that pass their input on
def numbers_in_buffers(sum_in_fp32):
    layers = [nn.Linear(16, 16, bias=False) for _ in range(12)]
    for layer in layers:
        nn.init.eye_(layer.weight)
    model = nn.Sequential(*layers).bfloat16()
    buffers = sum_in_fp32(model)
    for number in (1.0, 1 / 512):
        model(torch.full((1, 16), number, dtype=torch.bfloat16)).sum().backward()
    numbers = {number for each in buffers for number in each.flatten().tolist()}
    left = sum(each.grad is not None for each in model.parameters())
    return {"buffers": len(buffers), "numbers in them": sorted(numbers), "left in grad": left}


# %%
try_it(numbers_in_buffers, sum_in_fp32)

# %% check="u08-buffer"
# Also frozen layers, and a weight that two layers share.

# %% [markdown]
# <details><summary>Hint: all my hooks add to the last buffer</summary>
#
# A function that you define in a loop looks its variables up when it is *called*. How can you give it a value of its own?
# </details>

# %% [markdown]
# **Compare with** plain accumulation: the gradients of many micro-batches, summed in bf16 and in your buffers.

# %% folded=true
# Measured: errors of the summed gradient, against float64
fp32_of = answer("u08-buffer", sum_in_fp32)


def sum_of_gradients(num_micro_batches, dtype, has_buffers=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 11)).bfloat16().to(dtype)
    buffers = fp32_of(model) if has_buffers else None
    inputs = torch.randn(num_micro_batches, 8, 16).bfloat16().to(dtype)
    labels = torch.randint(11, (num_micro_batches, 8))
    for x, y in zip(inputs, labels, strict=True):
        F.cross_entropy(model(x), y).backward()
    summed = buffers or [each.grad for each in model.parameters()]
    return torch.cat([each.double().flatten() for each in summed])


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
# Each gradient is rounded to bf16 either way. In fp32 those errors average out. In bf16 the sum itself goes wrong, the more so the longer it is. Hence the 18 bytes per parameter of unit 03.

# %% [markdown]
# ## What you know now
#
# | quantity | formula |
# |---|---|
# | gradient of a batch | the summed loss of each micro-batch, over the targets of the *whole* batch |
# | peak of accumulation | one micro-batch, and all gradients |
# | global batch, in sequences; in tokens | $b\,m\,d$; $B\,s$ |
# | noise scale | $\mathrm{tr}(\Sigma)/\lvert G\rvert^2$ |
# | steps to a loss | $S_{min}\,(1 + B_c/B)$ |
# | examples to a loss | $B_c\,S_{min}\,(1 + B/B_c)$ |
# | best learning rate | proportional to $1/(1 + B_c/B)$ |
#
# **Your plan** can now say what one step is: 2²² tokens are 512 sequences of 8,192, in 64 passes on each of eight devices, and 100 billion tokens are 23,842 steps. What the devices exchange after the last pass comes in unit 09.
#
# *Further reading:* McCandlish et al. 2018, *An Empirical Model of Large-Batch Training*, section 2, on noise scale and hyperbola (25 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("08")
