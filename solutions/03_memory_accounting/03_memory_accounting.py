# ---
# jupyter:
#   course:
#     title: Memory accounting
#     minutes: 120
#     device: CPU
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

# %% [markdown]
# # 03 · Memory accounting
#
# What fills a device's memory in training? You count it to the byte: parameters, gradients, optimizer states, and what every operation keeps for the backward pass. You end with the largest batch that fits.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture E (*Efficient LLMs*), what fills the memory (E7, E11, E12, E13, E14, E15, E18); lecture S (*Scaling LLM Training, Part I*), memory (S10, S11, S12, S13); lecture B (*Building LLMs in Practice*), B2 and B3 | 120 minutes, and 40 for the extras | CPU | 00, 01 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Compute** the parameters of a model part by part, and the bytes of its training state in every recipe of precision.
# 2. **Say** for each operation which tensors autograd must keep, and **build** the instrument that counts them.
# 3. **Compute** the activations of a GPT layer and of a Llama layer to the byte.
# 4. **Decide** how many sequences fit on a device, and **explain** when none does.

# %% [markdown]
# ## Symbols of these lectures
#
# | here | lecture E | lecture S | lecture B | meaning |
# |---|---|---|---|---|
# | b | bs, mbs | bs | b | sequences of a micro-batch |
# | s | seq | L | S | tokens of a sequence |
# | h | h | D | D, dim | width of the residual stream |
# | a | n_heads | H | attention heads | query heads; a_kv for keys and values |
# | f | 4h | F | dim_ff | inner width of the feed-forward block |
# | L | L | num_layers | L | layers |
# | v | v | | vocab | words of the vocabulary |
# | N | N | P | | parameters |

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from autograder import answer, check, compare, predict
from course_utils.configs import MODELS, PRECISIONS, Kernels, ModelConfig, preset
from course_utils.instruments import count_saved_bytes, fake_tensors, storage_bytes
from course_utils.reference import Block, Transformer, token_loss
from course_utils.reference.fused import rotate
from course_utils.reference.mixed_precision import TrainingState
from course_utils.show import (
    computed_and_measured,
    explorer,
    memory_over_length,
    training_memory,
    try_it,
)

# %% [markdown]
# ## A tour: what does one layer keep?
#
# The backward pass needs numbers from the forward pass, so autograd **saves** tensors on the way. An instrument lists them for any call. The layer is named so that its weights, which are in memory anyway, do not count:

# %% tags=["nbval-check-output"]
layer = nn.Linear(3, 5)
x = torch.ones(2, 3, requires_grad=True)
saved = count_saved_bytes(lambda: torch.relu(layer(x)), layer)
pd.DataFrame(saved.tensors)

# %% [markdown]
# The linear layer keeps its input, 2 · 3 numbers of 4 bytes: the gradient of its weight is made from it. The `relu` keeps its *result*, which tells where it was open. Now break it on purpose: nobody says that the layer is there anyway.

# %% tags=["nbval-check-output"]
pd.DataFrame(count_saved_bytes(lambda: torch.relu(layer(x))).tensors)

# %% [markdown]
# The weight turns up: autograd needs it for the gradient of the input. It takes no memory of its own, so name the modules that you measure.
#
# Under `no_grad` autograd keeps nothing. That is one reason why inference needs less memory (S10); the other is that it has no gradients and no optimizer states.

# %% tags=["nbval-check-output"]
with torch.no_grad():
    print(count_saved_bytes(lambda: torch.relu(layer(x)), layer).total_bytes)

# %% [markdown]
# ## What fills the memory
#
# In training four things do (E7): **parameters**, **gradients**, **optimizer states**, and **activations**, the tensors saved for backward. The first three depend on the model alone; the last on the batch too. Begin with the parameters.
#
# **Predict.** A Llama-3.2-1B has 16 layers of width 2,048, each with a gated feed-forward block of inner width 8,192 and 32 query heads on 8 heads of keys and values, and a vocabulary of 128,256 whose output head is the embedding's matrix. How many parameters has it?

# %%
predict("u03-llama-1b", None, "parameters")

# %% Parameters, part by part [markdown] exercise="u03-parameters" points=2 minutes=12 difficulty=2 importance=4
# **Write** `parameters`: the parameters of a whole model, a dictionary with `"attention"`, `"feed_forward"`, `"norms"` and `"embedding_and_head"`, four `int`s over all layers. Each is a quarter of the points.
#
# - Attention: four matrices, for queries, keys, values and output; `model.num_heads` heads of `.head_dim` for queries, `.num_kv_heads` for keys and values.
# - Feed-forward: two matrices, to the inner width `.ffn_size` and back; three if `.is_gated`, where the results of two of them are multiplied.
# - Norms: one before each of these two blocks, and one behind the last layer. Each has a weight for each of the `.hidden_size` numbers.
# - Embedding: `.vocab_size` rows, and `.num_positions` rows of learned positions (0 without). The head is a matrix of `.vocab_size` rows too, the same one if `.is_tied`.
# - If `.has_biases` (GPT), every matrix of attention and feed-forward has a bias for each number of its result, and every norm too.
#
# *Worked case:* two layers, width 4, one head, gated with inner width 3, vocabulary 5, no biases: **128**, **72**, **20** and **40**.


