"""Check of the bytes of the training state: weights, gradients, optimizer states."""

import random
from contextlib import nullcontext

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
WEIGHTS, MASTER, MOMENTS = "2 if is_mixed else 4", "4 if is_mixed else 0", "(4 + 4 + ("
OF_FP32, OF_BOTH = '"bf16-fp32-gradients": 4', '"bf16-both-gradients": 6'

IN_BF16 = (
    "Your gradients are in bf16 in every mixed recipe. What do the names of the other two say?"
)
EDITS = (
    Edit(
        "Your optimizer keeps 8 bytes per parameter in mixed precision. Which three numbers "
        "does it keep there, and how wide is each?",
        {MASTER: "0"},
        points=1.0,
    ),
    Edit(
        "Your optimizer keeps a copy even of fp32 weights. Which recipes need a second copy?",
        {MASTER: "4"},
        points=1.0,
    ),
    Edit(
        "Your two moments take 4 bytes together. How wide is each of them?",
        {MOMENTS: "(4 + ("},
        points=1.0,
    ),
    Edit(
        "Your optimizer keeps 16 bytes per parameter. Which numbers does it keep, and how wide "
        "is each?",
        {MOMENTS: "(16 + 0 * ("},
        points=1.0,
    ),
    Edit(
        "Your optimizer keeps everything in bf16 where the weights are bf16. Why is there a "
        "master copy, and how wide is it?",
        {MOMENTS: "((4 if is_mixed else 8) + (", MASTER: "2 if is_mixed else 0"},
        points=1.0,
    ),
    Edit(
        "You count the master copy as weights. In which part does the exercise count it?",
        {WEIGHTS: "6 if is_mixed else 4", MASTER: "0"},
        points=0.5,
    ),
    Edit(
        "Your weights take 4 bytes in the bf16 recipes. Which copy do the matrix products read?",
        {WEIGHTS: "4"},
        points=1.0,
    ),
    Edit(
        "Your gradients are in bf16 in the recipe with fp32 gradients. What does its name say?",
        {OF_FP32: '"bf16-fp32-gradients": 2'},
        points=1.0,
    ),
    Edit(
        "Your gradients are in fp32 in every recipe. In which one are they only in bf16?",
        {'"bf16": 2': '"bf16": 4'},
        points=1.0,
    ),
    *(
        Edit(
            f"You count {number} bytes for both gradients together. How wide is each of the two?",
            {OF_BOTH: f'"bf16-both-gradients": {number}'},
            points=1.0,
        )
        for number in (2, 4, 8)
    ),
    Edit(IN_BF16, {OF_FP32: '"bf16-fp32-gradients": 2', OF_BOTH: '"bf16-both-gradients": 2'}, 1.0),
)

CHECK = Check(
    cases=state_cases,
    judge=EqualTo(measured_state_bytes, *edited("u03-state-bytes", EDITS)),
    fallback="course_utils.formulas.memory.state_bytes_of_recipe",
    answers=COUNTERS,
)
