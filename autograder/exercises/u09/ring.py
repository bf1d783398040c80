"""Check of an all-reduce made of messages: sums, messages, bytes and virtual time."""

import math
import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data
from autograder.exercises.u09.shared.on_ranks import (
    BYTES_PER_SECOND,
    FLOAT64_BYTES,
    LATENCY_SECONDS,
    on_ranks,
)
from course_utils.distributed import ClusterRun, Comm
from course_utils.reference.ring import ring_all_reduce

SCENARIOS = ("even parts", "a rest", "few numbers or one rank")
NUM_CASES_ALONE = 4

# Uneven messages that are all in flight at once wait a little for one another: 8 % of the time at
# most here. Pairs that wait for other pairs cost at least a quarter.
ALLOWANCE = 1.1

COLLECTIVES = "collectives"
MOST, FEWEST = "the most messages that a rank sends", "the fewest messages that a rank sends"
SENT, RECEIVED = "the most bytes that a rank sends", "the most bytes that a rank receives"
WRONG = "wrong sums (1 if there are any)"
LEFT = "numbers that stay as they were"
UNWRITTEN = "turns that write nothing into the tensor, if sums are wrong"
LATE = "time over that of the turns (1 if there is any)"


def _shape(scenario: str, number: int, num_ranks: int, rng: random.Random) -> list[int]:
    length = rng.randint(2, 4)
    if (scenario, num_ranks) == ("a rest", 4):
        return [9]  # `chunk` makes only three parts of it
    if scenario == "a rest":
        return [num_ranks * length + rng.randint(1, num_ranks - 1)]
    if scenario == "few numbers or one rank":
        return [rng.randint(1, num_ranks - 1)]
    if scenario == "even parts" and number % 2:  # rows that cannot be shared evenly
        return [num_ranks + 1, num_ranks * length]
    return [num_ranks * length]


def ring_cases(seed: int) -> list[Case]:
    """Each scenario on several numbers of ranks, even and odd ones; vectors and matrices."""
    rng = random.Random(seed)
    cases = [_case("even parts", 3, [6])]
    for scenario in SCENARIOS:
        first = 3 if scenario == "few numbers or one rank" else 2
        sizes = [first, 3, 4, 3, first]
        for number, num_ranks in enumerate(sizes):
            cases.append(_case(scenario, num_ranks, _shape(scenario, number, num_ranks, rng)))
    alone = [[rng.randint(1, 9)] for _ in range(NUM_CASES_ALONE)]
    return cases + [_case("few numbers or one rank", 1, shape) for shape in alone]


def _case(scenario: str, num_ranks: int, shape: list[int]) -> Case:
    return {"scenario": scenario, "num_ranks": num_ranks, "shape": shape}


def _tensor(rank: int, shape: list[int]) -> Tensor:
    """A rank's whole numbers: their sum is exact in any order, and they differ between ranks."""
    generator = torch.Generator().manual_seed(1000 * rank + math.prod(shape))
    numbers = 64 * torch.randint(1, 100, shape, generator=generator, dtype=torch.float64)
    return numbers.add(2**rank)


def _observe_rank(comm: Comm, answer: Any, shape: list[int]) -> tuple[Tensor, int]:
    """The tensor afterwards, and how often it was written into."""
    tensor = _tensor(comm.rank, shape)
    before = tensor._version
    answer(comm, tensor)
    return tensor, tensor._version - before


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """The tensors afterwards, and what went over the links."""
    num_ranks, shape = case["num_ranks"], case["shape"]
    run = on_ranks(num_ranks, _observe_rank, answer, shape)
    before = [_tensor(rank, shape) for rank in range(num_ranks)]
    results = [tensor for tensor, _ in run.results]
    fewest_writes = min(number for _, number in run.results)
    unchanged = [int((one == other).sum()) for one, other in zip(results, before, strict=True)]
    total = torch.stack(before).sum(0)
    is_wrong = not all(torch.equal(each, total) for each in results)
    ranks, right = range(num_ranks), wanted(**case)
    sent = [[each.num_bytes for each in run.sent_by(rank)] for rank in ranks]
    received = [_received(run, rank) for rank in ranks]
    message_bytes = FLOAT64_BYTES * _part_length(num_ranks, shape)
    seconds = right[MOST] * (LATENCY_SECONDS + message_bytes / BYTES_PER_SECOND)
    return {
        COLLECTIVES: len(run.communications()) - len(sent[0]) - len(received[0]),
        MOST: max(map(len, sent)),
        FEWEST: min(map(len, sent)),
        SENT: max(right[SENT], *map(sum, sent)),
        RECEIVED: max(right[RECEIVED], *map(sum, received)),
        UNWRITTEN: max(0, right[MOST] - fewest_writes) if is_wrong else 0,
        WRONG: int(is_wrong),
        LEFT: max(unchanged) if num_ranks > 1 else 0,
        LATE: int(run.step_seconds > seconds * ALLOWANCE),
    }


