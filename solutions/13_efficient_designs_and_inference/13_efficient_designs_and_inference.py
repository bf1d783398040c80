# ---
# jupyter:
#   course:
#     title: Serve it
#     device: CPU
#     minutes: 100
#     needs: ["01", "02", "06"]
#     lecture: [E1, E2, S6]
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
# ![Bars, to scale: what 8,192 tokens of one sequence take in the cache. Llama-3-8B with keys for every head 4.29 GB, as it is 1.07, with one key for all heads 0.13; DeepSeek-V3, 84 times as large, a question mark. Beside them blocks of a paged cache in the colours of three sequences.](hero.svg)
#
# Two models answer equally well, and one writes five times as fast. You will build what makes models fast: grouped keys, latents, experts, a paged cache, a small model that guesses for a large one. A tiny model then writes the same text with fewer bytes.
#
# Your plan trains Llama-3-8B. Then somebody wants to use it: how many people can one H100 serve?
#
# 1. **Compute** the cache of any design, and the experts that a batch reads.
# 2. **Build** a decoding step that reads its cache once, and the tables of a paged cache.
# 3. **Predict** from measured rates how many conversations are fast enough.
# 4. **Explain** equal quality at different speed.
# 5. **Derive** a rule that lets a small model guess and changes nothing, and **build** attention that never leaves its latents (extras).
#
# | here | lectures | meaning |
# |---|---|---|
# | $b$, $t$ | bs, L | sequences, cached tokens of each |
# | $a$, $a_{kv}$, $d$ | H, D' | query heads, key-value heads, width of a head |
# | $r$, $d_r$ | | width of a latent, of a rotary key |
# | $E$, $k$ | | experts, and how many a token chooses |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from torch import Tensor
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import LatentAttention, ModelConfig, device, preset
from course_utils.formulas.parameters import active_parameters, parameters
from course_utils.formulas.serving import cache_bytes as cached_bytes
from course_utils.formulas.serving import served_bytes, served_tokens_per_second, weights_read
from course_utils.instruments import count_bytes, count_flops, fastest_seconds
from course_utils.records.decode_rates import attention_rows, product_seconds
from course_utils.records.traces import recorded_trace
from course_utils.reference.cached_block import generate_cached
from course_utils.reference.latent_decode import expanded_attention
from course_utils.reference.layers import GroupedAttention, MultiHeadLatentAttention
from course_utils.reference.served_model import ServedModel
from course_utils.reference.speculation import speculate
from course_utils.reference.toy_models import DRAFT, MODEL, ids_of, text_of, trained
from course_utils.show import (
    Choice,
    designs_of_llama,
    draft_overlap,
    explorer,
    layer_diagram,
    paged_blocks,
    rates_over_batch,
    speed_of_each,
    try_it,
)
from course_utils.traces import GPU_WORK, busy_seconds, seconds_of, select, span_seconds

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## A model that writes
#
# This Llama has two layers and learns one text by heart, letter by letter. It writes the slow way: each new letter takes all earlier ones through the model again.

# %%
torch.set_num_threads(1)
model = trained(MODEL, num_steps=220)  # some seconds
prompt = ids_of("A token")


