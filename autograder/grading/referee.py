"""Verdicts on one submission: cases go out, observations come in, judges sit here."""

from collections.abc import Mapping
from functools import cache

from nbformat import NotebookNode

from autograder import catalogue
from autograder.checking import error_hints
from autograder.checking.check import Case, call, score_cases
from autograder.checking.notebook_calls import find
from autograder.checking.plain_data import Plain
from autograder.checking.scoring import AnswerResult
from autograder.checking.single_thread import one_thread
from autograder.checking.verdict import Verdict
from autograder.grading import measurement_cache, outputs
from autograder.grading.errors import GradingError
from autograder.grading.plan import Question, steps
from autograder.grading.sandbox.client import GoneError
from autograder.grading.sandbox.framing import Reply
from autograder.grading.session import Session

Seeds = tuple[int, ...]


def verdicts(
    session: Session,
    notebook: NotebookNode,
    release: NotebookNode,
    seeds: Seeds,
    known: Mapping[str, Verdict],
) -> list[Verdict]:
    """Put outputs and verdicts into a notebook, and give the verdicts.

    Args:
        session: The sandbox for this submission.
        notebook: What intake made; its code cells get their outputs here.
        release: The notebook as students got it.
        seeds: Those of the hidden cases.
        known: Verdicts that hold already and are not asked for again.
    """
    found = []
    try:
        for step in steps(notebook, release):
            cell = notebook.cells[step.position]
            if isinstance(step, Question):
                found.append(known.get(step.exercise) or verdict(session, step, seeds))
                cell.outputs = outputs.of_verdict(found[-1])
            else:
                cell.outputs = _run(session, step.source)
    finally:
        session.end()
    return found


@one_thread()
def verdict(session: Session, question: Question, seeds: Seeds) -> Verdict:
    """The verdict on one answer; where none can be reached, there are no points."""
    try:
        examination = _examination(session, question, seeds)
        return _verdict(question.exercise, examination)
    except Exception as error:
        lost: dict[str, Plain] = {"trouble": "not judged", "error": type(error).__name__}
        return _verdict(question.exercise, AnswerResult(trouble=lost))


def not_judged(exercise: str) -> Verdict:
    """No points for an answer that nobody could read, which says nothing about the answer."""
    most = catalogue.exercise(exercise).points
    sentence = "Not judged: this notebook could not be graded. A person will look at it."
    return Verdict(
        exercise=exercise,
        points=0.0,
        max_points=most,
        sentence=sentence,
        written=False,
        hidden=True,
    )


def prepare(exercise: str, seeds: Seeds) -> None:
    """Make and measure the hidden cases of an exercise.

    Raises:
        GradingError: If its check cannot.
    """
    try:
        cases_of(exercise, seeds)
    except Exception as error:
        raise GradingError(
            f"The check of {exercise} cannot make its cases ({type(error).__name__}: {error}). "
            "Mend it and run this again; no answer was judged by it."
        ) from None


@cache
def cases_of(exercise: str, seeds: Seeds) -> list[Case]:
    """The hidden cases of an exercise, measured; the same for every submission."""
    cases = [case for seed in seeds for case in find(exercise).cases(seed)]
    measurement_cache.measure(find(exercise), exercise, cases)
    return cases


def _verdict(exercise: str, examination: AnswerResult) -> Verdict:
    return examination.verdict(exercise, catalogue.exercise(exercise).points, tell_all=False)


def _run(session: Session, source: str) -> list[NotebookNode]:
    try:
        reply = session.run(source)
    except GoneError as gone:
        return outputs.lost(str(gone))
    return outputs.clean(reply.get("outputs") if type(reply) is dict else None)


def _examination(session: Session, question: Question, seeds: Seeds) -> AnswerResult:
    about: dict[str, Plain] = {"exercise": question.exercise, "name": question.name}
    # Of a formula all that counts is what it returns: nothing beside it is observed.
    is_watched = find(question.exercise).observe is not call

    def observe(case: Case) -> dict[str, Plain]:
        return _told(session.ask(about | {"do": "observe", "case": case}, is_watched=is_watched))

    try:
        first = _told(session.ask(about | {"do": "look"}))
        if "trouble" in first:
            return AnswerResult(trouble=first)
        return score_cases(find(question.exercise), cases_of(question.exercise, seeds), observe)
    except GoneError as gone:
        return AnswerResult(trouble={"trouble": "gone", "how": str(gone)})


def _told(reply: Reply) -> dict[str, Plain]:
    """What a sandbox says of an answer, if it has the form of an observation."""
    if reply.broken:
        return {"trouble": "tampered", "what": reply.broken}
    told = reply.value if type(reply.value) is dict else {}
    if told.get("trouble") in error_hints.WORDS or ("value" in told and "trouble" not in told):
        return told
    return {"trouble": "gone", "how": "no observation came back"}
