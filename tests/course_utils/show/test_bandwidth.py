"""The picture of bus bandwidth by nodes."""

from course_utils.show import bandwidth_over_nodes


def test_the_caption_has_the_records_numbers_and_the_rings():
    caption = bandwidth_over_nodes().caption
    assert "436 GB/s in one node, 362 on two, 100 on eight, 33 on 64" in caption
    assert "the ring formula says 200 on eight" in caption
