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

    ! overlap: The buckets are right, and the step takes longer. Who waits for them, and when?

Empty lines part the questions. An arrow replaces part of a line. A hunk replaces whole lines, at
any indentation; lines that stay begin with two spaces, and an empty line is a lone `-` or `+`. What
is replaced stands exactly once in the model answer, as the changes before it left it. A patch has
one change or several; `and` parts two hunks that follow each other.

The brackets after a question hold the points that such an answer still earns, and, where its other
numbers vary from student to student, the names of those that identify it: `[2: hooks_left]`, `[2]`,
`[hooks_left]`. `or` begins another patch with the same question; with `any` as the last word in the
brackets, each combination of them is a mistake. A line that begins with `!` holds the question to
ask when no mistake explains an answer: by an implementation's scenario, or by the number of a
formula that is the first wrong one.
"""

import functools
import itertools
import re
import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NAME = "mistakes.diff"
HEADER = re.compile(r"@@ (?P<exercise>[\w-]+)")
ARROW = re.compile(r" =>(?: |$)")
IN_HUNK = ("- ", "+ ", "  ")
EMPTY_LINES = ("-", "+")  # of a hunk
BRACKETS = re.compile(r"\s*\[([^\]]*)\]$")
IN_BRACKETS = re.compile(
    r"(?P<points>\d+(?:\.\d+)?)?"
    r"(?:(?:^|: )(?P<known_by>[a-z]\w*(?:, \w+)*))??"
    r"(?:(?:^| )(?P<any>any))?"
)
QUESTION = re.compile(r"! (?P<name>[\w ]+): (?P<question>.+\?)")


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

    def candidates(self, source: str) -> list[str]:
        """The source after the change, once for each place where it fits."""
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
class Patch:
    """Changes that make of the model answer a wrong one, as people write it.

    Attributes:
        hint: Ends in a question.
        changes: The changes, applied in this order.
        points: What such an answer still earns.
        known_by: The numbers by which it is known, if not all.
        place: Where it stands, for errors.
    """

    hint: str
    changes: tuple[Change, ...]
    points: float = 0.0
    known_by: tuple[str, ...] = ()
    place: str = ""

    def applied(self, source: str) -> str:
        """The model answer's source with the mistake.

        Raises:
            MistakeFileError: If a piece does not stand there exactly once.
        """
        for change in self.changes:
            found = change.candidates(source)
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

    patches: list[Patch] = field(default_factory=list)
    questions: dict[str, str] = field(default_factory=dict)


def text_of(path: Path, exercise: str) -> str:
    """What a file says of an exercise, as it stands there; empty where that is nothing."""
    if not path.exists():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    headers = [n for n, line in enumerate(lines) if line.startswith("@@")]
    for begin, end in itertools.pairwise([*headers, len(lines)]):
        if lines[begin] == f"@@ {exercise}":
            return "\n".join(lines[begin:end])
    return ""


@functools.cache
def sections_of(path: Path) -> dict[str, Section]:
    """The sections of a file, by the id of their exercise.

    Raises:
        MistakeFileError: If something in it cannot be read; it names the line.
    """
    sections: dict[str, Section] = {}
    for exercise, place, block in blocks_of(path):
        section = sections.setdefault(exercise, Section())
        if block[0].startswith("? "):
            section.patches += _patches(block, place)
        elif block[0].startswith("! "):
            section.questions |= _questions(block, place)
        else:
            raise MistakeFileError(f"{place}: wanted '@@ ', '? ' or '! ', got {block[0]!r}")
    return sections


def blocks_of(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Each block of lines between empty ones: the exercise it is about, its place, its lines.

    Raises:
        MistakeFileError: If an exercise has no header, or a second one.
    """
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    blocks = itertools.groupby(lines, key=lambda line: not line[1].strip())
    exercises: list[str] = []
    for block in (list(group) for is_empty, group in blocks if not is_empty):
        place = f"{path.parent.name}/{path.name}, line {block[0][0]}"
        texts = [text.rstrip() for _, text in block]
        if texts[0].startswith("@@"):
            exercises.append(_exercise(texts, exercises, place))
        elif not exercises:
            raise MistakeFileError(f"{place}: wanted `@@ exercise` first, got {texts[0]!r}")
        else:
            yield exercises[-1], place, texts


