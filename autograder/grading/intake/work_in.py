"""Tell whether a notebook holds work of a student's, as against a release that nobody touched."""

from collections.abc import Sequence
from functools import cached_property

import nbformat
from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution
from autograder.grading.intake.merge import Merged, is_added, merge

MAX_PARTS = 3_000_000
"""Brackets and commas of a file that is looked into; what holds more holds outputs, so it ran."""


class WorkIn:
    """What a notebook holds beside the releases of its unit; without a release all of it is work.

    Args:
        raw: The file.
        releases: The texts of the unit's notebooks as released, the latest first.
    """

    def __init__(self, raw: bytes, releases: Sequence[str]) -> None:
        self._raw = raw
        parts = sum(map(raw.count, (b"[", b"{", b",")))
        self._is_known = bool(releases) and parts <= MAX_PARTS
        self._releases = [nbformat.reads(text, as_version=4) for text in releases]

    @property
    def has_answers(self) -> bool:
        """Whether an answer is written in it."""
        return not self._is_known or any(map(self._is_answer, self._merged.notebook.cells))

    @property
    def has_any(self) -> bool:
        """Whether it holds an answer or another cell of the student's."""
        return self.has_answers or any(
            is_added(cell) and cell.source.strip() for cell in self._merged.notebook.cells
        )

    @cached_property
    def _merged(self) -> Merged:
        fresh, *others = self._releases
        return merge(self._raw, fresh, others)

    @cached_property
    def _stubs(self) -> dict[str, str]:
        return {cell_key(cell): cell.source.strip() for cell in self._releases[0].cells}

    def _is_answer(self, cell: NotebookNode) -> bool:
        return is_solution(cell) and cell.source.strip() != self._stubs.get(cell_key(cell), "")