@torch.no_grad()
def without_cache(model, prompt, num_new):
    tokens = prompt[None]
    for _ in range(num_new):
        new = model(tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens[0]


written = without_cache(model, prompt, 100)
print(text_of(written))

# %% [markdown]
# Keys and values of earlier letters come out the same each time. With a **cache** of them, only the new letter goes through the layers (unit 02). **Guess first.** For these 100 letters FLOPs become 56 times fewer. How many times faster is the clock?

# %%
predict("u13-clock", None, "times faster")

# %% folded=true tags=["nbval-ignore-output"]
# Measured: FLOPs and seconds, without a cache and with one
ways = {
    "without": lambda: without_cache(model, prompt, 100),
    "with": lambda: generate_cached(model, prompt[None], 100)[0],
}
assert torch.equal(ways["with"](), written)
flops = {name: count_flops(call).forward_flops for name, call in ways.items()}
seconds = {name: fastest_seconds(call, num_runs=2) for name, call in ways.items()}
print(f"FLOPs: {flops['without'] / flops['with']:.0f} times fewer")
compare("u13-clock", "times faster", measured=seconds["without"] / seconds["with"])

# %% [markdown]
# The letters are the same, and the clock gains far less. Each letter still calls every operation and reads every weight. A decoding step waits for calls and *bytes*. So this unit counts bytes.

# %% [markdown]
# ## What a cache holds
#
# | design | a layer keeps for each token |
# |---|---|
# | multi-head (MHA) | a key and a value for each query head: $a_{kv} = a$ |
# | **grouped queries (GQA)** (E2) | $a_{kv}$ keys and values, each for $a / a_{kv}$ query heads |
# | multi-query (MQA) | one key and one value: $a_{kv} = 1$ |
# | **latent attention (MLA)** (S6) | one latent of $r$ numbers, from which keys *and* values of all heads are made, and one rotary key of $d_r$ numbers that all heads share |
#
# A **sliding window** is something else: a query sees the last $w$ tokens alone, so earlier ones need not be kept.
#
# **Guess first.** DeepSeek-V3 has 84 times as many parameters as Llama-3-8B. How large is its cache, in multiples of Llama's?

# %%
predict("u13-latents", None, "times Llama's cache")

# %% Bytes of a cache [markdown] exercise="u13-cache-bytes" points=1.5 minutes=6 difficulty=1 importance=5
# **Write** `cache_bytes`: bytes of the whole cache, all layers and sequences, with `element_bytes` for each number (`model.head_dim` is $d$). An exact `int`, all or nothing.
#
# - `model.latent_attention` is None, or has `kv_rank` ($r$) and `rope_head_dim` ($d_r$).
# - `window` is 0 where a query sees all tokens; otherwise only the last `window` are kept.
#
# *By hand:* 2 layers, 4 query heads, 2 key heads, $d = 3$; 5 sequences of 7 tokens in bf16 → **1,680**; with a window of 4 → **960**. With latents of $r = 6$, $d_r = 2$ → **1,120**.


# %% solution="u13-cache-bytes"
def cache_bytes(
    model: ModelConfig, num_sequences: int, context: int, element_bytes: int, window: int
) -> int:
    """Bytes of all caches, after `context` tokens of each sequence."""
    ### BEGIN SOLUTION
    tokens = min(context, window) if window else context
    numbers = 2 * model.num_kv_heads * model.head_dim
    latent = model.latent_attention
    if latent is not None:
        numbers = latent.kv_rank + latent.rope_head_dim
    return num_sequences * tokens * model.num_layers * numbers * element_bytes
    ### END SOLUTION


# %%
small = ModelConfig(
    num_layers=2, hidden_size=12, num_heads=4, num_kv_heads=2, ffn_size=5, vocab_size=9
)
latent = LatentAttention(kv_rank=6, q_rank=5, nope_head_dim=3, rope_head_dim=2, value_head_dim=3)
try_it(cache_bytes, small, 5, 7, 2, 0)
try_it(cache_bytes, small, 5, 7, 2, 4)
try_it(cache_bytes, replace(small, latent_attention=latent), 5, 7, 2, 0)

# %% check="u13-cache-bytes"
# Against what the layers of real models must keep: every design, with windows and without.

# %% [markdown]
# <details><summary>Hint: only latents are wrong</summary>
#
# How many vectors does a token leave behind, if keys and values of all heads come from one?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Table: one token's cache, and how many sequences of 8,192 tokens one H100 has room for
bytes_of = answer("u13-cache-bytes", cache_bytes)
llama, deepseek, h100 = preset("Llama-3-8B"), preset("DeepSeek-V3"), device("H100-SXM")
rows = {}
for name, design in designs_of_llama().items():
    left = h100.memory_bytes - served_bytes(design, 1, 1)
    per_sequence = bytes_of(design, 1, 8192, 2, 0)
    latent = design.latent_attention
    widths = f" ({latent.kv_rank} + {latent.rope_head_dim})" if latent else ""
    rows[f"Llama-3-8B, {name}{widths}"] = {
        "KB a token": f"{bytes_of(design, 1, 1, 2, 0) / 1000:,.1f}",
        "sequences on one H100": f"{left // per_sequence:,}",
    }
display(pd.DataFrame(rows).T)
ratio = bytes_of(deepseek, 1, 1, 2, 0) / bytes_of(llama, 1, 1, 2, 0)
latents = MultiHeadLatentAttention(deepseek, deepseek.latent_attention, "meta").kv_down
grouped = GroupedAttention(llama, "meta").key
of_layers = latents.out_features / 2 / grouped.out_features  # as built: keys and values, or latents
measured = of_layers * deepseek.num_layers / llama.num_layers
compare("u13-latents", "times Llama's cache", computed=ratio, measured=measured)

# %% [markdown]
# **Your plan, served:** 16 GB of weights leave room for 59 conversations of 8,192 tokens on one H100 of 80 GB, the data sheet's number (your plan counts what its driver gives, 83 GB: 62). With a key for every head it would be 14. But memory is half of the story: each of these bytes is *read* for each new token.

# %% [markdown]
# ## One step, each byte once
#
# One token's row on its way through a layer of Llama-3-8B; on each box the bytes that the step reads, of weights or of the cache. **Move the control:** from how many sequences on does the cache outweigh all matrices?
#
# <details><summary>Answer</summary>
#
# From 16 of those on the control: 15 GB of matrices are 14 caches of 1.07 GB.
# </details>


# %% folded=true
# Diagram: a step of decoding after 8,191 tokens. Run this cell, then move the control
def decode_step(sequences):
    return layer_diagram(llama, sequences, 1, show="bytes", num_cached=8191)


explorer(decode_step, sequences=Choice("sequences", [1, 4, 8, 16, 64], 1))

# %% [markdown]
# A step of decoding has one query for each head, and buffers with room for more tokens than are there. Its commonest mistakes change no number of the result: they copy.

# %% A step on a cache [markdown] exercise="u13-cached-step" points=3 minutes=10 difficulty=3 importance=5
# **Write** `decode_attention`. `q` is $(b, a, d)$, `k_new` and `v_new` are $(b, a_{kv}, d)$; the buffers are $(b, a_{kv}, n, d)$. Their first `length` places are filled; behind them is noise. Write the new key and value into the next place, and return $(b, a, d)$: softmax over all tokens up to the new one, scale $1/\sqrt d$. Query heads $0 \dots a/a_{kv} - 1$ share the first key head, and so on.
#
# | scenario | asks for (half of the points) |
# |---|---|
# | `result` | result and buffers are right |
# | `bytes` | the same; and the filled part, with the new token, is read once, one token is written, and no copy of the buffers is made |
#
# `F.scaled_dot_product_attention(q, k, v, enable_gqa=True)` takes $(b, a, 1, d)$ and $(b, a_{kv}, t, d)$, and lets heads share keys without copies.


# %% solution="u13-cached-step"
def decode_attention(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_cache: Tensor, v_cache: Tensor, length: int
) -> Tensor:
    """Attention of one new token (b, a, d); its key and value go into the cache."""
    ### BEGIN SOLUTION
    k_cache[:, :, length] = k_new
    v_cache[:, :, length] = v_new
    keys = k_cache[:, :, : length + 1]
    values = v_cache[:, :, : length + 1]
    out = F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)
    return out[:, :, 0]
    ### END SOLUTION


# %%
def bytes_of_a_step(decode_attention):
    """Four query heads on two, 100 tokens in buffers for 120."""
    torch.manual_seed(0)
    q, k_new, v_new = torch.randn(2, 4, 16), torch.randn(2, 2, 16), torch.randn(2, 2, 16)
    k_cache, v_cache = torch.randn(2, 2, 2, 120, 16)
    moved = count_bytes(
        lambda: decode_attention(q, k_new, v_new, k_cache, v_cache, 100), cache=[k_cache, v_cache]
    )
    names = {"cache": moved.of("cache"), "other": moved.of("other")}
    return {name: each._asdict() for name, each in names.items()}


try_it(bytes_of_a_step, decode_attention)

# %% check="u13-cached-step"
# Own keys and shared ones, an empty cache and a full one; what lies behind the filled part is noise.

