"""Judges that compare a number, or a dictionary of numbers, with a measurement.

Counts compare with ``==``. A known mistake is stored as the wrong formula itself: if it gives what
the student's function gave, its hint is shown.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autograder.checking import error_hints
from autograder.checking.error_hints import WHICH_TYPE
from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe, pack
from autograder.checking.verdict import CaseResult

Number = int | float
Numbers = dict[str, Number]
LARGEST = 10**100  # a larger number is not printed
NEARLY = 0.02  # a difference that a small term could explain
ONLY = ""  # the one part of an answer that is a single number

# What the exercises promise: looser than float64 rounding, tighter than any mistake.
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

# To recognise a wrong formula even if its operations come in another order.
FORMULA_ROUNDING = 1e-12


@dataclass(frozen=True)
class Mistake:
    """A wrong formula that people write, and the hint that leads out of it.

    Attributes:
        hint: Ends in a question.
        formula: Called with the values of a case, in order and as plain data: a model is a
            dictionary of sizes. Gives a number, or a dictionary with the parts of the answer that
            the mistake is about.
    """

    hint: str
    formula: Callable[..., Any]


class EqualTo:
    """A judge that compares an answer with ``measure(**case)``."""

    def __init__(
        self,
        measure: Callable[..., Plain],
        *mistakes: Mistake,
        relative_tolerance: float = 0.0,
        together: bool = False,
    ) -> None:
        """Set what is measured, which mistakes are known, and how exact an answer must be.

        Args:
            measure: An instrument or an independent oracle; gives a number, or a dictionary of
                numbers that share the points equally.
            mistakes: Known mistakes, the most telling first.
            relative_tolerance: Zero for counts; for floats, the rounding error to allow.
            together: Whether all numbers must be right to earn any points, as for an
                implementation: right results that save too many bytes earn nothing.
        """
        self.measure, self.mistakes, self.together = measure, mistakes, together
        self.relative_tolerance = relative_tolerance
        self.cache: dict[str, Plain] = {}

    def __call__(self, case: Case, got: Plain) -> CaseResult:
        """Compare the answer's value with the measurement."""
        measurement = self.measurement(case)
        wanted = _named(measurement)
        given = got if isinstance(measurement, dict) else {ONLY: got}
        if complaint := _form_complaint(wanted, given):
            sentence, hint = complaint
            parts = [ONLY] if self.together else wanted
            return CaseResult(right=dict.fromkeys(parts, False), sentence=sentence, hints=(hint,))
        right = {name: self._is_right(given[name], wanted[name]) for name in wanted}
        wrong = [name for name in wanted if not right[name]]
        if not wrong:
            whole = {ONLY: True} if self.together else right
            return CaseResult(right=whole, remark=_remark(wanted, given))
        first = wrong[0]
        hints = [m.hint for m in self.mistakes if _explains(m, case, given, wrong)]
        if not self.together:
            hints += _near_miss_hints(given[first], wanted[first])
        elif all(_differs_by_float32_rounding(given[name], wanted[name]) for name in wrong):
            hints.append(NEARLY_A_NUMBER)
        return CaseResult(
            right={ONLY: False} if self.together else right,
            sentence=_difference(first, wanted[first], given[first]),
            hints=tuple(hints),
            ratio=given[first] / wanted[first] if wanted[first] else None,
        )

    def measurement(self, case: Case) -> Plain:
        """The measurement of a case; each case is measured once."""
        key = pack(case).json
        if key not in self.cache:
            self.cache[key] = self.measure(**case)
        return self.cache[key]

    def _is_right(self, got: Number, wanted: Number) -> bool:
        if not self.relative_tolerance:
            return got == wanted or (math.isnan(got) and math.isnan(wanted))
        return math.isclose(got, wanted, rel_tol=self.relative_tolerance)


