"""Preprocessors for nbgrader's pages: formgrader, and the feedback that students get.

`nbgrader_config.py` names both; they change what is shown, and no file.
"""

from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor, Preprocessor
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import GetGrades
from traitlets import Bool

from autograder import catalogue
from autograder.cells import cell_key, is_solution, nbgrader_metadata

Shown = tuple[NotebookNode, dict[str, Any]]

EXERCISES = catalogue.by_graded_cell()


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


class Overview(Preprocessor):
    """The first cell of a student's feedback: each exercise by its title, with its points."""

    enabled = Bool(True).tag(config=True)

    def preprocess(self, notebook: NotebookNode, resources: dict[str, Any]) -> Shown:
        """Insert it."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as book:
            found = book.find_submission_notebook(
                about["notebook"], about["assignment"], about["student"]
            )
            grades = {grade.name: grade for grade in found.grades}
            names = [
                cell_key(cell)
                for cell in notebook.cells
                if cell_key(cell) in grades.keys() & EXERCISES
            ]
            rows = [f"| [{EXERCISES[n].title}](#{n}) | {_points(n, grades[n])} |" for n in names]
        text = "\n".join(["| your exercises | points |", "|---|---|", *rows])
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text))
        return notebook, resources


OF_FEEDBACK = [GetGrades, CSSHTMLHeaderPreprocessor, Overview]


def _points(name: str, grade: Any) -> str:
    if grade.needs_manual_grade and grade.manual_score is None:
        return "a person has yet to read it"
    extra = ", extra" if EXERCISES[name].extra else ""
    return f"{grade.score:g} of {grade.max_score:g}{extra}"


def _folded(title: str, text: str) -> NotebookNode:
    source = f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
    cell: NotebookNode = nbformat.v4.new_markdown_cell(source)
    return cell
