"""Which positive constants make a model of seconds agree with measured ones?

The sum of squares of ``log(predicted / measured)`` is made small, step by step: a row that is far
off counts as if it were `FAR` off in one direction, so that a run with bad luck does not bend the
constants (iteratively reweighted least squares).

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> fit(lambda c: c[0] * x + c[1], 2 * x + 3, [1.0, 1.0]).round(3).tolist()
    [2.0, 3.0]
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FAR = 0.05  # about what the good rows are off by
LARGEST_STEP, TINY, MOST_STEPS = 0.5, 1e-4, 40


def fit(predict: Callable[[Array], Array], measured: Array, start: Sequence[float]) -> Array:
    """The constants, from a first guess on.

    Args:
        predict: Seconds of all rows, from constants.
        measured: Seconds of all rows.
        start: Positive; one that changes nothing stays as it is.
    """
    wanted, logs = np.log(measured), np.log(np.array(start, dtype=float))
    damping, left = 1e-3, _left(predict, logs, wanted)
    for _ in range(MOST_STEPS):
        moved = [_left(predict, logs + each, wanted) for each in TINY * np.eye(len(logs))]
        slopes = (np.stack(moved, axis=1) - left[:, None]) / TINY
        weighted = slopes.T * np.minimum(1, FAR / np.maximum(np.abs(left), FAR))
        curvature = weighted @ slopes
        damped = curvature + np.diag(damping * np.diag(curvature) + 1e-9)
        step = np.clip(np.linalg.solve(damped, -weighted @ left), -LARGEST_STEP, LARGEST_STEP)
        then = _left(predict, logs + step, wanted)
        if _cost(then) >= _cost(left):
            damping *= 10
        else:
            logs, left, damping = logs + step, then, damping / 3
        if np.abs(step).max() < TINY:
            break
    constants: Array = np.exp(logs)
    return constants


def _left(predict: Callable[[Array], Array], logs: Array, wanted: Array) -> Array:
    left: Array = np.log(predict(np.exp(logs))) - wanted
    return left


def _cost(left: Array) -> float:
    """Squares near zero, lines beyond."""
    size = np.abs(left)
    return float(np.where(size < FAR, size**2 / 2, FAR * (size - FAR / 2)).sum())