# %% [markdown]
# <details><summary>Hint: the result is right and the bytes are not</summary>
#
# Run the cell above. Are more bytes read of the cache than 101 tokens have (51,712), or are they written and read as *other*? Which of your operations makes a new tensor as large as the cache?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Measured: the step that many write first, beside yours; and the tiny model on yours
step_of = answer("u13-cached-step", decode_attention)


def repeating(q, k_new, v_new, k_cache, v_cache, length):
    k_cache[:, :, length], v_cache[:, :, length] = k_new, v_new
    group = q.shape[1] // k_cache.shape[1]
    k, v = (x[:, :, : length + 1].repeat_interleave(group, 1) for x in (k_cache, v_cache))
    return F.scaled_dot_product_attention(q[:, :, None], k, v)[:, :, 0]


for name, each in {"keys repeated for every head": repeating, "yours": step_of}.items():
    print(f"{name:30}", {k: v["read_bytes"] for k, v in bytes_of_a_step(each).items()})
same = torch.equal(generate_cached(model, prompt[None], 100, step_of)[0], written)
print("the tiny model writes the same text with it:", same)

# %% [markdown]
# Repeating keys undoes GQA: the result is right, the bytes are those of multi-head attention and more. The figure counts all bytes of a step.
#
# **Move the controls:** up to which context does an H100 have room for 256 sequences on 8 heads of keys?
#
# <details><summary>Answer</summary>
#
# 1,024 tokens: 34 GB of caches. With 8,192 it would be 275.
# </details>

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    rates_over_batch,
    context=Choice("cached tokens of each", [256, 1024, 8192, 32768], 8192),
    hardware=Choice("device", ["A100-80", "H100-SXM", "H200", "B200"], "H100-SXM"),
)

# %% [markdown]
# A batch shares the reading of the weights, until its caches or its arithmetic outweigh them. There a line bends, and designs part: early with long contexts, late with short ones.

# %% [markdown]
# ## Fast enough for each
#
# A step gives each conversation *one* token. So a person's tokens per second are the steps per second, however many share them. A roofline says how long a step takes at best; how near do real ones come?
#
# Qwen3-8B has Llama's 8 heads of keys in 36 layers. It answers 32 people with about 1,024 cached tokens each: 15.1 GB of weights and 4.8 GB of caches. An MI300X reads 5.3 TB a second by its data sheet, all of it in 3.8 ms. **Guess first.** How many ms did the step take? It was replayed as one graph, so no launch is late.

# %%
predict("u13-step-ms", None, "ms")

# %% folded=true tags=["nbval-check-output"]
# Measured: a decode step of SGLang on an MI300X, recorded by AMD (TraceLens, MIT licence)
qwen = ModelConfig(
    num_layers=36, hidden_size=4096, num_heads=32, num_kv_heads=8, ffn_size=12288, vocab_size=151936
)
peak = 5.3e12  # bytes a second: AMD, data sheet of the MI300X, 2023
step = select(recorded_trace("mi300x_sglang_qwen3_8b"), phase="decode")
kernels = select(step, kind=GPU_WORK)
took = {
    "products": sum(seconds_of(each) for each in select(kernels, name="Cijk*")),
    "attention": sum(seconds_of(each) for each in select(kernels, name="paged_attention*")),
}
took["other kernels"] = busy_seconds(kernels) - sum(took.values())
took["gaps between kernels"] = span_seconds(kernels) - busy_seconds(kernels)
read = {"products": 2 * weights_read(qwen, 32), "attention": cached_bytes(qwen, 32, 1024, 2)}
parts = pd.DataFrame({"measured, ms": {name: 1e3 * each for name, each in took.items()}})
parts["GB read"] = pd.Series(read) / 1e9
parts["at the peak, ms"] = 1e3 * pd.Series(read) / peak
parts["share of the peak, %"] = 100 * parts["at the peak, ms"] / parts["measured, ms"]
display(parts.round(1).astype(object).where(parts.notna(), ""))
each_gap = 1e6 * took["gaps between kernels"] / (len(kernels) - 1)
print(f"{len(kernels)} kernels, {each_gap:.1f} µs between two of them")
at_peak, measured = 1e3 * sum(read.values()) / peak, 1e3 * span_seconds(kernels)
compare("u13-step-ms", "ms", computed=round(at_peak, 1), measured=round(measured, 2))

# %% [markdown]
# The gap has three parts. Products and attention read at half of the peak. Norms, rotary positions and copies take 1.9 ms, and read next to nothing of weights or caches. And even a graph leaves a microsecond between kernels: 556 times.
#
# So *measure* attention and products, and predict from these rates.

# %% Fast enough for each [markdown] exercise="u13-served" points=3 minutes=12 difficulty=3 importance=5
# **Write** `serve`: how many conversations does a device serve, if each must get at least `slowest` tokens per second?
#
# - `attention` has rows `[conversations, seconds]` of *one* layer's attention, from 1 conversation upwards. Between two rows the straight line counts: `np.interp(x, xs, ys)`.
# - A step gives each conversation one token. It takes the attention of all `num_layers`, one after another, and `other_seconds` for all else, whatever the number of conversations.
# - Only whole numbers of conversations count, from 1 to `room`, which fit into memory, and no more than in the last row: beyond it nothing was measured.
# - Seconds can also *fall* from row to row (kernels change with the number): what is too slow for few can be fast enough for more.
#
# | key | a third of the points each |
# |---|---|
# | `"most"` | the largest number with which each gets at least `slowest` (0: any speed will do) |
# | `"each"` | tokens per second of each conversation with this number |
# | `"all"` | tokens per second of all of them together |
#
# Round nothing. If no number is fast enough, all three are 0.
#
# *By hand:* 1, 3 and 5 conversations take 1, 2 and 5 ms; 2 layers, 3 ms for all else, room for 9, at least 90 tokens/s. Four take $3 + 2 \cdot 3.5 = 10$ ms, five 13 → **4** conversations, **100** tokens/s each, **400** together.


