"""How many conversations are fast enough."""

import numpy as np
import pytest

from course_utils.formulas.serving_rates import attention_seconds, serve
from course_utils.records.decode_rates import attention_rows

ROWS = [[1, 0.001], [3, 0.002], [5, 0.005]]


def test_the_example_of_the_card():
    assert serve(ROWS, 2, 0.003, room=9, slowest=90) == pytest.approx(
        {"most": 4, "each": 100, "all": 400}
    )


@pytest.mark.parametrize(
    ("room", "slowest", "most"), [(2, 1, 2), (9, 1, 5), (9, 1000, 0), (9, 190, 1)]
)
def test_memory_rows_or_speed_end_it(room, slowest, most):
    assert serve(ROWS, 2, 0.003, room, slowest)["most"] == most


def test_between_measured_rows_is_a_straight_line():
    rows = attention_rows("H100-SXM", 8, 4096)
    counts, seconds = zip(*rows, strict=True)
    for count in range(1, 129):
        assert attention_seconds(rows, count) == pytest.approx(np.interp(count, counts, seconds))
