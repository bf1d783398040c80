"""The files of practice packs: a zip for each unit, with a few members for each exercise.

An exercise is read without the others. The bytes of a zip depend on the zlib of the machine that
wrote it, so what is compared is always what is in it.
"""

import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from autograder.files import write_zip

FOLDER = Path("autograder", "practice")
SUFFIXES = (".json", ".safetensors")


def path_of(root: Path, exercise: str) -> Path:
    """The zip of an exercise's unit.

    Args:
        root: The course's folder.
        exercise: Id of the exercise.
    """
    return root / FOLDER / f"{exercise.split('-', maxsplit=1)[0]}.zip"


def is_there(root: Path, exercise: str, *, again: bool = False) -> bool:
    """Whether an exercise has a pack, or one with new sizes."""
    path = path_of(root, exercise)
    if not path.exists():
        return False
    with zipfile.ZipFile(path) as archive:
        return _names(exercise, again=again)[0] in archive.namelist()


def text_and_tensors(root: Path, exercise: str, *, again: bool = False) -> tuple[str, bytes]:
    """A pack's JSON, and its tensors in safetensors form; these are empty where it has none.

    Raises:
        FileNotFoundError: If the exercise has no such pack.
    """
    names = _names(exercise, again=again)
    found = _members(path_of(root, exercise), names.__contains__)
    if not found:
        raise FileNotFoundError(f"{path_of(root, exercise).name} has no {names[0]}")
    text, tensors = (found.get(name, b"") for name in names)
    return text.decode(), tensors


def named(exercise: str, text: str, tensors: bytes, *, again: bool = False) -> dict[str, bytes]:
    """The members that hold a pack."""
    contents = zip(_names(exercise, again=again), (text.encode(), tensors), strict=True)
    return {name: content for name, content in contents if content}


def members_of(root: Path, exercise: str) -> dict[str, bytes]:
    """All that is kept of an exercise, by name, in order."""
    names = _all_names(exercise)
    return dict(sorted(_members(path_of(root, exercise), names.__contains__).items()))


def replace(root: Path, new: Mapping[str, Mapping[str, bytes]]) -> None:
    """Put new members in the place of all that was kept of some exercises of one unit."""
    path = path_of(root, next(iter(new)))
    replaced = {name for exercise in new for name in _all_names(exercise)}
    members = _members(path, lambda name: name not in replaced)
    for each in new.values():
        members |= each
    _write(path, members)


def keep_only(root: Path, unit: str, exercises: Iterable[str]) -> None:
    """Drop what is kept of all other exercises of a unit, given by its ``u01``."""
    path = path_of(root, unit)
    kept = {name for exercise in exercises for name in _all_names(exercise)}
    _write(path, _members(path, kept.__contains__))


def _write(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a zip, unless it holds the same already; one that would be empty is not kept."""
    if not members:
        path.unlink(missing_ok=True)
    elif members != _members(path, lambda _: True):
        write_zip(path, sorted(members.items()))


def _members(path: Path, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Contents of the wanted members of a zip, as far as they are there."""
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if is_wanted(name)}


def _names(exercise: str, *, again: bool) -> list[str]:
    name = exercise.partition("-")[2].replace("-", "_") + ".again" * again
    return [f"{name}{suffix}" for suffix in SUFFIXES]


def _all_names(exercise: str) -> list[str]:
    return _names(exercise, again=False) + _names(exercise, again=True)