# %% solution="u13-served"
def serve(
    attention: list[list[float]],
    num_layers: int,
    other_seconds: float,
    room: int,
    slowest: float,
) -> dict[str, float]:
    """The "most" conversations that fit and are fast enough; tokens/s of "each" and of "all"."""
    ### BEGIN SOLUTION
    counts, seconds = zip(*attention, strict=True)
    most, each = 0, 0.0
    for conversations in range(1, min(room, counts[-1]) + 1):
        step = other_seconds + num_layers * float(np.interp(conversations, counts, seconds))
        if 1 / step >= slowest:
            most, each = conversations, 1 / step
    return {"most": most, "each": each, "all": most * each}
    ### END SOLUTION


# %%
try_it(serve, [[1, 0.001], [3, 0.002], [5, 0.005]], 2, 0.003, 9, 90)

# %% check="u13-served"
# Rows of A100, H100 and B200 with 8 heads of keys and with 1, and made ones, rising and falling.

# %% [markdown]
# <details><summary>Hint: where do I begin?</summary>
#
# How long is a step with $n$ conversations, and how many such steps are there in a second? Which $n$ are there to try?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Table: Llama-3-8B on one H100, computed from rates that NVIDIA recorded (aiconfigurator, Apache-2.0)
serve_of, rows = answer("u13-served", serve), {}
weights = 2 * weights_read(llama, 1)
for context in (1024, 4096, 8192, 32768):
    attention = attention_rows("H100-SXM", 8, context)
    room = (h100.memory_bytes - served_bytes(llama, 1, 1)) // cached_bytes(llama, 1, context, 2)
    number = min(room, attention[-1][0])
    others = product_seconds("H100-SXM", weights, number)
    full, quick = (serve_of(attention, 32, others, room, slowest) for slowest in (0, 60))
    rows[f"{context:,} tokens each"] = {
        "fit": f"{room:,}",
        "measured up to": f"{number:,}",
        "tokens/s of each then": f"{full['each']:.0f}",
        "conversations at 60 tokens/s": f"{quick['most']:,}",
        "tokens/s of these": f"{quick['all']:,.0f}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# **Your plan, served fast:** of the 59 conversations that fit, about half get 60 tokens/s. And when memory is full (the last three rows; of the first nobody measured so many), each gets 38 to 40: a step of this dense model reads nearly all of it, 80 GB, at the 3.1 TB/s that attention (in vLLM) and the 2.5 to 2.6 that products (in TensorRT-LLM) reached. A smaller cache serves *more* people at this speed. To be faster with a full memory, a step must read less of it, or give more than a token: experts, shared pages and drafts are still to come. Norms, sampling and gaps, 2.5 ms on the MI300X, are not in these rates and come on top.
#
# **Look for** two ends of each line: where memory ends (hollow dots begin), and where 60 tokens/s do. Which comes first on an A100 and on an H100? On which device did nobody measure far enough to tell?
#
# <details><summary>Answer</summary>
#
# 60 tokens/s end first on A100 and H100. On a B200 nobody measured far enough.
# </details>

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    speed_of_each,
    hardware=Choice("device", ["A100-80", "H100-SXM", "B200"], "H100-SXM"),
    slowest=Choice("tokens/s of each", [30, 60, 90, 120], 60),
)

# %% [markdown]
# ## Pages
#
# A server does not know how long an answer will be. If it reserves the longest, most memory holds nothing. A **paged cache** (E2) cuts memory into blocks of a few tokens. A sequence gets the next block when it needs it, wherever that lies, and a **table** says which blocks are its own, in order. Two sequences with the same beginning share its blocks. When one of them writes into a shared block, it gets a copy first: **copy on write**.

# %% Tables of a paged cache [markdown] exercise="u13-paged" points=4 minutes=22 difficulty=5 importance=5
# **Write** `PagedCache`: the tables, not the memory, which a server owns. Sequences have names.
#
# | method | does |
# |---|---|
# | `append(sequence)` | returns block and cell of its next token. A name that is unknown, or was freed, begins a new sequence |
# | `table(sequence)` | returns the list of its blocks, in order |
# | `fork(sequence, child)` | gives the child, a new name, all tokens of the sequence, in the same blocks; takes no block |
# | `free(sequence)` | ends the sequence; a block is free when no sequence has it |
#
# - Token $n$ of a sequence, from 0, lies in its block number `n // block_size`, cell `n % block_size`. After every request, each token must be found there.
# - `append` takes a block, any free one, only when it needs one: for a first cell, or to copy.
# - *Copy:* if the next cell lies in a block that another sequence has, too, `append` takes a new block in its place and returns the cell there. It adds `(old block, new block, number of cells filled before)` to `self.copies`. The server then makes this copy, empties `self.copies`, and writes the token.
# - Where `append` needs a block and none is free, it raises `MemoryError`, and **nothing has changed**.
#
# Four scenarios, a point each: `append`, `free`, `share` (forks at the end of a block), `copy`.
#
# *By hand:* the `story` below → cells **0, 1, 0, 1**, and one copy, of **1** cell.


