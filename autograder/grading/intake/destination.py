"""Write a collected notebook to its destination, and keep the one that it replaces.

A later notebook replaces an earlier one, which moves to the folder `before` beside it. Files are
written atomically.
"""

import os
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from autograder.files import replacing, write_synced
from autograder.grading.gradebook import timestamp
from autograder.grading.intake.folder import KEPT, find

STAMP = "%Y-%m-%d %H:%M:%S.%f"


class Destination:
    """The folder of one student's notebook of one unit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.unit = folder, folder.name
        self.notebook = folder / f"{folder.name}.ipynb"
        self.stamp = folder / timestamp.NAME

    def holds(self, raw: bytes) -> bool:
        """Whether this notebook is there already, with a time."""
        return (
            timestamp.time_of(self.folder) is not None and find(self.folder, self.unit).raw == raw
        )

    def put(self, raw: bytes, when: datetime) -> None:
        """Write a notebook and its time atomically; keep the notebook that is there.

        Raises:
            OSError: If it cannot be written, or the notebook there is not older.
        """
        if self.folder.is_symlink() or self.folder.parent.is_symlink():
            raise OSError(f"{self.folder} is a link")
        there, lies_there = timestamp.time_of(self.folder), os.path.lexists(self.notebook)
        if lies_there and there and when <= there:
            raise OSError(f"another notebook lies there, of {there:%Y-%m-%d %H:%M} UTC, not older")
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.notebook) as notebook, replacing(self.stamp) as line:
            write_synced(line, f"{when:{STAMP}} UTC".encode())
            write_synced(notebook, raw)
            if lies_there:
                self._keep_old(f"{there:%Y%m%d-%H%M%S}" if there else "undated")
        # The notebook is replaced last: until then nothing counts as collected.

    def _keep_old(self, time: str) -> None:
        """Move the present notebook to `before`, under a name with its time."""
        kept = self.folder / KEPT
        kept.mkdir(exist_ok=True)
        names = chain([time], (f"{time}-{number}" for number in count(2)))
        paths = (kept / f"{self.unit}-{name}.ipynb" for name in names)
        self.notebook.rename(next(path for path in paths if not os.path.lexists(path)))
