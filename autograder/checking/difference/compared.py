"""One number of an answer beside the right one, in all cases of an exercise."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from autograder.checking.difference.case_sizes import Table
from autograder.checking.precision import tolerance

Number = int | float
ROUNDED = tolerance(cancelled=1)


class Clue(NamedTuple):
    """What holds exactly, and the question that leads on."""

    statement: str
    question: str


@dataclass(frozen=True)
class Compared:
    """One number of an answer in all cases.

    Attributes:
        sizes: The sizes of the cases.
        right: The right numbers.
        got: What came.
        tolerance: The relative error that counts as right.
    """

    sizes: Table
    right: Sequence[Number]
    got: Sequence[Number]
    tolerance: float = 0.0

    def is_same(self, one: Number, other: Number) -> bool:
        """Whether two numbers are equal as far as the exercise asks."""
        return one == other or bool(
            self.tolerance and math.isclose(one, other, rel_tol=self.tolerance)
        )

    @cached_property
    def passed(self) -> list[bool]:
        """In which cases the answer is right."""
        return [self.is_same(g, r) for g, r in zip(self.got, self.right, strict=True)]

    @property
    def is_a_guess(self) -> bool:
        """Whether the answer is a constant, or a constant times a size or all of them.

        What is said of it, beside where it is wrong, would hand the formula over.
        """
        return any(_is_same_everywhere(self._divided_by(each)) for each in self._guesses())

    def _guesses(self) -> Iterator[Sequence[Number]]:
        columns = [column for column in self.sizes.values() if all(map(is_a_size, column))]
        yield [1] * len(self.got)
        for column in columns:
            yield from ([value**power for value in column] for power in (1, 2, 3))
        yield [math.prod(column[n] for column in columns) for n in range(len(self.got))]

    def _divided_by(self, column: Sequence[Number]) -> list[float]:
        return [given / value for given, value in zip(self.got, column, strict=True)]


def is_a_size(value: object) -> bool:
    """Whether a value is a positive number, by which one may divide."""
    return type(value) in (int, float) and 0 < value < math.inf  # type: ignore[operator]


def _is_same_everywhere(numbers: Sequence[float]) -> bool:
    return all(math.isclose(each, numbers[0], rel_tol=ROUNDED) for each in numbers)
