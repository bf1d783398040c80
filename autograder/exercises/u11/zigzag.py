"""Check of who holds which positions of a causal sequence."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=zigzag_cases,
    observe=zigzag.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-zigzag", zigzag.observe),
        labels=zigzag.LABELS,
        summarise=zigzag.summarise,
        questions=questions_of("u11-zigzag"),
    ),
    fallback="course_utils.reference.context_parallel.zigzag_positions",
    answers=("course_utils.reference.context_parallel.zigzag_positions",),
)
