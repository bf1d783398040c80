# ---
# jupyter:
#   course:
#     title: Where does the memory go?
#     device: CPU
#     needs: ["00", "01"]
#     lecture: [E7, E11, E12, E13, E14, E15, E18, S10, S11, S12, S13, B2, B3]
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
# ![A bar, drawn to scale. Training Llama-3-8B on one sequence of 8,192 tokens takes about 177 GB: 16 for weights, 16 for gradients, 96 for optimizer states, 48 for activations. 80 GB runs out partway through the optimizer states.](hero.svg)
#
# The weights of an 8B model fill a 16 GB file. Training it takes more than two 80 GB GPUs. You will account for every byte of this bar, check each number against a running model, and see how many sequences fit.
#
# Your training plan knows work, time and cost, but not yet whether the model fits.
#
# 1. **Compute** the parameters of a model part by part, and the bytes of its training state.
# 2. **Name** the tensors autograd keeps for each operation.
# 3. **Compute** what a GPT layer and a Llama layer keep, to the byte.
# 4. **Decide** how many sequences fit on a device, and **explain** when none does.
#
# | here | lecture E | lecture S | lecture B | meaning |
# |---|---|---|---|---|
# | $b$ | bs, mbs | bs | b | sequences in a micro-batch |
# | $s$ | seq | L | S | tokens in a sequence |
# | $h$ | h | D | D, dim | width of the residual stream: numbers per token between layers |
# | $a$, $a_{kv}$ | n_heads | H | attention heads | query heads; key-value heads |
# | $f$ | 4h | F | dim_ff | inner width of the feed-forward block |
# | $L$ | L | num_layers | L | layers |
# | $v$ | v | | vocab | entries in the vocabulary |
# | $N$ | N | P | | parameters |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import PRECISIONS, Kernels, ModelConfig, preset
from course_utils.formulas import activations
from course_utils.instruments import (
    count_saved_bytes,
    fake_tensors,
    storage_bytes,
    watch_process,
)
from course_utils.reference import Block, Transformer, token_loss
from course_utils.reference.fused import rotate
from course_utils.reference.mixed_precision import TrainingState
from course_utils.show import (
    Choice,
    computed_and_measured,
    explorer,
    layer_diagram,
    layer_explorer,
    memory_over_length,
    training_memory,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Play with the bar
#
# Move one control at a time. Which parts of the bar grow with the batch, and which never do? (*Recomputation*, and attention *written out*, with its scores in memory, come later.)

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    training_memory,
    model=Choice("model", ["Llama-3.2-1B", "Llama-3-8B"], "Llama-3-8B"),
    recipe=Choice("precision", list(PRECISIONS), "bf16"),
    seq_len=Choice("sequence, tokens", [1024, 2048, 4096, 8192, 16384, 32768], 8192),
    micro_batch_size=Choice("micro-batch, sequences", [1, 2, 4, 8, 16], 1),
    attention=Choice("attention", ["fused", "written out"], "fused"),
    recomputation=Choice("recomputation", ["none", "selective", "full"], "none"),
)

# %% [markdown]
# **Weights**, **gradients** and **optimizer states** depend on the model alone. **Activations**, the tensors saved for the backward pass, grow with the batch (E7). We take them in that order.

# %% [markdown]
# ## Weights
#
# One layer of Llama-3-8B, with the parameters of each operation. An orange bar is a tensor; its height shows how many numbers it has per token.

# %% folded=true
# Diagram: the parameters of one layer
layer_diagram(preset("Llama-3-8B"), show="parameters")

# %% [markdown]
# **Guess first.** Llama-3.2-1B has $L = 16$ layers of width $h = 2048$ and inner width $f = 8192$, with $a = 32$ query heads and $a_{kv} = 8$ key-value heads. Its vocabulary has $v = 128{,}256$ entries, and the output head shares the embedding's matrix. What share of all its parameters is in that one matrix?

# %%
predict("u03-embedding", None, "percent")

# %% Count the parameters [markdown] exercise="u03-parameters" points=2 minutes=12 difficulty=2 importance=4
# **Write** `parameters`: how many parameters each part of the whole model has. Each part is worth a quarter of the points.
#
# | key | what it holds |
# |---|---|
# | `"attention"` | $W_Q$ and $W_O$, mapping to and from `.num_heads` heads of `.head_dim` numbers; $W_K$ and $W_V$, to `.num_kv_heads` heads |
# | `"feed_forward"` | $W_{up}$ to the inner width `.ffn_size`, and $W_{down}$ back; $W_{gate}$ like $W_{up}$ if `.is_gated` |
# | `"norms"` | one before each of these two blocks, and one after the last layer; `.hidden_size` weights each |
# | `"embedding_and_head"` | `.vocab_size` rows, and `.num_positions` rows of learned positions; the head has `.vocab_size` rows of its own unless `.is_tied` |
#
# If `.has_biases` (GPT), every matrix of attention and feed-forward also has one bias per output, and every norm one per weight.
#
# *By hand:* 2 layers, width 4, 2 heads, 1 key-value head, gated with inner width 3, vocabulary 5, head not tied, no positions, no biases → **96**, **72**, **20**, **40**.


# %% solution="u03-parameters"
def parameters(model: ModelConfig) -> dict[str, int]:
    """Parameters of a whole model: "attention", "feed_forward", "norms", "embedding_and_head"."""
    ### BEGIN SOLUTION
    h, f = model.hidden_size, model.ffn_size
    query_width = model.num_heads * model.head_dim
    kv_width = model.num_kv_heads * model.head_dim
    attention = 2 * h * query_width + 2 * h * kv_width
    feed_forward = (3 if model.is_gated else 2) * h * f
    norm = h
    if model.has_biases:
        attention += query_width + 2 * kv_width + h
        feed_forward += (2 if model.is_gated else 1) * f + h
        norm = 2 * h
    rows = model.vocab_size * (1 if model.is_tied else 2) + model.num_positions
    return {
        "attention": model.num_layers * attention,
        "feed_forward": model.num_layers * feed_forward,
        "norms": (2 * model.num_layers + 1) * norm,
        "embedding_and_head": rows * h,
    }
    ### END SOLUTION


