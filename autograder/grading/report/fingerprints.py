"""What of an answer can be compared with another's?

Code becomes words of which a student can change none without changing what the code does: a name
of one's own is N, a number 0, a text S; keywords, operators, built-ins and what follows a dot stay.
Runs of five words within one statement are its *pieces*. Since no piece reaches from one statement
into the next, moving a line changes none.

Comments and docstrings are kept apart, line by line: nobody writes the same sentence twice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pygments.lexers import PythonLexer
from pygments.token import Comment, Name, Number, String, Text, _TokenType

LENGTH = 5  # words of a piece
SENTENCE_WORDS = 5  # a shorter comment may well be written twice

Fingerprint = tuple[str, ...]

_LEXER = PythonLexer()


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """An answer taken apart.

    Attributes:
        runs: Runs of words, each once.
        sentences: Lines of comments and docstrings that are long enough to tell something.
    """

    runs: frozenset[Fingerprint]
    sentences: frozenset[str] = frozenset()

    def without(self, runs: frozenset[Fingerprint], text: str) -> "Fingerprints":
        """What is left when given runs, and sentences of a given text, are taken away."""
        own = {each for each in self.sentences if each not in text}
        return Fingerprints(runs=self.runs - runs, sentences=frozenset(own))


def of_code(source: str) -> Fingerprints:
    """The pieces of Python, whether it runs or not."""
    tokens = list(_LEXER.get_tokens(source))
    remarks = (text for kind, text in tokens if kind in Comment or kind in String.Doc)
    lines = {line for remark in remarks for line in remark.splitlines()}
    return Fingerprints(
        runs=frozenset(run for each in _statements(tokens) for run in _runs(each)),
        sentences=frozenset(map(sentence, lines)) - {""},
    )


def of_text(source: str) -> Fingerprints:
    """The pieces of an answer in words."""
    return Fingerprints(runs=frozenset(_runs(words(source))))


def words(text: str) -> list[str]:
    """The words and numbers of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def sentence(line: str) -> str:
    """The words of a line, or nothing if they are few; letters and numbers alone do not count."""
    telling = re.findall(r"\b[^\W\d]\w+", line)
    return " ".join(words(line)) if len(telling) >= SENTENCE_WORDS else ""


def _runs(line: list[str]) -> Iterator[Fingerprint]:
    """All runs of a line; all of a line that is shorter."""
    for start in range(max(1, len(line) - LENGTH + 1)):
        yield tuple(line[start : start + LENGTH])


def _statements(tokens: list[tuple[_TokenType, str]]) -> Iterator[list[str]]:
    """The words of each statement; one within brackets may go over several lines."""
    statement: list[str] = []
    depth = 0
    for kind, text in tokens:
        if kind in Text:
            if "\n" in text and depth <= 0 and statement:
                yield statement
                statement = []
        elif kind not in Comment and kind not in String.Doc:
            depth += (text in "([{") - (text in ")]}")
            statement += _word(kind, text, statement)
    if statement:
        yield statement


def _word(kind: _TokenType, text: str, before: list[str]) -> list[str]:
    """What stands for a token; nothing for the later parts of a text."""
    if kind in String:
        return [] if before[-1:] == ["S"] else ["S"]
    if kind in Number:
        return ["0"]
    is_own = kind in Name and kind not in Name.Builtin and before[-1:] != ["."]
    return ["N"] if is_own else [text]
