"""Lanes of a trace: every row, what merges and what does not, in view and in words."""

import re
from xml.etree import ElementTree

import pytest
import torch

from course_utils.instruments import profile
from course_utils.records.traces import recorded_trace, trace_names
from course_utils.show import trace_lanes
from course_utils.show.lanes.drawing import LEFT, MAX_DEPTH, ROW, SHADES, TOP, WIDTH, Lanes
from course_utils.show.lanes.viewer import KEYS
from course_utils.traces import made, read_trace

SCALE = WIDTH - LEFT  # pixels of a whole view
SVG = "{http://www.w3.org/2000/svg}"


def bars(svg):
    """Row, left edge, width and opacity of each bar."""
    [group] = [each for each in ElementTree.fromstring(svg) if each.get("class") == "tl-bars"]
    return [
        (round((float(y) - TOP) / ROW), float(x), float(width), float(path.get("fill-opacity")))
        for path in group.iter(f"{SVG}path")
        for x, y, width in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", path.get("d"))
    ]


def texts(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def in_words(lane):
    """The number of a lane counts a GPU's streams and a process's threads, and is no rank's."""
    lane = re.sub(r"gpu:(?=\d)", "stream ", lane)
    return re.sub(r"cpu:(?=\d)", "thread ", lane)


@pytest.mark.parametrize("name", trace_names())
def test_a_recorded_trace_has_a_row_for_each_lane_and_is_small(name):
    events = recorded_trace(name)
    viewer = trace_lanes(events)
    lanes = {f"rank {each['rank']}, {in_words(each['lane'])}" for each in events}
    assert lanes <= set(texts(viewer.svg))
    assert len(viewer.svg) < 40_000  # bytes, of up to 3,801 events
    assert all(f"{lane} busy" in repr(viewer) for lane in lanes)
    assert viewer.svg == trace_lanes(events).svg


def test_bars_are_where_events_are():
    events = [
        made(0, "gpu:7", "kernel", "gemm", 0, 500),
        made(0, "gpu:9", "communication", "AllReduce", 400, 1000),
    ]
    assert bars(trace_lanes(events).svg) == [
        (0, LEFT, pytest.approx(SCALE / 2, abs=0.4), 1.0),
        (1, pytest.approx(LEFT + 0.4 * SCALE, abs=0.05), pytest.approx(0.6 * SCALE, abs=0.4), 1.0),
    ]


def test_all_gathers_have_a_colour_of_their_own_and_nccl_s_prefix_takes_no_room():
    names = ["ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"]
    events = [
        made(kind="communication", name=name, start_ns=n, end_ns=n + 1)
        for n, name in enumerate(names)
    ]
    svg = trace_lanes(events).svg
    assert {"all-gathers", "communication", "AllGather_RING_LL"} <= set(texts(svg))
    assert "all-gathers" not in texts(trace_lanes(events[1:]).svg)
    assert [row for row, *_ in bars(svg)] == [0, 0]


def test_short_events_shade_their_pixels_by_how_busy_they_were():
    """Of each pixel, 1,000 ns wide, the first half is busy; and then a whole stretch of them."""
    half = [made(start_ns=1000 * n, end_ns=1000 * n + 500) for n in range(100)]
    full = [made(start_ns=200_000 + 100 * n, end_ns=200_100 + 100 * n) for n in range(1000)]
    whole = made(lane="cpu", kind="range", end_ns=1000 * SCALE)
    drawn = [each for each in bars(trace_lanes([*half, *full, whole]).svg) if each[0] == 1]
    assert (1, LEFT, 100.0, round(SHADES / 2) / SHADES) in drawn
    assert (1, LEFT + 200.0, 100.0, 1.0) in drawn
    assert len(drawn) == 2


def test_what_an_event_calls_stands_below_it():
    spans = [("outer", 0, 900), ("inner", 100, 800), ("next", 900, 1000)]
    lanes = Lanes([made(lane="cpu", kind="cpu_op", name=n, start_ns=a, end_ns=b)
                   for n, a, b in spans], "")  # fmt: skip
    placed = [[each["name"] for each in events] for _, events in lanes.rows]
    assert placed == [["outer", "next"], ["inner"]]
    deep = [made(lane="cpu", kind="cpu_op", start_ns=n, end_ns=99 - n) for n in range(9)]
    assert len(Lanes(deep, "").rows) == MAX_DEPTH


def test_a_student_s_own_trace():
    events = read_trace(profile(lambda: torch.ones(200, 200) @ torch.ones(200, 200)).trace)
    assert "aten::mm" in texts(trace_lanes(events).svg)


def test_the_view_zooms_and_tells_what_is_pointed_at():
    viewer = trace_lanes(recorded_trace("h100x8_nanogpt_8ranks"))
    before = viewer.svg
    assert viewer.facts == KEYS
    viewer.view = [32e6, 48e6]
    assert viewer.svg != before
    assert next(text for text in texts(viewer.svg) if text.isdigit()) == "32"
    viewer.pointed = [1, 40e6]
    assert viewer.facts == (
        "rank 0, stream 23: ncclDevKernel_AllGather_RING_LL (communication), from 39 ms, 1.52 ms "
        "long, 2.2 KiB, 782 µs after its launch"
    )
    viewer.pointed = [99, 0]  # below the last row
    assert viewer.facts.startswith("rank 7, stream 37: ")
    viewer.view = [5.0, 5.0]
    assert viewer.svg


def test_pages_without_widgets_show_all_of_it_standing_still():
    viewer = trace_lanes(recorded_trace("h100_bert_small_forward"), "Sixty short kernels.")
    viewer.view = [0.0, 1e5]
    data, _ = viewer._repr_mimebundle_()
    drawing = re.search(r"<svg.*</svg>", data["text/html"])[0]
    assert texts(drawing) == texts(Lanes(viewer._lanes.events, "").svg(*viewer._lanes.whole))
    assert "<figcaption" in data["text/html"] and "Sixty short kernels." in data["text/html"]
    root = ElementTree.fromstring(drawing)
    assert root.get("role") == "img"
    said = "Sixty short kernels. rank 0, cpu busy 48%; rank 0, stream 7 busy 7%."
    assert root.get("aria-label") == said
    assert data["text/plain"] == repr(viewer) == f"Lanes: {said}"
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == viewer.model_id


def test_nothing_cannot_be_drawn():
    with pytest.raises(ValueError, match="at least one event"):
        trace_lanes([])