def _received(run: ClusterRun, rank: int) -> list[int]:
    """Bytes of each message that a rank receives."""
    return [each.num_bytes for each in run.communications(rank) if f"to rank {rank}" in each.name]


def _part_length(num_ranks: int, shape: list[int]) -> int:
    """Numbers in the largest part, if each rank has one part."""
    return -(-math.prod(shape) // num_ranks)


def wanted(scenario: str, num_ranks: int, shape: list[int]) -> dict[str, int]:
    """Two rounds on a ring, with at most the largest part in each message."""
    messages = 2 * (num_ranks - 1)
    num_bytes = messages * FLOAT64_BYTES * _part_length(num_ranks, shape)
    return {
        COLLECTIVES: 0,
        MOST: messages,
        FEWEST: messages,
        SENT: num_bytes,
        RECEIVED: num_bytes,
        UNWRITTEN: 0,
        WRONG: 0,
        LEFT: 0,
        LATE: 0,
    }


def _by_rows(scenario: str, num_ranks: int, shape: list[int]) -> dict[str, int]:
    """Bytes sent if parts are whole rows: in each round all parts but one."""
    if len(shape) == 1:
        return {}
    rows = [shape[0] // num_ranks + (part < shape[0] % num_ranks) for part in range(num_ranks)]
    two_spared = min(rows[part] + rows[part - 1] for part in range(num_ranks))
    return {SENT: FLOAT64_BYTES * shape[1] * (2 * shape[0] - two_spared)}


def _not_empty(scenario: str, num_ranks: int, shape: list[int]) -> dict[str, int]:
    """The most and the fewest messages that a rank sends if it skips empty parts."""
    if scenario != "few numbers or one rank":
        return {}
    turns = range(2 * (num_ranks - 1))
    counts = [
        sum((rank - turn) % num_ranks < math.prod(shape) for turn in turns)
        for rank in range(num_ranks)
    ]
    return {MOST: max(counts), FEWEST: min(counts)}


RENAMED = (
    "The messages are right, and some turns write nothing into the tensor. Which of your lines "
    "gives the name of a part to a new tensor?"
)
WRONG_SUMS = (
    "Messages and bytes are right, the sums are not. With 1, 10 and 100 on three ranks: what does "
    "each hold after each turn, and which part may it send next?"
)

CHECK = Check(
    cases=ring_cases,
    reference=ring_all_reduce,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "A collective does the work. Which messages between two ranks would do the same?",
            lambda scenario, d, shape: {COLLECTIVES: 1},
        ),
        Mistake(
            "No rank sends anything. Which rank knows the numbers of the others?",
            lambda scenario, d, shape: {MOST: 0},
        ),
        Mistake(
            "One rank talks to all others, and the rest are idle while it does. How could all "
            "links be busy at the same time?",
            lambda scenario, d, shape: {
                MOST: d - 1,
                FEWEST: 1,
                WRONG: 0,
            },
        ),
        Mistake(
            "Every rank sends the whole tensor, once for each of the others. If each part of the "
            "sum were made on one rank only, how much would have to travel?",
            lambda scenario, d, shape: {
                MOST: d - 1,
                FEWEST: d - 1,
                WRONG: 0,
            },
        ),
        Mistake(
            "Where a tensor has fewer numbers than there are ranks you leave messages out. What "
            "does the exercise say of empty ones?",
            _not_empty,
        ),
        Mistake(
            "Half of the messages: each rank now holds one part of the sum. How do the others "
            "learn it?",
            lambda scenario, d, shape: {MOST: d - 1, FEWEST: d - 1},
        ),
        Mistake(
            "Two messages too many. A part is on one rank already when it sets out: how many "
            "turns take it to all others?",
            lambda scenario, d, shape: {MOST: 2 * d},
        ),
        Mistake(
            "All sums are right, and too many bytes travel where a tensor has rows. Are your parts "
            "of one size there?",
            _by_rows,
        ),
        Mistake(RENAMED, lambda scenario, d, shape: {UNWRITTEN: d - 1}),
        Mistake(RENAMED, lambda scenario, d, shape: {UNWRITTEN: 2 * (d - 1) - 1}),
        Mistake(WRONG_SUMS, lambda scenario, d, shape: {WRONG: 1, LEFT: 0}),
        Mistake(
            "The messages come and go, and every tensor is as it was. Does your line write into "
            "its memory, or give the name of a part to a new tensor?",
            lambda scenario, d, shape: {UNWRITTEN: 2 * (d - 1), LEFT: math.prod(shape)},
        ),
        Mistake(
            "The last numbers of a tensor stay as they were. How many are left over when each part "
            "has as many as a whole-number division says?",
            lambda scenario, d, shape: {
                WRONG: 1,
                LEFT: math.prod(shape) % d,
            },
        ),
        Mistake(WRONG_SUMS, lambda scenario, d, shape: {WRONG: 1}),
        Mistake(
            "Everything is right but the time. In each turn every rank could send and receive "
            "at once: which of yours wait for another pair?",
            lambda scenario, d, shape: {LATE: 1},
        ),
        scenarios=SCENARIOS,
    ),
)
