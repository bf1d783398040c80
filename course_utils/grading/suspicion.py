"""What should a person look at? Nothing here decides a point."""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from course_utils.checks.verdict import Verdict
from course_utils.desk.transplant import is_solution, key

# What no exercise needs and what looks into other code, memory or the grader.
UNUSUAL = re.compile(
    r"\b(ctypes|gc\.get_\w+|sys\._getframe|settrace|setprofile|inspect\.(stack|currentframe)"
    r"|__code__|__globals__|f_locals|f_back|get_ipython|importlib|__import__|exec|eval|compile"
    r"|os\.(kill|fork|system|exec\w*|environ)|subprocess|socket|signal\.\w+|sys\.modules"
    r"|course_utils\.(grading|checks\.\w+|formulas|reference)|grading_seed|gradebook)\b"
)
TAMPERED = "replaces"


def remarks(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each cell of a student's that uses something unusual."""
    given = {key(cell): cell.source for cell in release.cells}
    for cell in notebook.cells:
        if cell.cell_type != "code" or (not is_solution(cell) and key(cell) in given):
            continue
        allowed = set(_words(given.get(key(cell), "")))
        if found := sorted(set(_words(cell.source)) - allowed):
            yield f"{key(cell)} uses {', '.join(found)}, which no exercise needs."


def of_verdicts(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """One sentence for each answer that tampered with what observes it."""
    for verdict in verdicts:
        if TAMPERED in verdict.sentence:
            yield f"{verdict.exercise}: {verdict.sentence}"


def _words(source: str) -> list[str]:
    return [found[0] for found in UNUSUAL.finditer(source)]
