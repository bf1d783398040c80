# ---
# jupyter:
#   course:
#     title: Transformer FLOPs
#     minutes: 110
#     device: CPU
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

# %% [markdown]
# # 01 · Transformer FLOPs
#
# How much arithmetic does a transformer take? Almost all of it is matrix products. You begin with one of them and end with the compute of a whole training run.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture S (*Scaling LLM Training, Part I*), compute (S1, S2, S3, S4, S5, S6, S7); lecture B (*Building LLMs in Practice*), B1, B2, B6 and B12; lecture E (*Efficient LLMs*), E11 | 110 minutes, and 50 for the extras | CPU | 00 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Compute** the FLOPs of a matrix product, of attention, of a feed-forward block and of a whole model.
# 2. **Measure** them on a model's sizes without a GPU and without the memory for it.
# 3. **Explain** why training takes three times the FLOPs of inference, and where it does not.
# 4. **Decide** at which length attention matters, and how many GPU-days a run takes.

# %% [markdown]
# ## Why count at all?
#
# More compute makes better language models, and the models that set marks have taken more and more of it (S1). Compute is what every other choice of this course is paid with.

# %% [markdown]
# ## Symbols of this lecture
#
# | here | lecture S | meaning |
# |---|---|---|
# | `rows` | M | rows of A; in a linear layer the tokens of the batch |
# | `inner` | D | what is summed over; the layer's input width |
# | `columns` | N | columns of B; the layer's output width |

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import pandas as pd
import torch

from autograder import answer, check, compare, predict
from course_utils.configs import MODELS, Device, LatentAttention, ModelConfig, device, preset
from course_utils.formulas.parameters import active_parameters, parameters
from course_utils.instruments import count_flops
from course_utils.reference import Transformer
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.layers import MultiHeadLatentAttention, attend
from course_utils.show import (
    computed_and_measured,
    explorer,
    flop_shares,
    shares_over_length,
    try_it,
)

# %% [markdown]
# ## A tour: one small product
#
# A has 2 rows, B has 5 columns, and 3 numbers meet in each entry of the result.

# %%
a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
b = torch.ones(3, 5)
a @ b

# %% [markdown]
# Take the first entry by hand: 1·1 + 2·1 + 3·1. That is 3 multiplications, and 3 additions if the sum starts at zero. **Convention of the whole course:** a multiply and an add are two operations (**FLOPs**, floating-point operations), so this entry takes 6 FLOPs. Count all ten entries, one operation after the other:


# %% tags=["nbval-check-output"]
def count_by_hand(rows, inner, columns):
    operations = 0
    for _ in range(rows * columns):  # one entry of the result
        for _ in range(inner):
            operations += 2  # one multiply, one add
    return operations


count_by_hand(2, 3, 5)

# %% [markdown]
# For a whole model nobody counts like this. An **instrument** watches which matrix products PyTorch runs, and on which shapes, and counts each by the same convention. *Which* products run, forward and backward, it sees for itself:

# %% tags=["nbval-check-output"]
count_flops(lambda: a @ b)

# %% [markdown]
# No backward pass: nobody asked for a gradient. **Predict** before you ask: the forward product took 60 FLOPs. How many will the backward pass take, when A and B both want a gradient?

# %%
predict("u01-backward", None, "FLOPs")

# %% tags=["nbval-check-output"]
a_wanting = torch.ones(2, 3, requires_grad=True)
b_wanting = torch.ones(3, 5, requires_grad=True)
both = count_flops(lambda: a_wanting @ b_wanting)
compare("u01-backward", "FLOPs", measured=both.backward_flops)

# %% [markdown]
# ## Predict, implement, measure, explain
#
# **Predict.** In Llama-3-8B, one of the matrices of the feed-forward block takes 4,096 numbers to 14,336. Send 4,096 tokens through it. How many FLOPs is the **forward** product? A power of ten is a fine guess: `1e10`, say.

# %%
predict("u01-mlp-matmul", None, "FLOPs")

# %% FLOPs of a matrix product, forward and backward [markdown] exercise="u01-matmul-flops" points=2 minutes=6 difficulty=1 importance=5
# **Write** `matmul_flops`: for A (`rows` × `inner`) times B (`inner` × `columns`), a dictionary with `"forward_flops"` and `"backward_flops"`, two `int`s. The backward pass finds the gradients of A **and** of B from the gradient of the result. Each entry is half of the points.
#
# *Convention:* a multiply and an add are two operations; every entry of a result is a sum that starts at zero.
#
# *Worked case:* rows 2, inner 3, columns 5: forward **60**, backward **120**.


# %% solution="u01-matmul-flops"
def matmul_flops(rows: int, inner: int, columns: int) -> dict[str, int]:
    """FLOPs of one matrix product and of its backward pass.

    Args:
        rows: Rows of A.
        inner: Columns of A and rows of B.
        columns: Columns of B.

    Returns:
        "forward_flops" and "backward_flops".
    """
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
# <details><summary>My forward count is exactly half</summary>
#
# In one entry of the result, `inner` products are formed. How do they become one number, and how many operations is that?
# </details>
#
# <details><summary>I do not see what the backward pass computes</summary>
#
# Write down the shapes of A, of B and of the gradient of the result. Which two of these three, one of them transposed, can be multiplied to give something of the shape of A? And of B? How large are those two products?
# </details>

# %% [markdown]
# **Measure.** The same product on the **meta device**: PyTorch goes through every operation on shapes alone, without numbers, so that the sizes of a large model cost next to no time and no memory.

# %% tags=["nbval-check-output"]
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
# And over the number of tokens, forward and backward together:


# %%
def measured_flops(num_tokens):
    tokens = torch.empty(num_tokens, 4096, device="meta", requires_grad=True)
    return sum(count_flops(lambda: tokens @ weight))