# %%
small = ModelConfig(
    num_layers=2, hidden_size=4, num_heads=2, num_kv_heads=1, ffn_size=3, vocab_size=5
)
try_it(parameters, small)

# %% check="u03-parameters"
# GPT with biases and positions; Llama tied and untied; multi-head and grouped-query attention.

# %% [markdown]
# <details><summary>Hint: only models with biases are wrong</summary>
#
# Write the shape of every matrix of a layer as (from, to). How many outputs does each have, and how many biases is that in total?
# </details>
#
# <details><summary>Hint: only the embedding is wrong</summary>
#
# Two modules share a matrix: how often is it stored? And where does a model with learned positions look them up?
# </details>

# %% [markdown]
# **Check your guess** against a model on the meta device, where tensors have shapes but no memory:

# %% folded=true tags=["nbval-check-output"]
# Measured: the parameters of Llama-3.2-1B
parameters_of = answer("u03-parameters", parameters)


def measured_parameters(name):
    return sum(p.numel() for p in Transformer(preset(name), device="meta").parameters())


small_llama = Transformer(preset("Llama-3.2-1B"), device="meta")
computed = parameters_of(preset("Llama-3.2-1B"))
print(f"{sum(computed.values()):,} computed, {measured_parameters('Llama-3.2-1B'):,} measured")
compare(
    "u03-embedding",
    "percent",
    computed=100 * computed["embedding_and_head"] / sum(computed.values()),
    measured=100 * small_llama.embedding.weight.numel() / measured_parameters("Llama-3.2-1B"),
)

# %% [markdown]
# **A published formula against the tensors.** Lecture E counts (E11)
#
# $$N = hv + L\,(12h^2 + 13h) + 2h$$
#
# How well does it hold up?

# %% folded=true tags=["nbval-check-output"]
# Measured: the lecture's formula and two real models
models = {name: preset(name) for name in ("GPT-2-124M", "Llama-3-8B")}
lecture = {
    name: m.hidden_size * m.vocab_size
    + m.num_layers * (12 * m.hidden_size**2 + 13 * m.hidden_size)
    + 2 * m.hidden_size
    for name, m in models.items()
}
measured = {name: measured_parameters(name) for name in models}
table = pd.DataFrame({"the formula": lecture, "measured": measured})
table.assign(gap=table["measured"] - table["the formula"]).map("{:,}".format)

# %% [markdown]
# GPT-2's gap is its 1,024 rows of learned positions. For Llama-3-8B a billion parameters are missing: the formula assumes no gate, full keys and values, and a tied head. That is a 7.0B GPT; the lecture used it for its "8B" plot.

# %% [markdown]
# ## Gradients and optimizer states
#
# Training also holds a gradient for each parameter, and Adam's two moments (E12, S11). **Mixed precision** multiplies in bf16 but keeps an fp32 **master copy** of the weights, because a small update would vanish in bf16. An fp32 number takes 4 bytes, a bf16 number 2.
#
# | recipe | weights | gradients | optimizer |
# |---|---|---|---|
# | `"fp32"` | fp32 | fp32 | two moments in fp32 |
# | `"bf16"` | bf16 | bf16 | master copy and two moments in fp32 |
# | `"bf16-fp32-gradients"` | bf16 | fp32 | the same |
# | `"bf16-both-gradients"` | bf16 | bf16, and their sum in fp32 | the same |
#
# **Guess first.** Llama-3-8B has $8.03 \cdot 10^9$ parameters. How many GB do weights, gradients and optimizer states take in `"bf16"`?

# %%
predict("u03-state-8b", None, "GB")

# %% Bytes of the training state [markdown] exercise="u03-state-bytes" points=1.5 minutes=6 difficulty=1 importance=5
# **Write** `state_bytes`: what training holds after a backward pass, activations aside, in bytes. The master copy belongs to the optimizer. Each key is worth a third of the points.
#
# $$\underbrace{?\,N}_{\texttt{weights}} + \underbrace{?\,N}_{\texttt{gradients}} + \underbrace{?\,N}_{\texttt{optimizer}}$$
#
# *By hand:* 1,000 parameters in `"bf16"` → **2,000**, **2,000**, **12,000**.


# %% solution="u03-state-bytes"
def state_bytes(num_params: int, recipe: str) -> dict[str, int]:
    """Bytes held after a backward pass with Adam: "weights", "gradients" and "optimizer"."""
    ### BEGIN SOLUTION
    gradient_bytes = {"fp32": 4, "bf16": 2, "bf16-fp32-gradients": 4, "bf16-both-gradients": 6}
    is_mixed = recipe != "fp32"
    return {
        "weights": (2 if is_mixed else 4) * num_params,
        "gradients": gradient_bytes[recipe] * num_params,
        "optimizer": (4 + 4 + (4 if is_mixed else 0)) * num_params,
    }
    ### END SOLUTION


# %%
try_it(state_bytes, 1000, "bf16")

# %% check="u03-state-bytes"
# After one real step of AdamW in each recipe: from one parameter to a hundred thousand.

# %% [markdown]
# <details><summary>Hint: only the bf16 recipes are wrong</summary>
#
# The optimizer adds a small step to a weight. In which precision must it hold that weight, and which of your three numbers includes that copy?
# </details>

# %% [markdown]
# **Check your guess** against one real step of AdamW, scaled up:

# %% folded=true tags=["nbval-check-output"]
# Measured: the storages after one step on 1,000 parameters
state_of = answer("u03-state-bytes", state_bytes)
state = TrainingState(1000, "bf16")
state.step()
held = {part: sum(map(storage_bytes, each)) for part, each in state.tensors().items()}
num_params = measured_parameters("Llama-3-8B")
compare(
    "u03-state-8b",
    "GB",
    computed=sum(state_of(num_params, "bf16").values()) / 10**9,
    measured=sum(held.values()) / 1000 * num_params / 10**9,
)

# %% [markdown]
# Other models and recipes, in GB (10⁹ bytes) as on the slides:

