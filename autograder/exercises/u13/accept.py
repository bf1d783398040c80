"""Check of the rule of speculative decoding, by the exact law of the token that comes out."""

import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


ACCEPT, RARE = "min(1, here / there) if there else 1", "max(0, here - there)"
AFTER = "[each / total for each in too_rare] if total else list(p)"
ONCE_MORE = (
    "After a rejection you draw from p. Which tokens has the draft proposed, and had accepted, "
    "often enough already?"
)
EDITS = (
    Edit(ONCE_MORE, {AFTER: "list(p)"}),
    Edit(
        "After a rejection your chances do not add up to 1. What do you divide them by?",
        {AFTER: "too_rare"},
    ),
    Edit(
        "You count how far p and q lie apart, whichever is larger. Which tokens come out too "
        "rarely without a correction?",
        {RARE: "abs(here - there)"},
    ),
    Edit(
        "After a rejection you draw what the draft proposes too often. Which tokens does it "
        "propose too rarely?",
        {RARE: "max(0, there - here)"},
    ),
    Edit(
        "You turn the ratio over. With which chance should a token survive that the draft "
        "proposes twice as often as p wants it?",
        {ACCEPT: "min(1, there / here) if here else 1"},
    ),
    Edit(
        "Your chance to accept looks at p alone. What if q proposes the token even more rarely "
        "than that?",
        {ACCEPT: "here"},
    ),
    Edit(
        "You accept everything. From which of the two models is the text then?",
        {ACCEPT: "1"},
    ),
    Edit(
        "Your rule has no chance in it: yes or no. With which chance should a token survive that "
        "the draft proposes a little too often?",
        {ACCEPT: "int(here >= there)"},
    ),
    Edit(
        "You accept the most likely token alone. Must a text of p always have that one?",
        {ACCEPT: "int(here == max(p))"},
    ),
    Edit(
        "What comes out is right, and fewer drafts are kept than could be. Which proposed tokens "
        "need never be rejected?",
        {ACCEPT: "0", AFTER: "list(p)"},
        shows=("accepted",),
    ),
    Edit(
        "A chance is above 1 with you. What does the exercise mean by a chance to accept?",
        {ACCEPT: "here / there if there else 1"},
        shows=("accepted",),
    ),
)

CHECK = Check(
    cases=pair_cases,
    observe=accept.observe,
    judge=Behaviour(
        measured,
        *edited("u13-accept", EDITS, observe=accept.observe),
        summarise=accept.summarise,
        labels=accept.LABELS,
        questions={
            "wrong_tokens": "For each token: with which chance is it proposed and accepted, and "
            "how much is missing to p?",
            "accepted": "What comes out is right. Which proposals do you reject that p has room "
            "for?",
        },
    ),
    fallback="course_utils.reference.speculation.speculative_rule",
    answers=("course_utils.reference.speculation",),
)
