"""Real steps of DDP of several sizes: what is read from their traces, and what DDP logs itself."""

from itertools import pairwise

import pytest

from course_utils.distributed import ddp_trace
from course_utils.distributed.ddp_trace import ALL_REDUCE, HAND_OVER
from course_utils.records.traces import FOLDER, about, recorded_trace
from course_utils.reference.step_trace import read_step
from course_utils.traces import by_rank, exposed_seconds, select

SIZES = [((128, 700, 900, 300), 64), ((512, 512, 1024, 512, 600, 200), 128), ((64, 1500, 900), 32)]
LOG = "buckets by DDP's own log, in bytes"


def assert_is_read_rightly(events, bucket_bytes):
    found = read_step(events)
    sent = select(events, name=ALL_REDUCE)
    assert len(select(events, name=HAND_OVER)) == len(bucket_bytes)
    assert sorted(each["bytes"] for each in sent) == sorted(bucket_bytes)  # torch's own log
    assert {each["kind"] for each in sent} == {"communication"}
    assert found["first_bytes"] == bucket_bytes[0]
    assert found["exposed_ns"] == round(1e9 * exposed_seconds(events))
    nodes = [each["end_ns"] for each in events if each["name"].startswith("autograd::")]
    # negative where another process of the machine held the last node back
    assert found["tail_ns"] == max(each["end_ns"] for each in sent) - max(nodes)


@pytest.mark.parametrize(("widths", "tokens"), SIZES)
def test_real_steps_of_other_sizes_are_read_rightly(widths, tokens):
    events, buckets = ddp_trace.recorded_step(widths, tokens, bucket_cap_mb=1)
    assert sum(buckets) == 4 * sum(a * b for a, b in pairwise(widths))
    ranks = by_rank(events)
    assert list(ranks) == [0, 1]
    for each in ranks.values():
        assert_is_read_rightly(each, buckets)


def recorded_buckets():
    return [int(each) for each in about("cpu2_ddp_step")[LOG].split(", ")]


def test_the_record_of_the_notebook_is_whole():
    assert "python -m course_utils.distributed.ddp_trace" in about("cpu2_ddp_step")["source"]
    for events in by_rank(recorded_trace("cpu2_ddp_step")).values():
        assert_is_read_rightly(events, recorded_buckets())


def test_a_record_is_written_as_it_is_read(tmp_path, monkeypatch):
    record = recorded_trace("cpu2_ddp_step"), recorded_buckets()
    monkeypatch.setattr(ddp_trace, "recorded_step", lambda *sizes: record)
    ddp_trace.main(str(tmp_path / "step.csv"))
    lines, expected = (
        path.read_text(encoding="utf-8").splitlines()
        for path in (tmp_path / "step.csv", FOLDER / "cpu2_ddp_step.csv")
    )
    differing = {line[:10] for line in set(lines) ^ set(expected)}
    assert differing <= {"# source: ", "# software"}  # the day, and the versions
