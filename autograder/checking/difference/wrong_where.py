"""What is simple about a wrong answer: where is it wrong, and how far is it off?

`clue` looks at all cases of a formula together and says only what holds exactly in every one of
them. It knows no formula: it has the sizes of the cases, what came and what was wanted.
"""

import itertools
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from autograder.checking.difference.case_sizes import table_of
from autograder.checking.difference.compared import Clue, Compared, Number
from autograder.checking.difference.factor_or_term import find_amount
from autograder.checking.exercise_check import Case
from autograder.checking.result_form import LARGEST

Answer = Number | Mapping[str, Number]

# Each property has a cost: 1.0 for a single value, up to 2.6 for one size that divides another.
# The cheapest that fits is said, unless another one costs as little.
SIMPLE, ENOUGH = 2.0, 5  # what costs more to say needs so many cases on either side
FEW_TO_END = 3  # equal wrong numbers that are no chance
FEW_WORDS = 8  # of which one may stand for a kind of cases
SMALL = 8  # sizes up to it are kinds, such as bytes of an element: nobody divides them


class OutOfTime(Exception):
    """A search has used up its seconds."""


class Property(NamedTuple):
    """Something true of some cases: what it costs to say, and whether answers may be wrong there.

    Most properties only tell where an answer is right: one that mixes up two sizes is right where
    they are equal. Only those with ``may_be_wrong`` can also tell where it is wrong.
    """

    cost: float
    words: str
    holds: list[bool]
    may_be_wrong: bool = False


def where(cases: Sequence[Case], right: Sequence[Number], got: Sequence[Number]) -> str | None:
    """The one simple property of the cases that splits right ones from wrong ones."""
    found = _find_place(Compared(table_of(cases), right, got), lambda: None)
    return found and " ".join(found)


def clue(  # noqa: PLR0913  all but the first three by name
    cases: Sequence[Case],
    right: Sequence[Answer],
    got: Sequence[Answer],
    *,
    may_say_how_much: bool,
    tolerance: float = 0.0,
    seconds: float = 0.3,
    clock: Callable[[], float] = time.thread_time,
) -> str | None:
    """What is simple about a wrong answer, with one question at its end.

    The first step says where it is wrong; the second also says how far it is off.

    Args:
        cases: The cases of a formula.
        right: The right answer to each: a number, or a dictionary of numbers.
        got: What came; of a dictionary, the first wrong number counts.
        may_say_how_much: Whether this is the second step.
        tolerance: The relative error that counts as right.
        seconds: Of the processor; when they are used up, what was found by then is said.
        clock: The processor's seconds so far.
    """
    end = clock() + seconds

    def tick() -> None:
        if clock() > end:
            raise OutOfTime

    part = _first_wrong_part(right, got, tolerance)
    if part is None:
        return None
    numbers = _of_part(right, part), _of_part(got, part)
    answer = Compared(table_of(cases), *numbers, tolerance)
    said: list[str] = []
    try:
        for found in _findings(answer, may_say_how_much, tick):
            # A second finding takes the place of the first one's question, so that one is asked.
            said = [*said[:1], *found]
    except OutOfTime:
        pass
    return _about(part, " ".join(said)) if said else None


def _findings(
    answer: Compared, may_say_how_much: bool, tick: Callable[[], None]
) -> Iterator[Sequence[str]]:
    """Where the answer is wrong, and what more may be said; the last words of each ask."""
    if len({*answer.got}) == 1:
        return
    if end := _find_end(answer):
        yield end
        return
    if place := _find_place(answer, tick):
        yield place
    may_say_more = may_say_how_much and not answer.is_a_guess
    if may_say_more and (amount := find_amount(answer, tick)):
        yield amount


def _about(part: str, text: str) -> str:
    name = part.replace("_", " ")
    return f"{name[0].upper()}{name[1:]}: {text[0].lower()}{text[1:]}" if part else text


def _of_part(answers: Sequence[Answer], part: str) -> list[Any]:
    return [each.get(part) if isinstance(each, Mapping) else each for each in answers]


def _first_wrong_part(
    right: Sequence[Answer], got: Sequence[Answer], tolerance: float
) -> str | None:
    """The name of the first wrong number, empty for an only one; None if it cannot be compared."""
    parts = [*right[0]] if isinstance(right[0], Mapping) else [""]
    numbers = {part: (_of_part(right, part), _of_part(got, part)) for part in parts}
    if not all(_is_comparable(each) for _, given in numbers.values() for each in given):
        return None
    passed = {part: Compared({}, *columns, tolerance).passed for part, columns in numbers.items()}
    wrong = [(n, part) for n in range(len(right)) for part in parts if not passed[part][n]]
    return wrong[0][1] if wrong else None


