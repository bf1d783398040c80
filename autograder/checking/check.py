"""What graded cells call, `check` and `grade`, and `answer` for the cells after them.

Both return the points earned as a plain float and never raise. `check` uses practice sizes and says
everything; `grade` uses the grading seed and more cases, and says only sizes and hint.
"""

import inspect
import time
from collections.abc import Callable
from typing import Any

from IPython.display import display

from autograder import catalogue, progress_file
from autograder.checking.lookup import check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import PRACTICE_SEEDS, grading_seeds
from autograder.checking.verdict import Verdict


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
    return check_of(exercise).reference


def _verdict(exercise: str, answer: object, seeds: tuple[int, ...], *, tell_all: bool) -> Verdict:
    """The verdict; if the check itself fails, it says so and gives no points."""
    try:
        max_points = catalogue.exercise(exercise).points
        result = score_answer(check_of(exercise), answer, seeds)
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
