"""Run an answer on cases and judge what comes back."""

from collections.abc import Callable, Iterable

from autograder.checking import borrowed_code, bounded_call
from autograder.checking.answer_result import AnswerResult, JudgedCase
from autograder.checking.case_objects import case_in_words
from autograder.checking.exercise_check import Case, Check
from autograder.checking.plain_data import Plain, describe
from autograder.checking.single_thread import one_thread
from autograder.checking.time_limit import LIMIT_SECONDS

Observer = Callable[[Case], dict[str, Plain]]
"""Maps a case to what `observe_within_limits` returns, wherever the call is made."""


@one_thread()
def score_answer(
    check: Check,
    answer: object,
    seeds: Iterable[int],
    limit_seconds: float = LIMIT_SECONDS,
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
    """Why an answer is rejected before it is called; None if it is fine.

    It is not a function, or it borrows the course's code.
    """
    if not callable(answer):
        return {"trouble": "no function", "what": describe(answer)}
    if name := borrowed_code.find_borrowed(
        answer, (*borrowed_code.ANSWERS, *check.forbidden_modules), check.allowed_names
    ):
        return {"trouble": "borrowed", "name": name}
    return None


def score_cases(check: Check, cases: Iterable[Case], observe: Observer) -> AnswerResult:
    """Observe and judge every case; stop at the first that raises or does not return."""
    judged: list[JudgedCase] = []
    for case in cases:
        observed = observe(case)
        if "trouble" in observed:
            return AnswerResult(trouble=observed, sizes=case_in_words(case))
        value = observed["value"]
        judged.append(JudgedCase(case_in_words(case), value, check.judge(case, value)))
    return AnswerResult(cases=tuple(judged))