class Behaviour(EqualTo):
    """A judge of what an implementation did: all its numbers must be right.

    An error that `observe` caught and described with `describe_error` fails that case alone. If
    there are scenarios, each earns an equal share; a case names its own as ``"scenario"``.
    """

    def __init__(
        self,
        measure: Callable[..., Plain],
        *mistakes: Mistake,
        scenarios: Sequence[str] = (),
        relative_tolerance: float = 0.0,
    ) -> None:
        """As for `EqualTo`, with the names of all scenarios."""
        super().__init__(measure, *mistakes, relative_tolerance=relative_tolerance, together=True)
        self.scenarios = tuple(scenarios)

    def __call__(self, case: Case, got: Plain) -> CaseResult:
        """Compare the numbers of a case; a wrong one costs only its own scenario."""
        result = _result_of_trouble(got) if "trouble" in got else super().__call__(case, got)
        if not self.scenarios:
            return result
        right = {name: result.passed or name != case["scenario"] for name in self.scenarios}
        return replace(result, right=right)


def _result_of_trouble(trouble: Plain) -> CaseResult:
    sentence, hint = error_hints.sentence_and_hint(trouble)
    hints = (hint, *error_hints.more_hints(trouble))
    return CaseResult(right={ONLY: False}, sentence=sentence, hints=hints)


def _differs_by_float32_rounding(given: Number, wanted: Number) -> bool:
    return type(wanted) is float and math.isclose(given, wanted, rel_tol=SINGLE_ROUNDING)


def _near_miss_hints(given: Number, wanted: Number) -> list[str]:
    """What to ask when a number is almost right; the sharper question first."""
    hints = []
    has_fraction = type(given) is float and given % 1 != 0
    tolerance = NEARLY if has_fraction else FLOAT_ROUNDING
    if type(wanted) is int and math.isclose(given, wanted, rel_tol=tolerance):
        hints.append(ROUNDED_BY_A_FLOAT)
    if math.isclose(given, wanted, rel_tol=NEARLY):
        hints.append(NEARLY_A_COUNT if type(wanted) is int else NEARLY_A_NUMBER)
    return hints


def _named(values: Plain) -> Numbers:
    return values if isinstance(values, dict) else {ONLY: values}


def _form_complaint(wanted: Numbers, given: Plain) -> tuple[str, str] | None:
    """Sentence and hint if an answer has the wrong form, so that no number can be compared."""
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
    """A remark on a whole number returned as a float, which still earns the points."""
    if any(type(number) is int and type(given[name]) is float for name, number in wanted.items()):
        return "You returned a float; a count is a whole number, and an int stays exact."
    return ""


def _difference(name: str, wanted: Number, got: Number) -> str:
    label = f" for {name}" if name else ""
    has_ratio = wanted and math.isfinite(wanted) and math.isfinite(got / wanted)
    ratio = f" (ratio {_ratio_text(got / wanted)})" if has_ratio else ""
    digits = [f"{n:,}" if type(n) is int else f"{n:,.8g}" for n in (wanted, got)]
    if digits[0] == digits[1]:  # show all digits, so that the two differ
        digits = [f"{n:,}" for n in (wanted, got)]
    return f"Wanted {digits[0]}{label}, got {digits[1]}{ratio}."


def _ratio_text(ratio: float) -> str:
    """Four digits, or more if four would show it as 1."""
    short = f"{ratio:.4g}"
    return f"{ratio:.12g}" if short == "1" else short


def _explains(mistake: Mistake, case: Case, given: Numbers, wrong: list[str]) -> bool:
    """Whether a mistake's formula gives the answer's numbers, in all wrong parts that it covers."""
    mistaken = _named(mistake.formula(*case.values()))
    return wrong[0] in mistaken and all(
        math.isclose(given[name], mistaken[name], rel_tol=FORMULA_ROUNDING)
        or (math.isnan(given[name]) and math.isnan(mistaken[name]))
        for name in wrong
        if name in mistaken
    )
