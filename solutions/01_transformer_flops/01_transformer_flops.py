# ---
# jupyter:
#   course:
#     title: How much work is a transformer?
#     device: CPU
#     needs: ["00"]
#     lecture: [S1, S2, S3, S4, S5, S6, S7, B1, B2, B6, B12, E11]
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
# ![A stack of bars for one token of Llama-3-8B in training at 4,096 tokens: 51 billion FLOPs; feed-forward blocks 34, projections 8, attention core 6, output head 3. Fifteen trillion tokens of it are 7.7 times ten to the 23 FLOPs.](hero.svg)
#
# Where do these FLOPs come from, and what would change them? You start with one matrix product, count a whole model down to the last FLOP, and check each formula against a model that runs without using any memory.
#
# Your training plan is empty so far. This unit gives it its first numbers: work, time and cost.
#
# 1. **Compute** the FLOPs of a matrix product, of attention, of a feed-forward block and of a whole model.
# 2. **Measure** them at full model size, without a GPU and without the memory.
# 3. **Explain** why training takes three times the FLOPs of inference, and where it does not.
# 4. **Decide** at what length attention matters, and how many GPU-days a run takes.
#
# | here | lecture S | meaning |
# |---|---|---|
# | `rows`, `inner`, `columns` | M, D, N | of a product A·B; in a linear layer tokens, input width, output width |
# | $b$ sequences of $s$ tokens | L tokens, one sequence | the batch |
# | $h$, $a$, $d_h$ | D = H · D′ | width, heads, head width; often, not always, $h = a \cdot d_h$ |
# | $a_{kv}$ | | key and value heads |
# | $f$ | F | inner width of the feed-forward block |
#
# A code such as S3 names an item of a lecture; `docs/lectures.md` lists them. Boxes titled *From the slides* use the slides' letters: L is tokens there, layers here. Better language models have taken more compute, year after year (S1).

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import pandas as pd
import torch

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import MODELS, Device, LatentAttention, ModelConfig, device, preset
from course_utils.formulas.parameters import active_parameters, parameters
from course_utils.instruments import count_flops, measure_roofline, time_call
from course_utils.reference import Transformer
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.layers import MultiHeadLatentAttention, attend
from course_utils.show import (
    Choice,
    computed_and_measured,
    explorer,
    flop_shares,
    layer_diagram,
    shares_over_length,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## One small product
#
# A has 2 rows, B has 5 columns, and each entry of the result is a sum of 3 products. The first entry below is 1·1 + 2·1 + 3·1: 3 multiplications, and 3 additions if the sum starts at zero. **The convention of this course:** a multiply and an add are two operations (**FLOPs**). Ten entries of 6 make 60. The **instrument** `count_flops` records each matrix product and its shapes:

# %% tags=["nbval-check-output"]
a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
b = torch.ones(3, 5)
count_flops(lambda: a @ b).forward_flops

# %% [markdown]
# **Guess first.** How many FLOPs will the backward pass take, if A and B both require a gradient?

# %%
predict("u01-backward", None, "FLOPs")

# %% folded=true tags=["nbval-check-output"]
# Measured: the backward pass of the small product
a_with_grad = torch.ones(2, 3, requires_grad=True)
b_with_grad = torch.ones(3, 5, requires_grad=True)
both = count_flops(lambda: a_with_grad @ b_with_grad)
compare("u01-backward", "FLOPs", measured=both.backward_flops)

# %% [markdown]
# **Guess again, larger.** In Llama-3-8B, one matrix of the feed-forward block maps 4,096 numbers to 14,336. Send 4,096 tokens through it. How many FLOPs does the **forward** product take? A power of ten is a fine guess.

# %%
predict("u01-mlp-matmul", None, "FLOPs")

# %% FLOPs of a matrix product, forward and backward [markdown] exercise="u01-matmul-flops" points=2 minutes=6 difficulty=1 importance=5
# **Write** `matmul_flops`: for A (`rows` × `inner`) times B (`inner` × `columns`), a dictionary with `"forward_flops"` and `"backward_flops"`. The backward pass computes the gradients of A **and** of B from the gradient of the result. Each key is worth half of the points.
#
# *By hand:* rows 2, inner 3, columns 5 → forward **60**, backward **120**.


# %% solution="u01-matmul-flops"
def matmul_flops(rows: int, inner: int, columns: int) -> dict[str, int]:
    """FLOPs of one matrix product and of its backward pass."""
    ### BEGIN SOLUTION
    one_product = 2 * rows * inner * columns
    two_gradients = 2 * one_product
    return {"forward_flops": one_product, "backward_flops": two_gradients}
    ### END SOLUTION


# %%
try_it(matmul_flops, 2, 3, 5)

# %% check="u01-matmul-flops"
# Square, odd, unequal sizes; one row, column or inner entry; real layers.

# %% [markdown]
# <details><summary>Hint: my forward count is exactly half</summary>
#
# Each entry of the result takes `inner` multiplications. How do the products become one number, and how many operations is that?
# </details>
#
# <details><summary>Hint: I do not see what the backward pass computes</summary>
#
# Write down the shapes of A, of B and of the gradient of the result. Which two of these, one of them transposed, multiply to the shape of A? And to that of B?
# </details>

# %% [markdown]
# **Check your guess** on the **meta device**, where PyTorch runs every operation on shapes alone, in almost no time and no memory.

# %% folded=true tags=["nbval-check-output"]
# Measured: one feed-forward matrix of Llama-3-8B
flops_of = answer("u01-matmul-flops", matmul_flops)
tokens = torch.empty(4096, 4096, device="meta", requires_grad=True)
weight = torch.empty(4096, 14336, device="meta", requires_grad=True)
compare(
    "u01-mlp-matmul",
    "FLOPs",
    computed=flops_of(4096, 4096, 14336)["forward_flops"],
    measured=count_flops(lambda: tokens @ weight).forward_flops,
)

# %% [markdown]
# Forward is one product, backward is two of the same size. So training takes **three times** the FLOPs of a forward pass, and the 6 in "6 FLOPs per parameter and token" is this 3, times 2 for multiply and add. Where does that fail? In the very first layer, whose input is the data:

# %% folded=true tags=["nbval-check-output"]
# Measured: the backward pass of a first layer
data = torch.ones(2, 3)
compare(
    "u01-first-layer",
    "FLOPs",
    computed=flops_of(2, 3, 5)["backward_flops"],
    measured=count_flops(lambda: data @ b_with_grad).backward_flops,
)

# %% Which product is missing? [markdown] exercise="u01-first-layer" points=1 minutes=3 difficulty=1 importance=4
# **Write** two sentences: which of the two products of the backward pass did not run, and why? How many times the FLOPs of inference does training this layer take?

# %% [markdown] text_answer="u01-first-layer"
# <!-- BEGIN SOLUTION -->
# The product that gives the gradient of the *input* did not run: the input is data, nothing before it is trained, and nothing needs its gradient. That leaves the forward product and the one for the weights, so training takes *twice* the FLOPs of inference here.
#
# *Rubric:* half for the input's gradient and why nothing needs it, half for the factor of two.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Attention
#
# One layer of Llama-3-8B, with the FLOPs of each operation on one sequence of 4,096 tokens:

# %% folded=true
# Diagram: the FLOPs of one layer
layer_diagram(preset("Llama-3-8B"), num_sequences=1, seq_len=4096, show="flops")

# %% [markdown]
# Attention (S2, S4) computes **queries** with $a$ heads of $d_h$ numbers, **keys** and **values** with $a_{kv}$ heads. It compares every query with every key (the scores), weights the values by the result, and projects the heads back to the model's width $h$. With $a_{kv} < a$, each group of query heads shares one key head and one value head.
#
# **Guess first.** Llama-3-8B has 32 query heads and 8 key-value heads. By what factor would the FLOPs of its attention **core** (scores and weighted values) change with 32 key-value heads?

# %%
predict("u01-gqa-core", None, "times")

# %% FLOPs of attention [markdown] exercise="u01-attention-flops" points=2 minutes=13 difficulty=2 importance=5
# **Write** `attention_flops`: the forward FLOPs of one layer's attention, a dictionary with `"projection_flops"` (queries, keys, values, output) and `"core_flops"` (scores and weighted values), each worth half of the points. Here, the width $h$ is `num_heads * head_dim`.
#
# *Convention:* the full square of scores counts, even if a causal mask hides half of it. Softmax and rotations count as zero.
#
# *By hand:* 1 sequence of 3 tokens, 2 query heads of 4, 1 key-value head → projections **1,152**, core **288**.


# %% solution="u01-attention-flops"
def attention_flops(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> dict[str, int]:
    """FLOPs of one layer's attention, forward."""
    ### BEGIN SOLUTION
    tokens, width = num_sequences * seq_len, num_heads * head_dim
    shared_width = num_kv_heads * head_dim
    query_and_output = 2 * (2 * tokens * width * width)
    key_and_value = 2 * (2 * tokens * width * shared_width)
    scores = num_sequences * num_heads * (2 * seq_len * head_dim * seq_len)
    return {
        "projection_flops": query_and_output + key_and_value,
        "core_flops": 2 * scores,
    }
    ### END SOLUTION


# %%
try_it(attention_flops, 1, 3, 2, 1, 4)

# %% check="u01-attention-flops"
# Multi-head, grouped-query and multi-query attention; one sequence and several.

# %% [markdown]
# <details><summary>Hint: my projections are too large for some models</summary>
#
# Write down the shapes of the four weight matrices. Which of them get narrower when key and value heads are shared?
# </details>
#
# <details><summary>Hint: my core is right for one sequence only</summary>
#
# Draw two sequences of three tokens, and all the query-key pairs that are multiplied. How many pairs are there?
# </details>

# %% [markdown]
# **Check your guess** about shared heads:


# %% folded=true tags=["nbval-check-output"]
# Measured: the core with 32 and with 8 key-value heads
def measured_core(num_kv_heads):
    q = torch.empty(1, 4096, 32, 128, device="meta")
    kv = torch.empty(1, 4096, num_kv_heads, 128, device="meta")
    return count_flops(lambda: attend(q, kv, kv)).forward_flops


compare("u01-gqa-core", "times", measured=measured_core(32) / measured_core(8))

# %% [markdown]
# Sharing shrinks two projections and the memory for keys and values. It does not shrink the core: every query head still attends to every token.

# %% [markdown]
# ## The gated feed-forward block
#
# Llama, Mistral, Qwen and DeepSeek use a **gated** block (S2, S5): two matrices project width $h$ up to inner width $f$, one of them followed by an activation; the results are multiplied elementwise, and a third matrix goes back down.

# %% FLOPs of a gated feed-forward block [markdown] exercise="u01-gated-mlp-flops" points=1 minutes=4 difficulty=1 importance=4
# **Write** `gated_mlp_flops`: the forward FLOPs of one block. Activation and elementwise product count as zero.
#
# *By hand:* 1 token, width 2, inner width 3 → **36**.


# %% solution="u01-gated-mlp-flops"
def gated_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """FLOPs of one gated feed-forward block, forward."""
    ### BEGIN SOLUTION
    one_product = 2 * num_tokens * hidden_size * ffn_size
    return 3 * one_product  # up, gate and down
    ### END SOLUTION


# %%
try_it(gated_mlp_flops, 1, 2, 3)

# %% check="u01-gated-mlp-flops"
# One token and many, square and odd sizes, real layers.

# %% [markdown]
# <details><summary>Hint: I get two thirds</summary>
#
# How many matrices does the text above name, and which ones did you count?
# </details>
#
# <details><summary>From the slides: 72% of a layer, and two transformations</summary>
#
# Lecture S gives the gated block about 10 D² parameters (10.5 with F = 3.5 D) and attention 4 D²: 72% of the layer; in FLOPs 29 L D² + 4 D L² (L tokens, S4, S7). Llama-3-8B shares keys and values, so attention has only 2.5 D² and the block 81%. Lecture B says the block has *two* linear transformations, but its formula, 18 · ffn/dim, is right for three.
# </details>

# %% [markdown]
# ## The whole model
#
# An embedding looks up rows and multiplies nothing. Then come $L$ layers, and an output head that turns the $h$ numbers of a token into one logit for each of $v$ vocabulary entries. A `ModelConfig` holds the sizes of a model:

# %% tags=["nbval-check-output"]
preset("Llama-3.2-1B")

# %% [markdown]
# **Guess first.** How many FLOPs does one **token** cost when Llama-3.2-1B, with its 1.24 billion parameters, trains on sequences of 4,096 tokens?

# %%
predict("u01-llama-1b", None, "FLOPs")

# %% FLOPs of a whole model [markdown] exercise="u01-model-flops" points=3 minutes=13 difficulty=3 importance=5
# **Write** `model_flops`: the FLOPs of one forward pass of a Llama-like model, from token ids to logits. Use `model.num_layers`, `.hidden_size`, `.num_heads`, `.num_kv_heads`, `.head_dim`, `.ffn_size`, `.vocab_size`. `num_heads * head_dim` need not equal `hidden_size`. A tied output head (the embedding's matrix) costs the same.
#
# *By hand:* two layers, width 4, one head of 4, inner width 3, vocabulary 5, one sequence of 2 tokens → 464 per layer, 80 for the head: **1,008**.


# %% solution="u01-model-flops"
def model_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> int:
    """FLOPs of one forward pass, from token ids to logits."""
    ### BEGIN SOLUTION
    tokens, width = num_sequences * seq_len, model.num_heads * model.head_dim
    shared_width = model.num_kv_heads * model.head_dim
    projections = 4 * tokens * model.hidden_size * (width + shared_width)
    core = 4 * num_sequences * width * seq_len**2
    feed_forward = 6 * tokens * model.hidden_size * model.ffn_size
    head = 2 * tokens * model.hidden_size * model.vocab_size
    return model.num_layers * (projections + core + feed_forward) + head
    ### END SOLUTION


# %%
small = ModelConfig(num_layers=2, hidden_size=4, num_heads=1, ffn_size=3, vocab_size=5)
try_it(model_flops, small, 1, 2)

# %% check="u01-model-flops"
# Tied and untied heads; multi-head, grouped-query and multi-query attention; several sequences.

# %% [markdown]
# <details><summary>Hint: mine is right for one layer only</summary>
#
# Which parts does a model have once, and which once per layer?
# </details>
#
# <details><summary>Hint: mine is right for one sequence only</summary>
#
# Which part of your formula grows faster than the number of sequences?
# </details>

# %% [markdown]
# **Check your guess** against the count for Llama-3.2-1B. Your guess was for training (both passes), one token:

# %% folded=true tags=["nbval-check-output"]
# Measured: Llama-3.2-1B on the meta device
flops_of_model = answer("u01-model-flops", model_flops)
llama_1b = preset("Llama-3.2-1B")
built = Transformer(llama_1b, device="meta")
ids = torch.zeros(1, 4096, dtype=torch.long, device="meta")
counted = count_flops(lambda: built(ids))
print(f"forward: {flops_of_model(llama_1b, 1, 4096):,} computed, {counted.forward_flops:,} counted")
compare("u01-llama-1b", "FLOPs", measured=sum(counted) // 4096)

# %% [markdown]
# **The rule of thumb, checked.** 6 FLOPs per parameter and token give 7.4·10⁹, 82% of the count. The rule leaves out the attention core, which multiplies activations by activations and has no parameters.
#
# How does the output head's share change from a small model to a large one?

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    flop_shares,
    model=Choice("model", list(MODELS), "Llama-3.2-1B"),
    seq_len=Choice("sequence, tokens", [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], 4096),
)

# %% [markdown]
# <details><summary>From the slides: a million tokens for L, and a head of "limited impact"</summary>
#
# One slide sets L to a million-token batch: "12 D · 10¹²" (S7). Attention never crosses sequences, so what is squared is the sequence length, once per sequence; at 8,192 tokens the slide's core is 122 times too large. Another leaves out the output head for its "limited impact": it is 17% of Llama-3.2-1B at 4,096 tokens.
# </details>

# %% [markdown]
# ### On real hardware
#
# FLOPs are work, not time. **Guess first.** A small Llama trains for one step on this machine, on one thread. The machine's *peak* is the rate of a large product. What share of that peak does the step reach? This share is called **model FLOPs utilization**, MFU (B12).

# %%
predict("u01-laptop", None, "share of the peak")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: one training step on this machine against its peak (about 10 seconds)
laptop = ModelConfig(num_layers=4, hidden_size=256, num_heads=4, ffn_size=704, vocab_size=4096)
model = Transformer(laptop)
laptop_ids = torch.zeros(2, 256, dtype=torch.long)


def training_step():
    model(laptop_ids).logsumexp(-1).sum().backward()


flops_of_step = 3 * flops_of_model(laptop, 2, 256)
threads = torch.get_num_threads()
torch.set_num_threads(1)
peak = measure_roofline("cpu")
seconds = time_call(training_step, num_runs=5, device="cpu").median_seconds
torch.set_num_threads(threads)
print(peak)
print(f"FLOPs ÷ peak {flops_of_step / peak.flops_per_second * 1e3:8.0f} ms")
print(f"the clock    {seconds * 1e3:8.0f} ms")
compare(
    "u01-laptop",
    "share of the peak",
    measured=flops_of_step / peak.flops_per_second / seconds,
)

# %% [markdown]
# The rest of the time goes to what counts as zero FLOPs: norms, softmax, the gate, additions. They compute little, but they read and write memory (unit 02). Good runs on A100s reach 40 to 60%. (Times vary: run the cell twice.)

# %% [markdown]
# ## Where training is not three times inference
#
# The gradient of a **weight** is computed only if that weight is trained, and that of a layer's **input** only if an earlier layer is trained.

# %% A stack with frozen layers [markdown] exercise="u01-stack-training-flops" points=2 minutes=11 difficulty=3 importance=3
# A stack of linear layers without biases maps `widths[0]` numbers to `widths[1]`, and so on; `is_trained[n]` says whether the matrix from `widths[n]` to `widths[n + 1]` is trained.
#
# **Write** `stack_training_flops`: the FLOPs of one forward and one backward pass on `num_tokens` tokens of data, which requires no gradient. If no matrix is trained, only the forward pass counts.
#
# *By hand:* 2 tokens, widths `[3, 5, 7]`, both trained → first layer: 60 forward, 60 for its weight; second: 140 forward, 140 for its weight, 140 for its input: **540**. With `[True, False]` → **400**.


# %% solution="u01-stack-training-flops"
def stack_training_flops(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
    """FLOPs of one forward and one backward pass through a stack of linear layers."""
    ### BEGIN SOLUTION
    total = 0
    for n, trained in enumerate(is_trained):
        one_product = 2 * num_tokens * widths[n] * widths[n + 1]
        num_products = 1 + trained + any(is_trained[:n])  # forward, for the weight, for the input
        total += num_products * one_product
    return total
    ### END SOLUTION


# %%
try_it(stack_training_flops, 2, [3, 5, 7], [True, True])
try_it(stack_training_flops, 2, [3, 5, 7], [True, False])

# %% check="u01-stack-training-flops"
# One to four layers; all, none, the first, the last or one of them trained.

# %% [markdown]
# <details><summary>Hint: it fails where the first layers are frozen</summary>
#
# Go backward from the loss, layer by layer. At which layer can autograd stop, because no earlier layer needs a gradient?
# </details>

# %% [markdown]
# ## When does attention overtake the rest?
#
# Products with weights are linear in batch and length, and quadratic in width. The core is linear in batch and width, and **quadratic in length** (B2). At what length does it reach half the layer's FLOPs?

# %% The crossover length [markdown] exercise="u01-crossover-length" points=2 minutes=9 difficulty=3 importance=4
# **Write** `crossover_length`: the smallest whole length, in tokens, at which the attention core of a layer takes at least as many FLOPs as the rest of that layer: projections and gated feed-forward block. `num_heads * head_dim` need not equal `hidden_size`.
#
# *By hand:* width 4, one head of 4, inner width 3 → per token, the rest takes 200 FLOPs and the core 16 · s: equal at 12.5, so **13**.


# %% solution="u01-crossover-length"
def crossover_length(model: ModelConfig) -> int:
    """The first length at which a layer's attention core has caught up with the rest."""
    ### BEGIN SOLUTION
    h, width = model.hidden_size, model.num_heads * model.head_dim
    shared_width = model.num_kv_heads * model.head_dim
    rest = 4 * h * (width + shared_width) + 6 * h * model.ffn_size  # for each token
    core = 4 * width  # for each token, and each token of the length
    length, left_over = divmod(rest, core)
    return length + (left_over > 0)
    ### END SOLUTION


# %%
try_it(crossover_length, small)

# %% check="u01-crossover-length"
# Multi-head, grouped-query and multi-query attention; narrow and wide blocks; real models.

# %% [markdown]
# <details><summary>Hint: I am off by one for some models</summary>
#
# What is the answer when the two sides meet between two whole lengths? Which of your operations rounds, and in which direction?
# </details>

# %% [markdown]
# A layer of Llama-3-8B, plotted with your own functions:

# %% folded=true
# Figure: shares of a layer over the length
attention_of = answer("u01-attention-flops", attention_flops)
mlp_of = answer("u01-gated-mlp-flops", gated_mlp_flops)
crossover_of = answer("u01-crossover-length", crossover_length)
llama = preset("Llama-3-8B")
lengths = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
layers = [attention_of(1, s, llama.num_heads, llama.num_kv_heads, llama.head_dim) for s in lengths]
shares_over_length(
    lengths,
    {
        "projections": [layer["projection_flops"] for layer in layers],
        "feed_forward": [mlp_of(s, llama.hidden_size, llama.ffn_size) for s in lengths],
        "attention": [layer["core_flops"] for layer in layers],
    },
    crossover=crossover_of(llama),
)

# %% [markdown]
# <details><summary>From the slides: a majority for most L &lt; 4D</summary>
#
# Lecture S says that the feed-forward blocks are the majority "for most L < 4D" (S7), with L for tokens. In the slide's own layer (F = 3.5 D, keys and values for every head) they are more than half of the layer below 3.25 D, and more than the core below 5.25 D. 4 D is right for Llama-3-8B, where four query heads share a key and a value head.
# </details>

# %% [markdown]
# ## GPU-days
#
# Lecture B (B1) says that Llama-3-8B on 15 trillion tokens takes about 8·10²³ FLOPs, and at 40% utilization about 71,600 A100-days. An A100 does at most 312·10¹² FLOP/s in bf16; data sheets also print twice that, for matrices in which half the entries are zero.


# %% folded=true tags=["nbval-check-output"]
# Measured: the FLOPs of the run, and its GPU-days
def gpu_days(flops_of_run, peak_flops_per_second, utilisation):
    return flops_of_run / (peak_flops_per_second * utilisation) / (24 * 60 * 60)


llama_counted = count_flops(lambda: Transformer(llama, device="meta")(ids))
llama_flops_per_token = sum(llama_counted) // 4096
flops_of_run = 15 * 10**12 * llama_flops_per_token
a100 = device("A100-80").dense_flops_per_second("bf16")
print(f"from the slide's 8e23: {gpu_days(8e23, a100, 0.4):,.0f} A100-days")
print(f"FLOPs per token at 4,096: {llama_flops_per_token:,}")
print(f"FLOPs of the run: {flops_of_run:.3g}")
print(f"from those: {gpu_days(flops_of_run, a100, 0.4):,.0f} A100-days")

# %% [markdown]
# The 71,600 comes from the exact count, 7.72·10²³; 8·10²³ is that number rounded up. On 60 nodes of 8 A100s it is 149 days.

# %% [markdown]
# ## Repair the slide
#
# To know how well a run uses its device, you need the training FLOPs per token. Lecture B (B12) gives
#
# $$\text{layers} \cdot \text{dim}^2 \cdot \left(12 + 12\,\tfrac{\text{groups}}{\text{heads}} + 18\,\tfrac{\text{ffn}}{\text{dim}} + 12\,\tfrac{\text{seq}}{\text{dim}} + 6\,\tfrac{\text{vocab}}{\text{dim}}\right)$$
#
# where *groups* are the key-value heads. Compared with the count for Llama-3.2-1B at 4,096 tokens:

# %% folded=true tags=["nbval-check-output"]
# Measured: the printed formula over the count
dim, ffn, vocab = llama_1b.hidden_size, llama_1b.ffn_size, llama_1b.vocab_size
kv_share = llama_1b.num_kv_heads / llama_1b.num_heads
bracket = 12 + 12 * kv_share + 18 * ffn / dim + 12 * 4096 / dim + 6 * vocab / dim
printed = llama_1b.num_layers * dim**2 * bracket
print(f"{printed / (sum(counted) / 4096):.2f} times too large")

# %% Repair the printed formula [markdown] exercise="u01-training-flops-per-token" points=2 minutes=6 difficulty=2 importance=5
# **Write** `training_flops_per_token`: the repaired formula: FLOPs per token, forward and backward, an exact `int`. As in the formula, `num_heads * head_dim` equals `hidden_size`. Multiply before you divide: `/` loses the last digits of large integers, and `//` too early drops a remainder.
#
# *By hand:* the model `small` on sequences of 2 tokens → printed 1,632, counted **1,512**.


# %% solution="u01-training-flops-per-token"
def training_flops_per_token(model: ModelConfig, seq_len: int) -> int:
    """FLOPs of training on one token: lecture B's formula, repaired."""
    ### BEGIN SOLUTION
    dim = model.hidden_size
    shared_heads = 12 * dim**2 * model.num_kv_heads // model.num_heads
    layer = 12 * dim**2 + shared_heads + 18 * dim * model.ffn_size + 12 * dim * seq_len
    head = 6 * model.vocab_size * dim
    return model.num_layers * layer + head
    ### END SOLUTION


# %%
try_it(training_flops_per_token, small, 2)

# %% check="u01-training-flops-per-token"
# Models with num_heads * head_dim = hidden_size, counted forward and backward.

# %% [markdown]
# <details><summary>Hint: I do not see the mistake</summary>
#
# Multiply out the bracket for a model with one layer, then with two. Which term should not have doubled?
# </details>

# %% [markdown]
# ## Extras
#
# Bonus points, in any order. The recap is at the end.
#
# ### Which N belongs in 6N?
#
# Lecture E (E11) counts the parameters of a GPT as N = h·v + L·(12·h² + 13·h) + 2·h. But the 6 comes from matrix products, and not every parameter is used in one:

# %% folded=true tags=["nbval-check-output"]
# Table: three estimates over the exact count
per_token_of = answer("u01-training-flops-per-token", training_flops_per_token)


def estimates(model):
    exact, parts = per_token_of(model, 4096), parameters(model)
    head = parts["embedding"]  # of the same shape, whether it is the same matrix or not
    multiplying = parts["attention"] + parts["feed_forward"] + head
    core = 12 * model.num_layers * model.hidden_size * 4096
    return {
        "6 N, all parameters": 6 * sum(parts.values()) / exact,
        "6 · weights in matrix products": 6 * multiplying / exact,
        "6 · weights in matrix products + 12 · L · h · s": (6 * multiplying + core) / exact,
    }


names = ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B")
estimated = pd.DataFrame({name: estimates(preset(name)) for name in names})
estimated.map("{:.1%} of the exact count".format)

# %% [markdown]
# The right N counts only weights in matrix products; then only the core is missing. For 8B, counting all parameters looks better because two errors partly cancel: the embedding, wrongly counted, makes up for some of the missing core.

# %% One run under four conventions [markdown] exercise="u01-utilisation" points=2 minutes=12 difficulty=3 importance=4 extra=true
# "We reach 50%" means little until you know which FLOPs were divided by which peak. Four conventions are in use:
#
# | key | training FLOPs of a token |
# |---|---|
# | `"counted"` | all matrix products, with the full square of attention |
# | `"causal"` | the same, but exactly half of the attention core |
# | `"six_n"` | 6 per parameter, *all* `num_params` of them, no core |
# | `"six_n_and_attention"` | the same, and the full core |
#
# **Write** `utilisation`: for each key the share of a device's **dense** peak that a run in **bf16** reaches, from 0 to 1, a `float` correct to nine significant digits. Each key is worth a quarter of the points. `num_heads * head_dim` need not equal `hidden_size`, so the repaired formula is not enough. `hardware.dense_flops_per_second("bf16")` gives the peak, `.sparse_flops_per_second` that for matrices in which half the entries are zero.
#
# *By hand:* `small` has 260 parameters; 2 tokens per sequence, 10¹⁰ tokens per second, an A100 → in the order of the table, rounded: **0.04846**, **0.04538**, **0.05**, **0.05615**.


# %% solution="u01-utilisation"
def utilisation(
    model: ModelConfig, num_params: int, seq_len: int, tokens_per_second: int, hardware: Device
) -> dict[str, float]:
    """Share of a device's peak that a training run reaches, by four conventions."""
    ### BEGIN SOLUTION
    width = model.num_heads * model.head_dim
    core = 12 * model.num_layers * width * seq_len
    projections = 2 * model.hidden_size * (width + model.num_kv_heads * model.head_dim)
    layer = projections + 3 * model.hidden_size * model.ffn_size
    rest = 6 * (model.num_layers * layer + model.vocab_size * model.hidden_size)
    share_of_one_flop = tokens_per_second / hardware.dense_flops_per_second("bf16")
    return {
        "counted": (rest + core) * share_of_one_flop,
        "causal": (rest + core / 2) * share_of_one_flop,
        "six_n": 6 * num_params * share_of_one_flop,
        "six_n_and_attention": (6 * num_params + core) * share_of_one_flop,
    }
    ### END SOLUTION


# %%
try_it(utilisation, small, 260, 2, 10**10, device("A100-80"))

# %% check="u01-utilisation"
# Every device of the course; tied and untied heads; multi-head and grouped-query attention.

# %% [markdown]
# <details><summary>Hint: all four of mine are off by the same factor</summary>
#
# Is the factor 2, 3 or 100? Which of these would come from the peak, which from the passes, which from percent?
# </details>

# %% [markdown]
# **A published run:** Llama-3.1-8B at 8,192 tokens on 8 H100s, 6,667 tokens per second on each (torchtitan, compiled; H100s with 96 GB of HBM2e, 2.4 TB/s, at 500 W).

# %% folded=true tags=["nbval-check-output"]
# Table: one run, four counts, two peaks
utilisation_of = answer("u01-utilisation", utilisation)
h100 = device("H100-SXM")
dense = utilisation_of(llama, sum(parameters(llama).values()), 8192, 6667, h100)
of_sparse = h100.dense_flops_per_second("bf16") / h100.sparse_flops_per_second("bf16")
pd.DataFrame(
    {
        "dense peak": {name: f"{share:.1%}" for name, share in dense.items()},
        "sparse peak": {name: f"{share * of_sparse:.1%}" for name, share in dense.items()},
    }
)

# %% [markdown]
# The same run: 16 to 41%. Compare two runs only under the same convention; in this course, that is *counted*, over the dense peak.

# %% The price of longer sequences [markdown] exercise="u01-budget-ratio" points=2 minutes=8 difficulty=3 importance=3 extra=true
# Lecture B (B6) asks what it costs to cut a fixed budget of tokens into longer sequences: quadratic per sequence, "linear" per token. How linear?
#
# **Write** `budget_ratio`: the ratio of new to old training FLOPs when sequences change from `old_seq_len` to `new_seq_len` tokens, for **one sequence** (`"per_sequence"`) and for **the whole budget** (`"whole_budget"`), each a `float` correct to nine significant digits and worth half of the points. The output head counts. `num_heads * head_dim` need not equal `hidden_size`. The budget is so large that no sequence is left over.
#
# *By hand:* `small` from 2 to 4 tokens → 1,008 and 2,272 FLOPs forward, half as many sequences: rounded, **2.25397** and **1.12698**.


# %% solution="u01-budget-ratio"
def budget_ratio(model: ModelConfig, old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    """How the FLOPs of a sequence, and of a fixed number of tokens, change with the length."""
    ### BEGIN SOLUTION
    width, shared_width = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    projections = 4 * model.hidden_size * (width + shared_width)
    layer = projections + 6 * model.hidden_size * model.ffn_size
    constant = model.num_layers * layer + 2 * model.hidden_size * model.vocab_size
    slope = 4 * model.num_layers * width
    old_token, new_token = constant + slope * old_seq_len, constant + slope * new_seq_len
    longer = new_seq_len / old_seq_len
    return {
        "per_sequence": new_token / old_token * longer,
        "whole_budget": new_token / old_token,
    }
    ### END SOLUTION


# %%
try_it(budget_ratio, small, 2, 4)

# %% check="u01-budget-ratio"
# Longer and shorter sequences; multi-head, grouped-query and multi-query attention.

# %% [markdown]
# <details><summary>Hint: I do not see how the size of the budget enters</summary>
#
# Write the FLOPs of the budget as the number of sequences times the FLOPs of each. Which letter cancels in the ratio?
# </details>

# %% [markdown]
# Training FLOPs per token of Llama-3.2-1B, against sequence length:


# %% folded=true
# Figure: FLOPs per token over the length
per_token_of = answer("u01-training-flops-per-token", training_flops_per_token)


def counted_per_token(seq_len):
    ids = torch.zeros(1, seq_len, dtype=torch.long, device="meta")
    return sum(count_flops(lambda: built(ids))) // seq_len


some_lengths = [512, 4096, 8192, 16384, 32768]
computed_and_measured(
    some_lengths,
    computed=[per_token_of(llama_1b, s) / 1e9 for s in some_lengths],
    measured=[counted_per_token(s) / 1e9 for s in some_lengths],
    size_label="tokens in a sequence",
    unit="GFLOPs per token",
    is_log=False,
)

# %% [markdown]
# The line does not start at zero: projections, feed-forward blocks and head do not look at other tokens. While they dominate, doubling the length adds at most half.

# %% [markdown]
# ### Latent attention
#
# Grouped heads are one way to store fewer keys and values; DeepSeek's **multi-head latent attention** (S6) is another. In training, for each token $x$ of width $h$:
#
# - queries: $x$ is projected to `q_rank` numbers, and those to $a$ heads of `nope_head_dim + rope_head_dim`;
# - keys and values: $x$ is projected to a **latent** vector of `kv_rank` numbers, and that, for each head, to a key of `nope_head_dim` and a value of `value_head_dim`;
# - position: $x$ is projected to **one** rotary key of `rope_head_dim`, which every head appends to its own key;
# - output: the value heads are projected back to $h$ numbers.

# %% FLOPs of latent attention [markdown] exercise="u01-latent-attention-flops" points=2 minutes=15 difficulty=4 importance=2 extra=true
# **Write** `latent_attention_flops`: the forward FLOPs of one such layer's attention, a dictionary with `"projection_flops"` and `"core_flops"`, each worth half of the points. Softmax, norms and rotations count as zero. The sizes are in `model.latent_attention`: `.q_rank`, `.kv_rank`, `.nope_head_dim`, `.rope_head_dim`, `.value_head_dim`; the number of heads is `model.num_heads`.
#
# *By hand:* width 8, two heads, ranks 3 and 5, head widths 4, 2 and 3, one sequence of 2 tokens → 234 weights: **936**; the core takes 96 and 48: **144**.


# %% solution="u01-latent-attention-flops"
def latent_attention_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """FLOPs of one layer's latent attention, forward, as in training."""
    ### BEGIN SOLUTION
    sizes, h, heads = model.latent_attention, model.hidden_size, model.num_heads
    key_width = sizes.nope_head_dim + sizes.rope_head_dim
    query = h * sizes.q_rank + sizes.q_rank * heads * key_width
    latent_and_rotary_key = h * (sizes.kv_rank + sizes.rope_head_dim)
    key_and_value = sizes.kv_rank * heads * (sizes.nope_head_dim + sizes.value_head_dim)
    output = heads * sizes.value_head_dim * h
    weights = query + latent_and_rotary_key + key_and_value + output
    pairs = num_sequences * heads * seq_len**2
    return {
        "projection_flops": 2 * num_sequences * seq_len * weights,
        "core_flops": 2 * pairs * (key_width + sizes.value_head_dim),
    }
    ### END SOLUTION


# %%
small_latent = ModelConfig(
    num_layers=1,
    hidden_size=8,
    num_heads=2,
    ffn_size=3,
    vocab_size=5,
    latent_attention=LatentAttention(
        q_rank=3, kv_rank=5, nope_head_dim=4, rope_head_dim=2, value_head_dim=3
    ),
)
try_it(latent_attention_flops, small_latent, 1, 2)

# %% check="u01-latent-attention-flops"
# One head and many; values narrower and wider than keys; DeepSeek-V3.

# %% [markdown]
# <details><summary>Hint: my projections are right for one head only</summary>
#
# Queries, keys, values, the two narrow vectors, the rotary key: which of them exist once per head, and which only once per token?
# </details>

# %% [markdown]
# One layer of DeepSeek-V3 at 4,096 tokens, counted, and compared with 128 ordinary heads of 128:

# %% folded=true tags=["nbval-check-output"]
# Measured: one layer of DeepSeek-V3
latent_of = answer("u01-latent-attention-flops", latent_attention_flops)
deepseek = preset("DeepSeek-V3")
layer = MultiHeadLatentAttention(deepseek, deepseek.latent_attention, "meta")
stream = torch.empty(1, 4096, deepseek.hidden_size, device="meta")
latent = latent_of(deepseek, 1, 4096)
compare(
    "u01-latent",
    "FLOPs",
    computed=sum(latent.values()),
    measured=count_flops(lambda: layer(stream)).forward_flops,
)

# %% folded=true tags=["nbval-check-output"]
# Table: latent against ordinary attention
ordinary_core = attention_of(1, 4096, 128, 128, 128)["core_flops"]
ordinary_projections = 2 * 4096 * (4 * deepseek.hidden_size * 128 * 128)
kept = deepseek.latent_attention.kv_rank + deepseek.latent_attention.rope_head_dim
pd.DataFrame(
    {
        "latent": [latent["projection_flops"], latent["core_flops"], kept],
        "ordinary": [ordinary_projections, ordinary_core, 2 * 128 * 128],
    },
    index=["FLOPs of the projections", "FLOPs of the core", "numbers kept for each token"],
).map("{:,}".format)

# %% [markdown]
# The projections get cheaper, and the core more expensive. The point of the design is the last row: the memory for keys and values when the model generates text.

# %% Total and active parameters of a mixture of experts [markdown] exercise="u01-expert-parameters" points=2 minutes=8 difficulty=2 importance=3 extra=true
# A **mixture of experts** has many gated feed-forward blocks in a layer. A **router**, a single matrix, gives each token a score for every expert, and the token goes to the few with the highest scores. **Shared** experts see every token. **Active** parameters are those that one token uses.
#
# **Write** `expert_parameters`: a dictionary with `"total_parameters"` and `"active_parameters"` of the experts and the router of one layer, each worth half of the points. All experts, shared ones too, are gated blocks of inner width `expert_ffn_size`. `num_experts` leaves out the shared ones.
#
# *By hand:* width 4, three experts of inner width 5, one per token, none shared → one expert has 60, the router 12: total **192**, active **72**.


# %% solution="u01-expert-parameters"
def expert_parameters(
    hidden_size: int,
    num_experts: int,
    experts_per_token: int,
    expert_ffn_size: int,
    num_shared_experts: int,
) -> dict[str, int]:
    """Parameters of one layer of experts: all of them, and those that one token uses."""
    ### BEGIN SOLUTION
    router = hidden_size * num_experts
    one_expert = 3 * hidden_size * expert_ffn_size
    return {
        "total_parameters": router + (num_experts + num_shared_experts) * one_expert,
        "active_parameters": router + (experts_per_token + num_shared_experts) * one_expert,
    }
    ### END SOLUTION


# %%
try_it(expert_parameters, 4, 3, 1, 5, 0)

# %% check="u01-expert-parameters"
# With and without shared experts; the layers of Mixtral and DeepSeek-V3.

# %% [markdown]
# <details><summary>Hint: my active parameters are slightly too small</summary>
#
# How does a token know where to go?
# </details>

# %% [markdown]
# Total is what the layer's tensors hold; active is half the forward FLOPs per token. One layer of DeepSeek-V3, and whole models:

# %% folded=true tags=["nbval-check-output"]
# Measured: a DeepSeek-V3 expert layer on 256 tokens
experts_of = answer("u01-expert-parameters", expert_parameters)
deepseek = preset("DeepSeek-V3")
experts = MixtureOfExperts(deepseek, deepseek.experts, "meta")
stream = torch.empty(1, 256, deepseek.hidden_size, device="meta")
pd.DataFrame(
    {
        "computed": experts_of(7168, 256, 8, 2048, 1),
        "measured": {
            "total_parameters": sum(each.numel() for each in experts.parameters()),
            "active_parameters": count_flops(lambda: experts(stream)).forward_flops // (2 * 256),
        },
    }
).map("{:,}".format)

# %% folded=true tags=["nbval-check-output"]
# Table: active shares of whole models
for name in ("Llama-3-70B", "Mixtral-8x7B", "DeepSeek-V3"):
    total = sum(parameters(preset(name)).values())
    active = sum(active_parameters(preset(name)).values())
    print(f"{name}: {total / 1e9:.1f} billion parameters, {active / total:.0%} of them active")

# %% [markdown]
# Training FLOPs grow with the active parameters; the memory for the training state grows with all of them.

# %% [markdown]
# ## What you know now
#
# | quantity | formula |
# |---|---|
# | A·B | 2 · rows · inner · columns |
# | projections of a layer | $4\,b\,s\,h\,d_h\,(a + a_{kv})$ |
# | attention core of a layer | $4\,b\,a\,d_h\,s^2$ |
# | gated feed-forward block | $6\,b\,s\,h\,f$ |
# | output head | $2\,b\,s\,h\,v$ |
# | training, per token, if $a\,d_h = h$ | $L\,h^2\,(12 + 12\,a_{kv}/a + 18\,f/h + 12\,s/h) + 6\,h\,v$ |
# | crossover length, if $a\,d_h = h$ | $h\,(1 + a_{kv}/a) + 1.5\,f$, rounded up |
# | GPU-days of a run | FLOPs / (peak · utilization · 86,400) |
#
# **Your plan** has its first numbers. All 15 trillion tokens would take eight A100s 25 years, so the plan uses 100 billion, and H100s. It cannot yet say whether the model fits at all (unit 03).
#
# *Further reading:* Kaplan et al. 2020, *Scaling Laws*, section 2.1 (15 minutes), where 6N comes from. Hoffmann et al. 2022, *Compute-Optimal Models*, section 3 (15 minutes). Shazeer 2020, *GLU Variants* (10 minutes), why the block has a gate.

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("01")
