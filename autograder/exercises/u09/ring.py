"""Check of an all-reduce made of messages: sums, messages, bytes and virtual time."""

import math
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.observing import replay
from autograder.observing.u09 import ring
from autograder.observing.u09.on_ranks import FLOAT64_BYTES

SCENARIOS = ("even parts", "uneven parts", "few numbers or one rank")
NUM_CASES_ALONE = 4


def _shape(scenario: str, number: int, num_ranks: int, rng: random.Random) -> list[int]:
    length = rng.randint(2, 12)
    if (scenario, num_ranks) == ("uneven parts", 4):  # `chunk` makes only three parts of it
        return [rng.choice((5, 6, 9))]
    if scenario == "uneven parts":
        return [num_ranks * length + rng.randint(1, num_ranks - 1)]
    if scenario == "few numbers or one rank":
        return [rng.randint(1, num_ranks - 1)]
    if scenario == "even parts" and number % 2:  # rows that cannot be shared evenly
        return [num_ranks + 1, num_ranks * length]
    return [num_ranks * length]


def ring_cases(seed: int) -> list[Case]:
    """Each scenario on several numbers of ranks, even and odd ones; vectors and matrices.

    One rank of several begins with an infinite number.
    """
    rng = random.Random(seed)
    cases = [_case("even parts", 3, [6])]
    for scenario in SCENARIOS:
        first = 3 if scenario == "few numbers or one rank" else 2
        sizes = [first, 3, 4, 3, first]
        for number, num_ranks in enumerate(sizes):
            cases.append(_case(scenario, num_ranks, _shape(scenario, number, num_ranks, rng)))
    cases.append(_case("even parts", 3, [3 * rng.randint(2, 4)], num_infinite=1))
    alone = [[rng.randint(1, 60)] for _ in range(NUM_CASES_ALONE)]
    return cases + [_case("few numbers or one rank", 1, shape) for shape in alone]


def _case(scenario: str, num_ranks: int, shape: list[int], num_infinite: int = 0) -> Case:
    return {
        "scenario": scenario,
        "num_ranks": num_ranks,
        "shape": shape,
        "num_infinite": num_infinite,
    }


