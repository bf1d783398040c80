"""Gantt charts show what the log says."""

import pytest

from course_utils.distributed import ClusterRun, Event
from course_utils.show import cluster_timeline, cluster_timelines
from course_utils.show.cluster import MAX_ROWS
from tests.course_utils.show.texts import overlapping_texts

# Rank 0 runs forward for 2 ms and backward for 4, and sends a message from 3 to 8.
OVERLAPPED = ClusterRun(
    results=[None, None],
    events=(
        Event(0, "compute", "forward", 0.0, 0.002),
        Event(0, "compute", "backward", 0.002, 0.006),
        Event(0, "communication", "message #0 from rank 0 to rank 1", 0.003, 0.008, 4),
        Event(0, "wait", "message #0 from rank 0 to rank 1", 0.006, 0.008),
        Event(1, "communication", "message #0 from rank 0 to rank 1", 0.003, 0.008, 4),
        Event(1, "wait", "message #0 from rank 0 to rank 1", 0.0, 0.008),
        Event(1, "compute", "forward", 0.008, 0.010),
    ),
)


def bars(picture) -> list[list[tuple[float, float, float]]]:
    """Start, end and height above the row's axis of each bar, by what it shows."""
    collections = picture.figure.axes[0].collections
    boxes = [[path.get_extents() for path in each.get_paths()] for each in collections]
    return [[(box.x0, box.x1, box.y0) for box in each] for each in boxes]


def test_bars_are_the_spans_of_the_log():
    forward, backward, exposed, idle, calls = bars(cluster_timeline(OVERLAPPED, ranks=[0]))
    assert [span[:2] for span in forward] == [pytest.approx((0, 2))]
    assert [span[:2] for span in backward] == [pytest.approx((2, 6))]
    assert [span[:2] for span in exposed] == [pytest.approx((6, 8))]
    assert [span[:2] for span in idle] == [pytest.approx((8, 10))]
    assert [span[:2] for span in calls] == [pytest.approx((3, 8))]
    assert calls[0][2] < forward[0][2]  # links below the device


def test_captions():
    assert cluster_timeline(OVERLAPPED).caption == (
        "The step takes 10.00 ms; 5.00 ms of it are exposed communication on rank 1."
    )
    assert cluster_timelines({"a": OVERLAPPED, "b": OVERLAPPED}).caption == (
        "Rank 0 of each, on one scale: 10.00 ms, 2.00 ms of it exposed (a); 10.00 ms, 2.00 ms of "
        "it exposed (b)."
    )


def test_an_axis_that_ends_before_the_step_says_how_long_the_step_is():
    axes = [
        cluster_timeline(OVERLAPPED, [0], limit_seconds=each).figure.axes[0]
        for each in (0.005, 0.02)
    ]
    assert [ax.get_xlim()[1] for ax in axes] == [pytest.approx(5.05), pytest.approx(20.2)]
    assert [text.get_text() for ax in axes for text in ax.texts] == ["10.00 ms →"]


def test_many_idle_ranks():
    run = ClusterRun(results=[None] * 64, events=())
    picture = cluster_timeline(run)
    assert len(picture.figure.axes[0].get_yticks()) == MAX_ROWS
    assert picture.caption.startswith("16 of 64 ranks. The step takes 0.00 ms; ")


@pytest.mark.parametrize("ranks", [None, [1], [1, 0]])
def test_no_text_overlaps(ranks):
    assert overlapping_texts(cluster_timeline(OVERLAPPED, ranks).figure) == []


def test_unknown_ranks_raise():
    with pytest.raises(ValueError, match=r"there are ranks 0 to 1, got \[2\]"):
        cluster_timeline(OVERLAPPED, ranks=[2])
    with pytest.raises(ValueError, match="give at least one run"):
        cluster_timelines({})
