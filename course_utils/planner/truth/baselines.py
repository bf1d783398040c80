"""What needs no model of a step: one utilisation for all, that of the nearest size, nearest rows.

Each predicts rows of a size from all other sizes alone. So do boosted trees, which the table holds
as numbers: no library of the course grows them.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from course_utils.records.sweeps import PlaybookRun

PEAK = 989e12  # by which the Playbook divides
NUM_NEAREST = 5

Array = NDArray[np.float64]
Predict = Callable[[NDArray[np.bool_]], Array]
"""From the rows that may be seen to a number for each row."""


def held_out(runs: Sequence[PlaybookRun], predict: Predict) -> Array:
    """The number of each row, from rows of other sizes."""
    sizes = np.array([run.size for run in runs])
    found = np.zeros(len(runs))
    for size in np.unique(sizes):
        found[sizes == size] = predict(sizes != size)[sizes == size]
    return found


def seconds_at_peak(runs: Sequence[PlaybookRun]) -> Array:
    """Seconds of each step if devices reached their peak, FLOPs as the Playbook counts them."""
    seconds = []
    for run in runs:
        attention = 12 * run.num_layers * run.hidden_size * run.seq_len
        num_tokens = run.num_sequences * run.seq_len / run.num_devices
        seconds.append((6e9 * run.counted_params + attention) * num_tokens / PEAK)
    return np.array(seconds)


def features(runs: Sequence[PlaybookRun]) -> Array:
    """Powers of two of sizes and layout, a row for each run."""
    rows = [
        [
            run.num_layers,
            run.hidden_size,
            run.num_layers * run.hidden_size**2,
            run.nodes,
            run.data,
            run.pipeline,
            run.tensor,
            run.zero_stage + 1,
            run.micro_batch,
            run.num_micro_batches,
        ]
        for run in runs
    ]
    return np.log2(np.array(rows, dtype=np.float64))


def predictions(runs: Sequence[PlaybookRun]) -> dict[str, Array]:
    """Seconds of each row by each of the baselines, held out by size."""
    at_peak = seconds_at_peak(runs)
    mfu = np.log(at_peak / np.array([run.step_seconds for run in runs]))
    sizes, places = np.array([run.size for run in runs]), features(runs)

    def one_mfu(seen: NDArray[np.bool_]) -> Array:
        return at_peak / np.exp(np.median(mfu[seen]))

    def nearest_size(seen: NDArray[np.bool_]) -> Array:
        others = np.unique(sizes[seen])
        near = others[np.abs(np.log(others[:, None] / sizes)).argmin(axis=0)]
        of_size = {size: np.median(mfu[seen & (sizes == size)]) for size in others}
        return at_peak / np.exp(np.array([of_size[size] for size in near]))

    def nearest_rows(seen: NDArray[np.bool_]) -> Array:
        return at_peak / np.exp(mean_of_nearest(places, mfu, seen, NUM_NEAREST))

    methods = {"one MFU": one_mfu, "nearest size": nearest_size, "five nearest rows": nearest_rows}
    return {name: held_out(runs, method) for name, method in methods.items()}


def nearest_of_other_sizes(runs: Sequence[PlaybookRun], values: Sequence[float]) -> Array:
    """Mean value of the five nearest rows of other sizes."""
    places, known = features(runs), np.array(values, dtype=float)
    return held_out(runs, lambda seen: mean_of_nearest(places, known, seen, NUM_NEAREST))


def mean_of_nearest(places: Array, values: Array, seen: NDArray[np.bool_], count: int) -> Array:
    """Mean value of the nearest rows that may be seen, each feature scaled by its spread."""
    scaled = places / (places.std(axis=0) + 1e-9)
    others = np.flatnonzero(seen)
    found = np.zeros(len(values))
    for row, place in enumerate(scaled):
        distances = ((scaled[others] - place) ** 2).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")[:count]
        found[row] = values[others[nearest]].mean()
    return found
