"""Check of the FLOPs of a whole model."""

from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    counted_model,
    model_cases,
    with_own_head_dim,
)


def whole_model_cases(seed: int) -> list[Case]:
    """The models of this unit, every third of the small ones with a head width of its own.

    Two cases differ in nothing else.
    """
    cases = model_cases(seed)
    for n in range(3, 19, 3):
        cases[n]["model"] = with_own_head_dim(cases[n]["model"], is_wider=n % 2 == 0)
    narrower = cases[-2] | {"model": with_own_head_dim(cases[-2]["model"], is_wider=False)}
    return [*cases[:-1], narrower, cases[-1]]


def measured_model_flops(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    """The forward pass of the whole model, from token ids to logits, counted while it runs."""
    return counted_model(model, num_sequences, seq_len).forward_flops


CHECK = Check(
    cases=whole_model_cases,
    judge=EqualTo(measured_model_flops, *mistakes_of("u01-model-flops")),
    fallback="course_utils.formulas.flops.model_flops",
    answers=COUNTERS,
)
