"""Which code of the course is there where answers are observed: where that is written, and names.

`autograder.exercises.kept` derives it, and `autograder.grading.sandbox.kept_code` goes by it.
"""

from collections.abc import Iterable
from pathlib import Path
from types import FunctionType

FILE = Path(__file__).parent / "grading" / "sandbox" / "kept.json"
STRIPPED = ("course_utils.", "autograder.exercises.", "autograder.observers.")
# Kept whole: sizes, their names, spans and events, which hold no answer.
OPEN = (
    "course_utils.configs",
    "course_utils.instruments.operands",
    "course_utils.intervals",
    "course_utils.literals",
    "course_utils.preflight",
    "course_utils.quantities",
    "course_utils.traces.event",
)


def home_of(function: FunctionType) -> tuple[str, str]:
    """The module in whose file a function's code stands, and its name there."""
    return str(function.__globals__.get("__name__")), function.__code__.co_qualname


def is_written(function: FunctionType) -> bool:
    """Whether somebody wrote it; what a dataclass makes holds no answer."""
    return not function.__code__.co_filename.startswith("<")


def is_within(name: str, places: Iterable[str]) -> bool:
    """Whether a dotted name is one of the places, or lies in one."""
    return any(name == place or name.startswith(f"{place}.") for place in places)
