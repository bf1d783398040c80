"""Check of how many layers a segment should have for the lowest peak."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u05.segment_peak import PUBLISHED

# Every known mistake gives a different number for these sizes.
TELLS_MISTAKES_APART = (85, 1, 2)
# The best length is above the square root of the layers.
LONG_SEGMENTS = ((3, 12, 12), (8, 12, 12))

NAMES = ("num_layers", "boundary_bytes", "layer_bytes")


def best_cases(seed: int) -> list[Case]:
    """Layers that keep little or much beside their input; equal peaks; one layer; real models."""
    rng = random.Random(seed)
    sizes = [(16, 12, 12)]
    for lowest, highest in ((1, 1), (2, 3), (4, 9), (10, 40)):
        for num_layers in (9, rng.randint(10, 19), rng.randint(20, 39), rng.randint(40, 99)):
            boundary = rng.randint(2, 99)
            sizes.append((num_layers, boundary, rng.randint(lowest, highest) * boundary))
    for num_layers, boundary, layer in (TELLS_MISTAKES_APART, *LONG_SEGMENTS, (1, 12, 50)):
        times = rng.randint(1, 99)
        sizes.append((num_layers, times * boundary, times * layer))
    sizes += [(rng.randint(16, 99), *each) for each in PUBLISHED]
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


CHECK = Check(cases=best_cases, judge=EqualTo(simulated_best, *mistakes_of("u05-best-segment")))
