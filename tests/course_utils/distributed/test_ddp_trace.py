"""Real steps of DDP of several sizes: what is read from their traces, and what DDP logs itself."""

from itertools import pairwise

import pytest

from course_utils.distributed import ddp_trace
from course_utils.instruments.overlap import measure_overlap
from course_utils.instruments.step_events import ALL_REDUCE, HAND_OVER, step_events
from course_utils.records.ddp_step import FILE, recorded_ddp_step
from course_utils.reference.step_trace import read_step

SIZES = [((128, 700, 900, 300), 64), ((512, 512, 1024, 512, 600, 200), 128), ((64, 1500, 900), 32)]


def chrome_trace(events):
    """The events as the course's instrument reads them, with a microsecond for a nanosecond."""
    return {
        "traceEvents": [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": each["name"],
                "ts": each["start_ns"],
                "dur": each["end_ns"] - each["start_ns"],
            }
            for each in events
        ]
    }


def assert_is_read_rightly(events, bucket_bytes):
    found = read_step(events)
    calls = [each for each in events if each["name"] == HAND_OVER]
    sent = [each for each in events if each["name"] == ALL_REDUCE]
    assert [each["bytes"] for each in calls] == bucket_bytes  # torch's own log, in order
    assert sorted(each["bytes"] for each in sent) == sorted(bucket_bytes)
    assert found["first_bytes"] == bucket_bytes[0]
    overlap = measure_overlap(chrome_trace(events))
    assert found["exposed_ns"] == round(1e6 * overlap.exposed_seconds)
    nodes = [each["end_ns"] for each in events if each["name"].startswith("autograd::")]
    # negative where another process of the machine held the last node back
    assert found["tail_ns"] == max(each["end_ns"] for each in sent) - max(nodes)


@pytest.mark.parametrize(("widths", "tokens"), SIZES)
def test_real_steps_of_other_sizes_are_read_rightly(widths, tokens):
    record = ddp_trace.recorded_step(widths, tokens, bucket_cap_mb=1)
    assert sum(record["buckets"]) == 4 * sum(a * b for a, b in pairwise(widths))
    for events in record["events"].values():
        assert_is_read_rightly(events, record["buckets"])


def test_the_record_of_the_notebook_is_whole():
    record = recorded_ddp_step()
    assert set(record["versions"]) == {"python", "torch"}
    assert record["date"]
    assert record["command"].startswith("python -m course_utils.distributed.ddp_trace")
    for events in record["events"].values():
        assert_is_read_rightly(events, record["buckets"])


def test_a_record_is_written_as_it_is_read(tmp_path, monkeypatch):
    record = recorded_ddp_step()
    record["events"] = {str(rank): events for rank, events in record["events"].items()}
    monkeypatch.setattr(ddp_trace, "recorded_step", lambda *sizes: record)
    ddp_trace.main(str(tmp_path / "step.json"))
    assert (tmp_path / "step.json").read_bytes() == FILE.read_bytes()


def test_a_trace_without_an_all_reduce_is_refused():
    with pytest.raises(ValueError, match="found no gloo:all_reduce"):
        step_events({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 0, "dur": 1}]})
