"""Check of how many layers a segment should have for the lowest peak."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
SIZES, BEST = "range(1, num_layers + 1)", "min(range(1, num_layers + 1), key=most_kept)"
SEGMENTS, BYTES = "num_layers // size", "size * layer_bytes"


def _estimate(ratio: str, how: str) -> dict[str, str]:
    """The estimate from a ratio of bytes, rounded and held within the layers."""
    rounded = how.format(f"(num_layers * {ratio}) ** 0.5")
    return {BEST: f"min(max(1, {rounded}), num_layers)"}


ROUNDED = "round({})", "int({})", "-int(-{} // 1)"
EDITS = (
    Edit(
        "You try no length beyond the square root of the layers. Why could the best one not be "
        "longer?",
        {SIZES: "range(1, int(num_layers**0.5) + 1)"},
    ),
    Edit(
        "Your segments are right wherever there is one best length. Which of several does the "
        "exercise ask for?",
        {SIZES: "range(num_layers, 0, -1)"},
    ),
    Edit(
        "You compare the two lengths beside the estimate. How far from it may the best one lie, "
        "where segments are not equally long?",
        {
            "return min(": "ratio = boundary_bytes / layer_bytes\n"
            "    root = max(1, int((num_layers * ratio) ** 0.5))\n    return min(",
            SIZES: "(root, root + 1)",
        },
    ),
    *(
        Edit(
            "You always take the square root of the layers. What would a layer have to keep for "
            "that to be best?",
            _estimate("1", how),
        )
        for how in ROUNDED
    ),
    *(
        Edit(
            "That is the number of segments by the estimate. How many layers has each of them?",
            _estimate("layer_bytes / boundary_bytes", how),
        )
        for how in ROUNDED
    ),
    *(
        Edit(
            "That is the estimate, rounded. It assumes segments of equal length: which lengths "
            "near it keep less?",
            _estimate("boundary_bytes / layer_bytes", how),
        )
        for how in ROUNDED
    ),
    Edit(
        "You look for the fewest bytes after the forward pass. When are most bytes kept?",
        {BEST: "num_layers"},
    ),
    Edit(
        "You always take one layer. What if a layer keeps hardly more than its input?",
        {BEST: "1"},
    ),
    Edit(
        "You take the length with the highest peak. Which one does the exercise ask for?",
        {BEST: BEST.replace("min", "max")},
    ),
    Edit(
        "Those are bytes: the lowest peak itself. Which number does the exercise ask for?",
        {BEST: f"min(most_kept(size) for size in {SIZES})"},
    ),
    Edit(
        "That is how many segments there are if they have the best length. How many layers has "
        "each of them?",
        {BEST: f"-(-num_layers // {BEST})"},
    ),
    Edit(
        "One less than the best in every case. Which length stands at place 0 of your list?",
        {BEST: f"{BEST} - 1"},
    ),
    Edit(
        "You count a short last segment like a full one. What is kept while it runs, and what "
        "while the one before it runs?",
        {SEGMENTS: "-(-num_layers // size)"},
    ),
    Edit(
        "You take the input off every layer of the segment that runs again. Which of these inputs "
        "lies in memory as the segment's own, and which only as the layer's?",
        {BYTES: "size * (layer_bytes - boundary_bytes)"},
    ),
    Edit(
        "You try only lengths that divide the layers. May the last segment be shorter?",
        {SIZES: "[k for k in range(1, num_layers + 1) if num_layers % k == 0]"},
    ),
    Edit(
        "You take the last segment for the largest. Which one keeps most when the last is short?",
        {
            SEGMENTS: "-(-num_layers // size)",
            BYTES: "((num_layers - 1) % size + 1) * layer_bytes",
        },
    ),
)

CHECK = Check(cases=best_cases, judge=EqualTo(simulated_best, *edited("u05-best-segment", EDITS)))