token_counts = [256, 1024, 4096, 16384, 65536]
computed_and_measured(
    token_counts,
    computed=[sum(flops_of(count, 4096, 14336).values()) for count in token_counts],
    measured=[measured_flops(count) for count in token_counts],
    size_label="tokens",
    unit="FLOPs",
)

# %% [markdown]
# **Explain.** Forward is one product, backward is two of the same size. So training takes **three times** the FLOPs of inference (here: one forward pass over the same tokens) for a linear layer where all three run, and the 6 in the rule of thumb "6 FLOPs for each parameter and token" is this 3 times the 2 of multiply and add.
#
# Where is it not three times? In the very first layer, whose input is the data:

# %% tags=["nbval-check-output"]
data = torch.ones(2, 3)
compare(
    "u01-first-layer",
    "FLOPs",
    computed=flops_of(2, 3, 5)["backward_flops"],
    measured=count_flops(lambda: data @ b_wanting).backward_flops,
)

# %% [markdown]
# The gap has a name: one of the two products of the backward pass is gone.

# %% Which product is gone? [markdown] exercise="u01-first-layer" points=1 minutes=3 difficulty=1 importance=4
# **Write** two sentences: which of the two products of the backward pass did not run, and why? How many times the FLOPs of inference does training this layer take?
#
# Double-click the cell below to write.

# %% [markdown] text_answer="u01-first-layer"
# <!-- BEGIN SOLUTION -->
# The product that gives the gradient of the *input* did not run: the input is data, nothing before it is trained, and nobody asked for its gradient. What remains is the forward product and the one for the weights, so training takes *twice* the FLOPs of inference here.
#
# *Rubric:* half for the input's gradient and why nobody wants it, half for the factor of two.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Attention of one layer
#
# A layer sees `b` sequences of `s` tokens, `h` numbers each. Attention (S2, S4) makes **queries** with `a` heads of `d_h` numbers, **keys** and **values** with `a_kv` heads, compares every query with every key (the scores), weighs the values with the result, and projects the heads back to `h`. With `a_kv = a` it is the lecture's attention; with fewer, groups of query heads share a key and a value head (grouped-query attention, as in Llama).
#
# | here | lecture S | meaning |
# |---|---|---|
# | `b` sequences of `s` tokens | L tokens, one sequence | the batch |
# | `h` = `a` · `d_h` | D = H · D′ | width, heads, head width |
# | `a_kv` | | key and value heads |
#
# **Predict.** Llama-3-8B has 32 query heads of 128 and 8 key-value heads. By what factor would the FLOPs of its attention *core* (scores and weighted values) change with 32 key-value heads?

# %%
predict("u01-gqa-core", None, "times")

# %% FLOPs of attention [markdown] exercise="u01-attention-flops" points=2 minutes=12 difficulty=2 importance=5
# **Write** `attention_flops`: the FLOPs of one layer's attention in the forward pass, as a dictionary with `"projection_flops"` (queries, keys, values, output) and `"core_flops"` (scores, and values weighed by them). Each is half of the points. The width is `num_heads * head_dim`.
#
# *Convention:* the full square of scores is counted, also where a causal mask hides half of it; softmax and rotary positions count as nothing.
#
# *Worked case:* 1 sequence of 3 tokens, 2 query heads of 4, 1 key-value head: width 8; projections 3·2·(8·8 + 8·4 + 8·4 + 8·8) = **1,152**; scores 2 heads · 3·3 · 2·4 = 144, values the same: **288**.


