"""Batch sizes: expected numbers can be checked with a pencil."""

import math

import pytest

from course_utils.formulas.batch_size import (
    configuration,
    estimate_noise,
    fit_tradeoff,
    num_steps,
    steps_and_examples,
    token_weights,
)


def test_a_token_weighs_less_in_a_larger_micro_batch():
    # Two micro-batches of 4 and 2 tokens: 1 / (2 * 4) and 1 / (2 * 2).
    assert token_weights([3, 1, 2], 2) == [1 / 8, 1 / 8, 1 / 4]


def test_the_largest_micro_batch_that_divides_the_sequences():
    # 100 // 4 // 2 = 12 sequences per device; 5 does not divide 12, 4 does: 3 passes, 96 tokens.
    assert list(configuration(100, 4, 2, 5).values()) == [4, 3, 96]
    assert list(configuration(96, 4, 2, 6).values()) == [6, 2, 96]


def test_two_equations_for_two_unknowns():
    # |G|**2 = 1 and tr = 8: 1 + 8 / 2 = 5 and 1 + 8 / 4 = 3
    assert estimate_noise(5.0, 3.0, 2, 4) == {"squared_norm": 1, "trace": 8, "noise_scale": 8}


def test_no_noise_scale_without_a_gradient():
    # (4 * 1 - 2 * 5) / 2 = -3: by chance the estimate sees only noise
    estimate = estimate_noise(5.0, 1.0, 2, 4)
    assert estimate == {"squared_norm": -3, "trace": 16, "noise_scale": math.inf}


@pytest.mark.parametrize("batch_size", [1, 7, 30, 90, 4000])
def test_every_batch_size_lies_on_the_hyperbola(batch_size):
    point = steps_and_examples(100, 30, batch_size)
    assert point["examples"] == pytest.approx(batch_size * point["steps"])
    excess = (point["steps"] / 100 - 1) * (point["examples"] / 3000 - 1)
    assert excess == pytest.approx(1)


def test_the_critical_batch_size_takes_twice_the_fewest_steps_and_examples():
    assert steps_and_examples(100, 30, 30) == {"steps": 200, "examples": 6000}


def test_the_fit_recovers_the_hyperbola():
    sizes = [2, 9, 40, 333]
    steps = [steps_and_examples(17.0, 53.0, size)["steps"] for size in sizes]
    assert fit_tradeoff(sizes, steps) == pytest.approx((17.0, 53.0))


def test_no_other_line_has_smaller_relative_deviations():
    runs = {2: 600, 9: 110, 40: 45, 333: 18}
    found = fit_tradeoff(list(runs), list(runs.values()))

    def deviation(min_steps, critical):
        fitted = {b: steps_and_examples(min_steps, critical, b)["steps"] for b in runs}
        return sum((fitted[b] / runs[b] - 1) ** 2 for b in runs)

    for change in (0.99, 1.01):
        assert deviation(found[0] * change, found[1]) > deviation(*found)
        assert deviation(found[0], found[1] * change) > deviation(*found)


@pytest.mark.parametrize(
    ("schedule", "total", "steps"),
    [
        ([(0, 16)], 32, 2),
        ([(0, 16)], 33, 3),
        ([(0, 16), (40, 32)], 100, 5),  # 16, 32, 48 | 80, 112
        ([(0, 16), (48, 32)], 112, 5),  # 16, 32, 48 | 80, 112
        ([(0, 10), (11, 20), (15, 40)], 60, 3),  # 10, 20 | none | 60
        ([(0, 10), (50, 20)], 30, 3),  # over before the second stage
    ],
    ids=["even", "rest", "crossing", "on the boundary", "skipped stage", "ends early"],
)
def test_num_steps(schedule, total, steps):
    assert num_steps(schedule, total) == steps


def test_num_steps_of_a_real_schedule():
    # 69,000 / 16 = 4,312.5 -> 4,313 steps, 8 million tokens too many; the rest in whole steps
    schedule = [(0, 16 * 10**6), (69 * 10**9, 32 * 10**6)]
    assert num_steps(schedule, 69 * 10**9) == 4313
    assert num_steps(schedule, 790 * 10**9) == 4313 + 22_531  # 720,992 / 32 = 22,531
