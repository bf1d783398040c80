"""Calls of ranks in a forward and in a backward pass, which a barrier of the observer parts."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from autograder.checking.result_form import require_dtype
from autograder.observing.observation import is_equal
from autograder.observing.replay import LABELS as REPLAY_LABELS
from course_utils.distributed import ClusterRun, Comm, Event

ROUNDING = 1e-9  # float64 with other orders of sums; what the exercises promise

LABELS = REPLAY_LABELS | {
    "forward_calls": "calls to the other ranks in the forward pass",
    "backward_calls": "calls to the other ranks in the backward pass",
    "other_calls": "calls of another kind than the exercise names",
    "call_bytes": "bytes of the largest call",
}


def end_forward(comm: Comm) -> None:
    """Part the passes in the log of a rank."""
    comm.barrier()


def traffic(run: ClusterRun, kinds: Sequence[str]) -> dict[str, int]:
    """Calls of these kinds of the busiest rank by pass, those of other kinds, and the largest."""
    by_rank = [run.communications(rank) for rank in range(run.num_ranks)]
    passes = [_parted(events) for events in by_rank]
    flat = [each for events in by_rank for each in events]
    return {
        "forward_calls": max(_count(forward, kinds) for forward, _ in passes),
        "backward_calls": max(_count(backward, kinds) for _, backward in passes),
        "other_calls": sum(_kind(each) not in kinds for each in flat) - len(by_rank),
        "call_bytes": max((each.num_bytes for each in flat), default=0),
    }


def _parted(events: Sequence[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
    """What came before the first barrier, and what came after it."""
    kinds = [_kind(each) for each in events]
    end = kinds.index("barrier") if "barrier" in kinds else len(events)
    return events[:end], events[end:]


def _count(events: Iterable[Event], kinds: Sequence[str]) -> int:
    return sum(_kind(each) in kinds for each in events)


def _kind(event: Event) -> str:
    return event.name.split(" ")[0]


def num_wrong(ours: Iterable[Tensor | None], theirs: Iterable[Tensor]) -> int:
    """How many tensors are other ones; a missing one counts as zeros."""
    return sum(not is_right(*pair) for pair in zip(ours, theirs, strict=True))


def is_right(ours: Tensor | None, theirs: Tensor) -> bool:
    """Whether all numbers are the same but for the order of sums."""
    ours = torch.zeros_like(theirs) if ours is None else ours
    require_dtype(ours, theirs)
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING)


def num_written(afterwards: Iterable[Tensor], before: Iterable[Tensor]) -> int:
    """How many tensors hold other numbers than before."""
    return sum(not is_equal(*pair) for pair in zip(afterwards, before, strict=True))
