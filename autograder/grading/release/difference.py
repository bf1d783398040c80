"""How two forms of a unit differ, in words and by exercise."""

from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from autograder import catalogue
from autograder.cells import cell_key, nbgrader_metadata
from autograder.grading.release.archive import Form

MAX_LISTED = 6


def exercise_of(graded_cell: str) -> str:
    """The exercise whose points a cell holds."""
    return graded_cell.removesuffix("-test")


def points_of(notebook: NotebookNode) -> dict[str, float]:
    """What each exercise of a notebook is worth."""
    graded = (nbgrader_metadata(cell) for cell in notebook.cells)
    return {exercise_of(m["grade_id"]): float(m["points"]) for m in graded if m.get("grade")}


def not_in_the_course(exercises: Iterable[str]) -> list[str]:
    """Those exercises of a release that the course has no more."""
    known = {item.id for unit in catalogue.units() for item in unit.exercises}
    return [name for name in exercises if name not in known]


def differences(old: Form, new: Form) -> list[str]:
    """One line for each way in which a form differs from an older one; none if they are equal."""
    before, after = points_of(old.notebook), points_of(new.notebook)
    stay = [name for name in after if name in before]
    points = [f"{n} {before[n]:g} → {after[n]:g}" for n in stay if before[n] != after[n]]
    checks = [n for n in stay if old.checks and old.checks.get(n) != new.checks.get(n)]
    totals = [sum(each.values()) for each in (before, after)]
    kinds = {
        "exercise more": [f"{name} ({after[name]:g})" for name in after if name not in before],
        "exercise less": [f"{name} ({before[name]:g})" for name in before if name not in after],
        "points": points,
        "points in all": [f"{totals[0]:g} → {totals[1]:g}"] if totals[0] != totals[1] else [],
        "check, or what it uses": checks,
        "text or given code of": list(_changed_texts(old.notebook, new.notebook)),
    }
    lines = [f"{kind}: {_listed(names)}" for kind, names in kinds.items() if names]
    if not lines and (old.release, old.instructor) != (new.release, new.instructor):
        lines = ["marks or hidden parts of cells, which no student sees"]
    return lines


def _changed_texts(old: NotebookNode, new: NotebookNode) -> Iterator[str]:
    """The exercises, in order, whose part of the notebook has other text or given code.

    The part of an exercise ends with its check and the hints that follow it.
    """
    before, after = _parts(old), _parts(new)
    yield from (name for name, texts in after.items() if before.get(name, texts) != texts)


def _parts(notebook: NotebookNode) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    texts: list[str] = []
    for cell in notebook.cells:
        is_hint = parts and not texts and cell.source.startswith("<details>")
        (parts[next(reversed(parts))] if is_hint else texts).append(cell.source)
        if nbgrader_metadata(cell).get("grade"):
            parts[exercise_of(cell_key(cell))], texts = texts, []
    return parts | {"the end": texts}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
