"""Check of an all-reduce made of messages: sums, messages, bytes and virtual time."""

import math
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
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
        *mistakes_of("u09-ring", ring.observe),
        Symptom(
            "Messages and bytes are right, the sums are not. With 1, 10 and 100 on three ranks: "
            "after two turns, which part of each rank holds 111, and is it the one that goes out "
            "in the third?",
            lambda scenario, d, *_: {"of_one_rank": 1, "too_large_sums": 1, "wrong_sums": 1},
        ),
        scenarios=SCENARIOS,
        questions=questions_of("u09-ring"),
        labels=LABELS,
        summarise=ring.summarise,
    ),
    fallback="course_utils.reference.ring.ring_all_reduce",
    answers=("course_utils.reference.ring.ring_all_reduce",),
)