# %% solution="u13-paged"
class PagedCache:
    """Tables of sequences that share blocks until one of them writes."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """All blocks 0 to num_blocks - 1 are free; `copies` is an empty list."""
        ### BEGIN SOLUTION
        self.copies = []
        self.block_size = block_size
        self.free_blocks = list(range(num_blocks))
        self.owners = [0] * num_blocks
        self.tables = {}
        self.lengths = {}
        ### END SOLUTION

    def append(self, sequence: Hashable) -> tuple[int, int]:
        """Block and cell of the next token; MemoryError where no block is free."""
        ### BEGIN SOLUTION
        length = self.lengths.get(sequence, 0)
        blocks = self.tables.get(sequence, [])
        cell = length % self.block_size
        if cell == 0:
            blocks.append(self.taken())
        elif self.owners[blocks[-1]] > 1:
            block = self.taken()
            self.copies.append((blocks[-1], block, cell))
            self.owners[blocks[-1]] -= 1
            blocks[-1] = block
        self.tables[sequence] = blocks
        self.lengths[sequence] = length + 1
        return blocks[-1], cell

    def taken(self) -> int:
        if not self.free_blocks:
            raise MemoryError("no block is free")
        block = self.free_blocks.pop()
        self.owners[block] = 1
        return block
        ### END SOLUTION

    def table(self, sequence: Hashable) -> list[int]:
        """Blocks of a sequence, in order."""
        ### BEGIN SOLUTION
        return list(self.tables[sequence])
        ### END SOLUTION

    def fork(self, sequence: Hashable, child: Hashable) -> None:
        """Let the child have all tokens of a sequence."""
        ### BEGIN SOLUTION
        self.tables[child] = list(self.tables[sequence])
        self.lengths[child] = self.lengths[sequence]
        for block in self.tables[child]:
            self.owners[block] += 1
        ### END SOLUTION

    def free(self, sequence: Hashable) -> None:
        """End a sequence."""
        ### BEGIN SOLUTION
        for block in self.tables.pop(sequence):
            self.owners[block] -= 1
            if self.owners[block] == 0:
                self.free_blocks.append(block)
        del self.lengths[sequence]
        ### END SOLUTION


# %%
def story(paged_cache_class):
    """Three tokens, a fork, and the child's own fourth token; blocks of two cells."""
    cache = paged_cache_class(4, 2)
    places = [cache.append("parent") for _ in range(3)]
    cache.fork("parent", "child")
    places.append(cache.append("child"))
    tables = {name: cache.table(name) for name in ("parent", "child")}
    return {"cells": [cell for _, cell in places], "copies": cache.copies, **tables}


try_it(story, PagedCache)

# %% check="u13-paged"
# Up to 60 requests (a appends, a>b forks, -a ends), blocks of one cell to five, memory tight and ample.

# %% [markdown]
# <details><summary>Hint: what do I have to remember?</summary>
#
# For a sequence: its blocks and its length. For a block: how many sequences have it. In which method does each of them change?
# </details>

# %% [markdown]
# **Your tables, in a server:** one beginning, four ways to go on, blocks of eight.

# %% folded=true tags=["nbval-check-output"]
# Measured: four texts from one memory
tables_of = answer("u13-paged", PagedCache)
server = ServedModel(model, tables_of(24, 8), 24, 8)
names = ("parent", "first", "second", "third")
beginning = written[:60].tolist()
for token in beginning:
    logits = server.feed("parent", token)
for name in names[1:]:
    server.fork("parent", name)
texts, are_same = {}, []
for name, extra in zip(names, ("", " ", ". ", "e "), strict=True):
    first = ids_of(extra).tolist() if extra else [int(logits.argmax())]
    fed = beginning + first
    paged = fed + server.continue_with(name, first, 25)
    are_same.append(generate_cached(model, torch.tensor([fed]), 25)[0].tolist() == paged)
    texts[name] = text_of(paged)
print("the same texts as without pages:", dict(zip(names, are_same, strict=True)))
reserved = 4 * 128 // 8
print(f"{server.peak_blocks} blocks in use at most; reserved for 128 tokens each: {reserved}")

# %% folded=true
# Figure: which blocks belong to whom
owners = [{} for _ in range(24)]
for name, text in texts.items():
    for number, block in enumerate(server.tables.table(name)):
        owners[block][name] = min(8, len(text) - 1 - 8 * number)  # the last letter was not fed
paged_blocks(owners, names, 8)

# %% [markdown]
# Seven blocks of the beginning are stored once and read by all four. Each sequence wastes at most the rest of one block: 250 tokens in blocks of 16 waste 2 % of the cells, where reserving 2,048 tokens wastes 88 %.

# %% [markdown]
# ## Experts
#
# In a **mixture of experts** (E2) each token goes to $k$ of $E$ feed-forward blocks. A token meets only the chosen ones; but memory holds all, and a *batch* reads every expert that any of its tokens chose.

# %% Experts that a batch reads [markdown] exercise="u13-touched" points=1.5 minutes=4 difficulty=3 importance=4
# **Write** `expected_experts`: how many of `num_experts` are chosen by at least one of `num_tokens` tokens, on average, if each token chooses `experts_per_token` *different* ones at random. A `float`, not rounded.
#
# *By hand:* one token of Mixtral: **2**. Two tokens: **3.5**.


# %% solution="u13-touched"
def expected_experts(num_experts: int, experts_per_token: int, num_tokens: int) -> float:
    """Expected number of experts that a batch reads."""
    ### BEGIN SOLUTION
    missed_by_one = 1 - experts_per_token / num_experts
    missed_by_all = missed_by_one**num_tokens
    return num_experts * (1 - missed_by_all)
    ### END SOLUTION


# %%
try_it(expected_experts, 8, 2, 1)
try_it(expected_experts, 8, 2, 2)

# %% check="u13-touched"
# Against the exact distribution; few experts and hundreds.

# %% [markdown]
# <details><summary>Hint: how do I begin?</summary>
#
# Take one expert. With which chance does a token miss it? And all tokens?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Table: experts that a batch reads
experts_of = answer("u13-touched", expected_experts)
display(
    pd.DataFrame(
        {
            f"batch {b}": {
                "Mixtral, of 8": f"{experts_of(8, 2, b):.1f}",
                "DeepSeek-V3, of 256": f"{experts_of(256, 8, b):.0f}",
            }
            for b in (1, 4, 8, 16, 64, 256)
        }
    )
)

# %% [markdown]
# A batch of 16 reads nearly all of Mixtral. It still saves FLOPs, but no *bytes*.
#
# ### Quality and speed
#
# Lecture E shows models by quality and speed: one A100-80, 16-bit weights, batch 1, a prompt of 256, 1,000 new tokens (E2). Here it is in numbers: quality as published (MMLU, Jiang et al. 2024, table 2), speed at best, as if each fitted, halfway through (256 + 500 cached tokens).

