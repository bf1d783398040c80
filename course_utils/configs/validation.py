"""Sizes and names that make no sense are refused where they are written, in one sentence."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

Found = TypeVar("Found")


def require_positive(owner: str, **sizes: object) -> None:
    """Refuse sizes that are not whole numbers above zero.

    Raises:
        TypeError: If a size is no int.
        ValueError: If a size is zero or negative.
    """
    for name, size in sizes.items():
        if _whole(owner, name, size) <= 0:
            raise ValueError(f"{owner}: {name} must be above zero, got {size}")


def require_not_negative(owner: str, **sizes: object) -> None:
    """Refuse sizes that are not whole numbers of at least zero.

    Raises:
        TypeError: If a size is no int.
        ValueError: If a size is negative.
    """
    for name, size in sizes.items():
        if _whole(owner, name, size) < 0:
            raise ValueError(f"{owner}: {name} must be zero or above, got {size}")


def _whole(owner: str, name: str, size: object) -> int:
    if type(size) is not int:
        raise TypeError(f"{owner}: {name} must be a whole number, got {size!r}; write an int")
    return size


def require_divides(owner: str, **sizes: int) -> None:
    """Refuse two sizes of which the second does not divide the first without a remainder.

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
    """What is known under a name.

    Raises:
        ValueError: If there is nothing; the message lists the near names.
    """
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
    raise ValueError(f"there is no {kind} {name!r}; near it: {', '.join(near)}")