# %% folded=true tags=["nbval-check-output"]
# Table: training state by model and recipe, GB
counts = {f"{n}B": n * 10**9 for n in (1, 7, 8, 70, 405)}
counts["Llama-3.2-1B"] = measured_parameters("Llama-3.2-1B")
table = {name: {r: sum(state_of(n, r).values()) for r in PRECISIONS} for name, n in counts.items()}
(pd.DataFrame(table) / 10**9).round(1)

# %% [markdown]
# **Mixed precision does not shrink the state** (E13, B3): 16 bytes per parameter either way. It pays off because matrix products run many times faster in bf16 (on an A100, 312·10¹² vs. 19.5·10¹² FLOP/s), and because *activations* take half the bytes. With fp32 gradients it is 18 bytes, with both kinds 20: say which you mean.
#
# <details><summary>From the slides: 16 GB for a Llama of 1B</summary>
#
# Lecture S lists 16 GB for "Llama 1B" (S13). Llama-3.2-1B has 1.24 billion parameters, and takes 19.8.
# </details>

# %% [markdown]
# ### What the machine says
#
# You counted tensors. The operating system sees the whole process. **Guess first:** one step of AdamW on 16 million parameters in fp32. By how many bytes per parameter does this process grow at its peak?

# %%
predict("u03-process", None, "bytes per parameter")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the memory of this process, before, during and after one step
NUM_PARAMS = 16_000_000


def one_step():
    state = TrainingState(NUM_PARAMS, "fp32")
    state.step()
    return state


one_step()  # the first step also loads code
grown = watch_process(one_step)
print(f"counted          {sum(state_of(NUM_PARAMS, 'fp32').values()) / NUM_PARAMS:5.1f}")
print(f"after the step   {grown.kept_bytes / NUM_PARAMS:5.1f}")
compare("u03-process", "bytes per parameter", measured=grown.peak_bytes / NUM_PARAMS)

# %% [markdown]
# After the step your count matches. The peak was 50 % higher: memory freed before anyone could count it. AdamW divides the first moment by the root of the second: what does it create on the way? (03.6 asks you; unit 04 looks inside the step.)

# %% [markdown]
# ## Activations: what must an operation keep?
#
# The backward pass needs numbers from the forward pass, so autograd **saves** (*keeps*) tensors on the way. Which ones? For a linear layer $y = xW$ and a loss $\ell$, the chain rule says:
#
# $$\frac{\partial \ell}{\partial W} = x^\top \frac{\partial \ell}{\partial y} \qquad\qquad \frac{\partial \ell}{\partial x} = \frac{\partial \ell}{\partial y}\,W^\top$$
#
# It keeps $x$ and $W$. An instrument lists what is saved:

# %% tags=["nbval-check-output"]
layer = nn.Linear(3, 5)
x = torch.ones(2, 3, requires_grad=True)
pd.DataFrame(count_saved_bytes(lambda: torch.relu(layer(x))).tensors)

# %% [markdown]
# Input, weight, and the ReLU's *output*, which shows where its slope was 1. The weight is in memory anyway: pass the module to exclude it. Under `no_grad` nothing is saved, so inference stores no activations and only 2 of the 16 bytes (S10).

# %% tags=["nbval-check-output"]
print(count_saved_bytes(lambda: torch.relu(layer(x)), layer).total_bytes)

# %% [markdown]
# Ask of any operation: **which tensors appear in its derivative?** (E18)
#
# | operation | derivative | keeps |
# |---|---|---|
# | $y = \mathrm{relu}(x)$ | 1 where $y > 0$ | $y$ |
# | $y = x^2$ | $2x$ | $x$ |
# | $z = x \cdot y$ | $y$ and $x$ | both |
#
# **Guess first.** The attention scores of one layer of Llama-3-8B at 8,192 tokens have the shape (1, 32, 8192, 8192). How many GiB would a softmax over them keep in bf16?

# %%
predict("u03-softmax", None, "GiB")

# %% What each operation keeps [markdown] exercise="u03-kept-by-operation" points=3 minutes=10 difficulty=2 importance=5
# **Write** `kept_bytes`: the bytes that each of six operations keeps for its backward pass, all in **bf16**. $x$ has the shape $(b, s, h)$, the scores $(b, a, s, s)$. Weights do not count. The rules are those of GPU kernels; on a CPU some operations are split into smaller ones and keep more (`nn.RMSNorm` does). Each operation is worth a sixth of the points.
#
# | key | operation | good to know |
# |---|---|---|
# | `"linear"` | $xW$ | |
# | `"rms_norm"` | $x / \sqrt{\mathrm{mean}(x^2)} \cdot w$ | the root is kept too: one **fp32** number per token |
# | `"gelu"` | a smooth ReLU of $x$ | its slope differs at every $x$ |
# | `"softmax"` | $y = e^{x} / \sum e^{x}$ over the last axis of the scores | its derivative needs only $y$ |
# | `"dropout"` | zeroes some numbers of $x$, scales the rest | the mask takes one **byte** per number |
# | `"addition"` | $x + y$ | |
#
# *By hand:* $b = 1$, $s = 3$, $h = 8$, $a = 2$ → **48**, **60**, **48**, **36**, **24**, **0**.


