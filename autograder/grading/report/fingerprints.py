"""Fingerprints of an answer: its n-grams, and the sentences in its comments.

Code becomes a sequence of words that survives renaming: the student's own names become N, numbers
0, strings S; keywords, operators, built-ins and attributes stay. The fingerprint is the set of all
n-grams of five words. No n-gram crosses the end of a statement, so moving a line changes none.

Comments and docstrings are kept separately, line by line: nobody writes the same sentence twice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pygments.lexers import PythonLexer
from pygments.token import Comment, Name, Number, String, Text, _TokenType

LENGTH = 5  # words of an n-gram
SENTENCE_WORDS = 5  # shorter comments may be alike by chance

Ngram = tuple[str, ...]

_LEXER = PythonLexer()


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """What of an answer is compared with others.

    Attributes:
        ngrams: The n-grams of its words.
        sentences: Lines of comments and docstrings that are long enough to compare.
    """

    ngrams: frozenset[Ngram]
    sentences: frozenset[str] = frozenset()

    def without(self, ngrams: frozenset[Ngram], text: str) -> "Fingerprints":
        """The same without given n-grams and without sentences of a given text."""
        own = {each for each in self.sentences if each not in text}
        return Fingerprints(ngrams=self.ngrams - ngrams, sentences=frozenset(own))


def of_code(source: str) -> Fingerprints:
    """The fingerprints of Python code, which need not be valid."""
    tokens = list(_LEXER.get_tokens(source))
    remarks = (text for kind, text in tokens if kind in Comment or kind in String.Doc)
    lines = {line for remark in remarks for line in remark.splitlines()}
    return Fingerprints(
        ngrams=frozenset(ngram for each in _statements(tokens) for ngram in _ngrams(each)),
        sentences=frozenset(map(sentence, lines)) - {""},
    )


def of_text(source: str) -> Fingerprints:
    """The fingerprints of an answer in words."""
    return Fingerprints(ngrams=frozenset(_ngrams(words(source))))


def words(text: str) -> list[str]:
    """The words and numbers of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def sentence(line: str) -> str:
    """The words of a line, or '' if they are few; single letters and numbers do not count."""
    telling = re.findall(r"\b[^\W\d]\w+", line)
    return " ".join(words(line)) if len(telling) >= SENTENCE_WORDS else ""


def _ngrams(statement: list[str]) -> Iterator[Ngram]:
    """The n-grams of a statement; a shorter statement is one itself."""
    for start in range(max(1, len(statement) - LENGTH + 1)):
        yield tuple(statement[start : start + LENGTH])


def _statements(tokens: list[tuple[_TokenType, str]]) -> Iterator[list[str]]:
    """The words of each statement; within brackets it may have several lines."""
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
    """What a token becomes; nothing for the later parts of a string."""
    if kind in String:
        return [] if before[-1:] == ["S"] else ["S"]
    if kind in Number:
        return ["0"]
    is_own = kind in Name and kind not in Name.Builtin and before[-1:] != ["."]
    return ["N"] if is_own else [text]
