"""Check of a fused gate: right results, right gradients, fewer bytes kept."""

import random
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u03.shared.results_and_gradients import (
    FLOAT64_BYTES,
    NOTHING_WRONG,
    kept,
    random_tensors,
    wrong_numbers,
)
from course_utils.reference.fused import swiglu


def gate_cases(seed: int) -> list[Case]:
    """One row and many; odd widths."""
    rng = random.Random(seed)
    sizes = [(1, 3), (2, 5)]
    sizes += [(rng.randint(1, 3), rng.randrange(3, 99, 2)) for _ in range(9)]
    sizes += [(rng.randint(4, 40), rng.randint(2, 40)) for _ in range(9)]
    return [{"rows": rows, "ffn_size": ffn_size} for rows, ffn_size in sizes]


def _gate_inputs(rows: int, ffn_size: int) -> list[Tensor]:
    return random_tensors(rows * ffn_size, (rows, ffn_size), (rows, ffn_size))


def plain_gate(g: Tensor, u: Tensor) -> Tensor:
    """The gate, left to autograd."""
    return F.silu(g) * u


def observe_gate(answer: Any, case: Case) -> object:
    """Results, gradients and bytes of the student's gate."""
    inputs = _gate_inputs(**case)
    return wrong_numbers(answer, plain_gate, inputs) | kept(answer, inputs)


def wanted_of_gate(rows: int, ffn_size: int) -> dict[str, int]:
    """The two inputs and nothing else, counted on the course's gate."""
    return NOTHING_WRONG | kept(swiglu, _gate_inputs(rows, ffn_size))


def _keeps(tensors: int) -> Callable[[int, int], dict[str, int]]:
    return lambda rows, ffn_size: {"saved_bytes": tensors * FLOAT64_BYTES * rows * ffn_size}


CHECK = Check(
    cases=gate_cases,
    reference=swiglu,
    observe=observe_gate,
    judge=EqualTo(
        wanted_of_gate,
        Mistake(
            "The numbers are right, and three tensors are kept. Which one of them can be computed "
            "again from the other two?",
            _keeps(3),
        ),
        Mistake(
            "The numbers are right, and four tensors are kept. Which of them can be computed "
            "again from the two inputs?",
            _keeps(4),
        ),
        Mistake(
            "The numbers are right, and autograd was given nothing to keep. Where do your tensors "
            "live, and who will let go of them?",
            _keeps(0),
        ),
        Mistake(
            "Something that you made lives on where autograd does not see it. Who holds it until "
            "backward, and does backward need it?",
            lambda rows, ffn_size: {"unseen_bytes": FLOAT64_BYTES * rows * ffn_size},
        ),
        Mistake(
            "The result is right, both gradients are not. In which order does backward return "
            "them, and by what is each multiplied?",
            lambda rows, ffn_size: {"wrong_gradients": 2 * rows * ffn_size},
        ),
        Mistake(
            "The result is right and the gradient of one input is not. Which derivatives has "
            "silu(g) * u, and by what is each multiplied?",
            lambda rows, ffn_size: {"wrong_gradients": rows * ffn_size},
        ),
        together=True,
    ),
)
