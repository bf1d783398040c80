"""Pictures of unit 11: bars of a layer on several devices, and a shared causal triangle."""

import pytest

from course_utils.show.context_parallel import pieces_of, shared_triangle
from course_utils.show.tensor_parallel import layer_over_ranks
from tests.course_utils.show.texts import overlapping_texts


def test_bars_say_which_number_of_devices_is_fastest():
    picture = layer_over_ranks(8192, inside=400, between=50)
    assert "fastest on 8, 3.69 ms; on eight, 39% of the time is exchange" in picture.caption
    assert overlapping_texts(picture.figure) == []
    assert "fastest on 16" in layer_over_ranks(8192, inside=400, between=400).caption


def test_the_slowest_bar_stays_below_the_top():
    axes = layer_over_ranks(8192, inside=400, between=25).figure.axes[0]
    assert max(text.xy[1] for text in axes.texts) < axes.get_ylim()[1]


def test_a_triangle_counts_the_squares_of_the_busiest_rank():
    assert pieces_of("zigzag", 3) == [[0, 5], [1, 4], [2, 3]]
    picture = shared_triangle("side by side", 4)
    assert "busiest computes 15 squares, the mean is 9" in picture.caption
    picture = shared_triangle("zigzag", 4)
    assert "busiest computes 9 squares, the mean is 9" in picture.caption
    assert overlapping_texts(picture.figure) == []


def test_another_layout_is_refused():
    with pytest.raises(ValueError, match="wants one of side by side, zigzag, got 'striped'"):
        shared_triangle("striped", 4)
