"""The result of one answer over all cases, and its verdict: points, a sentence, a hint."""

import math
from dataclasses import dataclass

from autograder.checking import error_hints, verdict_figure
from autograder.checking.hint_choice import REMEMBERS, HintChoice
from autograder.checking.judged_case import JudgedCase, WhenAskedAgain
from autograder.checking.judges import ValueJudge
from autograder.checking.mistakes import ONLY
from autograder.checking.plain_data import Plain
from autograder.checking.verdict import Verdict, is_long


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
        words["hint"] = HintChoice(
            cases=self.cases,
            failed=failed,
            judge=self.judge,
            again=self.again,
            may_say_how_much=may_say_how_much,
        ).hint()
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
        case = "another case" if is_long(others[0].sizes) else f"`{others[0].sizes}`"
        another = f"And for {case}: expected {_short(second.wanted[part])}, "
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
