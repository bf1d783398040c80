"""Find answers to an exercise that resemble each other, or the course's own, more than by chance.

They are flagged, never judged: a person looks at both and decides.

What many write says nothing, so an n-gram (`fingerprints`) weighs log2((n + 1) / holders) bits in a
class of n. Two answers are alike if both conditions hold:

- By weight, at least `SHARE` of what is their own is in both.
- What they share weighs more than chance explains. Of n(n - 1)/2 pairs, one shares log2(n(n - 1)/2)
  bits by chance; `SURE_BITS` more are required, so that chance flags about one exercise in thirty.
  N-grams overlap, each with `LENGTH` words, so their weight is divided by `LENGTH`.

So the threshold depends on the class and the length of the answers: a formula of one line cannot
carry that many bits, and no pair is ever flagged for it (`is_too_short`). Two signs need no
counting: the same sentence in a comment or docstring, word for word, that the course has not given;
and the course's own code, word for word, however many hand it in (`CourseTexts.original_of`).
"""

import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autograder.grading.report.course_texts import SOLUTION, CourseTexts
from autograder.grading.report.fingerprints import LENGTH, Fingerprints

SHARE = 0.6
SURE_BITS = 5.0
QUOTED = 120  # characters of a comment that a reason quotes

Matrix = NDArray[np.float64]
Relation = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Alike:
    """Answers to one exercise that resemble each other.

    Attributes:
        exercise: Its id.
        names: The students, and the names of the course's own answers.
        share: The fraction of their own n-grams that the two most similar answers share, by weight.
        usual_share: The median of that fraction over all pairs of the class.
        sentence: Words of a comment or docstring that several of them have; empty if none.
        copies: Those of the students who have the course's own code word for word.
    """

    exercise: str
    names: tuple[str, ...]
    share: float
    usual_share: float
    sentence: str = ""
    copies: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why this was flagged, the strongest sign first."""
        same = (
            f"{self.share:.0%} of what is their own is the same; {self.usual_share:.0%} is usual."
        )
        if self.copies:
            who = ", ".join(self.copies)
            return f"Word for word the course's own, but for comments and layout: {who}. {same}"
        if not self.sentence:
            return same
        words = textwrap.shorten(self.sentence, QUOTED, placeholder=" …")
        return f"The same comment, word for word: “{words}”. {same}"


def find_alike(course: CourseTexts, answers: Mapping[str, str]) -> list[Alike]:
    """Groups of answers to an exercise that resemble each other, the surest first.

    Args:
        course: The course's own texts for the exercise.
        answers: What each student wrote, by student.
    """
    own = _own(course, answers)
    if len(own) < 2:
        return []
    names, fingerprints = list(own), list(own.values())
    of_course = {n for n, name in enumerate(names) if name in course.answers}
    shares, bits = _compared(fingerprints)
    sentences = _shared_sentences(fingerprints, of_course)
    alike = (shares >= SHARE) & (bits >= _bits_by_luck(len(own)) + SURE_BITS)
    _join(alike, sentences.values(), of_course)
    copies = {} if is_too_short(course, len(own)) else _copies(course, answers, names)
    for copy, original in copies.items():
        alike[copy, original] = alike[original, copy] = True
    usual = float(np.median(shares[np.triu_indices(len(names), 1)]))
    found = [
        Alike(
            exercise=course.exercise,
            names=tuple(names[n] for n in sorted(group)),
            share=_largest(shares, alike, sorted(group)),
            usual_share=usual,
            sentence=_longest(sentences, group, of_course),
            copies=tuple(names[n] for n in sorted(group & copies.keys())),
        )
        for group in _groups(alike)
    ]
    return sorted(found, key=surest_first)


def surest_first(found: Alike) -> tuple[bool, float]:
    """The order in which a person should look."""
    return not (found.copies or found.sentence), -found.share


def is_too_short(course: CourseTexts, num_answers: int) -> bool:
    """Whether not even a copy of the solution would be flagged in such a class."""
    longest = math.log2((num_answers + 1) / 2) * len(course.own(course.answers[SOLUTION]).ngrams)
    return longest / LENGTH < _bits_by_luck(num_answers) + SURE_BITS


def _own(course: CourseTexts, answers: Mapping[str, str]) -> dict[str, Fingerprints]:
    """Fingerprints of the course's and the students' answers, where they have any of their own."""
    everyone = {name: course.own(text) for name, text in {**course.answers, **answers}.items()}
    return {name: each for name, each in everyone.items() if each.ngrams or each.sentences}


def _copies(
    course: CourseTexts, answers: Mapping[str, str], names: Sequence[str]
) -> dict[int, int]:
    """Students' answers that are the course's word for word, each with the one that it is."""
    found = {n: course.original_of(answers.get(name, "")) for n, name in enumerate(names)}
    return {n: names.index(name) for n, name in found.items() if name in names}


def _bits_by_luck(num_answers: int) -> float:
    return math.log2(max(1, math.comb(num_answers, 2)))


def _compared(own: list[Fingerprints]) -> tuple[Matrix, Matrix]:
    """For each pair the fraction by weight that both share, and its bits."""
    holders = Counter(ngram for each in own for ngram in each.ngrams)
    weight = {ngram: math.log2((len(own) + 1) / count) for ngram, count in holders.items()}
    shared = [ngram for ngram, count in holders.items() if count > 1]  # no pair shares the others
    column = {ngram: n for n, ngram in enumerate(shared)}
    holds = np.zeros((len(own), len(shared)))
    for row, each in zip(holds, own, strict=True):
        row[[column[ngram] for ngram in each.ngrams if ngram in column]] = 1
    common = (holds * [weight[ngram] for ngram in shared]) @ holds.T
    total = np.array([sum(weight[ngram] for ngram in each.ngrams) for each in own])
    both = np.maximum(total[:, None] + total, 1e-9)  # an answer may be all comment
    return 2 * common / both, common / LENGTH


def _shared_sentences(own: list[Fingerprints], of_course: set[int]) -> dict[str, set[int]]:
    """Sentences that occur in several answers, at least one of them a student's, and in which."""
    holders = defaultdict(set)
    for n, each in enumerate(own):
        for sentence in each.sentences:
            holders[sentence].add(n)
    return {each: found for each, found in holders.items() if _counts(found, of_course)}


def _counts(answers: set[int], of_course: set[int]) -> bool:
    return len(answers) > 1 and not answers <= of_course


def _longest(sentences: Mapping[str, set[int]], group: set[int], of_course: set[int]) -> str:
    """The longest sentence that a group shares, or ''."""
    shared = [each for each, holders in sentences.items() if _counts(holders & group, of_course)]
    return max(shared, key=len, default="")


def _join(alike: Relation, sharing: Iterable[set[int]], of_course: set[int]) -> None:
    """Mark answers that share a sentence as alike, but not those of the course."""
    for holders in sharing:
        alike[np.ix_(sorted(holders), sorted(holders))] = True
    alike[np.ix_(sorted(of_course), sorted(of_course))] = False
    np.fill_diagonal(alike, False)


def _largest(shares: Matrix, alike: Relation, group: list[int]) -> float:
    within = np.ix_(group, group)
    return float(shares[within][alike[within]].max())


def _groups(alike: Relation) -> list[set[int]]:
    """The connected components of the relation."""
    groups: list[set[int]] = []
    for first in map(int, np.flatnonzero(alike.any(axis=0))):
        if not any(first in group for group in groups):
            group, new = {first}, {first}
            while new:
                new = {int(n) for each in new for n in np.flatnonzero(alike[each])} - group
                group |= new
            groups.append(group)
    return groups
