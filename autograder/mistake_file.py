"""The known mistakes of a unit's exercises, from `solutions/NN_topic/mistakes.diff`.

A mistake is a question, and a patch of the model answer:

    @@ u01-model-flops

    ? Your feed-forward block has two matrices. How many does a gated block have?
    6 * tokens => 4 * tokens

    ? Your hooks are still there when you return. What will the next pass set off? [2: hooks_left]
    - with hooks_on(model, hook):
    -     loss.backward()
    + for each in model.parameters():
    +     each.register_post_accumulate_grad_hook(hook)
    + loss.backward()

    ! step_seconds: The buckets are right, and the step takes longer. Who waits for them, and when?

An arrow changes a piece of a line. A hunk changes whole lines, at any depth; a line of it that
stays begins with two spaces. What is changed stands in the model answer exactly once. A patch has
one arrow or hunk, or several, one after the other; `and` parts two hunks that follow each other.

In brackets behind the question stand the points that such an answer still earns, if any, and the
numbers by which it is known, where others differ from answer to answer: `[2: hooks_left]`, `[2]`,
`[hooks_left]`. `or` begins another patch with the same question; with `any` as the last word in the
brackets, each combination of them is a mistake. A line with `!` asks its question of what no
mistake explains, by the scenario or the first number that is wrong.
"""

import functools
import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NAME = "mistakes.diff"
ARROW = re.compile(r" =>(?: |$)")
IN_HUNK = ("- ", "+ ", "  ")
LINE_ENDS = ("-", "+")  # a hunk's empty line
BRACKETS = re.compile(r"\s*\[(?P<points>\d[\d.]*)?(?::\s*)?(?P<shows>[\w, ]*?)(?P<any>\bany)?\]$")
QUESTION = re.compile(r"! (?P<name>[\w ]+): (?P<question>.+)")

Line = tuple[int, str]
"""A line of the file, with its number."""


class MistakeFileError(ValueError):
    """A mistake that cannot be read, or whose patch does not fit the model answer."""


@dataclass(frozen=True)
class Change:
    """A piece of the model answer, and what is written instead.

    Attributes:
        old: What stands there: a piece of a line, or whole lines.
        new: What is written instead.
        is_hunk: Whether they are whole lines, at any depth.
    """

    old: str
    new: str
    is_hunk: bool = False

    def applied(self, source: str) -> list[str]:
        """The source with the change, for each place where the old piece stands."""
        return list(self._in_lines(source) if self.is_hunk else self._in_line(source))

    def _in_line(self, source: str) -> Iterator[str]:
        parts = source.split(self.old)
        for n in range(1, len(parts)):
            yield self.old.join(parts[:n]) + self.new + self.old.join(parts[n:])

    def _in_lines(self, source: str) -> Iterator[str]:
        lines, old = source.split("\n"), self.old.split("\n")
        for n, line in enumerate(lines):
            depth = " " * (_depth(line) - _depth(old[0]))
            if lines[n : n + len(old)] == textwrap.indent(self.old, depth).split("\n"):
                new = textwrap.indent(self.new, depth).split("\n") if self.new else []
                yield "\n".join([*lines[:n], *new, *lines[n + len(old) :]])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


@dataclass(frozen=True)
class Edit:
    """The model answer as people get it wrong.

    Attributes:
        hint: Ends in a question.
        changes: Of the model answer, one after the other.
        points: What such an answer still earns.
        shows: The numbers by which it is known, if not all.
        place: Where it stands, for errors.
    """

    hint: str
    changes: tuple[Change, ...]
    points: float = 0.0
    shows: tuple[str, ...] = ()
    place: str = ""

    def applied(self, source: str) -> str:
        """The model answer's source with the mistake.

        Raises:
            MistakeFileError: If a piece does not stand there exactly once.
        """
        for change in self.changes:
            found = change.applied(source)
            if len(found) != 1:
                raise MistakeFileError(
                    f"{self.place}: the model answer has {change.old!r} {len(found)} times, not "
                    "once. Take in what stands around it, or what stands there now."
                )
            source = found[0]
        return source


