"""Check of a gradient that is clipped by the norm of the whole batch's."""

import random
from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS
from autograder.observing.observation import length_of
from autograder.observing.u15 import clip
from autograder.observing.u15.clip import WITH_EPSILON

# What ranks do, and the limit over the norm of the whole gradient; none is a rank's own norm.
KINDS = (("equal", 0.4), ("mixed", 0.7), ("opposed", 4.0), ("mixed", 3.0), ("equal", 1.5))


def clipping_cases(seed: int) -> list[Case]:
    """Norms above the limit and below; ranks that agree, that nearly cancel, or neither.

    The limit lies between the norm of a rank and that of all where they cancel.
    """
    rng = random.Random(seed)
    cases = [_case("equal", 4, 2, 0.5)]
    for ranks in ((2, 3), (4, 2), (2, 4), (3, 2)):
        for number, (kind, times) in enumerate(KINDS):
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


def measured(**case: Any) -> dict[str, Any]:
    """Norm and clipping of the whole batch's gradient, and a call for each parameter."""
    gradients = _gradients(case)
    norm = length_of(gradients)
    scale = min(1.0, case["max_norm"] / norm)
    return {
        "forged_calls": 0,
        "missing": 0,
        "calls": len(gradients),
        "bytes": sum(each.nbytes for each in gradients),
        "length": norm * scale,
        "wrong_ranks": 0,
        "norm": norm,
        "norm_on_last": norm,
        "gradients": [each * scale for each in gradients],
    }


CHECK = Check(
    cases=clipping_cases,
    observe=clip.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-clip", observe=clip.observe),
        summarise=clip.summarise,
        relative_tolerance=WITH_EPSILON,
        questions=questions_of("u15-clip"),
        labels=LABELS
        | {
            "norm": "the norm that rank 0 returns",
            "norm_on_last": "the norm that the last rank returns",
            "wrong_ranks": "ranks without the clipped gradient of the whole batch",
        },
    ),
    answers=TRAINERS,
)
