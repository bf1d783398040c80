"""Constants of a cluster from runs that were bought there."""

import pytest

from course_utils.configs.shop import Shop, SweptRun
from course_utils.formulas import bought_runs
from course_utils.formulas.bought_runs import Constants, pace_by, predict_runs, seconds_of

CLUSTER = Constants(gpu=2, launch=0.01, turn=0.0025)
MUCH = SweptRun("much work", 1, 1, 1, 8, 10, 0.1, price=0.5, step_flops=16e12)
LITTLE = SweptRun("little work", 1, 1, 1, 8, 10, 0.01, price=0.5, step_flops=16e12)
WIDE = SweptRun("two nodes", 2, 4, 2, 7, 10, 0.01, price=1.0, step_flops=16e12)
OTHER = SweptRun("other", 2, 8, 6, 3, 20, 0.1, step_flops=16e12)
# Eight passes each: 8 · 2 · 0.1; 8 · 10 · 10 ms; 8 · 10 · (10 + 4 · 2.5) ms; 8 · 20 · (10 + 20) ms.
SECONDS = {MUCH: 1.6, LITTLE: 0.8, WIDE: 1.6}


def test_seconds_by_hand():
    assert {run: seconds_of(run, CLUSTER) for run in SECONDS} == pytest.approx(SECONDS)
    assert [pace_by(run, CLUSTER) for run in (*SECONDS, OTHER)] == [*bought_runs.KINDS, "turn"]


def test_one_run_of_each_kind_is_enough_where_nothing_scatters():
    assert predict_runs(Shop(SECONDS, 2.0), [OTHER]) == pytest.approx([4.8])


def test_all_is_fitted_where_all_is_bought():
    assert bought_runs.at_random(Shop(SECONDS, 2.0), [OTHER]) == pytest.approx([4.8], rel=1e-3)


def test_one_rate_and_the_nearest_run():
    """8 devices, 16 TFLOP in 1.6 and 0.8 s: 1.25 and 2.5 TFLOP/s; 16 devices at 1.875 and 1.25."""
    shop = Shop({MUCH: 1.6, LITTLE: 0.8}, 1.0)
    assert bought_runs.one_rate(shop, [OTHER]) == pytest.approx([16 / 16 / 1.875])
    assert bought_runs.nearest_rates(shop, [OTHER]) == pytest.approx([16 / 16 / 1.25])