# %% solution="u03-kept-by-operation"
def kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that each of six operations keeps for backward, in bf16."""
    ### BEGIN SOLUTION
    tokens = num_sequences * seq_len
    hidden = 2 * tokens * hidden_size
    return {
        "linear": hidden,
        "rms_norm": hidden + 4 * tokens,
        "gelu": hidden,
        "softmax": 2 * num_heads * tokens * seq_len,
        "dropout": tokens * hidden_size,
        "addition": 0,
    }
    ### END SOLUTION


# %%
try_it(kept_bytes, 1, 3, 8, 2)

# %% check="u03-kept-by-operation"
# Each operation alone in bf16: one head and many; short and long sequences.

# %% [markdown]
# <details><summary>Hint: I do not know what an operation keeps</summary>
#
# Write $y = f(x)$ and its derivative. Which tensors appear in it? If one can be computed from another, which of them is already there?
# </details>

# %% [markdown]
# **Check your guess.** *Fake tensors* have shapes but no memory, and autograd treats them like real ones:

# %% folded=true tags=["nbval-check-output"]
# Measured: a softmax over fake scores
kept_of = answer("u03-kept-by-operation", kept_bytes)
with fake_tensors():
    scores = torch.ones(1, 32, 8192, 8192, dtype=torch.bfloat16, requires_grad=True)
    softmax = count_saved_bytes(lambda: scores.softmax(-1))
compare(
    "u03-softmax",
    "GiB",
    computed=kept_of(1, 8192, 4096, 32)["softmax"] / 2**30,
    measured=softmax.total_bytes / 2**30,
)

# %% [markdown]
# 4 GiB, for one operation of one layer on one sequence. Quadratic in length, for *every head*.
#
# <details><summary>From the slides: the order of attention's activations, and a norm in steps</summary>
#
# Lecture B counts B·S·(D + S) (B2). There is one $s \times s$ matrix per head: B·S·(D + a·S), and a is 32 in a 1B model.
#
# Lecture E derives $y = Wx / \lVert x \rVert$ by hand (E18). In separate steps, it keeps more than a single fused operation would: count it with the instrument.
# </details>

# %% [markdown]
# ## A GPT layer, as the lectures count it
#
# Lecture E adds up what one GPT layer keeps in 16 bits (E14). In the order of the forward pass:
#
# 1. **LayerNorm**, then three projections of its result to queries, keys and values;
# 2. **scores** of each head, softmax, *dropout*, product with the values;
# 3. output projection, *dropout*, addition to the residual stream;
# 4. **LayerNorm**, then a matrix to $4h$, GELU, a matrix back to $h$, *dropout*, addition.
#
# (A drawing of the layer, dropouts aside:)

# %% folded=true
# Diagram: one layer of GPT-3 with its scores in memory
layer_diagram(preset("GPT-3-175B"), seq_len=2048, kernels=Kernels(is_attention_fused=False))

# %% [markdown]
# The rules, again those of GPU kernels:
#
# - a product keeps both factors, parameters aside;
# - a tensor that several operations need is stored once, counted where first read: the result of a norm belongs to the projections after it;
# - a LayerNorm keeps its input and two **fp32** numbers per token, its *statistics*;
# - a dropout keeps one byte per number;
# - scaling and addition keep nothing.
#
# **Guess first.** Scores aside, how many bytes per $s\,b\,h$ does the layer keep?

# %%
predict("u03-gpt-unit", None, "bytes per s·b·h")

# %% A GPT layer, term by term [markdown] exercise="u03-gpt-layer-bytes" points=2 minutes=15 difficulty=4 importance=5
# **Write** `gpt_layer_bytes`: what one such layer keeps, in bytes. Each key is worth a quarter of the points.
#
# | key | what |
# |---|---|
# | `"norms"` | both LayerNorms |
# | `"attention"` | what the three projections and the output projection read; queries, keys and values; the dropout after the output projection |
# | `"scores"` | softmax, its dropout, and the tensor that multiplies the values |
# | `"feed_forward"` | all of step 4 but its LayerNorm |
#
# *By hand:* $b = 1$, $s = 3$, $h = 12$, $a = 2$ → **192**, **396**, **90**, **684**.


# %% solution="u03-gpt-layer-bytes"
def gpt_layer_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that one GPT layer keeps for backward in 16 bits, by part."""
    ### BEGIN SOLUTION
    tokens = num_sequences * seq_len
    one = tokens * hidden_size
    all_scores = num_heads * tokens * seq_len
    projections_input, queries_keys_values, output_input, mask = 2, 3 * 2, 2, 1
    first_input, gelu_input, second_input = 2, 4 * 2, 4 * 2
    return {
        "norms": 2 * (2 * one + 2 * 4 * tokens),
        "attention": (projections_input + queries_keys_values + output_input + mask) * one,
        "scores": (2 + 1 + 2) * all_scores,
        "feed_forward": (first_input + gelu_input + second_input + mask) * one,
    }
    ### END SOLUTION


# %%
try_it(gpt_layer_bytes, 1, 3, 12, 2)

# %% check="u03-gpt-layer-bytes"
# A real layer in bf16: one sequence and several; one head and many; GPT-3 itself.

# %% [markdown]
# <details><summary>Hint: my attention is too large</summary>
#
# Queries, keys and values are made from the same tensor. How often is it in memory?
# </details>
#
# <details><summary>Hint: my scores are wrong</summary>
#
# Follow one head: what does the softmax keep, what does the dropout keep, and what does the product with the values need?
# </details>

# %% [markdown]
# **Check your guess** against a layer of GPT-3 at 2,048 tokens, on the meta device:

# %% folded=true tags=["nbval-check-output"]
# Measured: one layer of GPT-3
gpt_of = answer("u03-gpt-layer-bytes", gpt_layer_bytes)
gpt_3 = preset("GPT-3-175B")
written_out = Kernels(is_attention_fused=False, dropout_fraction=0.1)
gpt_block = Block(gpt_3, 0, "meta", torch.bfloat16, written_out)
stream = torch.empty(1, 2048, 12288, dtype=torch.bfloat16, device="meta", requires_grad=True)
gpt_saved = count_saved_bytes(lambda: gpt_block(stream), gpt_block)
parts = gpt_of(1, 2048, 12288, 96)
scores = sum(t.storage_bytes for t in gpt_saved.tensors if t.shape[-2:] == (2048, 2048))
compare(
    "u03-gpt-unit",
    "bytes per s·b·h",
    computed=(sum(parts.values()) - parts["scores"]) / (2048 * 12288),
    measured=(gpt_saved.total_bytes - scores) / (2048 * 12288),
)

# %% [markdown]
# That is the well-known formula of Korthikanti et al., plus a small term that the paper leaves out:
#
# $$\underbrace{5\,a\,s^2\,b}_{\text{scores}} + \underbrace{34\,s\,b\,h}_{\text{everything else}} + \underbrace{16\,s\,b}_{\text{statistics of the norms}}$$
#
# How does it grow (E15, S12)? Your function against real layers as wide as Llama-3-8B's:


