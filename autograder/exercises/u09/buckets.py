"""The checks of unit 09 on buckets."""

import random
from itertools import pairwise, product
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size
from torch.nn.parallel.distributed import _BucketCapacityConfig

from autograder.checking.error_hints import WHICH_HOOK
from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.exercises.backward_steps import (
    BUCKETERS,
    ELEMENT_BYTES,
    NO_BACKWARD,
    NONE_FILLED,
    grouped,
    local_gradients,
    ready_gradients,
    whole_gradients,
)
from autograder.exercises.declaring import declares_check
from autograder.observers.backward_steps import NUM_ROWS, job_of, state_of
from autograder.observers.tools import length_of
from autograder.observers.u09 import buckets, ddp_buckets, memory, no_sync, unused

# === u09-buckets
# Gradients in buckets: what is sent, when, and whether backward waits for it.


SCENARIOS = ("buckets", "overlap")
BUCKETS_NAMES = (
    "scenario",
    "widths",
    "num_ranks",
    "bucket_bytes",
    "bandwidth",
    "is_reordered",
    "has_gradients",
    "precision",
)


def bucket_cases(seed: int) -> list[Case]:
    """Buckets of one gradient and of several, with and without a rest, on slow and fast links."""
    rng = random.Random(seed)
    cases = [_buckets_case("overlap", [2, 3, 4, 2], 2, 96, 8, False, False, "float64")]
    kinds = (
        "exact",
        "rest",
        "several",
        "small",
        "reordered",
        "before",
        "all",
        "single",
        "float32",
    )
    for scenario in SCENARIOS:
        for kind in (*kinds, "exact", "rest"):
            cases.append(_buckets_case_of_kind(rng, scenario, kind))
    return cases


def _buckets_case_of_kind(rng: random.Random, scenario: str, kind: str) -> Case:
    """Layers that grow, so that no two gradients have the same size."""
    num_widths = 5 if kind in ("several", "small", "reordered", "float32") else 4
    widths = _growing_widths(rng, num_widths, 2)
    precision = "float32" if kind == "float32" else "float64"
    one = ELEMENT_BYTES[precision]
    sizes = [one * a * b for a, b in pairwise(widths)][::-1]
    # The first gradient to be complete is the largest. Two of them meet "exact"; "rest" and
    # "several" are exceeded by one number, with the second and with the third; in "small" only the
    # last, smallest one does not fill a bucket; "reordered" takes two; "all" is never reached.
    threshold = {
        "exact": sizes[0] + sizes[1],
        "rest": sum(sizes[:2]) - one,
        "several": sum(sizes[:3]) - one,
        "small": sizes[-1] + one,
        "reordered": sizes[0] + one,
        "before": sizes[0] + sizes[1],
        "all": 2 * sum(sizes),
        "single": 1,
        "float32": sum(sizes),
    }[kind]
    ranks, bandwidth = 3 if kind == "before" else 2, rng.choice((2, 4, 16))
    is_kind = (kind == "reordered", kind == "before")
    return _buckets_case(scenario, widths, ranks, threshold, bandwidth, *is_kind, precision)


def _growing_widths(rng: random.Random, count: int, most_at_first: int) -> list[int]:
    """Each larger than the one before it, so that no two matrices have the same size."""
    widths = [rng.randint(1, most_at_first)]
    while len(widths) < count:
        widths.append(widths[-1] + rng.randint(1, 2))
    return widths


def _buckets_case(*values: Any) -> Case:
    return named(BUCKETS_NAMES, values)


def _step_seconds(case: Case, filled: list[Any], compute_seconds: float) -> float:
    """Each bucket leaves when it is full and the one before it has arrived, by ring all-reduce."""
    # A ring takes 2 (n - 1) turns, each with a second of latency and one n-th of the bytes.
    n, free = case["num_ranks"], 0.0
    for num_bytes, seconds in filled:
        free = max(free, seconds) + 2 * (n - 1) * (1 + num_bytes / n / case["bandwidth"])
    return max(free, compute_seconds)


def _all_hooks_early(**case: Any) -> dict[str, int]:
    """If every parameter of every rank has a hook on its new gradient."""
    return {"early_hooks": case["num_ranks"] * (len(case["widths"]) - 1)}


# No gradient is filled: nothing to send, or an error where none was there before.
NEVER = (NO_BACKWARD, NONE_FILLED)


