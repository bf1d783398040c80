"""An all-reduce made of messages: the tensors that it leaves, and what went over the links."""

import math
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.precision import tolerance
from autograder.checking.result_form import has_form
from autograder.observers.comparing import is_same
from autograder.observers.on_ranks import (
    BYTES_PER_SECOND,
    LATENCY_SECONDS,
    cluster_of,
    record_on_ranks,
)
from autograder.observers.rank_log import Log
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data
from course_utils.distributed import ClusterRun, Comm, Event

MOST_RECEIVED = 200  # numbers that a rank receives; some dozens in most cases
# The numbers are larger than 64, of which float32 keeps nothing below 2**-17. This is lost there,
# and exact in float64.
LAST_BIT = 2.0**-24
ADDED = tolerance("float32", num_terms=2, cancelled=1)

# Uneven messages that are all in flight at once wait a little for one another: 8 % of the time at
# most here. Pairs that wait for other pairs cost at least a quarter.
ALLOWANCE = 1.1


def tensor_of(rank: int, shape: list[int], num_infinite: int) -> Tensor:
    """A rank's numbers: their sum is exact in float64 in any order, and they differ between ranks.

    They have more bits than float32 holds. On rank 0 some may be infinite, from the first on.
    """
    generator = torch.Generator().manual_seed(1000 * rank + math.prod(shape))
    numbers = 64 * torch.randint(1, 100, shape, generator=generator, dtype=torch.float64)
    numbers += 2**rank + LAST_BIT * (2 * rank + 1)
    if rank == 0:
        numbers.view(-1)[:num_infinite] = math.inf
    return numbers


