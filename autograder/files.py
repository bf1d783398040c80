"""Files that appear whole or not at all, and small ones that somebody else may have put there."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

MAX_LINE_BYTES = 1000


def line_of(path: Path) -> str:
    """The one line of a small file, or nothing where there is no such regular file."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_LINE_BYTES:
            return ""
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def write_whole(path: Path, text: str) -> None:
    """Write a text file; whoever looks finds the old one or the new one.

    Raises:
        OSError: If it cannot be written; the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside:
        write_down(
            beside, text.encode(errors="backslashreplace")
        )  # half a character stays readable


def write_down(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file that is on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside a file to write it to; it takes the file's place if nothing goes wrong."""
    beside = path.with_name(f".{path.name}.writing")
    beside.unlink(missing_ok=True)  # that of a run that was killed, or a link to elsewhere
    try:
        yield beside
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
