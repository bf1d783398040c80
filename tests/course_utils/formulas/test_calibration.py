"""Two constants of least relative errors, against a grid."""

import numpy as np
import pytest

from course_utils.formulas.calibration import calibrate


@pytest.mark.parametrize("seed", range(20))
def test_constants_are_the_best_on_a_grid_too(seed):
    rng = np.random.default_rng(seed)
    true = rng.choice([0.0, 1.5, 3.0], 2) - 0.3
    columns = rng.uniform(1, 3, (6, 3))
    noise = rng.uniform(0.9, 1.1, 6)
    measured = np.maximum(columns[:, 0] / 2, columns @ [1, *true]) * noise
    rows = np.column_stack([columns, measured])

    def squares(first, second):
        return ((columns @ [1, first, second] / measured - 1) ** 2).sum()

    found = calibrate(rows.tolist()).values()
    grid = np.arange(0, 4, 0.05)
    best = min(squares(first, second) for first in grid for second in grid)
    assert min(found) >= 0
    assert squares(*found) <= best + 1e-12