@dataclass
class Section:
    """What is known of one exercise: its mistakes, and what to ask where none is recognised."""

    edits: list[Edit] = field(default_factory=list)
    questions: dict[str, str] = field(default_factory=dict)


def text_of(path: Path, exercise: str) -> str:
    """What a file says of an exercise, as it stands there; empty where that is nothing."""
    if not path.exists():
        return ""
    text = f"\n{path.read_text(encoding='utf-8')}".partition(f"\n@@ {exercise}\n")[2]
    return text.partition("\n@@ ")[0]


@functools.cache
def sections_of(path: Path) -> dict[str, Section]:
    """The sections of a file, by the id of their exercise.

    Raises:
        MistakeFileError: If something in it cannot be read; it names the line.
    """
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    blocks = itertools.groupby(lines, key=lambda line: not line[1].strip())
    sections: dict[str, Section] = {}
    section = Section()
    for block in (list(group) for is_empty, group in blocks if not is_empty):
        number, first = block[0]
        place = f"{path.parent.name}/{path.name}, line {number}"
        match first[:2]:
            case "@@":
                section = sections.setdefault(first[2:].strip(), Section())
            case "? ":
                section.edits += _edits(block, place)
            case "! ":
                section.questions |= _questions(block, place)
            case _:
                raise MistakeFileError(
                    f"{place}: {first!r} begins with none of '@@ ', '? ' and '! '"
                )
    return sections


def _edits(block: Sequence[Line], place: str) -> Iterator[Edit]:
    """The mistakes of one question."""
    lines = [text for _, text in block]
    begin = next((n for n, text in enumerate(lines) if n and _is_change(text)), 0)
    words = " ".join(lines[:begin])[2:]
    if not begin:
        raise MistakeFileError(f"{place}: the question has no change of the model answer below it")
    brackets = BRACKETS.search(words)
    hint = words[: brackets.start()] if brackets else words
    points = float(brackets["points"] or 0) if brackets else 0.0
    shows = tuple(re.findall(r"\w+", brackets["shows"])) if brackets else ()
    patches = [tuple(_changes(patch)) for patch in _split(lines[begin:], "or")]
    if brackets and brackets["any"]:
        patches = [sum(some, ()) for some in _combinations(patches)]
    for patch in patches:
        yield Edit(hint, patch, points, shows, place)


def _is_change(line: str) -> bool:
    return line.startswith(IN_HUNK) or line in LINE_ENDS or bool(ARROW.search(line))


def _split(lines: Iterable[str], word: str) -> Iterator[list[str]]:
    """The parts of some lines between those that are a word."""
    for is_word, part in itertools.groupby(lines, key=lambda line: line == word):
        if not is_word:
            yield list(part)


def _changes(patch: Sequence[str]) -> Iterator[Change]:
    """The changes of a patch, in order."""
    for part in _split(patch, "and"):
        for is_arrow, lines in itertools.groupby(part, key=lambda line: bool(ARROW.search(line))):
            if is_arrow:
                yield from (Change(old, new) for old, new in map(_sides, lines))
            else:
                yield _hunk(list(lines))


def _sides(arrow: str) -> tuple[str, str]:
    """What stands before an arrow, and what stands behind it."""
    old, new = ARROW.split(arrow, maxsplit=1)
    return old, new


def _hunk(lines: Sequence[str]) -> Change:
    old, new = ("\n".join(line[2:] for line in lines if line[0] in signs) for signs in ("- ", "+ "))
    return Change(old, new, is_hunk=True)


def _combinations(
    patches: Sequence[tuple[Change, ...]],
) -> Iterator[tuple[tuple[Change, ...], ...]]:
    """Each choice of one patch or more."""
    for count in range(1, len(patches) + 1):
        yield from itertools.combinations(patches, count)


def _questions(block: Sequence[Line], place: str) -> Iterator[tuple[str, str]]:
    """The names of a block's questions, which may run over several lines, and the questions."""
    text = "\n".join(line for _, line in block)
    for each in re.split(r"\n(?=! )", text):
        found = QUESTION.fullmatch(" ".join(each.split("\n")))
        if not found:
            raise MistakeFileError(f"{place}: wanted `! name: question`, got {each!r}")
        yield found["name"], found["question"]
