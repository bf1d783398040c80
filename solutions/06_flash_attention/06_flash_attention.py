# ---
# jupyter:
#   course:
#     title: Attention without the matrix
#     device: CPU
#     needs: ["02", "03", "05"]
#     lecture: [E2, E3, B5]
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
# ![Slow memory holds queries, keys, values and the result as long strips. Of the 8,192 by 8,192 scores between them only one tile exists, in a small fast memory. The layers of Llama-3-8B keep 185 GB with scores, 44 GB without.](hero.svg)
#
# Attention compares every token with every token, and its matrix of scores is the largest tensor of a long-context model. Flash attention gives the same result without ever storing that matrix. You will write it, forward and backward, on a machine that counts every number moved.
#
# Your training plan puts the activations of Llama-3-8B at 44 GB, which assumes a fused kernel. Without one they would be 185 GB. This unit is that kernel.
#
# 1. **Compute** a softmax without holding the whole row in memory.
# 2. **Build** tiled attention that fits in fast memory, with minimal traffic.
# 3. **Measure** how much two programs move.
# 4. **Build** a backward pass that keeps one number per query in place of its attention weights.
# 5. **Explain** why more FLOPs take less time.
#
# | here | lecture E | lecture B | meaning |
# |---|---|---|---|
# | $n$, $m$ | seq | S | queries, keys; equal in training, where both are $s$ |
# | $d$ | | | head dimension |
# | $b_q$, $b_k$ | | | queries and keys in a tile |
# | $M$ | SRAM | | numbers that fast memory holds |
# | lse | | | log-sum-exp of a row of scores |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import Kernels, device, preset
from course_utils.instruments import (
    TwoLevelMemory,
    count_bytes,
    count_flops,
    count_saved_bytes,
    fake_tensors,
    measure_roofline,
    time_call,
)
from course_utils.instruments.triton_attention import INSTALL, compare_kernel, is_installed, tl
from course_utils.records.traces import recorded_rows
from course_utils.reference import Block
from course_utils.reference.tiled_attention import flash_forward as flash_forward_queries_outer
from course_utils.reference.tiled_attention import flash_forward_keys_outer, materialised_forward
from course_utils.reference.tiled_forward import tiled_forward
from course_utils.show import (
    Choice,
    blocks_and_traffic,
    explorer,
    layer_explorer,
    tile_walk,
    try_it,
)

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Same FLOPs, different clock
#
# Causal attention, with the scores in memory and as one **fused kernel**:


# %%
q, k, v = (torch.randn(1, 2, 2048, 64, requires_grad=True) for _ in range(3))
is_later = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def materialised():
    scores = q @ k.mT * 64**-0.5
    return scores.masked_fill(is_later, -torch.inf).softmax(-1) @ v


def fused():
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


# %% [markdown]
# Two instruments count the forward pass: its FLOPs, and the bytes each operation must read and write.

# %% tags=["nbval-check-output"]
attentions = {"materialised": materialised, "fused": fused}
bytes_of = {name: count_bytes(call) for name, call in attentions.items()}
for name, moved in bytes_of.items():
    print(f"{name:13}{count_flops(attentions[name]).forward_flops / 1e9:.2f} GFLOP", moved)

# %% [markdown]
# The same FLOPs, and hardly any bytes. **Guess first.** Forward and backward on this machine: how many times faster is the fused kernel?

# %%
predict("u06-clock", None, "times faster")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: forward and backward, timed on this machine (a few seconds)
timings = {
    name: time_call(lambda call=call: call().sum().backward(), num_warm_up=1, num_runs=3)
    for name, call in attentions.items()
}
seconds = {name: timing.median_seconds for name, timing in timings.items()}
flops = {name: sum(count_flops(call)) for name, call in attentions.items()}
moved_bytes = {name: moved.num_bytes for name, moved in bytes_of.items()}
measures = {"FLOPs": flops, "bytes, forward": moved_bytes, "seconds": seconds}
for name, each in measures.items():
    print(f"{name:15}fused / materialised = {each['fused'] / each['materialised']:.3f}")
compare("u06-clock", "times faster", measured=seconds["materialised"] / seconds["fused"])

# %% folded=true tags=["nbval-check-output"]
# Table: recorded on a GPU, forward, ms (RTX PRO 6000 Blackwell, by duoan, MIT licence)
on_gpu = pd.DataFrame(recorded_rows("flash_vs_eager")).query(
    "device.str.startswith('RTX') and dtype == 'bf16' and head_dim == 64 and `pass` == 'fwd'"
)
by_length = on_gpu.pivot(index="implementation", columns="seq", values="seconds") * 1000
by_length.loc[["PyTorch eager", "PyTorch compile", "Triton flash", "SDPA"]].round(3)

# %% [markdown]
# The fused kernel takes a sixth *more* FLOPs (the backward pass makes scores again), and a fraction of the time; on a GPU it is 3 times faster for 1,024 tokens, and 37 times for 65,536. Neither count predicts the clock.
#
# ## Two memories
#
# A GPU computes in a small fast memory on the chip (SRAM) and keeps its tensors in a large slow one (HBM). Lecture E shows an A100 (E3):
#
# | memory | bandwidth | size |
# |---|---|---|
# | SRAM, on the chip | 19 TB/s | 20 MB |
# | HBM, "the memory of the GPU" | 1.5 TB/s | 40 GB |
#
# The 20 MB are spread over 108 multiprocessors, about 190 KB each, and a tile must fit in one.
#
# Separate kernels send the $n \times m$ scores through slow memory again and again. A fused kernel makes a **tile** of scores in fast memory, uses it, and forgets it (E2). One thing is in the way: a softmax needs its whole row.

# %% [markdown]
# ## A softmax without its row
#
# Attention for one query is a softmax-weighted mean of the values $v_j$, with scores $s_j$:
#
# $$o = \frac{\sum_j e^{s_j}\, v_j}{\sum_j e^{s_j}} = \frac{\sum_j e^{s_j - c}\, v_j}{\sum_j e^{s_j - c}} \qquad \text{for every } c$$
#
# Why the $c$? Even float64 overflows:

# %% tags=["nbval-check-output"]
scores = torch.tensor([900.0, 899.0], dtype=torch.float64)
print("e^s:", scores.exp().tolist(), "  e^(s - c):", (scores - scores.max()).exp().tolist())

