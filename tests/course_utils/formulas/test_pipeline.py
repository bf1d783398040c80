"""Formulas of pipelines against numbers made by hand; their checks compare them with runs."""

import pytest

from course_utils.formulas.pipeline import boundary_bytes, cut_into_stages, pipeline_costs


@pytest.mark.parametrize(
    ("seconds", "num_stages", "sizes"),
    [
        ([0, 2, 2, 2, 2, 5], 3, [3, 2, 1]),
        ([1, 1, 1, 1], 2, [2, 2]),
        ([7], 1, [1]),
        ([9, 1, 1], 3, [1, 1, 1]),
    ],
)
def test_cuts(seconds, num_stages, sizes):
    assert cut_into_stages(seconds, num_stages) == sizes


def test_costs():
    assert pipeline_costs(4, 8, 1, 2, 1) == {
        "seconds": 33,
        "idle_seconds": 9,
        "gpipe": 8,
        "1f1b": 3,
    }
    assert pipeline_costs(4, 2, 1, 2, 0)["1f1b"] == 2


def test_bytes_between_stages():
    assert [boundary_bytes(2, 2, 3, 10, is_v) for is_v in (False, True)] == [180, 120]
    assert boundary_bytes(1, 4, 3, 10, False) == 0
    assert boundary_bytes(8, 1, 512, 2**26, False) == 2 * 512 * 7 * 2**26
