# ---
# jupyter:
#   course:
#     title: Keep it, or compute it again?
#     device: CPU
#     needs: ["01", "03", "04"]
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

# %% [markdown] opening=true
# ![Bars for the layers of Llama-3-8B. Keep everything: 44 GB. Keep layer inputs: 2 GB, and run the forward pass again.](hero.svg)
#
# For one long sequence, the layers of Llama-3-8B keep 44 GB of activations. They can make do with 2 if they compute the rest a second time. You will write the function that does this, and measure what it saves and costs.
#
# Your training plan counts the 44 GB, but not what could be dropped.
#
# 1. **Build** activation recomputation as an autograd function, and a loss in pieces with it.
# 2. **Compute** what segments of layers keep.
# 3. **Measure** what recomputation costs in FLOPs and in seconds, and **explain** the gap.
# 4. **Choose** what to keep so that a training step fits on a device.
#
# | here | lecture E | lecture S | lecture B | meaning |
# |---|---|---|---|---|
# | $b$, $s$ | bs, seq | bs, L | b, S | sequences, tokens in each |
# | $a$, $h$ | n_heads, h | H, D | heads, dim | heads, width |
# | $L$ | L | num_layers | L | layers |
# | $v$ | v | | vocab | size of the vocabulary |
# | $k$ | | | | layers in a segment |
# | $u$ | | | | bytes of a boundary, the tensor between two layers |
# | $A$ | | | | bytes that one layer keeps, including its input |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import MODELS, Kernels, ModelConfig, RunConfig, gpt, preset
from course_utils.instruments import (
    count_flops,
    count_saved_bytes,
    fake_tensors,
    storage_bytes,
    time_call,
    trace_memory,
)
from course_utils.reference import Block, Training, Transformer
from course_utils.reference.recomputation import in_segments, save_products
from course_utils.reference.recomputation import run_in_segments as segments_of_course
from course_utils.show import (
    Choice,
    births_and_deaths,
    explorer,
    layer_diagram,
    live_tensors,
    memory_against_flops,
    recomputation_over_length,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## How long does an activation live?
#
# Sixteen small layers in a row, each from 32 numbers per token to 128 and back. Each counts how often it runs.


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

# %% [markdown]
# A tensor between two layers is a **boundary**. It takes $u$ bytes. What does one layer keep, in $u$?

# %% tags=["nbval-check-output"]
u = storage_bytes(x)
kept_by_one = count_saved_bytes(lambda: layers[0](x), layers[0])
pd.DataFrame([{"kept by": t.operation, "in u": t.storage_bytes // u} for t in kept_by_one.tensors])

# %% [markdown]
# Its input, and two tensors inside that are four times as wide: $A = 9u$. Now a training step through all sixteen. Each bar is a tensor, from the operation that makes it to the one that frees it.


# %% folded=true
# Figure: the life of every activation in one step
def run_plain(x):
    for layer in layers:
        x = layer(x)
    return x


def step_of(forward):
    return trace_memory(lambda: forward(x.clone()).sum().backward(), layers)


plain_trace = step_of(run_plain)
print(f"kept by the forward pass: {plain_trace.kept_bytes / u:.0f} u", end=", ")
print(f"peak of the backward pass: {max(plain_trace.working_bytes) / u:.0f} u")
births_and_deaths(plain_trace)

# %% [markdown]
# The first activation lives longest: made first, needed last. (The $4u$ on top of $144u$ are a gradient on its way back.) But a layer's input, $1u$, is enough to compute its other $8u$ again.
#
# **Activation recomputation** (or *checkpointing*) keeps only the input of a layer, and runs the layer again in the backward pass. It trades compute for memory (B4). Done to every layer, it is **full** (E16). (A **checkpoint** here is one such call, not a file.)
#
# **Guess first.** Each of the sixteen layers now keeps nothing but its input. What is the new peak in $u$, instead of 148?

# %%
predict("u05-boundaries", None, "u")

# %% [markdown]
# ## A checkpoint in four steps
#
# ![Forward keeps only x. Backward runs the function again from x, recording, and goes back through it.](checkpoint.svg)
#
# **Step 1: run forward without recording.** Nothing is kept, and no graph is recorded.

# %% tags=["nbval-check-output"]
layer = layers[0]
with torch.no_grad():
    y = layer(x)
print("requires grad:", y.requires_grad)

# %% [markdown]
# **Step 2: keep the input, and say how to go back.** An **autograd function** does both. PyTorch runs its `forward` without recording, as in step 1. Its `backward` gets the gradient of the result, and returns one gradient **for each argument of** `forward`, or `None`. PyTorch calls it only if an argument of `apply` requires a gradient.


# %% tags=["nbval-check-output"]
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, exponent):
        ctx.exponent = exponent  # not a tensor: an attribute is fine
        ctx.save_for_backward(x)  # a tensor: autograd has to know
        return x**exponent

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.exponent * x ** (ctx.exponent - 1), None


two = torch.tensor([2.0], requires_grad=True)
Power.apply(two, 3).backward()
print(two.grad)

# %% [markdown]
# **Step 3: run again, this time recording.** Inside `backward`, recording is off too: switch it on. And start from a *detached* $x$: otherwise backward would not stop there.

# %% tags=["nbval-check-output"]
fresh = x.detach().requires_grad_()
with torch.enable_grad():
    again = layer(fresh)
print("requires grad:", again.requires_grad)

# %% [markdown]
# **Step 4: pass the gradients on.** `torch.autograd.backward(y, grad)` starts from the gradient of $y$ and fills in `.grad` of *every* leaf that $y$ was made from: the input, and the parameters inside.

# %% tags=["nbval-check-output"]
grad = torch.ones_like(again)  # in a network it comes from the next layer
torch.autograd.backward(again, grad)
print("of the input:", tuple(fresh.grad.shape), "of a weight:", tuple(layer.up.weight.grad.shape))

# %% Your own checkpoint [markdown] exercise="u05-checkpoint" points=4 minutes=28 difficulty=5 importance=5
# **Write** `checkpoint`: it returns `function(*tensors)`, one tensor. Its autograd function keeps only the inputs, and runs `function` again in backward. A class inside `checkpoint` sees `function`. (Not allowed: `torch.utils.checkpoint`, `saved_tensors_hooks`.)
#
# Four scenarios, each a quarter of the points; begin with the first. In each, results, gradients, numbers of calls and kept bytes must all be right.
#
# | scenario | what counts | useful |
# |---|---|---|
# | `gradients` | Inputs **and** parameters get their gradients. The function runs once in forward, once in backward. `save_for_backward` keeps the inputs, no copies. Neither run's result stays alive. | steps 1 to 4 |
# | `random` | The second run draws the random numbers of the first (dropout), and leaves the generator as it found it. You may store states anywhere. | `torch.get_rng_state()`, `torch.set_rng_state(state)` |
# | `frozen_inputs` | An input that requires no gradient (data, a mask of booleans) requires none in the second run. Parameters get theirs even if *no* input requires one. | step 2, `ctx.needs_input_grad`: true or false for each argument of `forward` |
# | `autocast` | The second run uses the first's autocast (mixed precision): on or off, and its dtype. | `torch.is_autocast_enabled("cpu")`, `torch.get_autocast_dtype("cpu")`, `with torch.autocast("cpu", dtype=…, enabled=…):` |
#
# *By hand:* one layer and its input of 2 · 3 numbers in float64 → **48** bytes kept, **1** call in forward, **1** in backward.


# %% solution="u05-checkpoint"
def checkpoint(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """function(*tensors), keeping only the inputs for backward."""
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
# <details><summary>Hint: "element 0 of tensors does not require grad"</summary>
#
# Where in your class is recording off? Which of the tensors that go into the second run require a gradient?
# </details>
#
# <details><summary>Hint: "Trying to backward through the graph a second time"</summary>
#
# The saved inputs have a history, which belongs to the rest of the network. What gives you the same values without it?
# </details>
#
# <details><summary>Hint: my inputs get gradients, my parameters do not</summary>
#
# Do you ask for the gradients of chosen tensors, or do you go back to all leaves?
# </details>
#
# <details><summary>Hint: with dropout my gradients are wrong</summary>
#
# Where must the generator stand when the second run begins? And where when your backward returns, so that nobody notices?
# </details>
#
# <details><summary>Hint: where no input requires a gradient, backward never runs</summary>
#
# What if you give `apply` one more tensor, an empty one that requires a gradient? What does backward return for it?
# </details>

# %% [markdown]
# **Check your guess:** the same sixteen layers, each through your checkpoint. In the figure, the second color marks the backward pass's temporaries. (10 to 20 seconds.)

# %% folded=true tags=["nbval-check-output"]
# Measured: what is kept, how often each layer runs, and the gradients
checkpoint_of = answer("u05-checkpoint", checkpoint)


def each_layer_again(x):
    for layer in layers:
        x = checkpoint_of(layer, x)
    return x


def gradients(forward):
    for parameter in layers.parameters():
        parameter.grad = None
    forward(x).sum().backward()
    return [parameter.grad for parameter in layers.parameters()]


again_trace = step_of(each_layer_again)
plain_gradients = gradients(run_plain)
for layer in layers:
    layer.num_calls = 0
pairs = zip(plain_gradients, gradients(each_layer_again), strict=True)
print("gradients equal to the last bit:", all(torch.equal(one, other) for one, other in pairs))
print("runs of each layer:", {layer.num_calls for layer in layers})
print(f"kept by the forward pass: {again_trace.kept_bytes / u:.0f} u")
compare("u05-boundaries", "u", measured=round(max(again_trace.working_bytes) / u))

# %% folded=true
# Figure: the life of every tensor with recomputation
births_and_deaths(again_trace, has_temporaries=True)

# %% [markdown]
# The peak is $29u$ instead of 148: 16 boundaries, 8 inside the layer that runs again, its result (1), and a gradient (4).
#
# PyTorch's own, `torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)`, also **stops early**: the second run ends at the last tensor that backward needs.

# %% [markdown]
# ## Segments
#
# A **segment** of $k$ layers in one checkpoint keeps one boundary for all of them. Lecture S keeps every √L-th layer (S14). (You can write segments in the extras.)
#
# **Guess first.** One segment around all sixteen layers keeps a single boundary. What is the peak of its backward pass, in $u$?

# %%
predict("u05-one-segment", None, "u")


# %% folded=true tags=["nbval-check-output"]
# Measured: kept and live tensors, by the length of a segment (15 to 30 seconds)
def trace_of(layers_per_segment):
    return step_of(lambda x: segments_of_course(layers, x, layers_per_segment, checkpoint_of))


traces = {k: trace_of(k) for k in (1, 2, 4, 8, 16)}
kept_and_live = {
    k: {
        "kept by forward, in u": round(each.kept_bytes / u),
        "peak, in u": round(max(each.working_bytes) / u),
    }
    for k, each in traces.items()
}
display(pd.DataFrame(kept_and_live).T.rename_axis("layers in a segment"))
compare("u05-one-segment", "u", measured=kept_and_live[16]["peak, in u"])

# %% folded=true
# Figure: live tensors over one step, for four lengths
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
# One segment around everything saves **nothing**: it recomputes all $144u$, plus its result, $1u$, before the last layer's backward. Short segments keep more boundaries, long ones more layers at once.

# %% [markdown]
# ## How long should a segment be?
#
# Two sizes decide: $u$, and $A$, all that one layer keeps. The backward pass takes the segments from the end. It runs one again, goes back through it, and frees it.
#
# **Guess first.** Llama-3.2-1B has $L = 16$ layers. How many layers in a segment give the lowest peak?

# %%
predict("u05-best-length", None, "layers in a segment")

# %% What segments keep [markdown] exercise="u05-segment-peak" points=2 minutes=12 difficulty=3 importance=4
# **Write** `segment_bytes`: what `num_layers` layers keep in segments of `layers_per_segment`. The last segment may be shorter; if `layers_per_segment` exceeds `num_layers`, it is the only one. Each key is worth half of the points.
#
# | key | bytes |
# |---|---|
# | `"after_forward"` | kept when the forward pass is over |
# | `"peak"` | the most kept at any moment of the backward pass |
#
# - Segments run again from the last to the first; each is freed before the next one runs.
# - Before it runs again, a segment counts only its input, $u$ bytes (`boundary_bytes`).
# - Once run again, each of its layers counts $A$ bytes (`layer_bytes`), input included.
# - Gradients, the last layer's result, and temporaries do not count.
#
# *By hand:* 7 layers in segments of 3, 3 and 1, $u = 12$, $A = 50$ → **36** after forward, **162** at the peak.


# %% solution="u05-segment-peak"
def segment_bytes(
    num_layers: int, layers_per_segment: int, boundary_bytes: int, layer_bytes: int
) -> dict[str, int]:
    """Bytes that layers in segments keep: "after_forward" and "peak"."""
    ### BEGIN SOLUTION
    starts = range(0, num_layers, layers_per_segment)
    at_once = []
    for num_inputs_before, start in enumerate(starts):
        running = min(layers_per_segment, num_layers - start)
        at_once.append(num_inputs_before * boundary_bytes + running * layer_bytes)
    return {"after_forward": len(starts) * boundary_bytes, "peak": max(at_once)}
    ### END SOLUTION


# %%
try_it(segment_bytes, 7, 3, 12, 50)

# %% check="u05-segment-peak"
# Segments of one layer, of all layers, and short last ones; two real models.

# %% [markdown]
# <details><summary>Hint: my peak is wrong where k does not divide L</summary>
#
# In the case by hand, which segment runs again first? Which inputs are still kept then? And when the next one runs?
# </details>
#
# <details><summary>Hint: my peak is one boundary too high</summary>
#
# Which tensor of the segment that runs again was there before it ran?
# </details>

# %% [markdown]
# **Compare with** all 16 layers of Llama-3.2-1B at 4,096 tokens, on fake tensors (10 to 20 seconds).

# %% folded=true tags=["nbval-check-output"]
# Measured: the peak of Llama-3.2-1B, by the length of a segment
segment_of = answer("u05-segment-peak", segment_bytes)
llama, bf16 = preset("Llama-3.2-1B"), torch.bfloat16


def new_input(model=llama, seq_len=4096):
    return torch.ones(1, seq_len, model.hidden_size, dtype=bf16, requires_grad=True)


def traced_peak(layers_per_segment):
    with fake_tensors():
        blocks = [Block(llama, n, dtype=bf16) for n in range(16)]
        layers = nn.Sequential(*in_segments(blocks, layers_per_segment))
        x, weights = new_input(), new_input().detach()
        trace = trace_memory(lambda: (layers(x) * weights).sum().backward(), layers, x, weights)
    return max(trace.working_bytes)


def layer_and_boundary(name, seq_len):
    """Bytes A that one layer of a model keeps, and bytes u of its input."""
    with fake_tensors():
        layer, x = Block(preset(name), 0, dtype=bf16), new_input(preset(name), seq_len)
        return count_saved_bytes(lambda: layer(x), layer).total_bytes, storage_bytes(x)


layer_bytes, boundary_bytes = layer_and_boundary("Llama-3.2-1B", 4096)
segment_peaks = pd.DataFrame(index=pd.Index([1, 2, 4, 16], name="layers in a segment"))
ways_to_cut = segment_peaks.index
segment_peaks["computed"] = [
    segment_of(16, k, boundary_bytes, layer_bytes)["peak"] for k in ways_to_cut
]
segment_peaks["traced"] = [traced_peak(k) for k in ways_to_cut]
segment_peaks["difference"] = segment_peaks["traced"] - segment_peaks["computed"]
display((segment_peaks / 2**20).round(1).add_suffix(", MiB"))
compare(
    "u05-best-length",
    "layers in a segment",
    computed=int(segment_peaks["computed"].idxmin()),
    measured=int(segment_peaks["traced"].idxmin()),
)

# %% [markdown]
# The difference is the same in every row: the temporaries of one layer's backward pass. Where $k$ divides $L$, the derivative of your peak with respect to $k$ is zero at
#
# $$k = \sqrt{\frac{L\,u}{A}}$$
#
# The √L of lecture S is the case $A = u$. The layers of a transformer keep much more.

# %% folded=true tags=["nbval-check-output"]
# Table: the best length for three models
rows = {}
for name, seq_len in (("Llama-3.2-1B", 4096), ("Llama-3-8B", 8192), ("Llama-3-70B", 8192)):
    layer_bytes, boundary_bytes = layer_and_boundary(name, seq_len)
    L = preset(name).num_layers
    ratio = layer_bytes / boundary_bytes
    peaks = [segment_of(L, k, boundary_bytes, layer_bytes)["peak"] for k in (1, 2, round(L**0.5))]
    rows[name] = [ratio, (L / ratio) ** 0.5, *(peak / 2**30 for peak in peaks)]
columns = ["A / u", "best k, estimated", "peak, GiB: k = 1", "k = 2", "k = √L"]
pd.DataFrame(rows, index=columns).T.round(2)

# %% [markdown]
# So checkpoint every layer, as the code of lecture S does (S19): it is the best choice or close to it.

# %% [markdown]
# ## What does it cost?
#
# A layer costs three passes' FLOPs: one forward, two backward. Recomputation adds a fourth.
#
# **Guess first.** By how many percent do the FLOPs of the *whole* Llama-3.2-1B grow, with PyTorch's checkpoint around every layer?

# %%
predict("u05-full-cost", None, "percent")

# %% folded=true tags=["nbval-check-output"]
# Measured: one layer under PyTorch's checkpoint, and the whole Llama-3.2-1B
scores_in_memory = Kernels(is_attention_fused=False)


def flops_of_layer(name, seq_len, **options):
    """Forward and backward FLOPs of one layer, with options under PyTorch's checkpoint."""
    layer = Block(preset(name), 0, "meta", kernels=scores_in_memory)
    x = torch.empty(1, seq_len, preset(name).hidden_size, device="meta", requires_grad=True)
    run = partial(torch_checkpoint, layer, use_reentrant=False, **options) if options else layer
    return sum(count_flops(lambda: run(x)))


ids = torch.zeros(1, 4096, dtype=torch.long, device="meta")
whole_model = Transformer(llama, "meta", kernels=scores_in_memory)
model_flops = sum(count_flops(lambda: whole_model(ids)))
layer_flops = flops_of_layer("Llama-3.2-1B", 4096)
more_flops = {
    name: flops_of_layer("Llama-3.2-1B", 4096, early_stop=is_early) - layer_flops
    for name, is_early in (("the whole layer", False), ("with an early stop", True))
}
for name, more in more_flops.items():
    of_layers, of_model = more / layer_flops, 16 * more / model_flops
    print(f"{name:18}: +{of_layers:.1%} for the layers, +{of_model:.1%} for the model")
compare(
    "u05-full-cost",
    "percent",
    measured=round(100 * 16 * more_flops["with an early stop"] / model_flops, 1),
)

# %% [markdown]
# An early stop skips the last product of each layer, whose result no gradient needs. And the head runs only once.
#
# *Hardware* FLOPs utilization (**HFU**) counts the fourth pass, *model* FLOPs utilization (**MFU**) does not. MosaicML prints 61.57 % and 46.18 % for one run: 4 to 3.

# %% [markdown]
# ## Selective recomputation
#
# Between nothing and everything: keep most of a layer, and compute only the **core** of attention again, from queries, keys and values to the input of the output projection. Lecture E promises "70 % of activation memory for 2.7 % compute" (E16). The GPT layer of the lectures (16 bits, dropout, scores in memory), at three sizes:


# %% folded=true tags=["nbval-check-output"]
# Measured: bytes saved and FLOPs added by selective recomputation
def kept_and_flops(model, seq_len, **kernels):
    """Bytes that one layer keeps, and its FLOPs forward and backward."""
    layer = Block(model, 0, "meta", bf16, Kernels(is_attention_fused=False, **kernels))
    x = torch.empty(1, seq_len, model.hidden_size, dtype=bf16, device="meta", requires_grad=True)
    kept = count_saved_bytes(lambda: layer(x), layer).total_bytes
    return kept, sum(count_flops(lambda: layer(x)))


def selective_in_percent(hidden_size, num_heads, seq_len):
    model = gpt(hidden_size, num_heads)
    kept, flops = kept_and_flops(model, seq_len, dropout_fraction=0.1)
    still_kept, more = kept_and_flops(
        model, seq_len, dropout_fraction=0.1, is_attention_recomputed=True
    )
    return {"bytes saved, %": 100 * (1 - still_kept / kept), "FLOPs, %": 100 * (more / flops - 1)}


gpt_sizes = {
    "GPT-3 175B, 2,048 tokens": (12288, 96, 2048),
    "GPT 22B, 2,048 tokens": (6144, 64, 2048),
    "GPT 1B, 4,096 tokens": (2048, 32, 4096),
}
selective = {name: selective_in_percent(*sizes) for name, sizes in gpt_sizes.items()}
pd.DataFrame(selective).T.round(1)

# %% [markdown]
# The 70 % holds for GPT-3 at 2,048 tokens, but there the second run of the core costs 0.9 %. The core keeps $5\,as^2b$ of $34\,sbh + 5\,as^2b$ bytes, a share that grows with $as/h$. (*Written out* means scores in memory.)

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    recomputation_over_length,
    model=Choice(
        "model", [name for name in MODELS if "Llama" in name or "GPT" in name], "Llama-3.2-1B"
    ),
    attention=Choice("attention", ["fused", "written out", "written out, dropout"], "written out"),
    recomputation=Choice("recomputation", ["none", "selective", "full"], "selective"),
)

# %% [markdown]
# With **fused** attention nothing is left to select: the kernel keeps no scores and computes them again by itself (S14, unit 06).

# %% [markdown]
# ### Published timings
#
# NVIDIA timed one layer of that 22B model, split over eight A100s: 19.6 ms forward and backward. **Guess first.** Selective recomputation adds 1.8 % FLOPs. By how many percent did the time grow?

# %%
predict("u05-published", None, "percent more")

# %% folded=true tags=["nbval-check-output"]
# Table: counted FLOPs against published milliseconds (Korthikanti et al. 2022, table 4)
published = {"none": (7.7, 11.9), "selective": (7.7, 13.2), "full": (7.7, 19.5)}  # both passes
counted_22b = {"none": 0.0, "selective": selective["GPT 22B, 2,048 tokens"]["FLOPs, %"]}
counted_22b["full"] = 100 / 3
rows = {
    name: {
        "forward, ms": forward,
        "backward, ms": backward,
        "time, %": 100 * ((forward + backward) / sum(published["none"]) - 1),
        "FLOPs, %": counted_22b[name],
    }
    for name, (forward, backward) in published.items()
}
display(pd.DataFrame(rows).T.round(1))
compare(
    "u05-published",
    "percent more",
    computed=round(counted_22b["selective"], 1),
    measured=round(rows["selective"]["time, %"], 1),
)

# %% [markdown]
# Full recomputation took 39 % and not 33: the backward pass hides communication behind products, so a forward pass is more than a third of a step. Selective recomputation cost almost four times what its FLOPs predict. Which operations of the core have no counted FLOPs, and what keeps the device busy while they run? (05.4 asks.)

# %% [markdown]
# ## Not all activations are equal
#
# A layer of Llama-3.2-1B, with the FLOPs that each operation takes:

# %% folded=true
# Diagram: the FLOPs of one layer at 4,096 tokens
layer_diagram(llama, seq_len=4096, show="flops")

# %% [markdown]
# In 16 bits, the result of a matrix product takes 2 bytes a number, and 2 FLOPs for each term of its sum. So a kept byte saves $n$ FLOPs for a sum of $n$ terms: thousands. A norm, a gate or an addition takes as many bytes and costs next to nothing. **Keep what is expensive, free what is cheap** (B4).
#
# PyTorch's checkpoint takes a **policy**: a function that says for each operation whether its result is kept or computed again. The course's policy keeps the results of matrix products and of fused attention, and nothing else. (An extra asks for it.)
#
# **Guess first.** The layers of Llama-3.2-1B keep 5.63 GiB at 4,096 tokens. How many GiB are left if no product may run twice?

# %%
predict("u05-free", None, "GiB")

# %% [markdown]
# **Check your guess.**


# %% folded=true tags=["nbval-check-output"]
# Measured: bytes kept and recomputed FLOPs, per layer
import warnings


class Under(nn.Module):
    """Layers, plain, or fully or selectively checkpointed by PyTorch."""

    def __init__(self, how, *layers):
        super().__init__()
        self.how, self.layers = how, nn.Sequential(*layers)

    def forward(self, x):
        if self.how == "none":
            return self.layers(x)
        contexts = partial(create_selective_checkpoint_contexts, self.how)
        options = {} if self.how == "full" else {"context_fn": contexts}
        return torch_checkpoint(self.layers, x, use_reentrant=False, **options)


def kept_and_backward(layers):
    """Bytes that live between the passes, and FLOPs of the backward pass."""
    # PyTorch 2.14 warns that a later release will show autograd's hooks what a policy keeps. It is
    # counted as unseen until then, and the sum is the same.
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        saved = count_saved_bytes(lambda: layers(new_input()), layers)
    backward = count_flops(lambda: layers(new_input())).backward_flops
    return saved.total_bytes + saved.unseen_bytes, backward


def layer_under(how, num_layers=1):
    """Bytes kept and recomputed FLOPs, for each of some layers in one segment."""
    with fake_tensors():
        blocks = [Block(llama, n, dtype=bf16) for n in range(num_layers)]
        kept, backward = kept_and_backward(Under(how, *blocks))
        _, plain_backward = kept_and_backward(Under("none", *blocks))
    return kept // num_layers, (backward - plain_backward) // num_layers


def as_read(measured):
    """A table of kept bytes and recomputed FLOPs, in MiB and GFLOP."""
    rows = {name: (kept / 2**20, flops / 10**9) for name, (kept, flops) in measured.items()}
    return pd.DataFrame(rows, index=["kept, MiB", "again, GFLOP"]).T.round(1)


ways = {"none": "none", "products": save_products, "full": "full"}
measured = {name: layer_under(how) for name, how in ways.items()}
display(as_read(measured))
compare("u05-free", "GiB", measured=round(16 * measured["products"][0] / 2**30, 2))

# %% [markdown]
# Two fifths of the bytes are gone, and not one product runs twice: only norms, rotations and gates do. (The scores of attention are the cheapest products: each sums over only 64 numbers. That is why *selective* begins there.)

# %% [markdown]
# ### What the clock says
#
# **Guess first.** Four small layers on this machine, with that policy: no more FLOPs than before. By how many percent do the *seconds* grow?

# %%
predict("u05-clock", None, "percent more")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: four layers on this machine, forward and backward, in three ways (10 to 60 seconds)
laptop = ModelConfig(num_layers=4, hidden_size=256, num_heads=4, ffn_size=704, vocab_size=1)
blocks_of_laptop = [Block(laptop, n) for n in range(4)]
tokens_of_laptop = torch.randn(1, 512, 256, requires_grad=True)
num_threads = torch.get_num_threads()
torch.set_num_threads(1)
chains = {
    name: nn.Sequential(*(Under(how, each) for each in blocks_of_laptop))
    for name, how in ways.items()
}
seconds = {name: [] for name in ways}
for name in 6 * list(ways):  # interleaved, best of 6: noise hits all equally
    timing = time_call(
        lambda chain=chains[name]: chain(tokens_of_laptop).sum().backward(),
        num_warm_up=1,
        num_runs=1,
        device="cpu",
    )
    seconds[name].append(timing.median_seconds)
torch.set_num_threads(num_threads)
clock = pd.DataFrame({"ms": {name: 1000 * min(each) for name, each in seconds.items()}})
clock["FLOPs"] = [sum(count_flops(lambda c=c: c(tokens_of_laptop))) for c in chains.values()]
for column, told in (("FLOPs", "FLOPs, %"), ("ms", "time, %")):
    clock[told] = 100 * (clock[column] / clock[column].iloc[0] - 1)
display(clock.drop(columns="FLOPs").round(1))
compare("u05-clock", "percent more", measured=round(clock.loc["products", "time, %"], 1))

# %% [markdown]
# Norms, rotations and gates have no counted FLOPs, but they read and write memory. The "30–40 %" that lecture E gives for full recomputation is also *time* (E16). Times vary.

# %% [markdown]
# ## The loss belongs to no layer
#
# A whole training step of Llama-3.2-1B on 4,096 tokens: weights in bf16, the loss in fp32, and 12 bytes of optimizer states per parameter (AdamW with an fp32 copy of the weights). What is live at its peak, in GB?


# %% folded=true tags=["nbval-check-output"]
# Measured: the peak of the second training step, by what is recomputed (10 to 20 seconds)
def traced_step(how, num_sequences=1, loss_of=None):
    """The second training step, with the layers and the loss as given."""
    run = RunConfig(micro_batch_size=num_sequences, seq_len=4096, is_loss_fp32=True)
    with fake_tensors():
        training = Training(llama, run, adamw="fused")
        training.model.blocks = nn.ModuleList(Under(how, each) for each in training.model.blocks)
        if loss_of:
            training.loss = partial(loss_of, training)
        training.step()
        return trace_memory(training.step, *training.owners)


def in_gb(step):
    parts = step.live_at(step.peak_at) | {"peak": step.peak_bytes}
    return {name.replace("_", " "): round(size / 10**9, 1) for name, size in parts.items()}


steps = {name: traced_step(how) for name, how in ways.items()}
pd.DataFrame({name: in_gb(step) for name, step in steps.items()}).T

# %% [markdown]
# With full recomputation the layers keep 0.27 GB, and the step still needs 23.9. The peak comes at the loss. The largest activations and temporaries there:

# %% folded=true tags=["nbval-check-output"]
# Table: the largest tensors at the peak, with full recomputation
at_peak = steps["full"].storages_at(steps["full"].peak_at)
working = [t for t in at_peak if t.category in ("activations", "temporaries")][:3]
facts = [(t.operation, t.shape, round(t.storage_bytes / 10**9, 1)) for t in working]
pd.DataFrame(facts, columns=["made by", "shape", "GB"])

# %% [markdown]
# They belong to the loss: the log-softmax and two gradients of the logits, $4\,sbv$ bytes each. No recomputation of layers touches them.
#
# But each token has logits of its own. So the tokens can go through head and loss **in pieces**, each in a checkpoint of its own: no piece keeps its log-softmax.

# %% A loss in pieces [markdown] exercise="u05-loss-in-pieces" points=2 minutes=9 difficulty=3 importance=4
# **Write** `loss_in_pieces`: the mean cross-entropy of all tokens, for logits `hidden @ weight.T` that are never all in memory. `hidden` has the shape (tokens, h), `weight` (v, h), `targets` (tokens,). The first line, which cuts the tokens into pieces, is given; so is `checkpoint(function, *tensors)`.
#
# All or nothing:
#
# - The loss and the gradients of `hidden` and `weight` are right, in the dtype of `hidden`.
# - Each piece goes through `checkpoint` once, and nothing is kept for backward beside the inputs.
# - Beside inputs and gradients, no more lives at once than one piece's logits and loss need.
#
# *By hand:* pieces of 4, 4 and 3 tokens, with mean losses of 1, 2 and 3 → **1.909**.


# %% solution="u05-loss-in-pieces"
def loss_in_pieces(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    num_pieces: int,
    checkpoint: Callable[..., Tensor],
) -> Tensor:
    """Mean cross-entropy whose logits never live all at once."""
    pieces = zip(hidden.chunk(num_pieces), targets.chunk(num_pieces), strict=True)

    ### BEGIN SOLUTION
    def summed_loss(hidden, weight, targets):
        return F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum")

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
# <details><summary>Hint: it is right only if all pieces have one length</summary>
#
# In a mean of means, how much does a token of a piece of 3 count, and one of a piece of 4?
# </details>
#
# <details><summary>Hint: all logits are kept</summary>
#
# Do you compute them before or after you divide the tokens?
# </details>

# %% [markdown]
# **Compare with** head and loss of Llama-3.2-1B alone, in fp32. The peak, hidden states and weight aside:


# %% folded=true tags=["nbval-check-output"]
# Measured: peak of head and loss, at once and in pieces
pieces_of = answer("u05-loss-in-pieces", loss_in_pieces)


def head_peak_gb(loss):
    with fake_tensors():
        hidden, weight = (torch.empty(n, 2048, requires_grad=True) for n in (4096, 128256))
        targets = torch.empty(4096, dtype=torch.long)
        traced = trace_memory(lambda: loss(hidden, weight, targets).backward(), hidden, weight)
    return round((traced.peak_bytes - traced.total_bytes[0]) / 10**9, 1)


def at_once(hidden, weight, targets):
    return F.cross_entropy(hidden @ weight.T, targets)


def loss_in(num_pieces):
    return lambda *tensors: pieces_of(*tensors, num_pieces, checkpoint_of)


head_peaks = {"at once": head_peak_gb(at_once)}
head_peaks |= {f"in {n}": head_peak_gb(loss_in(n)) for n in (1, 2, 4, 16)}
pd.DataFrame(head_peaks, index=["peak, GB"])

# %% [markdown]
# More than four pieces gain little: what fills the memory now is the gradient of the weight. Each piece makes one of its own and adds it to the sum so far.

# %% [markdown]
# ## Which one would you choose?
#
# The training step again, also with your loss in 16 pieces, and with four sequences, in GB:


# %% folded=true tags=["nbval-check-output"]
# Measured: five training steps of Llama-3.2-1B (10 to 20 seconds)
def loss_in_16(training):
    model = training.model
    head, model.head = model.head, nn.Identity()
    hidden = model(training.ids).flatten(0, 1)
    model.head = head
    weight, targets = model.embedding.weight, training.targets.flatten()
    return pieces_of(hidden.float(), weight.float(), targets, 16, checkpoint_of)


steps["full, loss in pieces"] = traced_step("full", 1, loss_in_16)
steps["none, 4 sequences"] = traced_step("none", 4)
pd.DataFrame({name: in_gb(step) for name, step in steps.items()}).T.rename_axis("recomputation")

# %% 24 GB or 80 GB? [markdown] exercise="u05-choose" points=2 minutes=9 difficulty=3 importance=5
# **Write** three to five sentences:
#
# 1. Which row would you choose on a device of 24 GB ($24 \cdot 10^9$ bytes), and which, for most tokens per second, on one of 80? Leave 2 GB for driver and allocator. Give both peaks.
# 2. Why is full recomputation alone not enough on 24 GB?
# 3. Selective recomputation added 1.8 % FLOPs to the 22B layer, and 7 % time. Where did the rest of the time go?

# %% [markdown] text_answer="u05-choose"
# <!-- BEGIN SOLUTION -->
# On 24 GB: full recomputation, with the loss in pieces. Its peak of 21.9 GB is the only one below 22. On 80 GB: no recomputation, four sequences at once, 66.8 GB. Recomputed FLOPs would buy nothing there.
#
# Full recomputation alone peaks at 23.9 GB. Its layers keep only 0.27 GB, so recomputing layers has no more to give. The rest is the loss, three tensors of 2.1 GB, and weights and optimizer states.
#
# The core of attention is more than its two products. Scaling, mask, softmax and dropout have no counted FLOPs, but they read and write the largest tensors of the layer, so the bandwidth of the memory sets their time.
#
# *Rubric:* half a point for full recomputation with the loss in pieces on 24 GB, and no recomputation or products kept on 80 GB; half for peaks that fit the choice (below 22 and 78); half for the loss or the state, which no recomputation of layers makes smaller; half for softmax, dropout or mask, which count no FLOPs and move memory.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points.

# %% Layers in segments [markdown] exercise="u05-segments" points=2 minutes=9 difficulty=2 importance=5 extra=true
# **Write** `run_in_segments`: run `layers` one after the other on `x`, each group of `layers_per_segment` through `checkpoint(function, x)`, which is given. All segments are recomputed, including the last one, which may be shorter. All or nothing: results, gradients, the lengths of the segments, two calls of each layer, kept bytes, and the peak of live bytes.
#
# *By hand:* 5 layers, 2 in a segment, so 3 boundaries are kept; for 50 rows of 3 numbers in float64 → **3,600** bytes.


# %% solution="u05-segments"
def run_in_segments(
    layers: list[nn.Module],
    x: Tensor,
    layers_per_segment: int,
    checkpoint: Callable[..., Tensor],
) -> Tensor:
    """All layers in a row, recomputed in segments."""
    ### BEGIN SOLUTION
    for start in range(0, len(layers), layers_per_segment):
        segment = nn.Sequential(*layers[start : start + layers_per_segment])
        x = checkpoint(segment, x)
    return x
    ### END SOLUTION


# %% folded=true
# Try it: five layers in segments of two, each printing its name when it runs
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
# <details><summary>Hint: in backward every segment runs the last layers</summary>
#
# A function defined in a loop looks its variables up when it is *called*. What do they hold when backward calls it?
# </details>
#
# <details><summary>Hint: only some lengths of segments are wrong</summary>
#
# Write down the first and the last layer of each segment for 5 layers and segments of 2.
# </details>

# %% [markdown]
# ### What exactly runs again?

# %% Recomputed FLOPs [markdown] exercise="u05-recomputed-flops" points=3 minutes=14 difficulty=3 importance=5 extra=true
# **Write** `recomputed_flops`: the FLOPs that the backward pass of **one** layer recomputes, with the scores in memory and without dropout. Each key is a quarter of the points.
#
# | key | what runs again |
# |---|---|
# | `"full"` | the layer, from its input |
# | `"selective"` | the core of attention: from queries, keys and values to the input of the output projection |
# | `"full_early"`, `"selective_early"` | the same, but only up to the last tensor that the gradients within this part need |
#
# Conventions and sizes (`head_dim`, `num_kv_heads`, …) are those of unit 01; a feed-forward block has three matrices if `model.is_gated`, otherwise two.
#
# *By hand:* the model `tiny`, one sequence of 2 tokens → full **464**, selective **64**; with an early stop **416** and **32**.


# %% solution="u05-recomputed-flops"
def recomputed_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """Recomputed FLOPs of one layer: "full", "selective", each also "_early"."""
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
# <details><summary>Hint: I see nothing that can be left out</summary>
#
# Does the result of `x @ weight` appear in its own two gradients? Who then needs the result of the last product that runs again?
# </details>

# %% [markdown]
# **Compare with** PyTorch's checkpoint:

# %% folded=true tags=["nbval-check-output"]
# Measured: your FLOPs and those that PyTorch runs again
again_of = answer("u05-recomputed-flops", recomputed_flops)
rows = {}
for name, seq_len in (("GPT-3-175B", 2048), ("Llama-3.2-1B", 4096)):
    without = flops_of_layer(name, seq_len)
    for key, is_early in (("full", False), ("full_early", True)):
        ran = flops_of_layer(name, seq_len, early_stop=is_early) - without
        rows[name, key] = {"computed": again_of(preset(name), 1, seq_len)[key], "counted": ran}
pd.DataFrame(rows).T.map("{:,}".format)

# %% [markdown]
# ### The best length, exactly

# %% The best length of a segment [markdown] exercise="u05-best-segment" points=1 minutes=6 difficulty=2 importance=3 extra=true
# **Write** `best_layers_per_segment`: the `layers_per_segment` for which the peak of `segment_bytes`, which you may call, is lowest; on a tie, the smallest.
#
# *By hand:* 16 layers that keep nothing but their input, $u = A = 12$ → **3** (as good as 4, 5 and 6).


# %% solution="u05-best-segment"
def best_layers_per_segment(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """Layers of a segment for which the fewest bytes are kept at once."""
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
# <details><summary>Hint: I am one or two layers off</summary>
#
# What is the peak for the lengths beside your own? Which segment is worst where k does not divide L?
# </details>

# %% [markdown]
# ### A policy of your own
#
# PyTorch's checkpoint takes a **policy** and calls it for each operation. This one only listens:

# %% tags=["nbval-check-output"]
heard = []


def listen(ctx, op, *args, **kwargs):
    heard.append(str(op))
    return CheckpointPolicy.PREFER_RECOMPUTE


with fake_tensors():
    contexts = partial(create_selective_checkpoint_contexts, listen)
    block = Block(llama, 0, dtype=bf16)
    torch_checkpoint(block, new_input(), use_reentrant=False, context_fn=contexts)
for name in ("mm.default", "attention", "silu", "mul.Tensor"):
    found = [op for op in heard if name in op]
    print(len(found), "×", found[0])

# %% A policy of your own [markdown] exercise="u05-policy" points=2 minutes=8 difficulty=3 importance=4 extra=true
# **Write** `policy`: return `CheckpointPolicy.MUST_SAVE` for matrix products and fused attention, and `CheckpointPolicy.PREFER_RECOMPUTE` for every other operation. All or nothing: no product may run twice, and nothing else may be kept, in layers of GPT and Llama.
#
# | operation | what it is |
# |---|---|
# | `torch.ops.aten.mm.default` | a linear layer without bias |
# | `torch.ops.aten.addmm.default` | a linear layer with bias |
# | `torch.ops.aten.bmm.default` | batched products, as in attention with scores in memory |
# | `torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default` | fused attention on a CPU; on a GPU without `_for_cpu` |
#
# `op` is such an operation; you need no other argument.
#
# *By hand:* `mm.default` is saved, `silu.default` is not.


# %% solution="u05-policy"
def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Whether the result of an operation is kept or computed again."""
    ### BEGIN SOLUTION
    aten = torch.ops.aten
    expensive = [
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
    ]
    keep, again = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE
    return keep if op in expensive else again
    ### END SOLUTION


# %%
try_it(policy, None, torch.ops.aten.mm.default)
try_it(policy, None, torch.ops.aten.silu.default)

# %% check="u05-policy"
# Real layers of GPT and Llama with fused attention and with attention written out.

# %% [markdown]
# <details><summary>Hint: nothing is kept at all</summary>
#
# Print `op`, and print what you compare it with. Is `torch.ops.aten.mm` the same as `torch.ops.aten.mm.default`?
# </details>
#
# <details><summary>Hint: it is right for Llama and wrong for GPT</summary>
#
# What does a linear layer of GPT have that one of Llama has not? Which row of the table is that?
# </details>

# %% [markdown]
# **Compare with** the policy of the course, for one layer of Llama-3.2-1B:

# %% folded=true tags=["nbval-check-output"]
# Measured: what your policy keeps, and the FLOPs that run again
policy_of = answer("u05-policy", policy)
as_read({"your policy": layer_under(policy_of), "the course's": measured["products"]})

# %% [markdown]
# ### A plan under a cap
#
# Every layer may have its own policy. Nobody needs the result of `down` in a segment of one layer: it goes into an addition. So keep the *needed* products; or leave out gate and up too, the two widest; or keep attention alone:


# %% folded=true tags=["nbval-check-output"]
# Measured: six options for a layer of Llama-3.2-1B
def needed_products(ctx, op, *args, **kwargs):
    """All products but the one with `ffn_size` weight rows."""
    if op == torch.ops.aten.mm.default and args[1].shape[0] == llama.ffn_size:
        return CheckpointPolicy.PREFER_RECOMPUTE
    return policy_of(ctx, op, *args, **kwargs)


def without_gate_up(ctx, op, *args, **kwargs):
    """The needed products but the two widest, gate and up."""
    if op == torch.ops.aten.mm.default and args[1].shape[-1] == llama.ffn_size:
        return CheckpointPolicy.PREFER_RECOMPUTE
    return needed_products(ctx, op, *args, **kwargs)


def attention_alone(ctx, op, *args, **kwargs):
    if "attention" in str(op):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


ways |= {
    "needed products": needed_products,
    "without gate, up": without_gate_up,
    "attention": attention_alone,
}
measured |= {name: layer_under(how) for name, how in ways.items() if name not in measured}
as_read(measured)

# %% folded=true
# Figure: what each option keeps and costs, with segments of 2 and 4 layers beside them
with fake_tensors():
    block = Block(llama, 0, dtype=bf16)
    training_flops = sum(count_flops(lambda: block(new_input())))
drawn = measured | {f"full, k = {k}": layer_under("full", k) for k in (2, 4)}
memory_against_flops(
    {
        name: (16 * kept, flops / training_flops)
        for name, (kept, flops) in drawn.items()
        if name != "products"
    }
)

# %% A plan under a cap [markdown] exercise="u05-plan" points=3 minutes=13 difficulty=3 importance=4 extra=true
# **Write** `choose_options`: choose one option for each of `num_layers` equal layers, so that together they keep at most `cap_bytes` and recompute the fewest FLOPs.
#
# - `options` is a list of dictionaries with `"name"`, `"kept_bytes"` and `"recomputed_flops"`, both for one layer.
# - Return a dictionary from names to numbers of layers; an option without layers may be missing or 0. If no plan fits, return an empty dictionary.
# - If several plans are equally good, any of them is right.
#
# All or nothing. Sixteen layers and six options have 20,349 plans, few enough to try them all.
#
# *By hand:* 4 layers under a cap of 19; options none (10 bytes, 0 FLOPs), selective (6, 1) and full (1, 4) → `{"selective": 3, "full": 1}`: 19 bytes, 7 FLOPs.


# %% solution="u05-plan"
def choose_options(
    num_layers: int, options: list[dict[str, Any]], cap_bytes: int
) -> dict[str, int]:
    """How many layers take which option, with the fewest FLOPs under a cap of bytes."""

    ### BEGIN SOLUTION
    def total(chosen, field):
        return sum(option[field] for option in chosen)

    plans = itertools.combinations_with_replacement(options, num_layers)
    fitting = [each for each in plans if total(each, "kept_bytes") <= cap_bytes]
    best = min(fitting, key=lambda each: total(each, "recomputed_flops"), default=())
    names = [option["name"] for option in best]
    return {name: names.count(name) for name in names}
    ### END SOLUTION


# %%
three_options = [
    {"name": "none", "kept_bytes": 10, "recomputed_flops": 0},
    {"name": "selective", "kept_bytes": 6, "recomputed_flops": 1},
    {"name": "full", "kept_bytes": 1, "recomputed_flops": 4},
]
try_it(choose_options, 4, three_options, 19)

# %% check="u05-plan"
# Caps below every plan, met to the byte, between and above all; two options to five, up to 16 layers.

# %% [markdown]
# <details><summary>Hint: my plan fits and is not the best</summary>
#
# In the case by hand, does the first layer get *none*, because that still fits? Can the best plan be reached after that?
# </details>
#
# <details><summary>Hint: how do I go through all plans?</summary>
#
# Which function of `itertools` makes all selections in which the order does not count and each thing may come again?
# </details>

# %% [markdown]
# **Compare with** Llama-3.2-1B under smaller and smaller caps. The plan for 2 GiB is then run:

# %% folded=true tags=["nbval-check-output"]
# Measured: plans under seven caps, and one of them run
options_of = answer("u05-plan", choose_options)
options = [
    {"name": name, "kept_bytes": kept, "recomputed_flops": flops}
    for name, (kept, flops) in measured.items()
]
plans = {}
for cap_gib in (6, 3, 2, 1, 0.5, 0.25, 0.2):
    chosen = options_of(16, options, int(cap_gib * 2**30))
    plans[cap_gib] = {name: count for name, count in chosen.items() if count}
    flops = sum(count * measured[name][1] for name, count in chosen.items())
    told = f"+{flops / (16 * training_flops):5.1%}  {plans[cap_gib]}" if chosen else "no plan fits"
    print(f"{cap_gib:4} GiB: {told}")
chosen = plans[2]
with fake_tensors():
    hows = [ways[name] for name, count in chosen.items() for _ in range(count)]
    blocks = [Block(llama, n, dtype=bf16) for n in range(16)]
    planned = nn.Sequential(*(Under(how, each) for how, each in zip(hows, blocks, strict=True)))
    kept, backward = kept_and_backward(planned)
    _, plain_backward = kept_and_backward(nn.Sequential(*blocks))
planned_sums = tuple(sum(n * measured[name][i] for name, n in chosen.items()) for i in (0, 1))
ran = (kept, backward - plain_backward)
print("run as planned, to the byte and to the FLOP:", planned_sums == ran)
as_read({"planned": planned_sums, "measured": ran})

# %% [markdown]
# *None*, *products* and *needed products* cost no FLOP, so a generous cap may get any of them. The cap leaves out the loss, and the layer that runs again.

# %% [markdown]
# ### From the slides
#
# - Lecture S draws a chain that keeps every √L-th layer, memory O(√L), with one to two runs of each (S14). Its code wraps *every* layer in `torch.utils.checkpoint` (S19): L boundaries, O(L), and exactly two runs. Since A is much larger than u, the code is better than the picture.
# - S14 calls a checkpoint after a block's residual *selective*. That residual *is* the boundary: others call it *full*.
# - The 2.7 % of E16 is 3 × 0.9: the paper's formula charges the core three times. Lecture S has O(num_layers) for the FLOPs either way; the O hides a third.
# - The "8B" of the plots is a GPT of 6.97 billion parameters with scores in memory. Llama-3-8B with fused attention keeps a ninth of it.

# %% [markdown]
# ## What you know now
#
# | quantity | value |
# |---|---|
# | kept after the forward pass | one boundary for each segment |
# | peak in the backward pass | boundaries, and the segment that runs again: lowest near $k = \sqrt{Lu/A}$, for a transformer 1 or 2 |
# | FLOPs, full | one more forward pass of the layers, +33.3 %; for all of Llama-3.2-1B at 4,096 tokens +27.5 %, with an early stop +21.6 % |
# | selective, GPT layer | saves $5\,as^2b$ of $34\,sbh + 5\,as^2b$ bytes; runs the core again |
# | loss in pieces | only one piece's logits live at once: 23.9 GB become 21.9 |
#
# **Your plan** can now choose: the layers of Llama-3-8B keep 44 GB, 27 or 2. With all of them recomputed, 177 GB become 135. The state stays (units 09 and 10).
#
# *Further reading:* Chen et al. 2016, *Training Deep Nets with Sublinear Memory Cost*, sections 3 and 4 (20 minutes). Korthikanti et al. 2022, *Reducing Activation Recomputation*, sections 5 and 6 (20 minutes). PyTorch's page on `torch.utils.checkpoint` (10 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("05")
