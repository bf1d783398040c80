"""Which two constants make a model of step times agree with measured rows?

A row is predicted as ``fixed + c1 first + c2 second`` seconds. The constants are those with the
least sum of squared *relative* errors, and neither of them is negative.

    >>> calibrate([[1, 1, 0, 3], [1, 0, 1, 4]])
    {'attention': 2.0, 'elementwise': 3.0}
"""

import math
from collections.abc import Hashable, Sequence
from itertools import combinations

NAMES = ("attention", "elementwise")
TINY = 1e-12  # a determinant beside its products: the two columns are one

Row = Sequence[float]
"""Seconds: fixed, attention, elementwise, measured."""


def calibrate(rows: Sequence[Row]) -> dict[str, float]:
    """The two constants, by the normal equations on every choice of constants that may be free.

    Returns:
        ``attention`` and ``elementwise``, zero where the best one would be negative.
    """
    relative = [[(row[3] - row[0]) / row[3], row[1] / row[3], row[2] / row[3]] for row in rows]
    choices = [_solution(relative, free) for n in range(3) for free in combinations((0, 1), n)]
    allowed = [each for each in choices if min(each) >= 0]
    best = min(allowed, key=lambda constants: _squares(relative, constants))
    return dict(zip(NAMES, best, strict=True))


def _solution(relative: Sequence[Row], free: Sequence[int]) -> list[float]:
    """Least squares in the free constants; the others are zero."""

    def dot(a: int, b: int) -> float:
        return math.fsum(row[a] * row[b] for row in relative)

    constants = [0.0, 0.0]
    if len(free) == 1:
        (one,) = free
        constants[one] = dot(one + 1, 0) / dot(one + 1, one + 1) if dot(one + 1, one + 1) else 0.0
    elif len(free) > 1:
        determinant = dot(1, 1) * dot(2, 2) - dot(1, 2) ** 2
        if determinant > TINY * dot(1, 1) * dot(2, 2):
            constants[0] = (dot(1, 0) * dot(2, 2) - dot(2, 0) * dot(1, 2)) / determinant
            constants[1] = (dot(2, 0) * dot(1, 1) - dot(1, 0) * dot(1, 2)) / determinant
    return constants


def _squares(relative: Sequence[Row], constants: Sequence[float]) -> float:
    return math.fsum(
        (c1 * constants[0] + c2 * constants[1] - want) ** 2 for want, c1, c2 in relative
    )


def predicted_seconds(row: Row, constants: dict[str, float]) -> float:
    """Seconds that the constants give for a row."""
    fixed, attention, elementwise, _ = row
    return fixed + constants["attention"] * attention + constants["elementwise"] * elementwise


def held_out_errors(rows: Sequence[Row], groups: Sequence[Hashable]) -> list[float]:
    """Throughput predicted over measured, less one, each row's with constants from other groups.

    Args:
        rows: All rows.
        groups: Of each row; its whole group is left out.
    """
    constants = {
        group: calibrate([row for row, other in zip(rows, groups, strict=True) if other != group])
        for group in set(groups)
    }
    return [
        row[3] / predicted_seconds(row, constants[group]) - 1
        for row, group in zip(rows, groups, strict=True)
    ]
