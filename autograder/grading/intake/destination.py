"""Write a collected notebook to its destination, and keep the one that it replaces.

The notebook that it replaces moves to the folder `before` beside it. Files are written atomically.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from autograder.files import read_line, replacing, write_synced
from autograder.grading.gradebook import timestamp
from autograder.grading.intake.folder import KEPT, find

STAMP = "%Y-%m-%d %H:%M:%S.%f UTC"
DOWNLOADED = "downloaded.txt"
"""When the notebook was handed in at the latest, where nothing else is known of its time."""


@dataclass(frozen=True)
class HandedIn:
    """The time of a notebook.

    Attributes:
        when: When it was handed in, if that is known.
        by: When it was at the latest.
    """

    when: datetime | None
    by: datetime


class Destination:
    """The folder of one student's notebook of one unit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.unit = folder, folder.name
        self.notebook = folder / f"{folder.name}.ipynb"
        self.stamp = folder / timestamp.NAME

    @property
    def raw(self) -> bytes | None:
        """The notebook that is there."""
        return None if self._is_elsewhere else find(self.folder, self.unit).raw

    @property
    def time(self) -> datetime | None:
        """When the notebook that is there was handed in, or was at the latest; None if unknown."""
        return timestamp.time_of(self.folder) or self._downloaded

    def holds(self, raw: bytes) -> bool:
        """Whether this notebook is there already, with a time."""
        return self.time is not None and self.raw == raw

    def put(self, raw: bytes, handed_in: HandedIn) -> None:
        """Write a notebook and its time atomically; keep the notebook that is there.

        Raises:
            OSError: If it cannot be written.
        """
        if self._is_elsewhere:
            raise OSError(f"{self.folder} is a link")
        there, lies_there = timestamp.time_of(self.folder), os.path.lexists(self.notebook)
        line, other = self.stamp, self.folder / DOWNLOADED
        if handed_in.when is None:
            line, other = other, line
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.notebook) as notebook, replacing(line) as written:
            write_synced(written, f"{handed_in.when or handed_in.by:{STAMP}}".encode())
            write_synced(notebook, raw)
            other.unlink(missing_ok=True)
            if lies_there:
                self._keep_old(f"{there:%Y%m%d-%H%M%S}" if there else "undated")
        # The notebook is replaced last: until then nothing counts as collected.

    @property
    def _is_elsewhere(self) -> bool:
        return self.folder.is_symlink() or self.folder.parent.is_symlink()

    @property
    def _downloaded(self) -> datetime | None:
        try:
            text = read_line(self.folder / DOWNLOADED)
            return datetime.strptime(text, STAMP).replace(tzinfo=UTC)
        except ValueError:
            return None

    def _keep_old(self, time: str) -> None:
        """Move the present notebook to `before`, under a name with its time."""
        kept = self.folder / KEPT
        kept.mkdir(exist_ok=True)
        names = chain([time], (f"{time}-{number}" for number in count(2)))
        paths = (kept / f"{self.unit}-{name}.ipynb" for name in names)
        self.notebook.rename(next(path for path in paths if not os.path.lexists(path)))
