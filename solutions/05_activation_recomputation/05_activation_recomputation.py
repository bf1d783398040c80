# ---
# jupyter:
#   course:
#     title: Activation recomputation
#     minutes: 120
#     device: CPU
#     lecture: [E16, S14, B4, S19]
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
# # 05 · Activation recomputation
#
# Keep less for the backward pass and compute the rest again when it is needed. You build it, measure what it saves and what it costs, and choose what to recompute so that a model fits.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture E, recomputation (E16); lecture S (*Scaling LLM Training, Part I*), activation checkpointing and hands-on 2 (S14, S19); lecture B (*Building LLMs in Practice*), B4 | 120 minutes, and 15 for the extra | CPU | 01, 03 |
#
# Cells that came with the notebook stay where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do after it
#
# 1. **Build** activation recomputation as an autograd function.
# 2. **Compute** what segments of layers keep and cost, and **find** the best length of a segment.
# 3. **Measure** the FLOPs that come on top, with and without early stop.
# 4. **Choose** policies, and **make** a plan that fits a memory cap.

# %% [markdown]
# ## Symbols of these lectures
#
# | here | lecture E | lecture S | lecture B | meaning |
# |---|---|---|---|---|
# | b | bs, mbs | bs | b | sequences of a micro-batch |
# | s | seq | L | S | tokens of a sequence |
# | h | h | D | D, dim | width of the residual stream |
# | L | L | num_layers | L | layers |
# | v | v | | vocab | words of the vocabulary |
# | k | | | | layers of a segment |
# | u | | | | bytes of one tensor between two layers |
#
# The idea has three names: *activation recomputation*, *activation checkpointing* (lecture S), *gradient checkpointing*. A **checkpoint** is here PyTorch's word for one call that is recomputed; it has nothing to do with a model saved on disk.

# %% [markdown]
# ## Setup

# %% nbgrader={"grade": false, "grade_id": "u05-setup", "locked": true, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
from course_utils.ready import check_setup

check_setup()

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks import answer, check, compare, predict
from course_utils.configs import PRECISIONS, RunConfig, preset
from course_utils.instruments import (
    count_saved_bytes,
    fake_tensors,
    storage_bytes,
    trace_memory,
)
from course_utils.reference import Training
from course_utils.reference.recomputation import in_segments
from course_utils.show import (
    births_and_deaths,
    explorer,
    kept_in_tensors,
    live_in_tensors,
    live_tensors,
    memory_timeline,
    try_it,
)

# %% [markdown]
# ## A tour: how long does an activation live?
#
# Sixteen small layers in a row, from 32 numbers for each token to 128 and back. Each layer counts how often it is called.


# %%
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.num_calls = 0

    def forward(self, x):
        self.num_calls += 1
        return self.down(F.gelu(self.up(x)))


layers = nn.ModuleList(Layer(32) for _ in range(16))
x = torch.randn(4096, 32)
u = storage_bytes(x)

# %% [markdown]
# What does one layer keep? Count in tensors between two layers, u bytes each:

# %% tags=["nbval-check-output"]
one = count_saved_bytes(lambda: layers[0](x), layers[0])
pd.DataFrame([{"kept by": t.operation, "in u": t.storage_bytes // u} for t in one.tensors])

# %% [markdown]
# The input, and two tensors inside that are four times as wide. Now a whole step through all sixteen, which begins by making the first input, as an embedding would. Each bar is one of these tensors, from the operation that makes it to the one that frees it.


# %%
def plain(x):
    for layer in layers:
        x = layer(x)
    return x


def step_of(forward):
    return trace_memory(lambda: forward(x.clone()).sum().backward(), layers)


plain_trace = step_of(plain)
births_and_deaths(plain_trace)

# %% tags=["nbval-check-output"]
print(f"kept by the forward pass: {kept_in_tensors(plain_trace, u):.0f} u")

# %% [markdown]
# The first activation lives the longest: made at the very beginning, needed at the very end. And it need not: the input of a layer, **one** u, is enough to make the eight inside it again. Activations are not all equal (B4): some are large and quickly made again, and those are the ones to let go of.
#
# **Recomputation** keeps the input of a layer in the forward pass, lets everything inside go, and in the backward pass runs the layer again before going back through it. It trades compute for memory. Done to every layer it is called **full** (E16): only the tensors between layers are kept.
#
# **Predict.** If each of the sixteen layers keeps nothing but its input, how many u are left after the forward pass?

# %%
predict("u05-boundaries", None, "u")

# %% [markdown]
# **Predict.** And if all sixteen layers *together* keep nothing but the input of the first: how many u are live at the worst moment of the backward pass? Without recomputation it is this many:

# %% tags=["nbval-check-output"]
print(f"at most {max(live_in_tensors(plain_trace, u)):.0f} u")

# %%
predict("u05-one-segment", None, "u")

# %% [markdown]
# ## An autograd function
#
# An **autograd function** says by itself what is kept and what happens in backward. `forward` gets a context `ctx` and the inputs, `backward` gets `ctx` and the gradient of the result, and returns **one gradient for each input of** `forward`, `None` where there is none to give.


# %% tags=["nbval-check-output"]
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, exponent):
        ctx.exponent = exponent  # no tensor: an attribute will do
        ctx.save_for_backward(x)  # tensors: here, so that autograd knows of them
        return x**exponent

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.exponent * x ** (ctx.exponent - 1), None


two = torch.tensor([2.0], requires_grad=True)
Power.apply(two, 3).backward()
print(two.grad)

# %% [markdown]
# Could backward leave the derivative to autograd? Break it on purpose: put the result away and go back through it.


# %% tags=["nbval-check-output"]
class Careless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x**3
        return ctx.result.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.result.backward(grad)


try:
    Careless.apply(two).backward()
except RuntimeError as error:
    print(error)

# %% [markdown]
# Inside of an autograd function **nothing is recorded**: its result has no history to go back through. That is what recomputation wants of the forward pass, and what it has to switch on again in backward.
#
# Tools for what comes now:
#
# | tool | what it does |
# |---|---|
# | `with torch.enable_grad():` | records what is computed inside, wherever it stands |
# | `tensor.detach()` | the same numbers without history |
# | `tensor.requires_grad_(True)` | from here on a gradient is wanted for it |
# | `ctx.needs_input_grad` | for each input of `forward` whether its gradient is wanted |
# | `torch.autograd.backward(y, grad)` | back from y, whose gradient is `grad`, to *all* leaves behind it: fills in their `.grad` |
# | `torch.get_rng_state()`, `torch.set_rng_state(state)` | where the generator of random numbers stands |
# | `torch.is_autocast_enabled("cpu")`, `torch.get_autocast_dtype("cpu")` | how **autocast**, PyTorch's automatic mixed precision, is set |
# | `with torch.autocast("cpu", dtype=…, enabled=…):` | sets it |

# %% [markdown] exercise={"id": "u05-checkpoint", "title": "Your own checkpoint", "difficulty": 5, "importance": 5, "minutes": 25}
# **Write** `checkpoint`: `function(*tensors)` as an autograd function that keeps only the inputs and runs the function again in backward. Write it yourself, without `torch.utils.checkpoint`. Four scenarios, each a quarter of the points; in each of them results, gradients, calls and bytes must all be right:
#
# | scenario | what counts |
# |---|---|
# | `gradients` | They reach the inputs **and** the parameters that the function uses inside. The function is called once in forward and once in backward. The inputs are kept with `save_for_backward`, and no other tensor stays alive. |
# | `random` | The function draws random numbers (dropout). The second run draws those of the first, and afterwards the generator goes on as if the second run had drawn nothing. |
# | `frozen_inputs` | Some inputs want no gradient, such as a mask of true and false. Where *no* input wants one, parameters inside still get theirs: autograd calls `backward` only if an input of `apply` wants a gradient. |
# | `autocast` | The second run has the autocast of the first, on or off and of the same type, also when autocast is over by then. |
#
# The state of the generator may be kept as you like. Begin with the first scenario; the check says which of them pass.
#
# *Worked case:* one layer and its input of 2 · 3 numbers in float64: **48** bytes kept, **1** call in forward, **1** in backward.


# %% nbgrader={"grade": false, "grade_id": "u05-checkpoint", "locked": false, "schema_version": 3, "solution": true, "task": false}
def checkpoint(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """function(*tensors), of which only the inputs are kept for backward.

    Args:
        function: Gives one tensor; is called again in backward.
        tensors: All of its inputs.
    """
    ### BEGIN SOLUTION

    class Recomputed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, wants_gradient, *tensors):
            ctx.random_state = torch.get_rng_state()
            ctx.cast_type = torch.get_autocast_dtype("cpu")
            ctx.is_cast = torch.is_autocast_enabled("cpu")
            ctx.save_for_backward(*tensors)
            return function(*tensors)

        @staticmethod
        def backward(ctx, upstream):
            wanted = ctx.needs_input_grad[1:]
            fresh = [
                t.detach().requires_grad_(w) for t, w in zip(ctx.saved_tensors, wanted, strict=True)
            ]
            state_now = torch.get_rng_state()
            torch.set_rng_state(ctx.random_state)
            with (
                torch.enable_grad(),
                torch.autocast("cpu", dtype=ctx.cast_type, enabled=ctx.is_cast),
            ):
                result = function(*fresh)
            torch.set_rng_state(state_now)
            torch.autograd.backward(result, upstream)
            return None, *(t.grad for t in fresh)

    return Recomputed.apply(torch.empty(0, requires_grad=True), *tensors)
    ### END SOLUTION


# %%
def exponential(x):
    print("called with", x.tolist())
    return x.exp()


def gradient_through(checkpoint):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    result = checkpoint(exponential, x)
    print("forward is over")
    result.backward(torch.tensor([1.0, 2.0]))
    return x.grad


try_it(gradient_through, checkpoint)

# %% nbgrader={"grade": true, "grade_id": "u05-checkpoint-test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
# Results and gradients in float64, calls, kept bytes: plain, random, frozen inputs, autocast.
check("u05-checkpoint", checkpoint)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u05-checkpoint", checkpoint)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>"element 0 of tensors does not require grad"</summary>
#
# Where in your class is recording switched off, and who does that? Which of the tensors that go into the second run want a gradient?
# </details>
#
# <details><summary>"Trying to backward through the graph a second time"</summary>
#
# The saved inputs have a history of their own, which the rest of the network goes through later. What makes the same numbers without it?
# </details>
#
# <details><summary>My inputs get gradients, my parameters do not</summary>
#
# Parameters are not among the arguments: the function knows them by itself. Do you ask for chosen gradients, or do you go back to all leaves?
# </details>
#
# <details><summary>With dropout my gradients are wrong</summary>
#
# A dropout that decides differently is a different function. Where must the generator stand when the second run begins? And where when your backward returns, so that nobody notices?
# </details>
#
# <details><summary>Where no input wants a gradient, backward never comes</summary>
#
# Autograd looks at what `apply` is given. A tensor of no use at all that wants a gradient would do: what does backward return for it?
# </details>

# %% [markdown]
# **Measure.** The same sixteen layers, each through your checkpoint. Bars of the second colour are what the backward pass makes, gradients of activations and recomputed tensors: many, and short.

# %%
checkpoint_of = answer("u05-checkpoint", checkpoint)


def each_layer_again(x):
    for layer in layers:
        x = checkpoint_of(layer, x)
    return x


again_trace = step_of(each_layer_again)
births_and_deaths(again_trace, has_temporaries=True)

# %% [markdown]
# And the plain step drawn in the same way:

# %%
births_and_deaths(plain_trace, has_temporaries=True)

# %% tags=["nbval-check-output"]
for layer in layers:
    layer.num_calls = 0
each_layer_again(x).sum().backward()
print("calls of each layer:", [layer.num_calls for layer in layers])
compare(
    "u05-boundaries",
    "u",
    computed=len(layers),
    measured=kept_in_tensors(again_trace, u),
)

# %% [markdown]
# **Explain.** 16 u instead of 144, for a second run of every layer. The gradients are the same to the last bit:


# %% tags=["nbval-check-output"]
def gradients(forward):
    for parameter in layers.parameters():
        parameter.grad = None
    forward(x).sum().backward()
    return [parameter.grad for parameter in layers.parameters()]


pairs = zip(gradients(plain), gradients(each_layer_again), strict=True)
print(all(torch.equal(one, other) for one, other in pairs))

# %% [markdown]
# PyTorch's own is `torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)`. With `use_reentrant=True` it is an autograd function like yours, without the tensor of no use: where no input wants a gradient it gives none to the parameters. The other form keeps the graph of the first run without its tensors, and stops the second run as soon as it has all of them back.

# %% [markdown]
# ## Segments
#
# Nothing says that a checkpoint holds one layer. A **segment** of k layers keeps one tensor for all of them; to go back through it, all that its k layers keep is there at once.

# %% [markdown] exercise={"id": "u05-segments", "title": "Layers in segments", "difficulty": 2, "importance": 5, "minutes": 8}
# **Write** `run_in_segments`: run `layers` one after the other on `x`, every `layers_per_segment` of them through `checkpoint(function, x)`, which is given. All segments are recomputed, the last one too; it may be shorter. All or nothing: results, gradients, two calls of each layer, kept bytes, and the peak of live bytes.
#
# *Worked case:* 5 layers, 2 in a segment: 3 segments, so 3 tensors between layers are kept; for 50 rows of 3 numbers in float64 **3,600** bytes.


# %% nbgrader={"grade": false, "grade_id": "u05-segments", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_in_segments(
    layers: list[nn.Module],
    x: Tensor,
    layers_per_segment: int,
    checkpoint: Callable[..., Tensor],
) -> Tensor:
    """All layers in a row, recomputed in segments.

    Args:
        layers: Each from a tensor to one of the same shape.
        x: Input of the first.
        layers_per_segment: Layers k of each segment but the last, which may be shorter.
        checkpoint: Takes a function and its inputs; keeps the inputs alone.
    """
    ### BEGIN SOLUTION
    for start in range(0, len(layers), layers_per_segment):
        segment = nn.Sequential(*layers[start : start + layers_per_segment])
        x = checkpoint(segment, x)
    return x
    ### END SOLUTION


# %%
class Named(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        print(self.name, end=" ")
        return x + 1


def in_twos(run_in_segments):
    x = torch.zeros(1, requires_grad=True)
    result = run_in_segments([Named(name) for name in "abcde"], x, 2, checkpoint_of)
    print("| backward:", end=" ")
    result.backward()
    print()
    return result.detach()


try_it(in_twos, run_in_segments)

# %% nbgrader={"grade": true, "grade_id": "u05-segments-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Equal segments and a shorter last one; calls, kept bytes, peak; gradients in float64.
check("u05-segments", run_in_segments)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u05-segments", run_in_segments)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>In backward every segment runs the last layers</summary>
#
# A function that you define in a loop looks its variables up when it is *called*. What do they hold when backward calls it? Which ways do you know to give a function a value of its own?
# </details>
#
# <details><summary>Only some lengths of segments are wrong</summary>
#
# Write down the first and the last layer of each segment for 5 layers and segments of 2.
# </details>

# %% [markdown]
# **Measure.** The same chain in segments of 1, 2, 4, 8 and 16 layers, through your two functions:

# %% tags=["nbval-check-output"]
segments_of = answer("u05-segments", run_in_segments)


def trace_of(layers_per_segment):
    return step_of(lambda x: segments_of(list(layers), x, layers_per_segment, checkpoint_of))


traces = {k: trace_of(k) for k in (1, 2, 4, 8, 16)}
table = {
    k: {
        "kept by forward, in u": round(kept_in_tensors(trace, u)),
        "most live, in u": round(max(live_in_tensors(trace, u))),
    }
    for k, trace in traces.items()
}
pd.DataFrame(table).T.rename_axis("layers per segment")

# %% tags=["nbval-check-output"]
compare(
    "u05-one-segment",
    "u",
    measured=round(max(live_in_tensors(traces[16], u))),
)

# %%
live_tensors(
    {
        "no recomputation": plain_trace,
        "segments of 1": traces[1],
        "segments of 4": traces[4],
        "one segment of 16": traces[16],
    },
    u,
)

# %% [markdown]
# **Explain.** One segment around everything saves **nothing**: it keeps one tensor in forward, and makes all 144 again before it goes back through the first of them. The peak is one tensor *higher* than without. The valley lies between few tensors between segments and few tensors inside of one.
#
# Move the slider; the same picture stands above for three lengths.


# %%
def live_in_segments(layers_per_segment):
    name = f"segments of {layers_per_segment}"
    return live_tensors({"no recomputation": plain_trace, name: traces[layers_per_segment]}, u)


explorer(live_in_segments, layers_per_segment=(list(traces), 4))

# %%
live_in_segments(2)

# %% [markdown]
# ## What the slides say, and what their code does
#
# Lecture S (S14) draws a chain of which every √L-th layer is kept: memory O(√L), one to two runs of each layer. Its code then wraps **every** layer in `torch.utils.checkpoint` (S19): that keeps L tensors between layers, O(L), and the inside of one layer at a time. Both are right as they stand, and they are not the same. For this chain √16 = 4:

# %% tags=["nbval-check-output"]
for k, what in ((4, "every 4th, as drawn"), (1, "every one, as coded")):
    print(f"{what}: {table[k]['kept by forward, in u']} u kept,", end=" ")
    print(f"{table[k]['most live, in u']} u at most")

# %% [markdown]
# What the code does is better here, because the inside of a layer is nine times as large as the tensor between two. When it is, √L is not the best number.
#
# A second slide of lecture S calls "checkpointing after a block's residual" *selective* recomputation. That is **full** recomputation everywhere else, lecture E included (E16): the residual after a block *is* the tensor between two layers. *Selective* recomputation keeps most of a layer and makes only the core of its attention again.
#
# PyTorch has a function for layers in a row. Count the calls:

# %% tags=["nbval-check-output"]
from torch.utils.checkpoint import checkpoint_sequential

chain = nn.Sequential(*layers)
for layer in layers:
    layer.num_calls = 0
four = step_of(lambda x: checkpoint_sequential(chain, 4, x, use_reentrant=False))
print([layer.num_calls for layer in layers])
print(f"{kept_in_tensors(four, u):.0f} u kept, {max(live_in_tensors(four, u)):.0f} u at most")

# %% [markdown]
# It leaves the last of its four segments alone. Backward goes through that one first, so that what it lets go of would be needed again at once: one run of four layers is saved, and in this chain the peak is no higher. In a model the loss stands behind the layers, and all that this segment keeps lies beside what the loss keeps.

# %% [markdown]
# ## A real model
#
# A whole training step of Llama-3.2-1B, one sequence of 4,096 tokens, with AdamW and the loss in fp32, on fake tensors. Every block is recomputed, or none:


# %%
def training_step(recipe, layers_per_segment):
    run = RunConfig(seq_len=4096, precision=PRECISIONS[recipe], is_loss_fp32=True)
    with fake_tensors():
        training = Training(preset("Llama-3.2-1B"), run)
        if layers_per_segment:
            blocks = in_segments(training.model.blocks, layers_per_segment)
            training.model.blocks = blocks
        return trace_memory(training.step, *training.owners, num_steps=2)


steps = {(r, k): training_step(r, k) for r in ("fp32", "bf16") for k in (0, 1)}

# %% tags=["nbval-check-output"]
names = {0: "no block", 1: "every block"}
peaks = {
    recipe: {names[k]: round(steps[recipe, k].peak_bytes / 2**30, 2) for k in names}
    for recipe in ("fp32", "bf16")
}
pd.DataFrame(peaks).T.rename_axis("GiB at the peak")

# %%
memory_timeline(steps["bf16", 1])

# %% [markdown]
# **Explain.** What is it that is left? The temporaries at the peak:


# %% tags=["nbval-check-output"]
def temporaries_at_peak(recipe):
    trace = steps[recipe, 1]
    live = [t for t in trace.storages_at(trace.peak_at) if t.category == "temporaries"]
    large = [t for t in live if t.storage_bytes > 2**29]
    return [(recipe, t.operation, t.shape, round(t.storage_bytes / 2**30, 2)) for t in large]


rows = temporaries_at_peak("fp32") + temporaries_at_peak("bf16")
pd.DataFrame(rows, columns=["recipe", "made by", "shape", "GiB"])

# %% [markdown]
# In fp32 no activation matters any more: beside the 16 bytes for each parameter the peak holds gradients of the embedding on their way into the sum. In bf16 it is at the loss, which belongs to no block, so that recomputing blocks cannot touch it: beside these two gradients, the log-softmax that the forward pass keeps.

# %% [markdown]
# ## Going further
#
# What follows is **extra**: bonus points, about 15 minutes.

# %% [markdown]
# ## A loss in pieces
#
# For one sequence of 4,096 tokens the logits of Llama-3.2-1B in fp32 take 4 · s · b · v bytes, and at the peak in bf16 three tensors of that size live at once:

# %% tags=["nbval-check-output"]
print(f"{4 * 4096 * 1 * 128256 / 2**30:.2f} GiB")

# %% [markdown]
# The loss is a mean over tokens, and each token has logits of its own. So the tokens can go through the head and the loss in pieces, and with recomputation no piece has to keep its log-softmax.

# %% [markdown] exercise={"id": "u05-loss-in-pieces", "title": "A loss in pieces", "difficulty": 3, "importance": 3, "minutes": 12, "extra": true}
# **Write** `loss_in_pieces`: the mean cross-entropy of all tokens, with logits `hidden @ weight.T`, in `num_pieces` pieces of nearly equal length, each through `checkpoint(function, *tensors)`, which is given. `hidden` is (tokens, h), `weight` (v, h), `targets` (tokens,); the last piece may be shorter. All or nothing: the loss, the gradients of `hidden` and `weight`, nothing kept beside the inputs, and never more at once than the logits of one piece need.
#
# *Worked case:* 11 tokens in 3 pieces of 4, 4 and 3.


# %% nbgrader={"grade": false, "grade_id": "u05-loss-in-pieces", "locked": false, "schema_version": 3, "solution": true, "task": false}
def loss_in_pieces(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    num_pieces: int,
    checkpoint: Callable[..., Tensor],
) -> Tensor:
    """Mean cross-entropy whose logits never live all at once.

    Args:
        hidden: What goes into the head, shape (tokens, h).
        weight: Of the head, shape (v, h).
        targets: The right word of each token, shape (tokens,).
        num_pieces: Pieces of tokens, one after the other.
        checkpoint: Takes a function and its inputs; keeps the inputs alone.
    """
    ### BEGIN SOLUTION

    def summed_loss(hidden, weight, targets):
        return F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum")

    pieces = zip(hidden.chunk(num_pieces), targets.chunk(num_pieces), strict=True)
    losses = [checkpoint(summed_loss, part, weight, right) for part, right in pieces]
    return torch.stack(losses).sum() / targets.numel()
    ### END SOLUTION


# %%
def small_loss(loss_in_pieces):
    torch.manual_seed(0)
    hidden, weight = torch.randn(11, 4), torch.randn(5, 4)
    targets = torch.arange(11) % 5
    print(f"all at once: {F.cross_entropy(hidden @ weight.T, targets):.6f}")
    return round(loss_in_pieces(hidden, weight, targets, 3, checkpoint_of).item(), 6)


try_it(small_loss, loss_in_pieces)

# %% nbgrader={"grade": true, "grade_id": "u05-loss-in-pieces-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Equal and unequal pieces; loss and gradients in float64; bytes kept and at the peak.
check("u05-loss-in-pieces", loss_in_pieces)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u05-loss-in-pieces", loss_in_pieces)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>It is right only if all pieces have one length</summary>
#
# In a mean of means, how much does one token of a piece of 3 count, and one of a piece of 4?
# </details>
#
# <details><summary>All logits are kept</summary>
#
# Which product makes them, and does it stand before or behind the point where you divide?
# </details>

# %% [markdown]
# **Measure.** Head and loss of Llama-3.2-1B alone, forward and backward, in fp32:


# %% tags=["nbval-check-output"]
pieces_of = answer("u05-loss-in-pieces", loss_in_pieces)


def head_trace(loss):
    with fake_tensors():
        hidden, weight = (torch.empty(n, 2048, requires_grad=True) for n in (4096, 128256))
        targets = torch.empty(4096, dtype=torch.long)
        step = lambda: loss(hidden, weight, targets).backward()  # noqa: E731
        return trace_memory(step, hidden, weight)


def head_peak_gib(loss):
    trace = head_trace(loss)
    return round((trace.peak_bytes - trace.total_bytes[0]) / 2**30, 2)


def whole_loss(hidden, weight, targets):
    return F.cross_entropy(hidden @ weight.T, targets)


def loss_in(num_pieces):
    return lambda *tensors: pieces_of(*tensors, num_pieces, checkpoint_of)


print("at once:", head_peak_gib(whole_loss), "GiB beside hidden states and weight")
for n in (1, 2, 4, 16):
    print(f"in pieces, {n}:", head_peak_gib(loss_in(n)), "GiB")

# %% [markdown]
# **Explain.** One piece is no better than none, and sixteen are no better than four: logits are no longer what fills the memory. What does?

# %% tags=["nbval-check-output"]
trace = head_trace(loss_in(16))
largest = trace.storages_at(trace.peak_at)[:5]
rows = [{"made by": t.operation or "given", "shape": t.shape} for t in largest]
pd.DataFrame(rows).assign(GiB=[round(t.storage_bytes / 2**30, 2) for t in largest])

# %% [markdown]
# The weight's gradient, as large as the weight: each piece makes one of its own, which autograd adds to the sum so far. Kernels that fuse head and loss add into one tensor, and they need no second run: they make a piece's gradient in the forward pass, while its logits are there.