# %% [markdown]
# So $c$ is the largest score of the row, which may come last. Per row, keep three things as blocks of keys arrive: the largest score so far $c$, the sum $l = \sum e^{s_j - c}$, and the sum $a = \sum e^{s_j - c}\, v_j$. When $c$ grows to $c'$, what must happen to $l$ and $a$?

# %% An online softmax [markdown] exercise="u06-online" points=3 minutes=16 difficulty=3 importance=5
# **Write** `online_softmax`. `blocks` is an **iterator** that yields each block once, and at least one: the scores (rows, keys) of all rows for some keys, and the values (keys, width) of these keys, in float64. Blocks may have different numbers of keys. Return two tensors:
#
# - the weighted means $o$ of all rows (rows, width),
# - the **log-sum-exp** of each row (rows,): $\ln \sum_j e^{s_j}$, over all keys.
#
# Hold at most two blocks: the one in use and the next. Three scenarios, worth a third each:
#
# | scenario | scores |
# |---|---|
# | `ordinary` | normally distributed |
# | `extreme` | up to 900 and down to −900, largest first or last, rows of very different magnitude |
# | `masked` | $-\infty$ for keys that a row may not see: sometimes a whole block, even the first, or all keys. In a row that sees no key at all, $o$ is 0 and the log-sum-exp $-\infty$. |
#
# *By hand:* one row; a block with scores $\ln 1, \ln 2$ and values 1, 2, then one with score $\ln 5$ and value 3 → $o = (1 + 4 + 15)/8 =$ **2.5**, lse $= \ln 8 =$ **2.079**.


