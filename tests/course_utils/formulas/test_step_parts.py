"""The work of a token by kind, with a pencil."""

from dataclasses import replace

import pytest

from course_utils.configs import machine_of, preset
from course_utils.formulas.step_parts import elementwise_bytes, token_seconds

MODEL, MACHINE, S = preset("Llama-3.2-1B"), machine_of("A100-80", 4), 4096


def test_norms_residuals_and_gelu_move_eighteen_numbers():
    model = replace(MODEL, is_gated=False, ffn_size=4 * MODEL.hidden_size)
    assert elementwise_bytes(model)["layers"] == 16 * 18 * 2048 * 2
    assert elementwise_bytes(MODEL)["loss"] == 24 * 128_256


def test_at_the_peak_a_token_takes_its_flops():
    parts = token_seconds(MODEL, S, MACHINE, is_recomputed=False)
    core = 3 * 16 * 4 * S * 2048
    assert parts["products"] == pytest.approx((9_025_093_632 - core) / 271.2e12)
    assert parts["attention"] == pytest.approx(3.5 / 6 * core / 312e12)