# %% folded=true
# Figure: a GPT layer over the length of the sequence
def measured_gpt_layer(seq_len):
    sizes = ModelConfig(
        num_layers=1,
        hidden_size=4096,
        num_heads=32,
        ffn_size=4 * 4096,
        vocab_size=1,
        num_positions=1,
        is_gated=False,
        has_biases=True,
    )
    block = Block(sizes, 0, "meta", torch.bfloat16, written_out)
    x = torch.empty(1, seq_len, 4096, dtype=torch.bfloat16, device="meta", requires_grad=True)
    return count_saved_bytes(lambda: block(x), block).total_bytes


lengths = [32, 128, 512, 2048, 8192, 32768]
computed_and_measured(
    lengths,
    computed=[sum(gpt_of(1, s, 4096, 32).values()) for s in lengths],
    measured=[measured_gpt_layer(s) for s in lengths],
    size_label="tokens of one sequence",
    unit="bytes",
)

# %% [markdown]
# On these log-log axes the slope goes from 1 to 2 where the scores take over. The batch multiplies everything, the width everything but the scores.
#
# <details><summary>From the slides: three slips, and an explosion</summary>
#
# A handwritten page divides by the batch and multiplies by 4; but 34 and 5 are bytes already, and the batch multiplies (E14). One slide multiplies only the first term by the number of layers. One gives the softmax a·s·b, missing an s. Lecture S speaks of an "exponential explosion" (S12): it is a square. And 34 and 5 assume 16 bits, dropout, unshared keys and values, GELU with $4h$, and scores in memory. Only the 16 bits survive in a modern layer.
# </details>

# %% [markdown]
# ## A modern layer
#
# Llama's layer with **fused attention** (unit 06) keeps other tensors. Before you count them: **click every tensor that the backward pass will need**, then ask the instrument, which also says why.

# %% folded=true
# Diagram: mark what autograd keeps
layer_explorer(preset("Llama-3-8B"), num_sequences=1, seq_len=8192)

# %% [markdown]
# The rules of this layer:
#
# - an RMSNorm keeps its input and **one** fp32 number per token;
# - fused attention keeps the *rotated* queries and keys, the values, its result, and one **fp32** number per query and head, the log-sum-exp (the log of its softmax's denominator), to recompute the softmax; keys and values may have fewer heads;
# - rotary positions keep nothing, and there is no dropout;
# - the gate computes $\mathrm{silu}(g) \cdot u$ from two projections of width $f$, and a matrix projects back to $h$.
#
# **Guess first.** At 8,192 tokens, a GPT layer of equal width keeps how many times as much as a Llama-3-8B layer?

# %%
predict("u03-llama-factor", None, "times")

# %% A modern layer, to the byte [markdown] exercise="u03-llama-layer-bytes" points=3 minutes=15 difficulty=4 importance=5
# **Write** `llama_layer_bytes`: the bytes that one such layer keeps if activations take `element_bytes` bytes per element. Weights do not count. Each key is worth a third of the points.
#
# | key | what |
# |---|---|
# | `"norms"` | both RMSNorms |
# | `"attention"` | from the input of the three projections to that of the output projection, both included |
# | `"feed_forward"` | from the input of gate and up to that of the matrix back to $h$, both included |
#
# The sizes are `model.hidden_size`, `.num_heads`, `.num_kv_heads`, `.head_dim`, `.ffn_size`.
#
# *By hand:* the model `small` (width 4, 2 heads, 1 key-value head, inner width 3) on 1 sequence of 2 tokens in bf16 → **48**, **80**, **64**.


# %% solution="u03-llama-layer-bytes"
def llama_layer_bytes(
    model: ModelConfig, num_sequences: int, seq_len: int, element_bytes: int
) -> dict[str, int]:
    """Bytes that one Llama layer with fused attention keeps for backward, by part."""
    ### BEGIN SOLUTION
    tokens = num_sequences * seq_len
    stream = element_bytes * tokens * model.hidden_size
    queries = element_bytes * tokens * model.num_heads * model.head_dim
    keys = values = element_bytes * tokens * model.num_kv_heads * model.head_dim
    result, log_sum_exp = queries, 4 * tokens * model.num_heads
    inner = element_bytes * tokens * model.ffn_size
    return {
        "norms": 2 * (stream + 4 * tokens),
        "attention": stream + queries + keys + values + result + log_sum_exp,
        "feed_forward": stream + 4 * inner,
    }
    ### END SOLUTION


# %%
try_it(llama_layer_bytes, small, 1, 2, 2)

# %% check="u03-llama-layer-bytes"
# A real layer: multi-head, grouped-query and multi-query attention; bf16 and fp32; Llama-3-8B.

# %% [markdown]
# <details><summary>Hint: my feed-forward block keeps too little</summary>
#
# Write $\mathrm{silu}(g) \cdot u$ as two operations. What does each keep, and what does the matrix after them keep?
# </details>
#
# <details><summary>Hint: my attention keeps too much</summary>
#
# The result of fused attention is the input of the output projection. How often is it in memory?
# </details>

# %% [markdown]
# **Check your guess** against all 32 layers of Llama-3-8B on fake tensors:

# %% folded=true tags=["nbval-check-output"]
# Measured: the layers of Llama-3-8B at 8,192 tokens
llama_of = answer("u03-llama-layer-bytes", llama_layer_bytes)
llama = preset("Llama-3-8B")
with fake_tensors():
    layers = nn.Sequential(*(Block(llama, n, "cpu", torch.bfloat16) for n in range(32)))
    stream = torch.empty(1, 8192, 4096, dtype=torch.bfloat16)
    llama_saved = count_saved_bytes(lambda: layers(stream), layers)
print(f"computed {32 * sum(llama_of(llama, 1, 8192, 2).values()):,} bytes")
print(f"measured {llama_saved.total_bytes:,}")
compare(
    "u03-llama-factor",
    "times",
    computed=sum(gpt_of(1, 8192, 4096, 32).values()) / sum(llama_of(llama, 1, 8192, 2).values()),
    measured=measured_gpt_layer(8192) / (llama_saved.total_bytes / 32),
)

