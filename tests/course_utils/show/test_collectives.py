"""The picture of transfer and waiting says in words what it draws."""

from course_utils.show import transfer_and_waiting
from tests.course_utils.show.texts import overlapping_texts


def test_transfer_and_waiting_in_words():
    seconds = {"gather": {0: 0.004, 1: 0.001}, "scatter": {0: 0.0125, 1: 0.0025}}
    picture = transfer_and_waiting(seconds, {"gather": 0.001, "scatter": 0.003})
    assert picture.caption == (
        "A gather takes 1.0 to 4.0 ms, of which 1.0 are transfer; "
        "a scatter takes 2.5 to 12.5 ms, of which 3.0 are transfer."
    )
    assert overlapping_texts(picture.figure) == []
    widths = [round(bar.get_width(), 9) for bar in picture.figure.axes[1].patches]
    assert widths == [3.0, 2.5, 9.5, 0.0]  # transfer of both ranks, then waiting
