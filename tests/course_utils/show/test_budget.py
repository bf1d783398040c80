"""Errors over GPU-hours."""

from course_utils.show import errors_over_hours


def test_the_caption_says_where_each_is_at_the_budget_that_is_talked_about():
    percents = {"yours": {5: 8.0, 16: 5.0}, "one MFU": {5: 50.0, 16: 44.6}}
    picture = errors_over_hours(percents, at=16)
    assert picture.caption == "Error after 16 GPU-hours: yours 5 %, one MFU 45 %."