# %% solution="u03-parameters"
def parameters(model: ModelConfig) -> dict[str, int]:
    """Parameters of a whole model by part.

    Args:
        model: Sizes of the model.

    Returns:
        "attention", "feed_forward", "norms" and "embedding_and_head".
    """
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
small = ModelConfig(num_layers=2, hidden_size=4, num_heads=1, ffn_size=3, vocab_size=5)
try_it(parameters, small)

# %% check="u03-parameters"
# GPT with biases and positions; Llama tied and free; own and shared keys.

# %% [markdown]
# <details><summary>Only models with biases are wrong</summary>
#
# Write the shape of every matrix of one layer as (from, to). How many numbers has each result, and how many biases is that together?
# </details>
#
# <details><summary>Only the embedding is wrong</summary>
#
# How often is a matrix stored that two modules share? And in which table does a model with learned positions look them up?
# </details>

# %% [markdown]
# **Measure.** The numbers in the tensors of a model on the meta device:

# %% tags=["nbval-check-output"]
parameters_of = answer("u03-parameters", parameters)


def measured_parameters(name):
    return sum(p.numel() for p in Transformer(preset(name), device="meta").parameters())


compare(
    "u03-llama-1b",
    "parameters",
    computed=sum(parameters_of(preset("Llama-3.2-1B")).values()),
    measured=measured_parameters("Llama-3.2-1B"),
)

# %% [markdown]
# **Explain.** Lecture E (E11) prints N = hv + L(12h² + 13h) + 2h, on one slide without the parentheses, so that the 13h are counted once instead of L times. It is the count of a GPT whose positions are not learned, and Llama is no GPT:

# %% tags=["nbval-check-output"]
for name in ("GPT-2-124M", "Llama-3-8B"):
    L, h, v = preset(name).num_layers, preset(name).hidden_size, preset(name).vocab_size
    slide = h * v + L * (12 * h**2 + 13 * h) + 2 * h
    print(f"{name}: the slide's N {slide:,}, counted {measured_parameters(name):,}")

# %% [markdown]
# For GPT-2 the gap is 1,024 rows of learned positions, 786,432 numbers. For Llama-3-8B the slide's N is that of another model: no gate, full keys and values, a tied head. A plot that the lecture shows for "8B" was made with this other model of 7.0 billion parameters.

# %% [markdown]
# ## What does not depend on the batch
#
# Besides the weights, training holds a gradient and Adam's two moments for each parameter, however small the batch (E12, S11). **Mixed precision** multiplies in bf16 and keeps a **master copy** of the weights in fp32 for the optimizer, because a small step would vanish in bf16.
#
# | recipe | weights | gradients | optimizer |
# |---|---|---|---|
# | `"fp32"` | fp32 | fp32 | two moments in fp32 |
# | `"bf16"` | bf16 | bf16 | master copy and two moments in fp32 |
# | `"bf16-fp32-gradients"` | bf16 | fp32 | the same |
# | `"bf16-both-gradients"` | bf16 | bf16, and their sum in fp32 | the same |
#
# **Predict.** How many GB do weights, gradients and optimizer of Llama-3-8B, with its 8.03 · 10⁹ parameters, take in the recipe `"bf16"`?

# %%
predict("u03-state-8b", None, "GB")

# %% Bytes of the training state [markdown] exercise="u03-state-bytes" points=1.5 minutes=6 difficulty=1 importance=5
# **Write** `state_bytes`: what training holds when a backward pass has ended, activations aside, a dictionary with `"weights"`, `"gradients"` and `"optimizer"`, three `int`s in bytes. Each is a third of the points. fp32 takes 4 bytes, bf16 takes 2; the master copy belongs to the optimizer.
#
# *Worked case:* 1,000 parameters in `"bf16"`: **2,000**, **2,000** and **12,000**.


# %% solution="u03-state-bytes"
def state_bytes(num_params: int, recipe: str) -> dict[str, int]:
    """Bytes that training with Adam holds after a backward pass, activations aside.

    Args:
        num_params: Parameters N.
        recipe: "fp32", "bf16", "bf16-fp32-gradients" or "bf16-both-gradients".

    Returns:
        "weights", "gradients" and "optimizer".
    """
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
# <details><summary>My optimizer is wrong in the bf16 recipes only</summary>
#
# The optimizer adds a small step to a weight. In which precision does it have to hold that weight, and which of your three numbers is it part of?
# </details>

# %% [markdown]
# **Measure.** One real step of AdamW on 1,000 parameters, and what lies in the storages after it:

# %% tags=["nbval-check-output"]
state_of = answer("u03-state-bytes", state_bytes)
state = TrainingState(1000, "bf16")
state.step()
held = {part: sum(map(storage_bytes, each)) for part, each in state.tensors().items()}
pd.DataFrame({"computed": state_of(1000, "bf16"), "measured": held})

# %% tags=["nbval-check-output"]
num_params = measured_parameters("Llama-3-8B")
compare(
    "u03-state-8b",
    "GB",
    computed=sum(state_of(num_params, "bf16").values()) / 10**9,
    measured=sum(held.values()) / 1000 * num_params / 10**9,
)

# %% [markdown]
# **Compare** with the lectures' tables, in GB (10⁹ bytes) as on the slides. The last column is what a slide calls 1B and gives 16 GB (S13):

# %% tags=["nbval-check-output"]
counts = {f"{n}B": n * 10**9 for n in (1, 7, 8, 70, 405)}
counts["Llama-3.2-1B"] = measured_parameters("Llama-3.2-1B")
table = {name: {r: sum(state_of(n, r).values()) for r in PRECISIONS} for name, n in counts.items()}
(pd.DataFrame(table) / 10**9).round(1)

