"""The picture of recorded steps: where they peak, and what is live there."""

import pytest

from course_utils import colours
from course_utils.records.traces import recorded_memory
from course_utils.show import recorded_timelines
from tests.course_utils.show.texts import overlapping_texts

GIB = 2**30


def test_both_recorded_steps():
    runs = {run: list(recorded_memory(run)) for run in ("fp32", "bf16 autocast")}
    picture = recorded_timelines(runs)
    assert picture.caption == (
        "Peaks on one scale. fp32: 65.54 GiB after 164 ms, weights and averages 38.22 GiB, "
        "activations 26.24 GiB, gradients 422.68 MiB, other temporaries 680.00 MiB; "
        "bf16 autocast: 63.72 GiB after 334 ms, weights and averages 38.30 GiB, "
        "activations 39.06 MiB, gradients 12.69 GiB, optimizer's temporaries 12.69 GiB."
    )
    assert not overlapping_texts(picture.figure)


def test_heights_are_sums_of_groups():
    moments = [
        (0.0, {"weights + old gradients": 2 * GIB}),
        (0.1, {"weights + old gradients": 2 * GIB, "forward feed-forward": GIB}),
        (0.2, {"weights + old gradients": 2 * GIB, "backward temporaries": 3 * GIB}),
        (0.3, {"weights + old gradients": 2 * GIB}),
    ]
    (ax,) = recorded_timelines({"a step": moments}).figure.axes
    tops = {patch.get_label(): list(patch.get_data().values) for patch in ax.patches}
    assert tops["weights and averages"] == [2, 2, 2]
    assert tops["activations"] == [2, 3, 2]
    assert tops["other temporaries"] == [2, 3, 5]
    activations = next(each for each in ax.patches if each.get_label() == "activations")
    assert activations.get_facecolor()[:3] == pytest.approx(
        [int(colours.ACTIVATIONS[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    )


def test_no_moments():
    with pytest.raises(ValueError, match="none of fp32"):
        recorded_timelines({"fp32": []})
