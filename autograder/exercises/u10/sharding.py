"""The checks of unit 10 on what is sharded: bytes, steps, layers."""

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import torch
from torch import nn

from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Numbers, Symptom
from autograder.exercises.declaring import declares_check
from autograder.exercises.searching import least
from autograder.observers.on_ranks import FLOAT64_BYTES, NETWORK, cluster_of
from autograder.observers.tools import length_of, upstream
from autograder.observers.u10 import flat, hybrid, layer, norm, owners, prefetch
from autograder.observers.u10.owners import NUM_STEPS
from course_utils.configs import precision
from course_utils.distributed import Comm, VirtualCluster
from course_utils.instruments.storage import storage_bytes

# === u10-state-bytes
# What a rank keeps of a sharded state, against storages of its padded part.


STATE_BYTES_NAMES = ("num_params", "num_ranks", "stage", "recipe")
MANY_RANKS, BEYOND_A_FLOAT = 2**16, 2**54
RECIPES = ("bf16", "fp32", "bf16-fp32-gradients", "bf16-both-gradients")
# From which stage on a rank keeps a part alone.
FIRST_STAGE: Mapping[str, int] = {"weights": 3, "gradients": 2, "optimizer": 1}


def state_cases(seed: int) -> list[Case]:
    """Every stage and recipe; ranks that divide and that do not; one rank, and many."""
    rng = random.Random(seed)
    cases = [(10, 4, 2, "bf16")]
    for recipe in RECIPES:
        for stage in range(4):
            ranks = rng.randint(2, 99)
            params = rng.randint(10**6, 10**10)
            cases.append((params - (stage % 2) * (params % ranks), ranks, stage, recipe))
    cases += [(rng.randint(10, 99), 1, stage, "bf16") for stage in (1, 3)]
    cases += [(rng.randint(2, 9), rng.randint(10, 99), stage, "bf16") for stage in (1, 2, 3)]
    # So little over an even share that a float cannot tell.
    uneven = BEYOND_A_FLOAT + MANY_RANKS * rng.randint(1, 999) + 1
    cases += [(uneven, MANY_RANKS, stage, "bf16") for stage in (2, 3)]
    return [named(STATE_BYTES_NAMES, each) for each in cases]


@declares_check(
    "u10-state-bytes", state_cases, fallback="course_utils.formulas.sharding.sharded_state_bytes"
)
def measured_state_bytes(
    num_params: int, num_ranks: int, stage: int, recipe: str
) -> dict[str, int]:
    """Bytes of the storages that the last rank keeps: of all numbers, or of a part of its own."""
    sizes = precision(recipe)
    bytes_of_one = {
        "weights": sizes.weight_bytes,
        "gradients": sizes.gradient_bytes,
        "optimizer": sizes.master_weight_bytes + sizes.moment_bytes,
    }
    padded = num_params
    while padded % num_ranks:
        padded += 1
    kept = {}
    for name, num_bytes in bytes_of_one.items():
        is_part = stage >= FIRST_STAGE[name]
        rows = torch.empty(
            padded if is_part else num_params, num_bytes, dtype=torch.uint8, device="meta"
        )
        kept[name] = storage_bytes(rows.view(num_ranks, -1)[-1].clone() if is_part else rows)
    return kept


# === u10-owners
# A sharded optimizer step: equal to one optimizer for all, in the time of one call.


OWNERS_NAMES = ("scenario", "num_ranks", "part_length", "rank_without_grad")

OWNERS_SCENARIOS = ("sgd", "adam")


