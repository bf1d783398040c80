"""Tokens that hide an all-reduce, by hand."""

import pytest

from course_utils.formulas.communication import min_hiding_tokens, tensor_parallel_bytes


# 1,024 parameters of 2 bytes on 4 ranks: 2 * 3/4 * 2,048 = 3,072 bytes, 48 s at 64 bytes/s. A token
# takes 4,096 FLOPs, 8 s at 512 FLOP/s: 6 tokens. On two ranks: 2,048 bytes, 32 s, 4 tokens. At 450
# FLOP/s a token takes 9.1 s: 48 / 9.1 = 5.3, so 6.
@pytest.mark.parametrize(
    ("ranks", "flops_per_second", "tokens"), [(4, 512, 6), (2, 512, 4), (1, 512, 0), (4, 450, 6)]
)
def test_tokens(ranks, flops_per_second, tokens):
    assert min_hiding_tokens(1024, ranks, 2, 64, flops_per_second) == tokens
    assert min_hiding_tokens(999, ranks, 2, 64, flops_per_second) == tokens  # parameters cancel


# u = 4 tokens * 3 numbers * 2 bytes = 24, of which a rank of two sends 12 in each half of a call.
def test_bytes_of_a_layer_by_hand():
    assert tensor_parallel_bytes(4, 3, 2, 2) == {"tensor": 96, "sequence": 96, "shards_kept": 120}
    assert set(tensor_parallel_bytes(4, 3, 1, 2).values()) == {0}
