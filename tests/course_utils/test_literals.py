"""What is shown can be typed back."""

import ast

import pytest

from course_utils.literals import literal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9_999, "9999"),
        (10**14, "100_000_000_000_000"),
        (-20_000, "-20_000"),
        ((), "()"),
        ((4,), "(4,)"),
        ((4, [2_000_000, 0.5]), "(4, [2_000_000, 0.5])"),
        ({"saved_bytes": 40_000}, "{'saved_bytes': 40_000}"),
        (True, "True"),
        (None, "None"),
    ],
)
def test_literal(value, text):
    assert literal(value) == text
    assert ast.literal_eval(text) == value
