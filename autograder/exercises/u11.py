"""The checks of unit 11: one layer on eight devices."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.exercises.declaring import declares_check
from autograder.observers.checksums import checksum
from autograder.observers.exact_attention import attend_exactly
from autograder.observers.tools import length_of
from autograder.observers.u11 import (
    attention,
    combine,
    f_and_g,
    keep_shard,
    mlp,
    replicated,
    ring,
    zigzag,
)
from autograder.observers.u11.blocks import Weights, whole_block
from autograder.observers.u11.combine import APART, HIGH, NONE_AT_ALL, NONE_HERE, scores_and_values
from autograder.observers.u11.f_and_g import SPREAD, TWICE
from autograder.observers.u11.keep_shard import KEPT, NUMBERS
from autograder.observers.u11.replicated import WHOLE, parameters_of
from autograder.observers.u11.ring import (
    EARLY_AND_LATE,
    LAYOUTS,
    ORDINARY,
    SIDE_BY_SIDE,
    positions_of,
    sequence_of,
)
from autograder.observers.u11.zigzag import Pieces, pairs_of
from course_utils.distributed import Comm, Handle, VirtualCluster
from course_utils.distributed.call_matching import Call
from course_utils.reference.context_parallel import ring_attention
from course_utils.reference.tensor_parallel import f_and_g as f_and_g_of_tensor_parallel
from course_utils.reference.tensor_parallel import gather_and_scatter, gathered_product

# === u11-f-and-g
# F and g: what they do to a tensor, and what to its gradient.


KINDS = (f_and_g.PLAIN, f_and_g.TURNED, SPREAD, TWICE)
F_AND_G_NAMES = ("scenario", "kind", "num_ranks", "shape")


def f_and_g_cases(seed: int) -> list[Case]:
    """Every scenario with every kind of tensor, on one rank to four."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("block", f_and_g.PLAIN, 2, [2, 3])]
    for scenario in f_and_g.SCENARIOS:
        for number, kind in enumerate((*KINDS, f_and_g.PLAIN, f_and_g.TURNED, TWICE)):
            num_ranks = (2, 3, 2, 4, 1, 4, 2)[number]
            shape = [rng.randint(2, 4), rng.randint(5, 7)]
            cases.append((scenario, kind, num_ranks, shape))
    return [named(F_AND_G_NAMES, case) for case in cases]


def _of_all(case: Case, tensors: Sequence[tuple[Tensor, ...]]) -> list[tuple[Tensor, Tensor]]:
    """Result and gradient of x on each rank."""
    # f passes x on and sums its gradient over the ranks; g sums x and passes the gradient on.
    # A block is x + g(sin(f(x) * factor)); `twice` adds another use of x beside f or g.
    twice = int(case["kind"] == TWICE)
    xs, factors, incoming = (list(each) for each in zip(*tensors, strict=True))
    if case["scenario"] == "f":
        total = torch.stack(incoming).sum(0)
        return [(x + twice * x, total + twice * i) for x, i in zip(xs, incoming, strict=True)]
    if case["scenario"] == "g":
        total = torch.stack(xs).sum(0)
        return [(total + twice * x, i + twice * i) for x, i in zip(xs, incoming, strict=True)]
    parts = torch.stack([torch.sin(xs[0] * each) for each in factors])
    slopes = torch.stack([each * torch.cos(xs[0] * each) for each in factors]).sum(0)
    return [(xs[0] + parts.sum(0), (1 + slopes) * incoming[0])] * len(xs)


@declares_check(
    "u11-f-and-g",
    f_and_g_cases,
    observer=f_and_g,
    scenarios=f_and_g.SCENARIOS,
    relative_tolerance=1e-9,
    fallback="course_utils.reference.tensor_parallel.f_and_g",
    give_away=(
        "course_utils.reference.tensor_parallel.f_and_g",
        "course_utils.reference.tensor_parallel.gather_and_scatter",
    ),
)
def measured_f_and_g(**case: Any) -> dict[str, Any]:
    """What one process gets that holds the tensors of all ranks."""
    tensors = [f_and_g.tensors_of(case, rank) for rank in range(case["num_ranks"])]
    results, gradients = zip(*_of_all(case, tensors), strict=True)
    is_f, is_g = case["scenario"] == "f", case["scenario"] == "g"
    return {
        "forward_calls": int(not is_f),
        "backward_calls": int(not is_g),
        "call_bytes": tensors[0][0].nbytes,
        "result_length": length_of(results[:1]),
        "gradient_length": length_of(gradients[:1]),
        "results": list(results),
        "gradients": list(gradients),
    }


