"""A check has three pure pieces: `cases`, `observe` and `judge`.

`cases` and `judge` run where the student's code cannot reach them; `observe` runs beside it. Only
plain data crosses between them, so the same check serves the notebook, nbgrader and a grader that
keeps the student's code in another process.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from autograder.checking import borrowed_code, bounded_call
from autograder.checking.case_objects import arguments, in_words
from autograder.checking.plain_data import Plain, describe
from autograder.checking.scoring import AnswerResult, JudgedCase
from autograder.checking.single_thread import one_thread
from autograder.checking.verdict import CaseResult

Case = dict[str, Plain]
"""Named sizes, in the order of the student's arguments."""


def key_of(case: Case) -> tuple[Any, ...]:
    """The values of a case as a hashable key."""
    return tuple(tuple(each) if type(each) is list else each for each in case.values())


def call(answer: Any, case: Case) -> object:
    """Call the student's function with the sizes of a case: `observe` of every formula."""
    return answer(*arguments(case).values())


@dataclass(frozen=True, kw_only=True)
class Check:
    """How one exercise is judged.

    Attributes:
        cases: Maps a seed to at least twenty cases, smallest first; for every seed, each named
            feature occurs among them.
        judge: Maps a case and what `observe` returned to the result of the case.
        reference: The course's own answer, for cells that need a working one.
        observe: Uses the student's object and returns plain data.
        not_from: Modules outside the course that already hold the answer.
        may_use: Names of the course that hold no answer to this exercise.
        observe_runs_reference: Whether `observe` runs the reference beside the student's object, so
            that the sandbox cannot remove it.
    """

    cases: Callable[[int], list[Case]]
    judge: Callable[[Case, Plain], CaseResult]
    reference: Callable[..., Any]
    observe: Callable[[Any, Case], object] = call
    not_from: tuple[str, ...] = ()
    may_use: tuple[str, ...] = ()
    observe_runs_reference: bool = False


Observer = Callable[[Case], dict[str, Plain]]
"""Maps a case to what `observe_within_limits` returns, wherever the call is made."""


@one_thread()
def score_answer(
    check: Check,
    answer: object,
    seeds: Iterable[int],
    limit_seconds: float = bounded_call.LIMIT_SECONDS,
) -> AnswerResult:
    """Run an answer in this process on all cases of some seeds, and judge it."""
    if trouble := find_objection(check, answer):
        return AnswerResult(trouble=trouble)
    cases = [case for seed in seeds for case in check.cases(seed)]
    return score_cases(
        check,
        cases,
        lambda case: bounded_call.observe_within_limits(check.observe, answer, case, limit_seconds),
    )


def find_objection(check: Check, answer: object) -> dict[str, Plain] | None:
    """Reject an answer before calling it: it is no function, or borrows the course's own."""
    if not callable(answer):
        return {"trouble": "no function", "what": describe(answer)}
    if name := borrowed_code.find_borrowed(
        answer, (*borrowed_code.ANSWERS, *check.not_from), check.may_use
    ):
        return {"trouble": "borrowed", "name": name}
    return None


def score_cases(check: Check, cases: Iterable[Case], observe: Observer) -> AnswerResult:
    """Observe and judge every case; stop at the first that raises or does not return."""
    judged: list[JudgedCase] = []
    for case in cases:
        observed = observe(case)
        if "trouble" in observed:
            return AnswerResult(trouble=observed, sizes=in_words(case))
        value = observed["value"]
        judged.append(JudgedCase(in_words(case), value, check.judge(case, value)))
    return AnswerResult(cases=tuple(judged))
