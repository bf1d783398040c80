"""What needs no model of a step: one utilisation for all, that of the nearest size, nearest rows.

Each predicts rows of a size from all other sizes alone. So do boosted trees, which the table holds
as numbers: no library of the course grows them.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from course_utils.records.sweeps import Run

PEAK = 989e12  # by which the Playbook divides
NUM_NEAREST = 5
SIZES = ("num_layers", "hidden_size")
LAYOUT = ("nodes", "data", "pipeline", "tensor", "zero_stage", "micro_batch", "num_micro_batches")

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def held_out(rows: Sequence[Run], predict: Callable[[Mask], Array]) -> Array:
    """A number for each row, from the rows of other sizes that `predict` is shown."""
    sizes = np.array([run.model for run in rows])
    found = np.zeros(len(rows))
    for size in np.unique(sizes):
        found[sizes == size] = predict(sizes != size)[sizes == size]
    return found


def features(rows: Sequence[Run], names: Sequence[str] = (*SIZES, *LAYOUT)) -> Array:
    """Powers of two of sizes and layout, a row for each run; a stage of 0 counts as half."""
    return np.array([[np.log2(getattr(run, name) or 0.5) for name in names] for run in rows])


def seconds_at_peak(rows: Sequence[Run]) -> Array:
    """Seconds of each step if devices reached their peak, FLOPs as the Playbook counts them."""
    seconds = []
    for run in rows:
        attention = 12 * run.num_layers * run.hidden_size * run.seq_len
        num_tokens = run.num_sequences * run.seq_len / (8 * run.nodes)
        seconds.append((6e9 * run.counted_params + attention) * num_tokens / PEAK)
    return np.array(seconds)


def predictions(rows: Sequence[Run]) -> dict[str, Array]:
    """Seconds of each row by each of the baselines, held out by size."""
    at_peak = seconds_at_peak(rows)
    mfu = np.log(at_peak / np.array([run.step_seconds for run in rows]))
    sizes = np.array([float(run.model) for run in rows])

    def nearest_size(seen: Mask) -> Array:
        others = np.unique(sizes[seen])
        medians = np.array([np.median(mfu[sizes == size]) for size in others])
        nearest: Array = medians[np.abs(np.log(others[:, None] / sizes)).argmin(axis=0)]
        return nearest

    logs = {
        "one MFU": held_out(rows, lambda seen: np.full(len(rows), np.median(mfu[seen]))),
        "nearest size": held_out(rows, nearest_size),
        "five nearest rows": nearest_of_other_sizes(rows, list(mfu)),
    }
    return {by: at_peak / np.exp(each) for by, each in logs.items()}


def nearest_of_other_sizes(rows: Sequence[Run], values: Sequence[float]) -> Array:
    """Mean value of the five nearest rows of other sizes."""
    places, known = features(rows), np.array(values, dtype=float)
    return held_out(rows, lambda seen: mean_of_nearest(places, known, seen))


def mean_of_nearest(places: Array, values: Array, seen: Mask) -> Array:
    """Mean value of the nearest rows that may be seen, each feature scaled by its spread."""
    scaled = places / (places.std(axis=0) + 1e-9)
    others, found = np.flatnonzero(seen), np.zeros(len(values))
    for row, place in enumerate(scaled):
        distances = ((scaled[others] - place) ** 2).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")[:NUM_NEAREST]
        found[row] = values[others[nearest]].mean()
    return found
