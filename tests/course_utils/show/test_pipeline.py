"""The picture of a schedule: bars of the run, gaps, what is held, and why it cannot be followed."""

import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb

from course_utils import colours
from course_utils.configs import Placement
from course_utils.instruments import simulate_pipeline
from course_utils.reference.pipeline_schedules import (
    gpipe,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)
from course_utils.show import draw_schedule, pipeline_timeline
from course_utils.show.picture import Picture
from tests.course_utils.show.texts import overlapping_texts


def widths_of(picture: Picture, colour: str) -> float:
    """Seconds of all bars of one colour together."""
    drawn = [
        each
        for each in picture.figure.axes[0].collections
        if isinstance(each, PolyCollection) and len(each.get_facecolor())
    ]
    of_colour = [each for each in drawn if tuple(each.get_facecolor()[0][:3]) == to_rgb(colour)]
    boxes = [path.get_extents() for each in of_colour for path in each.get_paths()]
    return sum(box.width for box in boxes if box.height > 0.3)


def test_bars_are_the_actions_of_the_run():
    run = simulate_pipeline(one_forward_one_backward(4, 8), 8)
    picture = pipeline_timeline(run)
    assert widths_of(picture, colours.COMPUTED) == pytest.approx(4 * 8)
    assert widths_of(picture, colours.COMPUTE) == pytest.approx(4 * 16)
    assert picture.caption == (
        "33 seconds; the stages are idle 27 % of them. Micro-batches in flight, at most: "
        "4, 3, 2, 1."
    )
    halves = pipeline_timeline(simulate_pipeline(zero_bubble(4, 8), 8))
    assert widths_of(halves, colours.GRADIENTS) == pytest.approx(4 * 8)


def test_no_text_lies_on_another():
    for picture in (
        draw_schedule(gpipe, 4, 8),
        draw_schedule(interleaved, 4, 8, 2),
        draw_schedule(zero_bubble, 3, 9),
    ):
        assert picture is not None
        assert overlapping_texts(picture.figure) == []


def test_a_deadlock_is_drawn_as_far_as_it_goes():
    picture = pipeline_timeline(simulate_pipeline(one_forward_one_backward(3, 4)[::-1], 4))
    assert "deadlock: stage 0 waits in B0 for B0 of stage 1" in picture.caption
    texts = [text.get_text().strip() for text in picture.figure.axes[0].texts]
    assert [text for text in texts if "?" in text] == ["B0 ?", "F1 ?", "F1 ?"]
    assert pipeline_timeline(simulate_pipeline([[], []], 1)).caption.startswith("This schedule")


def test_what_a_function_returns_is_drawn_or_refused(capsys):
    def stub(num_stages: int, num_micro_batches: int) -> list[list[tuple[str, int, int]]]:
        raise NotImplementedError

    assert draw_schedule(stub, 2, 3) is None
    assert capsys.readouterr().out == "stub(2, 3): not written yet.\n"
    with pytest.raises(TypeError, match="a list of lists of actions"):
        draw_schedule(lambda p, m: None, 2, 3)
    picture = draw_schedule(interleaved, 2, 4, 2)
    assert picture is not None
    run = simulate_pipeline(interleaved(2, 4, 2), 4, Placement(2, 2))
    assert picture.caption.startswith(f"{float(run.seconds) / 2:g} seconds")
