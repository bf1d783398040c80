"""The progress of a student: points of last checks, and predictions.

`progress.json` lies at the top of the work folder and holds, for each exercise, the points of its
last check with the source that earned them and whether it is practised again on new sizes, and the
student's predictions. Outside a work folder (while a notebook is built or graded) nothing is
written, and progress lasts as long as the kernel.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

NAME = "progress.json"
EMPTY: dict[str, Any] = {"version": 1, "exercises": {}, "predictions": {}}

_of_this_kernel: dict[str, Any] = dict(EMPTY)


def find() -> Path | None:
    """The `progress.json` of the work folder around the current folder, or None outside of one."""
    if "NBGRADER_EXECUTION" in os.environ:
        return None
    here = Path.cwd().resolve()
    paths = (folder / NAME for folder in (here, *here.parents[:3]))
    return next((path for path in paths if path.is_file()), None)


def create(work: Path) -> None:
    """Give a work folder an empty progress file, if it has none."""
    if not (work / NAME).exists():
        save(work / NAME, EMPTY)


def load() -> dict[str, Any]:
    """All progress so far."""
    path = find()
    return _of_this_kernel if path is None else read(path)


def read(path: Path) -> dict[str, Any]:
    """The progress in a file; a damaged one is put aside, never overwritten."""
    try:
        return _validated(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        print(f"Progress was not read: {path} cannot be opened ({error.strerror}).")
        return _of_this_kernel
    except ValueError:
        aside = path.with_name(f"progress-damaged-{time.time_ns()}.json")
        path.replace(aside)
        save(path, EMPTY)
        print(f"{NAME} could not be read. It is kept as {aside.name}; progress starts over.")
        return read(path)


def _validated(progress: Any) -> dict[str, Any]:
    """What was read from the file, if it has the right form."""
    kinds = ("exercises", "predictions")
    if not isinstance(progress, dict) or not all(isinstance(progress.get(k), dict) for k in kinds):
        raise ValueError("not a progress file")
    return progress


def remember(kind: str, name: str, entry: dict[str, Any]) -> None:
    """Keep one entry under ``exercises`` or ``predictions``.

    If the work folder cannot be written, the entry is lost, but the check still runs.
    """
    progress = load()
    progress[kind] = progress[kind] | {name: entry}
    path = find()
    if path is None:
        return
    try:
        save(path, progress)
    except OSError as error:
        print(f"Progress was not kept: {path} cannot be written ({error.strerror}).")


def failed_tries(exercise: str) -> int:
    """How often an exercise was checked and not right since it last was, or ever."""
    return int(load()["exercises"].get(exercise, {}).get("failed_tries", 0))


def is_again(exercise: str) -> bool:
    """Whether an exercise that was passed is practised on new sizes."""
    return bool(load()["exercises"].get(exercise, {}).get("again"))


def end_again(exercise: str) -> None:
    """Let an exercise have its first sizes again."""
    remember("exercises", exercise, load()["exercises"][exercise] | {"again": False})


def save(path: Path, progress: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    temporary = path.with_name(f".{NAME}.{os.getpid()}")
    temporary.write_text(json.dumps(progress, indent=1, ensure_ascii=False), encoding="utf-8")
    temporary.replace(path)
