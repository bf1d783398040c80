"""What graded cells call, `check` and `grade`, and `answer` for the cells after them.

Both return the points earned as a plain float and never raise. `check` uses practice sizes and says
everything; `grade` uses the grading seed and more cases, and says only sizes and hint.
"""

import hashlib
import importlib
import inspect
import os
import time
from collections.abc import Callable
from typing import Any

from IPython.display import display

from autograder import catalogue, progress_file
from autograder.checking.check import Check, score_answer
from autograder.checking.verdict import Verdict

PRACTICE_SEEDS = (1,)
NUM_GRADING_SEEDS = 2
SEED_BYTES = 7  # too many seeds to try, and small enough for every generator


def find(exercise: str) -> Check:
    """The check of an exercise, from the module named after it.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    check: Check = importlib.import_module(catalogue.exercise(exercise).check_module).CHECK
    return check


def check(exercise: str, answer: object) -> float:
    """Try an answer on practice sizes, show what is right or wrong, and return the points."""
    verdict = _verdict(exercise, answer, PRACTICE_SEEDS, tell_all=True)
    display(verdict)
    if verdict.written and verdict.max_points:
        _remember(exercise, answer, verdict.points)
    return verdict.points


def grade(exercise: str, answer: object) -> float:
    """Try an answer on the grading seed's sizes and return the points; shows sizes and hint."""
    verdict = _verdict(exercise, answer, grading_seeds(), tell_all=False)
    display(verdict)
    return verdict.points


def answer(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    """The student's function if its check passes, else the course's own; prints which."""
    verdict = _verdict(exercise, mine, PRACTICE_SEEDS, tell_all=True)
    if verdict.passed:
        print(f"Using your own {exercise}.")
        return mine
    print(f"Using the course's {exercise}: yours does not pass its check yet.")
    return find(exercise).reference


def grading_seeds() -> tuple[int, ...]:
    """Seeds for grading, from the course's secret in ``COURSE_GRADING_SEED``."""
    return seeds_from(os.environ.get("COURSE_GRADING_SEED", ""))


def seeds_from(secret: str) -> tuple[int, ...]:
    """Seeds for grading, derived from a secret."""
    digest = hashlib.sha256(secret.encode()).digest()
    first = int.from_bytes(digest[:SEED_BYTES]) + len(PRACTICE_SEEDS) + 1
    return tuple(range(first, first + NUM_GRADING_SEEDS))


def _verdict(exercise: str, answer: object, seeds: tuple[int, ...], *, tell_all: bool) -> Verdict:
    """The verdict; if the check itself fails, it says so and gives no points."""
    try:
        max_points = catalogue.exercise(exercise).points
        result = score_answer(find(exercise), answer, seeds)
        return result.verdict(exercise, max_points, tell_all=tell_all)
    except Exception as error:
        sentence = f"The check could not be made ({type(error).__name__}: {error})."
        hint = "Is the id as the course gave it? If so, would you tell the course's staff?"
        return Verdict(exercise=exercise, points=0.0, max_points=0.0, sentence=sentence, hint=hint)


def _remember(exercise: str, answer: object, points: float) -> None:
    """Keep points and source in the work folder, unless the answer is a trial by another name."""
    if getattr(answer, "__name__", "") != catalogue.exercise(exercise).function:
        return
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    entry = {"points": points, "source": _source(answer), "checked": now}
    progress_file.remember("exercises", exercise, entry)


def _source(answer: object) -> str:
    try:
        return inspect.getsource(answer)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
