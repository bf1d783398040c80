"""Judges that compare a number, or a dictionary of numbers, with a measurement.

Counts compare with ``==``. A known mistake that gives what the student's function gave has its hint
shown.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autograder.checking import error_hints
from autograder.checking.error_hints import WHAT_TO_RETURN, WHICH_TYPE
from autograder.checking.fact import Fact, Facts
from autograder.checking.mistakes import ONLY, Case, Mistake, Number, Numbers, as_numbers
from autograder.checking.plain_data import Plain, describe, key_of
from autograder.checking.precision import is_same_number, tolerance
from autograder.checking.result_form import WrongForm, is_number
from autograder.checking.verdict import CaseResult

MAX_CHARACTERS = 300  # of a student's keys, where they are named
NEARLY = 0.02  # a difference that a small term could explain

EXACT_IN_A_FLOAT = 2**53
MISTAKEN = tolerance(cancelled=2**22)  # a millionth
A_FEW = 4
A_FLOAT = (
    "Almost: a float keeps 53 bits, about 16 digits. Where does your whole number become a float?"
)
ROUNDED_BY_A_FLOAT = (
    "Almost: a division with / gives a float, which loses digits. Which order of operations "
    "keeps the number whole?"
)
NEARLY_A_COUNT = (
    "Almost: something small is extra, missing or rounded away. Which of the sizes explains "
    "such a small difference?"
)
# Bits of a whole number: a product that runs over is right but for a multiple of a power of two.
KEPT_IN = {
    bits: f"Your number is off by a multiple of 2^{bits}, so something overflowed. In how many "
    "bits is it kept, and what is the largest number that fits?"
    for bits in (64, 32)
}
UNREADABLE = "What it made has another form than what the exercise asks for."
# What reading data of another form raises.
OF_ANOTHER_FORM = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
NEARLY_A_NUMBER = "Almost: some digits are lost. Is it a rounding of yours or a rounded constant?"


@dataclass(frozen=True)
class Comparison:
    """What is compared in one case: right and given numbers, their names in sentences, and what to
    ask where one is the first that is wrong.
    """

    wanted: Numbers
    given: Plain
    labels: Mapping[str, str]
    questions: Mapping[str, str]


class ValueJudge:
    """A judge that compares an answer with ``measure(**case)``."""

    def __init__(
        self,
        measure: Callable[..., Plain],
        *mistakes: Mistake,
        relative_tolerance: float = 0.0,
        labels: Mapping[str, str] | None = None,
        questions: Mapping[str, str] | None = None,
        together: bool = False,
    ) -> None:
        """Set what is measured, which mistakes are known, and how exact an answer must be.

        Args:
            measure: An instrument or an independent oracle; gives a number, or a dictionary of
                numbers that share the points equally.
            mistakes: Known mistakes, the most telling first.
            relative_tolerance: Zero for counts; for floats, the rounding error to allow.
            labels: What a number is called in sentences, where its name is not enough; or a whole
                sentence, of what is wrong where the number is not zero.
            questions: What to ask where no mistake is recognised, by what all failures have in
                common: a scenario, or the first number that is wrong. The first that fits is asked.
            together: Whether all numbers must be right to earn any points, as for an
                implementation: right results that save too many bytes earn nothing.
        """
        self.measure, self.together = measure, together
        self.mistakes = sorted(mistakes, key=lambda mistake: mistake.is_generated)
        self.relative_tolerance, self.labels = relative_tolerance, dict(labels or {})
        self.questions = dict(questions or {})
        self.cache: dict[str, Plain] = {}

    def __call__(self, case: Case, got: Plain) -> CaseResult:
        """Compare the answer's value with the measurement.

        Whatever comes is judged: what cannot be compared, because it has another form than what is
        right, is wrong. An error of the measurement, or of the facts' own code, is no answer's
        fault.
        """
        self.measurement(case)
        try:
            return self._compared(case, got)
        except WrongForm as error:
            sentence = f"Expected {error.wanted}; got {error.came}."
        except OF_ANOTHER_FORM:
            sentence = UNREADABLE
        return CaseResult(right=self._nothing(case), sentence=sentence, hints=(WHICH_TYPE,))

    def _nothing(self, case: Case) -> dict[str, bool]:
        """All parts of an answer, none of which is right."""
        return dict.fromkeys([ONLY] if self.together else self.wanted(case), False)

    def _compared(self, case: Case, got: Plain) -> CaseResult:
        compared = self.comparison(case, got)
        wanted, given = compared.wanted, compared.given
        if complaint := _form_complaint(wanted, given):
            sentence, hint = complaint
            return CaseResult(right=self._nothing(case), sentence=sentence, hints=(hint,))
        right = {name: self._is_right(given[name], wanted[name]) for name in wanted}
        wrong = [name for name in wanted if not right[name]]
        result = CaseResult(
            right={ONLY: not wrong} if self.together else right,
            hints=Explanations(self, case, wanted, given, wrong),
            wanted=wanted,
            given=given,
        )
        if not wrong:
            return replace(result, remark="" if self.together else _remark(wanted, given))
        first = wrong[0]
        return replace(
            result,
            wrong_names=frozenset(self._different(given, wanted)),
            sentence=_difference(compared.labels.get(first, first), wanted[first], given[first]),
            ratio=given[first] / wanted[first] if wanted[first] else None,
            first_wrong=first,
            question=compared.questions.get(first, ""),
        )

    def wanted(self, case: Case) -> Numbers:
        """The right numbers of a case; what else is measured is for `given` alone."""
        return as_numbers(self.measurement(case))

    def comparison(self, case: Case, got: Plain) -> Comparison:
        """The right numbers of a case, and those that an answer's value stands for."""
        given = got if isinstance(self.measurement(case), dict) else {ONLY: got}
        return Comparison(self.wanted(case), given, self.labels, self.questions)

    def wrong_numbers(self, case: Case, got: Plain) -> Numbers:
        """Those numbers of an answer's value that are not right."""
        try:
            compared = self.comparison(case, got)
        except WrongForm:
            return {}
        wanted, given = compared.wanted, compared.given
        if _form_complaint(wanted, given):
            return {}
        return self._different(given, wanted)

    def _different(self, given: Numbers, wanted: Numbers) -> Numbers:
        """Those numbers that are not the right ones, on any machine."""
        allowed = self.relative_tolerance or tolerance()
        return {
            name: given[name]
            for name in wanted
            if not is_same_number(given[name], wanted[name], allowed)
        }

    def is_made_alike(self, one: Number, other: Number, wanted: Number) -> bool:
        """Whether two wrong numbers are those of one mistake, in which more may cancel.

        Beside a whole number a difference of a millionth may be the mistake itself.
        """
        allowed = tolerance(cancelled=1) if type(wanted) is int else MISTAKEN
        return is_same_number(one, other, max(self.relative_tolerance, allowed))

    def measurement(self, case: Case) -> Plain:
        """The measurement of a case; each case is measured once."""
        key = key_of(case)
        if key not in self.cache:
            self.cache[key] = self.measure(**case)
        return self.cache[key]

    def _is_right(self, got: Number, wanted: Number) -> bool:
        if not self.relative_tolerance:
            return got == wanted or (math.isnan(got) and math.isnan(wanted))
        return is_same_number(got, wanted, self.relative_tolerance)