# === u11-mlp
# A gated MLP cut over ranks: gradients, calls, FLOPs.


MLP_FLOAT64_BYTES = 8
MLP_NAMES = ("scenario", "num_ranks", "num_tokens", "hidden_size", "ffn_size")


def mlp_cases(seed: int) -> list[Case]:
    """Hidden units that the ranks share evenly, and such that they do not; one rank to four."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("even", 2, 3, 2, 4)]
    for scenario in mlp.SCENARIOS:
        for num_ranks in (1, 2, 4, 2, 3, 4, 2, 3, 4, 2)[scenario == "uneven" :]:
            rest = rng.randint(1, num_ranks - 1) if scenario == "uneven" else 0
            units = num_ranks * rng.randint(2, 3) + rest
            units = 9 if (scenario, num_ranks) == ("uneven", 4) else units  # `chunk` makes three
            cases.append((scenario, num_ranks, rng.randint(2, 4), rng.randint(2, 6), units))
    return [named(MLP_NAMES, case) for case in cases]


def whole_mlp(x: Tensor, w: Weights) -> Tensor:
    """The MLP on one rank."""
    return (F.silu(x @ w["gate"].T) * (x @ w["up"].T)) @ w["down"].T + w["bias"]


def _mlp_own_part(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """A share of the work, and no call."""
    flops = 6 * n * h * -(-units // num_ranks)
    return {"forward_calls": 0, "other_calls": 0, "forward_flops": flops}


def _units_gathered(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """A right result without g, of the whole last product."""
    flops = 4 * n * h * -(-units // num_ranks) + 2 * n * h * units
    return {"forward_calls": 0, "wrong_results": 0, "forward_flops": flops}


def _entered_by_sum(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """A share of the work, and a second sum."""
    flops = 6 * n * h * -(-units // num_ranks)
    return {"forward_calls": 2, "other_calls": 0, "wrong_results": 0, "forward_flops": flops}


def _inputs_cut(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """Two sums of all hidden units, each rank with a part of x, and the whole last product."""
    flops = 4 * n * -(-h // num_ranks) * units + 2 * n * h * units
    return {"forward_calls": 2, "other_calls": 0, "wrong_results": 0, "forward_flops": flops}


def _inputs_cut_one_sum(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """As before, with gate and up in one sum, which is seen on one rank, too."""
    call_bytes = 2 * n * units * MLP_FLOAT64_BYTES
    return _inputs_cut(_, num_ranks, n, h, units) | {"forward_calls": 1, "call_bytes": call_bytes}


MLP_OWN_PART = (
    "Every rank ends with its own part of the sum. What does a product over some of the hidden "
    "units lack?"
)
ENTERED_BY_SUM = (
    "The result is right, and so many all-reduces are not needed: what enters is the same on "
    "all ranks. What does f do to it in forward?"
)

MLP_SYMPTOMS = (  # in this order: on one rank, a share of the work is all of it
    Symptom(MLP_OWN_PART, _mlp_own_part),
    Symptom(
        "The result is right, and every rank gathers all hidden units to compute the whole last "
        "product. What of that product could a rank compute of its own hidden units alone?",
        _units_gathered,
    ),
    Symptom(ENTERED_BY_SUM, _entered_by_sum),
    Symptom(
        "The result is right, and each rank takes a part of x for all hidden units: gate and up "
        "each need a sum over ranks. With which part of gate and up would a rank need nobody's "
        "help before down?",
        _inputs_cut,
    ),
    Symptom(
        "The result is right, and one call sums gate and up of all hidden units: no rank knows "
        "silu's input before it, and each computes the whole last product after it. How would you "
        "cut gate and up so that a rank knows some hidden units whole?",
        _inputs_cut_one_sum,
    ),
)


@declares_check(
    "u11-mlp",
    mlp_cases,
    observer=mlp,
    symptoms=MLP_SYMPTOMS,
    scenarios=mlp.SCENARIOS,
    relative_tolerance=1e-9,
    fallback="course_utils.reference.tensor_parallel.parallel_mlp",
    give_away=("course_utils.reference.tensor_parallel.parallel_mlp",),
)
def measured_mlp(**case: Any) -> dict[str, Any]:
    """What one rank computes alone; one call each way; the FLOPs of the largest part."""
    x, weights = mlp.tensors_of(case)
    units = -(-case["ffn_size"] // case["num_ranks"])
    flops = 6 * case["num_tokens"] * case["hidden_size"] * units
    return {
        "forward_calls": 1,
        "backward_calls": 1,
        "call_bytes": x.nbytes,
        **whole_block(x, weights, whole_mlp),
        "forward_flops": flops,
        "backward_flops": 2 * flops,
    }


# === u11-keep-shard
# A product with gathered tokens of which only the shard is kept.


KEEP_SHARD_NAMES = ("scenario", "kind", "num_ranks", "tokens_per_rank", "hidden_size", "rows")
KEEP_SHARD_PLAIN, KEEP_SHARD_TURNED = "plain", "transposed gradient"


def keep_shard_cases(seed: int) -> list[Case]:
    """Each scenario on one rank to four; a gradient that is transposed; weights of every shape."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(NUMBERS, KEEP_SHARD_PLAIN, 2, 1, 2, 3)]
    for scenario in keep_shard.SCENARIOS:
        for num_ranks in (2, 4, 3, 2, 4, 3, 2 if scenario == keep_shard.OVERLAPPED else 1):
            kind = (
                rng.choice((KEEP_SHARD_PLAIN, KEEP_SHARD_TURNED))
                if len(cases) % 2
                else KEEP_SHARD_TURNED
            )
            least = 12 if scenario == keep_shard.OVERLAPPED else 2
            sizes = (rng.randint(least, least + 3) for _ in range(3))
            cases.append((scenario, kind, num_ranks, *sizes))
    return [named(KEEP_SHARD_NAMES, case) for case in cases]


