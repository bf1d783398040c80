"""The wrong answers that people give to each exercise, and right answers in other styles.

A folder a unit: `first.py`, `second.py` and so on hold right answers to its implementations, as
students write them; `features.py` says which kinds of cases an exercise has for every seed; and
`wrong.diff` holds wrong answers as patches:

    @@ u09-each

    ? only the first rank's: “What do the others have?” [1: second]
    comm.all_reduce(p.grad) => comm.broadcast(p.grad, 0)

After the name stand words of the hint that it triggers, and in brackets, where there are any, the
points that it still earns and what it is a patch of: a right answer, instead of the model answer.
Where every line begins with `+`, they are the whole answer. `python -m tests.answer_bank u09-each`
prints the code of all. Answers stay sources, so that the same ones are judged here and put into a
notebook for nbgrader.
"""

import importlib
import linecache
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import whole_model_source
from autograder.master_code import FileCode
from autograder.mistake_file import MistakeFileError, Patch, blocks_of, changes_of, is_change

Case = dict[str, Any]

ROOM = Path(__file__).parent
STUB = "def {function}(*sizes):\n    raise NotImplementedError('not written yet')"
STYLES = ("first", "second", "third", "fourth", "fifth")
WRONG = re.compile(
    r"\? (?P<name>.+): “(?P<hint>.+)”"
    r"(?: \[(?P<points>[\d.]+)?(?:: )?(?P<base>" + "|".join(STYLES) + r")?\])?"
)


@dataclass(frozen=True)
class Wrong:
    """A wrong answer.

    Attributes:
        name: What is wrong, in a few words.
        source: Code that defines the answer.
        hint: Words of the hint that it must trigger.
        points: Points that it still earns.
    """

    name: str
    source: str
    hint: str
    points: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AnswerBank:
    """The answers to one exercise.

    Attributes:
        function: Name of the function or class that the exercise asks for.
        wrong: Wrong answers, beside the known mistakes.
        right: Right answers in other styles than the model answer's; none to a formula, of which
            only the value is looked at.
        features: Kinds of cases that must occur for every seed.
    """

    function: str
    wrong: Sequence[Wrong]
    right: Sequence[str]
    features: Mapping[str, Callable[[Case], bool]]


def bank_of(exercise: str) -> AnswerBank:
    """The answer bank of an exercise.

    Raises:
        MistakeFileError: If a wrong answer cannot be read, or its patch does not fit.
    """
    unit, function = exercise.split("-", maxsplit=1)[0], catalogue.exercise(exercise).function
    right = {} if check_of(exercise).is_formula else _right(unit, function)
    features = importlib.import_module(f"tests.answer_bank.{unit}.features").FEATURES
    bases = {None: whole_model_source(exercise)} | right
    return AnswerBank(
        function=function,
        wrong=[_wrong(block, place, bases) for block, place in _blocks(unit).get(exercise, [])],
        right=list(right.values()),
        features=features[exercise],
    )


def _right(unit: str, function: str) -> dict[str, str]:
    """The right answers that define a function, each after all that it reads of its module."""
    found = {}
    for style in STYLES:
        code = _code(ROOM / unit / f"{style}.py")
        if code and function in code.names:
            found[style] = code.behind(code.source_of(function), function)
    return found


@cache
def _code(path: Path) -> FileCode | None:
    return FileCode(path) if path.exists() else None


@cache
def _blocks(unit: str) -> dict[str, list[tuple[list[str], str]]]:
    """The wrong answers of a unit as they stand there, and where, by exercise."""
    found: dict[str, list[tuple[list[str], str]]] = {}
    path = ROOM / unit / "wrong.diff"
    for exercise, place, block in blocks_of(path) if path.exists() else ():
        found.setdefault(exercise, []).append((block, place))
    return found


def _wrong(block: Sequence[str], place: str, bases: Mapping[str | None, str]) -> Wrong:
    begin = next((n for n, line in enumerate(block) if is_change(line)), len(block))
    head = WRONG.fullmatch(" ".join(block[:begin]))
    lines = block[begin:]
    if not head or not lines:
        raise MistakeFileError(f"{place}: wanted `? name: “words of the hint”` and a change")
    if all(line.startswith("+ ") for line in lines):
        source = "\n".join(line[2:] for line in lines)
    else:
        source = Patch(head["name"], changes_of(lines, place), place=place).applied(
            bases[head["base"]]
        )
    return Wrong(head["name"], source, head["hint"], float(head["points"] or 0))


def make(source: str, name: str) -> Any:
    """The object called `name` that a source defines, as if typed into a notebook."""
    text = textwrap.dedent(source)
    filename = f"<answer {hash(text)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, filename, "exec"), namespace)
    return namespace[name]
