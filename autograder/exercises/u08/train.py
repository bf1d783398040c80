"""Check of a training loop over groups of micro-batches: steps, weights, and what it reports."""

import math
import random
from typing import Any

import torch

from autograder.checking import borrowed_code
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u08.shared.ragged_batches import Batches, kept_bytes, losses_of, ragged
from autograder.observing.observation import length_of
from autograder.observing.u08 import train
from autograder.observing.u08.train import LONG, TOLERANCE, Run, is_long
from course_utils.reference import accumulation

SCENARIOS = ("accumulation", "clipping", "schedule", "last group", "old gradients", "no step")
FIELDS = ("scenario", "lengths", "micro_batches_per_step", "max_norm", "broken", "kind")
NO_CLIPPING = 1e9


def train_cases(seed: int) -> list[Case]:
    """Every scenario twice or more, with groups of two to four micro-batches, some long."""
    rng = random.Random(seed)
    cases = [_case("accumulation", [[3], [1], [2], [5]], 2)]
    for size in (2, 3, 2):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        max_norm = round(rng.uniform(0.02, 0.04), 3)
        cases.append(_case("accumulation", two, size))
        cases.append(_case("clipping", two, size, max_norm=max_norm))
        cases.append(_case("schedule", two, size))
        cases.append(_case("last group", two[:-1], size))
    for size in (3, 4):
        shorter = LONG - rng.randint(1, 20)
        lengths = [[LONG], *([shorter - n] for n in range(2 * size - 1))]
        cases.append(_case("accumulation", lengths, size))
    for size in (2, 3):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        cases.append(_case("old gradients", two, size))
    for _ in range(2):
        first, middle, last = (_micro_batches(rng, 2) for _ in range(3))
        cases.append(_case("no step", [*first, [0, 0], [0, 0], *last], 2, kind="targets"))
        for kind in ("loss", "gradient"):
            three, broken = [*first, *middle, *last], rng.choice((2, 3))
            cases.append(_case("no step", three, 2, broken=broken, kind=kind))
    return cases


def _micro_batches(rng: random.Random, count: int) -> list[list[int]]:
    """Lengths of each micro-batch of a group, two sequences each."""
    lengths = ragged(rng, 2 * count)
    return [lengths[2 * n : 2 * n + 2] for n in range(count)]


def _case(scenario: str, lengths: list[list[int]], size: int, **others: float | str) -> Case:
    """A case; by default nothing is clipped or broken."""
    values = (scenario, lengths, size, NO_CLIPPING, -1, "")
    return dict(zip(FIELDS, values, strict=True)) | others


def measured(**case: Any) -> dict[str, Any]:
    """Steps, weights and report of a loop that takes all targets of a group at once.

    Of memory, the peak of a right loop, and the bytes that one micro-batch keeps.
    """
    run, size = Run(case), case["micro_batches_per_step"]
    groups = [run.batches[start : start + size] for start in range(0, len(run.batches), size)]
    report = [_step(run, group, case["max_norm"]) for group in groups]
    return {
        "not_numbers": 0,
        "steps": len(run.path),
        "schedule_steps": len(run.path),
        "right_steps": len(run.path),
        "weights_moved": run.path[-1],
        "wrong_weights": 0,
        "results": len(groups),
        "wrong_results": 0,
        "reported": sum(filter(None, report)),
        "sequences_too_many": 0,
        "micro_batches_held": 0,
        "path": run.path,
        "weights": run.weights(),
        "report": report,
        "bytes": _bytes_of(case) if is_long(case) else [],
    }


def _step(run: Run, group: Batches, max_norm: float) -> float | None:
    losses = torch.cat([losses_of(run.model, *each) for each in group])
    if not len(losses):
        return None
    mean, weights = losses.sum() / len(losses), list(run.model.parameters())
    gradients = torch.autograd.grad(mean, weights)
    length = length_of([*gradients])
    if not (math.isfinite(mean.item()) and math.isfinite(length)):
        return None
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = min(1.0, max_norm / length) * gradient
    run.optimizer.step()
    run.scheduler.step()
    return mean.item()


def _bytes_of(case: Case) -> list[int]:
    run = Run(case)
    return [run.peak_bytes(accumulation.train, []), kept_bytes(run.model, *run.batches[0])]


CHECK = Check(
    cases=train_cases,
    observe=train.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u08-train", observe=train.observe),
        summarise=train.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u08-train"),
        labels=train.LABELS,
        relative_tolerance=TOLERANCE,
    ),
    fallback="course_utils.reference.accumulation.train",
    answers=(
        "course_utils.reference.accumulation.train",
        "course_utils.reference.accumulation._step",
        "course_utils.reference.accumulation.sum_of_losses",
    ),
    allowed_names=borrowed_code.TOKEN_LOSS,
)
