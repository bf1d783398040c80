"""What graded cells call, `check` and `grade`, and `answer` for the cells after them.

Both return the points earned, which show themselves as the verdict, and never raise. `check` uses
practice sizes and says everything; `grade` uses the grading seed and more cases, and says only
sizes and hint. After `make practice`, `check` uses new sizes until the answer is right there, and
the points of the first ones stay.
"""

import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from autograder import catalogue, progress_file
from autograder.checking.exercise_check import Check
from autograder.checking.lookup import graded_check_of, practice_check_of
from autograder.checking.own_cells import written
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS, grading_seeds
from autograder.checking.verdict import Points, Verdict

VALIDATING = "NBGRADER_VALIDATING"
"""Set while Validate runs a notebook; of a cell that lacks points it shows the error stream."""

SLOW_SECONDS = 2.0


def check(exercise: str, answer: object) -> Points:
    """Try an answer on practice sizes: the points, which show what is right or wrong."""
    answer = written(answer)
    if progress_file.is_again(exercise) and VALIDATING not in os.environ:
        return Points(_again(exercise, answer))
    verdict = _verdict(exercise, answer, practice_check_of, PRACTICE_SEEDS)
    if VALIDATING in os.environ and not verdict.passed:
        print(verdict, file=sys.stderr)
    if verdict.written and verdict.max_points:
        _remember(exercise, answer, verdict.points)
    return Points(verdict)


def grade(exercise: str, answer: object) -> Points:
    """Try an answer on the grading seed's sizes: the points, which show sizes and hint."""
    return Points(_verdict(exercise, answer, graded_check_of, grading_seeds(), tell_all=False))


def answer(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    """The student's function if its check passes, else the course's own; prints which."""
    mine = written(mine)
    verdict = _verdict(exercise, mine, practice_check_of, PRACTICE_SEEDS)
    if verdict.passed:
        print(f"Using your own “{catalogue.title_of(exercise)}”.")
        return mine
    title = catalogue.title_of(exercise)
    print(f"Using the course's “{title}”: yours does not pass its check yet.")
    return practice_check_of(exercise).reference()


def _again(exercise: str, answer: object) -> Verdict:
    """The verdict on new sizes, which count for nothing; right once, they are done."""
    verdict = _verdict(exercise, answer, partial(practice_check_of, again=True), AGAIN_SEEDS)
    if verdict.passed:
        progress_file.end_again(exercise)
    return replace(verdict, is_again=True)


def _verdict(
    exercise: str,
    answer: object,
    find_check: Callable[[str], Check],
    seeds: Sequence[int],
    *,
    tell_all: bool = True,
) -> Verdict:
    """The verdict; if the check itself fails, it says so and gives no points."""
    try:
        max_points = catalogue.exercise(exercise).points
        with _told_if_slow():
            result = score_answer(find_check(exercise), answer, seeds)
        tries = progress_file.failed_tries(exercise)
        return result.verdict(exercise, max_points, tell_all=tell_all, is_next_try=tries > 0)
    except Exception as error:
        sentence = f"The check itself failed ({type(error).__name__}: {error})."
        hint = "Is the id spelled as in the notebook? If so, could you tell the course staff?"
        return Verdict(exercise=exercise, points=0.0, max_points=0.0, sentence=sentence, hint=hint)


@contextmanager
def _told_if_slow() -> Iterator[None]:
    """In a work folder, say after some seconds that the body still runs."""
    # To the stream of now: the answer is called with another one.
    tell = partial(print, "Measuring …", file=sys.stdout, flush=True)
    timer = threading.Timer(SLOW_SECONDS, tell)
    timer.daemon = True
    if progress_file.find():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _remember(exercise: str, answer: object, points: float) -> None:
    """Keep points and source in the work folder, unless the answer is a trial by another name."""
    if getattr(answer, "__name__", "") != catalogue.exercise(exercise).function:
        return
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    has_failed = points < catalogue.exercise(exercise).points
    entry = {
        "points": points,
        "source": _source(answer),
        "checked": now,
        "failed_tries": progress_file.failed_tries(exercise) + 1 if has_failed else 0,
    }
    progress_file.remember("exercises", exercise, entry)


def _source(answer: object) -> str:
    try:
        return inspect.getsource(answer)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
