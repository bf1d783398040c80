"""Rates of decoding as the tables have them."""

import pytest

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
