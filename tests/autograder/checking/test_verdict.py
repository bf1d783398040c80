"""A verdict says what is wrong and asks its question where a reader sees both."""

import pytest

from autograder.checking.verdict import LONG, Verdict


def verdict(case: str) -> Verdict:
    return Verdict(
        exercise="u01-model-flops",
        points=0.0,
        max_points=2.0,
        sentence="Expected 6, got 3.",
        sizes=case,
        hint="Which product is missing?",
    )


def test_a_short_case_stands_before_the_hint():
    text = str(verdict("n=3"))
    assert text.splitlines()[1:] == [
        "Expected 6, got 3.",
        "Sizes: `n=3`",
        "Hint: Which product is missing?",
    ]
    assert "<details>" not in verdict("n=3")._repr_html_()


@pytest.mark.parametrize("letter", ["a", "<"])
def test_a_long_case_stands_below_the_hint_and_folded_on_a_page(letter):
    long = verdict(letter * (LONG + 1))
    *_, hint, case = str(long).splitlines()
    assert (hint, case) == ("Hint: Which product is missing?", f"Case: `{letter * (LONG + 1)}`")
    before, folded = long._repr_html_().split("<details>")
    assert "Which product is missing?" in before
    assert folded.count("&lt;" if letter == "<" else letter * LONG) >= 1
    assert letter * LONG not in before
