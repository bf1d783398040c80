"""A rule of speculative decoding: what it says of each token, in fractions."""

import math
from fractions import Fraction
from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.precision import PROMISED
from autograder.checking.result_form import LARGEST, WrongForm
from autograder.observers.tools import errors_as_data, require_one_number, require_pair

NOWHERE = Fraction(10**6)  # in place of a number that is not finite


def chances_of(case: Case) -> tuple[list[Fraction], list[Fraction]]:
    """The chances p and q as fractions."""
    p, q = ([Fraction(each) for each in case[name]] for name in ("p", "q"))
    return p, q


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Both lists, each number as a fraction in lowest terms or as a float."""
    p, q = chances_of(case)
    value = answer(list(p), list(q))
    accept, after = require_pair(value, "a pair of lists, accept and after")
    return {"accept": _plain(accept, len(p)), "after": _plain(after, len(p))}


def _plain(chances: Any, num_tokens: int) -> list[list[int] | float]:
    if not isinstance(chances, tuple | list) or len(chances) != num_tokens:
        raise WrongForm(f"a number for each of {num_tokens} tokens", describe(chances))
    return [
        [each.numerator, each.denominator]
        if type(each) is Fraction and abs(each) < LARGEST
        else require_one_number(each, "a chance, a number")
        for each in chances
    ]


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """The law of the token that comes out, beside p."""
    p, q = chances_of(case)
    accept, after = (list(map(_fraction, observed[name])) for name in ("accept", "after"))
    kept = [there * each for there, each in zip(q, accept, strict=True)]
    accepted = sum(kept, Fraction(0))
    law = [each + (1 - accepted) * other for each, other in zip(kept, after, strict=True)]
    return [
        Fact(
            "wrong_tokens",
            sum(not _is_close(one, other) for one, other in zip(law, p, strict=True)),
            "tokens that come out with another chance than p",
            "For each token: with which chance is it proposed and accepted, and how much is "
            "missing to p?",
        ),
        Fact(
            "accepted",
            _beside(accepted, right["accepted"]),
            "the chance that a proposed token is accepted",
            "What comes out is right. Which proposals do you reject that p has room for?",
        ),
        Fact(
            "checksum",
            _beside(weighted(law), right["checksum"]),
            "the chances of all tokens that come out, each with a weight of its own",
            "For each token, add the chance that it is proposed and accepted to the chance that it "
            "is drawn after a rejection. For which token is the sum not p?",
        ),
    ]


def weighted(law: list[Fraction]) -> Fraction:
    """A sum that tells two laws apart."""
    return sum(((number + 1) * each for number, each in enumerate(law)), Fraction(0))


def _fraction(number: list[int] | float) -> Fraction:
    if isinstance(number, list):
        return Fraction(*number)
    return Fraction(number) if math.isfinite(number) else NOWHERE


def _is_close(one: Fraction, other: Fraction) -> bool:
    return abs(one - other) < Fraction(PROMISED)


def _beside(ours: Fraction, right: float) -> float:
    """The right number where ours is no other, else ours."""
    return right if _is_close(ours, Fraction(right)) else float(f"{float(ours):.8g}")