def _is_comparable(number: object) -> bool:
    return type(number) in (int, float) and abs(number) < LARGEST  # type: ignore[arg-type]


def _find_end(answer: Compared) -> Clue | None:
    """The number beyond which an answer never goes, as that of a search which gives up."""
    rows = [*zip(answer.got, answer.right, answer.passed, strict=True)]
    ends = [given for given, _, passed in rows if not passed]
    if len({*ends}) != 1 or len(ends) < FEW_TO_END or len(ends) == len(rows):
        return None
    end = ends[0]
    for way, more, is_within in (("up", "larger", operator.le), ("down", "smaller", operator.ge)):
        if all(is_within(wanted, end) == passed for _, wanted, passed in rows):
            words = f"where the right number is {more}, yours stays there."
            question = "What ends at that number in your code?"
            return Clue(f"Right {way} to {end:,}; {words}", question)
    return None


def _find_place(answer: Compared, tick: Callable[[], None]) -> Clue | None:
    """The simplest property that splits the cases, if no other one is as simple."""
    passed, failed = answer.passed, [not each for each in answer.passed]
    smaller_side = min(sum(passed), sum(failed))
    hits = []
    for each in _properties(answer) if smaller_side > 1 else ():
        tick()
        if each.holds == (failed if each.may_be_wrong else passed):
            hits.append(each)
    cheapest = [hit for hit in hits if hit.cost == min(hits).cost]
    if len(cheapest) != 1 or (cheapest[0].cost > SIMPLE and smaller_side < ENOUGH):
        return None
    _, words, holds, is_wrong = cheapest[0]
    one, other = ("Wrong", "right") if is_wrong else ("Right", "wrong")
    question = "What does your code do there?" if is_wrong else "What changes in the others?"
    cases = "both cases" if sum(holds) == 2 else f"all {sum(holds)} cases"
    return Clue(f"{one} in {cases} where {words}, {other} in the others.", question)


def _properties(answer: Compared) -> Iterator[Property]:
    """What can be said of a case in few words; wrong only where that is an end of a range."""
    for name, column in answer.sizes.items():
        yield from _values(name, column)
    is_zero = [each == 0 for each in answer.right]
    yield Property(1.8, "the right number is 0", is_zero, may_be_wrong=True)
    whole = {name: column for name, column in answer.sizes.items() if _is_whole(column)}
    for (one, a), (other, b) in itertools.permutations(whole.items(), 2):
        yield from _pairs(one, other, [*zip(a, b, strict=True)])


def _pairs(one: str, other: str, pairs: Sequence[tuple[int, int]]) -> Iterator[Property]:
    """What can be said of two sizes, where the simpler words would not say the same."""
    if one < other:
        yield Property(1.6, f"{one} and {other} are 1", [x == y == 1 for x, y in pairs])
    if one < other and any(x == y > 1 for x, y in pairs):
        yield Property(1.2, f"{one} equals {other}", [x == y for x, y in pairs])
    if any(x > y for x, y in pairs):
        yield Property(2.5, f"{one} is less than {other}", [x < y for x, y in pairs])
    divides = [x > 0 and y % x == 0 for x, y in pairs]
    is_large = any(y > SMALL for _, y in pairs)
    if is_large and any(h and x < y for h, (x, y) in zip(divides, pairs, strict=True)):
        yield Property(2.6, f"{one} divides {other}", divides)


def _values(name: str, column: Sequence[Any]) -> Iterator[Property]:
    values = sorted({*column}, key=str)
    is_word = all(isinstance(value, (bool, str)) for value in column)
    if (is_word and len(values) <= FEW_WORDS) or len(values) == 2:
        for value in values:
            holds = [each == value for each in column]
            yield Property(1.0 if is_word else 1.4, f"{name} is {value!r}", holds)
            if len(values) > 2:
                yield Property(1.0, f"{name} is {value!r}", holds, may_be_wrong=True)
    elif _is_whole(column):
        for value in (0, 1):
            holds = [each == value for each in column]
            yield Property(1.0, f"{name} is {value}", holds)
            yield Property(1.5, f"{name} is {value}", holds, may_be_wrong=True)


def _is_whole(column: Sequence[Any]) -> bool:
    return all(type(each) is int for each in column)
