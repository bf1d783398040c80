"""Find notebooks in `work/` that were made for another version of the course.

Their first cell imports what this version may no longer have. Nothing is changed here:
`make fresh` moves the answers into a new notebook and keeps the old one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.commands import units_in


def outdated_units(notebooks: Path, work: Path) -> list[str]:
    """Names of the units whose locked cells differ from the released ones.

    Args:
        notebooks: Folder of the released units.
        work: The student's folder; what cannot be read in it is left out.
    """
    return [
        unit.name
        for unit in units_in(notebooks)
        if (mine := dict(_setup_cells(work / unit.name / f"{unit.name}.ipynb")))
        and mine != dict(_setup_cells(unit / f"{unit.name}.ipynb"))
    ]


def _setup_cells(path: Path) -> Iterator[tuple[str, str]]:
    """Name and text of the locked cells that hold no answer and earn no points."""
    try:
        cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            marks = cell["metadata"].get("nbgrader", {})
            if marks.get("locked") and not marks.get("grade"):
                yield str(marks["grade_id"]), "".join(cell["source"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