# %% solution="u06-online"
def online_softmax(blocks: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Means of values weighted by a softmax over all blocks, and the log-sum-exp of each row."""
    ### BEGIN SOLUTION
    maximum = total = out = None
    for scores, values in blocks:
        if out is None:
            maximum = scores.new_full((len(scores), 1), -torch.inf)
            total, out = torch.zeros_like(maximum), scores.new_zeros(len(scores), values.shape[1])
        higher = torch.maximum(maximum, scores.amax(1, keepdim=True))
        shift = torch.where(higher == -torch.inf, 0.0, higher)
        weights, shrink = torch.exp(scores - shift), torch.exp(maximum - shift)
        total = total * shrink + weights.sum(1, keepdim=True)
        out = out * shrink + weights @ values
        maximum = higher
    lse = (maximum + total.log())[:, 0]
    return out / torch.where(total > 0, total, 1.0), lse
    ### END SOLUTION


# %% folded=true
# Try it: two blocks
two_blocks = [
    (torch.tensor([[1.0, 2.0]]).double().log(), torch.tensor([[1.0], [2.0]]).double()),
    (torch.tensor([[5.0]]).double().log(), torch.tensor([[3.0]]).double()),
]


def on_two_blocks(online_softmax):
    return [each.tolist() for each in online_softmax(iter(two_blocks))]


try_it(on_two_blocks, online_softmax)

# %% check="u06-online"
# Scores of every size and order; rows and blocks without a key; how many blocks are in memory.

# %% [markdown]
# <details><summary>Hint: I do not know where to start</summary>
#
# $e^{s - c'} = e^{s - c} \cdot \,?$ Which factor turns a sum taken with the old maximum into one with the new?
# </details>
#
# <details><summary>Hint: my result is nan</summary>
#
# A row that has seen no key has the maximum $-\infty$. What is $-\infty - (-\infty)$? What may be subtracted in its place?
# </details>

# %% [markdown]
# **Compare with** PyTorch's fused kernel, which also returns a log-sum-exp, one number per row:

# %% folded=true tags=["nbval-check-output"]
# Measured: blocks of 100 keys, against the fused kernel
online_of = answer("u06-online", online_softmax)
torch.manual_seed(0)
queries, keys, values = (torch.randn(300, 16, dtype=torch.float64) for _ in range(3))
blocks = ((queries @ keys[j : j + 100].T / 4, values[j : j + 100]) for j in range(0, 300, 100))
out, lse = online_of(blocks)
kernel_out, kernel_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
    *(each[None, None] for each in (queries, keys, values))
)
print("same result:", torch.allclose(out, kernel_out[0, 0]), end=", ")
print("same log-sum-exp:", torch.allclose(lse, kernel_lse[0, 0].double()))

# %% [markdown]
# The log-sum-exp sums up a row's scores. From it any weight can be recomputed: $p_j = e^{s_j - \mathrm{lse}}$.

# %% [markdown]
# ## A machine that counts
#
# `TwoLevelMemory` has the two memories. Arrays live in slow memory, where you cannot compute. `load` copies a part into fast memory as a **tile**, `store` copies a tile back, and both are counted. Results computed from tiles are tiles too, and take up room until no variable refers to them. Doubling an 8 × 4 array, three rows at a time:

# %% tags=["nbval-check-output"]
machine = TwoLevelMemory(capacity=30)
x = machine.slow(torch.ones(8, 4, dtype=torch.float64), "x")
y = machine.slow(torch.zeros(8, 4, dtype=torch.float64), "y")
for i in range(0, 8, 3):
    tile = machine.load(x[i : i + 3])
    machine.store(2 * tile, y[i : i + 3])
machine

# %% [markdown]
# `tile` and `2 * tile`, 12 numbers each, coexist; the next iteration frees the old `tile` only after loading the new one. Now break it:

# %% tags=["nbval-check-output"]
for attempt in (lambda: x + 1, lambda: tile + torch.ones(2, 4), lambda: machine.load(x)):
    try:
        attempt()
    except (ValueError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# **Guess first.** $n = 48$ queries, $m = 128$ keys, $d = 8$. Queries, keys, values, result and log-sum-exp have 2,864 numbers in all. Fast memory holds a few tiles, never all keys. With tiles of 16 queries and 16 keys and queries in the outer loop, how many numbers are loaded and stored?

# %%
predict("u06-moved", None, "numbers")

# %% Flash attention, forward [markdown] exercise="u06-forward" points=4 minutes=14 difficulty=4 importance=5
# **Write** `flash_forward`: $\mathrm{softmax}(q k^\top / \sqrt d)\, v$ and the log-sum-exp of each row, nothing masked, on a machine. `arrays` holds, in this order, `q` (n, d), `k` and `v` (m, d), which you load, and `out` (n, d) and `lse` (n,), which you store.
#
# Fast memory holds $M = 4 b_q d + 2 b_k d + 4 b_q b_k + 8 b_q$ numbers. All arrays are float64. Four scenarios, worth a quarter each:
#
# | scenario | what counts |
# |---|---|
# | `ordinary` | whole tiles |
# | `extreme` | scores beyond 1,000 or all far below zero |
# | `ragged` | block sizes that do not divide $n$ or $m$ |
# | `traffic` | no more numbers loaded and stored than with queries in the outer loop, as in FlashAttention-2: `q`, `out` and `lse` move once, keys and values once for each tile of queries |
#
# Useful: `machine.full(shape, value)` makes a tile without loading, `machine.load(k[j : j + block_k]).mT` is one transposed, and torch's functions work on tiles. Branch on sizes only, never on tensor values.
#
# *By hand:* $n = m = 2$, $d = 4$, tiles of one → **40** numbers loaded, **10** stored.


# %% solution="u06-forward"
def flash_forward(machine: TwoLevelMemory, arrays: list[Any], block_q: int, block_k: int) -> None:
    """Attention in tiles: loads q, k, v and stores out and lse."""
    q, k, v, out, lse = arrays
    num_queries, head_dim = q.shape
    scale = head_dim**-0.5
    ### BEGIN SOLUTION
    for i in range(0, num_queries, block_q):
        queries = machine.load(q[i : i + block_q])
        maximum = machine.full((len(queries), 1), -torch.inf)
        total = machine.full((len(queries), 1), 0.0)
        summed = machine.full((len(queries), head_dim), 0.0)
        for j in range(0, len(k), block_k):
            scores = queries @ machine.load(k[j : j + block_k]).mT * scale
            higher = torch.maximum(maximum, scores.amax(1, keepdim=True))
            weights, shrink = torch.exp(scores - higher), torch.exp(maximum - higher)
            total = total * shrink + weights.sum(1, keepdim=True)
            summed = summed * shrink + weights @ machine.load(v[j : j + block_k])
            maximum = higher
        machine.store(summed / total, out[i : i + block_q])
        machine.store((maximum + total.log())[:, 0], lse[i : i + block_q])
    ### END SOLUTION


# %% folded=true
# Try it: a small head on a machine, and the result beside torch's
def on_a_machine(flash_forward, n=2, m=2, d=4, block_q=1, block_k=1):
    capacity = 4 * block_q * d + 2 * block_k * d + 4 * block_q * block_k + 8 * block_q
    machine = TwoLevelMemory(capacity)
    torch.manual_seed(0)
    q, k, v = (torch.randn(rows, d, dtype=torch.float64) for rows in (n, m, m))
    out, lse = torch.zeros_like(q), torch.zeros(n, dtype=torch.float64)
    names = ("q", "k", "v", "out", "lse")
    arrays = [
        machine.slow(each, name) for each, name in zip((q, k, v, out, lse), names, strict=True)
    ]
    flash_forward(machine, arrays, block_q, block_k)
    print("right:", torch.allclose(out, F.scaled_dot_product_attention(q, k, v)))
    return machine


def small_head(flash_forward):
    return repr(on_a_machine(flash_forward))


try_it(small_head, flash_forward)

# %% check="u06-forward"
# Results in float64, whole and ragged tiles, scores of every size; loads and stores; capacity.

# %% [markdown]
# <details><summary>Hint: OutOfFastMemory</summary>
#
# Which variables still hold tiles you no longer need? Loops do not clear their variables; `del name` does, and so does a new value.
# </details>
#
# <details><summary>Hint: my result is right and I move too much</summary>
#
# Which loop is the outer one, and which of the five arrays move once, which once per iteration?
# </details>

# %% [markdown]
# **Check your guess**, and watch your own program. Orange moves now, blue has moved; the light orange tile of scores is being computed, grey ones are discarded. Scores never move.

# %% folded=true tags=["nbval-check-output"]
# Measured: 48 queries, 128 keys, tiles of 16
forward_of = answer("u06-forward", flash_forward)
walked = on_a_machine(forward_of, 48, 128, 8, 16, 16)
print(walked)
compare("u06-moved", "numbers", measured=walked.traffic_elements)

# %% folded=true
# Explorer: run this cell, then move the control
explorer(
    lambda step: tile_walk(walked, step),
    step=Choice("loads and stores done", list(range(1, len(walked.moves) + 1)), 10),
)

# %% [markdown]
# The 48 · 128 scores are never in memory all at once. That is what "linear in $s$" means (B5): **capacity** is linear. Is traffic linear too?

# %% [markdown]
# ## Extras, early: your kernel in Triton
#
# Real kernels are written in **Triton**, Python for one tile that is compiled for a GPU. Every *program* makes one tile of queries. An array is a pointer to its first number, and a tile is loaded from many places at once:
#
# ```python
# rows = tl.program_id(0) * block_q + tl.arange(0, block_q)
# places = rows[:, None] * head_dim + tl.arange(0, head_dim)
# queries = tl.load(q + places, mask=rows[:, None] < num_queries, other=0.0)
# ```
#
# Only the mask knows where an array ends: without one, `tl.store` overwrites whatever lies behind it. Triton's interpreter runs kernels on the CPU.
#
# **Write** your forward pass for one tile of queries (no points, as Triton needs Linux and 1 GB). Arrays are fp32 or fp16, but `lse` is fp32. Useful: `tl.dot`, `tl.trans`, `tl.max(scores, 1)`, `tl.sum`, `tl.where`, `tl.full((block_q,), value, tl.float32)`. `tl.dot` takes factors of one format and sums in fp32. (In bf16 the interpreter gives wrong numbers and no error.)


# %%
def flash_kernel(
    q,
    k,
    v,
    out,
    lse,
    num_queries,
    num_keys,
    scale,
    head_dim: tl.constexpr,
    block_q: tl.constexpr,
    block_k: tl.constexpr,
):
    raise NotImplementedError


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Compared: your kernel and your program on the machine, if Triton is installed
print(*compare_kernel(flash_kernel, forward_of) if is_installed() else [INSTALL], sep="\n")

# %% [markdown]
# ## What moves
#
# **Guess first.** Tiles twice as tall, $b_q = 32$, move less. By which factor does traffic change if they are twice as *wide*, $b_k = 32$?

# %%
predict("u06-wider", None, "times")

# %% [markdown]
# **Check your guess** against the machine: 256 queries and keys, $d = 16$. The program with its scores in memory has three kernels: scores, softmax, result. With **keys** in the outer loop (FlashAttention-1), results go to and fro.

# %% folded=true tags=["nbval-check-output"]
# Measured: three programs on the machine
PROGRAMS = {
    "materialised": (materialised_forward, "q k v scores weights out"),
    "flash": (flash_forward_queries_outer, "q k v out lse"),
    "flash, keys outside": (flash_forward_keys_outer, "q k v out lse"),
}


def measured_traffic(name, n, d, block_q, block_k):
    program, arrays = PROGRAMS[name]
    shapes = dict.fromkeys("qkv", (n, d)) | {"out": (n, d), "lse": (n,)}
    shapes |= dict.fromkeys(("scores", "weights"), (n, n))
    machine = TwoLevelMemory(device="meta")
    tensors = (torch.empty(shapes[each], device="meta") for each in arrays.split())
    program(machine, [machine.slow(each) for each in tensors], block_q, block_k)
    return machine.traffic_elements


tiles = [(16, 16), (32, 16), (16, 32), (64, 16), (16, 64)]
names = [f"{block_q} × {block_k}" for block_q, block_k in tiles]
moved = [{name: measured_traffic(name, 256, 16, *tile) for name in PROGRAMS} for tile in tiles]
display(pd.DataFrame(moved, names).rename_axis("tile").map("{:,}".format))
compare("u06-wider", "times", measured=moved[2]["flash"] / moved[0]["flash"])

# %% [markdown]
# With queries outside width changes nothing: each tile of queries reads every key once. Taller tiles move less, until they no longer fit. With keys outside it is the other way round, and each tile of keys loads and stores all results besides. So the order with queries outside moves less if $b_q$ is more than about $\frac{2}{3} b_k$, and its tiles of queries run in parallel without sharing results.
#
# Longer sequences:

# %% folded=true tags=["nbval-check-output"]
# Measured: one head in 16 bits, tiles of 128 queries, d = 64
rows = {}
for n in (1024, 4096, 16384):
    three, flash = (
        2 * measured_traffic(name, n, 64, 128, 2048) for name in ("materialised", "flash")
    )
    rows[f"{n:,}"] = {
        "materialised, MB": three / 1e6,
        "flash, MB": flash / 1e6,
        "times less": three / flash,
        "materialised, FLOP/B": 4 * n * n * 64 / three,
        "flash, FLOP/B": 4 * n * n * 64 / flash,
    }
pd.DataFrame(rows).T.rename_axis("tokens").round(1)

# %% [markdown]
# **Both are quadratic.** Sixteen times the tokens, 230 to 250 times the traffic: every tile of queries reads all keys. The gain is a constant near $1 + 2 b_q / d$, here 5, and the intensity rises from 26 to 127 FLOP/B. (The first section counted every array once: hence 510 FLOP/B.)

# %% [markdown]
# ## The cache between
#
# 127 FLOP/B, about $b_q$ whatever $d$: with the 3.35 TB/s of an H100, attention in tiles of 128 queries would reach 426 TFLOP/s, 43% of the peak.
#
# **Guess first.** What did FlashAttention-3 reach there, with 16,384 tokens, 32 heads and $d = 128$?

# %%
predict("u06-real-rate", None, "TFLOP/s")

# %% folded=true tags=["nbval-check-output"]
# Measured: recorded by NVIDIA's aiconfigurator, Apache-2.0 (FLOPs of a causal mask counted half)
rates = pd.DataFrame(recorded_rows("attention_prefill_rates"))
rates = rates.query("head_dim == 128 and batch == 1 and kv_heads == 32").set_index(
    ["device", "seq"]
)
H100_RATE, A100_RATE = "H100 80GB HBM3", "A100-SXM4-80GB"
best = rates.loc[(H100_RATE, 16384), "flops_per_second"]
compare("u06-real-rate", "TFLOP/s", measured=best / 1e12)

# %% [markdown]
# Above the bound: not every load reads device memory. Before it lies an **L2 cache**, 50 MB on an H100 (in two partitions, taken as one here), that all multiprocessors share. Tiles go out head by head, one to each multiprocessor. Those of a head run side by side and read the same keys and values: from device memory once, if the cache holds them.

# %% Attention with a cache [markdown] exercise="u06-l2" points=2 minutes=10 difficulty=3 importance=4
# **Write** `attention_bounds`: bytes to and from device memory, of all heads, and the most FLOP/s, to nine significant digits. A quarter of the points each.
#
# | key | what |
# |---|---|
# | `"dram_bytes"` | without a cache: every query head moves queries and result once, and keys and values once for each tile of queries |
# | `"l2_bytes"` | with a cache: keys and values move once for each key-value head, if those of all heads in flight fit into the cache; otherwise as without |
# | `"dram_rate"`, `"l2_rate"` | FLOPs over time with either; the slower of arithmetic and traffic sets the time |
#
# - `shape`: `"batch"` sequences of `"seq"` tokens, each with `"heads"` query heads of `"head_dim"` numbers; heads / kv_heads consecutive ones share one key-value head. 2 bytes a number, no mask (4 FLOPs per pair and number of a head), no log-sum-exp.
# - `gpu`: `"peak"` in FLOP/s, `"bandwidth"` in B/s, `"l2_bytes"`, the cache's size, and `"processors"`: that many tiles are in flight. Take the first ones: all tiles of query head 0, then of head 1, and so on, then the next sequence. A head with one tile in flight counts.
#
# *By hand:* the next cell's case: 2 tiles a head, so 3 processors work on 2 query heads, of 1 key-value head: 64 bytes fit → **768** and **384** bytes, **5.33** and **10** FLOP/s.


# %% solution="u06-l2"
def attention_bounds(shape: dict[str, int], block_q: int, gpu: dict[str, int]) -> dict[str, float]:
    """Bytes and highest FLOP/s, with an L2 cache and without."""
    ### BEGIN SOLUTION
    heads = shape["batch"] * shape["heads"]
    group = shape["heads"] // shape["kv_heads"]
    array_bytes = 2 * shape["seq"] * shape["head_dim"]  # of one head
    tiles = -(-shape["seq"] // block_q)
    own = 2 * heads * array_bytes
    dram = own + 2 * heads * tiles * array_bytes
    heads_in_flight = min(heads, -(-gpu["processors"] // tiles))
    kv_in_flight = -(-heads_in_flight // group)
    is_cached = 2 * kv_in_flight * array_bytes <= gpu["l2_bytes"]
    cached = own + 2 * (heads // group) * array_bytes if is_cached else dram
    flops = 4 * heads * shape["seq"] ** 2 * shape["head_dim"]

    def rate(num_bytes):
        return flops / max(flops / gpu["peak"], num_bytes / gpu["bandwidth"])

    return {
        "dram_bytes": dram,
        "l2_bytes": cached,
        "dram_rate": rate(dram),
        "l2_rate": rate(cached),
    }
    ### END SOLUTION


# %%
small_shape = {"batch": 1, "heads": 4, "kv_heads": 2, "seq": 8, "head_dim": 2}
small_gpu = {"peak": 10, "bandwidth": 2, "l2_bytes": 64, "processors": 3}
try_it(attention_bounds, small_shape, 4, small_gpu)

# %% check="u06-l2"
# Recorded shapes and made-up ones: shared keys, ragged tiles, caches that just hold or just do not.

# %% [markdown]
# <details><summary>Hint: only the cache is wrong</summary>
#
# How many query heads have a tile among the first ones? How many key-value heads do these share?
# </details>

# %% folded=true tags=["nbval-check-output"]
# Table: both bounds beside the recorded rates, TFLOP/s (white papers: 108 and 132 processors)
bounds_of = answer("u06-l2", attention_bounds)
gpus = {A100_RATE: ("A100-80", 40, 108), H100_RATE: ("H100-SXM", 50, 132)}


def beside_recorded(name, seq):
    sheet, mb, processors = gpus[name]
    gpu = {"peak": device(sheet).dense_flops_per_second("bf16"), "l2_bytes": mb * 10**6}
    gpu |= {"bandwidth": device(sheet).bandwidth_bytes_per_second, "processors": processors}
    shape = {"batch": 1, "heads": 32, "kv_heads": 32, "seq": seq, "head_dim": 128}
    bounds = bounds_of(shape, 128, gpu)
    row = {"without cache": bounds["dram_rate"], "with L2": bounds["l2_rate"]}
    row["recorded"] = rates.loc[(name, seq), "flops_per_second"]
    tera = {key: value / 1e12 for key, value in row.items()}
    return tera | {"recorded / with L2": row["recorded"] / row["with L2"]}


cases = {(name[:4], seq): (name, seq) for name in gpus for seq in (512, 2048, 8192, 16384)}
pd.DataFrame({key: beside_recorded(*case) for key, case in cases.items()}).T.round(2)

# %% [markdown]
# With the cache, attention is compute-bound at almost every length. What is still missing has other causes: exponentials, maxima and sums are no products, and a short sequence streams few keys past a tile of queries, so much of its time is beginning and ending.

# %% [markdown]
# ## Tiles above the diagonal
#
# In a language model no query sees a later key. A tile wholly above the diagonal is skipped: for long sequences, half of the FLOPs. Unit 01 and most papers count the full square.

# %% [markdown]
# ## Backward: keep less, compute again
#
# With fused attention, autograd keeps queries, keys, values, the result, and one log-sum-exp per head and token. Weights are made again: $P = e^{S - \mathrm{lse}}$ from the scores $S = q k^\top / \sqrt d$. For the result $O = P v$ and its upstream gradient $dO$, the chain rule gives
#
# $$dv = P^\top dO \qquad dP = dO\, v^\top \qquad dS = P * (dP - \delta) \qquad dq = \frac{dS\, k}{\sqrt d} \qquad dk = \frac{dS^\top q}{\sqrt d}$$
#
# (Alone, $d$ is the head dimension; before another letter it marks a gradient.)
#
# The softmax adds $\delta$, one number per row: $\delta_i = \sum_j P_{ij}\, dP_{ij} = dO_i \cdot \sum_j P_{ij} v_j = dO_i \cdot O_i$. So it is computed from $dO$ and $O$, before any tile.

# %% [markdown]
# Everything else goes tile by tile. Tile $(i, j)$ reads $q_i, dO_i, \mathrm{lse}_i, \delta_i$ and $k_j, v_j$; it makes its $S, P, dP$ and $dS$; it adds to $dv_j$, $dk_j$ and $dq_i$.
#
# **Guess first.** Forward takes two matrix products per tile. How many times the FLOPs of forward does this backward take?

# %%
predict("u06-backward-flops", None, "times forward")

# %% Flash attention, backward [markdown] exercise="u06-backward" points=4 minutes=25 difficulty=5 importance=5
# **Write** `flash_attention`: causal attention as an autograd function (pattern: unit 05). `q`, `k`, `v` have the shape (…, s, d). The forward pass is given: `forward(q, k, v, block)` returns the result and the log-sum-exp (…, s), tile by tile. Yours are what to keep, and the backward pass:
#
# - Gradients of `q`, `k`, `v` in float64, for any upstream gradient. Do not change the inputs.
# - Kept for backward, to the byte: `q`, `k`, `v`, the result and the log-sum-exp themselves, by `ctx.save_for_backward`. Nothing else stays alive.
# - Scores exist only in tiles of `block` × `block` per head, the last ones smaller: no tensor has $s \times s$ floating-point numbers or more.
# - Backward visits only tiles on and below the diagonal, makes each product of the formulas above once per tile, and does not call `forward`.
#
# All or nothing. Useful: `q[..., i : i + block, :]` are rows of all heads; only tiles with $i = j$ need a mask.
#
# *By hand:* one head of 4 tokens, $d = 2$ in float64 → `q`, `k`, `v` and the result of 64 bytes each and 32 of lse, **288** kept, 96 of them beside `q`, `k` and `v`; tiles of 2 → **3** visited of 4.


# %% solution="u06-backward"
def flash_attention(
    forward: Callable[..., tuple[Tensor, Tensor]], q: Tensor, k: Tensor, v: Tensor, block: int
) -> Tensor:
    """Causal attention that recomputes its weights, tile by tile, in the backward pass."""

    class Flash(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            out, lse = forward(q, k, v, block)  # the argument, not this method
            ### BEGIN SOLUTION
            ctx.save_for_backward(q, k, v, out, lse)
            return out
            ### END SOLUTION

        @staticmethod
        def backward(ctx, upstream):
            ### BEGIN SOLUTION
            q, k, v, out, lse = ctx.saved_tensors
            scale = q.shape[-1] ** -0.5
            delta = (upstream * out).sum(-1, keepdim=True)
            grad_q, grad_k, grad_v = (torch.zeros_like(each) for each in (q, k, v))
            for i in range(0, q.shape[-2], block):
                here = slice(i, i + block)
                for j in range(0, i + 1, block):
                    there = slice(j, j + block)
                    scores = q[..., here, :] @ k[..., there, :].mT * scale
                    if i == j:
                        is_later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
                        scores = scores.masked_fill(is_later, -torch.inf)
                    weights = torch.exp(scores - lse[..., here, None])
                    grad_v[..., there, :] += weights.mT @ upstream[..., here, :]
                    of_weights = upstream[..., here, :] @ v[..., there, :].mT
                    of_scores = weights * (of_weights - delta[..., here, :]) * scale
                    grad_q[..., here, :] += of_scores @ k[..., there, :]
                    grad_k[..., there, :] += of_scores.mT @ q[..., here, :]
            return grad_q, grad_k, grad_v
            ### END SOLUTION

    return Flash.apply(q, k, v)


# %% folded=true
# Try it: bytes kept by one head of 4 tokens, and gradients beside PyTorch's
def four_tokens(flash_attention):
    torch.manual_seed(0)
    inputs = [torch.randn(1, 4, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def gradients(attention):
        return torch.autograd.grad((attention(*inputs) ** 2).sum(), inputs)

    kept = count_saved_bytes(lambda: flash_attention(tiled_forward, *inputs, 2))
    ours = gradients(lambda *qkv: flash_attention(tiled_forward, *qkv, 2))
    theirs = gradients(lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True))
    right = [torch.allclose(one, other) for one, other in zip(ours, theirs, strict=True)]
    return {"kept bytes": kept.total_bytes, "gradients right": right}


try_it(four_tokens, flash_attention)

# %% check="u06-backward"
# Gradients in float64; kept bytes; FLOPs of both passes; the largest tensor; ragged tiles.

# %% [markdown]
# <details><summary>Hint: dv is right, dq and dk are not</summary>
#
# What do they share that dv does not use? Which number per row belongs to dP, and where did forward apply the scale?
# </details>
#
# <details><summary>Hint: kept bytes are too few</summary>
#
# Does autograd track a tensor stored as a `ctx` attribute?
# </details>

# %% [markdown]
# **Check your guess**, and compare with PyTorch's kernel: what is kept beyond `q`, `k` and `v`, in units of $u$, the bytes of `q`:

# %% folded=true tags=["nbval-check-output"]
# Measured: three attentions, 2 heads of 512 tokens
flash_of = answer("u06-backward", flash_attention)
head = [torch.randn(1, 2, 512, 32, dtype=torch.float64, requires_grad=True) for _ in range(3)]
mask = torch.ones(512, 512, dtype=torch.bool).triu(1)


def with_scores(q, k, v):
    return (q @ k.mT * 32**-0.5).masked_fill(mask, -torch.inf).softmax(-1) @ v


three = {
    "scores in memory": lambda: with_scores(*head),
    "yours, tiles of 64": lambda: flash_of(tiled_forward, *head, 64),
    "PyTorch, fused": lambda: F.scaled_dot_product_attention(*head, is_causal=True),
}
rows = {}
for name, call in three.items():
    forward_flops, backward_flops = count_flops(call)
    saved = count_saved_bytes(call, *head).total_bytes / head[0].nbytes
    rows[name] = {
        "kept beyond q, k, v, in u": saved,
        "forward, MFLOP": forward_flops / 1e6,
        "backward, MFLOP": backward_flops / 1e6,
        "backward / forward": backward_flops / forward_flops,
    }
display(pd.DataFrame(rows).T.round(3))
compare(
    "u06-backward-flops",
    "times forward",
    measured=rows["yours, tiles of 64"]["backward / forward"],
)

# %% [markdown]
# The fused kernel keeps the same bytes. Backward takes $2.5\times$ the FLOPs of forward instead of 2: of five products per tile, one recomputes the scores. That is recomputation (unit 05), of the largest tensor. (The fused kernel is counted by shapes, with the full square.)
#
# What is kept now grows like $s$ (B5). Here is one layer of Llama-3-8B with scores in memory. **Click every tensor that autograd keeps**, then ask the instrument. Which of them does a fused kernel not keep?

# %% folded=true
# Diagram: mark what autograd keeps
layer_explorer(preset("Llama-3-8B"), seq_len=8192, kernels=Kernels(is_attention_fused=False))

# %% [markdown]
# <details><summary>Check your marks</summary>
#
# A fused kernel does not keep the weights $P$, 4,096 of 5,504 MiB. Keys and values are not copied for all 32 query heads: 16 MiB each instead of 64. One log-sum-exp per head and token is added, 1 MiB. The layer keeps 1,313 MiB.
# </details>
#
# All 32 layers, one sequence:

# %% folded=true tags=["nbval-check-output"]
# Measured: what the layers of Llama-3-8B keep, with scores and without


def kept_gb(seq_len, is_fused):
    kernels = Kernels(is_attention_fused=is_fused)
    with fake_tensors():
        layer = Block(preset("Llama-3-8B"), 0, dtype=torch.bfloat16, kernels=kernels)
        x = torch.empty(1, seq_len, 4096, dtype=torch.bfloat16, requires_grad=True)
        return 32 * count_saved_bytes(lambda: layer(x), layer).total_bytes / 1e9


lengths = (2048, 4096, 8192, 16384, 32768)
columns = {"scores kept, GB": False, "flash attention, GB": True}
rows = {name: [kept_gb(n, is_fused) for n in lengths] for name, is_fused in columns.items()}
pd.DataFrame(rows, [f"{n:,}" for n in lengths]).rename_axis("tokens").round(1)

# %% [markdown]
# ## Extras
#
# <details><summary>From the slides: memory that stays quadratic</summary>
#
# Lecture S writes activations as O(bs · L²) after it has introduced flash attention; with it they are linear. Lecture B's O(BSD) leaves out the log-sum-exp, one fp32 number per head and token.
# </details>
#
# ### Traffic as a formula

# %% What two programs move [markdown] exercise="u06-traffic" points=3 minutes=8 difficulty=3 importance=4 extra=true
# **Write** `attention_traffic`: numbers loaded and stored for one head by each of two programs, worth half the points each. The last tile along an axis may be shorter, and moves less.
#
# | name | the program |
# |---|---|
# | `"q_outer"` | the order of FlashAttention-2: for each tile of queries, all keys and values; `out` and `lse` stored once |
# | `"materialised"` | three kernels. (1) Scores: each tile of queries once, all keys for each of them, scores stored. (2) Softmax: scores loaded, weights stored. (3) Result: for each tile of queries all weights of its rows and all values; `out` stored once, and no `lse` |
#
# *By hand:* 2 queries, 3 keys, $d = 1$, $b_q = 1$, $b_k = 2$ → **18** (`q_outer`), **40** (`materialised`).


# %% solution="u06-traffic"
def attention_traffic(
    num_queries: int, num_keys: int, head_dim: int, block_q: int, block_k: int
) -> dict[str, int]:
    """Numbers loaded and stored: "q_outer" and "materialised"."""
    ### BEGIN SOLUTION
    n, m, d = num_queries, num_keys, head_dim
    q_tiles = -(-n // block_q)
    keys_and_values = 2 * m * d
    queries_and_results = 2 * n * d
    scores = n * m
    return {
        "q_outer": queries_and_results + n + q_tiles * keys_and_values,
        "materialised": queries_and_results + q_tiles * keys_and_values + 4 * scores,
    }
    ### END SOLUTION


# %%
try_it(attention_traffic, 2, 3, 1, 1, 2)

# %% check="u06-traffic"
# Against two programs on the machine: tiles of every shape, ragged ends, one head beyond 2⁵³ numbers.

# %% [markdown]
# <details><summary>Hint: my count is slightly high when blocks do not divide evenly</summary>
#
# How many tiles cover 5 queries two at a time? Which arrays move once per *tile*, and how long are they?
# </details>

# %% [markdown]
# ### What the clock said in 2022
#
# The FlashAttention paper reports the gigabytes that its first kernel moved, and milliseconds: GPT-2 medium, 1,024 tokens, 64 sequences of 16 heads with $d = 64$, forward and backward on an A100 of 1.555 TB/s. Traffic fell 9.2 times. And time?

# %% folded=true tags=["nbval-check-output"]
# Table: published gigabytes and milliseconds (Dao et al. 2022, figure 2)
published_gb, published_ms = {"standard": 40.3, "flash": 4.4}, {"standard": 41.7, "flash": 7.3}
product = 2 * 1024 * 1024 * 64 * 64 * 16  # FLOPs of one matrix product, all heads
counted_flops = {"standard": 6 * product, "flash": 7 * product}
paper = {
    "traffic, GB": published_gb,
    "traffic alone at 1.555 TB/s, ms": {name: gb / 1.555 for name, gb in published_gb.items()},
    "FLOPs alone at 312 TFLOP/s, ms": {name: n / 312e9 for name, n in counted_flops.items()},
    "measured time, ms": published_ms,
}
pd.DataFrame(paper).T.round(1)

# %% [markdown]
# Time fell 5.7 times: neither program is as fast as its traffic alone would allow.

# %% Why is it faster? [markdown] exercise="u06-why-faster" points=2 minutes=7 difficulty=3 importance=3 extra=true
# **Write** three or four sentences:
#
# - Flash attention takes more FLOPs than attention with its scores in memory, and less time. Why? Use both intensities at 16,384 tokens (*What moves*) and the ridge of an A100 with 80 GB, 153 FLOP/B. (Leave out the L2 cache.)
# - The paper: how many of each program's milliseconds are traffic, at full bandwidth? What does that say about why time fell less than traffic?

# %% [markdown] text_answer="u06-why-faster"
# <!-- BEGIN SOLUTION -->
# Attention with its scores in memory has about 26 FLOP for each byte that moves, far below the 153 at which an A100 computes as fast as it reads. So bandwidth sets its time, and its arithmetic units wait. Flash attention with tiles of 128 queries has about 127, near the ridge: it moves a fifth. Its sixth more FLOPs, for scores recomputed in the backward pass, are done by units that had nothing to do.
#
# At full bandwidth, traffic is 26 of the standard program's 41.7 ms, and 2.8 of flash attention's 7.3. The rest fell only from 16 to 4.5 ms, and is now the larger part. So time fell less than traffic, and still less traffic would gain little.
#
# *Rubric:* half a point for bandwidth as what bound the first program, with intensity and ridge as numbers; half for "arithmetic waits, so FLOPs that run again cost little"; half for 26 of 41.7 and 2.8 of 7.3 ms; half for a rest that fell less, or is now most of the time.
# <!-- END SOLUTION -->

# %% [markdown]
# ### Your own machine
#
# Its roofline, and the rates of the first section's programs:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the roofline of this machine, and what both programs reach
print(measure_roofline())
for name, each in seconds.items():
    print(f"{name:13}{flops[name] / each / 1e9:.0f} GFLOP/s")

# %% [markdown]
# With its scores in memory, attention reaches a fraction of the roof, even where its intensity is above the ridge: exponentials and masks are not matrix products, yet pass over all scores. The fused kernel may seem to reach the roof or beat it: we count the full square, and it skips tiles above the diagonal.

# %% [markdown]
# ### Split keys
#
# In generation, one query attends to many keys, and one query cannot fill a GPU. So **split the keys** (flash-decoding): every processor takes a part of them, and the results are merged. Ring attention (unit 11) merges other devices' results the same way.

# %% Merge two results [markdown] exercise="u06-merge" points=1.5 minutes=8 difficulty=2 importance=4 extra=true
# **Write** `merge`: attention over two sets of keys, from the results `out_a`, `out_b` (rows, width) and log-sum-exps `lse_a`, `lse_b` (rows,) over each. Return the result and the log-sum-exp over all keys. Three scenarios, each a third of the points: `ordinary`; `extreme`, log-sum-exps up to ±2,000; `empty`, rows that have no key in one part or in both (an empty part is zeros and $-\infty$; so is the result if both are).
#
# *By hand:* $o = 5/3$ with lse $\ln 3$, and $o = 3$ with lse $\ln 5$ → **2.5**, $\ln 8 =$ **2.079**.


# %% solution="u06-merge"
def merge(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Result and log-sum-exp over all keys, from two parts."""
    ### BEGIN SOLUTION
    lse = torch.logaddexp(lse_a, lse_b)
    shift = torch.where(lse == -torch.inf, 0.0, lse)
    share_a = torch.exp(lse_a - shift)[:, None]
    share_b = torch.exp(lse_b - shift)[:, None]
    return share_a * out_a + share_b * out_b, lse
    ### END SOLUTION


# %%
def two_parts(merge):
    lse_a, lse_b = torch.tensor([3.0]).log(), torch.tensor([5.0]).log()
    return [
        each.tolist()
        for each in merge(torch.tensor([[5 / 3]]), lse_a, torch.tensor([[3.0]]), lse_b)
    ]


try_it(two_parts, merge)

# %% check="u06-merge"
# Parts of every size, log-sum-exps far from zero, rows without a key.

# %% [markdown]
# <details><summary>Hint: where are the sums?</summary>
#
# $e^{\mathrm{lse}_a}$ is the sum of the first part. Which share of both sums is it? How do you compute that share without the sums themselves, which would overflow?
# </details>

# %% [markdown]
# **Compare with** one query on 8,192 keys in eight parts, merged in any order, or two by two in three rounds:

# %% folded=true tags=["nbval-check-output"]
# Measured: eight parts in several orders
merge_of = answer("u06-merge", merge)
torch.manual_seed(0)
all_scores = 3 * torch.randn(1, 8192, dtype=torch.float64)
all_values = torch.randn(8192, 16, dtype=torch.float64)
eight = [
    online_of(iter([(all_scores[:, a : a + 1024], all_values[a : a + 1024])]))
    for a in range(0, 8192, 1024)
]


def merged_in(order):
    result = eight[order[0]]
    for number in order[1:]:
        result = merge_of(*result, *eight[number])
    return result[0]


pairs = eight
while len(pairs) > 1:
    pairs = [merge_of(*one, *other) for one, other in zip(pairs[::2], pairs[1::2], strict=True)]
exact = all_scores.softmax(1) @ all_values
for name, result in {
    "first to last": merged_in(range(8)),
    "last to first": merged_in(range(7, -1, -1)),
    "two by two": pairs[0][0],
}.items():
    print(f"{name}: equal to the softmax over all keys: {torch.allclose(result, exact)}")

# %% [markdown]
# ### The best tile
#
# **Look for** the shape at which both loop orders tie.

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    blocks_and_traffic,
    block_q=Choice("queries in a tile", [16, 32, 64, 128, 256, 512], 128),
    block_k=Choice("keys in a tile", [16, 32, 64, 128, 256], 64),
    head_dim=Choice("numbers of a query, d", [64, 128, 256], 128),
    seq_len=Choice("sequence, tokens", [1024, 4096, 8192, 32768], 8192),
)

