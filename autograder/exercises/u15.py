"""The checks of unit 15: A bug clinic (optional)."""

import copy
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, named
from autograder.exercises.backward_steps import (
    ELEMENT_BYTES,
    grouped,
    ready_gradients,
    whole_gradients,
)
from autograder.exercises.declaring import declares_check
from autograder.observers.after_backward import frozen, gradients_of
from autograder.observers.backward_steps import job_of
from autograder.observers.on_ranks import FLOAT64_BYTES
from autograder.observers.tools import length_of
from autograder.observers.u15 import apart, clip, drift, hang, hooks, masks, scale, tied
from autograder.observers.u15.apart import LEARNING_RATE
from autograder.observers.u15.clip import WITH_EPSILON

# === for several exercises
# What is right of gradients that ranks share.


# What sums gradients, and so answers these exercises.
TRAINERS = (
    "course_utils.reference.gradient_sync",
    "course_utils.reference.bucketing",
    "torch.nn.parallel.DistributedDataParallel",
)


def on_every_rank(
    gradients: Sequence[Tensor | None], call_bytes: Sequence[int], **others: Any
) -> dict[str, Any]:
    """What is right where every rank ends with the same gradients.

    Args:
        gradients: Those of the whole batch on one rank.
        call_bytes: Bytes of each call that a rank makes.
        others: What else is right; or another number under one of these names.
    """
    length = length_of(gradients)
    return {
        "calls": len(call_bytes),
        "bytes": sum(call_bytes),
        "length": length,
        "length_on_last": length,
        **others,
        "gradients": gradients,
    }


# === u15-tied
# Gradients that are summed once, however many layers share a weight.


TIED_KINDS = ("two", "three", "bias", "layer", "equal", "frozen", "none")
TIED_NUM_CASES = 21


def tied_cases(seed: int) -> list[Case]:
    """A weight in two layers or three, a bias, a whole layer, nothing; on one rank to four."""
    rng = random.Random(seed)
    cases: list[Case] = [{"kind": "two", "num_ranks": 2, "width": 2}]
    for number in range(TIED_NUM_CASES):
        num_ranks = (2, 3, 4, 1)[number % 4]  # three of them for each kind
        kind, width = TIED_KINDS[number % len(TIED_KINDS)], rng.randint(2, 5)
        cases.append({"kind": kind, "num_ranks": num_ranks, "width": width})
    return cases


def _length_on_last(case: Case, model: Any) -> float:
    """The length of the last rank's gradient: what a frozen bias has kept is its own."""
    trained = [each for each in model.parameters() if each.requires_grad]
    last = tied.model_of(case, case["num_ranks"] - 1)
    return length_of([*gradients_of(trained), *gradients_of(frozen(last))])


