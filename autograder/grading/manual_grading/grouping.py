"""Which answers in words are alike, so that a person reads them once?

Case, spaces, punctuation and the form of numbers do not count. Texts are near when nearly all their
words agree in order; but never when a number, its unit, a sign of a formula, or a word that turns a
sentence round differs: those decide whether an answer is right.

    >>> groups_of(["It is 21.90 GB!", "it is 21.9 GB", "It is 23.9 GB"])
    [[0, 1], [2]]
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from rapidfuzz.distance import Indel

from autograder.cell_code import with_few_marks

Words = tuple[str, ...]

NEAR = 0.9  # share of the words that agree, in order
MAX_WORDS = 600  # longer texts are alike only when equal; comparing takes the square of it
SIGN = r"[<>≤≥≠+/^]|[-−–](?=\s*(?:\d|\w\b))|\*\*(?=\s*\d)"  # no dash, no emphasis in markdown
TOKEN = re.compile(rf"\d[\d,]*(?:\.\d+)?|[^\W\d_]+(?:'t\b)?|{SIGN}")
MINUS = str.maketrans("−–", "--")
TURNING = frozenset(
    (
        "<",
        ">",
        "≤",
        "≥",
        "≠",
        "+",
        "-",
        "/",
        "^",
        "**",
        "no",
        "not",
        "none",
        "never",
        "nor",
        "neither",
        "without",
        "cannot",
        "only",
        "more",
        "less",
        "fewer",
        "larger",
        "smaller",
        "higher",
        "lower",
        "before",
        "after",
        "above",
        "below",
        "inside",
        "outside",
        "grow",
        "grows",
        "shrink",
        "shrinks",
        "rise",
        "rises",
        "fall",
        "falls",
    )
)


def groups_of(texts: Sequence[str]) -> list[list[int]]:
    """Indices of like texts, in the order of their first ones."""
    equal: defaultdict[Words, list[int]] = defaultdict(list)
    for index, text in enumerate(texts):
        equal[words(text)].append(index)
    # Only texts with the same deciding words can be near: groups by them, with their first text.
    groups: defaultdict[Words, list[tuple[Words, list[int]]]] = defaultdict(list)
    for said, members in sorted(equal.items(), key=lambda each: (-len(each[1]), each[0])):
        candidates = groups[_deciding(said)]
        near = next((group for first, group in candidates if _is_alike(first, said)), None)
        if near is None:
            candidates.append((said, members))
        else:
            near += members
    return sorted(sorted(group) for each in groups.values() for _, group in each)


def words(text: str) -> Words:
    """The words and numbers of a text, each in one form."""
    plain = unicodedata.normalize("NFKC", with_few_marks(text)).casefold().replace("’", "'")
    found = (each.translate(MINUS) for each in TOKEN.findall(plain))
    return tuple(_number(each) if each[0].isdigit() else each for each in found)


def differences(text: str, first: str) -> list[tuple[str, bool]]:
    """A text in pieces, each with whether its words differ from the first text of its group."""
    start = len(text) - len(text.lstrip())
    pieces, others = re.findall(r"\S+\s*", text[start:]), first.split()
    if not pieces or max(len(pieces), len(others)) > MAX_WORDS:
        return [(text, words(text) != words(first))]
    steps = Indel.opcodes([*map(words, others)], [*map(words, pieces)])
    pieces[0] = text[:start] + pieces[0]
    return [
        ("".join(pieces[step.dest_start : step.dest_end]), step.tag != "equal")
        for step in steps
        if step.tag != "delete"
    ]


def _number(digits: str) -> str:
    """A number without separators of thousands and zeros that say nothing."""
    whole, _, part = digits.replace(",", "").partition(".")
    return ".".join(filter(None, (whole.lstrip("0") or "0", part.rstrip("0"))))


def _is_alike(one: Words, other: Words) -> bool:
    if max(len(one), len(other)) > MAX_WORDS:
        return False
    return Indel.normalized_similarity(one, other, score_cutoff=NEAR) >= NEAR


def _deciding(said: Words) -> Words:
    """Numbers with what follows them, and words that turn a sentence round, in order."""
    return tuple(
        each
        for before, each in pairwise(("", *said))
        if each[0].isdigit() or before[:1].isdigit() or each in TURNING or each.endswith("'t")
    )