# %% solution="u01-attention-flops"
def attention_flops(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> dict[str, int]:
    """FLOPs of one layer's attention, forward.

    Args:
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        num_heads: Query heads a.
        num_kv_heads: Key and value heads a_kv.
        head_dim: Width d_h of one head.

    Returns:
        "projection_flops" and "core_flops".
    """
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
# <details><summary>My projections are too large for some models</summary>
#
# Write the shape of each of the four weight matrices. Which of them become narrower when key and value heads are shared?
# </details>
#
# <details><summary>My core is right for one sequence only</summary>
#
# Draw two sequences of three tokens and all pairs of query and key that are multiplied. How many pairs are there?
# </details>

# %% [markdown]
# **Measure.** The core alone on the meta device, with 8 and with 32 key-value heads:


# %% tags=["nbval-check-output"]
def measured_core(num_kv_heads):
    q = torch.empty(1, 4096, 32, 128, device="meta")
    kv = torch.empty(1, 4096, num_kv_heads, 128, device="meta")
    return count_flops(lambda: attend(q, kv, kv)).forward_flops


compare("u01-gqa-core", "times", measured=measured_core(32) / measured_core(8))

# %% [markdown]
# **Explain.** Sharing keys and values shrinks two projections and, as later units show, the memory that keys and values take. It does not shrink the core: every query head still meets every token.

# %% [markdown]
# ## The gated feed-forward block
#
# Llama, Mistral, Qwen and DeepSeek use a **gated** block (S2, S5): two matrices go up from `h` to `f`, one of them through an activation, the two results are multiplied element by element, and a third matrix goes down again.

# %% FLOPs of a gated feed-forward block [markdown] exercise="u01-gated-mlp-flops" points=1 minutes=5 difficulty=1 importance=4
# **Write** `gated_mlp_flops`: the FLOPs of one block in the forward pass, an `int`. Activation and gating count as nothing.
#
# *Worked case:* 1 token, width 2, inner width 3: three products of 2·3 numbers: **36**.


# %% solution="u01-gated-mlp-flops"
def gated_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """FLOPs of one gated feed-forward block, forward.

    Args:
        num_tokens: Tokens of the batch.
        hidden_size: Width h.
        ffn_size: Inner width f.
    """
    ### BEGIN SOLUTION
    up_and_gate = 2 * (2 * num_tokens * hidden_size * ffn_size)
    down = 2 * num_tokens * ffn_size * hidden_size
    return up_and_gate + down
    ### END SOLUTION


# %%
try_it(gated_mlp_flops, 1, 2, 3)

# %% check="u01-gated-mlp-flops"
# One token and many, square and odd sizes, real layers.

# %% [markdown]
# <details><summary>I am at two thirds</summary>
#
# How many matrices does the text above name, and which of them did you count?
# </details>

# %% [markdown]
# How large a share of a layer's parameters is that? The slide says about 10 h² (10.5 with f = 3.5 h) against 4 h² in attention, which is 72 %. In FLOPs the slide's layer takes (8 + 21) s h² + 4 s² h in the forward pass, in the slide's letters 29 L D² + 4 D L² (S4, S7), and three times that in training. Llama-3-8B shares keys and values among query heads, so that its attention has fewer parameters and the feed-forward block a larger share:

# %% tags=["nbval-check-output"]
llama = preset("Llama-3-8B")
h, f, shared = llama.hidden_size, llama.ffn_size, llama.num_kv_heads * llama.head_dim
feed_forward, attention = 3 * h * f, 2 * h * h + 2 * h * shared
print(f"feed-forward {feed_forward / h**2:.1f} h², attention {attention / h**2:.1f} h²")
print(f"share of the feed-forward block: {feed_forward / (feed_forward + attention):.1%}")

# %% [markdown]
# ## The whole model
#
# A model is an embedding, which looks rows up and multiplies nothing, `L` layers, and an output head that turns each token's `h` numbers into one logit for each of the `v` words of the vocabulary. Its sizes are in a `ModelConfig`:

# %% tags=["nbval-check-output"]
preset("Llama-3.2-1B")

# %% [markdown]
# **Predict.** How many FLOPs does one **token** cost when Llama-3.2-1B trains on sequences of 4,096 tokens? It has 1.24 billion parameters.

# %%
predict("u01-llama-1b", None, "FLOPs")

# %% FLOPs of a whole model [markdown] exercise="u01-model-flops" points=3 minutes=12 difficulty=3 importance=5
# **Write** `model_flops`: the FLOPs of one forward pass of a Llama-like model, from token ids to logits, an `int`. Use `model.num_layers`, `.hidden_size`, `.num_heads`, `.num_kv_heads`, `.head_dim`, `.ffn_size` and `.vocab_size`. Whether the head shares its matrix with the embedding changes the parameters, not the FLOPs.
#
# *Worked case:* two layers, width 4, one head of 4, inner width 3, vocabulary 5, one sequence of 2 tokens: for each layer 256 + 64 + 144, and 80 for the head: **1,008**.


# %% solution="u01-model-flops"
def model_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> int:
    """FLOPs of one forward pass, from token ids to logits.

    Args:
        model: Sizes of the model.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
    """
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
# <details><summary>Mine is right for one layer only</summary>
#
# Which parts of a model are there once, and which once for each layer?
# </details>
#
# <details><summary>Mine is right for one sequence only</summary>
#
# Which part of your formula grows faster than the number of sequences?
# </details>

# %% [markdown]
# **Measure.** The whole Llama-3.2-1B, built without memory and counted while it runs. Your function gives the forward pass; the prediction was about training, both passes, for one token:

# %% tags=["nbval-check-output"]
flops_of_model = answer("u01-model-flops", model_flops)
llama_1b = preset("Llama-3.2-1B")
built = Transformer(llama_1b, device="meta")
ids = torch.zeros(1, 4096, dtype=torch.long, device="meta")
counted = count_flops(lambda: built(ids))
computed_forward = flops_of_model(llama_1b, 1, 4096)
print(f"forward: {computed_forward:,} computed, {counted.forward_flops:,} counted")
compare("u01-llama-1b", "FLOPs", measured=sum(counted) // 4096)

# %% [markdown]
# **Explain.** The rule of thumb, 6 FLOPs for each parameter and token, gives 6 · 1.236·10⁹ = 7.4·10⁹. That is 82 % of the count just above, 9.03·10⁹: the rule leaves out the attention core, which multiplies activations with each other and has no parameters. (It counts the embedding, which multiplies nothing, in place of the head, and gets away with it because the two share one matrix here.)

# %% [markdown]
# **One slide puts a batch of a million tokens in for L** (S7): "12 D · 10¹²". Attention never crosses sequences, so the square is that of the sequence length, once for each sequence:

# %% tags=["nbval-check-output"]
D, tokens, length = 4096, 10**6, 8192
slide = 12 * D * tokens**2
true = 12 * D * tokens * length
print(f"the slide's attention core is {slide / true:.0f} times too large")

# %% [markdown]
# ## Where training is not three times inference
#
# Three times holds where both products of the backward pass run. The gradient of a **weight** is made only if that weight is trained. The gradient of a layer's **input** goes on to the layer before. It is made only if something before the layer is trained: nobody wants the gradient of the data.

# %% A stack with frozen layers [markdown] exercise="u01-stack-training-flops" points=2 minutes=10 difficulty=3 importance=3
# A stack of linear layers without biases takes `widths[0]` numbers to `widths[1]`, and so on; `is_trained[n]` says whether the n-th matrix is trained. Between the layers nothing else happens.
#
# **Write** `stack_training_flops`: the FLOPs of one forward and one backward pass on `num_tokens` tokens of data, an `int`.
#
# *Worked case:* 2 tokens, widths `[3, 5, 7]`, both trained: the first layer 60 and 60 for its weight, the second 140, 140 for its weight and 140 for its input: **540**. With `[True, False]` it is **400**.


# %% solution="u01-stack-training-flops"
def stack_training_flops(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
    """FLOPs of one forward and one backward pass through a stack of linear layers.

    Args:
        num_tokens: Tokens of data.
        widths: Numbers for each token before, between and after the layers.
        is_trained: For each layer whether its matrix is trained.
    """
    ### BEGIN SOLUTION
    total = 0
    below_is_trained = False
    for n, trained in enumerate(is_trained):
        one_product = 2 * num_tokens * widths[n] * widths[n + 1]
        num_products = 1 + int(trained) + int(below_is_trained)
        total += num_products * one_product
        below_is_trained = below_is_trained or trained
    return total
    ### END SOLUTION


# %%
try_it(stack_training_flops, 2, [3, 5, 7], [True, True])
try_it(stack_training_flops, 2, [3, 5, 7], [True, False])

# %% check="u01-stack-training-flops"
# One to four layers; all, none, the first, the last or one of them trained.

# %% [markdown]
# <details><summary>It fails where the first layers are frozen</summary>
#
# Go backwards from the loss, layer by layer. At which layer can autograd stop, because nobody before it waits for a gradient?
# </details>

# %% [markdown]
# ## Orders of growth
#
# Lecture B (B2) sums a layer up in orders: in the batch, the length and the width. **Predict.** By what factor does the attention core grow when the **length** doubles?

# %%
predict("u01-double-length", None, "times")

# %% tags=["nbval-check-output"]
attention_of = answer("u01-attention-flops", attention_flops)
mlp_of = answer("u01-gated-mlp-flops", gated_mlp_flops)


def parts_of_layer(num_sequences, seq_len, num_heads):
    width = 128 * num_heads
    attention = attention_of(num_sequences, seq_len, num_heads, num_heads, 128)
    feed_forward = mlp_of(num_sequences * seq_len, width, 4 * width)
    return pd.Series({**attention, "feed_forward_flops": feed_forward})


once = parts_of_layer(1, 4096, 32)
growth = pd.DataFrame(
    {
        "twice the batch": parts_of_layer(2, 4096, 32) / once,
        "twice the length": parts_of_layer(1, 8192, 32) / once,
        "twice the width": parts_of_layer(1, 4096, 64) / once,
    }
)
growth


# %% tags=["nbval-check-output"]
def core_at(seq_len):
    q = torch.empty(1, seq_len, 32, 128, device="meta")
    return count_flops(lambda: attend(q, q, q)).forward_flops


compare(
    "u01-double-length",
    "times",
    computed=growth["twice the length"]["core_flops"],
    measured=core_at(8192) / core_at(4096),
)

# %% [markdown]
# Products with weights: linear in batch and length, quadratic in the width. The core, which multiplies activations with each other: linear in the batch, **quadratic in the length**, and linear in the width (more heads of the same width).

# %% [markdown]
# ## When does attention overtake the rest?
#
# The core grows with the square of the length, everything else in a layer linearly. One slide says that the feed-forward blocks have the majority "for most L < 4D" (S7). Find out from where on the core is half of the layer or more.

# %% The crossover length [markdown] exercise="u01-crossover-length" points=2 minutes=8 difficulty=3 importance=4
# **Write** `crossover_length`: the smallest whole length at which the attention core of a layer takes at least as many FLOPs as all the rest of that layer, projections and gated feed-forward block, an `int`. The output head is no part of a layer.
#
# *Worked case:* width 4, one head of 4, inner width 3: the rest takes 200 FLOPs for each token, the core 16 · s: **13**. (A tie counts.)


# %% solution="u01-crossover-length"
def crossover_length(model: ModelConfig) -> int:
    """The first length at which a layer's attention core has caught up with the rest.

    Args:
        model: Sizes of the model.
    """
    ### BEGIN SOLUTION
    width = model.num_heads * model.head_dim
    shared_width = model.num_kv_heads * model.head_dim
    rest = 4 * model.hidden_size * (width + shared_width) + 6 * model.hidden_size * model.ffn_size
    core_for_each_token_of_length = 4 * width
    full, left_over = divmod(rest, core_for_each_token_of_length)
    return full + (left_over > 0)
    ### END SOLUTION


# %%
try_it(crossover_length, small)

# %% check="u01-crossover-length"
# Multi-head, grouped-query and multi-query attention; narrow and wide blocks; real models.

# %% [markdown]
# <details><summary>I am one off for some models</summary>
#
# What should come out when the two sides meet between two whole lengths? Which of your operations rounds, and in which direction?
# </details>

# %% [markdown]
# Your own functions draw the shares of a Llama-3-8B layer over the length:

# %%
crossover_of = answer("u01-crossover-length", crossover_length)
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
# What does the slide's "majority for most L < 4D" become? Written out with its own terms (f = 3.5 D, own keys and values for every head), and with those of Llama-3-8B:

# %% tags=["nbval-check-output"]
for name, kv_share in (("the slide's layer", 1), ("Llama-3-8B's layer", 8 / 32)):
    # FLOPs of one token in units of D²; the core takes 4 D² more for each D tokens of length
    projections, feed_forward, core_for_one_d = 4 * (1 + kv_share), 6 * 3.5, 4
    print(name)
    print(
        "  feed-forward is more than half of the layer below",
        (feed_forward - projections) / core_for_one_d,
        "D",
    )
    print("  feed-forward is more than the core below", feed_forward / core_for_one_d, "D")
    print(
        "  the core is half of the layer at",
        (feed_forward + projections) / core_for_one_d,
        "D, and more beyond",
    )

# %% [markdown]
# With the slide's own terms the majority ends at 3.25 D, not at 4 D; 4 D is right where four query heads share a key and a value head.

# %% [markdown]
# Move the sliders: where does the head of a small model stand against that of a large one?

# %%
explorer(
    flop_shares,
    model=(list(MODELS), "Llama-3-8B"),
    seq_len=([1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], 4096),
)

# %% [markdown]
# The same picture standing still. A slide leaves the output head out as of "limited impact": in a small model with a large vocabulary it is no small part.

# %%
flop_shares("Llama-3.2-1B", seq_len=4096)

# %% [markdown]
# ## GPU-days of a training run
#
# Lecture B (B1) gives Llama-3-8B on 15 trillion tokens: about 8·10²³ FLOPs, at 40 % utilisation about 71,600 A100-days. An A100 does at most 312·10¹² FLOP/s in bf16, its *dense* peak: data sheets also print a rate for matrices with half their entries zero, twice as high. **Utilisation** is the share of the dense peak that a run reaches.

# %% GPU-days of a run [markdown] exercise="u01-gpu-days" points=1 minutes=5 difficulty=2 importance=4
# **Write** `gpu_days`: the **days** that one device would need for a whole run, a `float`, right to nine digits.
#
# *Worked case:* 1,000 FLOPs for each of 86,400 tokens at a peak of 2,000 FLOP/s, half used: **1.0** day.


# %% solution="u01-gpu-days"
def gpu_days(
    flops_per_token: int, num_tokens: int, peak_flops_per_second: int, utilisation: float
) -> float:
    """Days that one device needs for a training run.

    Args:
        flops_per_token: FLOPs of training on one token, forward and backward.
        num_tokens: Tokens of the run.
        peak_flops_per_second: Dense peak of the device.
        utilisation: Share of the peak that is reached.
    """
    ### BEGIN SOLUTION
    reached_flops_per_second = peak_flops_per_second * utilisation
    seconds = flops_per_token * num_tokens / reached_flops_per_second
    return seconds / (24 * 60 * 60)
    ### END SOLUTION


# %%
try_it(gpu_days, 1000, 86_400, 2000, 0.5)

# %% check="u01-gpu-days"
# The run of lecture B, and runs from a laptop's size to the largest.

# %% [markdown]
# <details><summary>My number is far too small or too large</summary>
#
# Which of the four numbers are counts, which is a rate, which a share? Which must stand above the line, which below?
# </details>

# %% [markdown]
# **Reconcile the slide.** 8·10²³ FLOPs at 40 % of 312·10¹² FLOP/s are not 71,600 days:

# %% tags=["nbval-check-output"]
days_of = answer("u01-gpu-days", gpu_days)
llama_counted = count_flops(lambda: Transformer(llama, device="meta")(ids))
llama_flops_per_token = sum(llama_counted) // 4096
a100 = device("A100-80").dense_flops_per_second("bf16")
# The slide gives the FLOPs of the whole run, as if it were one large token.
print(f"from the slide's 8e23: {days_of(8 * 10**23, 1, a100, 0.4):,.0f} A100-days")
print(f"FLOPs per token at 4,096: {llama_flops_per_token:,}")
print(f"FLOPs of the run: {15 * 10**12 * llama_flops_per_token:.3g}")
print(f"from those: {days_of(llama_flops_per_token, 15 * 10**12, a100, 0.4):,.0f} A100-days")

# %% [markdown]
# The 71,600 follow from 7.72·10²³, the exact count at 4,096 tokens; 8·10²³ is the same number rounded up. On 60 nodes of 8 A100s (B1) that is 149 days. The model was trained at 8,192 tokens, where the full square makes it 80,563 A100-days, and half of the square, the part that a causal mask leaves, 71,601 again.

# %% [markdown]
# ## Repair the slide
#
# To say how well a run uses its device, one needs the FLOPs of one token in training. Lecture B (B12) prints
#
# > layers · dim² · (12 + 12 · groups/heads + 18 · ffn/dim + 12 · seq/dim + 6 · vocab/dim)
#
# where *groups* is the number of key-value heads. Against the count of Llama-3.2-1B at 4,096:

# %% tags=["nbval-check-output"]
dim, ffn, vocab = llama_1b.hidden_size, llama_1b.ffn_size, llama_1b.vocab_size
kv_share = llama_1b.num_kv_heads / llama_1b.num_heads
bracket = 12 + 12 * kv_share + 18 * ffn / dim + 12 * 4096 / dim + 6 * vocab / dim
printed = llama_1b.num_layers * dim**2 * bracket
print(f"{printed / (sum(counted) / 4096):.2f} times too large")

# %% Repair the printed formula [markdown] exercise="u01-training-flops-per-token" points=2 minutes=6 difficulty=2 importance=5
# **Write** `training_flops_per_token`: the repaired formula, FLOPs for each token, forward and backward, an `int`. Keep the terms of the bracket, so that the two can be laid side by side. Multiply out first, then divide: `/` loses the last digits of large integers, and `//` throws remainders away.
#
# *Worked case:* the small model above, sequences of 2 tokens: the formula as printed gives 1,632, the count is **1,512**.


# %% solution="u01-training-flops-per-token"
def training_flops_per_token(model: ModelConfig, seq_len: int) -> int:
    """FLOPs of training on one token: lecture B's formula, repaired.

    Args:
        model: Sizes of the model.
        seq_len: Tokens of one sequence.
    """
    ### BEGIN SOLUTION
    dim = model.hidden_size
    projections = 12 * dim**2 + 12 * dim**2 * model.num_kv_heads // model.num_heads
    layer = projections + 18 * dim * model.ffn_size + 12 * dim * seq_len
    return model.num_layers * layer + 6 * model.vocab_size * dim
    ### END SOLUTION


# %%
try_it(training_flops_per_token, small, 2)

# %% check="u01-training-flops-per-token"
# The models of the whole-model exercise, counted forward and backward.

# %% [markdown]
# <details><summary>I do not see the mistake</summary>
#
# Multiply the bracket out for a model of two layers. Which of the terms should not have become twice as large?
# </details>

# %% [markdown]
# Another slide of the same lecture says that the feed-forward block has *two* linear transformations. Its 18 · ffn/dim is right for the three of a gated block; with two it would be 12.

# %% [markdown]
# ## Going further
#
# All that follows is **extra**: bonus points, in any order, about 50 minutes. The recap is at the end.

# %% [markdown]
# ## Which N belongs in 6N?
#
# Lecture E (E11) counts the parameters of a GPT block by block: N = h·v + L·(12·h² + 13·h) + 2·h. Multiplied by 6 it is the best-known estimate of the compute of training. But the 6 comes from matrix products, and not every parameter is part of one.

# %% The parameters that multiply [markdown] exercise="u01-multiplying-parameters" points=1 minutes=6 difficulty=2 importance=3 extra=true
# **Write** `multiplying_parameters`: how many numbers stand in the matrices that a token's hidden state is multiplied with, in all layers and the head of a Llama-like model, an `int`.
#
# *Convention:* a matrix that is only looked up does not count; one that is shared with the embedding and multiplies does.
#
# *Worked case:* the small model above: two layers with 64 in attention and 36 in the feed-forward block, 20 in the head: **220**.


# %% solution="u01-multiplying-parameters"
def multiplying_parameters(model: ModelConfig) -> int:
    """Numbers in the matrices that a token is multiplied with, over the whole model.

    Args:
        model: Sizes of the model.
    """
    ### BEGIN SOLUTION
    h = model.hidden_size
    attention = 2 * h * (model.num_heads + model.num_kv_heads) * model.head_dim
    feed_forward = 3 * h * model.ffn_size
    head = model.vocab_size * h
    return model.num_layers * (attention + feed_forward) + head
    ### END SOLUTION


# %%
try_it(multiplying_parameters, small)

# %% check="u01-multiplying-parameters"
# Half of a token's FLOPs without the attention core, counted on many models.

# %% [markdown]
# <details><summary>Mine is right for tied models only, or for the others only</summary>
#
# How often does a tied model store its matrix, and how often does it multiply with it?
# </details>

# %% [markdown]
# **Measure.** What 6N gives, what 6 times your number gives, and the exact count at 4,096 tokens:

# %% tags=["nbval-check-output"]
multiplying_of = answer("u01-multiplying-parameters", multiplying_parameters)
per_token_of = answer("u01-training-flops-per-token", training_flops_per_token)


def estimates(model):
    exact, multiplying = per_token_of(model, 4096), multiplying_of(model)
    core = 12 * model.num_layers * model.hidden_size * 4096
    return {
        "6 N, all parameters": 6 * sum(parameters(model).values()) / exact,
        "6 · those that multiply": 6 * multiplying / exact,
        "6 · those that multiply + 12 · L · h · s": (6 * multiplying + core) / exact,
    }


names = ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B")
estimated = pd.DataFrame({name: estimates(preset(name)) for name in names})
estimated.map("{:.1%} of the exact count".format)

# %% [markdown]
# **Explain.** The right N is the parameters that multiply; then exactly the core is missing. All parameters look better for 8B because two errors cancel in part: the embedding that N counts wrongly fills some of the hole that the core leaves. And lecture E's own N is that of a GPT: for Llama-3-8B it gives 6.97 billion parameters instead of 8.03.

# %% [markdown]
# ## One run, four utilisations
#
# **MFU**, model FLOPs utilisation (B12), is the FLOPs of the model's own products, times tokens per second, over the peak. What is computed again to save memory does not count. Still, "we reach 50 %" means little until one knows which FLOPs were divided by which peak. Four counts are in use for the FLOPs of one token in training:
#
# | convention | FLOPs of a token |
# |---|---|
# | counted | all matrix products, attention as the full square: your repaired formula |
# | causal | the same, but exactly half of the attention core (the diagonal is not counted apart) |
# | 6N | 6 for each of *all* parameters, no attention core |
# | 6N and attention | 6N and the full attention core |
#
# And a data sheet has two peaks: the **dense** one, and one with 2:4 **sparsity**, twice as high, for matrices with half their entries zero. Training is dense.

# %% One run under four conventions [markdown] exercise="u01-utilisation" points=2 minutes=12 difficulty=3 importance=4 extra=true
# **Write** `utilisation`: the share of a device's peak that a run in **bf16** reaches, forward and backward, under each convention: a dictionary with `"counted"`, `"causal"`, `"six_n"` and `"six_n_and_attention"`, four `float`s, right to nine digits. Each is a quarter of the points.
#
# `hardware.dense_flops_per_second("bf16")` and `hardware.sparse_flops_per_second("bf16")` give its peaks.
#
# *Worked case:* the small model has 260 parameters. At 2 tokens a sequence and 10¹⁰ tokens each second, on an A100 (312·10¹² FLOP/s): 1,512, 1,416, 1,560 and 1,752 FLOPs, so **0.04846**, **0.04538**, **0.05** and **0.05615**.


# %% solution="u01-utilisation"
def utilisation(
    model: ModelConfig, num_params: int, seq_len: int, tokens_per_second: int, hardware: Device
) -> dict[str, float]:
    """Share of a device's peak that a training run reaches, by four conventions.

    Args:
        model: Sizes of the model.
        num_params: All its parameters N.
        seq_len: Tokens of one sequence.
        tokens_per_second: Tokens that one device trains on each second.
        hardware: The device; knows its peaks.

    Returns:
        "counted", "causal", "six_n" and "six_n_and_attention".
    """
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
# <details><summary>All four of mine are off by the same factor</summary>
#
# Is the factor 2, 3 or 100? Which of peak, passes and per cent goes with each?
# </details>

# %% [markdown]
# **A published run.** Llama-3.1-8B at 8,192 tokens on 8 H100, 6,667 tokens a second on each (torchtitan, compiled). Those H100s ran at 500 W, so that their true peak lies below the 989·10¹² FLOP/s taken here, and every share is a lower bound. Under the four conventions, over the dense peak and over the sparse one:

# %% tags=["nbval-check-output"]
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
# **Explain.** One run, and shares from 16.2 % to 41.1 %. The highest (6N and attention, dense peak) counts an embedding that multiplies nothing. The lowest (6N, sparse peak) leaves the core out and divides by a peak that no dense model can reach. Compare two runs only under one convention; in this course it is *counted*, over the dense peak.

# %% [markdown]
# ## Longer sequences on the same budget
#
# Here the budget is a fixed number of tokens. Lecture B (B6) asks what it costs to cut it into longer sequences: quadratic for each sequence, "linear" for each token, since fewer sequences fit. How linear?

# %% The price of longer sequences [markdown] exercise="u01-budget-ratio" points=2 minutes=8 difficulty=3 importance=3 extra=true
# The sequences change from `old_seq_len` to `new_seq_len` tokens. **Write** `budget_ratio`: the new training FLOPs divided by the old ones, for **one sequence** and for **the whole budget** of tokens; a dictionary with `"per_sequence"` and `"whole_budget"`, two `float`s, right to nine digits. Each is half of the points. The budget is a fixed number of tokens, large enough for both lengths; the head counts.
#
# *Worked case:* the small model from 2 to 4 tokens: 1,008 and 2,272 FLOPs forward. Training takes three times both, so the ratio stays 2,272 / 1,008. The budget holds half as many sequences: **2.25397** and **1.12698**.


# %% solution="u01-budget-ratio"
def budget_ratio(model: ModelConfig, old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    """How the FLOPs of a sequence, and of a fixed number of tokens, change with the length.

    Args:
        model: Sizes of the model.
        old_seq_len: Tokens of one sequence before.
        new_seq_len: Tokens of one sequence after.

    Returns:
        "per_sequence" and "whole_budget": new FLOPs over old ones.
    """
    ### BEGIN SOLUTION
    width = model.num_heads * model.head_dim
    projections = 4 * model.hidden_size * (width + model.num_kv_heads * model.head_dim)
    layer = projections + 6 * model.hidden_size * model.ffn_size
    constant = model.num_layers * layer + 2 * model.vocab_size * model.hidden_size
    slope = 4 * model.num_layers * width
    whole_budget = (constant + slope * new_seq_len) / (constant + slope * old_seq_len)
    return {
        "per_sequence": whole_budget * new_seq_len / old_seq_len,
        "whole_budget": whole_budget,
    }
    ### END SOLUTION


# %%
try_it(budget_ratio, small, 2, 4)

# %% check="u01-budget-ratio"
# Longer and shorter sequences; multi-head, grouped-query and multi-query attention.

# %% [markdown]
# <details><summary>I do not see how the size of the budget enters</summary>
#
# Write the FLOPs of the budget as so many sequences of so many FLOPs. Which letter falls out of the ratio?
# </details>

# %% [markdown]
# **Measure.** FLOPs for each token of Llama-3.2-1B in training, over the length, from your repaired formula and counted:


# %%
per_token_of = answer("u01-training-flops-per-token", training_flops_per_token)


def counted_per_token(seq_len):
    ids = torch.zeros(1, seq_len, dtype=torch.long, device="meta")
    return sum(count_flops(lambda: built(ids))) // seq_len


some_lengths = [512, 4096, 8192, 16384, 32768]
counted_at = {s: counted_per_token(s) for s in some_lengths}
computed_and_measured(
    some_lengths,
    computed=[per_token_of(llama_1b, s) / 1e9 for s in some_lengths],
    measured=[counted_at[s] / 1e9 for s in some_lengths],
    size_label="tokens in a sequence",
    unit="GFLOPs for each token",
    is_log=False,
)

# %% tags=["nbval-check-output"]
ratio_of = answer("u01-budget-ratio", budget_ratio)
for old, new in ((4096, 8192), (8192, 16384), (16384, 32768)):
    computed = ratio_of(llama_1b, old, new)["whole_budget"]
    measured = counted_at[new] / counted_at[old]
    print(f"from {old:,} to {new:,}: {computed:.3f} times computed, {measured:.3f} measured")

# %% [markdown]
# **Explain.** The line does not start at zero. It is a constant plus a term linear in the length: projections, feed-forward blocks and head do not look at other tokens. As long as the constant is the larger part, twice the length costs at most half more. An attention that is linear in the length could save at most the core: 18 % at 4,096 tokens.

# %% [markdown]
# ## Latent attention
#
# Grouped heads are one way to keep fewer keys and values; DeepSeek's **multi-head latent attention** (S6) is another. In training it does this for each token `x` of width `h`:
#
# - queries: `x` becomes a vector of `q_rank`, and that becomes `a` heads of `nope_head_dim + rope_head_dim`;
# - keys and values: `x` becomes a **latent** vector of `kv_rank`, and that becomes for each of the `a` heads a key of `nope_head_dim` and a value of `value_head_dim`;
# - position: `x` becomes **one** rotary key of `rope_head_dim`, which all heads put beside their own key;
# - output: the `a` value heads become `h` numbers.
#
# Only the latent vector and the rotary key need to be kept for later tokens.

# %% FLOPs of latent attention [markdown] exercise="u01-latent-attention-flops" points=2 minutes=15 difficulty=4 importance=2 extra=true
# **Write** `latent_attention_flops`: the FLOPs of one such layer's attention in the forward pass of training, a dictionary with `"projection_flops"` and `"core_flops"`. Each is half of the points. The sizes are in `model.latent_attention`: `.q_rank`, `.kv_rank`, `.nope_head_dim`, `.rope_head_dim`, `.value_head_dim`; `a` is `model.num_heads`.
#
# *Worked case:* width 8, two heads, ranks 3 and 5, head widths 4, 2 and 3, one sequence of 2 tokens: 60 weights make the queries, 56 the latent vector and the rotary key, 70 keys and values, 48 the output: **936**; the core takes 96 and 48: **144**.


# %% solution="u01-latent-attention-flops"
def latent_attention_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """FLOPs of one layer's latent attention, forward, as in training.

    Args:
        model: Sizes of the model, with `latent_attention`.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.

    Returns:
        "projection_flops" and "core_flops".
    """
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
# <details><summary>My projections are right for one head only</summary>
#
# Queries, keys, values, the two narrow vectors, the rotary key: which of them exist once for each head, and which once for each token?
# </details>

# %% [markdown]
# **Measure.** One layer of DeepSeek-V3 at 4,096 tokens, counted while it runs:

# %% tags=["nbval-check-output"]
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

# %% [markdown]
# Beside a layer that makes 128 heads of 128 the ordinary way:

# %% tags=["nbval-check-output"]
attention_of = answer("u01-attention-flops", attention_flops)
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
# **Explain.** Narrow vectors make the projections cheaper, the rotary part makes the core dearer. What the design is for is the last line: the memory of keys and values when the model generates text.

# %% [markdown]
# ## Many experts, few at work
#
# A **mixture of experts** has many gated feed-forward blocks in a layer, the experts. A **router**, one matrix, gives each token a score for every expert; the token goes to the few with the highest scores. **Shared** experts see every token. So a model can have many parameters and few of them at work: **active** are those that one token meets. (The model that is measured here fixes how many tokens an expert takes, so that the load is balanced; the FLOPs are the same.)

# %% Total and active parameters of experts [markdown] exercise="u01-expert-parameters" points=2 minutes=8 difficulty=2 importance=3 extra=true
# **Write** `expert_parameters`: the parameters of one such layer, a dictionary with `"total_parameters"` and `"active_parameters"`, two `int`s. Each is half of the points. All experts, shared ones too, are gated blocks of inner width `expert_ffn_size`.
#
# *Worked case:* width 4, three experts of inner width 5, one for each token, none shared: one expert has 60 parameters and the router 12: **192** and **72**.


# %% solution="u01-expert-parameters"
def expert_parameters(
    hidden_size: int,
    num_experts: int,
    experts_per_token: int,
    expert_ffn_size: int,
    num_shared_experts: int,
) -> dict[str, int]:
    """Parameters of one layer of experts: all of them, and those that one token meets.

    Args:
        hidden_size: Width h.
        num_experts: Experts that the router chooses among.
        experts_per_token: Experts that it sends a token to.
        expert_ffn_size: Inner width of one expert.
        num_shared_experts: Experts that see every token.

    Returns:
        "total_parameters" and "active_parameters".
    """
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
# <details><summary>My active parameters are slightly too small</summary>
#
# How does a token find out where to go?
# </details>

# %% [markdown]
# **Measure.** Total is what lies in the layer's tensors; active is half of the FLOPs that a token takes. One layer of DeepSeek-V3 on 256 tokens:

# %% tags=["nbval-check-output"]
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

# %% [markdown]
# And whole models:

# %% tags=["nbval-check-output"]
for name in ("Llama-3-70B", "Mixtral-8x7B", "DeepSeek-V3"):
    total = sum(parameters(preset(name)).values())
    active = sum(active_parameters(preset(name)).values())
    print(f"{name}: {total / 1e9:.1f} billion parameters, {active / total:.0%} of them active")

# %% [markdown]
# **Explain.** The FLOPs of training follow the active parameters; the memory for weights, gradients and optimizer states follows all of them. A mixture of experts buys quality with memory instead of FLOPs.

# %% [markdown]
# ## Recap
#
# 1. *Compute*: a matrix product takes 2 · rows · inner · columns; a model is a sum of them.
# 2. *Measure*: `count_flops` on the meta device sees every product of the largest model in seconds.
# 3. *Explain*: training takes three times the FLOPs of inference where both gradients are wanted, and less where they are not.
# 4. *Decide*: the attention core is half of a layer's FLOPs at the crossover, which is several times the width, and more only beyond it.
#
# | quantity, forward | formula |
# |---|---|
# | A·B | 2 · rows · inner · columns |
# | projections of a layer | 4 b s h d_h (a + a_kv) |
# | attention core of a layer | 4 b a d_h s² |
# | gated feed-forward block | 6 b s h f |
# | output head | 2 b s h v |
# | training, for each token | L h² (12 + 12 a_kv/a + 18 f/h + 12 s/h) + 6 h v |
# | crossover length | h (1 + a_kv/a) + 1.5 f, rounded up |
# | GPU-days of a run | FLOPs / (peak · utilisation · 86,400) |
# | *extra:* parameters that multiply | L (2 h d_h (a + a_kv) + 3 h f) + v h |
# | *extra:* MFU | FLOPs per token · tokens per second / dense peak |
# | *extra:* latent core of a layer | 2 b a s² (d_nope + d_rope + d_value) |
# | *extra:* active parameters of a layer of experts | h E + 3 h f_e (chosen + shared) |
#
# ## Further reading
#
# - Kaplan et al. 2020, *Scaling Laws for Neural Language Models*, sections 1.2 and 2.1 (15 minutes): the loss falls as a power of compute; the same count as here, where 6N comes from.
# - Hoffmann et al. 2022, *Training Compute-Optimal Large Language Models*, section 3 (15 minutes): compute is spent best when parameters and tokens grow at the same rate.
# - Sevilla et al. 2022, *Compute Trends Across Three Eras of Machine Learning* (10 minutes): the training compute of milestone models has doubled about every six months since 2010, that of the largest about every ten since 2015.
# - Narayanan et al. 2021, *Efficient Large-Scale Language Model Training on GPU Clusters*, appendix (10 minutes): the count for GPT.
# - Shazeer 2020, *GLU Variants Improve Transformer* (10 minutes): why the feed-forward block has a gate.