# %% tags=["nbval-check-output"]
print(state_of(8 * 10**9, "fp32"))  # 32 + 32 + 64 GB on the slide (B3)

# %% [markdown]
# **Explain.** Mixed precision saves nothing here: 16 bytes for each parameter, as in fp32 (E13, B3). It is used because matrix products in bf16 run many times faster (on an A100 312 against 19.5·10¹² FLOP/s), and because *activations* take half the bytes. With gradients kept in fp32 it is 18, with both kinds 20: say which one you mean. In the very first forward pass there are only weights and master copy; gradients come with the first backward pass, moments with the first step. What 16 N leaves out: half a GB to two for the context of the driver, gradient buckets of data parallelism, the logits (below), fragments.

# %% [markdown]
# ## What must an operation keep?
#
# Ask of each operation y = f(x): which tensors stand in its derivative? (E18)
#
# | operation | derivative with respect to its input | keeps |
# |---|---|---|
# | relu | 1 where y > 0 | y |
# | square | 2x | x |
# | x · y | y, and x for the other | both |
#
# **Predict.** The scores of attention in one layer of Llama-3-8B at 8,192 tokens have the shape (1, 32, 8192, 8192). How many GiB would a softmax over them in bf16 keep?

# %%
predict("u03-softmax", None, "GiB")

# %% What each operation keeps [markdown] exercise="u03-kept-by-operation" points=3 minutes=10 difficulty=2 importance=5
# **Write** `kept_bytes`: the bytes that each of six operations keeps for its backward pass, all in **bf16**: a dictionary of six `int`s. Each is a sixth of the points. `x` has the shape (b, s, h), the scores (b, a, s, s). Weights do not count.
#
# | key | operation |
# |---|---|
# | `"linear"` | `x @ weight` |
# | `"rms_norm"` | `x` over the root of its mean square, times a weight; what it computes per token is kept as one **fp32** number |
# | `"gelu"` | a smooth relu of `x`; its slope is different at every `x` |
# | `"softmax"` | over the last side of the scores; its derivative can be written with its result alone |
# | `"dropout"` | zeroes some numbers of `x` and scales the others; which ones is kept as one **byte** each |
# | `"addition"` | `x + y`, two tensors of one shape |
#
# *Worked case:* b 1, s 3, h 4, a 2: **24**, **36**, **24**, **36**, **12** and **0**.


