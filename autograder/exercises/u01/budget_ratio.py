"""Check of the FLOPs of longer sequences on a fixed budget of tokens."""

import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    LLAMA_1B,
    SMALLEST,
    counted_model,
    hidden_size_for_width,
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


PER_SEQUENCE = '"per_sequence": new_token / old_token * longer'
WHOLE_BUDGET = '"whole_budget": new_token / old_token'
HEAD, CORE = " + 2 * model.hidden_size * model.vocab_size", "4 * model.num_layers * width"
ROUNDED_DOWN = "(old_seq_len // new_seq_len or 1 / (new_seq_len // old_seq_len))"
EDITS = (
    Edit(
        "In your formula, a token costs the same at any length. What does a token do more of in "
        "a longer sequence?",
        {WHOLE_BUDGET: '"whole_budget": 1.0'},
        points=1.0,
    ),
    Edit(
        "You multiply by the ratio of the lengths. When sequences get longer, does the budget "
        "hold more of them, or fewer?",
        {WHOLE_BUDGET: f"{WHOLE_BUDGET} * longer**2"},
        points=1.0,
    ),
    Edit(
        "You round the ratio of the lengths. Does the exercise ask for whole sequences?",
        {WHOLE_BUDGET: f"{WHOLE_BUDGET} * longer * {ROUNDED_DOWN}"},
        points=1.0,
    ),
    Edit(
        "Your two numbers are the same. How many sequences does the budget hold before and after?",
        {WHOLE_BUDGET: f"{WHOLE_BUDGET} * longer"},
        points=1.0,
    ),
    Edit(
        "Your first number is about one token. How many tokens are in a sequence, before and "
        "after?",
        {
            PER_SEQUENCE: '"per_sequence": new_token / old_token',
            WHOLE_BUDGET: f"{WHOLE_BUDGET} / longer",
        },
    ),
    Edit(
        "Your first number is just the ratio of the lengths. Which part of a token's FLOPs "
        "grows with the length?",
        {CORE: "0"},
    ),
    Edit(
        "In your formula, everything grows with the square of the length. Which parts of a "
        "layer do not look at other tokens?",
        {f"model.num_layers * layer{HEAD}": "0"},
    ),
    Edit(
        "You leave out the output head. Which tokens need logits?",
        {HEAD: ""},
    ),
    Edit(
        "Your ratios are inverted. Which of the two lengths is the new one?",
        {
            "old_token, new_token": "new_token, old_token",
            "new_seq_len / old_seq_len": "old_seq_len / new_seq_len",
        },
    ),
    *hidden_size_for_width({CORE: "4 * model.num_layers * model.hidden_size"}),
)

CHECK = Check(
    cases=budget_cases,
    judge=EqualTo(
        measured_budget_ratio, *edited("u01-budget-ratio", EDITS), relative_tolerance=PROMISED
    ),
    fallback="course_utils.formulas.training_flops.budget_ratio",
    answers=COUNTERS,
)
