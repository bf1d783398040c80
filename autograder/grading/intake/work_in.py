"""Tell whether a notebook holds work of a student's, as against a release that nobody touched."""

from collections.abc import Sequence

from nbformat import NotebookNode

from autograder.grading.intake.merge import merge, num_answers
from autograder.student_notebook import is_added

MAX_PARTS = 3_000_000
"""Brackets and commas of a file that is looked into; what holds more holds outputs, so it ran."""


class WorkIn:
    """What a notebook holds beside the releases of its unit; without a release all of it is work.

    Args:
        raw: The file.
        releases: The unit's notebooks as released, the latest first.
    """

    def __init__(self, raw: bytes, releases: Sequence[NotebookNode]) -> None:
        self._raw, self._releases = raw, releases
        parts = sum(map(raw.count, (b"[", b"{", b",")))
        self._is_known = bool(releases) and parts <= MAX_PARTS

    @property
    def has_answers(self) -> bool:
        """Whether an answer is written in it."""
        return not self._is_known or num_answers(self._raw, self._releases) > 0

    @property
    def has_any(self) -> bool:
        """Whether it holds an answer or another cell of the student's."""
        return self.has_answers or self._has_added

    @property
    def _has_added(self) -> bool:
        fresh, *others = self._releases
        cells = merge(self._raw, fresh, others).notebook.cells
        return any(is_added(cell) and cell.source.strip() for cell in cells)