def as_observed(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """The numbers of an observation that is compared as it is."""
    return [Fact(name, each) for name, each in observed.items() if is_number(each)]


class ImplementationJudge(ValueJudge):
    """A judge of what an implementation did: all its numbers must be right.

    An error that `observe` caught and described with `describe_error` fails that case alone, and so
    does what an answer with right numbers has left changed (``"left"``). If there are scenarios,
    each earns an equal share; a case names its own as ``"scenario"``.
    """

    def __init__(
        self,
        measure: Callable[..., Plain],
        *mistakes: Mistake,
        facts: Facts = as_observed,
        scenarios: Sequence[str] = (),
        relative_tolerance: float | None = None,
        questions: Mapping[str, str] | None = None,
    ) -> None:
        """As for `ValueJudge`, with what is compared and the names of all scenarios.

        Args:
            measure: Gives a dictionary: the right numbers that are not 0, and what else the facts
                need.
            mistakes: Known mistakes, the most telling first.
            facts: The numbers that are compared, made of what was observed.
            scenarios: Names of the scenarios, if there are some.
            relative_tolerance: Of floats, if not that of their precision; whole numbers are exact.
            questions: What to ask where no mistake is recognised, by scenario.
        """
        super().__init__(
            measure,
            *mistakes,
            relative_tolerance=tolerance() if relative_tolerance is None else relative_tolerance,
            questions=questions,
            together=True,
        )
        self.scenarios, self.facts = tuple(scenarios), facts

    def __call__(self, case: Case, got: Plain) -> CaseResult:
        """Compare the numbers of a case; a wrong one costs only its own scenario."""
        result = super().__call__(case, got)
        if not self.scenarios:
            return result
        right = {name: result.passed or name != case["scenario"] for name in self.scenarios}
        return replace(result, right=right)

    def _compared(self, case: Case, got: Plain) -> CaseResult:
        about = got if isinstance(got, dict) else {}
        if "trouble" in about:
            return _result_of_trouble(about)
        result = super()._compared(case, got)
        return _result_of_trouble(about["left"]) if result.passed and "left" in about else result

    def comparison(self, case: Case, got: Plain) -> Comparison:
        """The right numbers of a case, and those of an observation."""
        measured = self.measurement(case)
        facts = list(self.facts(case, got, measured))
        return Comparison(
            wanted={each.name: measured.get(each.name, 0) for each in facts},
            given={each.name: each.value for each in facts},
            labels={each.name: each.label for each in facts if each.label},
            questions={each.name: each.ask for each in facts},
        )


@dataclass(frozen=True)
class Explanations:
    """The hints that explain the numbers of a case; sought as far as somebody asks.

    Attributes:
        judge: Who compared them, and knows the mistakes.
        case: Their case.
        wanted: The right numbers.
        given: Those that came.
        wrong: The names of the wrong ones, if any.
    """

    judge: ValueJudge
    case: Case
    wanted: Numbers
    given: Numbers
    wrong: list[str]

    def __iter__(self) -> Iterator[str]:
        """Lost bits; hints of known mistakes that give these numbers; then what nearness tells."""
        yield from self._lost_bits()
        yield from (each.hint for each in self.judge.mistakes if self._is_made_by(each))
        yield from self._near_misses()

    def __contains__(self, hint: object) -> bool:
        """Whether a hint explains these numbers, or right ones: no hint that nobody chose does."""
        known = [each for each in self.judge.mistakes if each.hint == hint]
        chosen = known if self.wrong else [each for each in known if not each.is_generated]
        if any(map(self._is_made_by, chosen)):
            return True
        return hint in self._lost_bits() or hint in self._near_misses()

    def _is_made_by(self, mistake: Mistake) -> bool:
        """Whether a mistake gives these numbers, in all wrong parts that it is about.

        Where nothing is wrong: whether it gives nothing wrong either.
        """
        mistaken = mistake.numbers(self.case, self.judge.wrong_numbers)
        about = [name for name in self.wrong or mistaken if name in mistaken]
        if self.wrong:
            has_more = mistake.is_complete and self.judge.together
            if self.wrong[0] not in about or (has_more and {*self.wrong} != mistaken.keys()):
                return False
        return all(
            self.judge.is_made_alike(self.given[name], mistaken[name], self.wanted[name])
            for name in about
        )

    def _lost_bits(self) -> list[str]:
        """What to ask where whole numbers have run over; no right number speaks against it."""
        pairs = [(self.given[name], self.wanted[name]) for name in self.wrong]
        lost = (bits for bits in KEPT_IN if all(_has_run_over(*pair, bits) for pair in pairs))
        return [KEPT_IN[bits] for bits in lost]

    def _near_misses(self) -> list[str]:
        pairs = [(self.given[name], self.wanted[name]) for name in self.wrong]
        if pairs and not self.judge.together:
            return _near_miss_hints(*pairs[0])
        is_rounding = pairs and all(_differs_by_float32_rounding(*pair) for pair in pairs)
        return [NEARLY_A_NUMBER] if is_rounding else []


def _result_of_trouble(trouble: Plain) -> CaseResult:
    sentence, hint = error_hints.sentence_and_hint(trouble)
    hints = (hint, *error_hints.more_hints(trouble))
    return CaseResult(right={ONLY: False}, sentence=sentence, hints=hints)


def _has_run_over(given: Number, wanted: Number, bits: int) -> bool:
    """Whether so many bits keep a number of a larger one, or did so on the way to it.

    Counts are often multiples of large powers of two, so that such a difference proves little.
    Then the number that was given also has to be small: below `A_FEW` times what the bits hold.
    """
    if type(wanted) is not int or not -math.inf < given < math.inf or given % 1:
        return False
    # A right number that fits, with its sign, cannot have run over.
    has_room = -(2 ** (bits - 1)) <= wanted < 2 ** (bits - 1)
    if has_room or (int(given) - wanted) % 2**bits:
        return False
    return bool(abs(given) < A_FEW * 2**bits or wanted % 2 ** (bits // 2))


def _differs_by_float32_rounding(given: Number, wanted: Number) -> bool:
    single = tolerance("float32", num_terms=2, cancelled=1)
    return type(wanted) is float and is_same_number(given, wanted, single)


def _near_miss_hints(given: Number, wanted: Number) -> list[str]:
    """What to ask when a number is almost right; the sharper question first."""
    hints = []
    has_fraction = type(given) is float and given % 1 != 0
    allowed = NEARLY if has_fraction else tolerance(cancelled=1)
    if type(wanted) is int and math.isclose(given, wanted, rel_tol=allowed):
        if abs(wanted) > EXACT_IN_A_FLOAT and not has_fraction:
            hints.append(A_FLOAT)
        hints.append(ROUNDED_BY_A_FLOAT)
    if math.isclose(given, wanted, rel_tol=NEARLY):
        hints.append(NEARLY_A_COUNT if type(wanted) is int else NEARLY_A_NUMBER)
    return hints


def _form_complaint(wanted: Numbers, given: Plain) -> tuple[str, str] | None:
    """Sentence and hint if an answer has the wrong form, so that no number can be compared."""
    names = ", ".join(wanted)
    if type(given) is not dict:
        sentence = f"Expected a dictionary with {names}; it returned {describe(given)}."
        return sentence, WHAT_TO_RETURN
    if missing := [name for name in wanted if name not in given]:
        came = ", ".join(given)[:MAX_CHARACTERS] or "none"
        sentence = f"Expected the keys {names}; got {came}."
        return sentence, f"Which line of yours should set the key {missing[0]!r}?"
    for name, number in wanted.items():
        label = f" for {name}" if name else ""
        if is_number(given[name]):
            continue
        if type(given[name]) not in (int, float):
            sentence = f"Expected {describe(number)}{label}; it returned {describe(given[name])}."
            return sentence, WHICH_TYPE
        sentence = f"Expected {number:,}{label}; it returned a number too large to print."
        return sentence, "What makes your number grow so fast?"
    return None


def _remark(wanted: Numbers, given: Numbers) -> str:
    """A remark on a whole number returned as a float, which still earns the points."""
    if any(type(number) is int and type(given[name]) is float for name, number in wanted.items()):
        return "You returned a float; a count is a whole number, and an int stays exact."
    return ""


def _difference(name: str, wanted: Number, got: Number) -> str:
    if name.endswith(".") and not wanted:
        return name
    if not wanted and " " in name:  # "Expected 0 for rows that are wrong" reads as its opposite
        return f"{name[0].upper()}{name[1:]}: {got:,}; expected 0."
    label = f" for {name}" if name else ""
    has_ratio = wanted and math.isfinite(wanted) and math.isfinite(got / wanted)
    ratio = f" (ratio {_ratio_text(got / wanted)})" if has_ratio else ""
    digits = [f"{n:,}" if type(n) is int else f"{n:,.8g}" for n in (wanted, got)]
    if digits[0] == digits[1]:  # show all digits, so that the two differ
        digits = [f"{n:,}" for n in (wanted, got)]
    return f"Expected {digits[0]}{label}, got {digits[1]}{ratio}."


def _ratio_text(ratio: float) -> str:
    """Four digits, or more if four would show it as 1."""
    short = f"{ratio:.4g}"
    return f"{ratio:.12g}" if short == "1" else short
