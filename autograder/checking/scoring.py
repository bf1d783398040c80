"""All that was seen of one answer, and what follows from it: points, a sentence, a hint."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from autograder.checking import error_hints
from autograder.checking.plain_data import Plain
from autograder.checking.verdict import CaseResult, Verdict

PENCIL = "Work this case with a pencil. At which step do you and your code part?"
CONSTANT = "Your answer is the same for all sizes. Which of the sizes should it depend on?"

# In accounting a ratio that is the same in every case is often the diagnosis.
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
    """One case: its sizes in words, what came, and what the judge found."""

    sizes: str
    value: Plain
    finding: CaseResult


@dataclass(frozen=True, kw_only=True)
class AnswerResult:
    """What an answer did in every case, or the trouble that ended the examination.

    Attributes:
        trials: The cases that were judged.
        trouble: What `observe_within_limits` saw where no value came; nothing else counts then.
        sizes: The case of the trouble, in words.
    """

    trials: tuple[JudgedCase, ...] = ()
    trouble: dict[str, Plain] | None = None
    sizes: str = ""

    def verdict(self, exercise: str, max_points: float, *, tell_all: bool) -> Verdict:
        """Sum up: the share of parts that were right in every case, a sentence and a hint.

        Args:
            exercise: Id of the exercise.
            max_points: What it is worth.
            tell_all: Whether wanted and got are said, or only the sizes and the hint.
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
        """Without a trial, or with a trouble, there is no fraction to give."""
        if self.trouble is not None or not self.trials:
            return 0.0
        return len(self._parts_that_pass()) / len(self.trials[0].finding.right)

    def _words(self, tell_all: bool) -> tuple[str, str, str]:
        """The sentence, the sizes that it is about, and the hint."""
        if self.trouble is not None:
            sentence, hint = error_hints.in_words(self.trouble)
            return sentence, "" if self.trouble["trouble"] == "unwritten" else self.sizes, hint
        failed = [trial for trial in self.trials if not trial.finding.passed]
        if not failed:
            return self._praise(), "", ""
        told = failed[0].finding.sentence if tell_all else "Not the right answer."
        sentence = f"{told} Wrong in {len(failed)} of {len(self.trials)} cases."
        if passed := self._parts_that_pass():
            sentence += f" Passed: {', '.join(passed)}."
        return sentence, failed[0].sizes, self._hint(failed)

    def _parts_that_pass(self) -> list[str]:
        """Names of the scenarios, or other parts, that are right in every case."""
        parts = self.trials[0].finding.right
        return [each for each in parts if all(trial.finding.right[each] for trial in self.trials)]

    def _praise(self) -> str:
        remarks = {trial.finding.remark for trial in self.trials if trial.finding.remark}
        return " ".join([f"Right in all {len(self.trials)} cases.", *sorted(remarks)])

    def _hint(self, failed: list[JudgedCase]) -> str:
        """A known mistake that explains every failure, or those like the first, or a symptom."""
        first = failed[0].finding
        for group in (failed, [trial for trial in failed if trial.finding.right == first.right]):
            for hint in first.hints:
                if all(hint in trial.finding.hints for trial in group):
                    return hint
        return self._symptom() or PENCIL

    def _symptom(self) -> str:
        """What all cases show alike, where every one of them failed."""
        values = {repr(trial.value) for trial in self.trials}
        if len(values) == 1 and len(self.trials) > 1:
            return CONSTANT
        ratios = [trial.finding.ratio for trial in self.trials]
        first = ratios[0]
        if not first or any(not each or not _same(each, first) for each in ratios):
            return ""
        named = (words for ratio, words in RATIOS.items() if _same(ratio, first))
        general = f"Always {first:.4g} times the right answer. Which constant factor is that?"
        return next(named, general)


def _same(one: float, other: float) -> bool:
    """Whether two ratios are the same but for rounding."""
    return math.isclose(one, other, rel_tol=1e-6)
