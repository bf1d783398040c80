"""Find and read the notebook in a student's folder, which may hold anything.

There may be links to somebody else's work, endless pipes, devices, endless folders. Only regular
files are opened, no link is followed, and nothing raises.
"""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from autograder.grading.intake.wording import few, listed, shown

MAX_BYTES = 120 * 2**20
MAX_DEPTH = 3
MAX_FOLDERS = 100
MAX_NOTEBOOKS = 20
MAX_NAMED = 10_000
"""Cells that a notebook may name and that are looked at."""
KEPT = "before"
"""The folder of notebooks that were replaced by later ones."""

KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True)
class Found:
    """The bytes of a student's notebook, or None, and what a teacher should know about them."""

    raw: bytes | None
    remarks: tuple[str, ...] = ()


Candidate = tuple[str, Callable[[], bytes]]
"""A file's path, and a function that reads it or raises OSError with a sentence."""


def find(folder: Path, unit: str, is_written: Callable[[bytes], bool] = bool) -> Found:
    """The notebook of a unit in one student's folder; never raises.

    Args:
        folder: What the student handed in, `submitted/<student>/<unit>`.
        unit: Name of the unit's folder, which is the notebook's name too.
        is_written: Whether a file holds any answer; one that does wins.
    """
    remarks: list[str] = []
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return Found(
                None, (f"{shown(folder.name)} is a link or no folder: it was left alone.",)
            )
        found = choose(islice(_notebooks(folder, remarks), MAX_NOTEBOOKS), unit, is_written)
    except OSError as error:
        found = Found(None, (f"The folder cannot be read ({error.strerror}).",))
    return Found(found.raw, (*found.remarks, *few(remarks)))


def choose(
    candidates: Iterable[Candidate], unit: str, is_written: Callable[[bytes], bool] = bool
) -> Found:
    """The notebook of a unit among files: written, by its name, else with most of its cells."""

    def rank(path: str, raw: bytes) -> tuple[bool | int, ...]:
        return (is_written(raw), *_rank(path, raw, unit))

    best: tuple[str, bytes | None] = ("", None)
    highest: tuple[bool | int, ...] = ()
    names, remarks = [], []
    for path, read in candidates:
        try:
            raw = read()
        except OSError as error:
            remarks.append(f"{shown(path)} was not read: {error.strerror or error}.")
            continue
        names.append(path)
        taken = best[1]
        if taken is None:  # one alone is not looked into
            best = (path, raw)
            continue
        highest = highest or rank(best[0], taken)
        if (other := rank(path, raw)) > highest:
            best, highest = (path, raw), other
    return Found(best[1], (*_about(best[0], names, unit), *remarks))


def _rank(path: str, raw: bytes, unit: str) -> tuple[bool, int, bool]:
    """Sort key of a candidate: first its name with its cells, then its cells, then its name."""
    prefix = f"u{unit[:2]}-".encode()
    named = re.finditer(rb'"(' + prefix + rb'[\w-]+)"', raw.replace(b"\0", b""))
    ids = {found[1] for found in islice(named, MAX_NAMED)}
    exact = PurePosixPath(path).name == f"{unit}.ipynb"
    return (exact and bool(ids), len(ids), _is_named(path, unit))


def _is_named(path: str, unit: str) -> bool:
    """Whether a file has the unit's name, or what browsers and JupyterLab make of it."""
    stem = PurePosixPath(path.lower()).stem
    return bool(re.fullmatch(rf"{re.escape(unit.lower())}([ _-]?\(\d+\)|-copy\d*|-\d+)*", stem))


def _about(chosen: str, names: list[str], unit: str) -> Iterator[str]:
    if not names:
        yield "There is no notebook that can be read."
    elif not _is_named(chosen, unit):
        yield f"The notebook is called {shown(chosen)} instead of {unit}.ipynb."
    if len(names) > 1:
        others = listed(shown(name) for name in names if name != chosen)
        yield f"Of {len(names)} notebooks {shown(chosen)} was taken, and not {others}."


def _notebooks(folder: Path, remarks: list[str]) -> Iterator[Candidate]:
    """Every notebook below a folder, top down; read each before the next is asked for."""

    def remark(error: OSError) -> None:
        remarks.append(f"{shown(str(error.filename))} cannot be read ({error.strerror}).")

    walk = os.fwalk(folder, onerror=remark)
    for root, folders, files, place in islice(walk, MAX_FOLDERS):
        above = Path(root).relative_to(folder)
        for name in sorted([*folders, *files]):
            if kind := _kind(name, place):
                remarks.append(f"{shown(str(above / name))} is {kind} and was left alone.")
            elif name in files and name.lower().endswith(".ipynb") and name[0] != ".":
                yield str(above / name), partial(_read, name, place, remarks)
        deeper = sorted(name for name in folders if name[0] != "." and name != KEPT)
        folders[:] = deeper if len(above.parts) < MAX_DEPTH else []


def _kind(name: str, place: int) -> str:
    """What an entry of a folder is, if it is neither a file nor a folder; else ''."""
    with contextlib.suppress(OSError):  # opening it will report the error
        return KINDS.get(stat.S_IFMT(os.lstat(name, dir_fd=place).st_mode), "")
    return ""


def _read(name: str, place: int, remarks: list[str]) -> bytes:
    """The bytes of a regular file.

    Raises:
        OSError: If it is none, is too big, or cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=place)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file")
        refuse_size(status.st_size)
        if status.st_nlink > 1:
            remarks.append(f"{shown(name)} has a second name on the disk: whose work is it?")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(descriptor)


def refuse_size(num_bytes: int) -> None:
    """Refuse a file that is too big to be a notebook.

    Raises:
        OSError: If it is too big.
    """
    if num_bytes > MAX_BYTES:
        limit = MAX_BYTES // 2**20
        raise OSError(f"it has {num_bytes / 2**20:.0f} MiB, and at most {limit} are taken")
