# ---
# jupyter:
#   course:
#     title: One layer on eight devices
#     device: CPU
#     needs: ["01", "03", "06", "09"]
#     lecture: [E4]
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
# ![The MLP of a layer cut over four devices: each has some columns of the first weight and the matching rows of the second, so only inputs are copied and results summed. Beside it the milliseconds of one layer of Llama-3-8B: 17.9 on one device, 9.6 on two, 5.6 on four, 3.7 on eight; sixteen, in two nodes, are left open.](hero.svg)
#
# Data parallelism gives every device all weights and some sequences. Here every device gets a part of each layer, or a part of each sequence.
#
# Your training plan needs 128 GB of weights, gradients and optimizer states on each device. Eight devices that share each layer need 16. What does it cost in days?
#
# 1. **Write** the two operations that make a layer parallel, and an MLP with them.
# 2. **Compute** the bytes that travel, and **measure** what devices still keep.
# 3. **Write** ring attention.
# 4. **Explain** why tensor parallelism stays inside a node.
#
# | here | meaning |
# |---|---|
# | $t$, $c$ | ranks that share a layer (tensor) or a sequence (context) |
# | $S$ | tokens in a pass |
# | $u$ | bytes of one tensor between blocks: $S$ tokens, $h$ numbers each |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

from dataclasses import replace

import pandas as pd
import torch
from IPython.display import display
from torch import Tensor
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils.configs import preset
from course_utils.distributed import Comm, Link, Network, NullComm, VirtualCluster, run_ranks
from course_utils.instruments import count_saved_bytes
from course_utils.records.sweeps import rows as rows_of_sweep
from course_utils.records.traces import recorded_rows, recorded_trace
from course_utils.reference.attention import attend
from course_utils.reference.context_parallel import attend_pieces
from course_utils.reference.online_softmax import merge
from course_utils.reference.tensor_parallel import gather_and_scatter
from course_utils.show import (
    Choice,
    bandwidth_over_nodes,
    cluster_timelines,
    explorer,
    layer_explorer,
    trace_lanes,
    try_it,
)
from course_utils.show.context_parallel import shared_triangle
from course_utils.show.tensor_parallel import layer_over_ranks
from course_utils.traces import matched, select, transfer_seconds, waiting_seconds

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Two cuts and two operations
#
# An MLP is two products with something nonlinear between them: $z = \phi(x A)\, B$. Cut $A$ by **columns** and $B$ by **rows**, as in the picture:
#
# $$\phi\big(x\,[A_0\;A_1]\big) \begin{bmatrix} B_0 \\ B_1 \end{bmatrix} = \phi(x A_0)\, B_0 + \phi(x A_1)\, B_1$$
#
# Each rank has some hidden units, with their weights in and out. It needs all of $x$, and makes a **part of the sum** $z$. Between the two products nobody has to talk.
#
# Two operations stand at the ends: **f** hands the same $x$ to all ranks, **g** sums the parts. Autograd sees one rank only, so you write their backward.
#
# **Guess first.** A layer has two such blocks, attention and MLP. How many all-reduces does it take, forward and backward together?

# %%
predict("u11-calls", None, "all-reduces")

# %% f and g [markdown] exercise="u11-f-and-g" points=3 minutes=13 difficulty=3 importance=5
# **Write** `f_and_g`: return f and g, two functions of a tensor with their own backward.
#
# | | forward | backward |
# |---|---|---|
# | f | every rank has the same $x$, and gets it back | what is the gradient of $x$, of which each rank knows a part? |
# | g | every rank has a part of a sum, and gets the sum | what is the gradient of each part? |
#
# Three scenarios, a third of the points each: `f`, `g`, and a `block` with both, as in $x + \mathrm{g}(\dots \mathrm{f}(x))$. `comm.all_reduce` writes into its tensor, which must be contiguous. Tensors that come in may not be, and stay unchanged. Make no call that is not needed.
#
# *By hand:* on two ranks, $z = \mathrm{g}(w_r \cdot \mathrm{f}(x))$ with $w_0 = 2$, $w_1 = 3$ and $x = 1$ → $z =$ **5** and gradient **5**, on both.


# %% solution="u11-f-and-g"
def f_and_g(comm: Comm):
    """Two functions: f where a block begins, g where it ends."""

    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ### BEGIN SOLUTION
            return x.view_as(x)
            ### END SOLUTION

        @staticmethod
        def backward(ctx, gradient):
            ### BEGIN SOLUTION
            total = gradient.clone(memory_format=torch.contiguous_format)
            comm.all_reduce(total)
            return total
            ### END SOLUTION

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ### BEGIN SOLUTION
            summed = x.clone(memory_format=torch.contiguous_format)
            comm.all_reduce(summed)
            return summed
            ### END SOLUTION

        @staticmethod
        def backward(ctx, gradient):
            ### BEGIN SOLUTION
            return gradient
            ### END SOLUTION

    return Copy.apply, Sum.apply


# %% folded=true
# Try it: the case by hand, on two ranks
def by_hand(f_and_g):
    def rank(comm):
        f, g = f_and_g(comm)
        x = torch.ones((), requires_grad=True)
        z = g((2 + comm.rank) * f(x))
        z.backward()
        return {"z": z.item(), "gradient": x.grad.item()}

    return VirtualCluster(2).run(rank).results


try_it(by_hand, f_and_g)

# %% check="u11-f-and-g"
# Results and gradients on one rank to four, views of every kind, calls of each pass.

