"""Which ``constant * x**p * y**q`` of some sizes gives these numbers in every case?

Logarithms propose, fractions verify: what is found holds exactly.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from autograder.checking.difference.compared import is_a_size

MAX_NAMES, MAX_SIZES, MAX_DEGREE, MAX_POWER = 18, 4, 4, 3
MAX_CONSTANT, MAX_DIVISOR = 4096, 16
MIN_CASES = 4  # fewer can agree by chance
NEAR = 1e-9  # of two logarithms
COARSE = 1e-3  # numbers that rounding blurs so much have no explanation


class Monomial(NamedTuple):
    """``constant * x**p * y**q``, and what it costs to say: its names and their powers."""

    constant: Fraction
    powers: dict[str, int]
    cost: float

    def in_words(self) -> str:
        """Names as they stand in the code, since students read them there."""
        above, below = (
            [name + " ²³"[abs(p) - 1].strip() for name, p in self.powers.items() if p * sign > 0]
            for sign in (1, -1)
        )
        top, bottom = self.constant.numerator, self.constant.denominator
        above = [str(top)] * (top != 1 or not above) + above
        below = [str(bottom)] * (bottom != 1) + below
        divisor = f" / {' / '.join(below)}" if below else ""
        return " · ".join(above) + divisor


class Monomials:
    """All small monomials of some columns of sizes, to be compared with many rows of numbers."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], lowest: int, tick: Callable[[], None]):
        """Take the columns that vary and are positive.

        Args:
            columns: The sizes of all cases by name.
            lowest: The lowest power of a size: 0 if none may be divided by.
            tick: Called at every step of a search; what it raises ends the search.
        """
        fitting = [
            name
            for name, column in columns.items()
            if all(map(is_a_size, column)) and len({*column}) > 1
        ]
        self.names, self.columns, self.tick = fitting[:MAX_NAMES], columns, tick
        logs = [[math.log(value) for value in columns[name]] for name in self.names]
        self.powers, self.costs = _powers(len(self.names), lowest)
        num_cases = len(next(iter(columns.values()), ()))
        self.logs = self.powers @ np.array(logs).reshape(len(self.names), num_cases)

    def fit(
        self, numbers: Sequence[Fraction], cases: Sequence[int], rounding: float = 0.0
    ) -> Monomial | None:
        """The cheapest monomial that gives these positive numbers in these cases.

        Args:
            numbers: One for each of the cases.
            cases: The positions of the cases in the columns.
            rounding: The relative error that a number may have.
        """
        if len(cases) < MIN_CASES or rounding > COARSE:
            return None
        wanted = [math.log(each.numerator) - math.log(each.denominator) for each in numbers]
        rows = np.arange(len(self.powers))
        for case, log in zip(cases[1:], wanted[1:], strict=True):
            self.tick()
            # From one case to another the constant cancels, and only the powers count.
            change = self.logs[rows, case] - self.logs[rows, cases[0]]
            rows = rows[np.abs(change - (log - wanted[0])) < NEAR + 4 * rounding]
        found = (self._verified(row, numbers, cases, rounding) for row in rows)
        return next((each for each in found if each), None)

    def _verified(
        self, row: Any, numbers: Sequence[Fraction], cases: Sequence[int], rounding: float
    ) -> Monomial | None:
        self.tick()
        powers = {name: int(p) for name, p in zip(self.names, self.powers[row], strict=True) if p}
        products = [
            math.prod((Fraction(self.columns[name][case]) ** p for name, p in powers.items()))
            for case in cases
        ]
        constant = (numbers[0] / products[0]).limit_denominator(MAX_DIVISOR)
        met = {tuple(self.columns[name][case] for name in powers) for case in cases}
        holds = all(
            abs(constant * product - number) <= rounding * number
            for product, number in zip(products, numbers, strict=True)
        )
        # With too few different sizes, some powers would fit by chance.
        is_met = not powers or len(met) > len(powers) + 2
        if not (holds and is_met and 0 < constant <= MAX_CONSTANT):
            return None
        return Monomial(constant, powers, float(self.costs[row]) + (constant != 1))


@cache
def _powers(num_names: int, lowest: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers of so many sizes, one monomial a row, and what each row costs; the cheapest first."""
    rows = [np.zeros((1, num_names), int)]
    for size in range(1, min(num_names, MAX_SIZES) + 1):
        which = np.array([*itertools.combinations(range(num_names), size)])
        values = [p for p in range(lowest, MAX_POWER + 1) if p]
        chosen = [
            each
            for each in itertools.product(values, repeat=size)
            if sum(map(abs, each)) <= MAX_DEGREE
        ]
        table = np.zeros((len(which), len(chosen), num_names), int)
        np.put_along_axis(table, which[:, None, :], np.array(chosen)[None], axis=2)
        rows.append(table.reshape(-1, num_names))
    powers = np.concatenate(rows)
    # One for each size and one for each of its powers; to divide costs half a point more.
    costs = (powers != 0).sum(1) + np.abs(powers).sum(1) + 0.5 * (powers < 0).sum(1)
    order = np.argsort(costs, kind="stable")
    return powers[order], costs[order]
