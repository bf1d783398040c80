"""Pictures of data parallelism say in words what they draw."""

import pytest

from course_utils.distributed import ClusterRun, Event
from course_utils.show import (
    exposed_over_tokens,
    step_over_bucket_bytes,
    tokens_per_second_over_devices,
)
from tests.course_utils.show.texts import overlapping_texts


def run(compute_seconds: float) -> ClusterRun:
    """A call that starts halfway through the computation and takes a second."""
    start = compute_seconds / 2
    events = (
        Event(0, "compute", "backward", 0.0, compute_seconds),
        Event(0, "communication", "all_reduce #0", start, start + 1, 4),
    )
    return ClusterRun(results=[None], events=events)


PICTURES = {
    "buckets": lambda: step_over_bucket_bytes(
        {"10 µs": {2**20: 0.009, 2**22: 0.006, 2**24: 0.007}, "2 µs": {2**20: 0.006, 2**22: 0.007}},
        0.005,
    ),
    "tokens": lambda: exposed_over_tokens({256: run(1.0), 1024: run(4.0)}, 500),
    "devices": lambda: tokens_per_second_over_devices(
        {"measured": {8: 40.0, 16: 30.0}, "weak": {8: 10.0, 16: 9.0}, "strong": {8: 5.0, 16: 1.0}}
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_overlaps(name):
    assert overlapping_texts(PICTURES[name]().figure) == []


# Computation 0-1 s, message 0.5-1.5 s: half a second of 1.5 is exposed; with 4 s nothing is.
def test_captions():
    captions = {name: make().caption for name, make in PICTURES.items()}
    assert "4 MiB (10 µs, 6.00 ms), 1 MiB (2 µs, 6.00 ms); computation" in captions["buckets"]
    assert "alone takes 5.00 ms" in captions["buckets"]
    assert "from 33 % at 256 tokens to 0 % at 1,024" in captions["tokens"]
    assert "75 % (measured); 90 % (weak); 20 % (strong)" in captions["devices"]
