"""Answers in code that are the course's own word for word, but for comments and layout.

They are named, never judged. Everybody may read what the package teaches of an exercise; whoever
has the model answer has seen the staff's notebook, or writes as the course does.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution
from autograder.checking.lookup import check_of
from autograder.grading.result import SubmissionResult
from autograder.grading.same_code import Program, program_of, statements_of

MODEL_ANSWER, PACKAGE = "the model answer", "the course's package"
MIN_STATEMENTS = 3  # beside those that the notebook gives; fewer may be the same by chance

Copies = Mapping[str, Mapping[str, Sequence[str]]]  # students by exercise and by what they have


def course_copies(root: Path, unit: str, results: Iterable[SubmissionResult]) -> Copies:
    """Who has the course's own code, of the exercises for which somebody has.

    Args:
        root: The folder of the course.
        unit: The unit's folder name.
        results: The results of a class.
    """
    release, solved = (_read(root / place / unit) for place in ("notebooks", "solutions"))
    given = {each for cell in _code(release) for each in statements_of(program_of(cell.source))}
    found: dict[str, dict[str, list[str]]] = {}
    written = [(each.student, each.answers) for each in results]
    for cell in filter(is_solution, _code(solved)):
        exercise = cell_key(cell)
        originals = dict(_originals(exercise, cell.source, given))
        for student, answers in written:
            if name := originals.get(program_of(answers.get(exercise, ""))):
                found.setdefault(exercise, {}).setdefault(name, []).append(student)
    return found


def _originals(
    exercise: str, model_answer: str, given: set[Program]
) -> Iterator[tuple[Program, str]]:
    """What the course itself has written for an exercise, where it is long enough to compare."""
    check = check_of(exercise)
    sources = {PACKAGE: inspect.getsource(check.reference())} if check.fallback else {}
    for name, source in (sources | {MODEL_ANSWER: model_answer}).items():
        if len({*statements_of(program_of(source))} - given) >= MIN_STATEMENTS:
            yield program_of(source), name


def _read(folder: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(folder / f"{folder.name}.ipynb", as_version=4)
    return notebook


def _code(notebook: NotebookNode) -> Iterator[NotebookNode]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")
