"""The speed of each conversation, as a picture."""

import pytest

from course_utils.show import speed_of_each


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        ("H100-SXM", "30 of 59 (8,192 tokens)"),
        ("A100-80", "1 of 14 (32,768 tokens)"),
        ("B200", "256 or more of 1,221 (1,024 tokens)"),
    ],
)
def test_the_caption_says_how_many_are_fast_enough(hardware, words):
    assert words in speed_of_each(hardware, 60).caption
