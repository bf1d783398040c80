"""Check of buckets fixed beforehand, where some ranks have no gradient for a parameter."""

import random
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    ELEMENT_BYTES,
    LABELS,
    NO_BACKWARD,
    grouped,
)
from autograder.observing.observation import length_of
from autograder.observing.u09 import unused
from autograder.observing.u09.backward_steps import NUM_ROWS, state_of

FIELDS = ("widths", "bucket_bytes", "unused", "kind")
KINDS = (
    *("one rank", "two ranks", "all ranks", "exact"),
    *("shared", "reordered", "swapped", "float32"),
)


def unused_cases(seed: int) -> list[Case]:
    """Parameters unused on one rank, on two, on all; none unused; shared; out of order.

    Where all ranks leave a parameter unused, one leaves another one unused too. Where parameters
    are reordered, the second bucket is complete before the first on the rank that uses both. Where
    they are swapped, a member of the first bucket is as large as it must be, and complete first.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96, [[], [1]], "one rank")]
    cases += [_case_of_kind(rng, kind, number) for number in range(3) for kind in KINDS]
    return cases


def _case_of_kind(rng: random.Random, kind: str, number: int) -> Case:
    widths = [rng.randint(1, 2)]
    while len(widths) < 5:
        widths.append(widths[-1] + rng.randint(1, 2))
    element_bytes = ELEMENT_BYTES["float32" if kind == "float32" else "float64"]
    sizes = [element_bytes * a * b for a, b in pairwise(widths)]
    threshold = sizes[-1] + element_bytes  # so that no bucket has one parameter alone
    index = rng.randint(0, 2)
    if kind in ("one rank", "float32"):
        return _case(widths, threshold, [[], [index]] if number % 2 else [[index], []], kind)
    if kind == "two ranks":
        return _case(widths, threshold, [[2], [1], []], kind)
    if kind == "all ranks":
        return _case(widths, threshold, [[1], [1, 2]] if number % 2 else [[0, 2], [0]], kind)
    if kind == "exact":  # the last two matrices together, or all
        return _case(widths, sum(sizes if number % 2 else sizes[-2:]), [[], []], kind)
    if kind == "shared":
        unused = [[1], []] if number % 2 else [[], []]
        return _case([widths[2], 4, 4, 4, 3], rng.choice((88, 104)), unused, kind)
    if kind == "swapped":
        return _case(widths, sizes[-1], [[0], []] if number % 2 else [[], [0]], kind)
    k = rng.randint(3, 5)
    widths = [rng.randint(1, 2), k, k + 1, k, k + 1, k + 2]
    threshold = element_bytes * (widths[-2] * widths[-1] + 1)
    return _case(widths, threshold, [[2], []] if number % 2 else [[], [2]], kind)


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The sums of all ranks, in fixed buckets that leave as soon as they can."""
    ranks = range(len(case["unused"]))
    moments = [_moments(case, rank) for rank in ranks]
    parameters = list(unused.model_of(case).parameters())[::-1]
    every = [_gradients(case, rank) for rank in ranks]
    gradients = [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]
    sizes = [each.nbytes for each in parameters]
    buckets = [_sent(grouped(sizes, case["bucket_bytes"]), each[::-1]) for each, _ in moments]
    return {
        "forged_calls": 0,
        "backward_passes": 1,
        "collectives": len(buckets[0]),
        "other_buckets": 0,
        "missing_gradients": 0,
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "waits": 0,
        "other_moments": 0,
        "compute_seconds": sum(end for _, end in moments),
        "changes_model": 0,
        "hooks_left": 0,
        "hooks_after_error": 0,
        "gradients": gradients,
        "state": state_of(unused.model_of(case)),
        "buckets": buckets,
    }


def _moments(case: Case, rank: int) -> tuple[list[float], float]:
    """When each parameter's gradient is complete on a rank, and when backward is over.

    A matrix has one product for its weight if that is used, and one for its input if a matrix
    before it is used. A parameter that is unused is known to be so when backward is over.
    """
    model = unused.model_of(case)
    is_used = [n not in case["unused"][rank] for n in model.order]
    weights = [model.weights[n] for n in model.order]
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


CHECK = Check(
    cases=unused_cases,
    observe=unused.observe,
    judge=Behaviour(
        measured,
        Symptom(NO_BACKWARD, lambda *values: {"backward_passes": 0}),
        *mistakes_of("u09-unused", observe=unused.observe),
        questions=questions_of("u09-unused"),
        labels=LABELS | {"other_moments": "buckets that leave later than they could"},
        summarise=unused.summarise,
    ),
    answers=BUCKETERS,
)
