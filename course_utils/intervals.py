"""Intervals of time as (start, end): joined, taken away from one another, and their length."""

import math
from collections.abc import Iterable, Sequence

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time in intervals that neither meet nor touch, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif end > start:
            joined.append((start, end))
    return joined


def difference(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of the intervals that lie in none of the others; both are unions."""
    left: list[Span] = []
    position = 0
    for start, end in spans:
        free_from = start
        while position < len(others) and others[position][1] <= start:
            position += 1
        for other_start, other_end in others[position:]:
            if other_start >= end:
                break
            if other_start > free_from:
                left.append((free_from, other_start))
            free_from = max(free_from, other_end)
        if free_from < end:
            left.append((free_from, end))
    return left


def length(spans: Iterable[Span]) -> float:
    """Of all together."""
    return math.fsum(end - start for start, end in spans)
