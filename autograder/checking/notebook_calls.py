"""The two calls of a graded cell, `check` and `grade`, and `answer` for the cells after it.

Both give the points earned as a plain float and never raise. `check` uses practice sizes and says
everything; `grade` uses the grading seed and more cases, and says sizes and hint only.
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
SEED_BYTES = 7  # more than anybody can try, and what every generator takes


def find(exercise: str) -> Check:
    """The check of an exercise, from the module that has its name.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    catalogue.exercise(exercise)
    check: Check = importlib.import_module(module_of(exercise)).CHECK
    return check


def module_of(exercise: str) -> str:
    """Where the check of an exercise is: that of ``u01-gpu-days`` in ``exercises.u01.gpu_days``."""
    unit, _, name = exercise.partition("-")
    return f"autograder.exercises.{unit}.{name.replace('-', '_')}"


def check(exercise: str, answer: object) -> float:
    """Try an answer on practice sizes, show what is right or wrong, and return the points."""
    verdict = _judged(exercise, answer, PRACTICE_SEEDS, tell_all=True)
    display(verdict)
    if verdict.written and verdict.max_points and _is_named_as_asked(exercise, answer):
        entry = {"points": verdict.points, "source": _source(answer), "checked": _now()}
        progress_file.remember("exercises", exercise, entry)
    return verdict.points


def grade(exercise: str, answer: object) -> float:
    """Try an answer on the grading seed's sizes and return the points; shows sizes and hint."""
    verdict = _judged(exercise, answer, grading_seeds(), tell_all=False)
    display(verdict)
    return verdict.points


def answer(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    """The student's function where its check passes, otherwise the course's own, saying which."""
    verdict = _judged(exercise, mine, PRACTICE_SEEDS, tell_all=True)
    if verdict.passed:
        print(f"Using your own {exercise}.")
        return mine
    print(f"Using the course's {exercise}: yours does not pass its check yet.")
    return find(exercise).reference


def grading_seeds() -> tuple[int, ...]:
    """Seeds for grading, from the course's secret in ``COURSE_GRADING_SEED``."""
    return seeds_from(os.environ.get("COURSE_GRADING_SEED", ""))


def seeds_from(secret: str) -> tuple[int, ...]:
    """Seeds for grading that follow from a secret."""
    digest = hashlib.sha256(secret.encode()).digest()
    first = int.from_bytes(digest[:SEED_BYTES]) + len(PRACTICE_SEEDS) + 1
    return tuple(range(first, first + NUM_GRADING_SEEDS))


def _judged(exercise: str, answer: object, seeds: tuple[int, ...], *, tell_all: bool) -> Verdict:
    """The verdict; where the check itself fails it says so, and there are no points."""
    try:
        max_points = catalogue.exercise(exercise).points
        examination = score_answer(find(exercise), answer, seeds)
        return examination.verdict(exercise, max_points, tell_all=tell_all)
    except Exception as error:
        sentence = f"The check could not be made ({type(error).__name__}: {error})."
        hint = "Is the id as the course gave it? If so, would you tell the course's staff?"
        return Verdict(exercise=exercise, points=0.0, max_points=0.0, sentence=sentence, hint=hint)


def _is_named_as_asked(exercise: str, answer: object) -> bool:
    """Whether this is the answer itself, and not a trial under another name."""
    return getattr(answer, "__name__", "") == find(exercise).reference.__name__


def _source(answer: object) -> str:
    try:
        return inspect.getsource(answer)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S")
