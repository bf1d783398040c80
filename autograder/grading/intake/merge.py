"""Merge the answers of whatever file was handed in into the release.

The release supplies every cell of the course with its type, metadata and points; the file supplies
the text of the answers and the cells that the student added. Each repair becomes a remark, one
sentence for a teacher. If nothing can be taken, the release stays unchanged and a person looks.
A file is compared with the release that its student had, so that no later one is held against it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode, from_dict
from nbgrader.utils import compute_checksum

from autograder import catalogue
from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.grading.intake.cell_identity import DEFINITION, defined, names, other_unit
from autograder.grading.intake.notebook_reader import Cell, Unreadable, read
from autograder.grading.intake.wording import listed, shown
from autograder.student.merge_answers import merge_answers

MAX_ADDED_CELLS = 200
MAX_CHARACTERS = 200_000
ADDED = "added-"
GRADING = ("points", "grade", "solution", "locked", "task")


@dataclass(frozen=True)
class Merged:
    """A notebook to grade, remarks for a teacher, and why a person has to look.

    Nothing was taken from a foreign file: it is not a notebook, or not one of this unit. `given` is
    the release that the student had, if it is another one.
    """

    notebook: NotebookNode
    remarks: tuple[str, ...] = ()
    needs_human: tuple[str, ...] = ()
    is_foreign: bool = False
    given: NotebookNode | None = None


def merge(raw: bytes | None, fresh: NotebookNode, others: Sequence[NotebookNode] = ()) -> Merged:
    """The release with the answers and the added cells of a file; never raises.

    Args:
        raw: What was handed in, or None if nothing could be read.
        fresh: The notebook as the course released it.
        others: The notebooks of other releases, which some students may have.
    """
    if raw is None:
        why = "There is no notebook to grade."
        return Merged(deepcopy(fresh), needs_human=(why,), is_foreign=True)
    try:
        cells, odd = read(raw)
    except Unreadable as error:
        why = f"The file is no notebook: {error}."
        return Merged(deepcopy(fresh), needs_human=(why,), is_foreign=True)
    given = _given(cells, [fresh, *others])
    submission = _Submission(cells, given)
    if reason := submission.foreign():
        return Merged(deepcopy(fresh), tuple(odd), (reason,), is_foreign=True)
    merged = merge_answers(submission.answers(), given)
    remarks, lost = (*odd, *submission.remarks()), tuple(submission.lost_answers())
    if given is fresh:
        return Merged(merged, remarks, lost)
    return Merged(_carried_over(merged, given, fresh), remarks, lost, given=given)


def is_added(cell: NotebookNode) -> bool:
    """Whether a cell of a merged notebook is one that the student added."""
    return str(cell.get("id", "")).startswith(ADDED)


def _given(cells: Sequence[Cell], releases: Sequence[NotebookNode]) -> NotebookNode:
    """The release whose own texts a file has and lacks fewest of; the first among equals."""
    texts = {cell.source for cell in cells}

    def likeness(release: NotebookNode) -> int:
        given = [cell.source in texts for cell in release.cells if not is_solution(cell)]
        return 2 * sum(given) - len(given)

    return max(releases, key=likeness)


def _carried_over(merged: NotebookNode, given: NotebookNode, fresh: NotebookNode) -> NotebookNode:
    """The student's part of a notebook in another release: written answers, and added cells."""
    stubs = {(cell_key(cell), cell.source) for cell in given.cells if is_solution(cell)}
    places = {(cell_key(cell), cell.cell_type) for cell in fresh.cells}
    taken = [
        cell
        for cell in merged.cells
        if is_added(cell)
        or ((key := cell_key(cell), cell.cell_type) in places and (key, cell.source) not in stubs)
    ]
    return merge_answers(NotebookNode(cells=taken), fresh)