def _on_rank(comm: Comm, answer: Any, case: Case) -> tuple[Tensor, int]:
    """The tensor afterwards, and how often it was written into."""
    tensor = tensor_of(comm.rank, case["shape"], case["num_infinite"])
    version = tensor._version
    answer(comm, tensor)
    return tensor, tensor._version - version


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The tensor of each rank afterwards, how often it was written into, and all calls."""
    recorded = record_on_ranks(case["num_ranks"], _on_rank, answer, case)
    tensors, writes = (list(each) for each in zip(*recorded.ranks, strict=True))
    return {"tensors": tensors, "writes": writes, "logs": recorded.logs}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Sums against the right ones; messages, bytes and time as the judge's own cluster has them."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    return [
        forged(forged_calls),
        *_traffic(run, right),
        *_sums(observed, right),
        Fact(
            "late",
            int(_is_late(run, right)),
            "The ring takes longer than its turns.",
            "The sums are right but come late. Which ranks are idle while others send?",
        ),
        Fact(
            "unheard_sums",
            _num_unheard(observed, right),
            "ranks with sums that no message brought",
            "Which numbers come to a rank in its messages, and can its sums be made of those and "
            "its own numbers?",
        ),
    ]


def _num_unheard(observed: Plain, right: Plain) -> int:
    """Ranks with right sums that no message has brought: numbers went some other way."""
    ranks = zip(observed["tensors"], right["before"], observed["logs"], strict=True)
    return sum(
        has_form(after, right["total"])
        and torch.equal(after, right["total"])
        and not _is_made_of(after, before, log)
        for after, before, log in ranks
    )


def _is_made_of(after: Tensor, before: Tensor, log: Log) -> bool:
    """Whether each number came in a call, or is a rank's own with others that came added to it.

    There are at most three others, as the cases have four ranks at most.
    """
    results = [each["result"].flatten() for each in log if each.get("result") is not None]
    came = set(torch.cat([after[:0].flatten(), *results]).tolist())
    if len(came) > MOST_RECEIVED:
        return False
    two = {one + other for one, other in combinations(came, 2)}
    pairs = zip(after.flatten().tolist(), before.flatten().tolist(), strict=True)
    return torch.equal(after, before) or all(
        number in came or math.isinf(number) or _is_sum(number - own, came, two)
        for number, own in pairs
    )


def _is_sum(number: float, came: set[float], two: set[float]) -> bool:
    """Whether a number is the sum of one, two or three that came."""
    return number in came or number in two or any(number - each in two for each in came)


def _traffic(run: ClusterRun, right: Plain) -> list[Fact]:
    """Messages and bytes of the ranks with most and fewest, and calls that are no messages."""
    ranks = range(run.num_ranks)
    sent = [[each.num_bytes for each in run.sent_by(rank)] for rank in ranks]
    received = [_received(run, rank) for rank in ranks]
    others = {
        each.name for rank in ranks for each in run.communications(rank) if not _is_message(each)
    }
    num_barriers = sum(name.startswith("barrier") for name in others)
    return [
        Fact(
            "collectives",
            int(len(others) > num_barriers),
            "There are collectives.",
            "Which of your calls involves all ranks at once, and which messages between two ranks "
            "could do its work?",
        ),
        Fact(
            "barriers",
            int(num_barriers > 0),
            "There are barriers.",
            "For which messages does a rank have to wait in a turn, and what does a barrier make "
            "it wait for besides?",
        ),
        Fact(
            "most_messages",
            max(map(len, sent)),
            "the most messages that a rank sends",
            "How many turns are there, and how many messages has a rank in each?",
        ),
        Fact(
            "fewest_messages",
            min(map(len, sent)),
            "the fewest messages that a rank sends",
            "How many turns are there, and how many messages has a rank in each, empty ones too?",
        ),
        Fact(
            "sent_bytes",
            max(right["sent_bytes"], *map(sum, sent)),
            "the most bytes that a rank sends",
            "How many numbers does a part hold, and how many parts does a rank send in all turns?",
        ),
        Fact(
            "received_bytes",
            max(right["received_bytes"], *map(sum, received)),
            "the most bytes that a rank receives",
            "From which rank does each rank receive in each turn, and how many numbers does each "
            "message bring?",
        ),
    ]


def _is_late(run: ClusterRun, right: Plain) -> bool:
    """Whether it took longer than all turns with the largest parts, one after the other."""
    largest_bytes = right["sent_bytes"] / max(1, right["most_messages"])
    seconds = right["most_messages"] * (LATENCY_SECONDS + largest_bytes / BYTES_PER_SECOND)
    return bool(run.step_seconds > seconds * ALLOWANCE)


def _is_message(event: Event) -> bool:
    return event.name.startswith("message")


def _received(run: ClusterRun, rank: int) -> list[int]:
    """Bytes of each message that a rank receives."""
    return [each.num_bytes for each in run.communications(rank) if f"to rank {rank}" in each.name]


def _sums(observed: Plain, right: Plain) -> list[Fact]:
    """In which way sums are wrong."""
    before, total = right["before"], right["total"]
    after = [
        each if has_form(each, total) else torch.full_like(total, math.nan)
        for each in observed["tensors"]
    ]
    is_wrong = not all(torch.equal(each, total) for each in after)
    is_rounded = is_wrong and all(is_same(each, total, ADDED) for each in after)
    unwritten = right["most_messages"] - min(observed["writes"])
    is_untouched = all(map(torch.equal, after, before))
    is_of_one = all(bool((torch.stack(before) == each).any(0).all()) for each in after)
    same = [(one == other) & other.isfinite() for one, other in zip(after, before, strict=True)]
    is_alone = len(before) == 1
    return [
        Fact(
            "rounded_sums",
            int(is_rounded),
            "Sums are right to 24 bits only.",
            "In which precision do the numbers travel, and in which are they added?",
        ),
        Fact(
            "unwritten_turns",
            max(0, unwritten) if is_wrong and not is_rounded else 0,
            "turns that write nothing into the tensor, if sums are wrong",
            "In each turn a part arrives. Which line writes it into the memory of `tensor`, and "
            "does that line run in every turn?",
        ),
        Fact(
            "of_one_rank",
            int(is_of_one and not is_untouched and not is_alone),
            "Every number is that of one rank alone.",
            "In which turns is what arrives added to a part, and can a part that holds a sum be "
            "overwritten later?",
        ),
        Fact(
            "too_large_sums",
            int(not is_rounded and any(bool((e > total).any()) for e in after)),
            "Sums are too large.",
            "Sums are too large. From which turn on must a part that arrives replace the old one?",
        ),
        Fact(
            "wrong_sums",
            int(is_wrong),
            "Sums are wrong.",
            "Sums are wrong. Follow one part from rank to rank by hand: in which turn does it "
            "arrive where, and is it added or written over?",
        ),
        Fact(
            "unchanged",
            0 if is_alone else max(int(each.sum()) for each in same),
            "numbers that stay as they were",
            "Do the parts cover the whole tensor, and is each of them written in some turn?",
        ),
    ]
