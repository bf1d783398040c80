"""Calls of ranks in a forward and in a backward pass, which a barrier of the observer parts."""

from collections.abc import Iterable, Sequence

from autograder.checking.fact import Fact
from course_utils.distributed import ClusterRun, Comm, Event


def end_forward(comm: Comm) -> None:
    """Part the passes in the log of a rank."""
    comm.barrier()


def traffic(
    run: ClusterRun, kinds: Sequence[str], *, ask_of_forward: str, ask_of_backward: str
) -> list[Fact]:
    """Calls of these kinds of the busiest rank by pass, those of other kinds, and the largest."""
    by_rank = [run.communications(rank) for rank in range(run.num_ranks)]
    passes = [_parted(events) for events in by_rank]
    flat = [each for events in by_rank for each in events]
    return [
        Fact(
            "forward_calls",
            max(_count(forward, kinds) for forward, _ in passes),
            "calls to the other ranks in the forward pass",
            ask_of_forward,
        ),
        Fact(
            "backward_calls",
            max(_count(backward, kinds) for _, backward in passes),
            "calls to the other ranks in the backward pass",
            ask_of_backward,
        ),
        Fact(
            "other_calls",
            sum(_kind(each) not in kinds for each in flat) - len(by_rank),  # one is the barrier
            "calls of another kind than the exercise names",
            "Which of your calls is of a kind that the exercise does not name, and what would a "
            "rank lack without it?",
        ),
        Fact(
            "call_bytes",
            max((each.num_bytes for each in flat), default=0),
            "bytes of the largest call",
            "Which tensor does your largest call carry, how many numbers should it have, and of "
            "how many bytes each?",
        ),
    ]


def _parted(events: Sequence[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
    """What came before the first barrier, and what came after it."""
    kinds = [_kind(each) for each in events]
    end = kinds.index("barrier") if "barrier" in kinds else len(events)
    return events[:end], events[end:]


def _count(events: Iterable[Event], kinds: Sequence[str]) -> int:
    return sum(_kind(each) in kinds for each in events)


def _kind(event: Event) -> str:
    return event.name.split(" ")[0]
