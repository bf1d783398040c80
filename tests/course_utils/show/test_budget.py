"""Errors over GPU-hours."""

from course_utils.show import errors_over_hours


def test_the_caption_says_where_each_ends():
    picture = errors_over_hours({"yours": {5: 8.0, 16: 5.0}, "one MFU": {5: 50.0, 16: 44.6}})
    assert picture.caption == "Error after 16 GPU-hours: yours 5 %, one MFU 45 %."