def owners_cases(seed: int) -> list[Case]:
    """Both optimizers on one rank to four; parts of one number and of several, one without grad."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = []
    for scenario in OWNERS_SCENARIOS:
        for number, usual in enumerate((2, 1, 3, 4, 2, 2, 3, 1, 2, 2)):
            is_single = number % 5 == 4
            num_ranks = rng.randint(2, 8) if is_single else usual
            length = 1 if is_single else rng.randint(2, 12)
            without_grad = rng.randrange(num_ranks) if len(cases) % 3 == 2 else None
            cases.append((scenario, num_ranks, length, without_grad))
    return [named(OWNERS_NAMES, case) for case in cases]


@declares_check(
    "u10-owners",
    owners_cases,
    observer=owners,
    scenarios=OWNERS_SCENARIOS,
    fallback="course_utils.reference.sharding.sharded_step",
    give_away=("course_utils.reference.sharding",),
)
def measured_owners(**case: Any) -> dict[str, Any]:
    """One optimizer for all weights in one process; the time of an all-reduce of them."""
    weights = nn.Parameter(owners.weights_of(case))
    optimizer, after = owners.optimizer_of(case, weights), []
    for step in range(NUM_STEPS):
        now = weights.detach()
        shares = [owners.gradient_of(now, rank, step) for rank in range(case["num_ranks"])]
        weights.grad = torch.stack(shares).sum(0)
        optimizer.step()
        after.append(weights.detach().clone())
    alone = cluster_of(case["num_ranks"]).run(lambda comm: comm.all_reduce(after[0].clone()))
    return {
        "updates": NUM_STEPS,
        "length": length_of(after[-1:]),
        "calls": 2 * NUM_STEPS,
        "sent_bytes": 2 * NUM_STEPS * (after[0].nbytes - 8 * case["part_length"]),
        "seconds": NUM_STEPS * alone.step_seconds,
        "after": after,
        "parts": list(after[-1].chunk(case["num_ranks"])),
    }


# === u10-volume
# What a rank sends in a step, against the calls of a training step on virtual ranks.


VOLUME_NAMES = ("num_params", "num_ranks", "stage", "num_micro_batches", "bytes_per_element")
DTYPES = {2: torch.bfloat16, 4: torch.float32}


def volume_cases(seed: int) -> list[Case]:
    """Every stage with one micro-batch and several, on few ranks and on one."""
    rng = random.Random(seed)
    cases = [(8, 4, 2, 3, 2), *((4 * rng.randint(2, 50), 4, stage, 3, 2) for stage in (0, 1, 3))]
    for stage in range(4):
        for num_micro_batches in (1, rng.randint(2, 3), rng.randint(4, 6), rng.randint(7, 9)):
            ranks = rng.randint(2, 7)
            params = ranks * rng.randint(10**6, 10**9)
            cases.append((params, ranks, stage, num_micro_batches, rng.choice((2, 4))))
        cases.append((rng.randint(10, 99), 1, stage, rng.randint(1, 5), 2))
    cases += [
        (7 * (2**52 + 2 * rng.randint(1, 99) + 1), 7, s, rng.randint(2, 4), 2) for s in (1, 3)
    ]
    return [named(VOLUME_NAMES, each) for each in cases]


def step(comm: Comm, stage: int, num_micro_batches: int, weights: torch.Tensor) -> None:
    """One training step without numbers: only what its calls send."""
    gradient = torch.empty_like(weights)
    part = weights.chunk(comm.size)[comm.rank].clone()
    for _ in range(num_micro_batches):
        for _ in ("forward", "backward"):
            if stage == 3:
                comm.all_gather(weights, part)
        if stage >= 2:
            comm.reduce_scatter(torch.empty_like(part), gradient)
    if stage == 0:
        comm.all_reduce(gradient)
    if stage == 1:
        comm.reduce_scatter(torch.empty_like(part), gradient)
    if stage in (1, 2):
        comm.all_gather(weights, part)


@declares_check(
    "u10-volume", volume_cases, fallback="course_utils.formulas.sharding.step_sent_bytes"
)
def measured_volume(
    num_params: int, num_ranks: int, stage: int, num_micro_batches: int, bytes_per_element: int
) -> int:
    """Bytes that rank 0 sends in its calls."""
    weights = torch.empty(num_params, dtype=DTYPES[bytes_per_element], device="meta")
    return VirtualCluster(num_ranks).run(step, stage, num_micro_batches, weights).sent_bytes()


# === u10-layer
# A sharded layer: gradients, calls, what it keeps, and whole weights alive at once.


LAYER_SCENARIOS = ("one rank", "some ranks", "memory")
LAYER_MOST_RANKS_AT = 3  # number of the case


def layer_cases(seed: int) -> list[Case]:
    """One rank, some ranks, layers wide and tall; square ones for memory, with few rows."""
    rng = random.Random(seed)
    cases = []
    for number in range(21):
        scenario = LAYER_SCENARIOS[(number + 1) % 3]
        ranks = 1 if scenario == "one rank" else (2, 2, 3)[number % 7 % 3]
        ranks = 4 if number == LAYER_MOST_RANKS_AT else ranks
        width = ranks * rng.randint(1, 3)
        shape = [width, rng.randint(2, 7)] if number % 2 else [rng.randint(2, 7), width]
        if scenario == "memory":
            shape = [12 * rng.randint(1, 2)] * 2
        case = {"scenario": scenario, "num_ranks": ranks, "shape": shape, "rows": rng.randint(2, 6)}
        cases.append(case)
    return cases


@declares_check(
    "u10-layer",
    layer_cases,
    observer=layer,
    scenarios=LAYER_SCENARIOS,
    fallback="course_utils.reference.sharding.ShardedLinear",
    give_away=("course_utils.reference.sharding",),
)
def measured_layer(**case: Any) -> dict[str, Any]:
    """Autograd's own product with the whole weight; the part of the sum of all ranks."""
    whole, inputs = layer.weight_of(case).requires_grad_(), []
    results = []
    for rank in range(case["num_ranks"]):
        inputs.append(layer.input_of(case, rank))
        y = (2 * inputs[-1]) @ whole.T
        y.backward(upstream(y))
        results.append(y.detach())
    assert whole.grad is not None
    parts = whole.grad.flatten().chunk(case["num_ranks"])
    last = layer.input_of(case, case["num_ranks"] - 1)
    return {
        "length": length_of(parts),
        "length_y": length_of(results),
        "length_dx": length_of(each.grad for each in inputs),
        "gathers": 2,
        "scatters": 1,
        "calls": 3,
        "sent_bytes": 3 * (whole.nbytes - 8 * len(parts[0])),
        "saved_bytes": last.nbytes + parts[0].nbytes,
        "alive": 1,
        "ranks": [
            {"y": y, "dx": x.grad, "dpart": part}
            for y, x, part in zip(results, inputs, parts, strict=True)
        ],
    }