def measured(scenario: str, num_ranks: int, shape: list[int], num_infinite: int) -> dict[str, Any]:
    """Two rounds on a ring, with at most the largest part in each message; the sums."""
    messages = 2 * (num_ranks - 1)
    num_bytes = messages * FLOAT64_BYTES * -(-math.prod(shape) // num_ranks)
    before = [ring.tensor_of(rank, shape, num_infinite) for rank in range(num_ranks)]
    return {
        "forged_calls": 0,
        "collectives": 0,
        "barriers": 0,
        "most_messages": messages,
        "fewest_messages": messages,
        "sent_bytes": num_bytes,
        "received_bytes": num_bytes,
        "rounded_sums": 0,
        "unwritten_turns": 0,
        "of_one_rank": 0,
        "too_large_sums": 0,
        "wrong_sums": 0,
        "unchanged": 0,
        "late": 0,
        "unheard_sums": 0,
        "before": before,
        "total": torch.stack(before).sum(0),
    }


LABELS = {
    **replay.LABELS,
    "unheard_sums": "ranks with sums that no message brought",
    "collectives": "There are collectives.",
    "barriers": "There are barriers.",
    "most_messages": "the most messages that a rank sends",
    "fewest_messages": "the fewest messages that a rank sends",
    "sent_bytes": "the most bytes that a rank sends",
    "received_bytes": "the most bytes that a rank receives",
    "rounded_sums": "Sums are right to 24 bits only.",
    "unwritten_turns": "turns that write nothing into the tensor, if sums are wrong",
    "of_one_rank": "Every number is that of one rank alone.",
    "too_large_sums": "Sums are too large.",
    "wrong_sums": "Sums are wrong.",
    "unchanged": "numbers that stay as they were",
    "late": "It takes more time than its turns need.",
}
RENAMED = (
    "The messages are right, and some turns write nothing into the tensor. Which of your lines "
    "gives the name of a part to a new tensor?"
)
NOT_IN_PLACE = (
    "The messages come and go, and every tensor is as it was. Does your line write into "
    "its memory, or give the name of a part to a new tensor?"
)
OF_ONE_RANK = (
    "At the end every number is that of one rank alone: no sum was made, or something was "
    "copied over it. With three ranks, which part of each is a sum after two turns?"
)

# The model answer's pieces.
TURNS = "2 * (comm.size - 1)"
PARTS = "tensor.view(-1).tensor_split(comm.size)"
INCOMING, OUTGOING = (
    "parts[(comm.rank - turn - 1) % comm.size]",
    "parts[(comm.rank - turn) % comm.size]",
)
TURN = f"pass_on(comm, {OUTGOING}, theirs)"
SUM, COPY = "mine += theirs", "mine.copy_(theirs)"

PART_LENGTH = "(tensor.numel() // comm.size)"
SEND, RECEIVE = (
    f"comm.send({OUTGOING}, (comm.rank + 1) % comm.size)",
    "comm.receive(theirs, (comm.rank - 1) % comm.size)",
)
EDITS = (
    Edit(
        "A collective does the work. Which messages between two ranks would do the same?",
        {"parts = list": "comm.all_reduce(tensor)\n    parts = list", TURNS: "0"},
        shows=("collectives",),
    ),
    Edit(
        "Messages alone would do, and yours meet at a barrier. For which of its messages does a "
        "rank have to wait, and which call does that already?",
        {TURN: f"{TURN}\n        comm.barrier()"},
        shows=("barriers",),
    ),
    Edit(
        "No rank sends anything. Which rank knows the numbers of the others?",
        {TURNS: "0"},
        shows=("most_messages",),
    ),
    Edit(
        "Where a tensor has fewer numbers than there are ranks you leave messages out. What "
        "does the exercise say of empty ones?",
        {
            TURN: f"sending = len({OUTGOING}) and {SEND[:-1]}, async_op=True)\n"
            f"        len(mine) and {RECEIVE}\n"
            f"        sending and sending.wait()"
        },
        points=2.0,
    ),
    Edit(
        "Half of the messages: each rank now holds one part of the sum. How do the others "
        "learn it?",
        {TURNS: "comm.size - 1"},
        shows=("most_messages", "fewest_messages"),
    ),
    Edit(
        "Two messages too many. A part is on one rank already when it sets out: how many "
        "turns take it to all others?",
        {TURNS: "2 * comm.size if comm.size > 1 else 0"},
        shows=("most_messages",),
    ),
    Edit(
        "All sums are right, and too many bytes travel where a tensor has rows. Are your parts "
        "of one size there?",
        {PARTS: "tensor.tensor_split(comm.size)"},
        points=2.0,
        shows=("sent_bytes",),
    ),
    Edit(
        "As many turns as ranks. How many turns does a part need until it is the sum of all "
        "ranks, and how many more until all ranks have it?",
        {TURNS: "comm.size if comm.size > 1 else 0"},
        shows=("most_messages", "fewest_messages"),
    ),
    Edit(
        "Your sums are right to some seven digits. Which precision have the tensor's numbers, "
        "and which has the tensor that you add in?",
        {SUM: "mine.copy_(mine.float() + theirs.float())"},
    ),
    Edit(
        "A number that is infinite on one rank is no number at the end. What is infinity times "
        "zero, or infinity minus itself, and which operation replaces a number whatever it is?",
        {COPY: "mine.mul_(0).add_(theirs)"},
        points=2.0,
    ),
    Edit(OF_ONE_RANK, {SUM: COPY}, shows=("of_one_rank",)),
    Edit(
        OF_ONE_RANK,
        {
            INCOMING: INCOMING.replace("turn", "turn % (comm.size - 1)"),
            OUTGOING: OUTGOING.replace("turn", "turn % (comm.size - 1)"),
        },
        shows=("of_one_rank",),
    ),
    Edit(
        "Some sums are too large: a number is in them twice. From which turn on is what "
        "arrives complete, and what becomes of it then?",
        {COPY: SUM},
        shows=("too_large_sums",),
    ),
    *(
        Edit(RENAMED, pieces, shows=("unwritten_turns",))
        for pieces in (
            {SUM: "mine = mine + theirs"},
            {COPY: "mine = theirs"},
            {SUM: f"{INCOMING} = mine + theirs"},
            {COPY: f"{INCOMING} = theirs"},
        )
    ),
    *(
        Edit(NOT_IN_PLACE, pieces)
        for pieces in (
            {SUM: "mine = mine + theirs", COPY: "mine = theirs"},
            {SUM: f"{INCOMING} = mine + theirs", COPY: f"{INCOMING} = theirs"},
            {PARTS: "tensor.clone().view(-1).tensor_split(comm.size)"},
        )
    ),
    Edit(
        "The last numbers of a tensor stay as they were. How many are left over when each part "
        "has as many as a whole-number division says?",
        {
            PARTS: f"tensor.view(-1)[part * {PART_LENGTH} : (part + 1) * {PART_LENGTH}] "
            "for part in range(comm.size)"
        },
        points=1.0,
    ),
    Edit(
        "Everything is right but the time. In each turn every rank could send and receive "
        "at once: which of yours wait for another pair?",
        {
            TURN: f"if comm.rank % 2 == 0:\n            {SEND}\n            {RECEIVE}\n"
            f"        else:\n            {RECEIVE}\n            {SEND}"
        },
    ),
)

CHECK = Check(
    cases=ring_cases,
    observe=ring.observe,
    judge=Behaviour(
        measured,
        Symptom(
            "One rank talks to all others, and the rest are idle while it does. How could all "
            "links be busy at the same time?",
            lambda scenario, d, *_: {
                "most_messages": d - 1,
                "fewest_messages": 1,
                "wrong_sums": 0,
            },
        ),
        Symptom(
            "Every rank sends the whole tensor, once for each of the others. If each part of the "
            "sum were made on one rank only, how much would have to travel?",
            lambda scenario, d, *_: {
                "most_messages": d - 1,
                "fewest_messages": d - 1,
                "wrong_sums": 0,
            },
        ),
        *edited("u09-ring", EDITS, ring.observe),
        Symptom(
            "Messages and bytes are right, the sums are not. With 1, 10 and 100 on three ranks: "
            "after two turns, which part of each rank holds 111, and is it the one that goes out "
            "in the third?",
            lambda scenario, d, *_: {"of_one_rank": 1, "too_large_sums": 1, "wrong_sums": 1},
        ),
        scenarios=SCENARIOS,
        questions={
            "most_messages": "How many turns are there, and how many messages has a rank in each?",
            "fewest_messages": "How many turns are there, and how many messages has a rank in "
            "each, empty ones too?",
            "sent_bytes": "How many numbers has a part, and how many parts does a rank send in "
            "all turns?",
            "wrong_sums": "Sums are wrong. Follow one part from rank to rank by hand: in which "
            "turn does it arrive where, and is it added or written over?",
            "too_large_sums": "Sums are too large. From which turn on must a part that arrives "
            "replace the old one?",
            "late": "All is right, and it takes longer. Which ranks are idle while others talk?",
        },
        labels=LABELS,
        summarise=ring.summarise,
    ),
    fallback="course_utils.reference.ring.ring_all_reduce",
    answers=("course_utils.reference.ring.ring_all_reduce",),
)
