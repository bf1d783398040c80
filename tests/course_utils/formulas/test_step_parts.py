"""The work of a token by kind, with a pencil."""

from dataclasses import replace

from course_utils.configs import preset
from course_utils.formulas.step_parts import elementwise_bytes, token_forward_flops, token_work

MODEL, S = preset("Llama-3.2-1B"), 4096


def test_norms_residuals_and_gelu_move_eighteen_numbers():
    model = replace(MODEL, is_gated=False, ffn_size=4 * MODEL.hidden_size)
    assert elementwise_bytes(model)["layers"] == 16 * 18 * 2048 * 2
    assert elementwise_bytes(MODEL)["loss"] == 24 * 128_256


def test_products_and_attention_of_a_token_are_its_flops():
    work = token_work(MODEL, token_forward_flops(MODEL, S), is_recomputed=False)
    core = 3 * 16 * 4 * S * 2048
    assert work["products"] == 9_025_093_632 - core
    assert work["attention"] == 3.5 / 6 * core