# === u10-flat
# A flat shard: the part of each rank, the whole, and what stays in memory.


FLAT_NAMES = ("num_ranks", "shapes", "dtype")


def flat_cases(seed: int) -> list[Case]:
    """Whole parts and ragged ones, fewer numbers than ranks, one rank; three dtypes."""
    rng = random.Random(seed)
    cases: list[tuple[int, list[list[int]], str]] = [(4, [[3, 4], [3]], "float64")]
    for number in range(10):
        ranks = 2 + number % 4
        rows = [[rng.randint(1, 4), rng.randint(2, 5)] for _ in range(rng.randint(1, 3))]
        rest = ranks * 40 - sum(a * b for a, b in rows)
        cases.append((ranks, [*rows, [rest - (number % 2) * rng.randint(1, ranks - 1)]], "float64"))
    for _ in range(3):
        ranks = rng.randint(3, 6)
        cases.append((ranks, [[rng.randint(1, ranks - 2)], []], "float64"))
        cases.append((ranks, [[2, 2], [ranks, rng.randint(2, 9)], [1, 1, 2]], "bfloat16"))
    cases += [(1, [[rng.randint(1, 5), 3], [2]], dtype) for dtype in ("float64", "float32")]
    cases.append((3, [[2, 3], [rng.randint(2, 9)]], "float32"))
    return [named(FLAT_NAMES, each) for each in cases]


