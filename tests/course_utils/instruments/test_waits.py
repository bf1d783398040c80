"""What a GPU waits for: by hand, and on the recorded traces that unit 02 prints."""

from statistics import mean, median

import pytest

from course_utils.instruments.waits import gpu_waits
from course_utils.records.traces import about, recorded_trace
from course_utils.traces import GPU_WORK, made, select, span_seconds

LOADER = {"lane": "cpu", "kind": "range", "name": "DataLoader.__next__"}


def milliseconds(name, phase="*"):
    events = select(recorded_trace(name), phase=phase)
    waits = gpu_waits(events)
    found = {key: round(waits[key] / 1e6, 1) for key in ("busy", "loader", "launches")}
    whole_ms = 1000 * span_seconds(select(events, kind=GPU_WORK))
    found["queued"] = round(whole_ms - sum(waits[key] for key in found) / 1e6, 1)
    return found | {"whole": round(whole_ms, 1), "at_best": round(waits["at_best"], 2)}


def test_what_runs_at_once_is_busy_once():
    streams = [
        made(lane="gpu:7", start_ns=0, end_ns=30, launch_ns=0),
        made(lane="gpu:9", kind="communication", start_ns=20, end_ns=50, launch_ns=5),
    ]
    assert gpu_waits(streams) == {"busy": 50, "loader": 0, "launches": 0, "at_best": 1}


def test_a_kernel_that_is_queued_waits_for_no_cpu():
    first = made(lane="gpu:7", start_ns=0, end_ns=10, launch_ns=-9)
    second = made(lane="gpu:7", start_ns=30, end_ns=40, launch_ns=18)
    waits = gpu_waits([second, first])
    assert waits == {"busy": 20, "loader": 0, "launches": 8, "at_best": 2}


def test_a_loader_counts_where_the_gpu_has_nothing_to_do():
    work = [
        made(lane="gpu:7", start_ns=10, end_ns=20),
        made(lane="gpu:7", start_ns=50, end_ns=60, launch_ns=40),
    ]
    loads = [made(**LOADER, start_ns=0, end_ns=30), made(**LOADER, start_ns=5, end_ns=25)]
    waits = gpu_waits([*loads, *work])
    assert (waits["loader"], waits["launches"]) == (10, 10)


def test_a_launch_at_zero_is_recorded_and_a_label_on_the_gpu_is_no_loader():
    first = made(lane="gpu:7", start_ns=-20, end_ns=-10, launch_ns=-30)
    second = made(lane="gpu:7", start_ns=15, end_ns=20, launch_ns=0)
    label = made(lane="gpu", kind="range", name="DataLoader.__next__", start_ns=-20, end_ns=20)
    waits = gpu_waits([first, second, label])
    assert waits == {"busy": 15, "loader": 0, "launches": 10, "at_best": 40 / 15}


def test_a_trace_of_a_cpu_is_refused():
    with pytest.raises(ValueError, match="events of a GPU"):
        gpu_waits([made(**LOADER, end_ns=30)])


def test_recorded_gpus():
    assert milliseconds("h100_bert_small_forward") == {
        "busy": 0.3, "queued": 0.4, "loader": 0, "launches": 3.2, "whole": 3.9, "at_best": 12.63
    }  # fmt: skip
    assert milliseconds("a100_gpt_small_step_fp32", "optimizer") == {
        "busy": 11.8, "queued": 15.8, "loader": 0, "launches": 31.3, "whole": 59.0, "at_best": 4.98
    }  # fmt: skip
    assert milliseconds("v100_resnet50_dataloader", "workers=0")["loader"] == 63.4
    assert milliseconds("v100_resnet50_dataloader", "workers=4")["loader"] == 0
    assert milliseconds("h100_qwen05b_forward")["launches"] == 1.0


def test_what_unit_02_says_of_them():
    step = recorded_trace("a100_gpt_small_step_fp32")
    assert len(select(step, phase="optimizer")) == 1776 == 16 * 111
    whole = milliseconds("a100_gpt_small_step_fp32")
    assert (whole["busy"], whole["whole"]) == (148.4, 234.7)
    assert "152.6 ms" in about("a100_gpt_small_step_fp32")["software"]
    loads = select(recorded_trace("v100_resnet50_dataloader"), name="Data*", phase="workers=0")
    assert round(sum(e["end_ns"] - e["start_ns"] for e in loads) / 1e6, 1) == 88.4
    both = [milliseconds("v100_resnet50_dataloader", f"workers={n}")["whole"] for n in (0, 4)]
    assert round(both[0] - both[1]) == 53


def launched_and_finished_ms(name):
    """First launch, last launch and last end, in milliseconds from the first kernel's start."""
    work = select(recorded_trace(name), kind=GPU_WORK)
    first_ns = min(each["start_ns"] for each in work)
    launches_ns = [each["launch_ns"] for each in work]
    ends_ns = [each["end_ns"] for each in work]
    moments_ns = min(launches_ns), max(launches_ns), max(ends_ns)
    return [round((moment_ns - first_ns) / 1e6, 1) for moment_ns in moments_ns]


def test_what_a_clock_in_python_times():
    first, last, finished = launched_and_finished_ms("h100x8_nanogpt_before")
    assert (first, last, finished) == (-57.2, 1.5, 62.4)
    assert round(finished - last) == 61
    assert launched_and_finished_ms("h100_bert_small_forward") == [0, 3.9, 3.9]


def test_bert_never_has_a_long_queue():
    work = select(recorded_trace("h100_bert_small_forward"), kind=GPU_WORK)
    ahead_us = [(each["start_ns"] - each["launch_ns"]) / 1000 for each in work]
    assert [min(ahead_us), median(ahead_us), max(ahead_us)] == [5.3, 6.5, 16.7]
    lasted_us = [(each["end_ns"] - each["start_ns"]) / 1000 for each in work]
    assert round(mean(lasted_us), 1) == 5.1
    assert "with stacks and shapes (slows the CPU)" in about("h100_bert_small_forward")["software"]
    v100 = select(recorded_trace("v100_resnet50_dataloader"), kind=GPU_WORK)
    assert {each["launch_ns"] for each in v100} == {None}
