"""Check of who holds which positions of a causal sequence."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u11 import zigzag
from autograder.observing.u11.zigzag import Pieces, pairs_of


def zigzag_cases(seed: int) -> list[Case]:
    """One rank to eight, pieces of one position and of several."""
    rng = random.Random(seed)
    counts = (2, 4, 3, 8, 1, 5, 6, 7)
    cases: list[Case] = [{"num_ranks": 2, "seq_len": 8}]
    for number in range(19):
        c, length = counts[number % len(counts)], rng.randint(2, 12)
        if number % 5 == 0:
            c, length = rng.randint(2, 16), 1
        cases.append({"num_ranks": c, "seq_len": 2 * c * length})
    return cases


def measured(num_ranks: int, seq_len: int) -> dict[str, int]:
    """The least that the busiest rank can have, by a search over all ways to pair the pieces."""
    length = seq_len // (2 * num_ranks)
    pieces = [list(range(i * length, (i + 1) * length)) for i in range(2 * num_ranks)]
    whole: list[Pieces] = [pieces]
    work = [pairs_of([piece], whole) for piece in pieces]
    return {
        "not_once": 0,
        "other_counts": 0,
        "broken_pieces": 0,
        "most_pairs": _least_most(tuple(work)),
    }


def _least_most(work: tuple[int, ...]) -> int:
    """Of all ways to put numbers into pairs, the smallest that the largest sum can be."""

    def fits(rest: tuple[int, ...], most: int) -> bool:
        if not rest:
            return True
        first, others = rest[-1], rest[:-1]
        return any(
            first + other <= most and fits(others[:n] + others[n + 1 :], most)
            for n, other in enumerate(others)
        )

    sums = {a + b for n, a in enumerate(work) for b in work[n + 1 :]}
    return next(most for most in sorted(sums) if fits(work, most))


STARTS = "(rank * length, seq_len - (rank + 1) * length)"
EDITS = (
    Edit(
        "Each position is on one rank, and the last rank has nearly twice the work of the mean. "
        "How many keys does a late query see, and how many an early one?",
        {STARTS: "(2 * rank * length, (2 * rank + 1) * length)"},
    ),
    Edit(
        "Better than pieces side by side, and the last rank still has most. Which late piece would "
        "make up for an early one?",
        {STARTS: "(rank * length, (rank + num_ranks) * length)"},
    ),
    Edit(
        "Some positions are on no rank, and one piece begins where the sequence ends. Where does "
        "the last piece begin?",
        {STARTS: "(rank * length, seq_len - rank * length)"},
        shows=("not_once",),
    ),
    Edit(
        "Pieces overlap or leave gaps. How many pieces are there in all, and how long is each?",
        {"(2 * num_ranks)": "num_ranks"},
        shows=("not_once",),
    ),
    Edit(
        "The work is shared well, and a piece is single positions, far apart. What does attention "
        "want that works on blocks?",
        {
            "return [list(range(start, start + length)) for start in starts]": "every = list("
            "range(rank, seq_len, num_ranks))\n    return [every[:length], every[length:]]"
        },
        shows=("broken_pieces",),
    ),
    Edit(
        "Each rank has one piece from the front, and half of the sequence is nowhere. Who takes "
        "it?",
        {STARTS: "(rank * length,)"},
        shows=("not_once", "other_counts"),
    ),
    Edit(
        "The positions of the second piece run backward. In which order do its tokens stand in "
        "the sequence?",
        {
            "return [list(range(start, start + length)) for start in starts]": "first, second = ("
            "list(range(start, start + length)) for start in starts)\n"
            "    return [first, second[::-1]]"
        },
        shows=("broken_pieces",),
    ),
)

CHECK = Check(
    cases=zigzag_cases,
    observe=zigzag.observe,
    judge=Behaviour(
        measured,
        *edited("u11-zigzag", EDITS, zigzag.observe),
        labels=zigzag.LABELS,
        summarise=zigzag.summarise,
        questions={
            "not_once": "Write down the positions of all ranks for eight tokens on two. Which is "
            "missing, and which is there twice?",
            "other_counts": "How many tokens does each rank hold, and in how many pieces?",
            "broken_pieces": "Do the positions of a piece follow one another?",
            "most_pairs": "How many pieces of keys does piece i see? Which two pieces together see "
            "as many as any other two?",
        },
    ),
    fallback="course_utils.reference.context_parallel.zigzag_positions",
    answers=("course_utils.reference.context_parallel.zigzag_positions",),
)
