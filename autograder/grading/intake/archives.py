"""Read the files in an archive that is not trusted.

Files are read one at a time and never unpacked to the paths in the archive. Links, devices, paths
that lead out of the archive and files that decompress to too much are refused.
"""

import bz2
import gzip
import lzma
import stat
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
MAX_RATIO = 200
MAX_INFLATED = 4 * MAX_BYTES
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
        path: Its path in the archive.
        when: Its time in the archive, taken as UTC; None if that is no valid time.
        read: Gives its bytes; raises OSError with a sentence if they cannot or may not be read.
    """

    path: str
    when: datetime | None
    read: Callable[[], bytes]


def members(file: IO[bytes]) -> list[Member]:
    """The files of a zip or a tar, compressed or not; read them while the archive is open.

    Raises:
        BadArchive: If it is none of these, is damaged, or holds too much.
    """
    try:
        magic = file.read(6)
        file.seek(0)
        found = _in_zip(file) if magic.startswith(b"PK") else _in_tar(_inflated(file, magic))
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


def _inflated(file: IO[bytes], magic: bytes) -> IO[bytes]:
    """A tar without its compression, up to a limit."""
    opener = next((make for start, make in OPENERS.items() if magic.startswith(start)), None)
    content: bytes = (opener(file) if opener else file).read(MAX_INFLATED + 1)
    if len(content) > MAX_INFLATED:
        raise OSError(f"it grows beyond {MAX_INFLATED // 2**20} MiB")
    return BytesIO(content)


def _of_zip(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    try:
        when = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        when = None
    return Member(info.filename, when, partial(_read_zip, packed, info))


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
    return Member(info.name, when, partial(_read_tar, packed, info))


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
    parts = path.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or parts[0].endswith(":"):
        raise OSError("its name leads out of the archive")
