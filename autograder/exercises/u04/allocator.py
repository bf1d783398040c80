"""The check of unit 04 on the allocator."""

import random
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.mistakes import Symptom
from autograder.exercises.declaring import declares_check
from autograder.observers.u04 import allocator
from autograder.observers.u04.allocator import TRACED, Script
from course_utils.reference.allocator import Allocator
from course_utils.reference.allocator_replay import DIRECTIONS, MIB

# === for several exercises
# Scripts of requests to an allocator: one per rule, random ones, and that of a training step.
#
# A script is a list of whole numbers: a positive one requests that many bytes, and -n frees the
# block of the n-th request.


KIB = 2**10
KINDS = ("small", "large", "both")


def _random_script(rng: random.Random, num_requests: int, size: Callable[[], int]) -> Script:
    """A script with more requests than frees, so that some segments fill."""
    script: Script = []
    used: list[int] = []
    for _ in range(num_requests):
        if used and rng.random() < 0.45:
            script.append(-used.pop(rng.randrange(len(used))))
        else:
            script.append(size())
            used.append(sum(each > 0 for each in script))
    return script


def _small_size(rng: random.Random) -> int:
    return rng.choice(
        (
            rng.randint(1, 4 * KIB),
            512 * rng.randint(1, 6),
            rng.randint(300_000, MIB),
        )
    )


def _large_size(rng: random.Random) -> int:
    return rng.choice(
        (
            rng.randint(MIB + 1, 4 * MIB),
            rng.randint(2, 7) * MIB,
            3 * MIB,
            12 * MIB + 1,
        )
    )


def _small_scripts(rng: random.Random) -> Iterator[Script]:
    """The rules of the small pool one by one."""
    a, b = 512 * rng.randint(2, 9), 512 * rng.randint(10, 20)
    yield [1, 1, 1, -2, 600, 400]  # the worked case: a hole that is too small, then one that fits
    yield [
        MIB,
        MIB,
        MIB,
        MIB,
        -1,
        -3,
        MIB,
        MIB,
        a,
    ]  # equal ones in two segments: the lower address
    yield [rng.randint(1, 511), rng.randint(513, 1023), 512]  # rounded up
    yield [a + b, 1, a, 1, -1, -3, a - 511]  # the smallest that fits, not the first
    yield [a, 1, a, 1, a, 1, -5, -1, -3, a, a]  # of equal blocks the lowest, not the last freed
    yield [a, b, 1, -1, -2, a + b]  # joined with the one before
    yield [a, b, 1, -2, -1, a + b]  # joined with the one after
    yield [a, b, a, 1, -1, -3, -2, 2 * a + b]  # joined with both
    yield [
        b,
        1,
        -1,
        b - a,
        a,
        a - 512,
        MIB - a,
        MIB,
    ]  # what is left is split off
    yield [
        MIB,
        MIB,
        MIB,
        MIB,
        MIB,
        MIB,
        -2,
        -3,
        -5,
        MIB,
        b,
    ]  # neighbours of two segments


