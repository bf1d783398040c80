"""The cases of a grade: those of its seeds, and none that students have with what is right.

Practice packs hold the right answers to practice cases and new sizes, so a table of them would earn
what these cases are worth. Each of them is replaced by the case at the same place of further seeds,
so that every kind of case still occurs. The worked case, the first of each seed, stays.
"""

from collections.abc import Callable
from functools import cache
from itertools import islice

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.plain_data import Message
from autograder.checking.seeds import KNOWN_SEEDS, further_seeds

MAX_TRIES = 40
"""How many further seeds are asked; a kind of which students have all cases keeps one of them."""


def hidden_cases(check: Check, seed: int) -> list[Case]:
    """The cases that a grade draws from a seed; the same in every process."""
    known, cases = known_cases(check.cases), check.cases(seed)
    places = {n for n, case in enumerate(cases) if n and plain_data.pack(case) in known}
    for other in islice(further_seeds(seed), MAX_TRIES):
        if not places:
            break
        for n, case in enumerate(check.cases(other)):
            if n in places and plain_data.pack(case) not in known:
                cases[n] = case
                places.remove(n)
    return cases


@cache
def known_cases(draw: Callable[[int], list[Case]]) -> frozenset[Message]:
    """The content of all cases that students have."""
    return frozenset(plain_data.pack(case) for seed in KNOWN_SEEDS for case in draw(seed))