# %% folded=true tags=["nbval-check-output"]
# Table: quality as published, tokens/s at best on an A100-80
plain = {"vocab_size": 32000}
of_seven = {"num_layers": 32, "hidden_size": 4096, "num_heads": 32, **plain}
models = {
    "Llama-2-13B": (
        ModelConfig(num_layers=40, hidden_size=5120, num_heads=40, ffn_size=13824, **plain),
        55.6,
    ),
    "Mistral-7B": (ModelConfig(num_kv_heads=8, ffn_size=14336, **of_seven), 62.5),
    "Llama-2-70B": (
        ModelConfig(
            num_layers=80, hidden_size=8192, num_heads=64, num_kv_heads=8, ffn_size=28672, **plain
        ),
        69.9,
    ),
    "Mixtral-8x7B": (preset("Mixtral-8x7B"), 70.6),
}
a100, rows = device("A100-80"), {}
for name, (sizes, quality) in models.items():
    parts, active = parameters(sizes), active_parameters(sizes)
    rows[name] = {
        "MMLU": quality,
        "key heads": sizes.num_kv_heads,
        "parameters, billions": f"{sum(parts.values()) / 1e9:.0f}",
        "active": f"{sum(active.values()) / 1e9:.0f}",
        "GB of memory": f"{served_bytes(sizes, 1, 756) / 1e9:.0f}",
        **{
            f"tokens/s, batch {b}": f"{served_tokens_per_second(sizes, a100, b, 756):,.0f}"
            for b in (1, 4, 16, 64)
        },
    }
pd.DataFrame(rows).T

# %% [markdown]
# Look at the memory column: in 16 bits neither Mixtral nor Llama-2-70B fits into the 80 GB of the slide's device. Such a model needs two devices, or fewer bits.

# %% Equal quality, different speed [markdown] exercise="u13-equal-quality" points=2 minutes=10 difficulty=3 importance=5
# **Write** about five sentences on the table:
#
# - Mixtral and Llama-2-70B are equally good. Why does Mixtral write five times as fast at batch 1 with two thirds of the parameters?
# - From batch 1 to batch 4 Llama-2-70B gains four times, Mixtral much less. Where does Mixtral's advantage go, and what of it stays at batch 64?
# - Mistral-7B beats Llama-2-13B at half of the size. Which part of its design shows in tokens/s only at large batches, and why?

# %% [markdown] text_answer="u13-equal-quality"
# <!-- BEGIN SOLUTION -->
# Decode at batch 1 waits for the weights that one token uses. Mixtral reads two of eight experts, 13 billion parameters or 26 GB, where Llama-2-70B reads all of its 69 billion, 138 GB: 80 against 15 tokens/s.
#
# Four sequences share one reading of a dense model, so it gains four times. Mixtral's four tokens choose different experts: 5.5 of 8 are read in place of 2, and the bytes of a step grow 2.5 times, so it gains 1.6 times. At batch 64 all experts are read. What stays is the ratio of all parameters, 47 to 69, and fewer FLOPs: 1.5 times as fast.
#
# Mistral-7B shares each key among four query heads, so its cache is a sixth of that of Llama-2-13B. At batch 1 the cache is under 3 % of what is read and does not matter; at batch 64 the caches of Llama-2-13B outweigh its weights, and 1.8 times as many tokens/s at batch 1 become 3.2 times.
#
# *Rubric:* half a point for the bytes that one token reads (active parameters) with numbers; half for experts that a batch reads together; half for what stays (all parameters, FLOPs); half for the smaller cache (GQA), which matters where caches outweigh weights.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.
#
# ### A small one guesses
#
# A pass of the large model over five tokens reads the same weights as a pass over one. So a small **draft model** proposes tokens, and the large one looks at all of them in a single pass (**speculative decoding**). Each token must keep the chance $p(x)$ that the large model gives it; the draft gives $q(x)$. Accept or replace each proposal, and keep as many as possible.

# %% Accept or replace [markdown] exercise="u13-accept" points=2.5 minutes=13 difficulty=4 importance=4 extra=true
# **Write** `speculative_rule`, such that tokens come out with the chances `p`, and as many proposals as possible are accepted. `p` and `q` are lists of chances, one for each token. Return two lists of numbers, as long; all or nothing:
#
# 1. the chance to **accept** each token if the draft proposes it (any number where $q(x) = 0$),
# 2. the chances from which the next token is drawn **after a rejection**; they add up to 1 (any numbers if $p = q$).
#
# The inputs are fractions; return fractions or floats.
#
# *By hand:* $p = (3/4, 1/4)$, $q = (1/2, 1/2)$ → the first token is always accepted, the second with chance **1/2**; after a rejection always the **first**.


# %% solution="u13-accept"
def speculative_rule(p: list[Fraction], q: list[Fraction]) -> tuple[list, list]:
    """Chance to accept each proposed token, and chances of each token after a rejection."""
    ### BEGIN SOLUTION
    accept = [min(1, here / there) if there else 1 for here, there in zip(p, q, strict=True)]
    too_rare = [max(0, here - there) for here, there in zip(p, q, strict=True)]
    total = sum(too_rare)
    after = [each / total for each in too_rare] if total else list(p)
    return accept, after
    ### END SOLUTION


# %%
def on_two_tokens(speculative_rule):
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 2), Fraction(1, 2)]
    return [[float(each) for each in part] for part in speculative_rule(p, q)]


try_it(on_two_tokens, speculative_rule)

# %% check="u13-accept"
# The exact law of the token that comes out, in fractions: zeros in p and in q, equal and opposite.

# %% [markdown]
# <details><summary>Hint: what should come out after a rejection?</summary>
#
# Write down for each token the chance that it is proposed *and* accepted. By how much is that below $p(x)$?
# </details>

# %% [markdown]
# **Move the controls:** how well must the draft know the large model, so that eight drafts give twice as many tokens as two?

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    draft_overlap,
    likeness=Choice("known to the draft", ["0 %", "40 %", "80 %", "95 %"], "80 %"),
    draft_length=Choice("drafted tokens", [1, 2, 4, 8], 4),
)

# %% [markdown]
# A proposed token is accepted with chance $\alpha = \sum_x \min(p(x), q(x))$. Now your rule at work: a second tiny model, an eighth of the size, guesses for the first. Both take the most likely letter, so $p$ and $q$ are 1 at one letter each.

# %% folded=true tags=["nbval-ignore-output"]
# Measured: passes of the large model for 100 letters
rule_of, draft = answer("u13-accept", speculative_rule), trained(DRAFT, num_steps=120)
for length in (0, 1, 2, 4, 8):
    result = speculate(model, draft, prompt.tolist(), 100, length, rule=rule_of)
    same = result.tokens == written.tolist()
    print(f"{length} drafted: {result.num_passes:3} passes, the same text: {same}")

