"""The Playbook's layouts as runs for sale, where they were measured and elsewhere."""

import math
import random

import pytest

from course_utils.formulas.bought_runs import (
    PUBLISHED,
    at_random,
    nearest_rates,
    one_rate,
    predict_runs,
)
from course_utils.planner.swept import sale, seconds_on, some_cluster, sweep
from course_utils.records.sweeps import runs


def test_where_they_were_measured_they_take_what_was_measured():
    measured = {}
    for run in runs("playbook_runs"):
        measured.setdefault(run.name, []).append(run.step_seconds)
    for run, seconds in zip(sweep(), seconds_on(PUBLISHED), strict=True):
        assert min(abs(seconds / each - 1) for each in measured[run.name]) < 1e-3  # four digits


def test_a_cluster_that_is_twice_as_slow_takes_twice_as_long():
    twice = seconds_on(type(PUBLISHED)(*(2 * each for each in PUBLISHED)))
    assert twice == pytest.approx([2 * each for each in seconds_on(PUBLISHED)], rel=1e-3)


def test_no_cluster_is_like_the_playbooks():
    for seed in range(50):
        for own, published in zip(some_cluster(random.Random(seed)), PUBLISHED, strict=True):
            assert 1.2 <= max(own / published, published / own) <= 2


def test_eight_gpu_hours_bought_with_care_are_near_on_the_playbooks_own_cluster():
    assert sale(0, cluster=PUBLISHED).percent(predict_runs, 8) < 10
    for other in (one_rate, nearest_rates):
        assert sale(0, cluster=PUBLISHED).percent(other, 8) > 30


def test_with_too_little_nothing_is_said():
    assert math.isinf(sale(0).percent(predict_runs, 0.1))
    assert sale(0).percent(at_random, 30) < 30
