"""Which hint a failed answer is given: one, the sharpest that its cases allow."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.checking.difference.wrong_where import clue, where
from autograder.checking.judged_case import JudgedCase, WhenAskedAgain
from autograder.checking.judges import NEARLY_A_COUNT, NEARLY_A_NUMBER, ValueJudge

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


@dataclass(frozen=True, kw_only=True)
class HintChoice:
    """Chooses among what the judge, the cases and their numbers tell.

    Attributes:
        cases: All cases of the answer.
        failed: Those that failed, the one that is shown first.
        judge: Who judged them.
        again: What the first case that failed gave when it was asked again, if it was.
        may_say_how_much: Whether a hint may say by how much a number is wrong.
    """

    cases: tuple[JudgedCase, ...]
    failed: list[JudgedCase]
    judge: ValueJudge | None
    again: WhenAskedAgain | None
    may_say_how_much: bool

    def hint(self) -> str:
        """The sharpest that can be said: a known mistake, a ratio, the difference, a near miss.

        Before all of them comes that a case fails only because of the calls before.
        """
        if self.again is not None and self.again.remembers:
            return REMEMBERS
        known = self._known_hint()
        if known and known not in VAGUE:
            return known
        if self.again is not None and self.again.differs:
            return TWO_ANSWERS
        clue = self._clue()
        common = self._ratio() or clue or known or self._constant()
        return common or self._question() or self._place() or PENCIL

    def _known_hint(self) -> str:
        """A hint that explains every failure, or those like the first; else all errors alone."""
        first = self.failed[0].result
        alike = [case for case in self.failed if case.result.right == first.right]
        raised = [case for case in self.failed if not case.result.wanted]
        if first.wanted:  # it gave numbers: one that raised is not like it
            alike = [case for case in alike if case.result.wanted]
        closest = [case for case in alike if case.result.wrong_names == first.wrong_names]
        numbers = closest if first.wrong_part is None else alike
        # A hint must explain a whole group: all failures; else those that are wrong in the same
        # parts as the first; else, of an implementation, those with the same wrong numbers. If the
        # first raised an error, the last group is all that raised one.
        for group in (self.failed, alike, numbers if first.wanted else raised):
            explaining = (
                hint for hint in first.hints if all(hint in case.result.hints for case in group)
            )
            is_formula = first.wrong_part is not None
            if hint := self._likeliest(explaining) if is_formula else next(explaining, ""):
                return hint
        return ""

    def _likeliest(self, hints: Iterable[str]) -> str:
        """The first hint of a formula that says nothing else of the cases that are right.

        Else the first that is not wrong in more of them than it explains.
        """
        likely = ""
        passed = [case.result for case in self.cases if case.result.passed]
        for hint in hints:
            num_contradicting = sum(hint not in each.hints for each in passed)
            if not num_contradicting:
                return hint
            if num_contradicting <= len(self.failed) or not self._is_chosen(hint):
                likely = likely or hint
        return likely

    def _is_chosen(self, hint: str) -> bool:
        """Whether somebody wrote down a mistake with this hint."""
        known = self.judge.mistakes if self.judge else []
        return any(each.hint == hint and not each.is_generated for each in known)

    def _clue(self) -> str:
        """What is simple about the difference, over all cases of a formula."""
        if self.judge is None or any(case.result.wrong_part is None for case in self.failed):
            return ""
        found = clue(
            [each.case for each in self.cases],
            [each.result.wanted for each in self.cases],
            [each.result.given for each in self.cases],
            may_say_how_much=self.may_say_how_much,
            tolerance=self.judge.relative_tolerance,
        )
        return found or ""

    def _question(self) -> str:
        """What the exercise asks where something is wrong: in all failures alike, or in one."""
        failing = [{each.case.get("scenario"), each.result.first_wrong} for each in self.failed]
        first = self.failed[0].result
        scenarios = self.judge.questions if self.judge else {}
        asked = {**scenarios, first.first_wrong: first.question}
        for names in (set.intersection(*failing), failing[0]):
            for name, question in asked.items():
                if question and name in names:
                    return question
        return ""

    def _place(self) -> str:
        """Where an implementation is wrong, if few words say it."""
        if any(case.result.wrong_part is not None for case in self.failed):
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


def _same(one: float, other: float) -> bool:
    """Whether two ratios are equal up to rounding, and not beyond all numbers."""
    return math.isclose(one, other, rel_tol=1e-6) and math.isfinite(one)
