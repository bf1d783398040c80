"""Check of the student's own checkpoint: its bytes, calls, results and gradients."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u05 import checkpoint
from autograder.observing.u05.checkpoint import LATE
from course_utils.instruments import storage_bytes

# The kinds of each scenario: how many inputs, what is drawn at random, which inputs require a
# gradient, and which precision autocast has.
KINDS = {
    "gradients": ("one input", "two inputs", "three inputs"),
    "random": ("dropout", "noise"),
    "frozen_inputs": ("data and a scale", "a mask", "data alone"),
    "autocast": ("bfloat16", "float16", "off", LATE),
}


def checkpoint_cases(seed: int) -> list[Case]:
    """Every kind for one layer and for chains of two and three."""
    rng = random.Random(seed)
    cases = []
    for scenario, kinds in KINDS.items():
        for kind, num_layers in ((kind, n) for kind in kinds for n in (1, rng.randint(2, 3))):
            rows, width = rng.randint(8, 11), rng.randrange(5, 11, 2)
            if scenario == "autocast":
                rows, width = 8 * rng.randint(1, 4), 8  # a new size takes ten milliseconds
            cases.append(_case(scenario, kind, num_layers, rows, width))
    return [cases[0] | {"rows": 2, "width": 3}, *cases[1:]]


def _case(*values: Any) -> Case:
    return dict(zip(("scenario", "kind", "num_layers", "rows", "width"), values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """Each layer called once in each pass, nothing kept but the layers' inputs.

    All else is as if nothing were recomputed.
    """
    x, *scales = checkpoint.inputs_of(case)
    return dict.fromkeys(checkpoint.LABELS, 0) | {
        "calls_in_forward": case["num_layers"],
        "calls_in_backward": case["num_layers"],
        "kept_bytes": case["num_layers"] * storage_bytes(x) + sum(map(storage_bytes, scales)),
        **checkpoint.plain_numbers(case),
    }


CHECK = Check(
    cases=checkpoint_cases,
    observe=checkpoint.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u05-checkpoint", observe=checkpoint.observe),
        summarise=checkpoint.summarise,
        scenarios=tuple(KINDS),
        questions=questions_of("u05-checkpoint"),
        labels=checkpoint.LABELS,
    ),
    fallback="course_utils.reference.recomputation.checkpoint",
    answers=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