# %% [markdown]
# ### How far to guess

# %% Speed of speculation [markdown] exercise="u13-speculate" points=1.5 minutes=8 difficulty=2 importance=4 extra=true
# **Write** `speculation`: each drafted token is accepted with chance `acceptance`, on its own. The first that is rejected is replaced by a token of the large model, and the drafts behind it are lost; if none is, the large model adds a token. A pass of the draft model takes `draft_cost` passes of the large one; a pass of the large model takes the same time for any few tokens. After `draft_length` drafts and one pass of the large model:
#
# - `"tokens"`: how many tokens come out on average, with the one of the large model.
# - `"speedup"`: tokens per time, in multiples of one token per pass. Half of the points each.
#
# *By hand:* acceptance 1/2, cost 1/4, two drafts → **1.75** tokens, **1.1667** times as fast.


# %% solution="u13-speculate"
def speculation(acceptance: float, draft_cost: float, draft_length: int) -> dict[str, float]:
    """Expected "tokens" of one pass with drafts, and their "speedup"."""
    ### BEGIN SOLUTION
    tokens = sum(acceptance**i for i in range(draft_length + 1))
    time = draft_length * draft_cost + 1
    return {"tokens": tokens, "speedup": tokens / time}
    ### END SOLUTION


# %%
try_it(speculation, 0.5, 0.25, 2)

# %% check="u13-speculate"
# Against all ways in which drafts are accepted: drafts that never fit and always fit, long and short.

# %% folded=true tags=["nbval-check-output"]
# Table: the best number of drafts, if a draft costs a twentieth
speed_of = answer("u13-speculate", speculation)
best = {}
for acceptance in (0.5, 0.7, 0.8, 0.9):
    speeds = {n: speed_of(acceptance, 0.05, n)["speedup"] for n in range(30)}
    length = max(speeds, key=speeds.get)
    best[f"acceptance {acceptance}"] = {"drafts": length, "times faster": f"{speeds[length]:.2f}"}
pd.DataFrame(best)

# %% [markdown]
# One of the rules above bends: a pass of the large model takes the same time for a few tokens as for one *while its products wait for weights*. With $b$ conversations, a pass over four drafts looks at $5b$ tokens. **Guess first.** An H100 serves Llama-3-8B, 256 cached tokens each; drafts are accepted with chance 0.8 and cost a twentieth. With how many conversations do four drafts stop paying? (Nobody ran this: what is called *measured* below is computed from measured rates.)

# %%
predict("u13-drafts-stop", None, "conversations")


# %% folded=true tags=["nbval-check-output"]
# Table: times faster with four drafts, from rates recorded by NVIDIA (aiconfigurator); "" was not measured
def times_faster(context, number, acceptance=0.8, draft_cost=0.05, drafts=4):
    counts, seconds = zip(*attention_rows("H100-SXM", 8, context), strict=True)
    attention = 32 * float(np.interp(number, counts, seconds))  # reads each cache once, for 5 or 1
    plain = product_seconds("H100-SXM", weights, number) + attention
    checked = product_seconds("H100-SXM", weights, (drafts + 1) * number) + attention
    tokens = speed_of(acceptance, draft_cost, drafts)["tokens"]
    return tokens * plain / (checked + drafts * draft_cost * plain)


numbers = (1, 16, 64, 128, 256, 512, 1024)
rows = {}
for context in (256, 1024, 8192):
    last = attention_rows("H100-SXM", 8, context)[-1][0]
    speeds = {n: f"{times_faster(context, n):.2f}" if n <= last else "" for n in numbers}
    rows[f"{context:,} tokens each"] = speeds
table = pd.DataFrame(rows).T
table.columns.name = "conversations"
display(table)
stops = next(n for n in range(1, 1025) if times_faster(256, n) < 1)
compare("u13-drafts-stop", "conversations", measured=stops)

# %% [markdown]
# From some hundred conversations on the products are bound by arithmetic, and a rejected draft costs as much as a token. But with long caches a step waits for *them*, and one pass reads each cache once for five tokens: there drafts pay as long as memory has room. (The table takes it that attention on five new tokens costs what it costs on one.)

# %% [markdown]
# ### Never leave the latents
#
# Latent attention keeps a small vector $c_j$ for each token. With matrices $U_k$ and $U_v$ of each head ($U_k$ is `key_up[:, i]` below), its key is $U_k^T c_j$ and its value $U_v^T c_j$. Training makes both (S6). A decoding step would make both again for all earlier tokens. But, with softmax weights $s_j$,
#
# $$q \cdot (U_k^T c_j) = (\,?\,) \cdot c_j \qquad\qquad \sum_j s_j\, (U_v^T c_j) = U_v^T \,(\,?\,)$$
#
# A part of each query and key carries the position and cannot be absorbed: $d_r$ numbers, one rotary key for all heads. Both parts of a score are added.

# %% Attention over latents [markdown] exercise="u13-latent-step" points=2.5 minutes=13 difficulty=4 importance=4 extra=true
# **Write** `latent_attention` for one new token: `q_nope` (no position) $(b, a, d_n)$ and `q_rope` $(b, a, d_r)$, `latents` $(b, t, r)$ and `rope_keys` $(b, t, d_r)$ of all tokens up to it, `key_up` $(r, a, d_n)$ and `value_up` $(r, a, d_v)$. Return $(b, a, d_v)$. The scale is that of a whole key, $1/\sqrt{d_n + d_r}$. Everything is already rotated and normalised.
#
# Two scenarios, half of the points each: `result`, and `flops`, where the FLOPs must also be those of the absorbed form: nothing is computed for each head *and* cached token but its score and its weight.


# %% solution="u13-latent-step"
def latent_attention(
    q_nope: Tensor,
    q_rope: Tensor,
    latents: Tensor,
    rope_keys: Tensor,
    key_up: Tensor,
    value_up: Tensor,
) -> Tensor:
    """Attention of one token over latents (b, a, d_v), with both matrices absorbed."""
    ### BEGIN SOLUTION
    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    q_latent = torch.einsum("ban,ran->bar", q_nope, key_up)
    scores = q_latent @ latents.mT + q_rope @ rope_keys.mT
    weights = (scores * scale).softmax(-1)
    summed = weights @ latents
    return torch.einsum("bar,raw->baw", summed, value_up)
    ### END SOLUTION


