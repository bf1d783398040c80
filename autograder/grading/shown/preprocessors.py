"""Preprocessors for nbgrader's pages: formgrader, and the feedback that students get.

`nbgrader_config.py` names both; they change what is shown, and no file.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor, Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Grade, Gradebook
from nbgrader.preprocessors import GetGrades
from traitlets import Bool

from autograder import catalogue
from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.grading.result import REMARKS_CELL
from autograder.grading.shown import outputs
from autograder.student_notebook import is_added

Shown = tuple[NotebookNode, dict[str, Any]]

EXERCISES = catalogue.by_graded_cell()
STYLE = Path(__file__).with_name("feedback.css").read_text(encoding="utf-8")


class ModelAnswers(Preprocessor):
    """Inserts, in formgrader alone, the model answer after each text."""

    def preprocess(self, notebook: NotebookNode, resources: dict[str, Any]) -> Shown:
        """Insert them."""
        is_formgrader = "submission_id" in resources
        answers = self._answers(resources["notebook_id"]) if is_formgrader else {}
        cells = []
        for cell in notebook.cells:
            cells.append(cell)
            if nbgrader_metadata(cell).get("grade") and cell_key(cell) in answers:
                cells.append(_folded("Model answer and rubric", answers[cell_key(cell)]))
        notebook.cells = cells
        return notebook, resources

    def _answers(self, unit: str) -> dict[str, str]:
        """The course's own text answers, if its solved notebook is there."""
        course = self.config.CourseDirectory
        path = Path(course.root, course.source_directory, unit, f"{unit}.ipynb")
        cells = nbformat.read(path, as_version=4).cells if path.exists() else []
        return {
            cell_key(c): c.source for c in cells if c.cell_type == "markdown" and is_solution(c)
        }


class OnlyKnownCells(Preprocessor):
    """Takes the marks of cells that the gradebook does not know.

    A notebook that was graded before its unit was released anew may have exercises that the
    gradebook has no more; nbgrader would end without a page.
    """

    enabled = Bool(True).tag(config=True)

    def preprocess(self, notebook: NotebookNode, resources: dict[str, Any]) -> Shown:
        """Take them."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as book:
            known = book.find_notebook(about["notebook"], about["assignment"])
            names = {cell.name for cell in (*known.grade_cells, *known.solution_cells)}
        for cell in notebook.cells:
            is_graded = nbgrader_metadata(cell).get("grade") or is_solution(cell)
            if is_graded and cell_key(cell) not in names:
                del cell.metadata["nbgrader"]
        return notebook, resources


class Overview(Preprocessor):
    """A student's feedback: points by exercise with what went wrong, then only their own cells."""

    enabled = Bool(True).tag(config=True)

    def preprocess(self, notebook: NotebookNode, resources: dict[str, Any]) -> Shown:
        """Begin with the table, and leave out what the course gave."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as book:
            place = (about["notebook"], about["assignment"], about["student"])
            found = book.find_submission_notebook(*place)
            grades = {grade.name: grade for grade in found.grades if grade.name in EXERCISES}
            said = {comment.name: comment.manual_comment or "" for comment in found.comments}
            rows = [*_rows(notebook, grades, said), *_sums(grades.values())]
        if about.get("late_penalty"):
            rows.append(f"| Handed in late | −{about['late_penalty']:g} | |")
        core = (grade for name, grade in grades.items() if not EXERCISES[name].extra)
        about["max_score"] = sum(grade.max_score for grade in core)  # extra ones are a bonus
        total = f"| **All** | **{about['score']:g} of {about['max_score']:g}** | |"
        table = ["| your exercises | points | what went wrong |", "|---|---|---|", *rows, total]
        notebook.cells = [new_markdown_cell("\n".join(table)), *_students_part(notebook)]
        resources["inlining"]["css"].append(STYLE)
        return notebook, resources


OF_FEEDBACK = [OnlyKnownCells, GetGrades, CSSHTMLHeaderPreprocessor, Overview]


def _rows(
    notebook: NotebookNode, grades: Mapping[str, Grade], said: Mapping[str, str]
) -> Iterator[str]:
    """A row for each exercise, with what a person and the check say of it."""
    for cell in notebook.cells:
        name = cell_key(cell)
        if name in grades:
            item, grade = EXERCISES[name], grades[name]
            why = [_in_a_row(said.get(item.id, ""))]
            if grade.manual_score is None or grade.score < grade.max_score:
                why.append(_in_a_row(outputs.told_by(cell)))
            told = "<br>The check: ".join(why) if all(why) else "".join(why)
            yield f"| [{item.title}](#{name}) | {_points(name, grade)} | {told} |"


def _sums(grades: Collection[Grade]) -> Iterator[str]:
    """A row for the core exercises and one for the extra ones, with what still waits."""
    for title, is_extra in (("Core exercises", False), ("Extra exercises", True)):
        if part := [each for each in grades if EXERCISES[each.name].extra == is_extra]:
            points = f"{sum(e.score for e in part):g} of {sum(e.max_score for e in part):g}"
            unread = sum(map(_is_unread, part))
            who = "1 answer waits" if unread == 1 else f"{unread} answers wait"
            waits = f"{who} for a person; these are the points so far" if unread else ""
            yield f"| **{title}** | **{points}** | {waits} |"


def _in_a_row(text: str) -> str:
    """Markdown in one line, for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _students_part(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Answers under their titles, verdicts, cells of the student's own, and remarks."""
    titles = {item.id: item.title for item in EXERCISES.values()}
    for cell in notebook.cells:
        if is_solution(cell) and cell_key(cell) in titles:
            yield new_markdown_cell(f"### {titles[cell_key(cell)]}")
        is_graded = nbgrader_metadata(cell).get("grade")
        if is_solution(cell) or is_graded or is_added(cell) or cell.id == REMARKS_CELL:
            yield cell


def _is_unread(grade: Grade) -> bool:
    return bool(grade.needs_manual_grade) and grade.manual_score is None


def _points(name: str, grade: Grade) -> str:
    if _is_unread(grade):
        return "a person has yet to read it"
    extra = ", extra" if EXERCISES[name].extra else ""
    return f"{grade.score:g} of {grade.max_score:g}{extra}"


def _folded(title: str, text: str) -> NotebookNode:
    source = f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
    cell: NotebookNode = new_markdown_cell(source)
    return cell
