"""Remarks on a submission, for a person to look at; none of them decides a point."""

import re
import signal
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from autograder import catalogue
from autograder.cells import cell_key, is_solution
from autograder.checking.error_hints import A_PERSON
from autograder.checking.lookup import check_of
from autograder.checking.verdict import Verdict
from autograder.grading.intake.wording import shown
from autograder.grading.sandbox import audit_hook
from autograder.grading.sandbox.ipython_shell import STOPPED

# Names that no exercise needs and that look into other code, memory or the grader.
UNUSUAL = re.compile(
    r"""
    \b( signal\.\w+ | ctypes | gc\.get_\w+ | marshal | mmap | multiprocessing | pickle | socket
       | subprocess | importlib | builtins | threading | faulthandler | get_ipython
       | sys\.(_\w+|modules|meta_path|path|set\w+|excepthook)
       | os\.(?!path\b|cpu_count\b|getcwd\b|sep\b)\w+
       | inspect\.(stack|currentframe|trace|getsource\w*|getmembers\w*)
       | __(import|code|globals|closure|builtins|subclasses|bases|mro|loader|spec|wrapped)__
       | (f|tb|gi|cr|ag)_(frame|locals|globals|back|code)
       | __array_interface__ | as_strided | _construct_storage\w* | from_blob | load_library
       | torch\._C | flop_counter | grading_seed | gradebook
       | course_utils\.(formulas|reference) | autograder\.\w+
       ) \b
    | (?<![.\w]) (exec|eval|compile|globals|setattr|delattr) (?=\s*\()
    | (?<![.\w]) getattr (?=\s*\([^,()]+,\s*[^"'\s])
    | \.num_calls\b
    """,
    re.VERBOSE,
)
ALARMS = {  # by the exit code of the student process
    audit_hook.EXIT_CODE: "reaches for Python's own frames, memory or objects",
    -signal.SIGSYS: "reaches for what the sandbox talks through",
}


def on_unusual_code(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each of the student's cells that uses something unusual."""
    given = {cell_key(cell): cell.source for cell in release.cells}
    for cell in notebook.cells:
        if cell.cell_type != "code" or (not is_solution(cell) and cell_key(cell) in given):
            continue
        allowed = {*_unusual_names(given.get(cell_key(cell), "")), *_allowed_names(cell_key(cell))}
        if found := sorted(set(_unusual_names(cell.source)) - allowed):
            yield f"{_label(cell)} uses {', '.join(found)}, which no exercise needs."


def on_stopped_cells(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each of the student's cells that ran out of time."""
    given = {cell_key(cell) for cell in release.cells if not is_solution(cell)}
    for cell in notebook.cells:
        if cell.cell_type != "code" or cell_key(cell) in given:
            continue
        if any(each.get("traceback") == [STOPPED] for each in cell.outputs):
            yield f"{_label(cell)} does not come to an end and was stopped."


def for_a_person(verdicts: Iterable[Verdict], exit_codes: Iterable[int]) -> Iterator[str]:
    """One sentence for each answer that a person has to judge, and for each alarm."""
    for verdict in verdicts:
        if A_PERSON in verdict.sentence:
            yield f"{verdict.exercise}: {verdict.sentence}"
    for code, what in ALARMS.items():
        if code in exit_codes:
            yield f"Its code {what}, which ended its process."


def _allowed_names(exercise: str) -> list[str]:
    """Unusual names that an exercise allows."""
    known = {item.id for unit in catalogue.units() for item in unit.exercises if not item.manual}
    return _unusual_names(" ".join(check_of(exercise).allowed_names)) if exercise in known else []


def _label(cell: NotebookNode) -> str:
    """How a reader finds a cell: by its exercise, or by the first line of an added cell."""
    lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
    return cell_key(cell) if is_solution(cell) else f"An added cell ({shown(lines[0])})"


def _unusual_names(source: str) -> list[str]:
    return [found[0] for found in UNUSUAL.finditer(source)]
