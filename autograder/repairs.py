"""What was repaired in a student's notebook, one sentence each, for its student and for a teacher.

None of them accuses anybody: a tool may have done it all.
"""

from collections import Counter
from collections.abc import Iterator

from nbformat import NotebookNode, from_dict

from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.notebook_reader import Cell
from autograder.student_notebook import MAX_ADDED_CELLS, MAX_CHARACTERS, StudentNotebook, plain

GRADING = ("points", "grade", "solution", "locked", "task")


def repairs(notebook: StudentNotebook) -> Iterator[str]:
    """What was put back, found elsewhere, and left out."""
    yield from _about_names(notebook)
    counting = [(name, notebook.cells[index]) for name, index in notebook.counting.items()]
    for sentence, holds in CHANGES.items():
        if found := [name for name, cell in counting if holds(cell, notebook.known[name])]:
            yield f"{', '.join(found)}: {sentence}."
    if len(notebook.own) > MAX_ADDED_CELLS:
        yield f"Of {len(notebook.own)} added cells the first {MAX_ADDED_CELLS} were taken."
    if bad := sum(not notebook.is_text(index) for index in notebook.own[:MAX_ADDED_CELLS]):
        limit = f"{MAX_CHARACTERS:,} characters"
        yield f"Left out of the added cells, as no text or longer than {limit}: {bad}."


def lost_answers(notebook: StudentNotebook) -> Iterator[str]:
    """A sentence for each answer that could not be taken."""
    for name, index in notebook.counting.items():
        if is_solution(notebook.known[name]) and not notebook.is_text(index):
            source = notebook.cells[index].source
            trouble = "no text" if source is None else f"{len(source):,} characters long"
            yield f"The answer to {name} is {trouble}; it was not taken."


def _about_names(notebook: StudentNotebook) -> Iterator[str]:
    graded = [name for name, cell in notebook.known.items() if nbgrader_metadata(cell)]
    if missing := [
        name for name in graded if name not in {**notebook.counting, **notebook.answers}
    ]:
        yield f"Missing and put back as the course made them: {', '.join(missing)}."
    for name, count in Counter(notebook.names).items():
        if name in graded and count > 1:
            yield f"{count} cells have the name {name}; {_which_counts(notebook, name)}."
    elsewhere = [
        name
        for name, indices in notebook.found.items()
        if any(name not in notebook.cells[index].claims for index in indices)
    ]
    if elsewhere:
        names = ", ".join(elsewhere)
        yield f"Found in other cells than those with their names: answers to {names}."
    for name in notebook.for_readers:
        yield f"{name} has no text in its cell; what stands in words elsewhere is read, too."


def _which_counts(notebook: StudentNotebook, name: str) -> str:
    if name in notebook.asked:
        return "the last that defines the function counts"
    return "all are read" if is_solution(notebook.known[name]) else "the first counts"


# Each tells whether a student's cell differs from the course's in one way.


def _is_changed(cell: Cell, course: NotebookNode) -> bool:
    is_other = bool(nbgrader_metadata(course).get("locked")) and plain(cell.source or "") != plain(
        course.source
    )
    return is_other and not _is_as_released(cell, cell.source)


def _is_retyped(cell: Cell, course: NotebookNode) -> bool:
    return bool(nbgrader_metadata(course)) and cell.kind != course.cell_type


def _is_regraded(cell: Cell, course: NotebookNode) -> bool:
    ours, theirs = nbgrader_metadata(course), cell.grading
    named = theirs.get("grade_id") == cell_key(course)
    other = [each for each in GRADING if theirs.get(each, ours.get(each)) != ours.get(each)]
    if other == ["points"]:
        source = course.source if is_solution(course) else cell.source
        return named and not _is_as_released(cell, source)
    return named and bool(other)


def _is_as_released(cell: Cell, source: str | None) -> bool:
    """Whether a release had this cell with this source: nbgrader's checksum covers its points.

    An instructor who changes points or a check after the release must not make students look as
    if they had. Whoever forges the sum only hides a change that has no effect.
    """
    from nbgrader.utils import compute_checksum  # noqa: PLC0415 (slow; for few cells)

    entry = {"cell_type": cell.kind, "source": source, "metadata": {"nbgrader": cell.grading}}
    try:
        return bool(compute_checksum(from_dict(entry)) == cell.grading.get("checksum"))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return False


def _is_retagged(cell: Cell, course: NotebookNode) -> bool:
    return bool(cell.tags - set(course.metadata.get("tags", [])))


def _has_pictures(cell: Cell, course: NotebookNode) -> bool:
    return is_solution(course) and cell.has_attachments


CHANGES = {
    "of another text in the file, and the course's again": _is_changed,
    "of another type in the file, and of the course's again": _is_retyped,
    "points or other marks of grading were changed, without effect": _is_regraded,
    "tags were added, without effect": _is_retagged,
    "pictures were pasted in, which are only in the file that was handed in": _has_pictures,
}
