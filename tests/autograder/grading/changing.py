"""A unit that changes: its forms in a small course, as a teacher builds them, and who hands in."""

import json
import sqlite3
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder.authoring.release import release
from autograder.cells import cell_key, nbgrader_metadata
from autograder.checking.error_hints import A_PERSON
from autograder.checking.verdict import Verdict
from autograder.grading.run import submission
from autograder.grading.run.notebook_plan import questions
from autograder.grading.run.run import Run
from autograder.grading.shown import outputs
from tests.autograder.grading.course_folder import put_submission
from tests.autograder.grading.small import UNIT, InThisProcess, Small
from tests.notebooks.filling import ROOT, solved

CELLS = """
select type, b.name, coalesce(g.max_score, ''), coalesce(g.cell_type, s.cell_type, ''),
    coalesce(s.locked, ''), coalesce(s.source, ''), coalesce(s.checksum, '')
from base_cell b left join grade_cells g on g.id = b.id left join source_cell s on s.id = b.id
order by 1, 2
"""
BESIDE = "select kind, unit, student, name, content from course_beside_grades order by 1, 2, 3, 4"


class ByText(InThisProcess):
    """Grades as a process does, but judges by the text: a model answer is right, all else wrong.

    So many gradings take seconds, and no sandbox.
    """

    def __init__(self, broken: str):
        """Take an exercise whose check fails by itself; it may be none."""
        self.broken = broken

    def submit(self, given: submission.Submission) -> Future:
        future = Future()
        future.set_result(submission._judge(given, self))
        return future

    def grade_notebook(self, session, notebook, release, *_) -> list[Verdict]:
        texts, stubs = ({cell_key(c): c.source for c in n.cells} for n in (notebook, release))
        verdicts = []
        for each in questions(notebook):
            name, text = each.exercise, texts[each.exercise]
            is_written, is_right = text != stubs[name], text == solved(UNIT)[name]
            is_broken = name == self.broken and is_written
            sentence = f"Not judged. {A_PERSON}" if is_broken else "Some cases are wrong."
            verdict = Verdict(
                exercise=name,
                points=each.points * (is_right and not is_broken),
                max_points=each.points,
                sentence=sentence,
                written=is_written,
                judged=not is_broken,
            )
            verdicts.append(verdict)
            notebook.cells[each.position].outputs = outputs.of_verdict(verdict)
        return verdicts


def judge_by_text(patch, broken: str = "") -> None:
    """Let runs grade by the text."""
    pool = ByText(broken)
    patch.setattr(Run, "_pool", lambda _: pool)
    patch.setattr(submission.referee, "grade_notebook", pool.grade_notebook)
    patch.setattr(submission, "Session", lambda *_: SimpleNamespace(cpu_seconds=0.0))


@pytest.fixture(scope="module")
def whole() -> NotebookNode:
    """The unit as the instructor has it."""
    return nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)


def opened(course: Small) -> Gradebook:
    return Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "efficient_llm_training")


def cells(course: Small) -> list[tuple]:
    """All that the gradebook knows of the unit's cells."""
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book:
        return book.execute(CELLS).fetchall()


def beside(course: Small) -> list[tuple]:
    """All that stands beside the grades: which release counts, what is set aside."""
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book:
        return book.execute(BESIDE).fetchall()


def place_of(course: Small, folder: str) -> Path:
    return course.root / folder / UNIT / f"{UNIT}.ipynb"


def put(course: Small, instructor: NotebookNode, **checks: str) -> None:
    """A form of the unit, as `make build` leaves it; checks by exercise, with `_` for `-`."""
    path = place_of(course, "solutions")
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(instructor, path)
    nbformat.write(release(instructor, ROOT), place_of(course, "notebooks"))
    recorded = json.loads((ROOT / "solutions" / "practice.json").read_text())
    recorded |= {name.replace("_", "-"): [each] for name, each in checks.items()}
    (course.root / "solutions" / "practice.json").write_text(json.dumps(recorded))


def without(notebook: NotebookNode, exercise: str) -> NotebookNode:
    left = [cell for cell in notebook.cells if not cell_key(cell).startswith(exercise)]
    assert len(left) == len(notebook.cells) - 2
    return nbformat.from_dict(notebook | {"cells": left})


def with_points(notebook: NotebookNode, exercise: str, points: float) -> NotebookNode:
    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        metadata = nbgrader_metadata(cell)
        if metadata.get("grade") and cell_key(cell) in (exercise, f"{exercise}-test"):
            metadata["points"] = points
    return copy


def with_text(notebook: NotebookNode, old: str, new: str) -> NotebookNode:
    copy = nbformat.from_dict(notebook)
    changed = [cell for cell in copy.cells if old in cell.source]
    for cell in changed:
        cell.source = cell.source.replace(old, new)
        if not nbgrader_metadata(cell):
            cell.id = f"{cell.id}-x"  # the build names such a cell by its text
    assert changed
    return copy


def hand_in(course: Small, student: str, answers: dict[str, str], added: str = "") -> None:
    """Answers in the notebook that students have now, and a cell of one's own."""
    notebook = nbformat.read(place_of(course, "notebooks"), as_version=4)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    if added:
        notebook.cells.insert(8, nbformat.v4.new_code_cell(added))
    put_submission(course.root, student, UNIT, notebook)


def scores(course: Small, student: str) -> dict[str, float | None]:
    with opened(course) as book:
        notebook = book.find_submission_notebook(UNIT, UNIT, student)
        return {grade.name.removesuffix("-test"): grade.score for grade in notebook.grades}


def give(course: Small, student: str, cell: str, points: float) -> None:
    """What a person gives in formgrader."""
    with opened(course) as book:
        grades = book.find_submission_notebook(UNIT, UNIT, student).grades
        grade = next(each for each in grades if each.name == cell)
        grade.manual_score, grade.needs_manual_grade = points, False
        book.db.commit()


def waiting(course: Small) -> set[tuple[str, str]]:
    """Scores that a person has to give or to look at again."""
    with opened(course) as book:
        found = book.find_assignment(UNIT).submissions
        grades = [grade for each in found for grade in each.notebooks[0].grades]
        return {(each.student.id, each.name) for each in grades if each.needs_manual_grade}
