"""Check of the rule of speculative decoding, by the exact law of the token that comes out."""

import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u13 import accept


def pair_cases(seed: int) -> list[Case]:
    """Two tokens and more; zeros in p and in q; equal pairs, and pairs without a common token."""
    rng = random.Random(seed)
    one, two, three = rng.sample(range(1, 20), 3)
    pairs = [([3, 1], [2, 2]), ([one, 0, 0], [0, one, two])]
    pairs += [([one, two, three], [one, two, three]), ([three, two, one], [one, three, two])]
    while len(pairs) < 23:
        size = rng.randint(3, 6)
        p, q = ([rng.randint(1, 9) for _ in range(size)] for _ in range(2))
        if len(pairs) % 3 == 0:
            q[0] = 0
        if len(pairs) % 3 == 1:
            p[-1] = 0
        p[1] += sum(q)  # so that the two differ
        pairs.append((p, q))
    return [{"p": _chances(p), "q": _chances(q)} for p, q in pairs]


def _chances(weights: list[int]) -> list[str]:
    """Chances in proportion to some weights, as a student would write them: ``"3/4"``."""
    return [str(Fraction(each, sum(weights))) for each in weights]


def measured(p: list[str], q: list[str]) -> dict[str, Any]:
    """What comes out is p; as much of q is kept as p has room for."""
    of_p, of_q = accept.chances_of({"p": p, "q": q})
    accepted = sum(map(min, of_p, of_q), Fraction(0))
    return {
        "wrong_tokens": 0,
        "accepted": float(accepted),
        "checksum": float(accept.weighted(of_p)),
    }


CHECK = Check(
    cases=pair_cases,
    observe=accept.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u13-accept", observe=accept.observe),
        summarise=accept.summarise,
        labels=accept.LABELS,
        questions=questions_of("u13-accept"),
    ),
    fallback="course_utils.reference.speculation.speculative_rule",
    answers=("course_utils.reference.speculation",),
)
