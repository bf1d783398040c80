"""Checks that reject bad sizes and names where they are written, with one sentence."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

Found = TypeVar("Found")


def require_positive(owner: str, **sizes: object) -> None:
    """Reject sizes that are not whole numbers above zero.

    Raises:
        TypeError: If a size is not an int.
        ValueError: If a size is zero or negative.
    """
    for name, size in sizes.items():
        if _require_int(owner, name, size) <= 0:
            raise ValueError(f"{owner}: {name} must be above zero, got {size}")


def require_not_negative(owner: str, **sizes: object) -> None:
    """Reject sizes that are not whole numbers of at least zero.

    Raises:
        TypeError: If a size is not an int.
        ValueError: If a size is negative.
    """
    for name, size in sizes.items():
        if _require_int(owner, name, size) < 0:
            raise ValueError(f"{owner}: {name} must be zero or above, got {size}")


def _require_int(owner: str, name: str, size: object) -> int:
    if type(size) is not int:
        raise TypeError(f"{owner}: {name} must be a whole number, got {size!r}; write an int")
    return size


def require_divides(owner: str, **sizes: int) -> None:
    """Reject two sizes if the second does not divide the first.

    Raises:
        ValueError: If there is a remainder; the message names the nearest sizes that work.
    """
    (whole_name, whole), (part_name, part) = sizes.items()
    if whole % part:
        below = whole - whole % part
        near = f"{below} or {below + part}" if below else str(part)
        raise ValueError(
            f"{owner}: {part_name} = {part} must divide {whole_name} = {whole}; "
            f"with this {part_name}, {whole_name} could be {near}"
        )


def find_named(kind: str, name: str, known: Mapping[str, Found]) -> Found:
    """Look up a name in a table.

    Raises:
        ValueError: If it is not there; the message lists similar names.
    """
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
    raise ValueError(f"there is no {kind} {name!r}; near it: {', '.join(near)}")
