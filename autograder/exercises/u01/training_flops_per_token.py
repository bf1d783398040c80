"""Check of the repaired formula for the training FLOPs of one token."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import ROUNDED_BY_A_FLOAT, EqualTo
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    counted_model,
    model_cases,
)


def measured_training_flops_per_token(model: dict[str, Any], seq_len: int) -> int:
    """Counted FLOPs of a forward and a backward pass, divided by the tokens."""
    return sum(counted_model(model, 1, seq_len)) // seq_len


def repair_cases(seed: int) -> list[Case]:
    """The models of this unit, and one that divides badly: its head by layers, 12 by its groups."""
    rng = random.Random(seed)
    seven_layers = {
        **{"num_layers": 7, "hidden_size": 40, "num_heads": 10, "num_kv_heads": 2},
        **{"ffn_size": rng.randrange(5, 99, 2), "vocab_size": 7 * rng.randint(9, 99) + 1},
        "is_tied": False,
    }
    cases = [{"model": c["model"], "seq_len": c["seq_len"]} for c in model_cases(seed)]
    telling = (case for n, case in enumerate(cases) if case not in cases[:n])
    return [*telling, {"model": seven_layers, "seq_len": rng.randrange(3, 99, 2)}]


CHECK = Check(
    cases=repair_cases,
    judge=EqualTo(
        measured_training_flops_per_token,
        Symptom(ROUNDED_BY_A_FLOAT, measured_training_flops_per_token),  # right but for rounding
        *mistakes_of("u01-training-flops-per-token"),
    ),
    fallback="course_utils.formulas.training_flops.training_flops_per_token",
    answers=COUNTERS,
)
