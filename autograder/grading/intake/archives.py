"""Read the files in an archive that is not trusted.

Files are read one at a time and never unpacked to the paths in the archive. Links, devices, paths
that lead out of the archive and files that decompress to too much are refused.
"""

import bz2
import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import islice
from typing import IO, Any

from autograder.grading.intake.folder import MAX_BYTES, refuse_size

MAX_MEMBERS = 20_000
MAX_PATH = 1_000
MAX_RATIO = 200
MAX_INFLATED = 4 * MAX_BYTES
MAX_FIELDS = 16
"""Extra fields of a file in a zip that are looked at."""
UNIX_TIME = 0x5455
ENTRY = b"PK\1\2"
"""Begins each line of a zip's table of contents."""
SMALL = 2**20
"""Files up to this many bytes may have any compression ratio."""

OPENERS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


class BadArchive(ValueError):
    """Why an archive cannot be read, as the end of a sentence."""


@dataclass(frozen=True)
class Member:
    """A file in an archive.

    Attributes:
        path: Its path in the archive, at most `MAX_PATH` characters of it.
        when: Its time in the archive; None if that is no valid time.
        has_zone: Whether the time is in UTC for certain; the old one of a zip is the local time of
            an unknown place, and taken as UTC.
        num_bytes: What it says of its size.
        read: Gives its bytes; raises OSError with a sentence if they cannot or may not be read.
    """

    path: str
    when: datetime | None
    has_zone: bool
    num_bytes: int
    read: Callable[[], bytes]


class Budget:
    """The bytes that may be read of one person's files, archives and what is in them together."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = self.left = num_bytes

    def spend(self, num_bytes: int) -> None:
        """Take some of it.

        Raises:
            OSError: If there is less.
        """
        if num_bytes > self.left:
            raise OSError(self.spent)
        self.left -= max(0, num_bytes)

    @property
    def spent(self) -> str:
        """Why a file is not read that is beyond it."""
        return f"of one person {self.num_bytes // 2**20} MiB are taken in all"


def inside(archive: bytes, budget: Budget) -> list[Member]:
    """The files of a zip or a tar that a student packed.

    Raises:
        BadArchive: If it is none of these, is damaged, or holds too much.
    """
    if archive.count(ENTRY) > MAX_MEMBERS:  # the reader would make an object of each
        raise BadArchive(f"it holds more than {MAX_MEMBERS:,} files")
    return members(BytesIO(archive), budget)


def members(file: IO[bytes], budget: Budget | None = None) -> list[Member]:
    """The files of a zip or a tar, compressed or not; read them while the archive is open.

    Raises:
        BadArchive: If it is none of these, is damaged, or holds too much.
    """
    budget = budget or Budget(MAX_INFLATED)
    try:
        magic = file.read(6)
        file.seek(0)
        is_zip = magic.startswith(b"PK")
        found = _in_zip(file) if is_zip else _in_tar(_inflated(file, magic, budget))
        files = list(islice(found, MAX_MEMBERS + 1))
    except Exception as error:  # a hostile archive can make the readers raise anything
        raise BadArchive(f"it cannot be read as a zip or tar ({error})") from error
    if len(files) > MAX_MEMBERS:
        raise BadArchive(f"it holds more than {MAX_MEMBERS:,} files")
    return files


def _in_zip(file: IO[bytes]) -> Iterator[Member]:
    packed = zipfile.ZipFile(file)
    return (_of_zip(packed, info) for info in packed.infolist() if not info.is_dir())


def _in_tar(file: IO[bytes]) -> Iterator[Member]:
    packed = tarfile.TarFile(fileobj=file)
    headers = islice(packed, 2 * MAX_MEMBERS)
    return (_of_tar(packed, info) for info in headers if not info.isdir())


def _inflated(file: IO[bytes], magic: bytes, budget: Budget) -> IO[bytes]:
    """A tar without its compression, up to a limit."""
    opener = next((make for start, make in OPENERS.items() if magic.startswith(start)), None)
    limit = budget.left
    content: bytes = (opener(file) if opener else file).read(limit + 1)
    budget.left = max(0, limit - len(content))  # what was too much has cost all of it
    if len(content) > limit:
        raise OSError(budget.spent)
    return BytesIO(content)


def _of_zip(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    seconds = _unix_time(info.extra)
    try:
        when = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        when = None
    if seconds is not None:
        when = datetime.fromtimestamp(seconds, UTC)
    read = partial(_read_zip, packed, info)
    return Member(info.filename[:MAX_PATH], when, seconds is not None, info.file_size, read)


def _unix_time(extra: bytes) -> int | None:
    """Seconds since 1970 in UTC, which most programs write beside a zip's own local time."""
    place = 0
    for _ in range(MAX_FIELDS):
        if place + 9 > len(extra):
            break
        kind, size, flags, seconds = struct.unpack_from("<HHBi", extra, place)
        if kind == UNIX_TIME and size >= 5 and flags & 1:
            return int(seconds)
        place += 4 + size
    return None


def _read_zip(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    _refuse_path(info.filename)
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        raise OSError("it is a link or a device")
    refuse_size(info.file_size)
    if info.file_size > max(SMALL, MAX_RATIO * info.compress_size):
        raise OSError(f"it is packed more than {MAX_RATIO} times, as no notebook is")
    try:
        return packed.read(info)
    except Exception as error:
        raise OSError(f"it is damaged or locked ({error})") from error


def _of_tar(packed: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    try:
        when = datetime.fromtimestamp(info.mtime, UTC)
    except (ValueError, OverflowError, OSError):
        when = None
    return Member(info.name[:MAX_PATH], when, True, info.size, partial(_read_tar, packed, info))


def _read_tar(packed: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    _refuse_path(info.name)
    refuse_size(info.size)
    try:
        file = packed.extractfile(info) if info.isreg() else None
        content = file.read() if file else None
    except Exception as error:
        raise OSError(f"it is damaged ({error})") from error
    if content is None:
        raise OSError("it is a link or a device")
    return content


def _refuse_path(path: str) -> None:
    if len(path) > MAX_PATH:
        raise OSError(f"its name has {len(path):,} characters, and at most {MAX_PATH:,} are taken")
    parts = path.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or parts[0].endswith(":"):
        raise OSError("its name leads out of the archive")