# %% [markdown]
# ## An MLP from slices
#
# Weights lie as in `torch.nn.Linear`, (out, in): the columns of $A$ are rows of the tensor. `w["gate"]` and `w["up"]` are (units, $h$), `w["down"]` is ($h$, units), and `w["bias"]` is added to the result.

# %% A gated MLP [markdown] exercise="u11-mlp" points=3 minutes=10 difficulty=3 importance=5
# **Write** `parallel_mlp`: $\mathrm{down}\,\big(\mathrm{silu}(\mathrm{gate}\, x) \circ \mathrm{up}\, x\big) + \mathrm{bias}$ for the tokens `x` (S, h), on `comm.size` ranks. You get your f and g, and whole weights, of which a rank uses its part. Two scenarios, half of the points each: `even`, and `uneven`, where the ranks do not divide the hidden units.
#
# - Result, gradient of `x` and gradient of the bias are whole on every rank. Of the other weights, a rank has the gradient of its own hidden units; the ranks' gradients add up to the whole.
# - One all-reduce in forward, one in backward.
# - The busiest rank computes $1/t$ of the FLOPs, rounded up to whole hidden units.
#
# *By hand:* 3 tokens, $h = 2$, 4 hidden units on two ranks → **72** FLOPs forward on each.


# %% solution="u11-mlp"
def parallel_mlp(comm: Comm, f, g, x: Tensor, w: dict[str, Tensor]) -> Tensor:
    """A gated MLP on this rank's hidden units."""
    ### BEGIN SOLUTION
    gate, up = (w[name].tensor_split(comm.size)[comm.rank] for name in ("gate", "up"))
    down = w["down"].tensor_split(comm.size, dim=1)[comm.rank]
    entered = f(x)
    hidden = F.silu(entered @ gate.T) * (entered @ up.T)
    return g(hidden @ down.T) + w["bias"]
    ### END SOLUTION


# %% folded=true
# Harness: a block of 3 tokens on ranks, beside one rank alone
f_and_g_of = answer("u11-f-and-g", f_and_g)


def on_ranks(block, num_ranks, shapes, *others):
    def rank(comm):
        torch.manual_seed(0)
        w = {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}
        x = w.pop("x").requires_grad_()
        z = block(comm, *f_and_g_of(comm), x, w, *others)
        (z**2).sum().backward()
        return z.detach(), x.grad

    return VirtualCluster(num_ranks, flops_per_second=1.0).run(rank)


def beside_one_rank(block, shapes, *others):
    one, two = (on_ranks(block, num_ranks, shapes, *others) for num_ranks in (1, 2))
    pairs = zip(two.results[1], one.results[0], strict=True)
    flops = sum(
        e.end_seconds - e.start_seconds for e in two.of(0, "compute") if e.name == "forward"
    )
    return {
        "z and gradient of x right": [torch.allclose(*pair) for pair in pairs],
        "FLOPs forward": int(flops),
        "calls": len(two.communications()),
    }


MLP = {"x": (3, 2), "gate": (4, 2), "up": (4, 2), "down": (2, 4), "bias": (2,)}
try_it(beside_one_rank, parallel_mlp, MLP)

# %% check="u11-mlp"
# Gradients in float64 on one rank to four, even and uneven; calls and FLOPs of each pass.

# %% [markdown]
# ## A layer of Llama
#
# Attention is cut by **whole heads**, which do not talk to each other before the output projection: a rank takes their rows of `q`, `k` and `v`, and their columns of `o`. f and g stand at its ends, too. (Extra 11.7.)

# %% [markdown]
# What does it cost? A layer of Llama-3-8B without attention scores: 8,192 tokens, forward and backward, devices of 600 TFLOP/s. Links: 400 GB/s inside a node of eight, 50 GB/s and 10 µs a message between nodes. This is a toy: it has one adapter between nodes, where a real ring uses all eight.
#
# **Guess first.** One device takes 17.9 ms, eight take 3.7. How long do sixteen take, on two nodes?

# %%
predict("u11-two-nodes", None, "ms")

# %% folded=true tags=["nbval-check-output"]
# Measured: virtual time of a layer of Llama-3-8B on one to sixteen devices
LLAMA = preset("Llama-3-8B")
FAST = Link(latency_seconds=5e-6, bandwidth_bytes_per_second=400e9)
SLOW = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=50e9)
NODES = Network(inside=FAST, between=SLOW, devices_per_node=8)