# %% [markdown]
# The whole saving comes from fused attention, which keeps no scores: what is left is linear in length. The rest grew, from 34 to 41 bytes per $s\,b\,h$, because of the feed-forward block: the gate keeps four inner tensors of $3.5h$ where GELU kept two of $4h$.

# %% [markdown]
# ## The whole model
#
# Around the layers are
#
# - the embedding, which keeps the **token ids**, 8 bytes each, to know which rows get gradients;
# - a last RMSNorm, and the head, a linear layer to $v$ logits per token;
# - the loss: logits are converted to fp32, and the cross-entropy keeps its **log-softmax**, equally large, and the **targets**, 8 bytes each.

# %% [markdown]
# `sequence_bytes` of the course adds up what **one more sequence** keeps: the layers, and these parts beside them. (An extra asks you to write it.) Compare it with the model: Llama-3.2-1B at 4,096 tokens, two sequences minus one.


# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: one more sequence through Llama-3.2-1B and its loss
def kept_for(num_sequences):
    with fake_tensors():
        model = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        ids, targets = (torch.zeros(num_sequences, 4096, dtype=torch.long) for _ in range(2))
        loss = count_saved_bytes(lambda: token_loss(model(ids), targets, is_fp32=True), model)
    return loss.total_bytes


def bytes_of_sequence(name, seq_len=4096):
    layer = sum(llama_of(preset(name), 1, seq_len, 2).values())
    return activations.sequence_bytes(preset(name), seq_len, layer)


compare(
    "u03-sequence",
    "bytes",
    computed=bytes_of_sequence("Llama-3.2-1B"),
    measured=kept_for(2) - kept_for(1),
)

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Table: how much of a sequence of 4,096 tokens is the loss?
rows = {}
for name in ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"):
    total, log_softmax = bytes_of_sequence(name), 4 * 4096 * preset(name).vocab_size
    rows[name] = {"GiB": round(total / 2**30, 1), "of which loss": f"{log_softmax / total:.0%}"}
pd.DataFrame(rows).T

# %% [markdown]
# In a small model with a large vocabulary, the loss takes a quarter. It is in no layer, so no trick inside the layers makes it smaller.

# %% [markdown]
# ## How much fits?
#
# The memory that the state leaves free is divided among sequences: (memory − $16N$) // bytes of one. **Guess first:** how many sequences of 4,096 tokens of Llama-3.2-1B fit in 80 GB?

