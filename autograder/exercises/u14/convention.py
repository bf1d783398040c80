"""Check of a printed utilisation under another convention."""

import random

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u14.shared.models import (
    LLAMA_1B,
    counted_forward,
    small_llama,
)
from course_utils.formulas.parameters import parameters

CONVENTIONS = ("6N", "6N + attention", "with recomputation", "lecture")
SMALL = {
    **{"num_layers": 2, "hidden_size": 8, "num_heads": 2, "num_kv_heads": 1},
    **{"ffn_size": 20, "vocab_size": 50, "is_tied": True},
}


def convention_cases(seed: int) -> list[Case]:
    """Every convention; tied and untied heads, gated and not, one layer, shared keys; Llama 1B."""
    rng = random.Random(seed)
    runs = [(SMALL, 12, 50.0, "6N + attention")]
    for number in range(20):
        fixed: dict[str, int] = {"is_tied": number % 2 == 0, "is_gated": number % 3 != 1}
        if number in (3, 7):
            fixed["num_layers"] = 1
        if number % 5 == 0:
            fixed |= {"num_heads": 4, "num_kv_heads": 2, "hidden_size": 32}
        model = small_llama(rng, **fixed)
        percent = rng.randint(200, 700) / 10
        runs.append((model, rng.randint(10, 90), percent, CONVENTIONS[number // 2 % 4]))
    runs += [(LLAMA_1B, 4096, rng.randint(300, 700) / 10, each) for each in CONVENTIONS]
    names = ("model", "num_params", "seq_len", "percent", "convention")
    return [
        dict(zip(names, (model, _num_parameters(model), *others), strict=True))
        for model, *others in runs
    ]


def _num_parameters(model: dict[str, int]) -> int:
    return sum(parameters(model_of(model)).values())


def measured(
    model: dict[str, int], num_params: int, seq_len: int, percent: float, convention: str
) -> float:
    """FLOPs counted while the model runs, over those of the convention."""
    forward = counted_forward(model, seq_len)
    head = 2 * model["vocab_size"] * model["hidden_size"]
    six_n_and_core = 6 * num_params + 3 * forward["attention"]
    theirs = {
        "6N": 6 * num_params,
        "6N + attention": six_n_and_core,
        "with recomputation": six_n_and_core + six_n_and_core / 3,
        "lecture": 3 * (forward["whole"] + (model["num_layers"] - 1) * head),
    }[convention]
    ours = 3 * forward["whole"] - 1.5 * forward["attention"]
    return percent * ours / theirs


CHECK = Check(
    cases=convention_cases,
    judge=EqualTo(measured, *mistakes_of("u14-convention"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.utilisation.causal_percent",
)
