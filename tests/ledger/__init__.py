"""What every answer to every exercise is told: points and hint, in practice and when graded.

One table a unit, with a row for each known mistake, wrong answer, right answer and change that
nobody chose, and for the stub. An answer is known by its syntax tree, so that the tables say the
same of it wherever it is kept and however it is laid out.
"""

import ast
import csv
import functools
import hashlib
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from autograder import catalogue
from autograder.checking.lookup import check_of, graded_check_of, practice_check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.exercises.model_answers import ChangedAnswer, model_answer, model_source
from tests.answer_bank import make
from tests.answer_bank.every import ANSWER_BANKS

TABLES = Path(__file__).parent / "tables"
HIDDEN_SEEDS = (200, 201)  # as many as a grade draws from
STUB = "def {function}(*sizes):\n    raise NotImplementedError('not written yet')"
SAME = "〃"  # graded as in practice


@dataclass(frozen=True)
class Row:
    """What one answer is told.

    Attributes:
        exercise: Its id.
        tree: A hash of the answer's syntax tree.
        answer: Which one it was when the row was written.
        points: Points in practice.
        hint: Hint in practice.
        graded_points: Points when graded.
        graded_hint: Hint when graded.
    """

    exercise: str
    tree: str
    answer: str
    points: str
    hint: str
    graded_points: str
    graded_hint: str


@dataclass(frozen=True)
class Answer:
    """An answer to an exercise.

    Attributes:
        exercise: Its id.
        name: Which one it is.
        source: Its code.
        make: Makes it of its code.
    """

    exercise: str
    name: str
    source: str
    make: Callable[[], Any]

    @property
    def tree(self) -> str:
        """A hash of its syntax tree."""
        return tree_of(self.source)


@functools.cache
def tree_of(source: str) -> str:
    """A hash of the syntax tree of a piece of code, the same on every Python."""
    plain = _plain(ast.parse(textwrap.dedent(source)))
    return hashlib.sha256(repr(plain).encode()).hexdigest()[:12]


def _plain(node: Any) -> Any:
    """A syntax tree without its empty fields, which differ from one Python to the next."""
    if isinstance(node, ast.AST):
        fields = ((name, each) for name, each in ast.iter_fields(node) if each not in (None, []))
        return type(node).__name__, [(name, _plain(each)) for name, each in fields]
    return list(map(_plain, node)) if isinstance(node, list) else node


def answers(exercise: str) -> Iterator[Answer]:
    """All answers to an exercise that a table knows, each tree once."""
    seen = set()
    for each in _answers(exercise):
        if each.tree not in seen:
            seen.add(each.tree)
            yield each


def _answers(exercise: str) -> Iterator[Answer]:
    bank = ANSWER_BANKS[exercise]
    source = model_source(exercise)
    yield Answer(exercise, "model", source, lambda: model_answer(exercise))
    sources = {"stub": STUB.format(function=bank.function)}
    sources |= {f"right {number}": each for number, each in enumerate(bank.right)}
    sources |= {f"wrong: {each.name}": each.source for each in bank.wrong}
    for name, source in sources.items():
        yield Answer(exercise, name, source, functools.partial(make, source, bank.function))
    for number, each in enumerate(check_of(exercise).judge.mistakes):
        if isinstance(each, ChangedAnswer):
            kind = "generated" if each.is_generated else "edit"
            yield Answer(exercise, f"{kind} {number}", each.source, lambda each=each: each.answer)


def row_of(answer: Answer) -> Row:
    """What an answer is told now."""
    name, most = answer.exercise, catalogue.exercise(answer.exercise).points
    practice = score_answer(practice_check_of(name), answer.make(), PRACTICE_SEEDS)
    graded = score_answer(graded_check_of(name), answer.make(), HIDDEN_SEEDS)
    told = practice.verdict(name, most, tell_all=True)
    told_later = graded.verdict(name, most, tell_all=False)
    return Row(
        exercise=name,
        tree=answer.tree,
        answer=answer.name,
        points=f"{told.points:g}",
        hint=told.hint,
        graded_points=f"{told_later.points:g}",
        graded_hint=SAME if told_later.hint == told.hint else told_later.hint,
    )


def table_of(exercise: str) -> Path:
    """The table of the exercise's unit."""
    return TABLES / f"{exercise.split('-', maxsplit=1)[0]}.tsv"


@functools.cache
def read(path: Path) -> list[Row]:
    """The rows of a table; none where there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**each) for each in csv.DictReader(file, dialect="excel-tab")]


def in_ledger(exercise: str) -> bool:
    """Whether the ledger knows an exercise."""
    return any(row.exercise == exercise for row in read(table_of(exercise)))


def write(path: Path, rows: list[Row]) -> None:
    """Write a table."""
    read.cache_clear()
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        table.writerow(field.name for field in fields(Row))
        table.writerows(map(astuple, rows))
