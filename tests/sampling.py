"""Which answers are tried where not all are: others once something else is recorded of them."""

import random
from pathlib import Path

from autograder import practice_files

ROOT = Path(__file__).parents[1]


def chance(exercise: str, what: object) -> random.Random:
    """The same random numbers until something else is recorded of the exercise."""
    recorded, _ = practice_files.text_and_tensors(ROOT, exercise)
    return random.Random(f"{what} {recorded}")


def is_chosen(exercise: str, what: object, share: int) -> bool:
    """Whether something is among one of so many."""
    return chance(exercise, what).randrange(share) == 0
