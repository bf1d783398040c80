"""Adding term by term is too slow to find where a sum stops, even on the fastest machine."""

import math

from autograder.checking.lookup import check_of
from autograder.checking.scoring import score_answer


def by_adding(term: float, num_mantissa_bits: int) -> float:
    total, last = term, 0.0
    while total != last:
        spacing = 2.0 ** (math.frexp(total)[1] - 1 - num_mantissa_bits)
        last, total = total, total + spacing * round(term / spacing)
    return total


def test_adding_is_stopped_in_a_case_of_52_bits():
    result = score_answer(check_of("u07-stops"), by_adding, [1], limit_seconds=0.3)
    assert result.trouble is not None
    assert result.trouble["trouble"] == "stopped"
    assert "num_mantissa_bits=52" in result.sizes
