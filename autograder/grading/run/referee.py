"""Judge one submission: send cases to the sandbox, and judge the observations that come back.

The cells run first alone, for their outputs, then with the questions between them, in one process
for each group of exercises that need the same of the course. So no output holds what an answer has
seen of the hidden cases, and no answer has what the course's cells or other exercises may use.
"""

import contextlib
import itertools
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from nbformat import NotebookNode

from autograder.checking import error_hints
from autograder.checking.answer_result import AnswerResult
from autograder.checking.exercise_check import Case
from autograder.checking.hidden_cases import hidden_cases
from autograder.checking.lookup import check_of
from autograder.checking.plain_data import Plain
from autograder.checking.scoring import score_cases
from autograder.checking.single_thread import one_thread
from autograder.checking.verdict import Verdict
from autograder.grading.errors import GradingError
from autograder.grading.run import measurement_cache
from autograder.grading.run.notebook_plan import Question, RunCell, steps
from autograder.grading.run.session import Session
from autograder.grading.sandbox import kept_code
from autograder.grading.sandbox.client import GoneError
from autograder.grading.sandbox.kept_code import Fork
from autograder.grading.shown import outputs

Seeds = tuple[int, ...]
Steps = Sequence[RunCell | Question]

OF_REFEREE = ("gone", "not judged")  # kinds of trouble that no process reports of itself

_preparing = threading.Lock()


def grade_notebook(
    session: Session,
    notebook: NotebookNode,
    release: NotebookNode,
    seeds: Seeds,
    known: Mapping[str, Verdict],
) -> list[Verdict]:
    """Put outputs and verdicts into a notebook, and return the verdicts.

    Args:
        session: The sandbox for this submission.
        notebook: The release with the student's cells; its code cells get their outputs here.
        release: The notebook as students got it.
        seeds: Seeds of the hidden cases.
        known: Verdicts that still hold, by exercise; these answers are not observed again.
    """
    planned = steps(notebook, release)
    try:
        ended = _run_for_outputs(session, notebook, planned)
        found: dict[str, Verdict] = {}
        for fork in _forks(planned):
            if to_judge := _to_judge(planned, ended, {*fork.exercises} - known.keys()):
                session.begin_anew(fork)
                found |= _judged(session, to_judge, seeds)
    finally:
        session.end()
    asked = [step for step in planned if isinstance(step, Question)]
    verdicts = [found.get(each.exercise) or known[each.exercise] for each in asked]
    for question, verdict in zip(asked, verdicts, strict=True):
        notebook.cells[question.position].outputs = outputs.of_verdict(verdict)
    return verdicts


def _forks(planned: Steps) -> Iterator[Fork]:
    """The processes of the units of all questions, which is one unit."""
    units = {each.exercise.partition("-")[0] for each in planned if isinstance(each, Question)}
    return itertools.chain(*map(kept_code.forks_of, units))


def _judged(session: Session, steps: Steps, seeds: Seeds) -> dict[str, Verdict]:
    found = {}
    for step in steps:
        if isinstance(step, RunCell):
            with contextlib.suppress(GoneError):
                session.run(step.source)
        else:
            found[step.exercise] = judge_answer(session, step, seeds)
    return found


def _run_for_outputs(session: Session, notebook: NotebookNode, planned: Steps) -> set[int]:
    """Give the cells their outputs; the positions of those that ended their process."""
    space, ended = outputs.Space(), set()
    for step in planned:
        if isinstance(step, RunCell):
            try:
                reply = session.run(step.source)
                shown = outputs.sanitized(reply.get("outputs") if type(reply) is dict else None)
            except GoneError as gone:
                shown = outputs.of_stopped_cell(str(gone))
                ended.add(step.position)
            notebook.cells[step.position].outputs = space.fitting(shown)
    return ended


def _to_judge(planned: Steps, ended: set[int], exercises: Collection[str]) -> Steps:
    """The questions about some exercises, and the cells before the last one that came back."""
    kept = [
        each
        for each in planned
        if (each.position not in ended if isinstance(each, RunCell) else each.exercise in exercises)
    ]
    while kept and isinstance(kept[-1], RunCell):
        kept.pop()
    return kept


@one_thread()
def judge_answer(session: Session, question: Question, seeds: Seeds) -> Verdict:
    """The verdict on one answer; if the check itself fails, a person has to judge it."""
    try:
        return _verdict(question, _answer_result(session, question, seeds))
    except Exception as error:
        trouble: dict[str, Plain] = {"trouble": "not judged", "error": type(error).__name__}
        return _verdict(question, AnswerResult(trouble=trouble))


def not_judged(question: Question) -> Verdict:
    """No points for an answer that could not be graded, whatever it is worth."""
    sentence = "Not judged: this notebook could not be graded. A person will look at it."
    return Verdict(
        exercise=question.exercise,
        points=0.0,
        max_points=question.points,
        sentence=sentence,
        written=False,
        hidden=True,
        judged=False,
    )


def prepare(exercise: str, seeds: Seeds) -> None:
    """Generate and measure the hidden cases of an exercise.

    Raises:
        GradingError: If its check fails to.
    """
    try:
        with _preparing:
            cases_of(exercise, seeds)
    except Exception as error:
        raise GradingError(
            f"The check of {exercise} cannot make its cases ({type(error).__name__}: {error}). "
            "Fix it and run this again; no answer was judged by it."
        ) from None


@cache
@one_thread()
def cases_of(exercise: str, seeds: Seeds) -> list[Case]:
    """The hidden cases of an exercise, measured; the same for every submission."""
    check = check_of(exercise)
    cases = [case for seed in seeds for case in hidden_cases(check, seed)]
    measurement_cache.measure(check, exercise, cases)
    return cases


def _verdict(question: Question, result: AnswerResult) -> Verdict:
    return result.verdict(question.exercise, question.points, tell_all=False)


def _answer_result(session: Session, question: Question, seeds: Seeds) -> AnswerResult:
    about: dict[str, Plain] = {"exercise": question.exercise, "name": question.name}

    def observe(case: Case, **how: Plain) -> dict[str, Plain]:
        return _observation(session.ask(about | {"do": "observe", "case": case} | how))

    def observe_alone(case: Case) -> dict[str, Plain]:
        return observe(case, alone=True)

    try:
        first = _observation(session.ask(about | {"do": "object"}))
        if "trouble" in first:
            return AnswerResult(trouble=first)
        check, cases = check_of(question.exercise), cases_of(question.exercise, seeds)
        return score_cases(check, cases, observe, observe_alone)
    except GoneError as gone:
        return AnswerResult(trouble={"trouble": "gone", "how": str(gone)})


def _observation(reply: Plain) -> dict[str, Plain]:
    """The observation in a reply of the sandbox, which may be anything."""
    value = reply if type(reply) is dict else {}
    if value.get("trouble") in OF_REFEREE:  # a person is asked by nobody but the referee
        value = {}
    if error_hints.is_trouble(value) or ("value" in value and "trouble" not in value):
        return value
    return {"trouble": "gone", "how": "no observation came back"}
