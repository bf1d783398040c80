"""What a hub was told of the course: where the exchange is, and who grades in which folder.

It lies in the folder `hub` of the students' copy, readable for everybody and written by `install`.
Each server that `start` starts has the path of that folder in the variable `COURSE_HUB`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.commands import ROOT, CommandError

VARIABLE = "COURSE_HUB"
GRADERS, NBGRADER = "graders.json", "nbgrader_config.json"


@dataclass(frozen=True)
class Hub:
    """The course on one hub.

    Attributes:
        course: The students' copy of the course.
        exchange: nbgrader's exchange.
        graders: The full repository of each account that grades.
    """

    course: Path
    exchange: Path
    graders: Mapping[str, Path]

    @property
    def folder(self) -> Path:
        """Where this is kept."""
        return self.course / "hub"

    def write(self) -> None:
        """Keep it, for everybody to read."""
        self.folder.mkdir(exist_ok=True)
        graders = {name: str(folder) for name, folder in self.graders.items()}
        config = {"Exchange": {"root": str(self.exchange)}}
        for name, content in ((GRADERS, graders), (NBGRADER, config)):
            (self.folder / name).write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
            (self.folder / name).chmod(0o644)
        self.folder.chmod(0o755)


def read() -> Hub:
    """What the hub was told, by the server around this process or by the copy that runs.

    Raises:
        CommandError: If nothing was installed there, or this account cannot read it.
    """
    folder = Path(os.environ.get(VARIABLE) or ROOT / "hub")
    try:
        graders = json.loads((folder / GRADERS).read_text(encoding="utf-8"))
        config = json.loads((folder / NBGRADER).read_text(encoding="utf-8"))
        exchange = Path(config["Exchange"]["root"])
        return Hub(folder.parent, exchange, {name: Path(graders[name]) for name in graders})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{folder} does not say where exchange and graders are ({error}): run this in a "
            "terminal of the hub; if it is one, `python -m autograder.hub install` as root."
        ) from None