# %% solution="u03-kept-by-operation"
def kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that six operations keep for backward, in bf16.

    Args:
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        hidden_size: Width h.
        num_heads: Heads a of the scores.

    Returns:
        "linear", "rms_norm", "gelu", "softmax", "dropout" and "addition".
    """
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
try_it(kept_bytes, 1, 3, 4, 2)

# %% check="u03-kept-by-operation"
# Each operation alone in bf16: one head and many; short and long sequences.

# %% [markdown]
# <details><summary>I do not know what an operation keeps</summary>
#
# Write y = f(x) and its derivative. Which tensors stand in it? Of those that could be computed from each other, which one is already there?
# </details>

# %% [markdown]
# **Measure.** The softmax of the prediction, on **fake tensors**: they have shapes and sizes but no memory, and autograd keeps what it would keep in a real run.

# %% tags=["nbval-check-output"]
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
# **Explain.** 4 GiB for one operation of one layer of one sequence. It is quadratic in the length, and there is one square for *each head*: a slide of lecture B (B2) counts the order of attention's activations as B·S·(D + S); with the heads it is B·S·(D + a·S), 32 times the second term in a model of 1B.

# %% [markdown]
# Operations written out keep more than one that does all of it. The handwritten example of lecture E (E18), y = W x / ‖x‖:

# %% tags=["nbval-check-output"]
weight = nn.Linear(3, 5, bias=False)
saved = count_saved_bytes(lambda: weight(x / x.norm(dim=-1, keepdim=True)), weight)
pd.DataFrame(saved.tensors)

# %% [markdown]
# ## Build the microscope
#
# How does the instrument know? PyTorch lets you stand between autograd and the tensors that it keeps: a **pack** function gets every tensor when it is saved, an **unpack** function gives it back when backward needs it.


# %% tags=["nbval-check-output"]
def pack(tensor):
    print("saved:", tuple(tensor.shape))
    return tensor


def unpack(packed):
    return packed


with saved_tensors_hooks(pack, unpack):
    loss = torch.relu(layer(x)).sum()

# %% [markdown]
# Three tensors: input, weight and result. The weight arrives as a **view**, another window on the same memory: (3, 5) where the parameter is (5, 3), and a Python object of its own. The memory itself is a **storage**: `tensor.untyped_storage()` has `.nbytes()`, and `._cdata`, an id that views of one storage share. However many views of it are saved, a storage lies in memory once, and as a whole.

# %% A counter of saved bytes [markdown] exercise="u03-microscope" points=3 minutes=15 difficulty=4 importance=4
# **Write** `saved_bytes`: run `call()` once and return the bytes of the storages that autograd saves meanwhile, an `int`. Each storage counts once and whole; those behind `parameters` do not count. (No call here lets go of anything before it returns.)
#
# *Worked case:* a linear layer from 3 to 5 on 2 rows in fp32, then relu: **64** bytes, as in the tour.


# %% solution="u03-microscope"
def saved_bytes(call: Callable[[], Tensor], parameters: list[Tensor]) -> int:
    """Bytes of the storages that autograd saves while a call runs.

    Args:
        call: Takes nothing and returns a tensor.
        parameters: Tensors whose storages do not count.
    """
    ### BEGIN SOLUTION
    leave_out = {each.untyped_storage()._cdata for each in parameters}
    storages = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in leave_out:
            storages[storage._cdata] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
    return sum(storage.nbytes() for storage in storages.values())
    ### END SOLUTION


# %%
try_it(saved_bytes, lambda: torch.relu(layer(x)), list(layer.parameters()))

# %% check="u03-microscope"
# Layers that share an input; views; transposed weights; bf16 and fp32; no gradient at all.

# %% [markdown]
# <details><summary>It counts too much when two layers read the same input</summary>
#
# What could you remember of a tensor so that you recognise its memory when it comes again in another window?
# </details>
#
# <details><summary>It counts too little for a part of a larger tensor</summary>
#
# As long as one window is open, how much of the storage can be freed?
# </details>

# %% [markdown]
# **Measure.** Your microscope beside the course's on a feed-forward block of Llama:

# %% tags=["nbval-check-output"]
microscope = answer("u03-microscope", saved_bytes)
block = Block(ModelConfig(num_layers=1, hidden_size=64, num_heads=4, ffn_size=160, vocab_size=1), 0)
hidden = torch.ones(2, 16, 64, requires_grad=True)
compare(
    "u03-block",
    "bytes",
    computed=microscope(lambda: block.ffn(hidden), list(block.parameters())),
    measured=count_saved_bytes(lambda: block.ffn(hidden), block).total_bytes,
)

# %% [markdown]
# **What it cannot see.** A tensor that somebody puts away by hand, as an attribute of `ctx` or in a closure, never passes the hook. The course's instrument compares what was saved with what is still alive, and says so:


# %% tags=["nbval-check-output"]
class Secretive(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.squared = x * x  # not ctx.save_for_backward
        return ctx.squared * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.squared * grad


print(count_saved_bytes(lambda: Secretive.apply(x)).blind_spot)

# %% [markdown]
# ## The layer of the lectures
#
# Lecture E (E14) adds up what one layer of a GPT keeps in 16 bits. In the order of the forward pass:
#
# 1. **LayerNorm**, then three projections of its result to queries, keys and values;
# 2. **scores** of each head (queries times keys), softmax, *dropout*, product with the values;
# 3. output projection, *dropout*, addition to the stream;
# 4. **LayerNorm**, a matrix to 4h, GELU, a matrix back to h, *dropout*, addition.
#
# Every product keeps both its factors, weights left out; one tensor that several operations need lies in memory once, and counts where it is first read: the result of a norm belongs to the projections behind it; a dropout keeps one byte for each number; scaling the scores and adding keep nothing. A LayerNorm keeps its input and two **fp32** numbers per token, mean and deviation.
#
# **Predict.** How many bytes does everything but the scores keep, divided by s·b·h?

# %%
predict("u03-gpt-unit", None, "bytes per s·b·h")

# %% A GPT layer, term by term [markdown] exercise="u03-gpt-layer-bytes" points=2 minutes=15 difficulty=4 importance=5
# **Write** `gpt_layer_bytes`: what one such layer keeps in 16 bits, a dictionary of four `int`s in bytes. Each is a quarter of the points.
#
# | key | what |
# |---|---|
# | `"norms"` | both LayerNorms |
# | `"attention"` | projections, queries, keys, values, output projection and the dropout behind it |
# | `"scores"` | softmax, its dropout, and the tensor that multiplies the values |
# | `"feed_forward"` | the second block and the dropout behind it |
#
# *Worked case:* b 1, s 3, h 8, a 2: **144**, **264**, **90** and **456**.


# %% solution="u03-gpt-layer-bytes"
def gpt_layer_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that one GPT layer keeps for backward, in 16 bits.

    Args:
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        hidden_size: Width h.
        num_heads: Heads a.

    Returns:
        "norms", "attention", "scores" and "feed_forward".
    """
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
try_it(gpt_layer_bytes, 1, 3, 8, 2)

# %% check="u03-gpt-layer-bytes"
# A real layer in bf16: one sequence and several; one head and many; GPT-3 itself.

# %% [markdown]
# <details><summary>My attention is 2·s·b·h or 4·s·b·h too large</summary>
#
# Queries, keys and values are made from the same tensor. How often does it lie in memory?
# </details>
#
# <details><summary>My scores are not 5·a·s²·b</summary>
#
# Follow one head: what does the softmax keep, what the dropout, and what does the product with the values need? Which of these are the same tensor?
# </details>

# %% [markdown]
# **Measure.** A layer of GPT-3 at 2,048 tokens, on the **meta device**, which knows shapes only; a LayerNorm keeps its statistics in fp32 there, as on a GPU (on a CPU they are in bf16):

# %% tags=["nbval-check-output"]
gpt_of = answer("u03-gpt-layer-bytes", gpt_layer_bytes)
gpt_3 = preset("GPT-3-175B")
written_out = Kernels(is_attention_fused=False, dropout_fraction=0.1)
gpt_block = Block(gpt_3, 0, "meta", torch.bfloat16, written_out)
stream = torch.empty(1, 2048, 12288, dtype=torch.bfloat16, device="meta", requires_grad=True)
gpt_saved = count_saved_bytes(lambda: gpt_block(stream), gpt_block)
parts = gpt_of(1, 2048, 12288, 96)
print(f"computed {sum(parts.values()):,} bytes, measured {gpt_saved.total_bytes:,}")

