"""By which factor, or by which term of the sizes, are all wrong numbers off?"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from autograder.checking.difference.compared import ROUNDED, Clue, Compared, Number
from autograder.checking.difference.monomials import MIN_CASES, Monomial, Monomials

LARGE = 10  # among smaller numbers, being one off is a chance
# A missing term is not named if in most cases it is so large a part of the right number: that
# would tell the formula. The lower limit is for answers that are a single product.
MOST, MOST_OF_A_PRODUCT = 0.9, 0.5
COST_OF_A_MIX = 2.5  # to say that x and y are mixed up, beside saying that x is missing
ROUNDINGS: dict[str, Callable[[Number], Number]] = {
    "rounded down": math.floor,
    "rounded up": math.ceil,
    "rounded to a whole number": round,
}


def find_amount(answer: Compared, tick: Callable[[], None]) -> Clue | None:
    """What all wrong numbers have in common: a rounding, a factor, a term, or a factor of a term.

    Args:
        answer: The numbers of all cases.
        tick: Called at every step of the search; what it raises ends it.
    """
    pairs = [*zip(answer.got, answer.right, strict=True)]
    wrong = [pair for pair, passed in zip(pairs, answer.passed, strict=True) if not passed]
    if len(wrong) < MIN_CASES or not all(math.isfinite(g - r) for g, r in wrong):
        return None
    if found := _rounded(wrong) or _one_off(wrong):
        return found
    if found := _Search(answer, tick).factor_or_term():
        scope = "Wherever it is wrong," if any(answer.passed) else f"In all {len(pairs)} cases"
        return found._replace(statement=f"{scope} {found.statement}")
    return None


def _rounded(pairs: Sequence[tuple[Number, Number]]) -> Clue | None:
    for words, rounded in ROUNDINGS.items():
        if all(given == rounded(wanted) for given, wanted in pairs):
            statement = f"Where it is wrong, your number is the right one {words}."
            return Clue(statement, "Does the exercise ask for that?")
    return None


def _one_off(pairs: Sequence[tuple[Number, Number]]) -> Clue | None:
    off = {given - wanted for given, wanted in pairs}
    if not off <= {1, -1} or min(abs(wanted) for _, wanted in pairs) < LARGE:
        return None
    words = " or ".join(f"one too {'large' if each > 0 else 'small'}" for each in sorted(off))
    question = "What happens at the ends, with a remainder, or at a tie?"
    return Clue(f"Where it is wrong, your number is {words}.", question)


class _Search:
    """A search for monomials in the wrong cases."""

    def __init__(self, answer: Compared, tick: Callable[[], None]) -> None:
        self.passed, self.tick = answer.passed, tick
        self.table = answer.sizes
        failed = [n for n, passed in enumerate(answer.passed) if not passed]
        self.wrong = {name: [column[n] for n in failed] for name, column in self.table.items()}
        self.products = Monomials(self.wrong, 0, tick)
        self.got = [Fraction(answer.got[n]) for n in failed]
        self.right = [Fraction(answer.right[n]) for n in failed]
        self.lacks = [wanted - given for given, wanted in zip(self.got, self.right, strict=True)]
        is_float = any(type(answer.got[n]) is float for n in failed)
        self.rounding = max(answer.tolerance, ROUNDED * is_float)
        self.cases = range(len(failed))

    def factor_or_term(self) -> Clue | None:
        """The factor of all numbers, or else the term that they lack, or the one that is off."""
        factor = self._factor()
        if factor and factor.powers:
            return _factor_in_words(factor)
        is_product = self._fit(self.got, self.cases, self.rounding) is not None
        return self._term(MOST_OF_A_PRODUCT if is_product else MOST) or self._one_term()

    def _fit(
        self, numbers: Sequence[Fraction], cases: Sequence[int], rounding: float
    ) -> Monomial | None:
        """The monomial of numbers that are all positive, or all negative."""
        if not (all(each > 0 for each in numbers) or all(each < 0 for each in numbers)):
            return None
        return self.products.fit([*map(abs, numbers)], cases, rounding)

    def _factor(self) -> Monomial | None:
        if min(self.got) <= 0 or min(self.right) <= 0:
            return None
        ratios = [given / wanted for given, wanted in zip(self.got, self.right, strict=True)]
        return Monomials(self.wrong, -2, self.tick).fit(ratios, self.cases, self.rounding)

    def _blur(self, cases: Sequence[int]) -> float:
        """The relative error of the difference, from that of the right number."""
        if not self.rounding:
            return 0.0
        # A small difference of two rounded numbers is less exact than they are, by this ratio.
        return self.rounding * float(max(abs(self.right[n] / self.lacks[n]) for n in cases))

    def _term(self, most: float) -> Clue | None:
        term = self._fit(self.lacks, self.cases, self._blur(self.cases))
        is_most = [abs(self.lacks[n]) >= most * abs(self.right[n]) for n in self.cases]
        if not term or not term.powers or 2 * sum(is_most) > len(is_most):
            return None
        way = "small" if self.lacks[0] > 0 else "large"
        statement = f"your number is too {way} by exactly {term.in_words()}."
        return Clue(statement, "What could that be?")

    def _one_term(self) -> Clue | None:
        """One term with y in place of x, where y is 1 if the factor x is missing.

        Then every difference is a multiple of x - y, and dividing by it leaves the other factors.
        """
        found: list[tuple[float, Clue]] = []
        for one, other in itertools.combinations([*self.products.names, ""], 2):
            self.tick()
            if not (rest := self._divided(one, other)):
                continue
            if fit := self._fit([*rest.values()], [*rest], self._blur([*rest])):
                way = f"lacked the factor {one}"
                if other:
                    way = f"mixed up {one} and {other}"
                elif self.lacks[next(iter(rest))] < 0:
                    way = f"had the factor {one} once too often"
                statement = f"your number is off as if one term {way}."
                cost = fit.cost + COST_OF_A_MIX * bool(other)
                found.append((cost, Clue(statement, "Which term could that be?")))
        cheapest = [each for cost, each in found if cost == min(cost for cost, _ in found)]
        return cheapest[0] if len(cheapest) == 1 else None

    def _divided(self, one: str, other: str) -> dict[int, Fraction]:
        """The differences divided by x - y, by case; none if one is there where x equals y."""
        ones = [1] * len(self.passed)
        x, y = self.table[one], self.table.get(other, ones)
        if any(a != b for a, b, is_right in zip(x, y, self.passed, strict=True) if is_right):
            return {}
        x, y = self.wrong[one], self.wrong.get(other, ones[: len(self.cases)])
        apart = {n: Fraction(x[n]) - Fraction(y[n]) for n in self.cases}
        if any(self.lacks[n] for n, each in apart.items() if not each):
            return {}
        return {n: self.lacks[n] / each for n, each in apart.items() if each}


def _factor_in_words(factor: Monomial) -> Clue | None:
    """With its constant, a factor could be half of the formula; only its size is named then."""
    names, powers = [*factor.powers], [*factor.powers.values()]
    if powers in ([1], [-1]) and factor.constant == 1:
        way = "large" if powers == [1] else "small"
        question = "Where does that factor come in?"
        return Clue(f"your number is {names[0]} times too {way}.", question)
    if len(powers) == 1:
        statement = f"your number is off by a factor that changes with {names[0]} only."
        return Clue(statement, "Which factor is that?")
    if sorted(powers) == [-1, 1] and factor.constant == 1:
        statement = f"your number is {factor.in_words()} times the right one."
        return Clue(statement, "Which of the two is meant, and where?")
    return None
