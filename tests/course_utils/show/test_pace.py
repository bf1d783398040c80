"""Pictures of what sets the pace and of who waits."""

from course_utils.planner.predicted import predictions
from course_utils.show import extra_by_stages, pace_by_work

LAYOUTS = [
    each
    for each in predictions("playbook_runs")
    if each.run.tensor <= 8 and each.run.nodes <= 2 and each.run.model != "80.0"
]


def test_layouts_of_one_stage_lie_on_the_line():
    own = [each for each in LAYOUTS if each.run.pipeline == 1]
    picture = pace_by_work(own, 4.5e-3)
    assert picture.caption.startswith(f"{len(own)} layouts of three sizes")
    assert "4.5 ms of launches" in picture.caption


def test_some_layouts_lie_apart():
    late = sum(each.extra_seconds > 0.2 for each in LAYOUTS)
    picture = extra_by_stages(LAYOUTS)
    assert f"{late} of them lie apart" in picture.caption
    # On a logarithmic axis a bar on top of another says nothing by its length.
    assert all(bar.get_y() == 0 for bar in picture.figure.axes[0].patches)