@declares_check(
    "u10-flat",
    flat_cases,
    observer=flat,
    fallback="course_utils.reference.sharding.FlatShard",
    give_away=("course_utils.reference.sharding",),
)
def measured_flat(**case: Any) -> dict[str, Any]:
    """Parts cut from the padded row of all numbers, and wholes pieced together by hand."""
    tensors = flat.tensors_of(case)
    numbers = [number for each in tensors for number in each.flatten().tolist()]
    while len(numbers) % case["num_ranks"]:
        numbers.append(0.0)
    row = torch.tensor(numbers, dtype=tensors[0].dtype)
    parts = list(row.tensor_split(case["num_ranks"]))
    later = torch.cat([each + rank + 1 for rank, each in enumerate(parts)])
    pieces = later[: sum(each.numel() for each in tensors)].split([e.numel() for e in tensors])
    return {
        "length": len(parts[0]),
        "length_on_last": len(parts[0]),
        "calls": 2,
        "sent_bytes": 2 * (row.nbytes - parts[0].nbytes),
        "dimensions": 1,
        "kept_bytes": parts[0].nbytes,
        "parts": parts,
        "whole": tensors,
        "changed": [piece.view_as(each) for piece, each in zip(pieces, tensors, strict=True)],
    }


# === u10-prefetch
# Prefetching: gradients, exposed time, whole weights and gradients alive at once.


PREFETCH_SCENARIOS = ("numbers", "time", "memory")
PREFETCH_MOST_RANKS_AT = 12  # number of the case
PREFETCH_NAMES = ("scenario", "num_ranks", "num_layers", "width", "slack")


