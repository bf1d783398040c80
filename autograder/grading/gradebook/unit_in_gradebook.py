"""The cells of a unit in the gradebook: how they differ from the release, and how it learns them.

`nbgrader generate_assignment` refuses a unit with submissions as soon as a cell comes or goes, and
deletes its release. Here the grades of all cells that stay are kept; those of cells that go are set
aside, and come back with them.
"""

import json
from collections.abc import Collection, Iterator
from copy import deepcopy

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Comment, Grade, Gradebook, MissingEntry, Notebook
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
)
from traitlets.config import Config

from autograder.cells import cell_key, nbgrader_metadata
from autograder.grading.gradebook import course_table
from autograder.grading.intake.wording import listed
from autograder.grading.release.difference import exercise_of

HIDDEN_TESTS = "### BEGIN HIDDEN TESTS"
BEFORE_SAVING = (LockCells, ClearSolutions, ClearOutput, CheckCellMetadata, ComputeChecksums)
MARKS = ("grade", "solution", "locked")


def knows(book: Gradebook, unit: str) -> bool:
    """Whether the gradebook has learned a unit."""
    try:
        book.find_notebook(unit, unit)
    except MissingEntry:
        return False
    return True


def changes(book: Gradebook, unit: str, release: NotebookNode) -> str:
    """What differs in texts and points between the gradebook and a release, by exercise."""
    notebook = book.find_notebook(unit, unit)
    known = {cell.name: _without_hidden_tests(cell.source or "") for cell in notebook.source_cells}
    known_points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    texts = {cell_key(cell): cell.source.rstrip() for cell in _marked(release)}
    locked = {cell_key(cell) for cell in _marked(release) if nbgrader_metadata(cell).get("locked")}
    points = _points(release)
    kinds = {
        "new": texts.keys() - known.keys(),
        "gone": known.keys() - texts.keys(),
        "changed": {
            name
            for name in texts.keys() & known.keys()
            if (name in locked and texts[name] != known[name])
            or points.get(name) != known_points.get(name)
        },
    }
    named = {kind: sorted(set(map(exercise_of, cells))) for kind, cells in kinds.items()}
    return "; ".join(f"{kind}: {listed(names)}" for kind, names in named.items() if names)


def learn(book: Gradebook, unit: str, instructor: NotebookNode, config: Config) -> None:
    """Make the cells of a unit in the gradebook those of the instructor's notebook.

    Grades and comments on cells that stay are kept; those on cells that go are set aside.
    """
    notebook, resources = deepcopy(instructor), ResourcesDict()
    for step in BEFORE_SAVING:
        notebook, resources = step(config=config).preprocess(notebook, resources)
    book.update_or_create_assignment(unit)
    kernel = json.dumps(notebook.metadata.get("kernelspec", {}))
    known = book.update_or_create_notebook(unit, unit, kernelspec=kernel)
    _forget_all_but(book, known, {cell_key(cell) for cell in _marked(notebook)})
    for cell in _marked(notebook):
        _learn_cell(book, unit, cell)
    book.db.flush()
    book.db.refresh(known)
    _complete_submissions(book, known)


def _learn_cell(book: Gradebook, unit: str, cell: NotebookNode) -> None:
    place, marks = (cell_key(cell), unit, unit), nbgrader_metadata(cell)
    if marks.get("grade"):
        points = float(marks["points"])
        book.update_or_create_grade_cell(*place, max_score=points, cell_type=cell.cell_type)
    if marks.get("solution"):
        book.update_or_create_solution_cell(*place)
    book.update_or_create_source_cell(
        *place,
        cell_type=cell.cell_type,
        locked=bool(marks.get("locked")),
        source=cell.source,
        checksum=marks.get("checksum"),
    )


def _forget_all_but(book: Gradebook, notebook: Notebook, names: Collection[str]) -> None:
    for cell in (*notebook.grade_cells, *notebook.solution_cells):
        if cell.name not in names:
            for row in (*cell.grades, *cell.comments):
                course_table.set_aside(book, row)
                book.db.delete(row)
            book.db.delete(cell)
    for cell in notebook.source_cells:
        if cell.name not in names:
            book.db.delete(cell)


def _complete_submissions(book: Gradebook, notebook: Notebook) -> None:
    """Give every submission a grade and a comment for each new cell, as nbgrader does at first."""
    for submitted in notebook.submissions:
        graded = {grade.cell_id for grade in submitted.grades}
        commented = {comment.cell_id for comment in submitted.comments}
        for cell in notebook.grade_cells:
            if cell.id not in graded:
                grade = Grade(cell_id=cell.id, notebook=submitted)
                book.db.add(grade)
                course_table.bring_back(book, grade, submitted, cell.name)
        for cell in notebook.solution_cells:
            if cell.id not in commented:
                comment = Comment(cell_id=cell.id, notebook=submitted)
                book.db.add(comment)
                course_table.bring_back(book, comment, submitted, cell.name)


def _marked(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """The cells that nbgrader keeps in its gradebook."""
    return (c for c in notebook.cells if any(nbgrader_metadata(c).get(mark) for mark in MARKS))


def _points(release: NotebookNode) -> dict[str, float]:
    graded = (cell for cell in release.cells if nbgrader_metadata(cell).get("grade"))
    return {cell_key(cell): float(nbgrader_metadata(cell)["points"]) for cell in graded}


def _without_hidden_tests(text: str) -> str:
    return text.split(HIDDEN_TESTS, maxsplit=1)[0].rstrip()