def _exercise(block: Sequence[str], known: Container[str], place: str) -> str:
    """The id in the header of a section."""
    header = HEADER.fullmatch(block[0])
    if not header or len(block) > 1:
        raise MistakeFileError(f"{place}: wanted `@@ exercise` and an empty line, got {block[:2]}")
    if header["exercise"] in known:
        raise MistakeFileError(f"{place}: there is a section {block[0]!r} already")
    return header["exercise"]


def _patches(block: Sequence[str], place: str) -> Iterator[Patch]:
    """The mistakes of one question."""
    begin = next((n for n, text in enumerate(block) if n and is_change(text)), 0)
    if not begin:
        raise MistakeFileError(f"{place}: the question has no change of the model answer below it")
    hint, points, known_by, is_any = _question(" ".join(block[:begin])[2:], place)
    patches = [changes_of(patch, place) for patch in _split(block[begin:], "or")]
    if is_any:
        patches = [sum(some, ()) for some in _combinations(patches)]
    for patch in patches:
        yield Patch(hint, patch, points, known_by, place)


def _question(words: str, place: str) -> tuple[str, float, tuple[str, ...], bool]:
    """A question, and what its brackets say: points, numbers, and whether `any` patches count."""
    brackets = BRACKETS.search(words)
    inside = IN_BRACKETS.fullmatch(brackets[1]) if brackets else None
    hint = words[: brackets.start()] if brackets else words
    if not hint.endswith("?"):
        raise MistakeFileError(f"{place}: wanted a question, got {hint!r}")
    if brackets and not inside:
        raise MistakeFileError(f"{place}: wanted [points: numbers any], got [{brackets[1]}]")
    if inside is None:
        return hint, 0.0, (), False
    known_by = tuple(re.findall(r"\w+", inside["known_by"] or ""))
    return hint, float(inside["points"] or 0), known_by, bool(inside["any"])


def is_change(line: str) -> bool:
    """Whether a line is part of a patch."""
    return line.startswith(IN_HUNK) or line in EMPTY_LINES or bool(ARROW.search(line))


def _split(lines: Iterable[str], word: str) -> Iterator[list[str]]:
    """The runs of lines between lines that are a given word."""
    for is_word, part in itertools.groupby(lines, key=lambda line: line == word):
        if not is_word:
            yield list(part)


def changes_of(patch: Iterable[str], place: str) -> tuple[Change, ...]:
    """The changes of a patch, in order.

    Raises:
        MistakeFileError: If a line is none of a change.
    """
    return tuple(_changes(patch, place))


def _changes(patch: Iterable[str], place: str) -> Iterator[Change]:
    for part in _split(patch, "and"):
        for is_arrow, lines in itertools.groupby(part, key=lambda line: bool(ARROW.search(line))):
            if is_arrow:
                yield from (_arrow(line, place) for line in lines)
            else:
                yield _hunk(list(lines), place)


def _arrow(line: str, place: str) -> Change:
    old, new = ARROW.split(line, maxsplit=1)
    if not old.strip():
        raise MistakeFileError(f"{place}: nothing stands before the arrow to {new!r}")
    return Change(old, new)


def _hunk(lines: Sequence[str], place: str) -> Change:
    wrong = [each for each in lines if not each.startswith(IN_HUNK) and each not in EMPTY_LINES]
    if wrong:
        raise MistakeFileError(
            f"{place}: wanted a line that begins with '- ', '+ ' or two spaces, got {wrong[0]!r}"
        )
    old, new = ([line[2:] for line in lines if line[0] in signs] for signs in ("- ", "+ "))
    if not any(old):
        raise MistakeFileError(
            f"{place}: nothing says where {new[0]!r} goes; add a line that stays before it"
        )
    return Change("\n".join(old), "\n".join(new), is_hunk=True)


def _combinations(
    patches: Sequence[tuple[Change, ...]],
) -> Iterator[tuple[tuple[Change, ...], ...]]:
    """Each choice of one patch or more."""
    for count in range(1, len(patches) + 1):
        yield from itertools.combinations(patches, count)


def _questions(block: Sequence[str], place: str) -> Iterator[tuple[str, str]]:
    """The names of a block's questions, which may run over several lines, and the questions."""
    for each in re.split(r"\n(?=[!?] )", "\n".join(block)):
        found = QUESTION.fullmatch(" ".join(each.split("\n")))
        if not found:
            raise MistakeFileError(f"{place}: wanted `! name: question`, got {each!r}")
        yield found["name"], found["question"]
