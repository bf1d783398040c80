"""Check of a fused gate: right results, right gradients, fewer bytes kept."""

import random
from typing import Any

from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u03.shared.counters import COUNTERS
from autograder.observing.u03 import fused_gate
from autograder.observing.u03.fused_gate import (
    FROZEN,
    FROZEN_G,
    HALVES,
    LARGE,
    LEAVES,
    SINGLE,
    inputs_of,
)
from autograder.observing.u03.kept import BESIDE, LABELS, gradients_of

KINDS = ("", HALVES, FROZEN, SINGLE, FROZEN_G, LEAVES, LARGE)


def gate_cases(seed: int) -> list[Case]:
    """One row and many, two sides and three; of every kind, with large numbers among them."""
    rng = random.Random(seed)
    shapes = [[1, 3], [1, rng.randrange(5, 30, 2)]]
    shapes += [[rng.randint(1, 3), rng.randrange(3, 30, 2)] for _ in range(6)]
    shapes += [[rng.randint(4, 12), rng.randint(2, 12)] for _ in range(8)]
    shapes += [[rng.randint(2, 3), rng.randint(2, 4), rng.randrange(3, 9, 2)] for _ in range(8)]
    kinds = ("", "", *(KINDS[n % len(KINDS)] for n in range(len(shapes) - 2)))
    return [{"shape": s, "kind": kind} for s, kind in zip(shapes, kinds, strict=True)]


def measured(**case: Any) -> dict[str, Any]:
    """silu(g) * u, left to autograd; kept are the two inputs and nothing else."""
    g, u = inputs_of(case)
    result = F.silu(g) * u
    return {
        **dict.fromkeys(("wrong_results", "rounded_results", *BESIDE), 0),
        "saved_bytes": 2 * g.numel() * g.element_size(),
        "copied_bytes": 0,
        "unseen_bytes": 0,
        "result": result.detach(),
        "gradients": gradients_of(result, [g, u]),
    }


CHECK = Check(
    cases=gate_cases,
    observe=fused_gate.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u03-fused-gate", observe=fused_gate.observe),
        summarise=fused_gate.summarise,
        questions=questions_of("u03-fused-gate"),
        labels=LABELS | {"wrong_results": "wrong results"},
    ),
    answers=(
        *COUNTERS,
        "course_utils.reference.fused.swiglu",
        "course_utils.reference.fused._SwiGLU",
    ),
)