class _Submission:
    """A student's cells beside those of the course."""

    def __init__(self, cells: Sequence[Cell], fresh: NotebookNode) -> None:
        self.cells, self.fresh = cells, fresh
        self.names = names(cells, fresh)
        self.known = {cell_key(cell): cell for cell in fresh.cells}

    def foreign(self) -> str:
        """Why this is not a notebook of the unit; '' if it is one."""
        if number := other_unit(self.cells, self.fresh):
            titles = [unit.title for unit in catalogue.units() if unit.number == number]
            title = f" ({titles[0]})" if titles else ""
            return f"The notebook seems to be of unit {number}{title}; nothing of it was taken."
        if not any(name and nbgrader_metadata(self.known[name]) for name in self.names):
            return f"None of the {len(self.cells)} cells of the file is an exercise of this unit."
        return ""

    def answers(self) -> NotebookNode:
        """The cells to merge, with no metadata but their name in the course."""
        keep = set(self._counting.values()) | set(self._extra[:MAX_ADDED_CELLS])
        taken = [self._clean(index) for index in sorted(keep) if self._has_text(index)]
        return NotebookNode(cells=taken)

    def lost_answers(self) -> Iterator[str]:
        """A sentence for each answer that could not be taken."""
        for name, index in self._counting.items():
            if is_solution(self.known[name]) and not self._has_text(index):
                yield f"The answer to {name} {self._trouble(index)}; it was not taken."

    def remarks(self) -> Iterator[str]:
        """What was repaired and what was left out."""
        yield from self._about_names()
        yield from self._about_course_cells()
        yield from self._about_added_cells()

    @cached_property
    def _counting(self) -> dict[str, int]:
        """Index of the cell that counts for each name: the first written one, else the first."""
        counting: dict[str, int] = {}
        for index, name in enumerate(self.names):
            if name and (name not in counting or not self._is_written(counting[name])):
                counting[name] = index if self._is_written(index) else counting.get(name, index)
        return counting

    @cached_property
    def _extra(self) -> list[int]:
        """Indices of the cells that a student added or copied."""
        counting = set(self._counting.values())
        return [index for index in range(len(self.cells)) if index not in counting]

    def _is_written(self, index: int) -> bool:
        stub = self.known[self.names[index]].source
        is_other = self.cells[index].source != stub
        return self._has_text(index) and is_other and not self._is_blank_text(index)

    def _is_blank_text(self, index: int) -> bool:
        """Whether an answer in words was emptied, or is the stub but for spaces around it."""
        known, source = self.known[self.names[index]], self.cells[index].source
        is_text = is_solution(known) and known.cell_type == "markdown"
        return is_text and source is not None and source.strip() in ("", known.source.strip())

    def _has_text(self, index: int) -> bool:
        source = self.cells[index].source
        return source is not None and len(source) <= MAX_CHARACTERS

    def _trouble(self, index: int) -> str:
        source = self.cells[index].source
        return "is no text" if source is None else f"is {len(source):,} characters long"

    def _clean(self, index: int) -> NotebookNode:
        cell, name = self.cells[index], self.names[index]
        solution = bool(name) and is_solution(self.known[name])
        is_stub = bool(name) and self._is_blank_text(index)
        entry = {
            "cell_type": cell.kind,
            "id": f"{ADDED}{index}",
            "metadata": {"nbgrader": {"grade_id": name, "solution": solution}} if name else {},
            "source": self.known[name].source if is_stub else cell.source,
        }
        node: NotebookNode = from_dict(entry)
        return node

    def _about_names(self) -> Iterator[str]:
        graded = [name for name, cell in self.known.items() if nbgrader_metadata(cell)]
        if missing := [name for name in graded if name not in self._counting]:
            yield f"Missing and put back as the course made them: {listed(missing)}."
        for name, count in Counter(self.names).items():
            if name in graded and count > 1:
                yield f"{count} cells claim to be {name}; the first written counts, no other runs."
        for name, index in self._counting.items():
            claims = self.cells[index].claims
            if is_solution(self.known[name]) and name not in claims and self._is_written(index):
                place = f"the cell {shown(claims[0])}" if claims else "a cell without a name"
                yield f"The answer to {name} was found in {place}."

    def _about_course_cells(self) -> Iterator[str]:
        counting = [(name, self.cells[index]) for name, index in self._counting.items()]
        for sentence, holds in CHANGES.items():
            if found := [name for name, cell in counting if holds(cell, self.known[name])]:
                yield f"{listed(found)}: {sentence}."
        for name, cell in counting:
            if lost := _definitions_lost(cell, self.known[name]):
                yield f"{name}: defines {listed(lost)} in the student's file, and runs as it came."

    def _about_added_cells(self) -> Iterator[str]:
        if len(self._extra) > MAX_ADDED_CELLS:
            yield f"Of {len(self._extra)} added cells the first {MAX_ADDED_CELLS} were taken."
        if bad := sum(not self._has_text(index) for index in self._extra[:MAX_ADDED_CELLS]):
            limit = f"{MAX_CHARACTERS:,} characters"
            yield f"Left out of the added cells, as no text or longer than {limit}: {bad}."


# Each tells whether a student's cell differs from the course's in one way.


def _is_changed(cell: Cell, course: NotebookNode) -> bool:
    is_other = bool(nbgrader_metadata(course).get("locked")) and cell.source != course.source
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
    entry = {"cell_type": cell.kind, "source": source, "metadata": {"nbgrader": cell.grading}}
    try:
        return bool(compute_checksum(from_dict(entry)) == cell.grading.get("checksum"))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return False


def _is_retagged(cell: Cell, course: NotebookNode) -> bool:
    return bool(cell.tags - set(course.metadata.get("tags", [])))


def _has_pictures(cell: Cell, course: NotebookNode) -> bool:
    return is_solution(course) and cell.has_attachments


def _definitions_lost(cell: Cell, course: NotebookNode) -> list[str]:
    """Functions that a student put into a given cell, which is restored."""
    if nbgrader_metadata(course):
        return []
    given = DEFINITION.findall(course.source)
    return [shown(name) for name in defined(cell) if name not in given]


CHANGES = {
    "changed by the student, graded as the course made it": _is_changed,
    "of another type in the student's file, and of the course's again": _is_retyped,
    "points or other marks of grading were changed, without effect": _is_regraded,
    "tags were added, without effect": _is_retagged,
    "pictures were pasted in, which are only in the file that was handed in": _has_pictures,
}
