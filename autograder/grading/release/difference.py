"""How two forms of a unit differ, in words and by exercise."""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from autograder import catalogue
from autograder.cells import cell_key, nbgrader_metadata
from autograder.grading.intake.wording import listed
from autograder.grading.release.archive import Form

# What the build writes: points, minutes and numbers of exercises, minutes of the unit.
GENERATED = re.compile(
    r"<span><strong>[\d.]+ points?</strong></span><span>\d+ min</span>|(?m:^### \d\d\.\d+ · )|"
    r"(?m:^\*\*\d+ minutes\*\*(?: \(plus \d+ for extras\))?)"
)


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


def is_extra(exercise: str) -> bool:
    """Whether the course has an exercise, and its points are a bonus."""
    return exercise not in not_in_the_course([exercise]) and catalogue.exercise(exercise).extra


def differences(old: Form, new: Form) -> list[str]:
    """One line for each way in which a form differs from an older one; none if they are equal."""
    before, after = points_of(old.notebook), points_of(new.notebook)
    stay = [name for name in after if name in before]
    points = [f"{n} {before[n]:g} → {after[n]:g}" for n in stay if before[n] != after[n]]
    changed = [n for n in stay if old.checks and old.checks.get(n) != new.checks.get(n)]
    checks = [n for n in changed if _practised(old, n) != _practised(new, n)]
    behind = [n for n in changed if n not in checks]
    totals = [sum(each.values()) for each in (before, after)]
    kinds = {
        "exercise more": [_with_points(name, after) for name in after if name not in before],
        "exercise less": [_with_points(name, before) for name in before if name not in after],
        "points": points,
        "points in all": [f"{totals[0]:g} → {totals[1]:g}"] if totals[0] != totals[1] else [],
        "check": checks,
        "code behind the checks, with the same practice cases, of": behind,
        "text or given code of": list(_changed_texts(old.notebook, new.notebook)),
    }
    lines = [f"{kind}: {listed(names)}" for kind, names in kinds.items() if names]
    if not lines and (old.release, old.instructor) != (new.release, new.instructor):
        lines = ["marks or hidden parts of cells, which no student sees"]
    return lines


def _with_points(exercise: str, worth: dict[str, float]) -> str:
    return f"{exercise} ({worth[exercise]:g}{', extra' if is_extra(exercise) else ''})"


def _practised(form: Form, exercise: str) -> list[str]:
    """Hash of the practice cases of an exercise, which its check and its hints make."""
    return form.checks.get(exercise, [])[-1:]


def _changed_texts(old: NotebookNode, new: NotebookNode) -> Iterator[str]:
    """The exercises, in order, whose part of the notebook has other text or given code.

    The part of an exercise ends with its check and the hints that follow it. What the build writes
    of points, minutes and numbers counts for nothing.
    """
    before, after = _parts(old), _parts(new)
    yield from (name for name, texts in after.items() if before.get(name, texts) != texts)


def _parts(notebook: NotebookNode) -> dict[str, list[str]]:
    opening, *cells = notebook.cells
    parts = {"the opening": [GENERATED.sub("", opening.source)]}
    texts: list[str] = []
    for cell in cells:
        is_hint = not texts and cell.source.startswith("<details>")
        part = parts[next(reversed(parts))] if is_hint else texts
        part.append(GENERATED.sub("", cell.source))
        if nbgrader_metadata(cell).get("grade"):
            parts[exercise_of(cell_key(cell))], texts = texts, []
    return parts | {"the end": texts}