@declares_check(
    "u11-keep-shard",
    keep_shard_cases,
    observer=keep_shard,
    scenarios=keep_shard.SCENARIOS,
    fallback="course_utils.reference.tensor_parallel.gathered_product",
    give_away=("course_utils.reference.tensor_parallel.gathered_product",),
)
def measured_keep_shard(**case: Any) -> dict[str, Any]:
    """The products of all tokens; shard and weight kept; three calls; and the least time."""
    of_ranks = [keep_shard.tensors_of(case, rank) for rank in range(case["num_ranks"])]
    shards, weights, incoming = (list(each) for each in zip(*of_ranks, strict=True))
    whole = torch.cat(shards).detach()
    pairs = list(zip(weights, incoming, strict=True))
    of_whole = torch.stack([gradient @ weight.detach() for weight, gradient in pairs]).sum(0)
    tensors = {
        "result": [(whole @ weight.T).detach() for weight in weights],
        "shard": list(of_whole.chunk(case["num_ranks"])),
        "weight": [gradient.T @ whole for gradient in incoming],
    }
    if case["scenario"] == NUMBERS:
        return tensors
    calls = {"forward_calls": 1, "backward_calls": 2, "call_bytes": whole.nbytes}
    if case["scenario"] == KEPT:
        return {**tensors, **calls, "saved_bytes": shards[0].nbytes + weights[0].nbytes}
    run = keep_shard.cluster_for(case).run(keep_shard.on_rank, gathered_product, case)
    return {**tensors, **calls, "seconds": run.step_seconds}


# === for several exercises
# Collectives made of messages around a ring: all bytes that a rank sends can be counted.