# %%
predict("u03-fits", None, "sequences")

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Computed: sequences of 4,096 tokens that fit beside the state of Llama-3.2-1B
left = 80 * 10**9 - sum(state_of(measured_parameters("Llama-3.2-1B"), "bf16").values())
compare(
    "u03-fits",
    "sequences",
    computed=left // bytes_of_sequence("Llama-3.2-1B"),
    measured=left // (kept_for(2) - kept_for(1)),
)

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Table: and on other devices
rows = {}
for name in ("Llama-3.2-1B", "Llama-3-8B"):
    state, each = 16 * measured_parameters(name), bytes_of_sequence(name)
    rows[name] = {f"{gb} GB": max(0, (gb * 10**9 - state) // each) for gb in (40, 80, 141)}
pd.DataFrame(rows).T

# %% [markdown]
# This counts all gradients and all saved tensors at once, and leaves out short-lived tensors. Unit 04 measures the true peak. Lecture E's plot, redrawn for the model it names:

# %% folded=true
# Figure: Llama-3-8B with attention written out
memory_over_length("Llama-3-8B", "written out")

# %% [markdown]
# *Selective* recomputation recomputes the core of attention, *full* a whole layer from its input; you build both in unit 05. With the scores in memory, sequence length dominates.

# %% Why not 8B on one device? [markdown] exercise="u03-why-not-8b" points=1 minutes=5 difficulty=2 importance=4
# **Write** three or four sentences:
#
# - Lecture S says that a model whose weights, gradients and optimizer states do not fit cannot be trained (S13). For Llama-3-8B, Adam and one 80 GB device: which number decides, why don't shorter sequences and recomputation help, and what would have to change?
# - Your count and the process agreed after the step, but not at the peak. Where did the 8 bytes per parameter come from?

# %% [markdown] text_answer="u03-why-not-8b"
# <!-- BEGIN SOLUTION -->
# Weights, gradients and optimizer states take 16 bytes for each of 8.03 billion parameters, 128 GB, before any activation. They do not depend on the batch, so shorter sequences or recomputation cannot help: those shrink activations only. The state itself has to become smaller or be spread: sharding over several devices, an optimizer with smaller states, training only a part of the weights, or moving states to the host.
#
# At its peak the process held 24 bytes per parameter instead of 16: AdamW's step creates two temporary tensors of 4 bytes per parameter, the root of the second moment and the root divided by its correction, and frees them. A count of what stays leaves out what is temporary. (In a model of many tensors the loop does this for one tensor at a time; PyTorch's default on a GPU does it for all at once, but divides in place, so that 16 N becomes 20 N.)
#
# *Rubric:* a third for 16 N = 128 GB independent of the batch, a third for something that shrinks or spreads the state, a third for temporaries of the optimizer's step.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points.

# %% [markdown]
# ### The whole model, to the byte

# %% What one more sequence keeps [markdown] exercise="u03-sequence-bytes" points=2 minutes=8 difficulty=3 importance=4 extra=true
# **Write** `sequence_bytes`: how many more bytes a whole Llama-like model keeps for each additional sequence, in **bf16** with the loss in **fp32**. `layer_bytes` is what one layer keeps for one sequence.
#
# *By hand:* the model `small`, 2 tokens, 200 bytes per layer; the last norm 24, the head's input 16, the log-softmax 40, ids and targets 32 → **512**.


# %% solution="u03-sequence-bytes"
def sequence_bytes(model: ModelConfig, seq_len: int, layer_bytes: int) -> int:
    """Bytes that one more sequence keeps for backward, in bf16 with the loss in fp32."""
    ### BEGIN SOLUTION
    stream = 2 * seq_len * model.hidden_size
    last_norm, head_input = stream + 4 * seq_len, stream
    log_softmax = 4 * seq_len * model.vocab_size
    ids_and_targets = 2 * 8 * seq_len
    around = last_norm + head_input + log_softmax + ids_and_targets
    return model.num_layers * layer_bytes + around
    ### END SOLUTION


# %%
try_it(sequence_bytes, small, 2, 200)

# %% check="u03-sequence-bytes"
# Two sequences minus one on real models: small and large vocabularies; Llama-3.2-1B and 8B.

# %% [markdown]
# <details><summary>Hint: I am off by a few bytes per token</summary>
#
# List every operation from the token ids to the loss. What does the derivative of each need? Which of these are 8-byte integers?
# </details>

# %% [markdown]
# ### Build the instrument
#
# PyTorch lets you intercept what autograd saves. A **pack** function gets every tensor when it is saved; an **unpack** function returns it when backward needs it.


# %% tags=["nbval-check-output"]
def pack(tensor):
    print("saved:", tuple(tensor.shape))
    return tensor.detach()  # with its graph, a saved result would keep itself alive


with saved_tensors_hooks(pack, lambda packed: packed):
    loss = torch.relu(layer(x)).sum()

# %% [markdown]
# The weight arrives as a **view** of the same memory: its shape here is (3, 5), the parameter's is (5, 3). The memory itself is a **storage**. `tensor.untyped_storage()` has `.nbytes()`, and `._cdata`, an id that all views of a storage share. Whatever views are saved, a storage is in memory once, and as a whole.

# %% A counter of saved bytes [markdown] exercise="u03-microscope" points=3 minutes=18 difficulty=4 importance=4 extra=true
# **Write** `saved_bytes`: run `call()` once and return the bytes of the storages that autograd saves while it runs. Each storage counts once, in full, even if it is freed before `call` ends; those behind `parameters` do not count.
#
# Leave no trace: backward through the result still works, you keep nothing in memory, and no hook stays installed. If `call` raises, its error reaches the caller.
#
# *By hand:* a linear layer from 3 to 5 on 2 rows in fp32, then relu → **64**.


# %% solution="u03-microscope"
def saved_bytes(call: Callable[[], Tensor], parameters: list[Tensor]) -> int:
    """Bytes of the storages that autograd saves while a call runs, parameters aside."""
    ### BEGIN SOLUTION
    leave_out = {each.untyped_storage()._cdata for each in parameters}
    storages = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in leave_out:
            storages[storage._cdata] = storage
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
    return sum(storage.nbytes() for storage in storages.values())
    ### END SOLUTION


# %%
try_it(saved_bytes, lambda: torch.relu(layer(x)), list(layer.parameters()))

# %% check="u03-microscope"
# Layers that share an input; views; transposed weights; masks and indices; bf16 and fp32; no gradient at all, grad disabled, storages freed within the call, results never used; the meta device.

# %% [markdown]
# <details><summary>Hint: it counts too much when two layers read the same input</summary>
#
# What could you remember about a tensor, so that you recognize its memory when it arrives as another view?
# </details>
#
# <details><summary>Hint: it counts too little for a part of a larger tensor</summary>
#
# As long as one view is alive, how much of the storage can be freed?
# </details>

# %% [markdown]
# **Compare it with the course's instrument** on a feed-forward block of Llama:

# %% folded=true tags=["nbval-check-output"]
# Measured: your counter and the course's
counter = answer("u03-microscope", saved_bytes)
block = Block(ModelConfig(num_layers=1, hidden_size=64, num_heads=4, ffn_size=160, vocab_size=1), 0)
hidden = torch.ones(2, 16, 64, requires_grad=True)
compare(
    "u03-block",
    "bytes",
    computed=counter(lambda: block.ffn(hidden), list(block.parameters())),
    measured=count_saved_bytes(lambda: block.ffn(hidden), block).total_bytes,
)

# %% Other precisions, with and without dropout [markdown] exercise="u03-element-bytes" points=2 minutes=8 difficulty=3 importance=3 extra=true
# Does fp32 double everything? **Write** `layer_bytes`: the bytes that the GPT layer of 03.4 keeps for **one** sequence if its numbers take `element_bytes` bytes, with or without its three dropouts. The norms' statistics are always in fp32.
#
# *By hand:* $s = 3$, $h = 8$, $a = 2$ in fp32 with dropout → **1,794**; without → **1,656**.


# %% solution="u03-element-bytes"
def layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """Bytes that one GPT layer keeps for one sequence."""
    ### BEGIN SOLUTION
    stream, scores = seq_len * hidden_size, num_heads * seq_len**2
    numbers = (2 + 5 + 9) * stream + scores
    masks = 0
    if has_dropout:
        numbers += scores  # the result of the scores' dropout
        masks = 2 * stream + scores
    statistics = 2 * 2 * seq_len
    return element_bytes * numbers + masks + 4 * statistics
    ### END SOLUTION


# %%
try_it(layer_bytes, 3, 8, 2, 4, True)
try_it(layer_bytes, 3, 8, 2, 4, False)

# %% check="u03-element-bytes"
# Two and four bytes; with and without dropout; one head and many.

# %% [markdown]
# <details><summary>Hint: fp32 with dropout is wrong</summary>
#
# In $34\,s\,b\,h$ and $5\,a\,s^2\,b$, which bytes are masks? Do they grow with the precision?
# </details>

# %% [markdown]
# ### A gate that keeps less
#
# Autograd sees `silu(g) * u` as two operations and keeps three tensors: g, silu(g) and u. Backward could recompute one of them from the others. An `autograd.Function` decides for itself what it keeps:


# %% tags=["nbval-check-output"]
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


print(count_saved_bytes(lambda: Cube.apply(x)).total_bytes)

# %% A fused gate [markdown] exercise="u03-fused-gate" points=2 minutes=15 difficulty=4 importance=3 extra=true
# **Write** `gate`: `silu(g) * u` for two tensors of one shape, by an `autograd.Function` that keeps `g` and `u` for backward. All or nothing:
#
# - The result and the gradients are right, also for large $|g|$, and if only one of the two requires a gradient.
# - Autograd saves `g` and `u` themselves, not copies. Install no saved-tensor hooks: they would hide from the check what is kept.
# - Nothing else stays alive, neither on `ctx` nor in a closure.
#
# *Reminder:* $\mathrm{silu}(g) = g\,\sigma(g)$, and its derivative is $\sigma(g)\,\bigl(1 + g\,(1 - \sigma(g))\bigr)$.
#
# *By hand:* $g = 1$, $u = 2$ → **1.4621**; the gradients are **1.8553** for $g$, **0.7311** for $u$.


# %% solution="u03-fused-gate"
def gate(g: Tensor, u: Tensor) -> Tensor:
    """silu(g) * u, keeping only g and u."""
    ### BEGIN SOLUTION

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, g, u):
            ctx.save_for_backward(g, u)
            return F.silu(g) * u

        @staticmethod
        def backward(ctx, upstream):
            g, u = ctx.saved_tensors
            sigma = g.sigmoid()
            return upstream * u * sigma * (1 + g * (1 - sigma)), upstream * g * sigma

    return Gate.apply(g, u)
    ### END SOLUTION


# %%
try_it(gate, torch.tensor([1.0]), torch.tensor([2.0]))

# %% check="u03-fused-gate"
# Results and gradients, large numbers included; bytes kept, with leaves and frozen inputs too; bytes that stay alive unseen.

# %% [markdown]
# <details><summary>Hint: my results are right, but three tensors are kept</summary>
#
# Which tensors do you pass to `save_for_backward`? Which of them can backward compute from the others?
# </details>

# %% [markdown]
# What is it worth? Llama-3-8B at 8,192 tokens, with the course's fused gate:

# %% folded=true tags=["nbval-check-output"]
# Measured: all layers with and without a fused gate
with fake_tensors():
    fused = Kernels(is_gate_fused=True)
    layers = nn.Sequential(*(Block(llama, n, "cpu", torch.bfloat16, fused) for n in range(32)))
    stream = torch.empty(1, 8192, 4096, dtype=torch.bfloat16)
    lean = count_saved_bytes(lambda: layers(stream), layers)
print(f"{llama_saved.total_bytes / 2**30:.1f} GiB without, {lean.total_bytes / 2**30:.1f} with it")

# %% [markdown]
# ### Where did 2·s·b·h go?
#
# This attention is correct, but keeps one tensor more than it needs:


# %% tags=["nbval-check-output"]
def wasteful_attend(q, k, v, rotate):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (b, a, s, d)
    q, k = (rotate(x.transpose(1, 2)).transpose(1, 2).contiguous() for x in (q, k))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(-2)


q, k, v = (torch.ones(1, 16, n, 8, requires_grad=True) for n in (4, 2, 2))
output = nn.Linear(32, 32, bias=False)
pd.DataFrame(count_saved_bytes(lambda: output(wasteful_attend(q, k, v, rotate)), output).tensors)

# %% [markdown]
# The last row is the culprit: the output projection reads a *copy* of attention's result. `flatten` can return a view only if the numbers are already in the right order, and fused attention writes its output in the queries' layout.

# %% Repair the attention [markdown] exercise="u03-lost-bytes" points=2 minutes=6 difficulty=2 importance=2 extra=true
# **Write** `lean_attend`: the same attention without the copy. `q` has the shape (b, s, a, d), `k` and `v` (b, s, a_kv, d); `rotate` rotates tensors of these shapes; the result has the shape (b, s, a·d). All or nothing: results, gradients, and the bytes kept, the projection's input included.
#
# *By hand:* for `q`, `k`, `v` and `output` above, **6,400** bytes; `wasteful_attend` keeps 8,448.


# %% solution="u03-lost-bytes"
def lean_attend(q: Tensor, k: Tensor, v: Tensor, rotate: Callable[[Tensor], Tensor]) -> Tensor:
    """Causal attention with rotary positions, without a copy of its result."""
    ### BEGIN SOLUTION
    heads_first = [each.transpose(1, 2) for each in (rotate(q), rotate(k), v)]
    result = F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True)
    return result.transpose(1, 2).flatten(2)
    ### END SOLUTION


