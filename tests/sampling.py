"""Which answers are tried when not all are: a random choice that stays until the pack changes.

`ALL_ANSWERS=1` in the environment of `make test` tries all.
`ONE_IN=4` in the environment of `make acceptance` tries one in four of what takes long, and opens
and grades the first unit and one in four of the others.
"""

import functools
import os
import random
from pathlib import Path

from autograder import catalogue, practice_files

ROOT = Path(__file__).parents[1]
ALL = bool(os.environ.get("ALL_ANSWERS"))
ONE_IN = int(os.environ.get("ONE_IN", "1"))


def chance(exercise: str, what: object) -> random.Random:
    """The same random numbers until something else is recorded of the exercise."""
    return random.Random(f"{what} {_recorded(exercise)}")


@functools.cache
def _recorded(exercise: str) -> str:
    """The JSON of the exercise's practice pack."""
    return practice_files.text_and_tensors(ROOT, exercise)[0]


def is_chosen(exercise: str, what: object, share: int) -> bool:
    """Whether something is among one of so many."""
    return chance(exercise, what).randrange(share) == 0


def some_units() -> list[str]:
    """Folders of the units that are opened in a browser and graded as a whole.

    A page without a check is always one: nothing else runs it as a student does.
    """
    first, *others = catalogue.units()
    checked = {
        unit.folder: [each.id for each in unit.exercises if not each.manual] for unit in others
    }
    chosen = [
        folder
        for folder, names in checked.items()
        if not names or is_chosen(names[0], "unit", ONE_IN)
    ]
    return [first.folder, *chosen]
