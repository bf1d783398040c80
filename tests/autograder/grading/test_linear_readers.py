"""What students wrote is read in time that grows as its length, whatever characters it is made of.

Sizes grow fourfold up to 200,000 characters, and the processor time of each may be less than eight
times that of the size before: a pattern that takes the square of the length takes sixteen times.
"""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from autograder.checking import error_hints, verdict
from autograder.grading.intake import folder, lms, merge
from autograder.grading.manual_grading.grouping import differences, words
from autograder.grading.same_code import program_of, statements_of
from autograder.grading.shown import html_sanitizer, mathml, outputs, preprocessors
from tests.autograder.grading.handed_in import FRESH, UNIT, packed, plain

NOTEBOOK = plain()
SIZES = (3_125, 12_500, 50_000, 200_000)
MAX_GROWTH = 8
MIN_SECONDS = 0.02  # of what takes less, noise is as large
LINE_ENDS = ("\n", "\r", "\r\n", "\u2028", "\\\n", "A\n", "- a\n", "> ", "_1_2_x\n")
BLANKS = (" ", "\t", "\f", "\u00a0", "\u200b", "x ?", " \n")
SIGNS = tuple("`~$<>[](){}\\*_-#|!&\"'@=+?.,:;/%^")
PAIRS = ("<!--", "](", "![", "$a", '"""', "1.", "1,", "(1)", "-1", "-copy", "_1", "**", "&#")
MARKS = ("\u0301", "\u0301\u0316", "\u05b0\u0301\u0316", "e\u0301", "\ufdfa", "\u1100\u1161")
WORDS = ("0", "x", "a't ", "a b ", "def ", "async ", "data:image/png;base64,", "picture-inside-0 ")
RUNS = (*LINE_ENDS, *BLANKS, *MARKS, "0", "x")  # which a pattern may look through in vain
ODD = (*LINE_ENDS, *BLANKS, *SIGNS, *PAIRS, *MARKS, *WORDS, "\0", "\x1b[", "\ud83d")


def in_a_notebook(text: str) -> None:
    cells = [
        cell | {"source": text} for cell in NOTEBOOK["cells"] if "nbgrader" in cell["metadata"]
    ]
    merge(packed(NOTEBOOK | {"cells": cells[:2]}), FRESH)


def in_an_output(text: str) -> None:
    entry = {"output_type": "stream", "name": "stdout", "text": text}
    outputs.Space().fitting(outputs.sanitized([entry]))


def in_an_error(text: str) -> None:
    trouble = {"trouble": "raised", "error": "E", "message": text, "line": text}
    error_hints.sentence_and_hint(trouble)


def as_names_of_files(text: str) -> None:
    path = f"a{text}"
    lms.OWNER.fullmatch(path)
    lms.ANONYMOUS.match(path)
    folder.choose([(path, lambda: b""), (f"{UNIT}{text}.ipynb", lambda: b"")], UNIT)


READERS: dict[str, Callable[[str], object]] = {
    "words": words,
    "differences": lambda text: differences(text, "a b"),
    "program": lambda text: [*statements_of(program_of(text))],
    "markdown": html_sanitizer.markdown2html,
    "code": html_sanitizer.highlight_code,
    "formula": lambda text: mathml.from_latex(text, "block"),
    "table cell": preprocessors._in_a_row,
    "output": in_an_output,
    "error": in_an_error,
    "verdict": verdict._marked_up,
    "notebook": in_a_notebook,
    "bytes of a notebook": lambda text: folder.choose(
        [("x", lambda: f'"u{UNIT[:2]}-{text}'.encode(errors="replace"))], UNIT
    ),
    "names of files": as_names_of_files,
}


def seconds(read: Callable[[str], object], text: str) -> float:
    """Processor time of a reader."""
    start = time.process_time()
    read(text)
    return time.process_time() - start


def is_too_slow(read: Callable[[str], object], shorter: str, longer: str) -> bool:
    """Whether a longer text takes too much longer, also when one looks again."""
    fewest = [min(seconds(read, text) for _ in range(3)) for text in (shorter, longer)]
    return fewest[1] > MAX_GROWTH * fewest[0]


def grows_too_much(read: Callable[[str], object], texts: list[str]) -> bool:
    """Whether a text of four times the length takes too much longer, from the shortest on."""
    before = seconds(read, texts[0])
    for shorter, longer in pairwise(texts):
        taken = seconds(read, longer)
        factor = taken / max(before, MIN_SECONDS / 4)
        if factor > MAX_GROWTH and is_too_slow(read, shorter, longer):
            return True
        before = taken
    return False


@pytest.mark.parametrize("name", READERS)
def test_readers_take_time_as_the_length_of_what_they_read(name):
    found = [
        (odd, end)
        for odd in ODD
        for start, end in (("", ""), ("x", "?"))[: 1 + (odd in RUNS)]
        if grows_too_much(
            READERS[name], [f"{start}{odd * (size // len(odd))}{end}" for size in SIZES]
        )
    ]
    assert not found, f"{name} takes more than {MAX_GROWTH} times as long for four times"
