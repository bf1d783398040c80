"""The progress of a student: points of last checks, and predictions.

`progress.json` lies at the top of the work folder and holds, for each exercise, the points of its
last check with the source that earned them and whether it is practised again on new sizes, and the
student's predictions. Kernels of one work folder change it one after the other. Outside of one
(while a notebook is built or graded) nothing is written, and progress lasts as long as the kernel.
"""

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autograder.files import write_whole

try:
    import fcntl
except ModuleNotFoundError:  # Windows: of two kernels that write at once, the last one is kept
    fcntl = None  # type: ignore[assignment]

NAME = "progress.json"
LOCK = f".{NAME}.lock"
EMPTY: dict[str, Any] = {"version": 1, "exercises": {}, "predictions": {}}

# What an entry of each kind holds, and what it may hold besides.
NEEDED: dict[str, dict[str, tuple[type, ...]]] = {
    "exercises": {"points": (int, float)},
    "predictions": {"value": (int, float), "unit": (str,), "revealed": (bool,)},
}
OPTIONAL = {"source": str, "checked": str, "failed_tries": int, "again": bool}

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
    with _alone(work / NAME):
        if not (work / NAME).exists():
            _save(work / NAME, EMPTY)


def load() -> dict[str, Any]:
    """All progress so far."""
    path = find()
    return _of_this_kernel if path is None else read(path)


def read(path: Path) -> dict[str, Any]:
    """What is sound of the progress in a file; where it cannot be opened, that of this kernel."""
    try:
        progress = _parsed(path.read_bytes())
        if _is_whole(progress):
            return progress
        with _alone(path):
            return _mended(path)
    except OSError as error:
        print(f"Progress was not read: {path} cannot be opened or mended ({error.strerror}).")
        return _of_this_kernel


@contextlib.contextmanager
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """The progress in a file, which is written when the body ends; no other kernel comes between.

    Raises:
        OSError: If the file cannot be read or written.
    """
    with _alone(path):
        progress = _mended(path)
        yield progress
        _save(path, progress)


def remember(kind: str, name: str, entry: dict[str, Any]) -> None:
    """Keep one entry under ``exercises`` or ``predictions``, in place of what was there.

    If the work folder cannot be written, the entry is lost, but the check still runs.
    """
    _keep(kind, lambda entries: entries | {name: entry})


def amend(kind: str, name: str, **parts: Any) -> None:
    """Change some parts of an entry, whatever else it holds by now."""
    _keep(kind, lambda entries: entries | {name: entries.get(name, {}) | parts})


def _keep(kind: str, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the entries of a kind, in the file or in this kernel."""
    path = find()
    if path is None:
        _of_this_kernel[kind] = changed(_of_this_kernel[kind])
        return
    try:
        with changing(path) as progress:
            progress[kind] = changed(progress[kind])
    except OSError as error:
        print(f"Progress was not kept: {path} cannot be written ({error.strerror}).")


def _mended(path: Path) -> dict[str, Any]:
    """The progress in a file; a damaged one is kept beside it, and what is sound in it stays."""
    content = path.read_bytes()
    progress = _parsed(content)
    if _is_whole(progress):
        return progress
    aside = path.with_name(f"progress-damaged-{time.time_ns()}.json")
    aside.write_bytes(content)
    sound = {kind: _sound_entries(progress, kind) for kind in NEEDED}
    mended = EMPTY | progress | sound
    _save(path, mended)
    num_kept = sum(map(len, sound.values()))
    rest = f"{num_kept} entries of it are whole and stay" if num_kept else "progress starts over"
    print(f"{NAME} could not be read. It is kept as {aside.name}; {rest}.")
    return mended


def _is_whole(progress: dict[str, Any]) -> bool:
    return all(progress.get(kind) == _sound_entries(progress, kind) for kind in NEEDED)


def _parsed(content: bytes) -> dict[str, Any]:
    """What a file says; nothing where that is not JSON of an object."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(progress := json.loads(content), dict):
            return progress
    return {}


def _sound_entries(progress: dict[str, Any], kind: str) -> dict[str, Any]:
    """The entries of a kind that have its form."""
    entries = progress.get(kind)
    if not isinstance(entries, dict):
        return {}
    return {name: entry for name, entry in entries.items() if _is_sound(kind, entry)}


def _is_sound(kind: str, entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    needed = all(type(entry.get(name)) in types for name, types in NEEDED[kind].items())
    known = ((entry[name], OPTIONAL[name]) for name in entry.keys() & OPTIONAL.keys())
    return needed and all(type(value) is wanted for value, wanted in known)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile, where its folder can hold a lock."""
    with contextlib.ExitStack() as stack:
        if fcntl:
            with contextlib.suppress(OSError):  # some network disks know no locks
                lock = stack.enter_context(path.with_name(LOCK).open("w", encoding="utf-8"))
                fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


def _save(path: Path, progress: dict[str, Any]) -> None:
    """Write the file whole or not at all; one that nobody may write stays as it is."""
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    write_whole(path, json.dumps(progress, indent=1, ensure_ascii=False))


def failed_tries(exercise: str) -> int:
    """How many checks in a row an exercise has failed."""
    return int(load()["exercises"].get(exercise, {}).get("failed_tries", 0))


def is_again(exercise: str) -> bool:
    """Whether an exercise that was passed is practised on new sizes."""
    return bool(load()["exercises"].get(exercise, {}).get("again"))


def end_again(exercise: str) -> None:
    """Let an exercise have its first sizes again."""
    amend("exercises", exercise, again=False)