# %%
def kept_with_output(attention):
    return count_saved_bytes(lambda: output(attention(q, k, v, rotate)), output).total_bytes


try_it(kept_with_output, wasteful_attend)
try_it(kept_with_output, lean_attend)

# %% check="u03-lost-bytes"
# Multi-head, grouped-query and multi-query attention; results and gradients in float64; bytes, including the projection after it.

# %% [markdown]
# <details><summary>Hint: my results are right, and a copy is kept</summary>
#
# Which word in the code above makes a copy? What is the queries' layout after it, and which layout does `flatten` need?
# </details>

# %% [markdown]
# ## What you know now
#
# | quantity | bytes |
# |---|---|
# | training state | $16N$ ($18N$, $20N$ with more gradients), plus the optimizer's temporaries |
# | linear, GELU / softmax / norm | its input / its result / input and statistics |
# | dropout / addition | 1 per number / none |
# | GPT layer, 16 bits | $34\,sbh + 5\,as^2b + 16\,sb$ |
# | Llama layer, $e$ bytes per number, heads as wide as the model | $e\,(6\,sbh + 2\,sbh\,a_{kv}/a + 4\,sbf) + 4\,asb + 8\,sb$ |
# | log-softmax of the loss, fp32 | $4\,sbv$ |
# | sequences that fit | (memory $- 16N$) // bytes of one |
#
# **Your plan** can now say that Llama-3-8B does not fit on one device, and what to attack: spread the state, 128 GB (units 09 and 10), and recompute the activations (unit 05). Its limit, 83 GB, is what the driver gives of “80 GB”, 79.1 GiB, less 2 GB for context and NCCL.
#
# *Further reading:* Korthikanti et al. 2022, *Reducing Activation Recomputation*, section 4 (15 minutes), where 34 and 5 come from. Rajbhandari et al. 2020, *ZeRO*, section 3 (10 minutes), where 16 comes from. PyTorch's *Hooks for saved tensors* (10 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("03")