def _large_scripts(rng: random.Random) -> Iterator[Script]:
    """The rules of the large pool one by one, each paired with a small script.

    In order: a hole that is used whole, as its rest is too small to split off; equal blocks in two
    segments; sizes about 10 MiB, from which on segments are no longer 20 MiB; the smallest block
    that fits; the lowest of equal blocks; joining with the block before, with the one after, and
    with both; a rest that is not split off; free segments side by side, which are not joined.
    """
    a, b = MIB * rng.randint(2, 4), MIB * rng.randint(5, 8)
    little = 512 * rng.randint(1, 2000)
    yield [
        3 * MIB,
        5 * MIB,
        -1,
        2 * MIB,
        3 * MIB,
        MIB + little,
    ]
    yield [
        12 * MIB,
        12 * MIB,
        -1,
        -2,
        11 * MIB,
        11 * MIB,
        MIB + little,
    ]
    almost = 10 * MIB - rng.randint(1, 511)  # requested; the block has 10 MiB
    yield [
        almost,
        10 * MIB - 512,
        10 * MIB,
        10 * MIB + 1,
        MIB + 1,
        20 * MIB + 1,
    ]
    yield [a + b, a, 2 * MIB, b, -1, -3, 2 * MIB]
    yield [
        a,
        MIB + 1,
        a,
        MIB + 1,
        a,
        MIB + 1,
        -5,
        -1,
        -3,
        a,
        a,
    ]
    yield [a, b, 4 * MIB, -1, -2, a + b, 2 * MIB]
    yield [a, b, 4 * MIB, -2, -1, a + b, 2 * MIB]
    yield [a, b, a, 2 * MIB, -1, -3, -2, 2 * a + b - 512 * rng.randint(1, 9)]
    yield [
        4 * MIB,
        b,
        16 * MIB - b,
        -1,
        3 * MIB + little,
        -2,
        b + MIB - little,
    ]  # too little left
    yield [
        20 * MIB,
        20 * MIB,
        -1,
        -2,
        30 * MIB,
        20 * MIB,
        20 * MIB,
        MIB + little,
    ]


def allocator_cases(seed: int) -> list[Case]:
    """Each rule alone, then random scripts and one of a traced training.

    Each comes as three cases: small blocks, large blocks, and both.
    """
    rng = random.Random(seed)
    pairs = list(zip(_small_scripts(rng), _large_scripts(rng), strict=True))
    # A rest of exactly one MiB is not split off.
    more = 512 * rng.randint(1, 2000)
    large = [
        4 * MIB,
        5 * MIB,
        11 * MIB,
        -1,
        3 * MIB,
        -2,
        6 * MIB,
        MIB + more,
    ]
    pairs.append(([1, MIB, more], large))
    rows: list[dict[str, Script | str]] = [
        {"small": small, "large": large, "both": _interleaved(small, large)}
        for small, large in pairs
    ]
    rows[0]["both"] = [
        3 * MIB,
        1,
        MIB,
        MIB + 1,
        more,
    ]
    rows += [
        {
            "small": _random_script(rng, 20, lambda: _small_size(rng)),
            "large": _random_script(rng, 20, lambda: _large_size(rng)),
            "both": _random_script(rng, 20, lambda: rng.choice((_small_size, _large_size))(rng)),
        }
        for _ in range(9)
    ]
    rows[-1]["both"] = f"{TRACED}{64 * rng.randint(100, 150)}"
    return [
        {"scenario": kind, "script": row[kind], "segments": DIRECTIONS[n % 3]}
        for n, row in enumerate(rows)
        for kind in KINDS
    ]


def _interleaved(small: Script, large: Script) -> Script:
    """Two scripts with their requests in alternation, and their blocks renumbered."""
    script: Script = []
    numbers: tuple[list[int], list[int]] = ([], [])  # new ones of each script's blocks
    for pair in zip_longest(small, large):
        for request, mine in zip(pair, numbers, strict=True):
            if request is None:
                continue
            if request > 0:
                mine.append(1 + sum(each > 0 for each in script))
            script.append(request if request > 0 else -mine[-request - 1])
    return script


# === u04-allocator
# The student's caching allocator, against one that searches a plain list of blocks.
#
# An allocator is judged by how many requests it serves right, up to the first that differs in the
# address returned or in the bytes reserved by then.


@declares_check(
    "u04-allocator",
    allocator_cases,
    observer=allocator,
    symptoms=(
        Symptom(
            "Not even the first request of a script is served as the rules say. What do your "
            "`allocate` and `reserve` return, and is it the same?",
            lambda *case: {"served_requests": 0},
        ),
    ),
    scenarios=KINDS,
    fallback="course_utils.reference.allocator.Allocator",
    give_away=("course_utils.reference.allocator",),
)
def measured_allocator(**case: Any) -> dict[str, Any]:
    """Every request served, and the addresses and reserved bytes that are right."""
    right: Any = allocator.observe(Allocator, case)
    return {"served_requests": len(right["served"]), "served": right["served"]}
