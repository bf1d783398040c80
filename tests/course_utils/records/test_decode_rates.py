"""Rates of decoding as the tables have them."""

import numpy as np
import pytest

from course_utils.configs import device, preset
from course_utils.formulas.serving import cache_bytes, served_bytes, weights_read
from course_utils.records.decode_rates import (
    NAMES,
    attention_rows,
    measured_contexts,
    product_seconds,
)


def test_the_known_row_is_there():
    rows = dict(attention_rows("H100-SXM", num_kv_heads=8, context=4096))
    assert rows[64] == pytest.approx(354e-6, rel=2e-3)
    assert 2 * 64 * 4096 * 8 * 128 * 2 / rows[64] == pytest.approx(3.04e12, rel=2e-3)


@pytest.mark.parametrize("hardware", NAMES)
@pytest.mark.parametrize("num_kv_heads", [8, 1])
def test_rows_go_up_from_one_conversation(hardware, num_kv_heads):
    for context in measured_contexts(hardware, num_kv_heads):
        counts = [count for count, _ in attention_rows(hardware, num_kv_heads, context)]
        assert counts[0] == 1
        assert counts == sorted({*counts})


def test_an_unknown_context_is_refused():
    with pytest.raises(ValueError, match="4,000 cached tokens"):
        attention_rows("H100-SXM", 8, 4000)


def test_few_tokens_cost_what_one_does_and_many_do_not():
    one, few, many = (product_seconds("H100-SXM", 15e9, n) for n in (1, 32, 4096))
    assert few == pytest.approx(one, rel=0.05)
    assert many > 10 * one


def test_what_lies_between_two_rows_is_on_the_line():
    low, middle, high = (product_seconds("H100-SXM", 1e9, n) for n in (1024, 1536, 2048))
    assert middle == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("context", [4096, 8192, 32768])
def test_a_full_memory_is_read_as_fast_as_unit_13_says(context):
    """Each of as many as fit gets 38 to 40 tokens/s: attention at 3.1 TB/s, products at 2.5."""
    llama, h100 = preset("Llama-3-8B"), device("H100-SXM")
    each, weights = cache_bytes(llama, 1, context, 2), 2 * weights_read(llama, 1)
    room = (h100.memory_bytes - served_bytes(llama, 1, 1)) // each
    counts, seconds = zip(*attention_rows("H100-SXM", 8, context), strict=True)
    assert room <= counts[-1]
    attention = 32 * float(np.interp(room, counts, seconds))
    products = product_seconds("H100-SXM", weights, room)
    assert 37.5 < 1 / (attention + products) < 40
    assert room * each / attention == pytest.approx(3.1e12, rel=0.01)
    assert weights / products == pytest.approx(2.55e12, rel=0.04)