# %%
def flops_of_deepseek(attention):
    """One token after 4,095 others, at the sizes of DeepSeek-V3, on tensors without data."""
    shapes = [(1, 128, 128), (1, 128, 64), (1, 4096, 512), (1, 4096, 64)]
    shapes += [(512, 128, 128), (512, 128, 128)]
    sizes = [torch.empty(each, device="meta") for each in shapes]
    return count_flops(lambda: attention(*sizes)).forward_flops


try_it(flops_of_deepseek, expanded_attention)
try_it(flops_of_deepseek, latent_attention)

# %% check="u13-latent-step"
# In float64: heads of every width, one cached token and many; FLOPs counted.

# %% [markdown]
# <details><summary>Hint: where do I begin?</summary>
#
# $q^T U_k^T c_j$: in which order can three factors be multiplied? Which product does not depend on $j$?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Measured: attention in one layer at DeepSeek-V3's sizes, its queries straight from 7168 numbers
latents_of = answer("u13-latent-step", latent_attention)
projections = 2 * 7168 * 128 * (128 + 64) + 2 * 128 * 128 * 7168
steps = {
    name: projections + flops_of_deepseek(each)
    for name, each in {"expanded": expanded_attention, "absorbed": latents_of}.items()
}
print({name: f"{each:,} FLOPs" for name, each in steps.items()})
print(f"{steps['expanded'] / steps['absorbed']:.1f} times fewer, after 4,096 tokens")

# %% [markdown]
# A *prompt* is cheaper expanded: its scores take 192 numbers, not 576. For each byte that it reads, an H100 has time for about 300 FLOPs; absorbed latents need 240, GQA in Llama-3-8B 4.

# %% [markdown]
# ### Experts with few places
#
# On many devices each expert takes at most so many tokens of a batch. Choices beyond that are dropped, and places may stay empty.

# %% What a capacity loses [markdown] exercise="u13-capacity" points=1.5 minutes=9 difficulty=2 importance=3 extra=true
# **Write** `capacity_losses`: `choices` has the experts of each token, equally many, its first choice first. Places are given to all first choices in the order of the tokens, then to all second choices, and so on; each expert has `capacity` of them. Return (a third of the points each):
#
# - `"dropped"`: choices that got no place.
# - `"lost_tokens"`: tokens without any place.
# - `"empty_places"`: places of all `num_experts` that nobody took.
#
# *By hand:* choices [0, 1], [0, 1], [0, 2]; 3 experts with 1 place each → **3** dropped, **1** lost, **0** empty.


# %% solution="u13-capacity"
def capacity_losses(choices: list[list[int]], num_experts: int, capacity: int) -> dict[str, int]:
    """Dropped choices, tokens that no expert took, and places that stay empty."""
    ### BEGIN SOLUTION
    places = [capacity] * num_experts
    taken = [0] * len(choices)
    for rank in range(len(choices[0])):
        for token, experts in enumerate(choices):
            if places[experts[rank]] > 0:
                places[experts[rank]] -= 1
                taken[token] += 1
    return {
        "dropped": len(choices) * len(choices[0]) - sum(taken),
        "lost_tokens": taken.count(0),
        "empty_places": sum(places),
    }
    ### END SOLUTION


# %%
try_it(capacity_losses, [[0, 1], [0, 1], [0, 2]], 3, 1)

# %% check="u13-capacity"
# Even and crowded choices, capacities from one to all.

# %% [markdown]
# ### Quality and hours of training (E1)
#
# Lecture E also sets quality against GPU hours: 0.25 to 1.75 million of them for scores that hardly differ. Two published runs of 2024, with $6 N D$ and *active* parameters:

# %% folded=true tags=["nbval-check-output"]
# Table: two runs as published: Llama 3.1's report and model card; DeepSeek-V3 report, tables 1 and 3
runs = {
    "Llama-3.1-405B": ("Llama-3-405B", 15.6e12, 30.84, "H100", 84.4),
    "DeepSeek-V3": ("DeepSeek-V3", 14.8e12, 2.79, "H800", 87.1),
}
table = {}
for name, (sizes, tokens, hours, chip, quality) in runs.items():
    active = sum(active_parameters(preset(sizes)).values())
    table[name] = {
        "MMLU": quality,
        "active, billions": f"{active / 1e9:.0f}",
        "6 N D, 10²⁴ FLOPs": f"{6 * active * tokens / 1e24:.1f}",
        "million GPU hours": f"{hours} ({chip})",
    }
pd.DataFrame(table).T

# %% [markdown]
# Eleven times fewer hours for eleven times fewer FLOPs: training waits for arithmetic, and there experts save at any batch size. (Equal ratios are not equal efficiency: DeepSeek's products ran in fp8, whose peak is twice that of Llama's bf16.)

# %% [markdown]
# ## What you know now
#
# | quantity | value |
# |---|---|
# | cache of a token and layer | $2\, a_{kv}\, d$ numbers, or $r + d_r$ |
# | FLOPs for each byte of cache (bf16) | $a / a_{kv}$ with grouped queries; about 240 with absorbed latents |
# | experts that $b$ tokens read | $E\,(1 - (1 - k/E)^b)$ |
# | tokens/s of each conversation | 1 / (other seconds + $L$ times the attention of one layer) |
# | served by one H100 | 59 conversations of 8,192 tokens with Llama-3-8B, 30 of them at 60 tokens/s |
#
# **Your plan** is unchanged. But what it trains will be served, and the design, chosen before training, decides for how many people.
#
# *Further reading:* Ainslie et al. 2023, *GQA* (10 minutes). Kwon et al. 2023, *PagedAttention*, sections 3 and 4 (20 minutes). DeepSeek-AI 2024, *DeepSeek-V2*, section 2.1 (15 minutes). Leviathan et al. 2023, *Speculative Decoding*, sections 2 and 3 (15 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("13")