class MessageComm(Comm):
    """Ranks whose all-reduce, gather and scatter are messages between neighbours, of equal parts.

    For counting, on tensors without numbers: nothing is summed.
    """

    def __init__(self, comm: Comm) -> None:
        super().__init__(comm._world_rank, comm._group)
        self._comm = comm

    def split(self, colour: int) -> Comm:
        """Make a group of the ranks that give the same number."""
        return MessageComm(self._comm.split(colour))

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        assert tensor is not None and output is not None
        whole = max(tensor, output, key=lambda each: each.numel())
        rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}[call.kind]
        part = whole.new_empty(whole.numel() // self.size)
        for _ in range(rounds * (self.size - 1)):
            self._pass_on(part)
        return _Done()

    def _pass_on(self, part: Tensor) -> None:
        """Send one part to the next rank, and receive one from the rank before."""
        sending = self._comm.send(part, (self.rank + 1) % self.size, async_op=True)
        self._comm.receive(part.clone(), (self.rank - 1) % self.size)
        sending.wait()


class _Done:
    """A call that is over."""

    def wait(self) -> None:
        """Return at once."""


# === u11-volume
# The bytes that tensor and sequence parallelism send for one layer.


VOLUME_NAMES = ("num_tokens", "hidden_size", "num_ranks", "element_bytes")
TYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


def volume_cases(seed: int) -> list[Case]:
    """Ranks up to four, and eight; elements of several sizes; a layer beyond 2⁵³ bytes last."""
    rng = random.Random(seed)
    cases = [(4, 3, 4, 2)]
    for number in range(17):
        t = (1, 2, 3, 4, 2)[number % 5]
        sizes = (t * rng.randint(1, 9), rng.randint(2, 40), t, (2, 4, 8)[number % 3])
        cases.append(sizes)
    cases += [(8 * rng.randint(2**11, 2**13), 2**14, 8, 4)]
    cases.append((3 * (2**30 + rng.randint(0, 999)), 2**24, 3, 2))
    return [named(VOLUME_NAMES, case) for case in cases]


def _block(comm: Comm, way: str, x: Tensor, weight: Tensor) -> Tensor:
    """What enters a block, a stand-in for its work, and what leaves it."""
    f, g = f_and_g_of_tensor_parallel(comm)
    gather, scatter = gather_and_scatter(comm)
    if way == "tensor":
        return g((f(x) @ weight.T).expand(x.shape))
    first = gathered_product(comm, x, weight) if way == "shards_kept" else gather(x) @ weight.T
    return scatter(first.expand(comm.size * len(x), x.shape[1]))


@declares_check(
    "u11-volume", volume_cases, fallback="course_utils.formulas.communication.tensor_parallel_bytes"
)
def measured_volume(
    num_tokens: int, hidden_size: int, num_ranks: int, element_bytes: int
) -> dict[str, int]:
    """Bytes of all messages of rank 0, where collectives are rings of messages."""

    def both_blocks(comm: Comm, way: str) -> None:
        ring = MessageComm(comm)
        tokens = num_tokens // (1 if way == "tensor" else comm.size)
        make: dict[str, Any] = {
            "device": "meta",
            "dtype": TYPES[element_bytes],
            "requires_grad": True,
        }
        x, weight = torch.empty(tokens, hidden_size, **make), torch.empty(1, hidden_size, **make)
        for _ in range(2):  # attention, then the MLP
            x = _block(ring, way, x, weight)
        x.backward(torch.empty_like(x))

    return {
        way: sum(
            each.num_bytes for each in VirtualCluster(num_ranks).run(both_blocks, way).sent_by(0)
        )
        for way in ("tensor", "sequence", "shards_kept")
    }


# === u11-ring
# Ring attention: results, bytes, one block of keys at a time, hidden messages.


RING_NAMES = ("scenario", "layout", "num_ranks", "piece_length", "head_dim")


def ring_cases(seed: int) -> list[Case]:
    """Both layouts on one rank to four, small and large scores, and messages worth hiding.

    Ranks that hold neighbours come first: they are told of first.
    """
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(ORDINARY, SIDE_BY_SIDE, 2, 1, 2)]
    for scenario in ring.SCENARIOS:
        is_timed = scenario == ring.OVERLAPPED
        for number, num_ranks in enumerate((2, 3, 4, 2, 4, 3, 2 if is_timed else 1)):
            layout = EARLY_AND_LATE if is_timed else LAYOUTS[number % 2]
            length = rng.randint(4, 6) if is_timed else rng.randint(1, 3)
            cases.append((scenario, layout, num_ranks, length, rng.randint(2, 4)))
    cases.sort(key=lambda case: case[1] == EARLY_AND_LATE)
    return [named(RING_NAMES, case) for case in cases]


