"""What does a student's work folder remember?

`progress.json` lies at the top of the work folder and holds, for each exercise, the points of its
last check with the source that earned them, and the student's predictions. Outside a work folder
(while a notebook is built or graded) nothing is written and the memory lasts as long as the kernel.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

NAME = "progress.json"
EMPTY: dict[str, Any] = {"version": 1, "exercises": {}, "predictions": {}}

_of_this_kernel: dict[str, Any] = dict(EMPTY)


def find(start: Path | None = None) -> Path | None:
    """The `progress.json` of the work folder around `start`, or None outside of one."""
    if "NBGRADER_EXECUTION" in os.environ:
        return None
    here = (start or Path.cwd()).resolve()
    places = (folder / NAME for folder in (here, *here.parents[:3]))
    return next((place for place in places if place.is_file()), None)


def start(work: Path) -> None:
    """Give a work folder its empty memory, if it has none."""
    if not (work / NAME).exists():
        save_at(work / NAME, EMPTY)


def load() -> dict[str, Any]:
    """All that is remembered; a damaged file is put aside, never overwritten."""
    place = find()
    if place is None:
        return _of_this_kernel
    try:
        return _sound(json.loads(place.read_text(encoding="utf-8")))
    except OSError as error:
        print(f"Progress was not read: {place} cannot be opened ({error.strerror}).")
        return _of_this_kernel
    except ValueError:
        aside = place.with_name(f"progress-damaged-{time.time_ns()}.json")
        place.replace(aside)
        save_at(place, EMPTY)
        print(f"{NAME} could not be read. It is kept as {aside.name}; progress starts anew.")
        return load()


def _sound(memory: Any) -> dict[str, Any]:
    """The memory as it was read, if it has the form of one."""
    kinds = ("exercises", "predictions")
    if not isinstance(memory, dict) or not all(isinstance(memory.get(k), dict) for k in kinds):
        raise ValueError("no memory of progress")
    return memory


def remember(kind: str, name: str, entry: dict[str, Any]) -> None:
    """Keep one entry under ``exercises`` or ``predictions``.

    A work folder that cannot be written to costs the memory, never the check.
    """
    memory = load()
    memory[kind] = memory[kind] | {name: entry}
    place = find()
    if place is None:
        return
    try:
        save_at(place, memory)
    except OSError as error:
        print(f"Progress was not kept: {place} cannot be written ({error.strerror}).")


def save_at(place: Path, memory: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    beside = place.with_name(f".{NAME}.{os.getpid()}")
    beside.write_text(json.dumps(memory, indent=1, ensure_ascii=False), encoding="utf-8")
    beside.replace(place)
