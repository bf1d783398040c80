"""Check of the bytes of the training state: weights, gradients, optimizer states."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import PRECISIONS
from course_utils.formulas import memory
from course_utils.instruments import storage_bytes
from course_utils.reference.mixed_precision import TrainingState

MIXED = ("bf16", "bf16-fp32-gradients", "bf16-both-gradients")


def state_cases(seed: int) -> list[Case]:
    """Every recipe, from one parameter to a hundred thousand."""
    rng = random.Random(seed)
    counts = (3, 1000, rng.randint(2, 99), rng.randint(100, 9_999), rng.randint(10_000, 100_000))
    return [{"num_params": n, "recipe": recipe} for n in counts for recipe in PRECISIONS]


def measured_state_bytes(num_params: int, recipe: str) -> dict[str, int]:
    """Bytes of the storages after one real training step of that many parameters."""
    state = TrainingState(num_params, recipe)
    state.step()
    return {part: sum(map(storage_bytes, tensors)) for part, tensors in state.tensors().items()}


def state_bytes(num_params: int, recipe: str) -> dict[str, int]:
    """The course's own answer, under the names that the exercise asks for."""
    parts = memory.state_bytes(num_params, PRECISIONS[recipe])
    return {
        "weights": parts["weights"],
        "gradients": parts["gradients"],
        "optimizer": parts["master_weights"] + parts["moments"],
    }


def _mistake(**wrong: dict[str, int]) -> Any:
    """Wrong bytes per parameter, by part and recipe."""

    def formula(num_params: int, recipe: str) -> dict[str, int]:
        return {
            part: num_params * by_recipe.get(recipe, state_bytes(1, recipe)[part])
            for part, by_recipe in wrong.items()
        }

    return formula


CHECK = Check(
    cases=state_cases,
    reference=state_bytes,
    judge=EqualTo(
        measured_state_bytes,
        Mistake(
            "Your optimizer keeps 8 bytes in mixed precision. Which three numbers does it keep for "
            "a parameter there, and how wide is each?",
            _mistake(optimizer=dict.fromkeys(MIXED, 8)),
        ),
        Mistake(
            "Your optimizer keeps fp32 weights beside fp32 weights. Which recipes need a second "
            "copy?",
            _mistake(optimizer={"fp32": 12}),
        ),
        Mistake(
            "Your moments take 4 bytes together. How many are there, and how wide is each?",
            _mistake(optimizer={"fp32": 4} | dict.fromkeys(MIXED, 8)),
        ),
        Mistake(
            "The master copy is among your weights. To which part does the exercise count it?",
            _mistake(weights=dict.fromkeys(MIXED, 6), optimizer=dict.fromkeys(MIXED, 8)),
        ),
        Mistake(
            "Your weights take 4 bytes in a recipe that begins with bf16. Which copy do the matrix "
            "products read?",
            _mistake(weights=dict.fromkeys(MIXED, 4)),
        ),
        Mistake(
            "Your gradients are in bf16 in every mixed recipe. What does the name of the other "
            "two say?",
            _mistake(gradients={"bf16-fp32-gradients": 2, "bf16-both-gradients": 2}),
        ),
        Mistake(
            "You have 4 bytes for both gradients. How wide is each of the two?",
            _mistake(gradients={"bf16-both-gradients": 4}),
        ),
    ),
)