@declares_check(
    "u11-ring",
    ring_cases,
    observer=ring,
    scenarios=ring.SCENARIOS,
    relative_tolerance=1e-9,
    fallback="course_utils.reference.context_parallel.ring_attention",
    give_away=("course_utils.reference.context_parallel.ring_attention",),
    allowed_names=("course_utils.reference.online_softmax.merge",),
)
def measured_ring(**case: Any) -> dict[str, Any]:
    """Attention over the whole sequence on one rank; each block of keys passes all other ranks."""
    q, k, v = sequence_of(case)
    is_later = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
    scores = (q @ k.T * case["head_dim"] ** -0.5).masked_fill(is_later, -torch.inf)
    whole = scores.softmax(1) @ v
    c, tokens = case["num_ranks"], 2 * case["piece_length"]
    # A rank holds two pieces, and keys and values are passed on c - 1 times.
    sent = 2 * (c - 1) * tokens * case["head_dim"] * ring.FLOAT64_BYTES
    right: dict[str, Any] = {
        "sent_bytes": sent,
        "least_sent_bytes": sent,
        "attend_calls": c,
        "most_keys": tokens,
        "result_length": length_of([whole[positions_of(case)[-1].flatten()]]),
        "results": [whole[each.flatten()] for each in positions_of(case)],
    }
    if case["scenario"] == ring.OVERLAPPED:
        run = ring.cluster_for(case).run(ring.on_rank, ring_attention, case)
        right["seconds"] = run.step_seconds
    return right


# === u11-attention
# Attention whose heads are shared by ranks: gradients, calls, FLOPs.


ATTENTION_NAMES = (
    "scenario",
    "num_ranks",
    "num_tokens",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
)


