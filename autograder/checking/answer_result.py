"""The result of one answer over all cases, and its verdict: points, a sentence, a hint."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from autograder.checking import error_hints, verdict_figure
from autograder.checking.case_objects import case_in_words
from autograder.checking.difference.wrong_where import clue, where
from autograder.checking.judges import NEARLY_A_COUNT, NEARLY_A_NUMBER, ValueJudge
from autograder.checking.mistakes import ONLY, Case
from autograder.checking.plain_data import Plain
from autograder.checking.verdict import CaseResult, Verdict

PENCIL = "Work this case out by hand. At which step do you and your code part ways?"
CONSTANT = "Your answer is the same for all sizes. Which of them should it depend on?"

REMEMBERS = (
    "Asked for this case alone, your code is right. What does it remember from the calls before?"
)
TWO_ANSWERS = (
    "Asked again for this very case, your code gives another answer. On what does the answer "
    "depend, besides the arguments?"
)

VAGUE = (NEARLY_A_COUNT, NEARLY_A_NUMBER)  # a difference that can be named says more

# In accounting, a ratio that is the same in every case is often the diagnosis.
RATIOS = {
    0.5: "Exactly half in every case. Which factor of two is missing?",
    2: "Exactly double in every case. What do you count twice?",
    3: "Exactly three times too large in every case. What do you count that is not asked for?",
    1 / 3: "Exactly a third in every case. Which two thirds are missing?",
    8: "Exactly eight times too large in every case. Do you count bits instead of bytes?",
    1 / 8: "Exactly an eighth in every case. Do you treat bytes as bits?",
    1024: "Exactly 1,024 times too large in every case. Which step between KiB, MiB and GiB is "
    "missing?",
    1 / 1024: "Exactly 1,024 times too small in every case. Which step between KiB, MiB and GiB is "
    "one too many?",
}


class JudgedCase(NamedTuple):
    """One case, and what the judge said of it."""

    case: Case
    result: CaseResult

    @property
    def sizes(self) -> str:
        """The case as a student would type it."""
        return case_in_words(self.case)


class WhenAskedAgain(NamedTuple):
    """The first case that failed, once more; None where no value came.

    Attributes:
        first: The result among the other cases.
        again: The result of another call right after them.
        alone: The result of a call that finds nothing of those before.
    """

    first: CaseResult | None
    again: CaseResult | None
    alone: CaseResult | None

    @property
    def remembers(self) -> bool:
        """Whether what earlier calls have left makes the difference."""
        has_failed_again = self.again is None or not self.again.passed
        return has_failed_again and self.alone is not None and self.alone.passed

    @property
    def differs(self) -> bool:
        """Whether the same call gives other numbers."""
        if self.first is None or self.again is None:
            return False
        return repr(self.first.given) != repr(self.again.given)


@dataclass(frozen=True, kw_only=True)
class AnswerResult:
    """What an answer did in every case, or the trouble that stopped the scoring.

    Attributes:
        cases: The cases that were judged.
        judge: Who judged them.
        trouble: What `observe_within_limits` returned if no value came; then nothing else counts.
        sizes: The case of the trouble, in words.
        again: What the first case that failed gives when it is asked again, if it was.
    """

    cases: tuple[JudgedCase, ...] = ()
    judge: ValueJudge | None = None
    trouble: dict[str, Plain] | None = None
    sizes: str = ""
    again: WhenAskedAgain | None = None

    def verdict(
        self, exercise: str, max_points: float, *, tell_all: bool, is_next_try: bool = False
    ) -> Verdict:
        """Sum up: points for the parts that were right in every case, a sentence and a hint.

        Args:
            exercise: Id of the exercise.
            max_points: What it is worth.
            tell_all: Whether to say wanted and got, or only the sizes and the hint.
            is_next_try: Whether an answer failed before, so that a hint may say by how much.
        """
        if self.trouble is not None:
            words = self._words_of_trouble()
        else:
            words = self._words(tell_all, may_say_how_much=tell_all and is_next_try)
        return Verdict(
            exercise=exercise,
            points=round(max_points * self._fraction(), 6),
            max_points=max_points,
            written=self.trouble is None or self.trouble["trouble"] != "unwritten",
            hidden=not tell_all,
            is_again=False,
            judged=self.trouble is None or self.trouble["trouble"] != "not judged",
            **words,
        )

    def _fraction(self) -> float:
        """The share of parts that pass; nothing without a case, or with a trouble."""
        if self.trouble is not None or not self.cases:
            return 0.0
        return len(self._passed_parts()) / len(self.cases[0].result.right)

    def _words_of_trouble(self) -> dict[str, str]:
        """What a verdict says where no value came."""
        assert self.trouble is not None
        sentence, hint = error_hints.sentence_and_hint(self.trouble)
        sizes = "" if self.trouble["trouble"] == "unwritten" else self.sizes
        remembers = self.again is not None and self.again.remembers
        return {"sentence": sentence, "sizes": sizes, "hint": REMEMBERS if remembers else hint}

    def _words(self, tell_all: bool, *, may_say_how_much: bool) -> dict[str, str]:
        """What a verdict says: the sentence, the sizes that it is about, hint and picture."""
        failed = _smallest_first([case for case in self.cases if not case.result.passed])
        if not failed:
            return {"sentence": self._praise()}
        problem = failed[0].result.sentence if tell_all else "Not the right answer."
        sentence = f"{problem} Wrong in {len(failed)} of {len(self.cases)} cases."
        if passed := self._passed_parts():
            sentence = f"Right: {', '.join(passed)}. {sentence}"
        words = {"sentence": sentence, "sizes": failed[0].sizes, "hint": ""}
        words["hint"] = self._hint(failed, may_say_how_much)
        return words | (self._pictured(failed) if tell_all else {})

    def _pictured(self, failed: list[JudgedCase]) -> dict[str, str]:
        """The second smallest case in numbers, and all cases as a picture, of a formula."""
        part = failed[0].result.wrong_part
        others = [case for case in failed[1:] if not case.result.right.get(part or ONLY, True)]
        if part is None or not others or not others[0].result.wanted:
            return {}
        counted = [each.result for each in self.cases if each.result.wanted]
        numbers = [(each.wanted[part], each.given[part]) for each in counted]
        second = others[0].result
        another = f"And for `{others[0].sizes}`: expected {_short(second.wanted[part])}, "
        return {
            "another": f"{another}got {_short(second.given[part])}.",
            "figure": verdict_figure.comparison(numbers),
        }

    def _passed_parts(self) -> list[str]:
        """Names of the scenarios, or other parts, that are right in every case."""
        parts = self.cases[0].result.right
        return [part for part in parts if all(case.result.right[part] for case in self.cases)]

    def _praise(self) -> str:
        remarks = {case.result.remark for case in self.cases if case.result.remark}
        return " ".join([f"Right in all {len(self.cases)} cases.", *sorted(remarks)])

    def _hint(self, failed: list[JudgedCase], may_say_how_much: bool) -> str:
        """The sharpest that can be said: a known mistake, a ratio, the difference, a near miss.

        Before all of them comes that a case fails only because of the calls before.
        """
        if self.again is not None and self.again.remembers:
            return REMEMBERS
        known = self._known_hint(failed)
        if known and known not in VAGUE:
            return known
        if self.again is not None and self.again.differs:
            return TWO_ANSWERS
        clue = self._clue(failed, may_say_how_much)
        common = self._ratio() or clue or known or self._constant()
        return common or self._question(failed) or self._place(failed) or PENCIL

    def _known_hint(self, failed: list[JudgedCase]) -> str:
        """A hint that explains every failure, or those like the first; else all errors alone."""
        first = failed[0].result
        alike = [case for case in failed if case.result.right == first.right]
        raised = [case for case in failed if not case.result.wanted]
        if first.wanted:  # it gave numbers: one that raised is not like it
            alike = [case for case in alike if case.result.wanted]
        closest = [case for case in alike if case.result.wrong_names == first.wrong_names]
        numbers = closest if first.wrong_part is None else alike
        # A hint must explain a whole group: all failures; else those that are wrong in the same
        # parts as the first; else, of an implementation, those with the same wrong numbers. If the
        # first raised an error, the last group is all that raised one.
        for group in (failed, alike, numbers if first.wanted else raised):
            explaining = (
                hint for hint in first.hints if all(hint in case.result.hints for case in group)
            )
            if first.wrong_part is None:
                hint = next(explaining, "")
            else:
                hint = self._likeliest(explaining, len(failed))
            if hint:
                return hint
        return ""

    def _likeliest(self, hints: Iterable[str], num_failed: int) -> str:
        """The first hint of a formula that says nothing else of the cases that are right.

        Else the first that is not wrong in more of them than it explains.
        """
        likely = ""
        passed = [case.result for case in self.cases if case.result.passed]
        for hint in hints:
            num_contradicting = sum(hint not in each.hints for each in passed)
            if not num_contradicting:
                return hint
            if num_contradicting <= num_failed or not self._is_chosen(hint):
                likely = likely or hint
        return likely

    def _is_chosen(self, hint: str) -> bool:
        """Whether somebody wrote down a mistake with this hint."""
        known = self.judge.mistakes if self.judge else []
        return any(each.hint == hint and not each.is_generated for each in known)

    def _clue(self, failed: list[JudgedCase], may_say_how_much: bool) -> str:
        """What is simple about the difference, over all cases of a formula."""
        if self.judge is None or any(case.result.wrong_part is None for case in failed):
            return ""
        found = clue(
            [each.case for each in self.cases],
            [each.result.wanted for each in self.cases],
            [each.result.given for each in self.cases],
            may_say_how_much=may_say_how_much,
            tolerance=self.judge.relative_tolerance,
        )
        return found or ""

    def _question(self, failed: list[JudgedCase]) -> str:
        """What the exercise asks where something is wrong: in all failures alike, or in one."""
        failing = [{each.case.get("scenario"), each.result.first_wrong} for each in failed]
        first = failed[0].result
        scenarios = self.judge.questions if self.judge else {}
        asked = {**scenarios, first.first_wrong: first.question}
        for names in (set.intersection(*failing), failing[0]):
            for name, question in asked.items():
                if question and name in names:
                    return question
        return ""

    def _place(self, failed: list[JudgedCase]) -> str:
        """Where an implementation is wrong, if few words say it."""
        if any(case.result.wrong_part is not None for case in failed):
            return ""
        passed = [int(each.result.passed) for each in self.cases]
        return where([each.case for each in self.cases], [1] * len(passed), passed) or ""

    def _constant(self) -> str:
        """A hint, if a formula gives the same numbers in all cases."""
        first, *others = (case.result.given for case in self.cases)
        is_formula = any(case.result.wrong_part is not None for case in self.cases)
        is_constant = first and others and all(first == each for each in others)
        return CONSTANT if is_formula and is_constant else ""

    def _ratio(self) -> str:
        """One ratio of got to wanted that all cases have in common."""
        ratios = [case.result.ratio for case in self.cases]
        first = ratios[0]
        if not first or not all(each and _same(each, first) for each in ratios) or _same(first, 1):
            return ""
        known = (hint for ratio, hint in RATIOS.items() if _same(ratio, first))
        general = (
            f"Always {first:.4g} times the right answer. Where does that constant factor come from?"
        )
        return next(known, general)


def _smallest_first(failed: list[JudgedCase]) -> list[JudgedCase]:
    """The first case stays; the others of a formula by the number that was wanted."""
    part = failed[0].result.wrong_part if failed else None
    if part is None:
        return failed
    return failed[:1] + sorted(
        failed[1:], key=lambda case: abs(case.result.wanted.get(part, math.inf))
    )


def _short(number: float) -> str:
    return f"{number:,}" if type(number) is int else f"{number:,.8g}"


def _same(one: float, other: float) -> bool:
    """Whether two ratios are equal up to rounding, and not beyond all numbers."""
    return math.isclose(one, other, rel_tol=1e-6) and math.isfinite(one)