# %% [markdown]
# ### A diagonal that starts elsewhere
#
# Square tiles, as many keys as queries:

# %% folded=true tags=["nbval-check-output"]
# Table: the share of tiles that a causal mask leaves
rows = {}
for n in (512, 4096, 32768):
    for block in (64, 128):
        side = n // block  # tiles; the first row of them has one, the last has all
        rows[f"{n:,} tokens, tiles of {block}"] = [side * (side + 1) // 2, (side + 1) / (2 * side)]
pd.DataFrame(rows, index=["visited", "share"]).T.round(3).astype({"visited": int})

# %% [markdown]
# With a cache there are more keys than queries, and tiles need not be square. Which tiles survive the mask?

# %% Tiles that are visited [markdown] exercise="u06-causal-tiles" points=2 minutes=8 difficulty=2 importance=4 extra=true
# **Write** `visited_tiles`: how many tiles of `block_q` × `block_k` hold at least one pair of a query and a key it may see. There are at least as many keys as queries, and the **last query sees all keys**, the one before it all but the last, and so on.
#
# *By hand:* 5 queries and keys in tiles of 2 × 2 → **6**. 2 queries, 5 keys in tiles of 2 × 2 → **3**.


# %% solution="u06-causal-tiles"
def visited_tiles(num_queries: int, num_keys: int, block_q: int, block_k: int) -> int:
    """Tiles with at least one pair under a causal mask."""
    ### BEGIN SOLUTION
    earlier = num_keys - num_queries
    tiles = 0
    for start in range(0, num_queries, block_q):
        seen = min(start + block_q, num_queries) + earlier
        tiles += -(-seen // block_k)
    return tiles
    ### END SOLUTION


# %%
try_it(visited_tiles, 5, 5, 2, 2)
try_it(visited_tiles, 2, 5, 2, 2)

# %% check="u06-causal-tiles"
# Tiles of every shape over a real mask; as many keys as queries, and more.

# %% [markdown]
# <details><summary>Hint: only cases with more keys are wrong</summary>
#
# With 2 queries and 5 keys, which keys does the first query see? Draw the mask.
# </details>

# %% [markdown]
# ### Packed documents
#
# Short documents are packed into one sequence, and no token may see another document. A kernel visits a tile if some pair in it is allowed, and needs the mask only if some pair is not. FlexAttention in PyTorch classifies tiles this way.

# %% Tiles of a document mask [markdown] exercise="u06-document-tiles" points=1.5 minutes=9 difficulty=2 importance=3 extra=true
# **Write** `document_tiles`: documents of `document_lengths` tokens follow one another in a sequence. A query sees the keys of its own document up to itself. Of the tiles of `block` × `block` (the last smaller), count `"full"`, in which every pair is allowed, and `"partial"`, in which some are and some are not. Half of the points each.
#
# *By hand:* documents of 3 and 5 tokens, tiles of 2 × 2 → **1** full, **7** partial.


# %% solution="u06-document-tiles"
def document_tiles(document_lengths: list[int], block: int) -> dict[str, int]:
    """Tiles with every pair allowed, and with some: "full" and "partial"."""
    ### BEGIN SOLUTION
    lengths = torch.tensor(document_lengths)
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    mask = (owner[:, None] == owner).tril()
    full = partial = 0
    for i in range(0, len(owner), block):
        for j in range(0, len(owner), block):
            tile = mask[i : i + block, j : j + block]
            if tile.all():
                full += 1
            elif tile.any():
                partial += 1
    return {"full": full, "partial": partial}
    ### END SOLUTION


# %%
try_it(document_tiles, [3, 5], 2)

# %% check="u06-document-tiles"
# One document and several, shorter and longer than a tile; ragged ends.

# %% [markdown]
# ## What you know now
#
# | quantity | value |
# |---|---|
# | a maximum grows from $c$ to $c'$ | old sums times $e^{c - c'}$ |
# | traffic, queries outside | each tile of queries reads all keys: quadratic, whatever $b_k$; the L2 cache serves most of it |
# | against scores in slow memory | about $1 + 2 b_q / d$ times less |
# | kept for backward | $q, k, v, O$ and one number per row: linear |
# | FLOPs of backward | $2.5\times$ forward; causal, about half of the tiles |
#
# **Your plan** stands: 44 GB of activations, as long as the kernel is fused. A mask that the kernel does not know may bring the scores back, and 141 GB with them.
#
# *Further reading:* Dao et al. 2022, *FlashAttention*, sections 2 and 3 (30 minutes). Dao 2023, *FlashAttention-2*, section 3 (15 minutes). Milakov and Gimelshein 2018, *Online normalizer calculation for softmax* (10 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("06")