def prefetch_cases(seed: int) -> list[Case]:
    """Each scenario with one layer to four, on one rank to four; compute always hides calls."""
    rng = random.Random(seed)
    cases = []
    for number in range(21):
        ranks = (2, 3, 2, 2, 2, 2, 2)[number // 3]
        ranks = 4 if number == PREFETCH_MOST_RANKS_AT else ranks
        layers = (3, 1, 4, 2, 2, 3, 2)[number // 3]
        scenario = PREFETCH_SCENARIOS[number % 3]
        if scenario == "memory":
            layers = max(layers, 3)
        if number in (18, 9):
            ranks = 1
        width = 12 * rng.randint(1, 2)
        cases.append((scenario, ranks, layers, width, 1.05 + rng.randint(0, 40) / 40))
    return [named(PREFETCH_NAMES, each) for each in cases]


@declares_check(
    "u10-prefetch",
    prefetch_cases,
    observer=prefetch,
    scenarios=PREFETCH_SCENARIOS,
    fallback="course_utils.reference.sharding.prefetched_step",
    give_away=("course_utils.reference.sharding",),
)
def measured_prefetch(**case: Any) -> dict[str, Any]:
    """Autograd's gradients of the whole layers; time of one gather and one scatter."""
    layers = range(case["num_layers"])
    wholes = [prefetch.weight_of(case, layer).requires_grad_() for layer in layers]
    total = torch.zeros((), dtype=torch.float64)
    for rank in range(case["num_ranks"]):
        rows = prefetch.input_of(case, rank)
        for whole in wholes:
            rows = rows @ whole.T
        total = total + rows.sum()
    summed = torch.autograd.grad(total, wholes)
    parts = [each.flatten().chunk(case["num_ranks"]) for each in summed]
    num_bytes, ranks = FLOAT64_BYTES * case["width"] ** 2, range(case["num_ranks"])
    ends = [NETWORK.seconds(kind, num_bytes, ranks) for kind in ("all_gather", "reduce_scatter")]
    return {
        "length": length_of(part for each in parts for part in each),
        "gathers": 2 * case["num_layers"],
        "scatters": case["num_layers"],
        "exposed_seconds": sum(ends),
        "weights_alive": 2,
        "gradients_alive": 2,
        "gradients": [[part[rank] for part in parts] for rank in ranks],
    }


# === u10-norm
# Clipping by the norm of a gradient that no rank has whole.


NORM_NAMES = ("num_ranks", "lengths", "max_norm")


def norm_cases(seed: int) -> list[Case]:
    """Norms above the limit and below it, between that of a rank and that of all.

    Some parts are empty, and in two cases all parts of a rank.
    """
    rng = random.Random(seed)
    cases: list[tuple[int, list[int], float]] = [(2, [4, 5], 1.0)]
    for number in range(19):
        ranks = (2, 3, 4, 1)[number % 4]
        lengths = [rng.randint(4, 9) for _ in range(rng.randint(1, 3))]
        if number % 5 == 0:
            lengths = [1, rng.randint(4, 20), 2]  # nothing is left of it on the last ranks
        total = 1.0 + sum(lengths) * ranks
        cases.append((ranks, lengths, (0.25, 0.7 * total**0.5, total)[number % 3]))
    for max_norm in (0.25, 9.0):
        ranks = rng.randint(3, 4)
        lengths = [rng.randint(1, ranks - 1) for _ in range(rng.randint(1, 2))]
        cases.append((ranks, lengths, max_norm))  # the last rank has nothing at all
    return [named(NORM_NAMES, each) for each in cases]


# PyTorch adds 1e-6 to the norm that it divides by; and a sum may travel in fp32.
WITH_EPSILON = 1e-5


@declares_check(
    "u10-norm",
    norm_cases,
    observer=norm,
    relative_tolerance=WITH_EPSILON,
    fallback="course_utils.reference.sharding.clip_sharded",
    give_away=("course_utils.reference.sharding",),
)
def measured_norm(**case: Any) -> dict[str, Any]:
    """Norm and clipping of all parts as one vector."""
    every = [norm.gradients_of(case, rank) for rank in range(case["num_ranks"])]
    whole = torch.cat([each for rank in every for each in rank])
    before = float(whole.norm())
    scale = min(1.0, case["max_norm"] / before)
    return {
        "norm": before,
        "norm_on_last": before,
        "length": before * scale,
        "calls": 1,
        "most_bytes": FLOAT64_BYTES,
        "gradients": [[each * scale for each in rank] for rank in every],
    }


# === u10-hide
# The fewest tokens whose product hides a gather, against a search on the two times.


HIDE_NAMES = ("num_weights", "num_ranks", "bytes_per_second", "latency_ns", "flops_per_second")


def hide_cases(seed: int) -> list[Case]:
    """One rank and many, no latency and much; every third result is a whole number.

    Pairs are so nearly alike that a float cannot tell one from the other.
    """
    rng = random.Random(seed)
    cases: list[tuple[int, ...]] = [
        (1024, 4, 64, 2 * 10**9, 1024),
        (4096**2, 8, 200 * 10**9, rng.randint(5_000, 20_000), 400 * 10**12),
    ]
    for number in range(21):
        ranks = rng.choice((2, 3, 4, 5, 6, 7, 8, 12))
        width = 8 * rng.randint(20, 600)
        latency = (0, rng.randint(1_000, 50_000), 10**6)[number % 3 and rng.randint(1, 2)]
        rate, flops = rng.randint(10, 400) * 10**9 + 7, rng.randint(100, 900) * 10**12 + 1
        if number % 3 == 0:  # powers of two come out even
            ranks, rate = 2 ** rng.randint(1, 4), 2 ** rng.randint(34, 38)
            flops = rate * 2 ** rng.randint(8, 11)
        cases.append((width**2, ranks, rate, latency, flops))
    cases.append((rng.randint(100, 999) ** 2, 1, 10**9, 10_000, 10**14))
    cases += [case for _ in range(3) for case in _alike_in_floats(rng)]
    return [named(HIDE_NAMES, each) for each in cases]


def _alike_in_floats(rng: random.Random) -> list[tuple[int, ...]]:
    """Two rates beyond 2**56 that are one number in floats; one of them needs a token more."""
    rate, tokens = rng.randint(19 * 10**10, 21 * 10**10), 4 * rng.randint(2**16, 2**17)
    num_weights, flops = (8 * rng.randint(20, 600)) ** 2, 2 * rate * tokens
    return [(num_weights, 2, rate, 0, each) for each in (flops, flops + 1)]


MISSED = (
    "Off by one token where the two times are (nearly) equal. What does a float make of "
    "a third, and which whole numbers could you compare instead?"
)


def _missed(by: int) -> Callable[..., Numbers | int]:
    """What a float gives that is off by so many tokens, where it may be: (nearly) whole ones."""

    def numbers(
        num_weights: int, num_ranks: int, bytes_per_second: int, latency_ns: int, flops: int
    ) -> Numbers | int:
        passing = Fraction(2 * num_weights, num_ranks * bytes_per_second)
        gather = (num_ranks - 1) * (Fraction(latency_ns, 10**9) + passing)
        exact = gather * flops / (2 * num_weights)
        is_near = abs(exact - round(exact)) < round(exact) * Fraction(1, 10**12)
        return math.ceil(exact) + by if is_near and num_ranks > 1 else {}

    return numbers


@declares_check(
    "u10-hide",
    hide_cases,
    symptoms=(
        Symptom(MISSED, _missed(1)),
        Symptom(MISSED, _missed(-1)),
    ),
    fallback="course_utils.formulas.sharding.gather_hiding_tokens",
)
def searched(
    num_weights: int,
    num_ranks: int,
    bytes_per_second: int,
    latency_ns: int,
    flops_per_second: int,
) -> int:
    """The fewest tokens by bisection on the two times, in fractions, without their formula."""
    part = Fraction(2 * num_weights, num_ranks)
    turn = Fraction(latency_ns, 10**9) + part / bytes_per_second
    gather = sum((turn for _ in range(num_ranks - 1)), Fraction())

    def is_hidden(tokens: int) -> bool:
        return Fraction(2 * num_weights * tokens, flops_per_second) >= gather

    return least(is_hidden)


# === u10-hybrid
# A sum in hybrid sharding: inside of a node first, then each part between nodes.


HYBRID_NAMES = ("num_nodes", "node_size", "part_length")
NODES = ((2, 2), (2, 3), (3, 2), (1, 2), (2, 1), (2, 2), (1, 1))


def hybrid_cases(seed: int) -> list[Case]:
    """Several nodes of several ranks, one node, nodes of one rank, and one rank."""
    rng = random.Random(seed)
    cases = [(2, 2, 4)]
    cases += [(*NODES[n % len(NODES)], rng.randint(2, 40)) for n in range(1, 20)]
    cases.append((2, 2, 12 * rng.randint(1, 3)))
    return [named(HYBRID_NAMES, each) for each in cases]


def _in_two_steps(comm: Comm, gradient: torch.Tensor, node_size: int) -> None:
    """The calls alone: a scatter among neighbours, then a sum of parts of the same place."""
    node, across = comm.split(comm.rank // node_size), comm.split(comm.rank % node_size)
    part = torch.empty(len(gradient) // node_size, dtype=gradient.dtype)
    node.reduce_scatter(part, gradient)
    across.all_reduce(part)


@declares_check(
    "u10-hybrid",
    hybrid_cases,
    observer=hybrid,
    fallback="course_utils.reference.sharding.hybrid_sum",
    give_away=("course_utils.reference.sharding",),
)
def measured_hybrid(**case: Any) -> dict[str, Any]:
    """Parts of the sum over all ranks; bytes and time of two calls."""
    cluster, size = hybrid.cluster_of(case), case["node_size"]
    gradients = [hybrid.gradient_of(case, rank) for rank in range(cluster.num_ranks)]
    parts = torch.stack(gradients).sum(0).chunk(size)
    run = cluster.run(lambda comm: _in_two_steps(comm, gradients[comm.rank], size))
    every = [parts[rank % size] for rank in range(cluster.num_ranks)]
    part_bytes, nodes = FLOAT64_BYTES * case["part_length"], case["num_nodes"]
    # A scatter in each node; then a part of each place is summed over nodes.
    sent = nodes * (size - 1) * size * part_bytes + size * 2 * (nodes - 1) * part_bytes
    return {
        "part_length": case["part_length"],
        "length": length_of(every),
        "sent_bytes": sent,
        "seconds": run.step_seconds,
        "parts": every,
    }
