"""Ranks that are generators do what ranks in threads do, and fail as they do.

That both log the same events is tested where calls are replayed.
"""

import threading

import pytest
import torch

from course_utils.distributed import (
    CommError,
    DeadlockError,
    Link,
    MismatchError,
    Network,
    RankError,
    VirtualCluster,
)

UNIT = Network(inside=Link(latency_seconds=1.0, bandwidth_bytes_per_second=1.0))
CLUSTER = VirtualCluster(4, network=UNIT)


def summed(comm, seconds, tensor):
    comm.compute(seconds)
    yield comm.all_reduce(tensor, async_op=True)
    return tensor.item()


# By hand: rank 3 calls after 30 s; an all-reduce of 4 bytes among 4 ranks takes 6 times 1 + 1 s.
def test_a_yield_waits_for_the_call():
    run = CLUSTER.run_generators(lambda comm: summed(comm, 10 * comm.rank, torch.ones(1)))
    assert run.results == [4.0] * 4
    assert run.step_seconds == 42
    assert [event.kind for event in run.of(1)] == ["compute", "communication", "wait"]
    assert run.idle_seconds(1) == 20


def test_calls_overlap_until_a_rank_waits():
    def two(comm):
        handles = [comm.all_reduce(torch.ones(1), async_op=True) for _ in range(2)]
        comm.compute(9)
        yield handles[1]
        yield handles[0]
        yield handles[0]

    run = CLUSTER.run_generators(two)
    assert run.step_seconds == 24
    assert [event.end_seconds for event in run.of(0, "wait")] == [24, 24]
    assert run.exposed_spans(0) == [(9, 24)]


def test_groups_are_made_when_all_have_come():
    def in_pairs(comm):
        yield (handle := comm.start_split(comm.rank % 2))
        pair, tensor = comm.joined(handle), torch.tensor([float(comm.rank)])
        yield pair.all_reduce(tensor, async_op=True)
        return pair.rank, pair.size, tensor.item()

    run = CLUSTER.run_generators(in_pairs)
    assert run.results == [(0, 2, 2.0), (0, 2, 4.0), (1, 2, 2.0), (1, 2, 4.0)]


def never_answered(comm):
    if comm.rank == 0:
        yield comm.receive(torch.ones(1), 1, async_op=True)


def another_shape(comm):
    yield comm.all_reduce(torch.ones(1 + comm.rank), async_op=True)


def not_waited_for(comm):
    comm.all_reduce(torch.ones(1), async_op=True)
    yield comm.all_reduce(torch.ones(1), async_op=True)


def has_an_error(comm):
    yield comm.all_reduce(torch.ones(1), async_op=True)
    yield [][comm.rank]


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (never_answered, DeadlockError, "rank 0 waits in receive #0 of (1,) float32 from rank 1"),
        (another_shape, MismatchError, "rank 1 all_reduce of (2,) float32"),
        (not_waited_for, CommError, "rank 0 returned and did not wait for all_reduce #0"),
        (has_an_error, RankError, "rank 0 raised IndexError after all_reduce #0 of (1,) float32"),
    ],
)
def test_every_failure_is_named(function, error, words):
    with pytest.raises(error) as caught:
        CLUSTER.run_generators(function)
    assert words in str(caught.value)


def test_no_thread_is_started(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", None)
    CLUSTER.run_generators(lambda comm: summed(comm, 1, torch.ones(1)))


def test_an_interrupt_is_no_error_of_a_rank():
    def interrupted(comm):
        yield comm.all_reduce(torch.ones(1), async_op=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CLUSTER.run_generators(interrupted)