@declares_check(
    "u15-tied",
    tied_cases,
    observer=tied,
    give_away=TRAINERS,
)
def measured_tied(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch by one rank, and a call for each parameter."""
    ranks = range(case["num_ranks"])
    model = tied.model_of(case, 0)
    kept = [gradients_of(frozen(tied.model_of(case, rank))) for rank in ranks]
    for rank in ranks:
        tied.loss_of(model, case, rank).backward()
    sent = [each for each in model.parameters() if each.requires_grad]
    gradients = gradients_of(list(model.parameters()))
    trained = [
        gradient if parameter.requires_grad else None
        for gradient, parameter in zip(gradients, model.parameters(), strict=True)
    ]
    return on_every_rank(
        trained,
        [each.nbytes for each in sent],
        length=length_of(gradients),
        length_on_last=_length_on_last(case, model),
        frozen=kept,
    )


# === u15-hang
# A backward pass in which every rank makes all calls, with rows or without.


# Ranks and rows: none without rows, fewer rows than ranks, and as many whose chunks do not reach.
SIZES = ((2, 4), (4, 2), (4, 5), (3, 4), (2, 1), (4, 8), (1, 3), (5, 6), (3, 1), (4, 6))
HANG_NAMES = ("num_ranks", "num_rows", "width", "has_gradients")


def share_cases(seed: int) -> list[Case]:
    """Ranks without rows and all with some; gradients from before or none."""
    rng = random.Random(seed)
    cases = [(4, 5, 2, False)]
    for has_gradients in (False, True):
        cases += [(*sizes, rng.randint(2, 9), has_gradients) for sizes in SIZES]
    return [named(HANG_NAMES, each) for each in cases]


@declares_check(
    "u15-hang",
    share_cases,
    observer=hang,
    give_away=TRAINERS,
)
def measured_hang(**case: Any) -> dict[str, Any]:
    """The gradient of all rows by one rank, and a call for each parameter."""
    model = hang.model_of(case, 0)
    gradients = [each.grad for each in model.parameters()]
    for rank in range(1, case["num_ranks"]):
        others = [each.grad for each in hang.model_of(case, rank).parameters()]
        gradients = [
            None if mine is None or other is None else mine + other
            for mine, other in zip(gradients, others, strict=True)
        ]
    for each, before in zip(model.parameters(), gradients, strict=True):
        each.grad = before
    batch = hang.batch_of(case)
    (model(batch).square().sum() / len(batch)).backward()
    whole = [each.grad for each in model.parameters()]
    return on_every_rank(whole, [each.nbytes for each in model.parameters()])


# === u15-hooks
# Gradients that are sent in hooks while backward goes on.


HOOKS_NAMES = ("widths", "num_ranks", "bandwidth", "has_gradients")
HOOKS_NUM_CASES = 20


def overlap_cases(seed: int) -> list[Case]:
    """Two layers to four on two ranks and three; slow links and fast ones; gradients before."""
    rng = random.Random(seed)
    cases: list[Case] = [named(HOOKS_NAMES, ([2, 3, 4, 2], 2, 8, False))]
    for number in range(HOOKS_NUM_CASES):
        widths = [rng.randint(1, 2)]
        while len(widths) < 3 + number % 3:
            widths.append(widths[-1] + rng.randint(1, 2))
        values = (widths, 2 + (number % 4 == 1), rng.choice((2, 4, 16)), number % 5 == 2)
        cases.append(named(HOOKS_NAMES, values))
    return cases


@declares_check(
    "u15-hooks",
    overlap_cases,
    observer=hooks,
    give_away=TRAINERS,
)
def measured_hooks(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch; each leaves when it is complete and the links are free."""
    ready = ready_gradients(case["widths"], ELEMENT_BYTES["float64"])
    gradients = whole_gradients(job_of(case))
    num_ranks, free = case["num_ranks"], 0.0
    for each in ready:
        ring = 2 * (num_ranks - 1) * (1 + each.num_bytes / num_ranks / case["bandwidth"])
        free = max(free, each.seconds) + ring
    return {
        "backward_passes": 1,
        "calls": len(ready),
        "length": length_of(gradients),
        "step_seconds": free,
        "gradients": gradients,
        "sent": [list(each) for each in ready],
    }


# === u15-apart
# A training whose ranks begin with the weights and buffers of one of them.


APART_NAMES = ("num_ranks", "num_steps", "num_rows", "width")


def training_cases(seed: int) -> list[Case]:
    """No step to three, on two ranks to four; more rows than ranks."""
    rng = random.Random(seed)
    cases = [(2, 2, 4, 2)]
    for num_ranks in (2, 3, 4, 2, 3):
        for num_steps in (1, 2, 3, 0):
            cases.append((num_ranks, num_steps, num_ranks + rng.randint(0, 3), rng.randint(2, 4)))
    return [named(APART_NAMES, each) for each in cases]


@declares_check(
    "u15-apart",
    training_cases,
    observer=apart,
    give_away=TRAINERS,
)
def measured_apart(**case: Any) -> dict[str, Any]:
    """Plain gradient descent by one rank that begins as rank 0."""
    model = copy.deepcopy(apart.model_of(case, 0))
    weights = list(model.parameters())
    for batch in apart.batches_of(case):
        gradients = torch.autograd.grad(model(batch).square().sum() / len(batch), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(LEARNING_RATE * gradient)
    buffers, num_steps = list(model.buffers()), case["num_steps"]
    weight_bytes = sum(each.nbytes for each in weights)
    return {
        "calls": len(buffers) + (1 + num_steps) * len(weights),
        "bytes": sum(each.nbytes for each in buffers) + (1 + num_steps) * weight_bytes,
        "weights": [each.detach() for each in weights],
        "buffers": buffers,
    }


# === u15-clip
# A gradient that is clipped by the norm of the whole batch's.


# What ranks do, and the limit over the norm of the whole gradient; none is a rank's own norm.
CLIP_KINDS = (("equal", 0.4), ("mixed", 0.7), ("opposed", 4.0), ("mixed", 3.0), ("equal", 1.5))


def clipping_cases(seed: int) -> list[Case]:
    """Norms above the limit and below; ranks that agree, that nearly cancel, or neither.

    The limit lies between the norm of a rank and that of all where they cancel.
    """
    rng = random.Random(seed)
    cases = [_case("equal", 4, 2, 0.5)]
    for ranks in ((2, 3), (4, 2), (2, 4), (3, 2)):
        for number, (kind, times) in enumerate(CLIP_KINDS):
            num_ranks = 2 if kind == "opposed" else ranks[number % 2]
            cases.append(_case(kind, num_ranks, rng.randint(2, 9), times))
    return [*cases, _case("mixed", 1, rng.randint(2, 9), 0.5)]


def _case(kind: str, num_ranks: int, width: int, times: float) -> Case:
    case = {"kind": kind, "num_ranks": num_ranks, "width": width}
    return case | {"max_norm": round(times * length_of(_gradients(case)), 6)}


def _gradients(case: Case) -> list[Tensor]:
    """The gradient of the whole batch by one rank."""
    model: nn.Module = clip.model_of(case)
    for rank in range(case["num_ranks"]):
        clip.loss_of(model, case, rank).backward()
    return [each.grad for each in model.parameters() if each.grad is not None]


@declares_check(
    "u15-clip",
    clipping_cases,
    observer=clip,
    relative_tolerance=WITH_EPSILON,
    give_away=TRAINERS,
)
def measured_clip(**case: Any) -> dict[str, Any]:
    """Norm and clipping of the whole batch's gradient, and a call for each parameter."""
    gradients = _gradients(case)
    norm = length_of(gradients)
    scale = min(1.0, case["max_norm"] / norm)
    return {
        "calls": len(gradients),
        "bytes": sum(each.nbytes for each in gradients),
        "length": norm * scale,
        "norm": norm,
        "norm_on_last": norm,
        "gradients": [each * scale for each in gradients],
    }


# === u15-scale
# The gradient of a mean over all micro-batches of all ranks.


SCALE_NAMES = ("num_ranks", "num_micro_batches", "num_rows", "width")


def mean_cases(seed: int) -> list[Case]:
    """One rank to four, with one micro-batch to four of one row to three."""
    rng = random.Random(seed)
    cases = [(2, 3, 1, 2)]
    for num_ranks in (2, 3, 4, 1):
        for num_micro_batches in (2, 3, 1, 4, 2):
            cases.append((num_ranks, num_micro_batches, rng.randint(1, 3), rng.randint(2, 4)))
    return [named(SCALE_NAMES, each) for each in cases]


@declares_check(
    "u15-scale",
    mean_cases,
    observer=scale,
    give_away=TRAINERS,
)
def measured_scale(**case: Any) -> dict[str, Any]:
    """The gradient of the mean by one rank with all rows, and a call for each parameter."""
    model = scale.model_of(case)
    every = [scale.micro_batches_of(case, rank) for rank in range(case["num_ranks"])]
    rows = [row for batches in every for batch in batches for row in batch]
    sum(model(row).square().mean() / len(rows) for row in rows).backward()
    gradients = gradients_of(list(model.parameters()))
    return on_every_rank(gradients, [each.nbytes for each in model.parameters()])


# === u15-drift
# Gradients that travel several in one call, the last of them too.


DRIFT_KINDS = ("rest", "exact", "never full", "single", "last alone")
DRIFT_NAMES = ("widths", "num_ranks", "bucket_bytes")


def bucket_cases(seed: int) -> list[Case]:
    """Buckets with a remainder or none, one that is never full, one for each gradient."""
    rng = random.Random(seed)
    cases = [named(DRIFT_NAMES, ([2, 3, 4], 2, 72))]
    for num_ranks in (2, 3, 4, 1):
        for kind in DRIFT_KINDS:
            widths = [rng.randint(2, 3)]
            while len(widths) < 4:
                widths.append(widths[-1] + rng.randint(1, 2))
            if num_ranks % 2:
                widths.reverse()
            values = (widths, num_ranks, _bucket_bytes(widths, kind))
            cases.append(named(DRIFT_NAMES, values))
    return cases


def sizes_of(widths: list[int]) -> list[int]:
    """Bytes of each weight and bias, first to last."""
    return [FLOAT64_BYTES * each for a, b in pairwise(widths) for each in (a * b, b)]


def _bucket_bytes(widths: list[int], kind: str) -> int:
    sizes = sizes_of(widths)
    return {
        "rest": sum(sizes[:3]),
        "exact": sum(sizes),
        "never full": sum(sizes) + FLOAT64_BYTES,
        "single": FLOAT64_BYTES,
        "last alone": sizes[-1],
    }[kind]


@declares_check(
    "u15-drift",
    bucket_cases,
    observer=drift,
    give_away=TRAINERS,
)
def measured_drift(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch by one rank, in buckets that end when they are full."""
    model = drift.model_of(case)
    for rank in range(case["num_ranks"]):
        drift.loss_of(model, case, rank).backward()
    gradients = gradients_of(list(model.parameters()))
    buckets = [sum(each) for each in grouped(sizes_of(case["widths"]), case["bucket_bytes"])]
    return on_every_rank(gradients, buckets, buckets=buckets)


# === u15-masks
# Dropout that differs from rank to rank and from step to step, and can be repeated.


MASKS_NAMES = ("num_ranks", "num_steps", "width", "seed")


def mask_cases(seed: int) -> list[Case]:
    """One rank to four, one step to three; small seeds, zero too, and large ones."""
    rng = random.Random(seed)
    cases = [(2, 2, 2, 7)]
    for number in range(20):
        num_ranks, num_steps = (2, 3, 4, 3, 1)[number % 5], (2, 1, 3, 2)[number % 4]
        some_seed = 0 if number % 7 == 3 else rng.randint(1, 10 ** rng.randint(1, 6))
        cases.append((num_ranks, num_steps, rng.randint(2, 4), some_seed))
    return [named(MASKS_NAMES, each) for each in cases]


@declares_check(
    "u15-masks",
    mask_cases,
    observer=masks,
    give_away=TRAINERS,
)
def measured_masks(**case: Any) -> dict[str, Any]:
    """Every mask once, gradients under them summed, a call for each parameter."""
    parameters = list(masks.Dropping(case["width"]).parameters())
    return {
        "masks": case["num_ranks"] * case["num_steps"],
        "calls": len(parameters),
        "bytes": sum(each.nbytes for each in parameters),
    }
