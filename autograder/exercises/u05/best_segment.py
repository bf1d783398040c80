"""Check of how many layers a segment should have for the lowest peak."""

import random
from math import sqrt

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u05.segment_peak import PUBLISHED

# Every known mistake gives a different number for these sizes.
TELLS_MISTAKES_APART = (85, 1, 2)

NAMES = ("num_layers", "boundary_bytes", "layer_bytes")


def best_cases(seed: int) -> list[Case]:
    """Layers that keep little or much beside their input; equal peaks; one layer; real models."""
    rng = random.Random(seed)
    sizes = [(16, 12, 12)]
    for lowest, highest in ((1, 1), (2, 3), (4, 9), (10, 40)):
        for num_layers in (9, rng.randint(10, 19), rng.randint(20, 39), rng.randint(40, 99)):
            boundary = rng.randint(2, 99)
            sizes.append((num_layers, boundary, rng.randint(lowest, highest) * boundary))
    sizes += [TELLS_MISTAKES_APART, (1, 12, 50), *PUBLISHED]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def simulated_best(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """The same, by simulating the backward pass for segments of each length."""
    peaks = {}
    for size in range(1, num_layers + 1):
        layers = list(range(num_layers))
        segments = [layers[first : first + size] for first in range(0, num_layers, size)]
        seen = []
        while segments:
            running = segments.pop()
            seen.append(len(segments) * boundary_bytes + len(running) * layer_bytes)
        peaks[size] = max(seen)
    return min(peaks, key=lambda size: (peaks[size], size))


def _full_segments_peak(num_layers: int, size: int, boundary_bytes: int, layer_bytes: int) -> int:
    """Bytes kept while the last full segment runs; a short one after it keeps less."""
    return (num_layers // size - 1) * boundary_bytes + size * layer_bytes


def best_layers_per_segment(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """The course's own answer."""
    sizes = range(1, num_layers + 1)
    return min(sizes, key=lambda k: _full_segments_peak(num_layers, k, boundary_bytes, layer_bytes))


def _within(size: float, num_layers: int) -> int:
    return min(max(1, round(size)), num_layers)


CHECK = Check(
    cases=best_cases,
    reference=best_layers_per_segment,
    judge=EqualTo(
        simulated_best,
        Mistake(
            "Your segments are right wherever there is one best length. Which of several does the "
            "exercise ask for?",
            lambda L, u, A: min(range(L, 0, -1), key=lambda k: _full_segments_peak(L, k, u, A)),
        ),
        Mistake(
            "You take the square root of the layers always. What would a layer have to keep for "
            "that to be best?",
            lambda L, u, A: round(sqrt(L)),
        ),
        Mistake(
            "That is the number of segments by the estimate. How many layers has each of them?",
            lambda L, u, A: _within(sqrt(L * A / u), L),
        ),
        Mistake(
            "That is the estimate, rounded. It takes segments for equally long: which lengths near "
            "it keep less?",
            lambda L, u, A: _within(sqrt(L * u / A), L),
        ),
        Mistake(
            "You look for the fewest bytes after the forward pass. When are the most bytes kept?",
            lambda L, u, A: L,
        ),
        Mistake(
            "You take one layer always. What if a layer keeps hardly more than its input?",
            lambda L, u, A: 1,
        ),
        Mistake(
            "You count a short last segment like a full one. What is kept while it runs, and what "
            "while the one before it runs?",
            lambda L, u, A: min(range(1, L + 1), key=lambda k: (-(-L // k) - 1) * u + k * A),
        ),
    ),
)
