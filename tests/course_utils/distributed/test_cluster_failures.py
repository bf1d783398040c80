"""Every failure names its ranks at once, and leaves no thread behind."""

import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable

import pytest
import torch

from course_utils.distributed import (
    Comm,
    CommError,
    DeadlockError,
    MismatchError,
    RankError,
    TimeLimitError,
    VirtualCluster,
)
from course_utils.instruments import count_flops
from tests.course_utils.distributed.failing_steps import FAILURES, skips

OUTSIDE = torch.ones(3)


def another_group(comm: Comm) -> None:
    pair = comm.split(comm.rank // 2)
    if comm.rank != 3:
        pair.all_reduce(torch.ones(2))


def other_call(comm: Comm) -> None:
    if comm.rank == 2:
        comm.broadcast(torch.ones(3), 0)
    else:
        comm.all_reduce(torch.ones(3))


def other_source(comm: Comm) -> None:
    comm.broadcast(torch.ones(3), comm.rank)


def other_message(comm: Comm) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(3), 1)
    elif comm.rank == 1:
        comm.receive(torch.ones(4), 0)


def swallows(comm: Comm) -> None:
    try:
        comm.all_reduce(torch.ones(3 + comm.rank))
    except RuntimeError:
        comm.barrier()


def writes_meanwhile(comm: Comm) -> None:
    x = torch.ones(3)
    handle = comm.all_reduce(x, async_op=True)
    x /= comm.size
    handle.wait()


def shares(comm: Comm) -> None:
    comm.all_reduce(OUTSIDE)


NAMED = [
    *FAILURES,
    (other_source, MismatchError, "(3,) float32 from rank 0, and rank 1 broadcast of (3,) float32"),
    (other_message, MismatchError, "message #0 from rank 0 to rank 1: rank 0 calls send of (3,)"),
    (other_message, MismatchError, "to rank 1, and rank 1 receive of (4,) float32 from rank 0"),
    (swallows, MismatchError, "and rank 1 all_reduce of (4,) float32"),
    (writes_meanwhile, CommError, "changed its tensor before all_reduce #0 of (3,) float32 was"),
    (shares, CommError, "ranks 0 and 1 give one and the same tensor to all_reduce #0"),
]


@pytest.mark.parametrize(
    ("function", "error", "words"), NAMED, ids=[f"{each[0].__name__}" for each in NAMED]
)
def test_every_failure_is_named_at_once(function, error, words):
    start = time.monotonic()
    with pytest.raises(error) as caught:
        VirtualCluster(2).run(function)
    assert words in str(caught.value)
    assert time.monotonic() - start < 5  # far below the limit of 120 s: it was not waited for
    assert_no_rank_is_left()


def assert_no_rank_is_left() -> None:
    assert [thread for thread in threading.enumerate() if thread.name.startswith("rank")] == []


def test_ranks_in_the_same_state_are_named_together():
    with pytest.raises(DeadlockError) as caught:
        VirtualCluster(8).run(skips)
    assert str(caught.value) == (
        "deadlock: ranks 0, 2-7 wait in all_reduce #0 of (64, 64) float32; rank 1 has returned"
    )
    with pytest.raises(MismatchError, match=r"rank 0 calls all_reduce of .* rank 2 broadcast of"):
        VirtualCluster(3).run(other_call)
    with pytest.raises(DeadlockError, match=r"rank 2 waits in .* float32 among ranks 2, 3$"):
        VirtualCluster(4).run(another_group)


def test_a_deadlock_shows_a_line_that_waits():
    with pytest.raises(DeadlockError) as caught:
        VirtualCluster(2).run(skips)
    assert "comm.all_reduce(torch.ones(64, 64))" in str(caught.getrepr())


def test_the_error_of_a_rank_keeps_its_traceback():
    def raises(comm: Comm) -> None:
        comm.all_reduce(torch.ones(3))
        if comm.rank == 1:
            _ = [][comm.rank]
        comm.all_reduce(torch.ones(4))

    with pytest.raises(RankError) as caught:
        VirtualCluster(3).run(raises)
    assert str(caught.value) == (
        "rank 1 raised IndexError after all_reduce #0 of (3,) float32: list index out of range"
    )
    assert caught.value.rank == 1
    assert isinstance(caught.value.__cause__, IndexError)
    assert "_ = [][comm.rank]" in str(caught.getrepr())
    assert_no_rank_is_left()


def test_an_error_in_a_hook_belongs_to_its_rank():
    def raises(comm: Comm) -> None:
        w = torch.ones(2, requires_grad=True)
        w.register_post_accumulate_grad_hook(lambda p: comm.all_reduce(p.grad) or p.nothing)
        w.sum().backward()

    with pytest.raises(RankError, match="raised AttributeError after all_reduce #0"):
        VirtualCluster(2).run(raises)


def loops(comm: Comm) -> None:
    comm.barrier()
    while comm.rank == 1:
        pass


def computes_for_ever(comm: Comm) -> None:
    x = torch.ones(2, 2)
    while comm.rank == 1:
        x = x @ x
    comm.barrier()


