"""The result of one answer over all cases, and its verdict: points, a sentence, a hint."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from autograder.checking import error_hints
from autograder.checking.plain_data import Plain
from autograder.checking.verdict import CaseResult, Verdict

PENCIL = "Work this case with a pencil. At which step do you and your code part?"
CONSTANT = "Your answer is the same for all sizes. Which of the sizes should it depend on?"

# In accounting, a ratio that is the same in every case is often the diagnosis.
RATIOS = {
    0.5: "Exactly half in every case. What happens twice?",
    2: "Exactly twice in every case. What do you count twice?",
    3: "Exactly three times in every case. What do you count that is not asked for?",
    1 / 3: "Exactly a third in every case. Which two thirds are missing?",
    8: "Exactly eight times in every case. Do you count bits where bytes are meant?",
    1 / 8: "Exactly an eighth in every case. Do you take bytes for bits?",
    1024: "Exactly 1,024 times in every case. Which step between KiB, MiB and GiB is missing?",
    1 / 1024: "Exactly 1/1,024 in every case. Which step between KiB, MiB and GiB is one too many?",
}


class JudgedCase(NamedTuple):
    """One case: its sizes in words, the value that came, and what the judge said of it."""

    sizes: str
    value: Plain
    result: CaseResult


@dataclass(frozen=True, kw_only=True)
class AnswerResult:
    """What an answer did in every case, or the trouble that stopped the scoring.

    Attributes:
        cases: The cases that were judged.
        trouble: What `observe_within_limits` returned if no value came; then nothing else counts.
        sizes: The case of the trouble, in words.
    """

    cases: tuple[JudgedCase, ...] = ()
    trouble: dict[str, Plain] | None = None
    sizes: str = ""

    def verdict(self, exercise: str, max_points: float, *, tell_all: bool) -> Verdict:
        """Sum up: points for the parts that were right in every case, a sentence and a hint.

        Args:
            exercise: Id of the exercise.
            max_points: What it is worth.
            tell_all: Whether to say wanted and got, or only the sizes and the hint.
        """
        sentence, sizes, hint = self._words(tell_all)
        return Verdict(
            exercise=exercise,
            points=round(max_points * self._fraction(), 6),
            max_points=max_points,
            sentence=sentence,
            sizes=sizes,
            hint=hint,
            written=self.trouble is None or self.trouble["trouble"] != "unwritten",
            hidden=not tell_all,
        )

    def _fraction(self) -> float:
        """The share of parts that pass; nothing without a case, or with a trouble."""
        if self.trouble is not None or not self.cases:
            return 0.0
        return len(self._passed_parts()) / len(self.cases[0].result.right)

    def _words(self, tell_all: bool) -> tuple[str, str, str]:
        """The sentence, the sizes that it is about, and the hint."""
        if self.trouble is not None:
            sentence, hint = error_hints.sentence_and_hint(self.trouble)
            return sentence, "" if self.trouble["trouble"] == "unwritten" else self.sizes, hint
        failed = [case for case in self.cases if not case.result.passed]
        if not failed:
            return self._praise(), "", ""
        problem = failed[0].result.sentence if tell_all else "Not the right answer."
        sentence = f"{problem} Wrong in {len(failed)} of {len(self.cases)} cases."
        if passed := self._passed_parts():
            sentence += f" Passed: {', '.join(passed)}."
        return sentence, failed[0].sizes, self._hint(failed)

    def _passed_parts(self) -> list[str]:
        """Names of the scenarios, or other parts, that are right in every case."""
        parts = self.cases[0].result.right
        return [part for part in parts if all(case.result.right[part] for case in self.cases)]

    def _praise(self) -> str:
        remarks = {case.result.remark for case in self.cases if case.result.remark}
        return " ".join([f"Right in all {len(self.cases)} cases.", *sorted(remarks)])

    def _hint(self, failed: list[JudgedCase]) -> str:
        """A known mistake that explains every failure, or those like the first, or a symptom."""
        first = failed[0].result
        alike = [case for case in failed if case.result.right == first.right]
        for group in (failed, alike):
            for hint in first.hints:
                if all(hint in case.result.hints for case in group):
                    return hint
        return self._symptom() or PENCIL

    def _symptom(self) -> str:
        """What all cases have in common: one value, or one ratio of got to wanted."""
        values = {repr(case.value) for case in self.cases}
        if len(values) == 1 and len(self.cases) > 1:
            return CONSTANT
        ratios = [case.result.ratio for case in self.cases]
        first = ratios[0]
        if not first or any(not each or not _same(each, first) for each in ratios):
            return ""
        known = (hint for ratio, hint in RATIOS.items() if _same(ratio, first))
        general = f"Always {first:.4g} times the right answer. Which constant factor is that?"
        return next(known, general)


def _same(one: float, other: float) -> bool:
    """Whether two ratios are equal up to rounding."""
    return math.isclose(one, other, rel_tol=1e-6)