# %% tags=["nbval-check-output"]
unit = 2048 * 12288
scores = sum(t.storage_bytes for t in gpt_saved.tensors if t.shape[-2:] == (2048, 2048))
compare(
    "u03-gpt-unit",
    "bytes per s·b·h",
    computed=(sum(parts.values()) - parts["scores"]) / unit,
    measured=(gpt_saved.total_bytes - scores) / unit,
)

# %% [markdown]
# **Explain.** That is the well-known **34 sbh + 5 a s² b**, and the statistics of the norms, 16 sb, which the paper leaves out. Three slips to know from the slides: a handwritten page divides by the batch and multiplies by 4, although 34 and 5 are bytes already and the batch multiplies; one slide multiplies only the first term by the number of layers; one gives the softmax a·s·b and loses an s. The formula assumes 16 bits, dropout, own keys and values, GELU with 4h and scores in memory; of these a modern layer has only the 16 bits.

# %% [markdown]
# ## How it grows
#
# By what factor do parameters and kept bytes of a GPT layer grow (E15, S12, B2)?


# %% tags=["nbval-check-output"]
def matrices_of(width):
    sizes = {"num_layers": 1, "num_heads": width // 128, "ffn_size": 4 * width, "vocab_size": 1}
    parts = parameters_of(ModelConfig(hidden_size=width, is_gated=False, **sizes))
    return {"matrices": parts["attention"] + parts["feed_forward"]}


def gpt_layer(num_sequences, seq_len, width):
    return pd.Series(matrices_of(width) | gpt_of(num_sequences, seq_len, width, width // 128))


once = gpt_layer(1, 4096, 4096)
pd.DataFrame(
    {
        "twice the batch": gpt_layer(2, 4096, 4096) / once,
        "twice the length": gpt_layer(1, 8192, 4096) / once,
        "twice the width": gpt_layer(1, 4096, 8192) / once,
    }
)

# %% [markdown]
# Kept bytes are linear in the batch and in the width, and the scores quadratic in the length; the matrices alone are quadratic in the width. Your function against real layers of the width of Llama-3-8B:


# %%
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
# One slide calls this an "exponential explosion" (S12). It is a square: on these scales the slope goes from 1, where everything else leads, to 2, where the scores lead.

# %% [markdown]
# ## The layer of today's models
#
# Llama's layer (grouped heads, RMSNorm, rotary positions, a gate) with **fused attention** (flash attention, unit 06) keeps other things:
#
# - an RMSNorm keeps its input and **one** fp32 number per token;
# - fused attention keeps queries, keys, values, its result, and one **fp32** number (the log-sum-exp) per query and head, from which it computes the scores again; keys and values keep their own, smaller, number of heads;
# - rotary positions keep nothing; there is no dropout;
# - the gate makes `silu(g) * u` from two projections g and u of width f, then a matrix goes back to h.
#
# **Predict.** By what factor does a Llama-3-8B layer at 8,192 tokens keep less than a GPT layer of the same width?

# %%
predict("u03-llama-factor", None, "times")

# %% A modern layer, to the byte [markdown] exercise="u03-llama-layer-bytes" points=3 minutes=15 difficulty=4 importance=5
# **Write** `llama_layer_bytes`: what one such layer keeps when activations have `element_bytes` bytes, a dictionary of three `int`s: `"norms"` (both), `"attention"` (from the input of its projections to the input of its output projection) and `"feed_forward"` (likewise). Each is a third of the points. The width of the residual stream is `model.hidden_size`, the heads are `.num_heads` and `.num_kv_heads` of `.head_dim`, the gate has `.ffn_size`.
#
# *Worked case:* the small model above (width 4, one head, inner width 3), 1 sequence of 2 tokens in bf16: **48**, **88** and **64**.


# %% solution="u03-llama-layer-bytes"
def llama_layer_bytes(
    model: ModelConfig, num_sequences: int, seq_len: int, element_bytes: int
) -> dict[str, int]:
    """Bytes that one Llama layer with fused attention keeps for backward.

    Args:
        model: Sizes of the model.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        element_bytes: Bytes of one activation.

    Returns:
        "norms", "attention" and "feed_forward".
    """
    ### BEGIN SOLUTION
    tokens = num_sequences * seq_len
    stream = element_bytes * tokens * model.hidden_size
    keys = element_bytes * tokens * model.num_kv_heads * model.head_dim
    log_sum_exp = 4 * tokens * model.num_heads
    projections_input = queries = result = stream
    block_input, inner = stream, element_bytes * tokens * model.ffn_size
    return {
        "norms": 2 * (stream + 4 * tokens),
        "attention": projections_input + queries + 2 * keys + result + log_sum_exp,
        "feed_forward": block_input + 4 * inner,
    }
    ### END SOLUTION


# %%
try_it(llama_layer_bytes, small, 1, 2, 2)

# %% check="u03-llama-layer-bytes"
# A real layer: own and grouped and single keys; bf16 and fp32; Llama-3-8B.

# %% [markdown]
# <details><summary>My feed-forward block keeps too little</summary>
#
# Write `silu(g) * u` as two operations. What does each keep, and what does the matrix behind them?
# </details>
#
# <details><summary>My attention keeps too much</summary>
#
# The result of fused attention is the input of the output projection. How often does it lie in memory?
# </details>

# %% [markdown]
# **Measure.** All 32 layers of Llama-3-8B at 8,192 tokens, forward, without the memory for one of them. On fake tensors, not on the meta device: fused attention exists only for real devices, and these pretend to be on a CPU.

# %% tags=["nbval-check-output"]
llama_of = answer("u03-llama-layer-bytes", llama_layer_bytes)
llama = preset("Llama-3-8B")
with fake_tensors():
    layers = nn.Sequential(*(Block(llama, n, "cpu", torch.bfloat16) for n in range(32)))
    stream = torch.empty(1, 8192, 4096, dtype=torch.bfloat16)
    llama_saved = count_saved_bytes(lambda: layers(stream), layers)
print(f"computed {32 * sum(llama_of(llama, 1, 8192, 2).values()):,} bytes")
print(f"measured {llama_saved.total_bytes:,}")

# %% tags=["nbval-check-output"]
compare(
    "u03-llama-factor",
    "times",
    computed=sum(gpt_of(1, 8192, 4096, 32).values()) / sum(llama_of(llama, 1, 8192, 2).values()),
    measured=measured_gpt_layer(8192) / (llama_saved.total_bytes / 32),
)

# %% tags=["nbval-check-output"]
gpt_parts, llama_parts = gpt_of(1, 8192, 4096, 32), llama_of(llama, 1, 8192, 2)
unit = 8192 * 4096
print(f"GPT layer: scores {gpt_parts['scores'] / unit:.0f} bytes per s·b·h, all the rest", end=" ")
print(f"{(sum(gpt_parts.values()) - gpt_parts['scores']) / unit:.0f}")
print(f"Llama layer: {sum(llama_parts.values()) / unit:.0f} bytes per s·b·h")

# %% [markdown]
# **Explain.** All of the saving is fused attention, which keeps no scores: what is left is linear in the length. Everything else grew, because the gate keeps four inner tensors of 3.5 h where GELU kept two of 4 h, although there is no dropout and keys and values are shared.

# %% [markdown]
# ## The whole model, and the loss
#
# Around the layers stand an embedding, which keeps the **token ids** (8 bytes each) to find its rows again; a last RMSNorm; the head, a linear layer to v logits for each token; and the loss. The logits are turned to fp32, and the cross-entropy keeps its **log-softmax**, as large as they, and the **targets** (8 bytes each).

# %% What one more sequence keeps [markdown] exercise="u03-sequence-bytes" points=2 minutes=8 difficulty=3 importance=4
# **Write** `sequence_bytes`: how many more bytes a whole Llama-like model keeps for backward for each sequence of the batch, in **bf16** with the loss in **fp32**, an `int`. `layer_bytes` is what one layer keeps for one sequence.
#
# *Worked case:* the small model, sequences of 2 tokens, 200 bytes for each of the two layers; the last norm 24, the output head's input 16, the log-softmax 40, ids and targets 32: **512**.


# %% solution="u03-sequence-bytes"
def sequence_bytes(model: ModelConfig, seq_len: int, layer_bytes: int) -> int:
    """Bytes that one more sequence keeps for backward, in bf16 with the loss in fp32.

    Args:
        model: Sizes of the model.
        seq_len: Tokens s of the sequence.
        layer_bytes: What one layer keeps for one sequence.
    """
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
# Two sequences less one on real models: small and large vocabularies; Llama-3.2-1B and 8B.

# %% [markdown]
# <details><summary>I am a few bytes per token off</summary>
#
# List every operation from the token ids to the loss. For each: what does its derivative need? Which of these are whole numbers of 8 bytes?
# </details>

# %% [markdown]
# **Measure.** Llama-3.2-1B at 4,096 tokens with its loss, for one sequence and for two:


# %% tags=["nbval-check-output"]
def kept_for(num_sequences):
    with fake_tensors():
        model = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        ids, targets = (torch.zeros(num_sequences, 4096, dtype=torch.long) for _ in range(2))
        loss = count_saved_bytes(lambda: token_loss(model(ids), targets, is_fp32=True), model)
    return loss.total_bytes


sequence_of = answer("u03-sequence-bytes", sequence_bytes)


def bytes_of_sequence(name, seq_len=4096):
    layer = sum(llama_of(preset(name), 1, seq_len, 2).values())
    return sequence_of(preset(name), seq_len, layer)


compare(
    "u03-sequence",
    "bytes",
    computed=bytes_of_sequence("Llama-3.2-1B"),
    measured=kept_for(2) - kept_for(1),
)

# %% [markdown]
# How much of it is the loss?

# %% tags=["nbval-check-output"]
for name in ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"):
    total, log_softmax = bytes_of_sequence(name), 4 * 4096 * preset(name).vocab_size
    print(f"{name}: {total / 2**30:.1f} GiB, of which the log-softmax {log_softmax / total:.0%}")

# %% [markdown]
# **Explain.** In a small model with a large vocabulary the loss keeps a quarter. It belongs to no layer, and no trick inside the layers makes it smaller.

# %% [markdown]
# ## How much fits?
#
# What is left beside the state is divided among sequences. A device's 80 GB are 80·10⁹ bytes, 74.5 GiB.

# %% The largest micro-batch [markdown] exercise="u03-largest-micro-batch" points=1 minutes=5 difficulty=2 importance=5
# **Write** `largest_micro_batch`: how many sequences fit into `memory_bytes` beside the training state of 16 bytes for each parameter, an `int`. If none fits, **0**.
#
# *Worked case:* 10 parameters, 7 bytes for each sequence, 181 bytes of memory: **3**.


# %% solution="u03-largest-micro-batch"
def largest_micro_batch(num_params: int, sequence_bytes: int, memory_bytes: int) -> int:
    """Sequences that fit beside the training state.

    Args:
        num_params: Parameters N, with 16 bytes each.
        sequence_bytes: What one sequence keeps.
        memory_bytes: What there is.
    """
    ### BEGIN SOLUTION
    left_bytes = memory_bytes - 16 * num_params
    return max(0, left_bytes // sequence_bytes)
    ### END SOLUTION


# %%
try_it(largest_micro_batch, 10, 7, 181)

# %% check="u03-largest-micro-batch"
# Nothing fits; exactly one fits; to the byte; many fit.

# %% [markdown]
# <details><summary>Some of my answers are negative</summary>
#
# What does it mean when the state alone is larger than the memory? How many sequences fit then?
# </details>

# %% tags=["nbval-check-output"]
largest_of = answer("u03-largest-micro-batch", largest_micro_batch)
for name in ("Llama-3.2-1B", "Llama-3-8B"):
    n, each = measured_parameters(name), bytes_of_sequence(name)
    fitting = {memory: largest_of(n, each, memory * 10**9) for memory in (40, 80, 141)}
    print(f"{name} at 4,096 tokens: " + ", ".join(f"{b} on {gb} GB" for gb, b in fitting.items()))

# %% [markdown]
# An estimate: it counts all gradients and all saved tensors at once, as when gradients are kept between micro-batches, and leaves out what lives for a moment, first of all the gradient of the logits, as large as the log-softmax. Unit 04 measures the true peak.

# %% Why not 8B on one device? [markdown] exercise="u03-why-not-8b" points=1 minutes=4 difficulty=2 importance=4
# **Write** two or three sentences: why can Llama-3-8B not be trained with Adam on one device of 80 GB, however short the sequences are and however much of the activations is computed again (S13)? Name the number that decides, and one thing that would have to change.
#
# Double-click the cell below to write.

# %% [markdown] text_answer="u03-why-not-8b"
# <!-- BEGIN SOLUTION -->
# Weights, gradients and optimizer states take 16 bytes for each of 8.03 billion parameters, 128 GB, besides all activations. They do not depend on the batch, so shorter sequences or recomputation cannot help: those shrink activations only. The state itself has to become smaller or be spread: sharding over several devices, an optimizer with smaller states, training only a part of the weights, or moving states to the host.
#
# *Rubric:* half for 16 N = 128 GB independent of the batch, half for something that shrinks or spreads the state.
# <!-- END SOLUTION -->

# %% [markdown]
# ## All of it at once
#
# Move the sliders: which part leads, and which device is large enough?

# %%
explorer(
    training_memory,
    model=([name for name in MODELS if "Llama" in name], "Llama-3.2-1B"),
    seq_len=([1024, 2048, 4096, 8192, 16384, 32768], 4096),
    micro_batch_size=([1, 2, 4, 8, 16], 1),
    recipe=(list(PRECISIONS), "bf16"),
    attention=(["fused", "written out"], "fused"),
    recomputation=(["none", "selective", "full"], "none"),
)

# %% [markdown]
# The same picture standing still:

# %%
training_memory(
    "Llama-3-8B",
    seq_len=8192,
    micro_batch_size=1,
    recipe="bf16",
    attention="fused",
    recomputation="none",
)

# %% [markdown]
# And the plots of lecture E, drawn again for the models that they name, with attention written out: every score lies in memory (papers call it *materialised*). *Selective* recomputation computes the core of attention again, *full* a whole layer from its input; unit 05 builds both.

# %%
memory_over_length("Llama-3.2-1B", "written out")

# %%
memory_over_length("Llama-3-8B", "written out")

# %% [markdown]
# The lecture's plots use 34 sbh + 5 a s² b, which is a GPT with dropout, so that their activations are about twice as large; here stand the layers of Llama. With attention written out the length decides, and 8B does not fit on 80 GB whatever is recomputed.

# %% [markdown]
# ## Going further
#
# All that follows is **extra**: bonus points, in any order, about 40 minutes. The recap is at the end.

# %% [markdown]
# ## Does fp32 double everything?

# %% Other precisions, with and without dropout [markdown] exercise="u03-element-bytes" points=2 minutes=8 difficulty=3 importance=3 extra=true
# **Write** `layer_bytes`: what the GPT layer of the lectures keeps for **one** sequence when its numbers have `element_bytes` bytes, with or without dropout, an `int`. Statistics of the norms are in fp32 always.
#
# *Worked case:* s 3, h 8, a 2 in fp32 with dropout: **1,794**; without: **1,656**.


# %% solution="u03-element-bytes"
def layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """Bytes that one GPT layer keeps for one sequence.

    Args:
        seq_len: Tokens s.
        hidden_size: Width h.
        num_heads: Heads a.
        element_bytes: Bytes of one number.
        has_dropout: Whether there are the three dropouts of the layer.
    """
    ### BEGIN SOLUTION
    stream, scores = seq_len * hidden_size, num_heads * seq_len**2
    numbers = (2 + 5 + 9) * stream + scores
    masks = 0
    if has_dropout:
        numbers += scores  # what the dropout of the scores left over
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
# <details><summary>fp32 with dropout is wrong</summary>
#
# In 34 sbh and 5 a s² b, which bytes are masks? Do they grow with the precision?
# </details>

# %% [markdown]
# ## A gate that keeps less
#
# Autograd sees `silu(g) * u` as two operations and keeps three tensors: g, silu(g) and u. One of them can be computed again in backward from the other two. An `autograd.Function` decides by itself what is kept:


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
# **Write** `gate`: `silu(g) * u` for two tensors of one shape, so that only g and u are kept for backward. Results and both gradients must be right, and no other tensor may stay alive, as an attribute of `ctx` or in a closure. All or nothing.
#
# *Reminder:* silu(g) = g · σ(g), and its derivative is σ(g) · (1 + g · (1 − σ(g))).


# %% solution="u03-fused-gate"
def gate(g: Tensor, u: Tensor) -> Tensor:
    """silu(g) * u, keeping only g and u.

    Args:
        g: What goes into SiLU.
        u: The other factor, of the same shape.
    """
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
# Results and gradients in float64; bytes kept; bytes alive unseen.

# %% [markdown]
# <details><summary>My results are right, but three tensors are kept</summary>
#
# Which tensors do you hand to `save_for_backward`? Which of them can backward make from the others?
# </details>

# %% [markdown]
# **Measure.** The course's layers have such a gate too. Llama-3-8B at 8,192 tokens with it:

# %% tags=["nbval-check-output"]
with fake_tensors():
    fused = Kernels(is_gate_fused=True)
    layers = nn.Sequential(*(Block(llama, n, "cpu", torch.bfloat16, fused) for n in range(32)))
    stream = torch.empty(1, 8192, 4096, dtype=torch.bfloat16)
    lean = count_saved_bytes(lambda: layers(stream), layers)
print(
    f"{llama_saved.total_bytes / 2**30:.1f} GiB without it, {lean.total_bytes / 2**30:.1f} with it"
)

# %% [markdown]
# ## Where did 2·s·b·h go?
#
# This attention is correct and keeps one tensor more than it needs: it lays the rotated queries and keys out anew, with heads before tokens.


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
# The last row is the culprit: the input of the output projection is not the result of attention but a *copy* of it. `flatten` can only give a view when the numbers already lie in the order that it wants, and fused attention lays its result out as it found the queries.

# %% Repair the attention [markdown] exercise="u03-lost-bytes" points=2 minutes=6 difficulty=2 importance=2 extra=true
# **Write** `lean_attend`: the same attention without the copy. `q` has the shape (b, s, a, d), `k` and `v` (b, s, a_kv, d); `rotate` turns a tensor of such a shape; the result has the shape (b, s, a·d). All or nothing: results, gradients and bytes.


# %% solution="u03-lost-bytes"
def lean_attend(q: Tensor, k: Tensor, v: Tensor, rotate: Callable[[Tensor], Tensor]) -> Tensor:
    """Causal attention with rotary positions, without a copy of its result.

    Args:
        q: Queries (b, s, a, d).
        k: Keys (b, s, a_kv, d).
        v: Values (b, s, a_kv, d).
        rotate: Turns queries or keys, in this layout.
    """
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
# Own and shared keys; results and gradients in float64; bytes with the projection behind it.

# %% [markdown]
# <details><summary>My results are right, and a copy is kept</summary>
#
# Which word in the code above makes a copy? In which order do the queries' numbers lie after it, and in which order does `flatten` want those of the result?
# </details>

# %% [markdown]
# ## Recap
#
# 1. *Compute*: parameters are the sum of the matrices, and biases and norms beside them; the state takes 16 bytes for each parameter, 18 or 20 with gradients in fp32 or in both.
# 2. *Say and build*: an operation keeps what stands in its derivative; hooks see every tensor that is kept, storages count once.
# 3. *Compute*: 34 sbh + 5 a s² b for the GPT of the lectures, linear in the length for a modern layer.
# 4. *Decide*: what is left beside the state, over what one sequence keeps; and nothing at all where the state alone is too large.
#
# | quantity | bytes |
# |---|---|
# | parameters N of a GPT | hv + L(12h² + 13h) + 2h, and h for each learned position |
# | parameters N of a Llama | hv (twice if untied) + L(2h² + 2h²·a_kv/a + 3hf + 2h) + h |
# | training state | 16 N (18 N, 20 N) |
# | linear, GELU / softmax / norm | its input / its result / input and statistics |
# | dropout / addition | 1 byte a number / nothing |
# | GPT layer, 16 bits | 34 sbh + 5 a s² b + 16 sb |
# | Llama layer, e bytes a number | e (6 sbh + 2 sbh·a_kv/a + 4 sbf) + 4 asb + 8 sb |
# | log-softmax of the loss, fp32 | 4 sbv |
# | sequences that fit | (memory − 16 N) // bytes of one |
#
# ## Further reading
#
# - Korthikanti et al. 2022, *Reducing Activation Recomputation in Large Transformer Models*, section 4 (15 minutes): the source of 34 and 5.
# - Rajbhandari et al. 2020, *ZeRO*, section 3 (10 minutes): where 16 bytes for each parameter come from.
# - PyTorch documentation, *Hooks for saved tensors* (10 minutes): what else the hooks can do.
