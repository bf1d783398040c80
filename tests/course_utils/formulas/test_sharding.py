"""Bytes of a sharded state, sent bytes, and what hides a gather."""

import pytest

from course_utils.configs import preset
from course_utils.formulas.parameters import parameters
from course_utils.formulas.sharding import (
    gather_hiding_tokens,
    sharded_state_bytes,
    step_sent_bytes,
)


# Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 devices, in GB.
def test_state_bytes_are_those_of_the_paper():
    totals = [sum(sharded_state_bytes(7_500_000_000, 64, s, "bf16").values()) for s in range(4)]
    assert [round(each / 1e9, 1) for each in totals] == [120.0, 31.4, 16.6, 1.9]


# 16 N; 4 N + 12 N / d; 2 N + 14 N / d; 16 N / d.
@pytest.mark.parametrize(
    ("model", "num_ranks", "wanted"),
    [
        ("Llama-3.2-1B", 4, [19_773_030_400, 8_650_700_800, 6_796_979_200, 4_943_257_600]),
        ("Llama-3.2-1B", 64, [19_773_030_400, 5_174_972_800, 2_741_963_200, 308_953_600]),
        ("Llama-3-8B", 8, [128_484_179_968, 44_166_436_864, 30_113_479_680, 16_060_522_496]),
    ],
)
def test_state_bytes_of_models(model, num_ranks, wanted):
    num_params = sum(parameters(preset(model)).values())
    stages = [sharded_state_bytes(num_params, num_ranks, s, "bf16") for s in range(4)]
    assert [sum(each.values()) for each in stages] == wanted


# 10 numbers on 4 ranks: 3 each, two of them padding on the last.
def test_padding_is_kept_like_a_part():
    assert sharded_state_bytes(10, 4, 2, "bf16") == {
        "weights": 20,
        "gradients": 6,
        "optimizer": 36,
    }


# 1,000 numbers of 2 bytes on 4 ranks: 1,500 bytes leave a rank in each round.
@pytest.mark.parametrize(("stage", "rounds"), [(0, 2), (1, 2), (2, 6), (3, 15)])
def test_sent_bytes_with_five_micro_batches(stage, rounds):
    assert step_sent_bytes(1000, 4, stage, 5, 2) == 1500 * rounds
    with pytest.raises(ValueError, match="from 0 to 3, got -1"):
        step_sent_bytes(1000, 4, -1, 5, 2)


# 2 bytes · 7/8 · 400e12 / (2 · 200e9) = 1,750; with 7 · 10 µs more, at 4,096² numbers, 2,585.
def test_tokens_that_hide_a_gather():
    sizes = (4096**2, 8, 200 * 10**9)
    assert gather_hiding_tokens(*sizes, 0, 400 * 10**12) == 1750
    assert gather_hiding_tokens(*sizes, 10_000, 400 * 10**12) == 2585
    assert gather_hiding_tokens(*sizes[:1], 1, sizes[2], 10_000, 400 * 10**12) == 0