def communicates_for_ever(comm: Comm) -> None:
    while True:
        comm.barrier()


def hides(comm: Comm) -> None:
    for _ in range(3):
        try:
            loops(comm)
        except BaseException:
            continue


def finishes_late(comm: Comm) -> None:
    try:
        loops(comm)
    finally:
        comm.barrier()  # never carried out


@pytest.mark.parametrize(
    "function", [loops, computes_for_ever, communicates_for_ever, hides, finishes_late]
)
def test_a_rank_that_never_returns_is_stopped(function):
    with pytest.raises(TimeLimitError, match=r"^0.3 s are used up: .*rank"):
        VirtualCluster(2, limit_seconds=0.3).run(function)
    assert_no_rank_is_left()


class Node:
    """An object that can be weakly referenced."""


def collects_for_ever(comm: Comm) -> None:
    while True:
        node = Node()
        reference = weakref.ref(node, lambda _: sum(range(2000)))
        del node, reference
        sum(range(2000))  # half of the time in the callback, half outside


def test_a_stop_that_a_callback_of_the_collector_drops_is_raised_again(monkeypatch):
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    for _ in range(5):
        with pytest.raises(TimeLimitError):
            VirtualCluster(2, limit_seconds=0.1).run(collects_for_ever)
    assert_no_rank_is_left()
    assert dropped == []


def never_ends_after_all(comm: Comm) -> None:
    try:
        comm.barrier()
    finally:
        while comm.rank == 1:
            pass


def test_a_rank_that_does_not_end_when_another_fails_is_stopped():
    with pytest.raises(RankError, match="rank 0 raised"):
        VirtualCluster(2).run(lambda comm: never_ends_after_all(comm) if comm.rank else int("x"))
    assert_no_rank_is_left()


def test_the_rank_that_runs_is_named():
    with pytest.raises(TimeLimitError) as caught:
        VirtualCluster(3, limit_seconds=1.5).run(loops)
    assert str(caught.value) == (
        "1.5 s are used up: rank 0 has returned; rank 1 runs after barrier #0; rank 2 waits for "
        "its turn after barrier #0"
    )


def test_a_rank_that_blocks_outside_of_python_is_named(monkeypatch):
    monkeypatch.setattr("course_utils.distributed.cooperative_threads.STOP_SECONDS", 0.3)
    with pytest.raises(TimeLimitError) as caught:
        VirtualCluster(2, limit_seconds=0.1).run(lambda comm: time.sleep(1.5 * (comm.rank == 1)))
    assert caught.value.__notes__ == ["rank 1 does not stop: restart the kernel to be rid of it"]
    time.sleep(1.5)
    assert_no_rank_is_left()


def test_an_interrupt_ends_all_ranks():
    def interrupted(comm: Comm) -> None:
        if comm.rank == 1:
            signal.raise_signal(signal.SIGINT)
            while True:
                pass
        comm.barrier()

    with pytest.raises(KeyboardInterrupt):
        VirtualCluster(2).run(interrupted)
    assert_no_rank_is_left()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda comm: comm.all_reduce(3.0), "all_reduce wants tensors, got float"),
        (lambda comm: comm.all_reduce(torch.ones(2, 3).t()), r"shape \(3, 2\) is not contiguous"),
        (lambda comm: comm.broadcast(torch.ones(2), 2), "there are ranks 0 to 1, got 2"),
        (lambda comm: comm.send(torch.ones(2), comm.rank), "rank 0 is this rank itself"),
        (
            lambda comm: comm.all_gather(torch.ones(3), torch.ones(2)),
            r"`output` has 2 times as many elements as `tensor`, of one dtype; got \(3,\) float32",
        ),
        (
            lambda comm: comm.reduce_scatter(torch.ones(2), torch.ones(2)),
            "`tensor` has 2 times as many elements as `output`",
        ),
        (
            lambda comm: comm.all_reduce(torch.ones(2, requires_grad=True) * 2),
            "autograd follows the tensor of shape",
        ),
        (lambda comm: torch.ones(2).dot(torch.ones(2)), "does not know `dot`"),
        (lambda comm: count_flops(lambda: torch.ones(2)), "cannot run inside VirtualCluster.run"),
    ],
    ids=[
        "type",
        "stride",
        "peer",
        "self",
        "gather",
        "scatter",
        "autograd",
        "dot",
        "nested",
    ],
)
def test_an_invalid_call_is_refused(call: Callable[[Comm], object], words: str):
    with pytest.raises(RankError, match=words):
        VirtualCluster(2).run(call)


def test_invalid_arguments_are_refused():
    with pytest.raises(TypeError, match="wants a function of comm, got int"):
        VirtualCluster(2).run(3)
    with pytest.raises(TypeError, match=r"cannot be copied \(cannot pickle .*make it inside"):
        VirtualCluster(2).run(skips, threading.Lock())
    with pytest.raises(ValueError, match="num_ranks must be above zero, got 0"):
        VirtualCluster(0)
    with pytest.raises(ValueError, match="flops_per_second must be above zero, got 0"):
        VirtualCluster(2, flops_per_second=0)
