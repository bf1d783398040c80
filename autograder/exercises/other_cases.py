"""Which other cases would an answer be right for: where x is always 1, or the ones before?

The model answer is run on the changed cases when the course is built, and a student's numbers are
compared with what it gave.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from autograder.checking.bounded_call import observe_within_limits
from autograder.checking.difference.case_sizes import (
    columns_of,
    filled,
    paths_of,
    sizes_of,
    value_at,
)
from autograder.checking.exercise_check import Case, call
from autograder.checking.mistakes import Numbers, WrongNumbers
from autograder.checking.plain_data import key_of

Varied = Mapping[str, Sequence[Any]]
FEW_WORDS, FEW_NUMBERS = 8, 4  # values of which a student may take one for the only one
TIMES = 16  # no size is made that much larger than in all cases: an answer may loop over it
MIN_WRONG = 4  # cases that tell a rule from a chance
MOST = 40  # changes of an exercise's cases
SENTENCE = "Your numbers would be right if {}. {}"
ALWAYS, BOTH = " were always ", " were both 1"
WHICH_IS_MEANT = "Where is {} meant, and where {}?"


@dataclass(frozen=True)
class Variation:
    """A change of all cases alike.

    Attributes:
        sentence: What is said of numbers that are right for the changed cases; ends in a question.
        values: The new value of a size, by its name.
        sources: The name of the size that another one takes its value from, by its name.
    """

    sentence: str
    values: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def changed(self, case: Case) -> Case | None:
        """The changed case, all other sizes as they were; None if no such case can be made."""
        old, case = sizes_of(case), filled(case)
        new = {**self.values, **{name: old[source] for name, source in self.sources.items()}}
        paths = paths_of(case)
        for name, value in new.items():
            *outer, last = paths[name]
            value_at(case, tuple(outer))[last] = value
        try:
            sizes = sizes_of(case)
        except (TypeError, ValueError):
            return None
        is_kept = all(sizes[name] == value for name, value in new.items())  # zero may mean default
        return case if is_kept else None


@dataclass(frozen=True)
class CaseBefore:
    """Each case is taken for the one before it, as by an answer that keeps what it found."""

    before: Mapping[str, Case]
    sentence: ClassVar[str] = (
        "Your numbers belong to the case before. What does your function keep from one call to the "
        "next?"
    )

    def changed(self, case: Case) -> Case | None:
        """The case before; None of the first."""
        return self.before.get(key_of(case))


def variations(cases: Sequence[Case]) -> list[Variation]:
    """The changes worth asking about, the simplest first; each can be made in all cases."""
    table = columns_of([sizes_of(case) for case in cases])
    varied = {name: column for name, column in table.items() if len({*map(repr, column)}) > 1}
    found = [*_always(varied), *_both(varied), *_as_large_as(varied), *_swapped(varied)]
    return [each for each in found if all(each.changed(case) is not None for case in cases)]


@dataclass(frozen=True)
class AsIf:
    """A generated mistake: the right answer to other cases.

    Attributes:
        model: The model answer.
        variation: How the cases are changed.
    """

    model: Callable[..., Any]
    variation: Variation | CaseBefore
    is_complete: ClassVar[bool] = False
    is_generated: ClassVar[bool] = True

    @property
    def hint(self) -> str:
        """What is said of it."""
        return self.variation.sentence

    def numbers(self, case: Case, wrong_numbers: WrongNumbers) -> Numbers:
        """The numbers of the changed case that are not right in this one."""
        changed = self.variation.changed(case)
        observed = observe_within_limits(call, self.model, changed or case)
        return wrong_numbers(case, observed["value"]) if "value" in observed else {}


def as_ifs(
    model: Callable[..., Any], cases: Sequence[Case], wrong_numbers: WrongNumbers
) -> list[AsIf]:
    """The simplest changes of a formula's cases that make a difference to its model answer."""
    before = {key_of(case): earlier for earlier, case in itertools.pairwise(cases)}
    changes: list[Variation | CaseBefore] = [CaseBefore(before), *variations(cases)]
    found = (AsIf(model, change) for change in changes)
    telling = (each for each in found if _num_wrong(each, cases, wrong_numbers) >= MIN_WRONG)
    return list(itertools.islice(telling, MOST))


def _num_wrong(mistake: AsIf, cases: Sequence[Case], wrong_numbers: WrongNumbers) -> int:
    return sum(bool(mistake.numbers(case, wrong_numbers)) for case in cases)


def _always(varied: Varied) -> Iterator[Variation]:
    for name, column in varied.items():
        for value in _only_values(column):
            words = f"{name}{ALWAYS}{value!r}", f"Where should {name} come in?"
            yield Variation(SENTENCE.format(*words), values={name: value})


def _only_values(column: Sequence[Any]) -> list[Any]:
    """What a student may take for the only value there is."""
    if any(isinstance(value, (list, tuple, dict)) for value in column):
        return []
    values = sorted({*column}, key=str)
    if all(isinstance(value, (str, bool)) for value in column):
        return values if len(values) <= FEW_WORDS else []
    usual = [0] * (0 in column) + [1] if _is_whole(column) else []  # 0 may mean a default elsewhere
    return [*dict.fromkeys([*usual, *(values if len(values) <= FEW_NUMBERS else [])])]


def _both(varied: Varied) -> Iterator[Variation]:
    whole = [name for name, column in varied.items() if _is_whole(column)]
    for one, other in itertools.combinations(whole, 2):
        words = f"{one} and {other}{BOTH}", "Where should each of them come in?"
        yield Variation(SENTENCE.format(*words), values={one: 1, other: 1})


def _as_large_as(varied: Varied) -> Iterator[Variation]:
    for one, other in itertools.permutations(varied, 2):
        if _may_become(varied[one], varied[other]):
            words = f"{one} were as large as {other}", WHICH_IS_MEANT.format(one, other)
            yield Variation(SENTENCE.format(*words), sources={one: other})


def _swapped(varied: Varied) -> Iterator[Variation]:
    for one, other in itertools.combinations(varied, 2):
        if _may_become(varied[one], varied[other]) and _may_become(varied[other], varied[one]):
            words = f"{one} and {other} changed places", WHICH_IS_MEANT.format(one, other)
            yield Variation(SENTENCE.format(*words), sources={one: other, other: one})


def _may_become(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return _is_whole(one) and _is_whole(other) and max(other) <= TIMES * max(one)


def _is_whole(column: Sequence[Any]) -> bool:
    return all(type(value) is int for value in column)
