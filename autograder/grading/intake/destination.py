"""Where does a collected notebook go, and what becomes of the one that lies there?

A later notebook takes the place of an earlier one, which is kept in the folder `before` beside it.
Files appear whole or not at all.
"""

import os
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from autograder.files import whole, write_down
from autograder.grading import timestamp
from autograder.grading.intake.folder import KEPT, find

STAMP = "%Y-%m-%d %H:%M:%S.%f"


class Destination:
    """Where one student's notebook of one unit lies."""

    def __init__(self, folder: Path) -> None:
        """Look at `submitted/<student>/<unit>`, which need not exist."""
        self.folder, self.unit = folder, folder.name
        self.notebook = folder / f"{folder.name}.ipynb"
        self.stamp = folder / timestamp.NAME

    def holds(self, raw: bytes) -> bool:
        """Whether this very notebook lies there, with its time."""
        return (
            timestamp.time_of(self.folder) is not None and find(self.folder, self.unit).raw == raw
        )

    def put(self, raw: bytes, when: datetime) -> None:
        """Write a notebook and its time, each whole or not at all; keep what lies there.

        Raises:
            OSError: If it cannot be written, or what lies there is not older.
        """
        if self.folder.is_symlink() or self.folder.parent.is_symlink():
            raise OSError(f"{self.folder} is a link")
        there, lies_there = timestamp.time_of(self.folder), os.path.lexists(self.notebook)
        if lies_there and there and when <= there:
            raise OSError(f"another notebook lies there, of {there:%Y-%m-%d %H:%M} UTC, not older")
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole(self.notebook) as notebook, whole(self.stamp) as line:
            write_down(line, f"{when:{STAMP}} UTC".encode())
            write_down(notebook, raw)
            if lies_there:
                self._supervise(f"{there:%Y%m%d-%H%M%S}" if there else "undated")
        # The notebook comes to its place last: with it all is done, without it all is to do.

    def _supervise(self, time: str) -> None:
        """Move what lies there to `before`, under a name with its time."""
        kept = self.folder / KEPT
        kept.mkdir(exist_ok=True)
        names = chain([time], (f"{time}-{number}" for number in count(2)))
        paths = (kept / f"{self.unit}-{name}.ipynb" for name in names)
        self.notebook.rename(next(path for path in paths if not os.path.lexists(path)))
