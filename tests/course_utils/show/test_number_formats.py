"""Pictures of number formats have captions that match what they draw."""

import pytest

from course_utils.configs import FORMATS
from course_utils.show import facts_of_formats, nearest_number, ranges_and_spacings, running_sums
from tests.course_utils.show.texts import overlapping_texts


@pytest.mark.parametrize(
    ("arguments", "bits", "words"),
    [
        ((5, 2, "0.3"), "00110101", "becomes 0.3125: relative error 0.042"),
        ((5, 2, "-1.5"), "10111110", "of mantissa is exact."),
        ((5, 2, "60000"), "01111011", "becomes 57,344: relative error 0.044"),
        ((5, 2, "70000"), "01111100", "70,000 with 5 bits of exponent and 2 of mantissa is inf"),
        ((5, 10, "1e-8"), "0" * 16, "becomes 0."),
    ],
)
def test_boxes_hold_the_bits_and_the_caption_the_numbers(arguments, bits, words):
    picture = nearest_number(*arguments)
    ax = picture.figure.axes[0]
    drawn = [text.get_text() for text in ax.texts][: len(bits)]
    assert "".join(drawn) == bits
    assert words in picture.caption
    assert overlapping_texts(picture.figure) == []


@pytest.mark.parametrize("widths", [(2, 1), (5, 10), (8, 7), (8, 23)])
@pytest.mark.parametrize("value", ["1e-38", "0.1", "1.003", "65504"])
def test_no_text_overlaps(widths, value):
    picture = nearest_number(*widths, value)
    assert overlapping_texts(picture.figure) == []


def test_ranges_of_all_formats():
    picture = ranges_and_spacings()
    ax = picture.figure.axes[0]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    assert (-24, -14) in ends  # the subnormal numbers of fp16
    assert [label.get_text().split(":")[0] for label in ax.get_yticklabels()] == list(
        reversed(FORMATS)
    )
    assert overlapping_texts(picture.figure) == []


def test_infinity_is_drawn_beyond_the_largest_number():
    picture = nearest_number(5, 10, "70000")
    drawn = [text.get_text() for text in picture.figure.axes[0].texts]
    assert {"largest: 65,504", "70,000", "∞"} <= set(drawn)
    assert overlapping_texts(picture.figure) == []


def test_facts_come_from_the_numbers():
    """Of -2, -1, 0, 0.5, 1, 1.5, 2 two lie between -1 and 1; NaN and infinity do not count."""
    numbers = [-2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, float("inf"), float("nan")]
    assert list(facts_of_formats({"some": numbers}).loc["some"]) == ["2", "0.5", "1.5", "2", "29%"]


def test_sums_and_their_stop():
    exact, short = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 2.0, 2.0]
    picture = running_sums({"exact": exact, "short": short}, stop=2.0)
    assert picture.caption == ("After 4 terms: exact 4; short 2 (relative error 0.5).")
    assert [list(line.get_ydata()) for line in picture.figure.axes[0].lines[1:]] == [exact, short]


def test_a_bit_is_as_wide_in_every_format():
    axes = [nearest_number(*widths, "0.1").figure.axes[0] for widths in ((2, 1), (8, 23))]
    assert axes[0].get_xlim() == axes[1].get_xlim()
    assert axes[0].patches[0].get_width() == axes[1].patches[0].get_width()
