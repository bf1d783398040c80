"""What should a person look at? Nothing here decides a point."""

import re
import signal
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from autograder import catalogue
from autograder.checking.error_hints import A_PERSON
from autograder.checking.notebook_calls import find
from autograder.checking.verdict import Verdict
from autograder.grading.intake.wording import shown
from autograder.grading.sandbox import audit_hook
from autograder.grading.sandbox.ipython_shell import STOPPED
from autograder.student.merge_answers import is_solution, key

# What no exercise needs and what looks into other code, memory or the grader.
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
ALARMS = {
    audit_hook.EXIT_CODE: "reaches for Python's own frames, memory or objects",
    -signal.SIGSYS: "reaches for what the sandbox talks through",
}


def remarks(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each cell of a student's that uses something unusual."""
    given = {key(cell): cell.source for cell in release.cells}
    for cell in notebook.cells:
        if cell.cell_type != "code" or (not is_solution(cell) and key(cell) in given):
            continue
        allowed = {*_words(given.get(key(cell), "")), *_lent(key(cell))}
        if found := sorted(set(_words(cell.source)) - allowed):
            yield f"{_called(cell)} uses {', '.join(found)}, which no exercise needs."


def endless(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each cell of a student's that ran until it was stopped."""
    given = {key(cell) for cell in release.cells if not is_solution(cell)}
    for cell in notebook.cells:
        if cell.cell_type == "code" and key(cell) not in given and _was_stopped(cell):
            yield f"{_called(cell)} does not come to an end and was stopped."


def of_run(verdicts: Iterable[Verdict], exit_codes: Iterable[int]) -> Iterator[str]:
    """One sentence for each answer that no check could judge fairly, and for each alarm."""
    for verdict in verdicts:
        if A_PERSON in verdict.sentence:
            yield f"{verdict.exercise}: {verdict.sentence}"
    for code, what in ALARMS.items():
        if code in exit_codes:
            yield f"Its code {what}, which ended its process."


def _was_stopped(cell: NotebookNode) -> bool:
    return any(each.get("traceback") == [STOPPED] for each in cell.outputs)


def _lent(exercise: str) -> list[str]:
    """The room of the course from which an exercise lends something."""
    known = {item.id for unit in catalogue.units() for item in unit.exercises if not item.manual}
    return _words(" ".join(find(exercise).may_use)) if exercise in known else []


def _called(cell: NotebookNode) -> str:
    """What a reader can find a cell by: its exercise, or the beginning of a cell that was added."""
    lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
    return key(cell) if is_solution(cell) else f"An added cell ({shown(lines[0])})"


def _words(source: str) -> list[str]:
    return [found[0] for found in UNUSUAL.finditer(source)]
