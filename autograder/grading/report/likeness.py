"""Which answers to an exercise resemble each other, or the course's own, more than by chance?

Flagged, never judged: a person looks at both and decides.

What many write says nothing, so a piece (`pieces`) weighs log2((n + 1) / holders) bits in a class
of n. Two answers are alike if both hold:

- By weight, at least `SHARE` of what is their own is in both.
- What is in both weighs more than chance gives: with n(n - 1)/2 pairs, some pair shares
  log2 of so many bits by luck. `SURE_BITS` more are asked for, so that luck flags about one
  exercise in thirty. Pieces overlap, `LENGTH` words each, so their weight is divided by it.

So the class and the length set the threshold together: a formula of one line cannot carry that many
bits, and no pair is ever flagged for it (`is_too_short`). The strongest sign needs no counting:
the same sentence in a comment or docstring, word for word, that the course has not given.
"""

import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autograder.grading.report.course_texts import SOLUTION, CourseTexts
from autograder.grading.report.fingerprints import LENGTH, Fingerprints

SHARE = 0.6
SURE_BITS = 5.0
QUOTED = 120  # letters of a comment that a reason quotes

Matrix = NDArray[np.float64]
Relation = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Alike:
    """Answers to one exercise that resemble each other.

    Attributes:
        exercise: Its id.
        names: The students, and what the course's own answers are called.
        share: Of what is their own in the two that are most alike, the part that both have.
        usual_share: The same for a pair in the middle of the class.
        sentence: Words of a comment or docstring that several of them have; empty if none.
    """

    exercise: str
    names: tuple[str, ...]
    share: float
    usual_share: float
    sentence: str = ""

    @property
    def reason(self) -> str:
        """Why this was flagged, the strongest sign first."""
        same = (
            f"{self.share:.0%} of what is their own is the same; {self.usual_share:.0%} is usual."
        )
        if not self.sentence:
            return same
        words = textwrap.shorten(self.sentence, QUOTED, placeholder=" …")
        return f"The same comment, word for word: “{words}”. {same}"


def find_alike(task: CourseTexts, answers: Mapping[str, str]) -> list[Alike]:
    """Groups of answers to an exercise that resemble each other, the surest first.

    Args:
        task: The exercise.
        answers: What each student wrote, by student.
    """
    own = _own(task, answers)
    if len(own) < 2:
        return []
    names, pieces = list(own), list(own.values())
    of_course = {n for n, name in enumerate(names) if name in task.answers}
    shares, bits = _compared(pieces)
    sentences = _shared_sentences(pieces, of_course)
    alike = (shares >= SHARE) & (bits >= _bits_by_luck(len(own)) + SURE_BITS)
    _join(alike, sentences.values(), of_course)
    usual = float(np.median(shares[np.triu_indices(len(names), 1)]))
    found = [
        Alike(
            exercise=task.exercise,
            names=tuple(names[n] for n in sorted(group)),
            share=_largest(shares, alike, sorted(group)),
            usual_share=usual,
            sentence=_longest(sentences, group, of_course),
        )
        for group in _groups(alike)
    ]
    return sorted(found, key=surest_first)


def surest_first(found: Alike) -> tuple[bool, float]:
    """The order in which a person should look."""
    return not found.sentence, -found.share


def is_too_short(task: CourseTexts, num_answers: int) -> bool:
    """Whether even a copy of the solution could not be told from chance in such a class."""
    longest = math.log2((num_answers + 1) / 2) * len(task.own(task.answers[SOLUTION]).runs)
    return longest / LENGTH < _bits_by_luck(num_answers) + SURE_BITS


def _own(task: CourseTexts, answers: Mapping[str, str]) -> dict[str, Fingerprints]:
    """What is their own in the course's and the students' answers, where there is something."""
    everyone = {name: task.own(text) for name, text in {**task.answers, **answers}.items()}
    return {name: each for name, each in everyone.items() if each.runs or each.sentences}


def _bits_by_luck(num_answers: int) -> float:
    return math.log2(max(1, math.comb(num_answers, 2)))


def _compared(own: list[Fingerprints]) -> tuple[Matrix, Matrix]:
    """For each pair the share, and the weight, of what both have."""
    holders = Counter(run for each in own for run in each.runs)
    weight = {run: math.log2((len(own) + 1) / count) for run, count in holders.items()}
    shared = [run for run, count in holders.items() if count > 1]  # the others meet in no pair
    column = {run: n for n, run in enumerate(shared)}
    holds = np.zeros((len(own), len(shared)))
    for row, each in zip(holds, own, strict=True):
        row[[column[run] for run in each.runs if run in column]] = 1
    common = (holds * [weight[run] for run in shared]) @ holds.T
    total = np.array([sum(weight[run] for run in each.runs) for each in own])
    both = np.maximum(total[:, None] + total, 1e-9)  # an answer may be all comment
    return 2 * common / both, common / LENGTH


def _shared_sentences(own: list[Fingerprints], of_course: set[int]) -> dict[str, set[int]]:
    """Sentences that stand in several answers, a student's among them, and in which."""
    holders = defaultdict(set)
    for n, each in enumerate(own):
        for sentence in each.sentences:
            holders[sentence].add(n)
    return {each: found for each, found in holders.items() if _counts(found, of_course)}


def _counts(answers: set[int], of_course: set[int]) -> bool:
    return len(answers) > 1 and not answers <= of_course


def _longest(sentences: Mapping[str, set[int]], group: set[int], of_course: set[int]) -> str:
    """The sentence of a group that tells most, or nothing."""
    told = [each for each, holders in sentences.items() if _counts(holders & group, of_course)]
    return max(told, key=len, default="")


def _join(alike: Relation, sharing: Iterable[set[int]], of_course: set[int]) -> None:
    """Take those who share a sentence for alike, but no answer with itself, nor the course's."""
    for holders in sharing:
        alike[np.ix_(sorted(holders), sorted(holders))] = True
    alike[np.ix_(sorted(of_course), sorted(of_course))] = False
    np.fill_diagonal(alike, False)


def _largest(shares: Matrix, alike: Relation, group: list[int]) -> float:
    within = np.ix_(group, group)
    return float(shares[within][alike[within]].max())


def _groups(alike: Relation) -> list[set[int]]:
    """Answers that hang together through pairs."""
    groups: list[set[int]] = []
    for first in map(int, np.flatnonzero(alike.any(axis=0))):
        if not any(first in group for group in groups):
            group, new = {first}, {first}
            while new:
                new = {int(n) for each in new for n in np.flatnonzero(alike[each])} - group
                group |= new
            groups.append(group)
    return groups
