"""Remarks on a submission, for a person to look at; none of them decides a point."""

from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution
from autograder.checking.verdict import Verdict
from autograder.grading.intake.wording import shown
from autograder.grading.sandbox.ipython_shell import STOPPED

OUT_OF_TIME = ("Stopped after ", "it did not come back within ")  # in the sentence of a verdict


def on_stopped_cells(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each of the student's cells that ran out of time."""
    for cell in _students_cells(notebook, release):
        if any(each.get("traceback") == [STOPPED] for each in cell.outputs):
            yield f"{_label(cell)} does not come to an end and was stopped."


def on_stopped_answers(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """One sentence for each answer that ran out of time when a check called it."""
    for verdict in verdicts:
        if any(words in verdict.sentence for words in OUT_OF_TIME):
            yield (
                f"{verdict.exercise} does not come to an end when it is called, and was stopped."
            )


def _students_cells(notebook: NotebookNode, release: NotebookNode) -> Iterator[NotebookNode]:
    """The solution cells, and the code cells that the student added."""
    given = {cell_key(cell) for cell in release.cells if not is_solution(cell)}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell_key(cell) not in given:
            yield cell


def _label(cell: NotebookNode) -> str:
    """How a reader finds a cell: by its exercise, or by the first line of an added cell."""
    lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
    return cell_key(cell) if is_solution(cell) else f"An added cell ({shown(''.join(lines[:1]))})"
