"""Check of the bytes of the training state: weights, gradients, optimizer states."""

import random
from contextlib import nullcontext

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.configs import PRECISIONS
from course_utils.instruments import fake_tensors, storage_bytes
from course_utils.reference.mixed_precision import TrainingState

MOST_REAL = 100_000


def state_cases(seed: int) -> list[Case]:
    """Every recipe, from few parameters to a hundred thousand, and to more than a float counts."""
    rng = random.Random(seed)
    counts = (
        rng.randint(1, 9),
        rng.randint(10, 99),
        rng.randint(100, 9_999),
        rng.randint(10_000, MOST_REAL),
    )
    cases = [
        {"num_params": n, "recipe": recipe}
        for n in (*counts, rng.randint(10, MOST_REAL), just_above(54, rng))
        for recipe in PRECISIONS
    ]
    return [{"num_params": 1000, "recipe": "bf16"}, *cases]


def measured_state_bytes(num_params: int, recipe: str) -> dict[str, int]:
    """Bytes of the storages after one training step of that many parameters, very many faked."""
    with nullcontext() if num_params <= MOST_REAL else fake_tensors():
        state = TrainingState(num_params, recipe)
        state.step()
        return {part: sum(map(storage_bytes, tensors)) for part, tensors in state.tensors().items()}


CHECK = Check(
    cases=state_cases,
    judge=EqualTo(measured_state_bytes, *mistakes_of("u03-state-bytes")),
    fallback="course_utils.formulas.memory.state_bytes_of_recipe",
    answers=COUNTERS,
)
