"""Check of the FLOPs of longer sequences on a fixed budget of tokens."""

import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    LLAMA_1B,
    SMALLEST,
    counted_model,
    models_to_vary,
    one_at_a_time,
    with_own_head_dim,
)


def budget_cases(seed: int) -> list[Case]:
    """Longer and shorter sequences; shared and unshared heads, narrow ones and wide ones."""
    rng = random.Random(seed)
    cases: list[Case] = [_case(SMALLEST, 2, 4)]
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for factor in (2, 4, rng.randint(5, 9)):
            for is_longer in (True, False):
                short = rng.randint(5, 40)
                lengths = (short, short * factor)[:: 1 if is_longer else -1]
                model = {
                    **{"num_layers": rng.randint(2, 4), "hidden_size": kv * group * 8},
                    **{"num_heads": kv * group, "num_kv_heads": kv},
                    **{"ffn_size": rng.randint(8, 99), "vocab_size": rng.randint(50, 999)},
                }
                if factor == 4:
                    model = with_own_head_dim(model, is_wider=is_longer)
                cases.append(_case(model, *lengths))
    start, end = (
        model | {"head_dim": d} for model, d in zip(models_to_vary(rng), (8, 10), strict=True)
    )
    varied = one_at_a_time(_case(start, 3, 8), _case(end, 5, 13))
    short, long = 64 * rng.randint(16, 64), 64 * rng.randint(65, 256)
    return [*cases, *varied, _case(LLAMA_1B, short, long), _case(LLAMA_1B, long, short)]


def _case(model: dict[str, Any], old_seq_len: int, new_seq_len: int) -> Case:
    return {"model": model, "old_seq_len": old_seq_len, "new_seq_len": new_seq_len}


def measured_budget_ratio(
    model: dict[str, Any], old_seq_len: int, new_seq_len: int
) -> dict[str, float]:
    """Forward and backward passes of one sequence of either length, counted while they run."""
    old, new = (sum(counted_model(model, 1, s)) for s in (old_seq_len, new_seq_len))
    per_sequence = Fraction(new, old)
    return {
        "per_sequence": float(per_sequence),
        "whole_budget": float(per_sequence * Fraction(old_seq_len, new_seq_len)),
    }


CHECK = Check(
    cases=budget_cases,
    judge=EqualTo(
        measured_budget_ratio, *mistakes_of("u01-budget-ratio"), relative_tolerance=PROMISED
    ),
    fallback="course_utils.formulas.training_flops.budget_ratio",
    answers=COUNTERS,
)
