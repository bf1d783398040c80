"""How is a number, or a table of named numbers, compared with a measurement?

Counts compare with ``==``. A known mistake is kept as the wrong formula itself: where it gives
exactly what the student's function gave, its hint is the one to show.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autograder.checking import error_hints
from autograder.checking.check import Case
from autograder.checking.error_hints import WHICH_TYPE
from autograder.checking.plain_data import Plain, describe, pack
from autograder.checking.verdict import CaseResult

Number = int | float
Numbers = dict[str, Number]
LARGEST = 10**100

NEARLY = 0.02
# As the exercises say: more than float64 loses, less than any mistake makes.
NINE_DIGITS = 1e-9

FLOAT_ROUNDING = 1e-12
SINGLE_ROUNDING = 1e-6  # several roundings of 24 bits
ROUNDED_BY_A_FLOAT = (
    "Nearly. A division with / makes a float, which loses digits. Which order of operations keeps "
    "the number whole?"
)
NEARLY_A_COUNT = (
    "Nearly: something small is too much, missing, or thrown away by a rounding. Which of the "
    "sizes explains a difference as small as this one?"
)
NEARLY_A_NUMBER = "Nearly. Which rounding, yours or that of a constant, loses the digits?"

# A mistake is recognised, not judged: the same wrong formula in another order of operations.
FORMULA_ROUNDING = 1e-12


@dataclass(frozen=True)
class Mistake:
    """A wrong formula that people write, and the question that leads out of it.

    Attributes:
        hint: Ends in a question.
        formula: Takes the sizes of a case in their order; gives a number, or a dictionary with
            those parts of the answer that the mistake is about.
    """

    hint: str
    formula: Callable[..., Any]


class EqualTo:
    """A judge that wants what ``measure(**case)`` gives."""

    def __init__(
        self,
        measure: Callable[..., Plain],
        *mistakes: Mistake,
        relative_tolerance: float = 0.0,
        together: bool = False,
    ) -> None:
        """Say what is measured, which mistakes are known, and how exact an answer must be.

        Args:
            measure: An instrument or an independent oracle; gives a number or a dictionary of
                numbers, each of which is one equal part of the points.
            mistakes: Known mistakes, the most telling first.
            relative_tolerance: Zero for counts; for a float the rounding that is allowed for.
            together: Whether only all numbers together earn the points, as those that an
                implementation shows: right results at the price of too many bytes earn nothing.
        """
        self.measure, self.mistakes, self.together = measure, mistakes, together
        self.relative_tolerance = relative_tolerance
        self.measured: dict[str, Plain] = {}

    def __call__(self, case: Case, got: Plain) -> CaseResult:
        """Compare what came with what was measured."""
        measured = self.wanted(case)
        wanted = _named(measured)
        given = got if isinstance(measured, dict) else {"": got}
        if complaint := _form_complaint(wanted, given):
            sentence, hint = complaint
            parts = [""] if self.together else wanted
            return CaseResult(right=dict.fromkeys(parts, False), sentence=sentence, hints=(hint,))
        right = {name: self._is_right(given[name], wanted[name]) for name in wanted}
        wrong = [name for name in wanted if not right[name]]
        if not wrong:
            whole = {"": True} if self.together else right
            return CaseResult(right=whole, remark=_remark(wanted, given))
        first = wrong[0]
        hints = [m.hint for m in self.mistakes if _explains(m, case, given, wrong)]
        if not self.together:
            hints += _hints_of_nearness(given[first], wanted[first])
        elif all(_is_single_precision(given[name], wanted[name]) for name in wrong):
            hints.append(NEARLY_A_NUMBER)
        return CaseResult(
            right={"": False} if self.together else right,
            sentence=_difference(first, wanted[first], given[first]),
            hints=tuple(hints),
            ratio=given[first] / wanted[first] if wanted[first] else None,
        )

    def wanted(self, case: Case) -> Plain:
        """What is measured for a case; the same case is measured once."""
        key = pack(case).json
        if key not in self.measured:
            self.measured[key] = self.measure(**case)
        return self.measured[key]

    def _is_right(self, got: Number, wanted: Number) -> bool:
        if not self.relative_tolerance:
            return got == wanted or (math.isnan(got) and math.isnan(wanted))
        return math.isclose(got, wanted, rel_tol=self.relative_tolerance)


class Behaviour(EqualTo):
    """A judge of what an implementation did: all its numbers are right, or nothing.

    An error that `observe` caught, as `describe_error` tells it, is wrong in that case alone. Where
    there are scenarios each earns an equal part; a case names its own as ``"scenario"``.
    """

    def __init__(
        self,
        measure: Callable[..., Plain],
        *mistakes: Mistake,
        scenarios: Sequence[str] = (),
        relative_tolerance: float = 0.0,
    ) -> None:
        """Take what `EqualTo` takes, and the names of all scenarios."""
        super().__init__(measure, *mistakes, relative_tolerance=relative_tolerance, together=True)
        self.scenarios = tuple(scenarios)

    def __call__(self, case: Case, got: Plain) -> CaseResult:
        """Compare the numbers of a case; the other scenarios lose nothing by it."""
        finding = _finding_of(got) if "trouble" in got else super().__call__(case, got)
        if not self.scenarios:
            return finding
        right = {name: finding.passed or name != case["scenario"] for name in self.scenarios}
        return replace(finding, right=right)


def _finding_of(trouble: Plain) -> CaseResult:
    sentence, hint = error_hints.in_words(trouble)
    hints = (hint, *error_hints.more_hints(trouble))
    return CaseResult(right={"": False}, sentence=sentence, hints=hints)


def _is_single_precision(given: Number, wanted: Number) -> bool:
    """Whether a number is right but for the rounding of float32."""
    return type(wanted) is float and math.isclose(given, wanted, rel_tol=SINGLE_ROUNDING)


def _hints_of_nearness(given: Number, wanted: Number) -> list[str]:
    """What to ask where a number is almost right; the sharper question first."""
    hints = []
    is_part_of_one = type(given) is float and given % 1 != 0
    tolerance = NEARLY if is_part_of_one else FLOAT_ROUNDING
    if type(wanted) is int and math.isclose(given, wanted, rel_tol=tolerance):
        hints.append(ROUNDED_BY_A_FLOAT)
    if math.isclose(given, wanted, rel_tol=NEARLY):
        hints.append(NEARLY_A_COUNT if type(wanted) is int else NEARLY_A_NUMBER)
    return hints


def _named(values: Plain) -> Numbers:
    return values if isinstance(values, dict) else {"": values}


def _form_complaint(wanted: Numbers, given: Plain) -> tuple[str, str] | None:
    """What is wrong with the form of an answer, before any number is compared: sentence, hint."""
    names = ", ".join(wanted)
    if type(given) is not dict:
        sentence = f"Wanted a dictionary with {names}; it returned {describe(given)}."
        return sentence, "What does the exercise ask your function to return?"
    if missing := [name for name in wanted if name not in given]:
        sentence = f"Wanted the keys {names}; got {', '.join(given) or 'none'}."
        return sentence, f"Why is {missing[0]!r} in the exercise's text and not in your dictionary?"
    for name, number in wanted.items():
        label = f" for {name}" if name else ""
        if type(given[name]) not in (int, float):
            sentence = f"Wanted {describe(number)}{label}; it returned {describe(given[name])}."
            return sentence, WHICH_TYPE
        if LARGEST < abs(given[name]) < math.inf:
            sentence = f"Wanted {number:,}{label}; it returned a number beyond all sizes."
            return sentence, "What happens to your number while the sizes are multiplied?"
    return None


def _remark(wanted: Numbers, given: Numbers) -> str:
    """An exact integral float earns the points and this remark."""
    if any(type(number) is int and type(given[name]) is float for name, number in wanted.items()):
        return "You returned a float; a count is a whole number, and an int stays exact."
    return ""


def _difference(name: str, wanted: Number, got: Number) -> str:
    label = f" for {name}" if name else ""
    has_ratio = wanted and math.isfinite(wanted) and math.isfinite(got / wanted)
    ratio = f" (ratio {_ratio_in_words(got / wanted)})" if has_ratio else ""
    words = [_in_words(number) for number in (wanted, got)]
    if words[0] == words[1]:  # then the digits that tell them apart, of both
        words = [f"{number:,}" for number in (wanted, got)]
    return f"Wanted {words[0]}{label}, got {words[1]}{ratio}."


def _in_words(number: Number) -> str:
    return f"{number:,}" if type(number) is int else f"{number:,.8g}"


def _ratio_in_words(ratio: float) -> str:
    """Four digits, or as many as show that it is not one."""
    short = f"{ratio:.4g}"
    return f"{ratio:.12g}" if short == "1" else short


def _explains(mistake: Mistake, case: Case, given: Numbers, wrong: list[str]) -> bool:
    """Whether the wrong formula gives what was given, in all wrong parts that it speaks of."""
    made = _named(mistake.formula(*case.values()))
    return wrong[0] in made and all(
        math.isclose(given[name], made[name], rel_tol=FORMULA_ROUNDING)
        or (math.isnan(given[name]) and math.isnan(made[name]))
        for name in wrong
        if name in made
    )
