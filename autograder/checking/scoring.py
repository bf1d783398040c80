"""Run an answer on cases and judge what comes back."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from autograder.checking import bounded_call, uses_reference
from autograder.checking.answer_result import AnswerResult
from autograder.checking.call_memory import CallMemory
from autograder.checking.case_objects import case_in_words
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judged_case import JudgedCase, WhenAskedAgain
from autograder.checking.plain_data import Plain, describe
from autograder.checking.single_thread import one_thread
from autograder.checking.time_limit import LIMIT_SECONDS
from autograder.checking.verdict import CaseResult

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
    memory = CallMemory(answer)

    def observe(case: Case) -> dict[str, Plain]:
        return bounded_call.observe_within_limits(check.observe, answer, case, limit_seconds)

    def observe_alone(case: Case) -> dict[str, Plain]:
        with memory.forgotten():
            return observe(case)

    return score_cases(check, cases, observe, observe_alone)


def find_objection(check: Check, answer: object) -> dict[str, Plain] | None:
    """Why an answer is rejected before it is called; None if it is fine.

    It is not a function, or it borrows the course's code.
    """
    if not callable(answer):
        return {"trouble": "no function", "what": describe(answer)}
    if name := uses_reference.find_borrowed(
        answer, (*uses_reference.ANSWERS, *check.forbidden_modules), check.allowed_names
    ):
        return {"trouble": "lent" if name == check.fallback else "borrowed", "name": name}
    return None


def score_cases(
    check: Check,
    cases: Iterable[Case],
    observe: Observer,
    observe_alone: Observer | None = None,
) -> AnswerResult:
    """Observe and judge every case; stop at the first that raises or does not return.

    Args:
        check: The check of the exercise.
        cases: Its cases.
        observe: Calls the answer once more.
        observe_alone: Calls it as if it had never been called: asked of the first case that failed.
    """
    judged: list[JudgedCase] = []

    def asked_again(case: Case, first: CaseResult | None) -> WhenAskedAgain | None:
        if observe_alone is None:
            return None
        with suppress(Exception):  # whatever comes of it, the verdict stands
            again, alone = (_judged(check, case, each(case)) for each in (observe, observe_alone))
            return WhenAskedAgain(first, again, alone)
        return None

    for case in cases:
        observed = observe(case)
        if "trouble" in observed:
            again = asked_again(case, None) if observed["trouble"] == "raised" else None
            return AnswerResult(trouble=observed, sizes=case_in_words(case), again=again)
        judged.append(JudgedCase(case, check.judge(case, observed["value"])))
    failed = next((each for each in judged if not each.result.passed), None)
    again = asked_again(*failed) if failed else None
    return AnswerResult(cases=tuple(judged), judge=check.judge, again=again)


def _judged(check: Check, case: Case, observed: dict[str, Plain]) -> CaseResult | None:
    """The result of a case; None where no value came."""
    return None if "trouble" in observed else check.judge(case, observed["value"])