def llama_layer(comm):
    t, h, units = comm.size, LLAMA.hidden_size, LLAMA.ffn_size
    ends = f_and_g_of(comm)

    def meta(*shape):
        return torch.empty(shape, device="meta", dtype=torch.bfloat16, requires_grad=True)

    def times(x, rows):
        return x @ meta(rows, x.shape[-1]).T

    x = meta(8192, h)
    entered = ends[0](x)
    q, k, v = (times(entered, rows // t) for rows in (h, h // 4, h // 4))
    # in place of attention, the right shapes:
    z = x + ends[1](times(q + k.repeat(1, 4) + v.repeat(1, 4), h))
    entered = ends[0](z)
    gate, up = (times(entered, units // t) for _ in range(2))
    z = z + ends[1](times(F.silu(gate) * up, h))
    z.backward(torch.empty_like(z))


layers = {
    t: VirtualCluster(t, network=NODES, flops_per_second=600e12).run(llama_layer)
    for t in (1, 2, 4, 8, 16)
}
milliseconds = {t: 1e3 * run.step_seconds for t, run in layers.items()}
table = {
    f"{t}": [milliseconds[t], 1e3 * run.exposed_seconds(0), milliseconds[1] / t / milliseconds[t]]
    for t, run in layers.items()
}
display(pd.DataFrame(table, ["ms", "of it exchange", "efficiency"]).T.round(3))
display(compare("u11-calls", "all-reduces", measured=len(layers[8].communications())))
compare("u11-two-nodes", "ms", measured=round(milliseconds[16], 3))

# %% folded=true
# Timeline: the links are busy where nobody computes
cluster_timelines({f"t = {t}": layers[t] for t in (1, 8, 16)})

# %% [markdown]
# Nothing hides these calls: each result is needed at once. Computing shrinks with $t$, each all-reduce does not.
#
# ### Real links
#
# The clock of the toy is the ring formula, with $B$ bytes a second and $a$ seconds for each message:
#
# $$T = 2\,(t - 1)\, a + \frac{2\,(t - 1)}{t} \cdot \frac{u}{B}$$
#
# How far does it carry? Take $a$ and $B$ from the two ends of a real table, eight H100 in a node, recorded by NVIDIA: 512 bytes take 15.6 µs, so $a$ = 1.1 µs; 537 MB flow at $B$ = 445 GB/s. **Guess first.** For 8.4 MB in between the formula says 49 µs. How many µs were measured?

# %%
predict("u11-all-reduce-us", None, "µs")

# %% folded=true tags=["nbval-check-output"]
# Measured: all-reduces of NCCL on eight H100 in a node (aiconfigurator, Apache-2.0)
took = {
    row["bytes"]: row["latency_seconds"]
    for row in recorded_rows("nccl_rates")
    if (row["op"], row["gpus"]) == ("all_reduce", 8) and row["device"].startswith("H100")
}
smallest, largest = min(took), max(took)
bus = 2 * 7 / 8 * largest / took[largest]
node = Network(inside=Link(latency_seconds=took[smallest] / 14, bandwidth_bytes_per_second=bus))
ring = {u: node.seconds("all_reduce", u, range(8)) for u in took}
display(
    pd.DataFrame(
        {
            f"{u / 1e6:,.3g} MB": {
                "formula, µs": 1e6 * ring[u],
                "measured, µs": 1e6 * took[u],
                "measured / formula": took[u] / ring[u],
                "bus bandwidth, GB/s": 2 * 7 / 8 * u / took[u] / 1e9,
            }
            for u in (2**16, 2**20, 2**21, 2**23, 2**25, 2**26, 2**28, 2**29)
        }
    ).T.round(2)
)
compare("u11-all-reduce-us", "µs", computed=round(1e6 * ring[2**23]), measured=1e6 * took[2**23])

# %% [markdown]
# Both ends fit, because they were put in. In between a call takes up to 1.6 times as long. NCCL chooses algorithm and protocol by size, and on this machine it may sum in the switch instead of a ring; the record does not say what it chose. One sign: bus bandwidth is defined so that in rings an all-reduce and its two halves have the same. At 268 MB the record has 430 GB/s for the all-reduce and 321 and 325 for all-gather and reduce-scatter.
#
# So plan with the rate of *your call at your size*: 362 GB/s for an all-reduce of our 67 MB.
#
# Now across nodes: 256 MB in the Ultra-Scale Playbook's cluster, nodes of eight H100 with EFA between them. We take 400 GB/s a node (eight adapters of 50 GB/s, as such nodes are sold; the record does not say). A ring uses all eight, so $B$ is 400 GB/s and hardly depends on the number of nodes. **Guess first.** How many GB/s did the median all-reduce reach on eight nodes?

# %%
predict("u11-eight-nodes", None, "GB/s")

# %% folded=true
# Figure: bandwidth by nodes, recorded by the nanotron team (Ultra-Scale Playbook, Apache-2.0), and rings
across = {
    int(row["nodes"]): row
    for row in rows_of_sweep("playbook_bandwidth")
    if row["collective"] == "all_reduce"
}
display(compare("u11-eight-nodes", "GB/s", measured=float(across[8]["line_gb_s"])))
adapters = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=8 * 50e9)
of_four = 4 * Network(inside=adapters).seconds("all_reduce", 8192 * 4096 * 2, range(16))
print(f"Our four all-reduces, sixteen devices, eight adapters: {1e3 * of_four:.1f} ms")
bandwidth_over_nodes()

# %% [markdown]
# Is it latency? A ring of 512 ranks passes on 1,022 messages one after another. With the toy's 10 µs for *every* message it reaches 44 GB/s on 64 nodes, near the median of 33. But seven of eight hops lie inside a node, where we just saw 1.1 µs: then it reaches 144. So latency is a candidate for a part of the fall, no more. If NCCL took a tree, a ring's count is the wrong one anyway.
#
# **Measured** is the fall from 362 GB/s on two nodes to 33 on 64, and a wide band: on eight nodes 5 % of the values lie below 42, and 5 % above 193. **Not known** are the algorithm, the latency between these nodes, and who else used the network. (The record does not even say *bus* bandwidth: read as message over time, its 436 in one node would be 763 of bus bandwidth, more than NVLink's 450.)
#
# Two nodes still reach 362 GB/s for 256 MB (by chance the number of 67 MB in one node). Even with 10 µs on each hop, *eight* adapters take 2.5 ms for our four all-reduces instead of 11.3: sixteen devices are as quick as eight, for twice the price.

# %% [markdown]
# ## Fewer tokens between blocks
#
# This is one rank of eight, in the layer of Llama-3-8B. Between blocks it still holds all of $x$. **Click what it keeps for backward**, then ask the instrument: which of these tensors have not shrunk?

# %% folded=true
# Diagram: a layer on one rank of eight, bars to scale
RANKS = 8
cut = {name: getattr(LLAMA, name) // RANKS for name in ("num_heads", "num_kv_heads", "ffn_size")}
layer_explorer(replace(LLAMA, **cut))

# %% [markdown]
# **Sequence parallelism** (Korthikanti et al. 2022) gives each rank only $S / t$ tokens there. An all-reduce is a reduce-scatter and an all-gather (unit 09). Let a block end with the first, and the next begin with the second:
#
# | | forward | backward |
# |---|---|---|
# | gather, in place of f | all-gather of tokens | reduce-scatter |
# | scatter, in place of g | reduce-scatter of tokens | all-gather |
#
# `gather_and_scatter(comm)` returns this pair.
#
# **Guess first.** An MLP with ReLU keeps 6,144 bytes on one rank: tokens 1,536, hidden units 4,608. With f and g each of four keeps all tokens and a quarter of the units: 2,688. With gather and scatter?

# %%
predict("u11-kept", None, "bytes")


# %% folded=true tags=["nbval-check-output"]
# Measured: what autograd keeps on a rank, for 12 tokens, h = 16, 48 hidden units, float64
def kept_by(way, num_ranks):
    comm = NullComm(num_ranks)  # one rank alone, whose calls do nothing
    tokens = 12 if way == "tensor" else 12 // num_ranks
    x = torch.ones(tokens, 16, dtype=torch.float64, requires_grad=True)
    up, down = (torch.ones(shape, dtype=torch.float64) for shape in ((48, 16), (16, 48)))
    up, down = (
        each.requires_grad_() for each in (up[: 48 // num_ranks], down[:, : 48 // num_ranks])
    )
    enter, leave = f_and_g_of(comm) if way == "tensor" else gather_and_scatter(comm)

    def mlp():
        first = way(comm, x, up) if callable(way) else enter(x) @ up.T
        return leave(torch.relu(first) @ down.T)

    return count_saved_bytes(mlp, up, down).total_bytes


ways = {"f and g": "tensor", "gather and scatter": "sequence"}
kept = {name: [kept_by(way, t) for t in (1, 2, 4)] for name, way in ways.items()}
display(pd.DataFrame(kept, [1, 2, 4]).T.rename_axis(columns="bytes kept, by ranks"))
compare("u11-kept", "bytes", measured=kept["gather and scatter"][2])

# %% [markdown]
# **No gain.** A product keeps its input, and that is the *gathered* tensor. To keep $1/t$ takes a product that keeps only the shard, and gathers again in backward.

# %% Keep the shard [markdown] exercise="u11-keep-shard" points=3 minutes=16 difficulty=4 importance=4
# **Write** `gathered_product`: gathers the tokens of all ranks, (S / t, h) each, in the order of ranks, and returns their product with this rank's `weight` (rows, h): (S, rows). Three scenarios, a third of the points each:
#
# | scenario | what counts |
# |---|---|
# | `numbers` | result and both gradients |
# | `kept` | only shard and weight live on; one call in forward, two in backward |
# | `overlapped` | time: in backward, each call runs during a product that does not need it |
#
# Given: forward's gather. After `wait()` all `tokens` are there. `comm.reduce_scatter(part, whole, async_op=True)` also returns a handle. The gradient of the weight is this rank's own; that of the shard is a sum over ranks.
#
# *By hand:* two ranks with tokens 1 and 2, 3 rows of ones as weight, the sum as loss → gradient of rank 1's shard **6**, of its weight **3**.


# %% solution="u11-keep-shard"
def gathered_product(comm: Comm, shard: Tensor, weight: Tensor) -> Tensor:
    """All tokens times a weight; only this rank's tokens are kept."""

    def ask_for_all(shard):
        whole = shard.new_empty(comm.size * len(shard), shard.shape[1])
        return whole, comm.all_gather(whole, shard, async_op=True)

    class GatheredProduct(torch.autograd.Function):
        @staticmethod
        def forward(ctx, shard, weight):
            tokens, arrival = ask_for_all(shard)
            arrival.wait()
            ### BEGIN SOLUTION
            ctx.save_for_backward(shard, weight)
            return tokens @ weight.T
            ### END SOLUTION

        @staticmethod
        def backward(ctx, gradient):
            ### BEGIN SOLUTION
            shard, weight = ctx.saved_tensors
            whole, gather = ask_for_all(shard)
            of_whole, of_shard = gradient @ weight, torch.empty_like(shard)
            scatter = comm.reduce_scatter(of_shard, of_whole, async_op=True)
            gather.wait()
            of_weight = gradient.T @ whole
            scatter.wait()
            return of_shard, of_weight
            ### END SOLUTION

    return GatheredProduct.apply(shard, weight)


# %% folded=true
# Try it: two ranks with one token each
def two_tokens(gathered_product):
    def rank(comm):
        shard = torch.full((1, 2), 1.0 + comm.rank, dtype=torch.float64, requires_grad=True)
        weight = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
        result = gathered_product(comm, shard, weight)
        result.sum().backward()
        return [each.tolist() for each in (result.detach(), shard.grad, weight.grad)]

    return VirtualCluster(2).run(rank).results[1]


try_it(two_tokens, gathered_product)

# %% check="u11-keep-shard"
# Gradients in float64, calls of each pass; kept bytes on one rank alone; virtual time.

# %% folded=true tags=["nbval-check-output"]
# Measured: three ways to keep
keep_of = answer("u11-keep-shard", gathered_product)
kept["shards kept"] = [kept_by(keep_of, t) for t in (1, 2, 4)]
pd.DataFrame(kept, [1, 2, 4]).T.rename_axis(columns="bytes kept, by ranks")

# %% [markdown]
# Now it is exactly $1/t$. Is it free?

# %% What travels [markdown] exercise="u11-volume" points=1.5 minutes=5 difficulty=2 importance=4
# **Write** `tensor_parallel_bytes`: bytes that each rank sends for one layer (two blocks), forward and backward, when every collective is a ring. Exact `int`s, a third of the points for each way.
#
# | key | way |
# |---|---|
# | `"tensor"` | f and g |
# | `"sequence"` | gather and scatter |
# | `"shards_kept"` | gather and scatter, and the first product of each block gathers again in backward |
#
# The tokens are a multiple of the ranks. *By hand:* 4 tokens, $h = 3$, four ranks, 2 bytes each: $u = 24$ → **144**, **144** and **180**.


# %% solution="u11-volume"
def tensor_parallel_bytes(
    num_tokens: int, hidden_size: int, num_ranks: int, element_bytes: int
) -> dict[str, int]:
    """Bytes that a rank sends for one layer: "tensor", "sequence", "shards_kept"."""
    ### BEGIN SOLUTION
    tensor_bytes = num_tokens * hidden_size * element_bytes
    part = tensor_bytes * (num_ranks - 1) // num_ranks
    four_calls = 8 * part
    return {"tensor": four_calls, "sequence": four_calls, "shards_kept": 10 * part}
    ### END SOLUTION


# %%
try_it(tensor_parallel_bytes, 4, 3, 4, 2)

# %% check="u11-volume"
# Against rings of messages on one rank to eight; small layers and huge ones.

# %% [markdown]
# Memory of $1/t$ costs a quarter more bytes. Hidden behind a product, they cost no time.
#
# **Your plan.** One sequence of Llama-3-8B on eight devices: 32 layers send 15 GB on each device, with f and g as with gather and scatter. Equal bytes are not equal time. In the record above, all-reduces of 67 MB reach 362 GB/s: 41 ms for every sequence, 5.9 days for all 12 million. All-gathers of 67 MB reach 281 (and reduce-scatters 292): 54 ms, **7.6 days**. Your plan has sequence parallelism and counts these.

# %% [markdown]
# ## One sequence on several devices
#
# Tensor parallelism shares heads and hidden units. **Context parallelism** shares the tokens of one sequence: rank $r$ holds queries, keys and values of its $S / c$ positions, and all weights. Only in attention do tokens meet.
#
# So keys and values go around a ring. In every turn a rank attends to the block that is there, while the next is on its way. Results over different keys are merged by their log-sum-exps (unit 06): `merge(out_a, lse_a, out_b, lse_b)` returns both, over all keys.

# %% Ring attention [markdown] exercise="u11-ring" points=3 minutes=17 difficulty=4 importance=5
# **Write** `ring_attention`: the result for this rank's queries over the keys of all ranks; one head, so `q`, `k` and `v` are (S / c, d). Three scenarios, a third of the points each:
#
# | scenario | what counts |
# |---|---|
# | `ordinary`, `extreme` | right results, also for scores up to 1,000 |
# | `overlapped` | time: keys travel while the rank computes |
#
# - `attend_block(q, k, v, owner)` returns result and log-sum-exp over one block of keys; `owner` is the rank whose block it is. It masks by itself, perhaps all of the block. Call it once for each block.
# - `comm.send(k, rank, async_op=True)` and `comm.receive(buffer, rank, async_op=True)` return handles. Only after `wait()` may you write into what was sent, or read what was received.
# - Send to the next rank only, by messages, and no block more often than needed.
# - Leave the caller's `k` and `v` unchanged.
#
# *By hand:* two ranks with two tokens each, $d = 2$, float64 → each sends **64** bytes.


# %% solution="u11-ring"
def ring_attention(comm: Comm, attend_block, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of this rank's queries over all keys, which come by block by block."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ### BEGIN SOLUTION
    result = None
    for turn in range(comm.size):
        coming, in_flight = [torch.empty_like(k), torch.empty_like(v)], []
        if turn < comm.size - 1:
            in_flight += [comm.send(each, after, async_op=True) for each in (k, v)]
            in_flight += [comm.receive(each, before, async_op=True) for each in coming]
        part = attend_block(q, k, v, (comm.rank - turn) % comm.size)
        result = part if result is None else merge(*result, *part)
        for each in in_flight:
            each.wait()
        k, v = coming
    return result[0]
    ### END SOLUTION


# %% folded=true
# Harness: a sequence on a ring of ranks that hold given pieces of it
def on_a_ring(ring_attention, positions, d=4, scale=1.0, flops_per_second=1e9):
    torch.manual_seed(0)
    num_tokens = sum(each.numel() for each in positions)
    whole = [torch.randn(num_tokens, d, dtype=torch.float64) for _ in range(3)]

    def rank(comm):
        mine = positions[comm.rank]

        def attend_block(q, k, v, owner):
            return attend_pieces(q, k, v, mine, positions[owner])

        q, k, v = (each[mine.flatten()] for each in whole)
        return ring_attention(comm, attend_block, scale * q, k, v)

    run = VirtualCluster(len(positions), flops_per_second=flops_per_second).run(rank)
    place = torch.cat([each.flatten() for each in positions])
    ours = torch.cat(run.results)[place.argsort()]
    q, k, v = (each[None, None] for each in (scale * whole[0], *whole[1:]))
    exact = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0, 0]
    return run, torch.allclose(ours, exact)


def two_ranks(ring_attention):
    run, is_right = on_a_ring(ring_attention, torch.arange(4).view(2, 1, 2), d=2)  # ranks, pieces
    return {"right": is_right, "bytes": sum(each.num_bytes for each in run.sent_by(0))}


try_it(two_ranks, ring_attention)

# %% check="u11-ring"
# Results in float64 on one rank to four, small and large scores; bytes; blocks; virtual time.

# %% [markdown]
# <details><summary>Hint: whose keys are these?</summary>
#
# In turn 0 a rank has its own. Blocks move one rank further in every turn: from where did the block of turn 1 come?
# </details>

# %% [markdown]
# Right, and unfair. **Guess first.** Four ranks hold a quarter of the sequence each, side by side, and `attend_block` skips only blocks that lie wholly in the future. Work of the busiest rank, over the mean?

# %%
predict("u11-unfair", None, "times the mean")

# %% [markdown]
# **Check your guess**: computing time of each rank, in units of one block of $(S/c)^2$ scores.


# %% folded=true tags=["nbval-check-output"]
# Measured: 32 tokens on four ranks, side by side
ring_of = answer("u11-ring", ring_attention)


def work_of_ranks(layout):
    block_flops = 4 * 4 * 8**2  # 4 d for each score, d = 4
    run, is_right = on_a_ring(ring_of, layout, flops_per_second=block_flops)
    work = [round(run.compute_seconds(rank), 2) for rank in range(4)]
    facts = {f"rank {rank}": each for rank, each in enumerate(work)} | {"right": is_right}
    return facts | {"busiest / mean": max(work) / (sum(work) / 4)}


side_by_side = work_of_ranks(torch.arange(32).view(4, 1, 8))
display(pd.DataFrame({"side by side": side_by_side}).T)
compare("u11-unfair", "times the mean", measured=side_by_side["busiest / mean"])

# %% [markdown]
# The last rank computes all $c$ blocks, and the others wait. Llama 3 was trained in an order that shares the work. (Extra 11.8.)

# %% [markdown]
# ## What the records say
#
# The team of torchtitan trained Llama-3.1-8B on H100s in bf16, compiled, nodes of eight on NVLink, 50 GB/s for each device between them (pytorch/torchtitan, `benchmarks/`: December 2024, table 3, and *asyncTP*, June 2025; BSD-3-Clause).
#
# | shared | devices | sequences of a pass | tokens/s per device |
# |---|---|---|---|
# | data, weights sharded (FSDP) | 128 | 2 | 6,514 |
# | tensor 8, data 8 | 64 | 12 | 4,378 |
# | the same, calls hidden behind parts of products (async TP) | 64 | 12 | 4,809 |
#
# Tensor parallelism by eight has 0.67 of FSDP's speed; our layer has 0.61 of one device's. These two hide no call. Async TP hides some, and has 0.74. The runs also differ in devices, passes and versions.

# %% Inside or across? [markdown] exercise="u11-why-inside" points=2 minutes=8 difficulty=3 importance=4
# **Write** three or four sentences:
#
# - Why are sixteen devices on two nodes slower than eight on one, though each computes half as much? Use the milliseconds of our layer.
# - Data parallelism across the same nodes sums gradients (unit 09). Why can it hide its calls, and tensor parallelism cannot?

# %% [markdown] text_answer="u11-why-inside"
# <!-- BEGIN SOLUTION -->
# On sixteen devices the products take 1.1 ms, half of the 2.2 ms on eight. But four all-reduces of 67 MB cross the one adapter between the nodes, an eighth as fast: exchange grows from 1.5 ms to 11.3. Data parallelism needs its sums only at the optimizer's step, so each bucket of gradients travels while backward goes on. Tensor parallelism's next product needs the result of each call: nothing is left to compute meanwhile.
#
# *Rubric:* half a point for exchange that grows because of the slower link; half for its milliseconds beside those of the products; half for gradients that travel while backward goes on; half for results that the next product needs at once.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points, in any order.

# %% [markdown]
# ### Faster links
#
# Which control makes sixteen devices faster than eight, at 8,192 tokens?

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    layer_over_ranks,
    num_tokens=Choice("tokens of a pass", [1024, 8192, 65536], 8192),
    inside=Choice("in a node, GB/s", [100, 200, 400, 800], 400),
    between=Choice("between nodes, GB/s", [25, 50, 100, 400], 50),
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The links between nodes, at 400 GB/s: as much as eight adapters together. If a node's own links have 800, even that is not enough.
# </details>

# %% [markdown]
# ### All-to-alls instead of a ring
#
# There is a third way to share a sequence (DeepSpeed-Ulysses). Outside of attention a rank has some *tokens* with all heads; inside it has some *heads* with all tokens. An **all-to-all** before attention and one after it turn one into the other. Here are two layers of a video transformer on two H100s, recorded with Nsight Systems (nsys-ai, MIT licence).
#
# **Look for** three things: which kernels run beside an all-to-all? Both ranks send as many bytes, so why does rank 0 spend 1.70 ms in them, and rank 1 only 0.73? And what would you change first?

# %% folded=true tags=["nbval-ignore-output"]
# Lanes of both GPUs: zoom with + and -, move with the arrows
shared = recorded_trace("h100x2_sequence_parallel")
trace_lanes(shared, "Two layers with an all-to-all before and after each attention, on two H100s.")

# %% folded=true tags=["nbval-check-output"]
# Table: each all-to-all, split into waiting for the other rank and transfer
calls = {}
for number, call in enumerate(matched(select(shared, kind="communication")), start=1):
    waits = waiting_seconds(call)
    calls[f"all-to-all {number}"] = {
        "transfer, µs": 1e6 * transfer_seconds(call),
        "rank 0 waits, µs": 1e6 * waits[0],
        "rank 1 waits, µs": 1e6 * waits[1],
    }
pd.DataFrame(calls).T.round(0).astype(int)

# %% [markdown]
# <details><summary>Answer</summary>
#
# No kernel runs beside them: they stand in the *same stream* as the products (7 on rank 0, 15 on rank 1), and a stream does one thing after another. All of their time is exposed. Rank 0 comes to the first and the third 0.4 to 0.5 ms earlier and waits inside the call. Transfers take 0.26 ms in these two and 0.1 ms in the others. (Waiting and transfer of rank 0 add up to 1.63 ms, not 1.70: the ranks do not leave a call at the same moment.) So the first thing to change is what makes rank 1 late, not the network; the second is a stream of their own, with something to compute meanwhile.
# </details>

# %% [markdown]
# ### Attention: whole heads

# %% Heads over ranks [markdown] exercise="u11-attention" points=2 minutes=10 difficulty=2 importance=4 extra=true
# **Write** `parallel_attention`: causal attention for one sequence `x` (S, h), with $a$ query heads and $a_{kv}$ key heads of $d$ numbers (`head_dim`). Half of the points for groups of one, half for larger ones.
#
# - The weights are whole: `w["q"]` $(a d, h)$, `w["k"]` and `w["v"]` $(a_{kv} d, h)$, `w["o"]` $(h, a d)$.
# - Each key head serves a group of $a / a_{kv}$ query heads that stand next to each other. The ranks divide $a$ and $a_{kv}$.
# - `attend(q, k, v)` is causal and knows such groups: (1, S, heads, d) each → (1, S, heads · d), with the query heads.
# - Result and gradient of `x` are whole on every rank. Each rank computes its own heads only, with one all-reduce in forward and one in backward.
#
# *By hand:* 3 tokens, $h = 4$, two heads of $d = 2$ on two ranks → **264** FLOPs forward on each (masked scores count).


# %% solution="u11-attention"
def parallel_attention(comm: Comm, f, g, x: Tensor, w: dict[str, Tensor], head_dim: int) -> Tensor:
    """Causal attention with this rank's heads."""
    ### BEGIN SOLUTION
    entered = f(x)
    heads = (
        (entered @ w[name].chunk(comm.size)[comm.rank].T).unflatten(-1, (-1, head_dim))
        for name in ("q", "k", "v")
    )
    out = attend(*(each[None] for each in heads))[0]
    return g(out @ w["o"].chunk(comm.size, dim=1)[comm.rank].T)
    ### END SOLUTION


# %% folded=true
# Try it: the case by hand, beside one rank
HEADS = {"x": (3, 4), "q": (4, 4), "k": (4, 4), "v": (4, 4), "o": (4, 4)}
try_it(beside_one_rank, parallel_attention, HEADS, 2)

# %% check="u11-attention"
# Gradients in float64 on one rank to four; heads of every number and width; FLOPs.

# %% [markdown]
# ### A fair share of a sequence

# %% Who holds which positions? [markdown] exercise="u11-zigzag" points=2 minutes=7 difficulty=3 importance=4 extra=true
# **Write** `positions`: the positions that a rank holds, such that the busiest rank has as little work as possible. All or nothing.
#
# - Return a list of **two** pieces of equal length, each a list of consecutive positions. Twice the number of ranks divides `seq_len`.
# - All ranks together hold every position once.
# - Work is counted in pairs of a query and a key. A rank holds queries of two pieces and needs the keys of all: for each two pieces it computes all pairs, or none where every key comes after every query.
#
# *By hand:* 8 positions on two ranks → **20** pairs on each, where side by side the busiest has 28.


# %% solution="u11-zigzag"
def positions(rank: int, num_ranks: int, seq_len: int) -> list[list[int]]:
    """Two pieces of the sequence for a rank, so that all have the same work."""
    ### BEGIN SOLUTION
    length = seq_len // (2 * num_ranks)
    starts = (rank * length, seq_len - (rank + 1) * length)
    return [list(range(start, start + length)) for start in starts]
    ### END SOLUTION


# %%
try_it(positions, 0, 2, 8)
try_it(positions, 1, 2, 8)

# %% check="u11-zigzag"
# Against a search over all ways to pair the pieces, on one rank to eight.

# %% [markdown]
# **Compare with** the positions side by side:

# %% folded=true tags=["nbval-check-output"]
# Measured: 32 tokens on four ranks, as you place them
positions_of = answer("u11-zigzag", positions)
yours = work_of_ranks([torch.tensor(positions_of(rank, 4, 32)) for rank in range(4)])
pd.DataFrame({"side by side": side_by_side, "yours": yours}).T

# %% [markdown]
# Shared well, each rank computes $(2c + 1)/4$ blocks: on four ranks 4/2.25 = 1.78 times faster, as smaller pieces also skip more. Move the ranks: what does busiest over mean approach, side by side and in zigzag?

# %% folded=true
# Explorer: who computes which squares of scores? Run this cell, then move the controls
explorer(
    shared_triangle,
    layout=Choice("who holds what", ["side by side", "zigzag"], "side by side"),
    num_ranks=Choice("ranks", [2, 3, 4, 6, 8], 4),
)

# %% [markdown]
# ### Weights that all ranks hold
#
# Under sequence parallelism a norm's weight is whole on every rank, and sees only that rank's tokens.

# %% Gradients to be summed [markdown] exercise="u11-replicated" points=1.5 minutes=6 difficulty=3 importance=3 extra=true
# **Write** `sum_replicated_gradients`, called after the backward pass of a layer under sequence parallelism. `parameters` has the layer's tensors by name:
#
# | name | what this rank has | used on |
# |---|---|---|
# | `"norm1"`, `"norm2"`; biases added after a scatter: `"o_bias"`, `"down_bias"` | all of it, as every rank | this rank's tokens |
# | all others: `"q"`, `"up"`, `"up_bias"`, … | its own part | all tokens |
#
# - Sum each `grad` that has to be summed over the ranks, in place, each with one call. Send nothing else, and leave the other gradients unchanged.
# - A layer may have no biases. Where a `grad` is None, it is None on all ranks, and stays so.
#
# All or nothing.
#
# *By hand:* two norms of $h = 4$ in float64, no biases → **2** calls of 32 bytes.


# %% solution="u11-replicated"
def sum_replicated_gradients(comm: Comm, parameters: dict[str, Tensor]) -> None:
    """Sums the gradients of which each rank knows only its tokens' part."""
    ### BEGIN SOLUTION
    for name in ("norm1", "norm2", "o_bias", "down_bias"):
        if name in parameters and parameters[name].grad is not None:
            comm.all_reduce(parameters[name].grad)
    ### END SOLUTION


# %% check="u11-replicated"
# Gradients after the call, on one rank to four; calls and bytes.

# %% [markdown]
# ### One query, keys everywhere
#
# When a long prompt lies on several ranks, a query of one token can go to the keys: every rank attends with its own keys, and results are combined.

# %% Combine over ranks [markdown] exercise="u11-combine" points=2 minutes=9 difficulty=3 importance=3 extra=true
# **Write** `combine_over_ranks`: every rank has the result `out` (rows, d) for the same queries over its own keys, and the log-sum-exp `lse` (rows,). Return the result over all keys, on every rank. Half of the points for `ordinary` scores, half for `extreme` ones, with log-sum-exps up to ±2,000.
#
# - A row without keys on a rank has zeros in `out` and $-\infty$ in `lse` there. Without keys anywhere, its result is zeros.
# - Make at most **one** all-gather of `rows` numbers and one all-reduce of `rows` × d.
# - Leave `out` and `lse` unchanged.
#
# *By hand:* $o = 5/3$ with lse $\ln 3$ on rank 0, $o = 3$ with $\ln 5$ on rank 1 → **2.5**.


# %% solution="u11-combine"
def combine_over_ranks(comm: Comm, out: Tensor, lse: Tensor) -> Tensor:
    """The result over the keys of all ranks, on every rank."""
    ### BEGIN SOLUTION
    of_all = lse.new_empty(comm.size * len(lse))
    comm.all_gather(of_all, lse)
    whole = of_all.view(comm.size, -1).logsumexp(0)
    share = torch.exp(lse - torch.where(whole == -torch.inf, 0.0, whole))
    combined = share[:, None] * out
    comm.all_reduce(combined)
    return combined
    ### END SOLUTION


# %% check="u11-combine"
# Keys on one rank to four, rows without any; scores of every size; calls and bytes.

# %% [markdown]
# ### What PyTorch does
#
# `parallelize_module` cuts an MLP as you do, here on two real processes:

# %% folded=true tags=["demonstration", "nbval-check-output"]
# Measured: all-reduces of a gated MLP, PyTorch's and yours (some 10 seconds)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mlp_of = answer("u11-mlp", parallel_mlp)


class GatedMLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = torch.nn.Linear(8, 16, bias=False), torch.nn.Linear(8, 16, bias=False)
        self.down = torch.nn.Linear(16, 8, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def pytorchs(comm):
    cuts = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(GatedMLP(), init_device_mesh("cpu", (comm.size,)), cuts)
    x = torch.ones(4, 8, requires_grad=True)
    forward, backward = CommDebugMode(), CommDebugMode()
    with forward:
        z = model(x)
    with backward:
        z.sum().backward()
    return [sum(each.get_comm_counts().values()) for each in (forward, backward)]


print("PyTorch, forward and backward:", run_ranks(pytorchs, 2)[0])
ours = on_ranks(mlp_of, 2, MLP).communications()
print("yours, both together:", len(ours))

# %% [markdown]
# PyTorch sums in backward for `gate` and for `up`: each module sums its own input's gradient. Yours enters the block once.

# %% [markdown]
# ## What you know now
#
# | quantity | value |
# |---|---|
# | weights, gradients, states, FLOPs of a layer | $1/t$ on each rank |
# | bytes that a rank sends for a layer | $8\,u\,(t-1)/t$; $10$ with shards kept |
# | kept for backward | all of $x$ with f and g; $1/t$ where only shards are kept |
# | causal, work of the busiest rank | $c$ blocks side by side |
#
# **Your plan.** Eight devices that share each layer hold 16 GB of states each instead of 128, and wait 7.6 days for their links, on top of 21 days of computing: 29 of 30 days are gone. Sharding (unit 10) frees the same memory.
#
# *Further reading:* Shoeybi et al. 2019, *Megatron-LM*, section 3 (15 minutes). Korthikanti et al. 2022, *Reducing Activation Recomputation*, section 4 (20 minutes). Liu et al. 2023, *Ring Attention* (15 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("11")
