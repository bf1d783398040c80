"""Results of graded classes, made from the answer banks."""

import random
from pathlib import Path

from nbgrader.api import Base, Gradebook
from sqlalchemy import create_engine

from autograder import catalogue
from autograder.checking.verdict import Verdict
from autograder.grading.gradebook import course_table
from autograder.grading.result import SubmissionResult
from tests.notebooks.filling import answer_banks_of, clean, released, solved, wrong_answers

NOT_WRITTEN = "Not written yet."


def results_of_a_class(unit: str, num_students: int, seed: int = 0) -> list[SubmissionResult]:
    """Students who give right, wrong and no answers, as the answer banks hold them."""
    chance = random.Random(seed)
    return [_result(unit, f"s{n:03}", chance) for n in range(num_students)]


def _result(unit: str, student: str, chance: random.Random) -> SubmissionResult:
    items = next(each for each in catalogue.units() if each.folder == unit).exercises
    graded = [item for item in items if not item.manual]
    stubs = {cell.id: cell.source for cell in released(unit).cells}
    skill = chance.random()
    answers, verdicts = {}, []
    for item in graded:
        bank = answer_banks_of(unit)[item.id]
        told = {"exercise": item.id, "max_points": item.points, "hidden": True}
        if chance.random() < 0.1 + 0.2 * item.extra:
            answers[item.id] = stubs[item.id]
            verdict = Verdict(**told, points=0.0, sentence=NOT_WRITTEN, written=False)
        elif chance.random() < (0.4 + skill) / item.difficulty:
            answers[item.id] = clean(chance.choice([*bank.right, solved(unit)[item.id]]))
            verdict = Verdict(**told, points=item.points, sentence="All cases are right.")
        else:
            wrongs = wrong_answers(item.id)
            wrong = wrongs[min(len(wrongs) - 1, int(chance.expovariate(0.6)))]
            answers[item.id] = clean(wrong.source)
            sentence = "3 of 20 cases are wrong."
            verdict = Verdict(**told, points=wrong.points, sentence=sentence, hint=wrong.hint)
        verdicts.append(verdict)
    return SubmissionResult(
        unit=unit,
        student=student,
        verdicts=tuple(verdicts),
        answers=answers,
        cpu_seconds=round(chance.uniform(2, 9), 2),
    )


def write_results(root: Path, results: list[SubmissionResult]) -> None:
    """A gradebook that holds these results, and no points."""
    url = f"sqlite:///{root / 'gradebook.db'}"
    Base.metadata.create_all(engine := create_engine(url))
    engine.dispose()
    with Gradebook(url, "course") as book:
        unit = results[0].unit
        book.update_or_create_assignment(unit)
        for each in results:
            book.update_or_create_student(each.student)
            book.update_or_create_submission(unit, each.student)
            course_table.record(book, each, None, {})
        book.db.commit()