def attention_cases(seed: int) -> list[Case]:
    """A key head for each query head, and groups; heads as wide as tokens together, or not."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(attention.SCENARIOS[0], 2, 3, 4, 2, 2, 2)]
    for number in range(20):
        is_grouped, num_ranks = number % 2, (2, 2, 1, 2, 4, 4, 3, 2, 2, 1)[number % 10]
        kv_heads = num_ranks * rng.randint(1, 2)
        group = rng.randint(2, 3) if is_grouped else 1
        sizes = (rng.randint(2, 5), rng.choice((5, 6, 7)), group * kv_heads, kv_heads)
        cases.append((attention.SCENARIOS[is_grouped], num_ranks, *sizes, rng.randint(2, 3)))
    return [named(ATTENTION_NAMES, case) for case in cases]


def whole_attention(x: Tensor, w: Weights, head_dim: int) -> Tensor:
    """Causal attention on one rank, with every score written out."""
    q, k, v = ((x @ w[name].T).unflatten(-1, (-1, head_dim)).transpose(0, 1) for name in "qkv")
    k, v = (each.repeat_interleave(len(q) // len(each), 0) for each in (k, v))
    is_later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    scores = (q @ k.mT * head_dim**-0.5).masked_fill(is_later, -torch.inf)
    out: Tensor = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
    return out @ w["o"].T


def _attention_own_part(*sizes: Any) -> dict[str, int]:
    """A share of the work, and no call."""
    right = measured_attention(**named(ATTENTION_NAMES, sizes))
    return {"forward_calls": 0, "other_calls": 0, "forward_flops": right["forward_flops"]}


def _heads_gathered(*sizes: Any) -> dict[str, int]:
    """A right result without g, of the whole last product."""
    case = named(ATTENTION_NAMES, sizes)
    others = case["num_heads"] - case["num_heads"] // case["num_ranks"]
    more = 2 * case["num_tokens"] * case["hidden_size"] * others * case["head_dim"]
    flops = measured_attention(**case)["forward_flops"] + more
    return {"forward_calls": 0, "wrong_results": 0, "forward_flops": flops}


ATTENTION_OWN_PART = (
    "Every rank ends with what its own heads contribute. What does a product over some of the "
    "heads lack?"
)

ATTENTION_SYMPTOMS = (  # in this order: on one rank, a share of the work is all of it
    Symptom(ATTENTION_OWN_PART, _attention_own_part),
    Symptom(
        "The result is right, and every rank gathers all heads to compute the whole last product. "
        "What of that product could a rank compute of its own heads alone?",
        _heads_gathered,
    ),
)


@declares_check(
    "u11-attention",
    attention_cases,
    observer=attention,
    symptoms=ATTENTION_SYMPTOMS,
    scenarios=attention.SCENARIOS,
    relative_tolerance=1e-9,
    fallback="course_utils.reference.tensor_parallel.parallel_attention",
    give_away=("course_utils.reference.tensor_parallel.parallel_attention",),
    allowed_names=("course_utils.reference.attention.attend",),
)
def measured_attention(**case: Any) -> dict[str, Any]:
    """What one rank computes alone; one call each way; the FLOPs of its share of the heads."""
    x, weights = attention.tensors_of(case)
    heads, kv_heads = (case[name] // case["num_ranks"] for name in ("num_heads", "num_kv_heads"))
    n, d = case["num_tokens"], case["head_dim"]
    # Two products have all heads, q and the output, and two have the key heads, k and v.
    products = 4 * n * case["hidden_size"] * (heads + kv_heads) * d
    scores = 4 * n * n * heads * d  # the fused kernel is counted by shapes, with the full square
    return {
        "forward_calls": 1,
        "backward_calls": 1,
        "call_bytes": x.nbytes,
        **whole_block(x, weights, lambda x, w: whole_attention(x, w, d)),
        "forward_flops": products + scores,
        # Where forward has two products of scores, backward is counted with five: it makes the
        # scores again.
        "backward_flops": 2 * products + 5 * scores // 2,
    }


# === u11-zigzag
# Who holds which positions of a causal sequence.


def zigzag_cases(seed: int) -> list[Case]:
    """One rank to eight, pieces of one position and of several."""
    rng = random.Random(seed)
    counts = (2, 4, 3, 8, 1, 5, 6, 7)
    cases: list[Case] = [{"num_ranks": 2, "seq_len": 8}]
    for number in range(19):
        c, length = counts[number % len(counts)], rng.randint(2, 12)
        if number % 5 == 0:
            c, length = rng.randint(2, 16), 1
        cases.append({"num_ranks": c, "seq_len": 2 * c * length})
    return cases


def _least_most(work: tuple[int, ...]) -> int:
    """Of all ways to put numbers into pairs, the smallest that the largest sum can be."""

    def fits(rest: tuple[int, ...], most: int) -> bool:
        if not rest:
            return True
        first, others = rest[-1], rest[:-1]
        return any(
            first + other <= most and fits(others[:n] + others[n + 1 :], most)
            for n, other in enumerate(others)
        )

    sums = {a + b for n, a in enumerate(work) for b in work[n + 1 :]}
    return next(most for most in sorted(sums) if fits(work, most))


@declares_check(
    "u11-zigzag",
    zigzag_cases,
    observer=zigzag,
    fallback="course_utils.reference.context_parallel.zigzag_positions",
    give_away=("course_utils.reference.context_parallel.zigzag_positions",),
)
def measured_zigzag(num_ranks: int, seq_len: int) -> dict[str, int]:
    """The least that the busiest rank can have, by a search over all ways to pair the pieces."""
    length = seq_len // (2 * num_ranks)
    pieces = [list(range(i * length, (i + 1) * length)) for i in range(2 * num_ranks)]
    whole: list[Pieces] = [pieces]
    work = [pairs_of([piece], whole) for piece in pieces]
    return {"most_pairs": _least_most(tuple(work))}


# === u11-replicated
# The gradients that sequence parallelism leaves to be summed.


NOBODY = ""


def replicated_cases(seed: int) -> list[Case]:
    """With biases and without, on one rank to four; sometimes a weight has no gradient."""
    rng = random.Random(seed)
    cases: list[Case] = [_case(2, 4, False, NOBODY)]
    for number in range(20):
        without = (NOBODY, NOBODY, "norm2", "q", NOBODY)[number % 5]
        num_ranks = (2, 3, 4, 1)[number // 2 % 4]
        cases.append(_case(num_ranks, rng.randint(2, 12), bool(number % 2), without))
    return cases


def _case(num_ranks: int, hidden_size: int, has_biases: bool, without_gradient: str) -> Case:
    return {
        "num_ranks": num_ranks,
        "hidden_size": hidden_size,
        "has_biases": has_biases,
        "without_gradient": without_gradient,
    }


def _sum(gradients: Sequence[Tensor | None]) -> Tensor:
    return torch.stack([each for each in gradients if each is not None]).sum(0)


@declares_check(
    "u11-replicated",
    replicated_cases,
    observer=replicated,
    relative_tolerance=1e-9,
    fallback="course_utils.reference.tensor_parallel.sum_replicated_gradients",
    give_away=("course_utils.reference.tensor_parallel.sum_replicated_gradients",),
)
def measured_replicated(**case: Any) -> dict[str, Any]:
    """Sums of what ranks have of whole weights; all else as it was."""
    ranks = [parameters_of(case, rank) for rank in range(case["num_ranks"])]
    gradients = [{name: each.grad for name, each in rank.items()} for rank in ranks]
    summed = [n for n in WHOLE if n in gradients[0] and gradients[0][n] is not None]
    totals = {name: _sum([each[name] for each in gradients]) for name in summed}
    return {
        "calls": len(summed),
        "bytes": sum(each.nbytes for each in totals.values()),
        "norm1_length": length_of([totals["norm1"]]),
        "ranks": [each | totals for each in gradients],
    }


# === u11-combine
# Results of attention that are combined over ranks.


COMBINE_NAMES = ("scenario", "kind", "num_ranks", "rows", "keys_per_rank", "width")


def combine_cases(seed: int) -> list[Case]:
    """Scores of every size, rows without keys on a rank or at all; one rank to four."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("ordinary", combine.PLAIN, 2, 2, 2, 2)]
    for scenario, kinds in zip(
        combine.SCENARIOS, ((combine.PLAIN, NONE_HERE, NONE_AT_ALL), (HIGH, APART)), strict=True
    ):
        for number in range(10):
            num_ranks = (2, 3, 4, 2, 1)[number % 5]
            sizes = (rng.randint(2, 4), rng.randint(1, 4), rng.randint(2, 5))
            cases.append((scenario, kinds[number % len(kinds)], num_ranks, *sizes))
    return [named(COMBINE_NAMES, case) for case in cases]


@declares_check(
    "u11-combine",
    combine_cases,
    observer=combine,
    scenarios=combine.SCENARIOS,
    relative_tolerance=1e-7,
    fallback="course_utils.reference.context_parallel.combine_over_ranks",
    give_away=("course_utils.reference.context_parallel.combine_over_ranks",),
)
def measured_combine(**case: Any) -> dict[str, Any]:
    """Attention over all keys at once."""
    scores, values = scores_and_values(case)
    result, _ = attend_exactly(torch.cat(scores, 1), torch.cat(values))
    return {
        "calls": 2,
        # One gather of all ranks' log-sum-exps, and one sum of the scaled results.
        "bytes": case["num_ranks"] * case["rows"] * result.element_size() + result.nbytes,
        "result_checksum": checksum(result, result),
        "result": result,
    }
