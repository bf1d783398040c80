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
# | lecture E (*Efficient LLMs*), recomputation (E16); lecture S (*Scaling LLM Training, Part I*), activation checkpointing and hands-on 2 (S14, S19); lecture B (*Building LLMs in Practice*), B4 | 120 minutes, and 40 for the extras | CPU | 01, 03, 04 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
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
# | a | n_heads | H | attention heads | query heads; a_kv for keys and values |
# | d | | | | width of one head |
# | f | 4h | F | dim_ff | inner width of the feed-forward block |
# | L | L | num_layers | L | layers |
# | v | v | | vocab | words of the vocabulary |
# | N | N | P | | parameters |
# | k | | | | layers of a segment |
# | u | | | | bytes of a boundary, the tensor between two layers |
# | A | | | | bytes that one layer keeps when it records, its input among them |
#
# The idea has three names: *activation recomputation*, *activation checkpointing* (lecture S), *gradient checkpointing*. A **checkpoint** is here PyTorch's word for one call that is recomputed; it has nothing to do with a model saved on disk.

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import answer, check, compare, predict
from course_utils.configs import MODELS, PRECISIONS, Kernels, ModelConfig, RunConfig, gpt, preset
from course_utils.instruments import (
    count_flops,
    count_saved_bytes,
    fake_tensors,
    storage_bytes,
    time_call,
    trace_memory,
)
from course_utils.reference import Block, Training, Transformer
from course_utils.reference.recomputation import in_segments
from course_utils.show import (
    births_and_deaths,
    computed_and_measured,
    explorer,
    live_tensors,
    memory_against_flops,
    memory_timeline,
    recomputation_over_length,
    recorded,
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
# A tensor between two layers is a **boundary**; it takes **u** bytes. What does one layer keep, in u?

# %% tags=["nbval-check-output"]
one = count_saved_bytes(lambda: layers[0](x), layers[0])
pd.DataFrame([{"kept by": t.operation, "in u": t.storage_bytes // u} for t in one.tensors])

# %% [markdown]
# The input, and two tensors inside that are four times as wide. Now a whole step through all sixteen, which begins by making the first input, as an embedding would. Each bar is one of these tensors, as thick as its bytes, from the operation that makes it to the one that frees it; a bar lies on those that were made before.


# %%
def run_plain(x):
    for layer in layers:
        x = layer(x)
    return x


def step_of(forward):
    return trace_memory(lambda: forward(x.clone()).sum().backward(), layers)


plain_trace = step_of(run_plain)
births_and_deaths(plain_trace)

# %% tags=["nbval-check-output"]
print(f"kept by the forward pass: {plain_trace.kept_bytes / u:.0f} u")

# %% [markdown]
# The first activation lives the longest: made at the very beginning, needed at the very end. It need not stay: the boundary before a layer, **one** u, is enough to make the eight inside it again. Activations are not all equal (B4): some are large and quickly made again, and those are the ones to free.
#
# **Recomputation** keeps the input of a layer in the forward pass, frees everything inside, and in the backward pass runs the layer again before going back through it. It trades compute for memory. Done to every layer it is called **full** (E16): only boundaries are kept.
#
# **Predict.** If each of the sixteen layers keeps nothing but its input, how many u are left after the forward pass?

# %%
predict("u05-boundaries", None, "u")

# %% [markdown]
# **Predict.** And if all sixteen layers *together* keep nothing but the input of the first: how many u are live at the worst moment of the backward pass? Without recomputation it is this many:

# %% tags=["nbval-check-output"]
print(f"at most {max(plain_trace.working_bytes) / u:.0f} u")

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
# Inside of an autograd function **nothing is recorded**: its result has no history to go back through. Two repairs: switch recording on with `enable_grad`, and record from a copy without history that wants a gradient. Without the copy, backward would walk on into the graph *before* the function, which is not its own. `ctx.needs_input_grad` says for each input whether its gradient is wanted:


# %% tags=["nbval-check-output"]
class Careful(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.copy = x.detach().requires_grad_()
        with torch.enable_grad():
            ctx.result = ctx.copy**3 * mask
        return ctx.result.detach()

    @staticmethod
    def backward(ctx, grad):
        print("gradient wanted:", ctx.needs_input_grad)
        ctx.result.backward(grad)
        return ctx.copy.grad, None


two.grad = None
Careful.apply(two * 1, torch.tensor([True])).backward()
print(two.grad)

# %% [markdown]
# The gradient is right and nothing is saved: all that was recorded in forward waits on `ctx`. Recomputation leaves recording off in forward, and does these steps in backward.
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

# %% Your own checkpoint [markdown] exercise="u05-checkpoint" points=4 minutes=30 difficulty=5 importance=5
# **Write** `checkpoint`: `function(*tensors)` as an autograd function that keeps only the inputs and runs the function again in backward. Write it yourself, without `torch.utils.checkpoint`. Four scenarios, each a quarter of the points; in each of them results, gradients, calls and bytes must all be right:
#
# | scenario | what counts |
# |---|---|
# | `gradients` | They reach the inputs **and** the parameters that the function uses inside. The function is called once in forward and once in backward. The inputs themselves, no copies, are kept with `save_for_backward`; no other tensor stays alive, the result neither. |
# | `random` | The function draws random numbers (dropout). The second run draws those of the first, and afterwards the generator goes on as if the second run had drawn nothing. |
# | `frozen_inputs` | Some inputs want no gradient: they came with `requires_grad` off, as data do, or cannot have one, as a mask of true and false. Where *no* input wants one, parameters inside still get theirs: autograd calls `backward` only if an input of `apply` wants a gradient. |
# | `autocast` | The second run has the autocast of the first, on or off and of the same type, also when autocast is over by then, or has begun only since. |
#
# The state of the generator may be kept as you like. Begin with the first scenario; the check says which of them pass. Numbers are on the CPU. On a GPU its generator and its autocast have to be restored too; `torch.utils.checkpoint` does it.
#
# *Worked case:* one layer and its input of 2 · 3 numbers in float64: **48** bytes kept, **1** call in forward, **1** in backward.


# %% solution="u05-checkpoint"
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

# %% check="u05-checkpoint"
# Results and gradients in float64, calls, kept bytes: plain, random, frozen inputs, autocast.

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

# %% tags=["nbval-check-output"]
for layer in layers:
    layer.num_calls = 0
each_layer_again(x).sum().backward()
print("calls of each layer:", [layer.num_calls for layer in layers])
compare(
    "u05-boundaries",
    "u",
    computed=len(layers),
    measured=again_trace.kept_bytes / u,
)

# %% [markdown]
# **Explain.** 16 u instead of 144, for a second run of every layer. The gradients are the same to the last bit:


# %% tags=["nbval-check-output"]
def gradients(forward):
    for parameter in layers.parameters():
        parameter.grad = None
    forward(x).sum().backward()
    return [parameter.grad for parameter in layers.parameters()]


pairs = zip(gradients(run_plain), gradients(each_layer_again), strict=True)
print(all(torch.equal(one, other) for one, other in pairs))

# %% [markdown]
# PyTorch's own is `torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)`. With `use_reentrant=True` it is an autograd function like yours, without the tensor of no use: where no input wants a gradient it gives none to the parameters. The other form keeps the graph of the first run without its tensors, and stops the second run as soon as it has all of them back.

# %% [markdown]
# ## Segments
#
# Nothing says that a checkpoint holds one layer. A **segment** of k layers keeps one boundary for all of them; to go back through it, all that its k layers keep is there at once.
#
# **Predict.** Lecture S keeps every √L-th layer (S14). Llama-3.2-1B has L = 16 layers. With how many layers in a segment are the fewest bytes kept at the worst moment?

# %%
predict("u05-best-length", None, "layers in a segment")

# %% Layers in segments [markdown] exercise="u05-segments" points=2 minutes=8 difficulty=2 importance=5
# **Write** `run_in_segments`: run `layers` one after the other on `x`, every `layers_per_segment` of them through `checkpoint(function, x)`, which is given. All segments are recomputed, the last one too; it may be shorter. All or nothing: results, gradients, two calls of each layer, kept bytes, and the peak of live bytes.
#
# *Worked case:* 5 layers, 2 in a segment: 3 segments, so 3 boundaries are kept; for 50 rows of 3 numbers in float64 **3,600** bytes.


# %% solution="u05-segments"
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

# %% check="u05-segments"
# Equal segments and a shorter last one; calls, kept bytes, peak; gradients in float64.

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
        "kept by forward, in u": round(each.kept_bytes / u),
        "most live, in u": round(max(each.working_bytes) / u),
    }
    for k, each in traces.items()
}
pd.DataFrame(table).T.rename_axis("layers per segment")

# %% tags=["nbval-check-output"]
compare(
    "u05-one-segment",
    "u",
    measured=table[16]["most live, in u"],
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
# **Explain.** The teeth of the forward pass are the insides of layers, made and freed again where nothing records. One segment around everything saves **nothing**: it keeps one boundary in forward, and makes all 144 u again before it goes back through the last layer. The peak is one u *higher* than without. The best lies between few boundaries and few layers at once.

# %% [markdown]
# ## A real model
#
# A whole training step of Llama-3.2-1B, one sequence of 4,096 tokens, in bf16 with AdamW and the loss in fp32, on fake tensors. Every block is recomputed, or none. (A few seconds.)


# %% tags=["nbval-check-output"]
def training_step(layers_per_segment):
    run = RunConfig(seq_len=4096, precision=PRECISIONS["bf16"], is_loss_fp32=True)
    with fake_tensors():
        training = Training(preset("Llama-3.2-1B"), run)
        if layers_per_segment:
            blocks = in_segments(training.model.blocks, layers_per_segment)
            training.model.blocks = blocks
        return trace_memory(training.step, *training.owners, num_steps=2)


real_steps = {"no block": training_step(0), "every block": training_step(1)}
for recomputed, each in real_steps.items():
    print(f"{recomputed} recomputed: {each.peak_bytes / 2**30:.2f} GiB at the peak")

# %%
memory_timeline(real_steps["every block"], 2)

# %% [markdown]
# **Explain.** What is left? The largest tensors at the peak that are neither weights nor states:

# %% tags=["nbval-check-output"]
recomputed_step = real_steps["every block"]
at_peak = recomputed_step.storages_at(recomputed_step.peak_at)
working = [t for t in at_peak if t.category in ("activations", "temporaries")][:3]
facts = [(t.operation, t.shape, round(t.storage_bytes / 2**30, 2)) for t in working]
pd.DataFrame(facts, columns=["made by", "shape", "GiB"])

# %% [markdown]
# They are the loss's: the log-softmax that the forward pass keeps, and two gradients. The loss belongs to no block, so that recomputing blocks cannot touch it.

# %% [markdown]
# ## How much do segments keep?
#
# Two sizes decide: u, and **A**, all that one layer keeps when it records, its input among it. When the forward pass is over, only the boundaries before segments are kept. Then the backward pass takes the segments from the end: it runs one again, now recording, goes back through it, and frees all of it.

# %% What segments keep [markdown] exercise="u05-segment-peak" points=2 minutes=12 difficulty=3 importance=4
# **Write** `segment_bytes`: what L layers keep in segments of k layers, of which the last is shorter where k does not divide L: a dictionary with `"after_forward"`, when the forward pass is over, and `"peak"`, the most at one moment of the backward pass, two `int`s in bytes. Each is half of the points.
#
# - The input of a segment counts u bytes (`boundary_bytes`) until the backward pass is through with that segment.
# - Of the segment that has run again each layer counts A bytes (`layer_bytes`).
# - A layer's input is among its A bytes, and the first layer's input is that of the segment.
# - What does not count: gradients, the result of the last layer, and what lives for a moment.
#
# *Worked case:* 7 layers in segments of 3, so of 3, 3 and 1; u is 12, A is 50: **36** and **162**.


# %% solution="u05-segment-peak"
def segment_bytes(
    num_layers: int, layers_per_segment: int, boundary_bytes: int, layer_bytes: int
) -> dict[str, int]:
    """Bytes that layers in segments keep for the backward pass.

    Args:
        num_layers: Layers L.
        layers_per_segment: Layers k of each segment but perhaps the last.
        boundary_bytes: Bytes u of one tensor between layers.
        layer_bytes: Bytes A that one layer keeps when it records, its input among them.

    Returns:
        "after_forward" and "peak".
    """
    ### BEGIN SOLUTION
    num_segments = -(-num_layers // layers_per_segment)
    inputs_before, layers_left = num_segments, num_layers
    peak = 0
    while layers_left:
        inputs_before -= 1
        running = layers_left - inputs_before * layers_per_segment
        peak = max(peak, inputs_before * boundary_bytes + running * layer_bytes)
        layers_left -= running
    return {"after_forward": num_segments * boundary_bytes, "peak": peak}
    ### END SOLUTION


# %%
try_it(segment_bytes, 7, 3, 12, 50)

# %% check="u05-segment-peak"
# Segments of one layer, of all layers, and short last ones; two real models.

# %% [markdown]
# <details><summary>My peak is wrong where k does not divide L</summary>
#
# Draw the worked case: which segment runs again first, and how many layers has it? Which inputs are still kept then? Now the same for the next segment. Which of the two moments is the worse?
# </details>
#
# <details><summary>My peak is one boundary too high</summary>
#
# List the tensors of the segment that runs again. Which of them was there before it ran?
# </details>

# %% [markdown]
# **Measure.** All 16 layers of Llama-3.2-1B at 4,096 tokens, forward and backward, on fake tensors. The trace sees *everything* that is live beside weights and their gradients, so it must lie above your formula:

# %% tags=["nbval-check-output"]
segment_of = answer("u05-segment-peak", segment_bytes)
llama, bf16 = preset("Llama-3.2-1B"), torch.bfloat16


def between_layers(seq_len=4096):
    return torch.ones(1, seq_len, llama.hidden_size, dtype=bf16, requires_grad=True)


def traced_peak(layers_per_segment):
    with fake_tensors():
        blocks = [Block(llama, n, dtype=bf16) for n in range(16)]
        layers = nn.Sequential(*in_segments(blocks, layers_per_segment))
        x, weights = between_layers(), between_layers().detach()
        trace = trace_memory(lambda: (layers(x) * weights).sum().backward(), layers, x, weights)
    return max(trace.working_bytes)


def layer_and_boundary(name, seq_len):
    """Bytes A that one layer of a model keeps, and bytes u of its input."""
    with fake_tensors():
        layer = Block(preset(name), 0, dtype=bf16)
        x = torch.ones(1, seq_len, preset(name).hidden_size, dtype=bf16, requires_grad=True)
        return count_saved_bytes(lambda: layer(x), layer).total_bytes, storage_bytes(x)


# %% tags=["nbval-check-output"]
of_layer, between = layer_and_boundary("Llama-3.2-1B", 4096)
segment_peaks = pd.DataFrame(index=pd.Index([1, 2, 4, 16], name="layers in a segment"))
ways_to_cut = segment_peaks.index
segment_peaks["computed"] = [segment_of(16, k, between, of_layer)["peak"] for k in ways_to_cut]
segment_peaks["traced"] = [traced_peak(k) for k in ways_to_cut]
segment_peaks["difference"] = segment_peaks["traced"] - segment_peaks["computed"]
(segment_peaks / 2**20).round(1).add_suffix(", MiB")

# %% tags=["nbval-check-output"]
compare(
    "u05-best-length",
    "layers in a segment",
    computed=int(segment_peaks["computed"].idxmin()),
    measured=int(segment_peaks["traced"].idxmin()),
)

# %% [markdown]
# **Explain.** The difference is the same in every row: what the backward pass of one layer makes for a moment. The rest is your formula.
#
# Which k is best? Where k divides L the peak is (L/k − 1)·u + k·A. Its slope in k, −L·u/k² + A, is zero at k = √(L·u/A), which makes **√(L·A/u) segments**. The √L of S14 is the special case A = u: layers that keep nothing but their input. Those of a transformer keep much more:

# %% tags=["nbval-check-output"]
for name, seq_len in (("Llama-3.2-1B", 4096), ("Llama-3-8B", 8192), ("Llama-3-70B", 8192)):
    of_layer, between = layer_and_boundary(name, seq_len)
    L = preset(name).num_layers
    gib = {k: segment_of(L, k, between, of_layer)["peak"] / 2**30 for k in (1, 2, round(L**0.5))}
    told = ", ".join(f"{size:.2f} for k = {k}" for k, size in gib.items())
    ratio = of_layer / between
    print(f"{name}: A is {ratio:.1f} u, estimate k = {(L / ratio) ** 0.5:.2f}; peak in GiB: {told}")

# %% [markdown]
# Checkpointing every layer, the rule of thumb, is no laziness: it is the best or next to it. Segments of √L layers keep two and a half times as much as the best in each of these models.

# %% [markdown]
# ## What the slides say, and what their code does
#
# Lecture S (S14) draws a chain of which every √L-th layer is kept: memory O(√L), one to two runs of each layer. Its code then wraps **every** layer in `torch.utils.checkpoint` (S19): that keeps L boundaries, O(L), and the inside of one layer at a time. For the chain of the tour √16 = 4:

# %% tags=["nbval-check-output"]
for k, what in ((4, "every 4th, as drawn"), (1, "every one, as coded")):
    print(f"{what}: {table[k]['kept by forward, in u']} u kept,", end=" ")
    print(f"{table[k]['most live, in u']} u at most")

# %% [markdown]
# What the code does is better here, because what a layer keeps is nine times its boundary: A is 9 u. And the "one to two runs" are exactly two: with every layer in a segment each runs twice, as the counts above say; only a last segment left alone runs once.
#
# A second slide of lecture S calls "checkpointing after a block's residual" *selective* recomputation. That is **full** recomputation everywhere else, lecture E included (E16): the residual after a block *is* the boundary. *Selective* recomputation keeps most of a layer and makes only the **core** of its attention again: all between queries, keys and values and the input of the output projection.
#
# PyTorch has a function for layers in a row. Count the calls:

# %% tags=["nbval-check-output"]
from torch.utils.checkpoint import checkpoint_sequential

chain = nn.Sequential(*layers)
for layer in layers:
    layer.num_calls = 0
four = step_of(lambda x: checkpoint_sequential(chain, 4, x, use_reentrant=False))
print([layer.num_calls for layer in layers])
print(f"{four.kept_bytes / u:.0f} u kept, {max(four.working_bytes) / u:.0f} u at most")

# %% [markdown]
# It leaves the last of its four segments alone. Backward goes through that one first, so that what it frees would be needed again at once: one run of four layers is saved, and in this chain the peak is no higher. In a model the loss stands behind the layers, and all that this segment keeps lies beside what the loss keeps.

# %% [markdown]
# ## What does it cost?
#
# The bytes are paid for in FLOPs. Lecture S says that compute is O(num_layers) with and without recomputation, which is true and hides a constant.
#
# **Predict.** By how many percent do the FLOPs of the *layers* in training grow when every layer runs again from its input?

# %%
predict("u05-full-cost", None, "%")

# %% [markdown]
# PyTorch's own checkpoint **stops early**: it counts the tensors that the backward pass needs, and stops the second run when it has made the last of them. What would come after it is never run.
#
# What exactly runs again you can work out yourself: an **extra**, for bonus points and about 12 minutes. Without it go on at **Measure**.

# %% FLOPs that run again [markdown] exercise="u05-recomputed-flops" points=3 minutes=12 difficulty=3 importance=5 extra=true
# **Write** `recomputed_flops`: the FLOPs that the backward pass of **one** layer executes again, where attention is **written out** (the field says *materialised*: every score is in memory) and nothing is dropped: a dictionary of four `int`s, each a quarter of the points.
#
# | key | what runs again |
# |---|---|
# | `"full"` | the layer, from its input |
# | `"selective"` | the core of attention: from queries, keys and values to the input of the output projection |
# | `"full_early"`, `"selective_early"` | the same without what comes after the last needed tensor: one that some gradient inside is made from |
#
# Only matrix products count, with two operations for multiply and add; attention counts as the full square. The sizes are `model.hidden_size`, `.ffn_size`, `.num_heads`, `.num_kv_heads`, `.head_dim`; a feed-forward block has three matrices if `.is_gated`, otherwise two.
#
# *Worked case:* width 4, two heads, a gated block of inner width 3, one sequence of 2 tokens: full **464** and **416** stopped early, selective **64** and **32**.


# %% solution="u05-recomputed-flops"
def recomputed_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """FLOPs that the backward pass of one layer executes again.

    Args:
        model: Sizes of the model.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.

    Returns:
        "full", "full_early", "selective" and "selective_early".
    """
    ### BEGIN SOLUTION
    tokens = num_sequences * seq_len
    h, d, kv = model.hidden_size, model.head_dim, model.num_kv_heads
    projections = 2 * tokens * h * d * (2 * model.num_heads + 2 * kv)
    scores = values = 2 * tokens * seq_len * model.num_heads * d
    one_matrix = 2 * tokens * h * model.ffn_size
    before_last = projections + scores + values + (2 if model.is_gated else 1) * one_matrix
    return {
        "full": before_last + one_matrix,
        "full_early": before_last,
        "selective": scores + values,
        "selective_early": scores,
    }
    ### END SOLUTION


# %%
tiny = ModelConfig(num_layers=1, hidden_size=4, num_heads=2, ffn_size=3, vocab_size=7)
try_it(recomputed_flops, tiny, 1, 2)

# %% check="u05-recomputed-flops"
# GPT and Llama; own and shared keys and values; the layer of Llama-3.2-1B.

# %% [markdown]
# <details><summary>I see nothing that can be left out</summary>
#
# Which tensors stand in the two gradients of `x @ weight`? Is its result among them? Now look at the last product of what runs again: who asks for its result?
# </details>
#
# <details><summary>Only models with shared keys are wrong</summary>
#
# Which of the products become smaller with fewer heads of keys and values, and which do not?
# </details>

# %% [markdown]
# **Measure.** One layer of each model under PyTorch's checkpoint, on the meta device (sizes and no numbers, unit 01), with `early_stop=False` and as it comes:


# %% tags=["nbval-check-output"]
from torch.utils.checkpoint import checkpoint as torch_checkpoint

written_out = Kernels(is_attention_fused=False)


def counted(name, seq_len, **options):
    """Forward and backward FLOPs of one layer, with options under PyTorch's checkpoint."""
    layer = Block(preset(name), 0, "meta", kernels=written_out)
    x = torch.empty(1, seq_len, preset(name).hidden_size, device="meta", requires_grad=True)
    run = partial(torch_checkpoint, layer, use_reentrant=False, **options) if options else layer
    return count_flops(lambda: run(x))


# %% tags=["nbval-check-output"]
again_of = answer("u05-recomputed-flops", recomputed_flops)
costs = {}
for name, seq_len in (("GPT-3-175B", 2048), ("Llama-3.2-1B", 4096)):
    plain_flops, mine = sum(counted(name, seq_len)), again_of(preset(name), 1, seq_len)
    for key, is_early in (("full", False), ("full_early", True)):
        more = sum(counted(name, seq_len, early_stop=is_early)) - plain_flops
        costs[name, key] = {"computed": mine[key], "counted": more, "of": plain_flops}
        costs[name, key]["counted, %"] = 100 * more / plain_flops
shown_costs = pd.DataFrame(costs).T.drop(columns="of")
shown_costs.astype({"computed": int, "counted": int}).round(1)

# %%
lengths = (512, 1024, 2048, 4096, 8192, 16384)
computed_and_measured(
    lengths,
    [again_of(llama, 1, s)["full_early"] for s in lengths],
    [
        sum(counted("Llama-3.2-1B", s, early_stop=True)) - sum(counted("Llama-3.2-1B", s))
        for s in lengths
    ],
    size_label="tokens",
    unit="FLOPs that run again",
)

# %% tags=["nbval-check-output"]
llama_full = costs["Llama-3.2-1B", "full"]
compare(
    "u05-full-cost",
    "%",
    computed=100 * llama_full["computed"] / llama_full["of"],
    measured=llama_full["counted, %"],
)

# %% [markdown]
# **Explain.** Training takes three passes' worth of FLOPs, one forward and two backward; recomputation adds a fourth, a third more. PyTorch's default leaves out the last product of each layer, the down projection, and adds less. And a model is more than its layers: its head runs only once. Count the whole Llama-3.2-1B:

# %% tags=["nbval-check-output"]
ids = torch.zeros(1, 4096, dtype=torch.long, device="meta")
whole_model = Transformer(llama, "meta", kernels=written_out)
model_flops = sum(count_flops(lambda: whole_model(ids)))
for key in ("full", "full_early"):
    cost = costs["Llama-3.2-1B", key]
    of_model = 16 * cost["counted"] / model_flops
    print(f"{key}: +{cost['counted, %']:.1f} % for the layers, +{of_model:.1%} for the model")

# %% [markdown]
# The "30–40 %" of E16 has another unit: it is *time*, measured on GPUs, where norms, kernel launches and communication count too. Measure it on your device: one training step of a small real model, without recomputation and with every block recomputed as a whole. (A few seconds; on a laptop nothing else should run.)

# %% tags=["nbval-ignore-output"]
device = "cuda" if torch.cuda.is_available() else "cpu"
small_width = {"cpu": 192, "cuda": 2048}[device]
small_model = ModelConfig(
    num_layers=4,
    hidden_size=small_width,
    num_heads=small_width // 64,
    ffn_size=4 * small_width,
    vocab_size=1024,
)
small_run = RunConfig(seq_len=small_width, precision=PRECISIONS["fp32"])


def step_cost(is_recomputed):
    """Median seconds and FLOPs of a training step."""
    training = Training(small_model, small_run, adamw="fused", device=device)
    if is_recomputed:
        training.model.blocks = in_segments(training.model.blocks)
    timing = time_call(training.step, num_warm_up=2, num_runs=6, device=device)
    return timing.median_seconds, sum(count_flops(training.loss))


(seconds_plain, flops_plain), (seconds_again, flops_again) = step_cost(False), step_cost(True)
print(f"{device}: {1000 * seconds_plain:.1f} ms without, {1000 * seconds_again:.1f} ms with")
print(f"time +{seconds_again / seconds_plain - 1:.0%}, FLOPs +{flops_again / flops_plain - 1:.0%}")

# %% [markdown]
# What was recorded on a GPU, steps of Llama-3.2-1B at 4,096 tokens:

# %% tags=["nbval-ignore-output"]
recorded("times", ["policy", "is_attention_fused", "median_seconds", "tokens_per_second"])

# %% [markdown]
# Times differ from run to run and from device to device; FLOPs do not. The optimizer's step takes time and runs once; norms take hardly a FLOP and run twice.
#
# The fourth pass is work for the hardware and no progress for the model. So there are two utilizations, each a share of the device's peak rate: **HFU**, of the hardware, counts the FLOPs that run, **MFU** only those of the model.

# %% [markdown]
# A published table (MosaicML, 1B at 65,536 tokens, full recomputation) has 61.57 % and 46.18 %. Their ratio is exactly 4/3, as by definition: it counts a whole fourth pass. What runs with an early stop is less, and an HFU that counts the whole pass all the same flatters:

# %% tags=["nbval-check-output"]
print(f"in the table: {61.57 / 46.18:.3f}")
for key in ("full", "full_early"):
    print(f"{key}, counted: {1 + costs['Llama-3.2-1B', key]['counted, %'] / 100:.3f}")

# %% [markdown]
# ## Is it 70 % for 2.7 %?
#
# E16 offers something between: *selective* recomputation, "70 % of activation memory for 2.7 % compute". Measure both numbers for the lectures' GPT layer (16 bits, dropout, attention written out) at two sizes:


# %% tags=["nbval-check-output"]
def kept_and_flops(model, seq_len, kernels, device="meta"):
    """Bytes that one layer keeps, and its FLOPs forward and backward."""
    layer = Block(model, 0, device, bf16, kernels)
    x = torch.empty(1, seq_len, model.hidden_size, dtype=bf16, device=device, requires_grad=True)
    kept = count_saved_bytes(lambda: layer(x), layer).total_bytes
    return kept, sum(count_flops(lambda: layer(x)))


# %% tags=["nbval-check-output"]
def selective_in_percent(hidden_size, num_heads, seq_len):
    model, options = gpt(hidden_size, num_heads), {"is_attention_fused": False}
    options["dropout_fraction"] = 0.1
    kept, flops = kept_and_flops(model, seq_len, Kernels(**options))
    selective = Kernels(**options, is_attention_recomputed=True)
    still_kept, more_flops = kept_and_flops(model, seq_len, selective)
    mine = again_of(model, 1, seq_len)
    return {
        "bytes saved, measured": 100 * (1 - still_kept / kept),
        "FLOPs more, counted": 100 * (more_flops / flops - 1),
        "FLOPs more, yours": 100 * mine["selective"] / (3 * mine["full"]),
        "with an early stop": 100 * mine["selective_early"] / (3 * mine["full"]),
        "as the paper counts": 100 * 3 * mine["selective"] / (3 * mine["full"]),
    }


sizes = {"GPT-3, 2,048 tokens": (12288, 96, 2048), "1B, 4,096 tokens": (2048, 32, 4096)}
pd.DataFrame({name: selective_in_percent(*each) for name, each in sizes.items()}).round(2)

# %% [markdown]
# **Explain.** Both numbers of the slide belong to one model at one length, GPT-3 at 2,048 tokens. What the core keeps is 5 a s² b of 34 sbh + 5 a s² b, a share that grows with a·s/h. And the 2.7 % charges the core three times; it runs once more, for 0.9 %. For a GPT of 1B with 32 heads at 4,096 tokens it is nine tenths of the bytes, for 8.3 % of the layers' FLOPs, or half of that with an early stop. (Llama-3.2-1B has the same core in larger layers: there it will be 7.2 %.)
#
# "Save the MLP, discard attention" says too much: queries, keys, values and the projections stay. Only what has two sides of the length goes. With **fused** attention that is already gone, because the kernel recomputes by itself (S14). What can selective recomputation still save there?

# %% tags=["nbval-check-output"]
with fake_tensors():
    kept, flops = kept_and_flops(llama, 4096, Kernels(), "cpu")
    again = Kernels(is_attention_recomputed=True)
    still_kept, more_flops = kept_and_flops(llama, 4096, again, "cpu")
print(f"{1 - still_kept / kept:.2%} of the bytes, for {more_flops / flops - 1:.1%} more FLOPs")
print(
    f"written out: {again_of(llama, 1, 4096)['selective'] / costs['Llama-3.2-1B', 'full']['of']:.1%}"
)

# %% [markdown]
# 7.0 % and not 7.2 %, as fused attention takes more FLOPs in training to begin with: its backward pass makes the scores again anyway.

# %% [markdown]
# The plots beside E16, taken from the Ultra-Scale Playbook, show none, selective and full for "8B". Count the parameters of the model that they were made for, a GPT of that width and depth:

# %% tags=["nbval-check-output"]
gpt_8b = gpt(4096, 32, num_layers=32, vocab_size=128256, num_positions=0, is_tied=True)
dropped = Kernels(is_attention_fused=False, dropout_fraction=0.1)
for name, model, kernels in (
    ("GPT of the plots, attention written out", gpt_8b, dropped),
    ("Llama-3-8B, attention written out", preset("Llama-3-8B"), written_out),
    ("Llama-3-8B, attention fused", preset("Llama-3-8B"), Kernels()),
):
    with fake_tensors():
        num_params = sum(p.numel() for p in Transformer(model).parameters())
        gib = 32 * kept_and_flops(model, 8192, kernels, "cpu")[0] / 2**30
    print(f"{name}: {num_params:,} parameters, {gib:,.0f} GiB in its layers at 8,192 tokens")

# %% [markdown]
# Not the Llama-3-8B that people train, and not its kernels. The same model with attention fused: 172 → 41 GiB, a quarter; against the plots' GPT a ninth.

# %% [markdown]
# ## Not all activations are equal
#
# B4 says so, and this is why. In 16 bits the result of a product takes 2 bytes a number and costs 2 FLOPs for each of the numbers that it sums over: to keep a byte saves as many FLOPs as the sum is long. A norm, a gate or an addition costs next to nothing, and takes as many bytes.

# %% tags=["nbval-check-output"]
h, f, s = llama.hidden_size, llama.ffn_size, 4096
kv = llama.num_kv_heads * llama.head_dim
results = [
    ("queries, keys, values, output", 2 * (2 * h + 2 * kv), h),
    ("gate, up", 2 * 2 * f, h),
    ("down (kept in vain: see below)", 2 * h, f),
    ("attention", 2 * h, 2 * s),
    ("norms, silu, gate · up, additions", 2 * (4 * h + 2 * f), 0),
]
pd.DataFrame(results, columns=["result", "bytes a token", "FLOPs a byte"]).set_index("result")

# %% [markdown]
# The table lists what is *made*. Without recomputation some of it is not kept, as no gradient asks for the result of an addition. And with a policy the layer's input is kept too, 2 h bytes a token.
#
# So keep what is dear and free what is cheap. PyTorch's checkpoint takes a **policy**: a function that it asks about every operation. This one listens and keeps nothing:

# %% tags=["nbval-check-output"]
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

heard = []


def listen(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    heard.append(str(op))
    return CheckpointPolicy.PREFER_RECOMPUTE


def ask(policy):
    """What PyTorch's checkpoint takes to ask a policy."""
    return partial(create_selective_checkpoint_contexts, policy)


with fake_tensors():
    asked = Block(llama, 0, dtype=bf16)
    torch_checkpoint(asked, between_layers(), use_reentrant=False, context_fn=ask(listen))
print(f"{len(heard)} operations in one layer, among them:")
for words in ("mm.", "attention", "silu", "mul.Tensor", "add.Tensor"):
    found = [op for op in heard if words in op]
    print(f"{len(found):3} × {found[0]}")

# %% [markdown]
# **Predict.** The layers of Llama-3.2-1B keep 5.63 GiB at 4,096 tokens. How many are left if no product runs twice?

# %%
predict("u05-free", None, "GiB")

# %% A policy of your own [markdown] exercise="u05-policy" points=2 minutes=8 difficulty=3 importance=4
# **Write** `policy`: return `CheckpointPolicy.MUST_SAVE` for matrix products and fused attention, and `CheckpointPolicy.PREFER_RECOMPUTE` for every other operation. All or nothing: no product may run twice, and nothing else be kept, in layers of GPT and Llama.
#
# | operation | what it is |
# |---|---|
# | `torch.ops.aten.mm.default` | a linear layer without bias |
# | `torch.ops.aten.addmm.default` | a linear layer with bias |
# | `torch.ops.aten.bmm.default` | many products at once, as in attention that is written out |
# | `torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default` | fused attention on a CPU; on a GPU without `_for_cpu` |
#
# `op` is such an operation; the other arguments, those of the call, may be left alone. A policy that returns nothing is taken to recompute everything, without a word.
#
# *Worked case:* `mm.default` is to be saved, `silu.default` is not.


# %% solution="u05-policy"
def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Whether the result of an operation is kept or computed again.

    Args:
        ctx: Whether this is the first run or the second; not needed here.
        op: The operation, as torch.ops.aten.mm.default.
        args: What the operation is called with.
        kwargs: The same by name.
    """
    ### BEGIN SOLUTION
    aten = torch.ops.aten
    dear = [
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
    ]
    keep, let_go = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE
    return keep if op in dear else let_go
    ### END SOLUTION


# %%
try_it(policy, None, torch.ops.aten.mm.default)
try_it(policy, None, torch.ops.aten.silu.default)

# %% check="u05-policy"
# Real layers of GPT and Llama with fused attention and with attention written out.

# %% [markdown]
# <details><summary>Nothing is kept at all</summary>
#
# Print `op`, and print what you compare it with. Is `torch.ops.aten.mm` the same as `torch.ops.aten.mm.default`?
# </details>
#
# <details><summary>It is right for Llama and wrong for GPT</summary>
#
# What has a linear layer of GPT that one of Llama has not? Which row of the table is that?
# </details>

# %% [markdown]
# **Measure.** A layer under PyTorch's checkpoint, with a policy or without. What a policy keeps lies in a cache of PyTorch's own, of which autograd knows nothing: the instrument finds it in the memory that autograd does not report.

# %% tags=["nbval-check-output"]
policy_of = answer("u05-policy", policy)


class Under(nn.Module):
    """Layers as PyTorch's checkpoint runs them: not at all, from their input, or by a policy."""

    def __init__(self, how, *layers):
        super().__init__()
        self.how, self.layers = how, nn.Sequential(*layers)

    def forward(self, x):
        if self.how == "none":
            return self.layers(x)
        options = {} if self.how == "full" else {"context_fn": ask(self.how)}
        return torch_checkpoint(self.layers, x, use_reentrant=False, **options)


# %%
def kept_and_backward(layers):
    """Bytes that live between the passes, and FLOPs of the backward pass."""
    saved = count_saved_bytes(lambda: layers(between_layers()), layers)
    backward = count_flops(lambda: layers(between_layers())).backward_flops
    return saved.total_bytes + saved.unseen_bytes, backward


def layer_under(how, num_layers=1):
    """Bytes kept and FLOPs that run again for each of some layers in one segment."""
    with fake_tensors():
        blocks = [Block(llama, n, dtype=bf16) for n in range(num_layers)]
        kept, backward = kept_and_backward(Under(how, *blocks))
        _, plain_backward = kept_and_backward(Under("none", *blocks))
    return kept // num_layers, (backward - plain_backward) // num_layers


# %% tags=["nbval-check-output"]
def as_read(measured):
    """A table of kept bytes and FLOPs that run again, in MiB and GFLOP."""
    rows = {name: (kept / 2**20, flops / 10**9) for name, (kept, flops) in measured.items()}
    return pd.DataFrame(rows, index=["kept, MiB", "again, GFLOP"]).T.round(1)


measured = {name: layer_under(how) for name, how in (("none", "none"), ("products", policy_of))}
as_read(measured)

# %% tags=["nbval-check-output"]
compare("u05-free", "GiB", measured=16 * measured["products"][0] / 2**30)

# %% [markdown]
# **Explain.** Two fifths of the bytes go for not one product: norms, rotations, gates and additions run again, which takes time and hardly a FLOP. Where attention is written out the same policy keeps all scores, and should not: a score sums over one head's 64 numbers, the cheapest bytes that any product makes. Selective recomputation begins just there.
#
# Who asks for the result of `down`? Nobody: it goes into an addition, and the second run stops before it. Your policy keeps it all the same, at 4,096 bytes a token. The check wants it so, as in a segment of several layers the next norm does ask. Where a segment is one layer, leave it out:


# %% tags=["nbval-check-output"]
def needed_products(ctx, op, *args, **kwargs):
    """All products but the one whose weight is as high as the feed-forward block is wide."""
    if op == torch.ops.aten.mm.default and args[1].shape[0] == llama.ffn_size:
        return CheckpointPolicy.PREFER_RECOMPUTE
    return policy_of(ctx, op, *args, **kwargs)


measured["needed products"] = layer_under(needed_products)
saved_in_vain = 1 - measured["needed products"][0] / measured["products"][0]
print(f"{saved_in_vain:.1%} fewer bytes, {measured['needed products'][1]} FLOPs again")

# %% [markdown]
# ## A plan under a cap
#
# Every layer may have its own policy. Two more of them, between all products and none:


# %% tags=["nbval-check-output"]
def without_gate_up(ctx, op, *args, **kwargs):
    """The needed products but the two widest, gate and up."""
    if op == torch.ops.aten.mm.default and args[1].shape[-1] == llama.ffn_size:
        return CheckpointPolicy.PREFER_RECOMPUTE
    return needed_products(ctx, op, *args, **kwargs)


def attention_alone(ctx, op, *args, **kwargs):
    if "attention" in str(op):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


WAYS = {
    "none": "none",
    "products": policy_of,
    "needed products": needed_products,
    "without gate, up": without_gate_up,
    "attention": attention_alone,
    "full": "full",
}
measured = {name: measured.get(name) or layer_under(how) for name, how in WAYS.items()}
as_read(measured)

# %% [markdown]
# As points, with segments of 2 and 4 layers beside them: these keep less when the forward pass is over, and more at the peak, as you know. Full recomputation comes cheaper here than with attention written out, because fused attention makes the scores twice anyway, and because PyTorch stops early.

# %%
with fake_tensors():
    block = Block(llama, 0, dtype=bf16)
    training_flops = sum(count_flops(lambda: block(between_layers())))
drawn = measured | {f"full, k = {k}": layer_under("full", k) for k in (2, 4)}
memory_against_flops(
    {
        name: (16 * kept, flops / training_flops)
        for name, (kept, flops) in drawn.items()
        if name != "products"
    }
)

# %% A plan under a cap [markdown] exercise="u05-plan" points=3 minutes=14 difficulty=3 importance=4
# **Write** `plan`: choose an option for each of `num_layers` equal layers, so that the bytes that all of them keep together are at most `cap_bytes`, and the FLOPs that run again are the fewest possible.
#
# - `options` is a list of dictionaries with `"name"`, `"kept_bytes"` and `"recomputed_flops"`, both for one layer.
# - Return a dictionary from names to numbers of layers; a name without layers may be left out.
# - If no plan fits, return the empty dictionary.
#
# All or nothing. Several plans may be equally good. Sixteen layers and six options have 20,349 plans, few enough to try them all; but 6¹⁶, 2.8 million millions, if you choose for each layer in turn and count every order.
#
# *Worked case:* 4 layers under a cap of 19; options none (10 bytes, 0 FLOPs), selective (6, 1) and full (1, 4): **three selective, one full**, 19 bytes and 7 FLOPs.


# %% solution="u05-plan"
def plan(num_layers: int, options: list[dict[str, Any]], cap_bytes: int) -> dict[str, int]:
    """How many layers take which option, with the fewest FLOPs under a cap of bytes.

    Args:
        num_layers: Layers to be planned.
        options: Each with "name", "kept_bytes" and "recomputed_flops".
        cap_bytes: What all layers may keep together.

    Returns:
        Numbers of layers by name; empty if nothing fits.
    """
    ### BEGIN SOLUTION

    def plans(layers, names):
        if len(names) == 1:
            yield {names[0]: layers}
            return
        for count in range(layers + 1):
            for made in plans(layers - count, names[1:]):
                yield {names[0]: count, **made}

    def total(made, field):
        return sum(made[each["name"]] * each[field] for each in options)

    every = plans(num_layers, [each["name"] for each in options])
    fitting = [made for made in every if total(made, "kept_bytes") <= cap_bytes]
    return min(fitting, key=lambda made: total(made, "recomputed_flops"), default={})
    ### END SOLUTION


# %%
three_options = [
    {"name": "none", "kept_bytes": 10, "recomputed_flops": 0},
    {"name": "selective", "kept_bytes": 6, "recomputed_flops": 1},
    {"name": "full", "kept_bytes": 1, "recomputed_flops": 4},
]
try_it(plan, 4, three_options, 19)

# %% check="u05-plan"
# Caps below every plan, met to the byte, between and above all; two options to five, up to 16 layers.

# %% [markdown]
# <details><summary>My plan fits and is not the best</summary>
#
# Work through the worked case with your own rule. Does its first layer get *none*, because that still fits? Can the best plan be reached after that? What would it take to be sure of every choice?
# </details>
#
# <details><summary>How do I go through all plans?</summary>
#
# A plan is how many layers take each option, and the numbers add up to the layers. Which module of the standard library makes all selections of some things in which the order does not count and each may come again?
# </details>

# %% [markdown]
# What does your plan choose for Llama-3.2-1B under smaller and smaller caps?

# %% tags=["nbval-check-output"]
plan_of = answer("u05-plan", plan)
options = [
    {"name": name, "kept_bytes": kept, "recomputed_flops": flops}
    for name, (kept, flops) in measured.items()
]
plans = {}
for cap_gib in (6, 3, 2, 1, 0.5, 0.25, 0.2):
    chosen = plan_of(16, options, int(cap_gib * 2**30))
    plans[cap_gib] = {name: count for name, count in chosen.items() if count}
    flops = sum(count * measured[name][1] for name, count in chosen.items())
    told = f"+{flops / (16 * training_flops):5.1%}  {plans[cap_gib]}" if chosen else "no plan fits"
    print(f"{cap_gib:4} GiB: {told}")

# %% [markdown]
# **Measure.** Run the plan for 2 GiB (S19): sixteen real layers, each as planned, forward and backward.

# %% tags=["nbval-check-output"]
chosen = plans[2]
with fake_tensors():
    ways = [WAYS[name] for name, count in chosen.items() for _ in range(count)]
    blocks = [Block(llama, n, dtype=bf16) for n in range(16)]
    planned = nn.Sequential(*(Under(how, each) for how, each in zip(ways, blocks, strict=True)))
    kept, backward = kept_and_backward(planned)
    _, plain_backward = kept_and_backward(nn.Sequential(*blocks))
planned_sums = tuple(sum(n * measured[name][i] for name, n in chosen.items()) for i in (0, 1))
ran = (kept, backward - plain_backward)
print("the same to the byte and to the FLOP:", planned_sums == ran)
as_read({"planned": planned_sums, "measured": ran})

# %% [markdown]
# **Explain.** The plan holds to the byte and to the FLOP. Where everything fits, several plans cost nothing; under a smaller cap it never needs *none* or all products, as to keep the needed ones costs no FLOP more and fewer bytes. What the cap leaves out is the layer that runs again, which for a moment has all its A bytes, and the loss.

# %% [markdown]
# ## Which one to choose?
#
# A whole training step of Llama-3.2-1B at 4,096 tokens, with AdamW and the loss in fp32: what is live at its peak, in GB as on a data sheet. AdamW is `fused`, one kernel for all; in the last row it is `foreach`, which PyTorch takes on a GPU unless told otherwise. (Ten seconds.) With `fused` the temporaries at the peak are two gradients of the logits, and the log-softmax is among the activations, 2.1 GB each and for each sequence.


# %% tags=["nbval-check-output"]
def live_at_peak(how, num_sequences, adamw="fused"):
    """GB live at the peak of the second training step, by category, and the phase of the peak."""
    run = RunConfig(micro_batch_size=num_sequences, seq_len=4096, is_loss_fp32=True)
    with fake_tensors():
        training = Training(llama, run, adamw=adamw)
        training.model.blocks = nn.ModuleList(Under(how, each) for each in training.model.blocks)
        training.step()
        second_step = trace_memory(training.step, *training.owners)
    parts = second_step.live_at(second_step.peak_at) | {"peak": second_step.peak_bytes}
    in_gb = {name.replace("_", " "): round(size / 10**9, 1) for name, size in parts.items()}
    return in_gb | {"in the": second_step.peak_phase.name}


# %% tags=["nbval-check-output"]
peaks_of_choices = {
    ("none", 1): live_at_peak("none", 1),
    ("products", 1): live_at_peak(policy_of, 1),
    ("full", 1): live_at_peak("full", 1),
    ("none", 4): live_at_peak("none", 4),
    ("full, foreach", 1): live_at_peak("full", 1, "foreach"),
}
choices = pd.DataFrame(peaks_of_choices).T.rename_axis(["recomputation", "sequences"])
choices

# %% [markdown]
# On a GPU ask for `fused=True`: PyTorch's default needs 9.9 GB more for a moment of the optimizer's step, all gradients in fp32 and a temporary for each weight (unit 04), and then no recomputation helps.

# %% 24 GB or 80 GB? [markdown] exercise="u05-choose" points=2 minutes=5 difficulty=3 importance=5
# **Write** three to five sentences: which recomputation would you choose to train a model of 1B at 4,096 tokens on a device of 24 GB, and which on one of 80 GB? Give at least three numbers from this notebook, and say what else than the layers decides. Of 24 GB a program gets less: the driver's context and what the allocator cannot use take half a GB to two.
#
# Double-click the cell below to write.

# %% [markdown] text_answer="u05-choose"
# <!-- BEGIN SOLUTION -->
# On 24 GB only full recomputation comes near: without it one sequence needs 29.7 GB at the peak, with all products kept still 27.3 GB, with full recomputation 23.9 GB. Its layers then keep 0.27 GB, and the rest is not theirs: weights and optimizer states take 17.3 GB and the loss 6.3 GB, log-softmax and two gradients of 2.1 GB each. AdamW has to be fused: PyTorch's default for a GPU needs 9.9 GB more in its step, 29.7 GB, and then no recomputation helps. The driver's context wants half a GB or more, so 23.9 GB will hardly fit: shorter sequences, a loss in pieces (the first extra) or smaller optimizer states have to come next. On 80 GB four sequences fit without any, in 66.8 GB, and FLOPs that run again would buy nothing. For more sequences keep the products: 2.4 GB less for each and not one product again, where full recomputation takes a quarter more FLOPs in the layers, about a fifth more in the model.
#
# *Rubric:* half a point for full recomputation on 24 GB and none, or all products kept, on 80 GB; one for three numbers that fit the choice; half for state, loss or the optimizer's step (fused), which no recomputation of layers makes smaller.
# <!-- END SOLUTION -->

# %% [markdown]
# ## All of it at once
#
# Move the sliders: when is recomputation of the core enough, and when does it save nothing? The percentages are of the layers' FLOPs, without early stop and with the scores counted once: so *full* is +33.3 % with fused attention too, where the plan counted less.

# %%
explorer(
    recomputation_over_length,
    model=([name for name in MODELS if "Llama" in name or "GPT" in name], "Llama-3.2-1B"),
    attention=(["fused", "written out", "written out, dropout"], "written out"),
    recomputation=(["none", "selective", "full"], "selective"),
)

# %% [markdown]
# The same picture standing still:

# %%
recomputation_over_length("Llama-3.2-1B", attention="written out", recomputation="selective")

# %% [markdown]
# ## Going further
#
# All that follows is **extra** too: bonus points, in any order, about 30 minutes. The recap is at the end.

# %% [markdown]
# ## A loss in pieces
#
# The logits of Llama-3.2-1B take 4 · s · b · v bytes in fp32, for one sequence of 4,096 tokens that many, and at the peak three such tensors are live:

# %% tags=["nbval-check-output"]
print(f"{4 * 4096 * 1 * 128256 / 2**30:.2f} GiB")

# %% [markdown]
# The loss is a mean over tokens, and each token has logits of its own. So the tokens can go through the head and the loss in pieces, and with recomputation no piece has to keep its log-softmax.

# %% A loss in pieces [markdown] exercise="u05-loss-in-pieces" points=2 minutes=12 difficulty=3 importance=3 extra=true
# **Write** `loss_in_pieces`: the mean cross-entropy of all tokens, with logits `hidden @ weight.T`, in `num_pieces` pieces of about one length, each through `checkpoint(function, *tensors)`, which is given. `hidden` is (tokens, h), `weight` (v, h), `targets` (tokens,); the last piece may be shorter. All or nothing: the loss, the gradients of `hidden` and `weight`, nothing kept beside the inputs, and never more at once than the logits of one piece need.
#
# *Worked case:* 11 tokens in 3 pieces of 4, 4 and 3.


# %% solution="u05-loss-in-pieces"
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

# %% check="u05-loss-in-pieces"
# Equal and unequal pieces; loss and gradients in float64; bytes kept and at the peak.

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
    traced = head_trace(loss)
    return round((traced.peak_bytes - traced.total_bytes[0]) / 2**30, 2)


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
pieces_trace = head_trace(loss_in(16))
largest = pieces_trace.storages_at(pieces_trace.peak_at)[:5]
made = [{"made by": t.operation or "given", "shape": t.shape} for t in largest]
pd.DataFrame(made).assign(GiB=[round(t.storage_bytes / 2**30, 2) for t in largest])

# %% [markdown]
# The weight's gradient, as large as the weight: each piece makes one of its own, which autograd adds to the sum so far. Kernels that fuse head and loss add into one tensor, and they need no second run: they make a piece's gradient in the forward pass, while its logits are there.

# %% [markdown]
# ## The best length of a segment

# %% The best length of a segment [markdown] exercise="u05-best-segment" points=1 minutes=7 difficulty=2 importance=3 extra=true
# **Write** `best_layers_per_segment`: the k for which the peak of `segment_bytes` is lowest, an `int`; among several the smallest. Write the peak again for it, in a line or two. The estimate √(L·u/A) is not enough: segments are whole layers.
#
# *Worked case:* 16 layers that keep nothing but their input, u = A = 12: **3** (as good as 4, 5 and 6).


# %% solution="u05-best-segment"
def best_layers_per_segment(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """Layers of a segment for which the fewest bytes are kept at once.

    Args:
        num_layers: Layers L.
        boundary_bytes: Bytes u of one tensor between layers.
        layer_bytes: Bytes A that one layer keeps when it records, its input among them.
    """
    ### BEGIN SOLUTION

    def most_kept(size):
        whole_segments = num_layers // size
        return (whole_segments - 1) * boundary_bytes + size * layer_bytes

    return min(range(1, num_layers + 1), key=most_kept)
    ### END SOLUTION


# %%
try_it(best_layers_per_segment, 16, 12, 12)

# %% check="u05-best-segment"
# Layers that keep little and much beside their input; equal peaks; one layer; two real models.

# %% [markdown]
# <details><summary>I am one or two layers off</summary>
#
# What is the peak for the lengths beside your own? Which segment is the worst where k does not divide L?
# </details>

# %% [markdown]
# ## What selective recomputation leaves

# %% What each kind keeps [markdown] exercise="u05-selective-bytes" points=1.5 minutes=7 difficulty=2 importance=3 extra=true
# **Write** `kept_bytes`: what one GPT layer of the lectures keeps (16 bits, dropout, attention written out, inner width 4 h) without recomputation, with the core of attention computed again, and with the whole layer computed again: a dictionary with `"none"`, `"selective"` and `"full"`, three `int`s in bytes, each a third of the points. Both LayerNorms keep two numbers of 4 bytes for each token.
#
# The core begins with queries, keys and values, ends with the input of the output projection, and has a dropout of the scores inside.
#
# *Worked case:* one sequence of 3 tokens, width 8, two heads: **954**, **864** and **48**.


# %% solution="u05-selective-bytes"
def kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that one GPT layer keeps under three kinds of recomputation.

    Args:
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        hidden_size: Width h.
        num_heads: Heads a.

    Returns:
        "none", "selective" and "full".
    """
    ### BEGIN SOLUTION
    tokens = num_sequences * seq_len
    stream, scores = tokens * hidden_size, num_heads * tokens * seq_len
    beside_core = 34 * stream + 2 * 2 * 4 * tokens
    return {"none": beside_core + 5 * scores, "selective": beside_core, "full": 2 * stream}
    ### END SOLUTION


# %%
try_it(kept_bytes, 1, 3, 8, 2)

# %% check="u05-selective-bytes"
# A real layer: one head and many; one sequence and several; GPT-3 and 1B.

# %% [markdown]
# <details><summary>My selective keeps too little</summary>
#
# From what is the core computed again, and who reads its result?
# </details>

# %% [markdown]
# ## Recap
#
# 1. *Build*: run forward without recording, keep the inputs; in backward run again with recording, under the same random numbers and the same autocast.
# 2. *Compute what is kept*: one input for each segment, and at the peak all that one segment keeps beside the inputs before it; for a transformer one layer a segment is the best or next to it.
# 3. *Compute what it costs*: one more forward pass, a third more FLOPs for the layers, less for a whole model; less where the second run stops early, and much less where only the core of attention runs again.
# 4. *Choose*: products are dear, everything else is free; a policy says what is kept, and a plan which layer has which policy.
#
# | quantity | value |
# |---|---|
# | kept after the forward pass, segments of k layers | ⌈L/k⌉ · u |
# | peak in the backward pass | (⌊L/k⌋ − 1) · u + k · A |
# | segments with the lowest peak, roughly | √(L · A/u); √L only where A = u |
# | FLOPs again, full | one forward pass of the layers: +33 % of theirs; for Llama-3.2-1B at 4,096 tokens +27 % with its head, +22 % with an early stop |
# | less with an early stop | 2bsfh for each segment |
# | FLOPs again, selective | 4bas²d for each layer; 2bas²d with an early stop |
# | bytes saved by selective, GPT layer | 5as²b of 34sbh + 5as²b |
# | result of a product, 16 bits | as many FLOPs a byte as the sum is long |
# | HFU / MFU with full recomputation | 4/3 by definition; less runs with an early stop |
#
# ## Further reading
#
# - Chen et al. 2016, *Training Deep Nets with Sublinear Memory Cost*, sections 3 and 4 (20 minutes): where √n comes from, and segments within segments.
# - Korthikanti et al. 2022, *Reducing Activation Recomputation in Large Transformer Models*, sections 5 and 6 (20 minutes): selective recomputation, and what it brought on real clusters.
# - PyTorch documentation, `torch.utils.checkpoint` (10 minutes): early stop, random numbers, policies.