@declares_check(
    "u09-buckets",
    bucket_cases,
    observer=buckets,
    first_symptoms=(
        *(Symptom(hint, lambda *values: {"backward_passes": 0}) for hint in NEVER),
        Symptom(WHICH_HOOK, lambda *values: _all_hooks_early(**_buckets_case(*values))),
    ),
    scenarios=SCENARIOS,
    fallback="course_utils.reference.bucketing.backward_in_buckets",
    give_away=BUCKETERS,
)
def measured_buckets(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, and buckets that leave as soon as they are full."""
    ready = ready_gradients(case["widths"], ELEMENT_BYTES[case["precision"]])
    moments = iter(ready)
    groups = grouped([each.num_bytes for each in ready], case["bucket_bytes"])
    filled = [[sum(group), [next(moments).seconds for _ in group][-1]] for group in groups]
    gradients = whole_gradients(job_of(case))
    return {
        "backward_passes": 1,
        "gradient_length": length_of(gradients),
        "collectives": len(filled),
        "step_seconds": _step_seconds(case, filled, ready[-1].seconds),
        "compute_seconds": case["num_ranks"] * ready[-1].seconds,
        "gradients": gradients,
        "state": state_of(job_of(case).model()),
        "buckets": filled,
        "ready": [each.seconds for each in ready],
    }


# === u09-no-sync
# Micro-batches on each rank: one exchange for all, one at a time in memory.


NO_SYNC_NAMES = ("widths", "num_ranks", "num_micro_batches", "trainer")


def together_cases(seed: int) -> list[Case]:
    """One micro-batch and up to three, two ranks and three; each trainer with one and several."""
    rng, trainers = random.Random(seed), list(no_sync.TRAINERS)
    cases = [_no_sync_case([2, 3, 4, 2], 2, 3, trainers[0])]
    for number, num_ranks in enumerate((2, 2, 3, 2)):
        for count in (1, 2, 3, 2, 3):
            widths = [rng.randint(2, 4) for _ in range(3)]
            cases.append(_no_sync_case(widths, num_ranks, count, trainers[1 - number % 2]))
    return cases


def _no_sync_case(*values: Any) -> Case:
    return named(NO_SYNC_NAMES, values)


NO_FORWARD = "No micro-batch is called. What do the functions in the list give when they are?"


@declares_check(
    "u09-no-sync",
    together_cases,
    observer=no_sync,
    first_symptoms=(Symptom(NO_FORWARD, lambda *values: {"forward_passes": 0}),),
    fallback="course_utils.reference.bucketing.accumulate_together",
    give_away=BUCKETERS,
)
def measured_no_sync(**case: Any) -> dict[str, Any]:
    """The gradient of all micro-batches of all ranks, and each parameter exchanged once."""
    gradients = whole_gradients(job_of(case), case["num_micro_batches"])
    return {
        "at_once": 1,
        "forward_passes": case["num_micro_batches"],
        "gradient_length": length_of(gradients),
        "trainer_calls": 1,
        "in_trainer": 1,
        "backward_passes": case["num_micro_batches"],
        "collectives": len(case["widths"]) - 1,  # one for each matrix
        "gradients": gradients,
        "list": list(range(case["num_micro_batches"])),
        "state": state_of(job_of(case).model()),
    }


# === u09-memory
# Gradients that are views of their buckets: bytes, and which memory backward fills.


MEMORY_NAMES = ("widths", "bucket_bytes", "precision")


def memory_cases(seed: int) -> list[Case]:
    """The last bucket full or not; exactly full buckets; one for all, one for each parameter.

    All in double and in single precision. Layers grow, so that no two have the same size.
    """
    rng = random.Random(seed)
    cases = [_memory_case([2, 3, 4, 2], 96, "float64")]
    kinds = ("rest", "exact", "all", "single", "several")
    for kind, precision in 2 * list(product(kinds, ELEMENT_BYTES)):
        widths = _growing_widths(rng, 6, 3)
        sizes, one = _sizes(widths, precision), ELEMENT_BYTES[precision]
        threshold = {
            "rest": sizes[0] + one,
            "exact": sum(sizes[:2]),
            "all": sum(sizes) + one,
            "single": one,
            "several": sum(sizes[:3]) - one,
        }[kind]
        cases.append(_memory_case(widths, threshold, precision))
    return cases


def _memory_case(*values: Any) -> Case:
    return named(MEMORY_NAMES, values)


def _sizes(widths: list[int], precision: str) -> list[int]:
    """Bytes of the parameters, from the last to the first."""
    return [ELEMENT_BYTES[precision] * a * b for a, b in pairwise(widths)][::-1]


@declares_check(
    "u09-memory",
    memory_cases,
    observer=memory,
    fallback="course_utils.reference.bucketing.make_buckets",
    give_away=BUCKETERS,
)
def measured_memory(**case: Any) -> dict[str, Any]:
    """One set of gradients, in the buckets and nowhere else."""
    sizes = _sizes(case["widths"], case["precision"])
    bucket_bytes = [sum(each) for each in grouped(sizes, case["bucket_bytes"])]
    gradients = local_gradients(memory.job_of(case), 0)
    return {
        "buckets": len(bucket_bytes),
        "gradient_length": length_of(gradients),
        "peak_bytes": sum(sizes),
        "bytes_left": sum(sizes),
        "state": state_of(memory.job_of(case).model()),
        "bucket_bytes": bucket_bytes,
        "gradients": gradients,
    }


# === u09-unused
# Buckets fixed beforehand, where some ranks have no gradient for a parameter.


UNUSED_NAMES = ("widths", "bucket_bytes", "unused", "kind")
KINDS = (
    "one rank",
    "two ranks",
    "all ranks",
    "exact",
    "shared",
    "reordered",
    "swapped",
    "float32",
)


def unused_cases(seed: int) -> list[Case]:
    """Parameters unused on one rank, on two, on all; none unused; shared; out of order.

    Where all ranks leave a parameter unused, one of them leaves out a second one as well. Where
    parameters are reordered, the rank that uses all of them completes the second bucket before the
    first. Where they are swapped, one member of the first bucket is complete first and would fill
    it by itself, but the bucket has to wait for its other member.
    """
    rng = random.Random(seed)
    cases = [_unused_case([2, 3, 4, 2], 96, [[], [1]], "one rank")]
    cases += [_unused_case_of_kind(rng, kind, number) for number in range(3) for kind in KINDS]
    return cases


def _unused_case_of_kind(rng: random.Random, kind: str, number: int) -> Case:
    widths = _growing_widths(rng, 5, 2)
    element_bytes = ELEMENT_BYTES["float32" if kind == "float32" else "float64"]
    sizes = [element_bytes * a * b for a, b in pairwise(widths)]
    threshold = sizes[-1] + element_bytes  # so that no bucket has one parameter alone
    index = rng.randint(0, 2)
    if kind in ("one rank", "float32"):
        return _unused_case(widths, threshold, [[], [index]] if number % 2 else [[index], []], kind)
    if kind == "two ranks":
        return _unused_case(widths, threshold, [[2], [1], []], kind)
    if kind == "all ranks":
        return _unused_case(widths, threshold, [[1], [1, 2]] if number % 2 else [[0, 2], [0]], kind)
    if kind == "exact":  # the last two matrices together, or all
        return _unused_case(widths, sum(sizes if number % 2 else sizes[-2:]), [[], []], kind)
    if kind == "shared":
        unused = [[1], []] if number % 2 else [[], []]
        # The last matrix has 96 bytes: it fills a bucket of 88 alone, and one of 104 with the next.
        return _unused_case([widths[2], 4, 4, 4, 3], rng.choice((88, 104)), unused, kind)
    if kind == "swapped":
        return _unused_case(widths, sizes[-1], [[0], []] if number % 2 else [[], [0]], kind)
    # Reordered: the second bucket holds the two matrices that are used last. The largest alone
    # is one number too small to fill it, and two of the smaller ones fill the first.
    k = rng.randint(3, 5)
    widths = [rng.randint(1, 2), k, k + 1, k, k + 1, k + 2]
    threshold = element_bytes * (widths[-2] * widths[-1] + 1)
    return _unused_case(widths, threshold, [[2], []] if number % 2 else [[], [2]], kind)


def _unused_case(*values: Any) -> Case:
    return named(UNUSED_NAMES, values)


def _moments(case: Case, rank: int) -> tuple[list[float], float]:
    """When each parameter's gradient is complete on a rank, and when backward is over.

    A matrix has one product for its weight if that is used, and one for its input if a matrix
    before it is used. A parameter that is unused is known to be so when backward is over.
    """
    model = unused.model_of(case)
    is_used = [n not in case["unused"][rank] for n in model.order]
    weights = [model.weights[n] for n in model.order]
    # The forward pass comes first. It has two FLOPs for each row and each number of a weight, and
    # a FLOP takes a second.
    clock = 2.0 * NUM_ROWS * sum(each.numel() for each in weights)
    complete: dict[Tensor, float] = {}
    for number, weight in reversed(list(enumerate(weights))):
        num_products = is_used[number] + any(is_used[:number])
        clock += num_products * 2 * NUM_ROWS * weight.numel()
        if is_used[number]:
            complete[weight] = clock
    return [complete.get(each, clock) for each in model.parameters()], clock


def _sent(buckets: list[list[int]], moments: list[float]) -> list[list[float]]:
    """Bytes of each bucket, and when it leaves: it and those before it are complete."""
    sent, following, clock = [], iter(moments), 0.0
    for bucket in buckets:
        clock = max(clock, *(next(following) for _ in bucket))
        sent.append([sum(bucket), clock])
    return sent


def _gradients(case: Case, rank: int) -> list[Tensor]:
    """Gradients of one rank alone; zeros for what it does not use."""
    model = unused.model_of(case)
    parameters = list(model.parameters())
    loss = unused.loss_of(case, model, rank)
    return list(torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True))


@declares_check(
    "u09-unused",
    unused_cases,
    observer=unused,
    first_symptoms=(Symptom(NO_BACKWARD, lambda *values: {"backward_passes": 0}),),
    give_away=BUCKETERS,
)
def measured_unused(**case: Any) -> dict[str, Any]:
    """The sums of all ranks, in fixed buckets that leave as soon as they can."""
    ranks = range(len(case["unused"]))
    moments = [_moments(case, rank) for rank in ranks]
    parameters = list(unused.model_of(case).parameters())[::-1]
    every = [_gradients(case, rank) for rank in ranks]
    gradients = [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]
    sizes = [each.nbytes for each in parameters]
    buckets = [_sent(grouped(sizes, case["bucket_bytes"]), each[::-1]) for each, _ in moments]
    return {
        "backward_passes": 1,
        "collectives": len(buckets[0]),
        "gradient_length": length_of(gradients),
        "compute_seconds": sum(end for _, end in moments),
        "gradients": gradients,
        "state": state_of(unused.model_of(case)),
        "buckets": buckets,
    }


# === u09-ddp-buckets
# The buckets that PyTorch's DistributedDataParallel makes, by PyTorch's own functions.


DDP_BUCKETS_NAMES = (
    "parameter_bytes",
    "arrival",
    "first_limit_bytes",
    "limit_bytes",
    "finds_unused",
)


def ddp_bucket_cases(seed: int) -> list[Case]:
    """With and without a search for unused parameters; arrival in reverse and in another order.

    Some limits are met exactly, some parameters are larger than a limit, and some models smaller.
    """
    rng = random.Random(seed)
    cases = [_ddp_buckets_case([48, 96, 64], [2, 1, 0], 40, 100, False)]
    cases.append(_ddp_buckets_case([48, 96, 4 * rng.randint(11, 24)], [2, 1, 0], 40, 100, True))
    for number in range(20):
        sizes = [4 * rng.randint(10, 200) for _ in range(rng.randint(6, 12))]
        arrival = list(range(len(sizes)))[::-1]
        if number % 4 < 2:
            rng.shuffle(arrival)
        first, limit = 4 * rng.randint(20, 120), 4 * rng.randint(200, 500)
        match number % 5:
            case 0:  # met exactly, in the order of definition and in that of arrival
                sizes[arrival[0]], sizes[0] = first, first
                limit = sizes[arrival[1]] + sizes[arrival[2]]
            case 1:  # as with a bucket_cap_mb
                first = limit
            case 2:  # one that is larger than a limit, in the middle
                sizes[len(sizes) // 2] = limit + 4
            case 3 if number < 10:  # all in one
                first = limit = sum(sizes) + 4
        cases.append(_ddp_buckets_case(sizes, arrival, first, limit, number % 2 == 0))
    return cases


def _ddp_buckets_case(*values: Any) -> Case:
    return named(DDP_BUCKETS_NAMES, values)


def _assigned(sizes: list[int], order: list[int], limits: list[int]) -> list[int]:
    """Bytes of the buckets to which PyTorch assigns tensors that come in an order."""
    tensors = [torch.empty(sizes[n], dtype=torch.uint8, device="meta") for n in order]
    buckets, _ = _compute_bucket_assignment_by_size(tensors, limits, [], order)
    return [sum(sizes[n] for n in bucket) for bucket in buckets]


@declares_check(
    "u09-ddp-buckets",
    ddp_bucket_cases,
    observer=ddp_buckets,
    fallback="course_utils.formulas.ddp_buckets.ddp_buckets",
    give_away=BUCKETERS,
)
def of_torch(
    parameter_bytes: list[int],
    arrival: list[int],
    first_limit_bytes: int,
    limit_bytes: int,
    finds_unused: bool,
) -> dict[str, Any]:
    """What PyTorch's own functions make of parameters of so many bytes, as DDP calls them."""
    config = _BucketCapacityConfig(
        bucket_bytes_cap=limit_bytes,
        per_bucket_bytes_caps=(),
        first_bucket_bytes_cap=first_limit_bytes,
    )
    limits, _ = config.compute_bucket_size_limits(
        static_graph=False, find_unused_parameters=finds_unused
    )
    # DDP fills the first step's buckets in the order of definition and sends them in reverse.
    # Unless it looks for unused parameters, that is one bucket without a limit, and it is rebuilt
    # in the order of arrival after the first step.
    guessed = _assigned(parameter_bytes, list(range(len(parameter_bytes))), limits)[::-1]
    rebuilt = _assigned(parameter_bytes, arrival, [first_limit_bytes, limit_bytes])
    steps = {"the first step": guessed, "later steps": guessed if finds_unused else rebuilt}
    right = {"steps": steps}
    return right | {each.name: each.value for each in ddp_buckets.facts({}, steps, right)}
