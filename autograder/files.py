"""Files that are replaced whole or not at all, and small ones that anybody may have put there."""

import contextlib
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

MAX_LINE_BYTES = 1000
DATE = (1980, 1, 1, 0, 0, 0)  # of all that is in a zip, so that the same files give the same bytes


def read_line(path: Path) -> str:
    """The one line of a small file, or nothing if there is no such regular file."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_LINE_BYTES:
            return ""
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def write_whole(path: Path, text: str) -> None:
    """Write a text file atomically: a reader finds the old file or the new one.

    Raises:
        OSError: If it cannot be written; the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        # A lone surrogate (half a character) is written as an escape and stays readable.
        write_synced(temporary, text.encode(errors="backslashreplace"))


def write_zip(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    """Write a zip whose bytes depend on its files, and on this machine's zlib, and give its path.

    Args:
        path: The zip; the folder for it is made.
        files: Name in it and content of each file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return path


def write_synced(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file that is on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside a file to write to; it replaces the file unless the body raises."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.unlink(missing_ok=True)  # left by a run that was killed, or a link to elsewhere
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
