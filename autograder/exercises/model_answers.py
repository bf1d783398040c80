"""The model answer of each exercise, and the known mistakes: answers made of it by a patch.

The model answer stands once, in the solution cell of the unit's text master, and its mistakes
beside it in `mistakes.diff`: the wrong answer of a test and what recognises a student's are one.
Of this module, the masters and the mistakes nothing reaches students.
"""

import ast
import functools
import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import catalogue, mistake_file
from autograder.checking.bounded_call import observe_within_limits
from autograder.checking.exercise_check import Case, call
from autograder.checking.mistakes import Numbers, WrongNumbers
from autograder.checking.plain_data import Plain, key_of
from autograder.checking.time_limit import LIMIT_SECONDS
from autograder.exercises.mutations import mutations
from autograder.master_code import MasterCode
from autograder.mistake_file import Section

GENERATED_SECONDS = 1.0  # processor time of a generated mistake in a case
MASTERS = Path(__file__).parents[2] / "solutions"


@dataclass(frozen=True, eq=False)
class ChangedAnswer:
    """A known mistake: what the model answer gives after a change.

    Attributes:
        exercise: Id of the exercise.
        hint: The question to ask.
        source: The changed answer, as somebody would write it into the notebook.
        observe: What is observed of it.
        is_generated: Whether nobody chose the change, so that all chosen ones come first.
        known_by: The numbers by which it is known, if not all.
        points: What it still earns.
        found: The wrong numbers by case, as far as they were asked for.
        endless: The case in which a generated one came to no end.
    """

    exercise: str
    hint: str
    source: str
    observe: Callable[[Any, Case], object] = call
    is_generated: bool = False
    known_by: tuple[str, ...] = ()
    points: float = 0.0
    found: dict[str, Numbers] = field(default_factory=dict)
    endless: list[Case] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether it is known by all that goes wrong."""
        return not self.known_by

    @functools.cached_property
    def answer(self) -> Any:
        """The changed answer, ready to be called."""
        return answer_of(self.exercise, self.source)

    def numbers(self, case: Case, wrong_numbers: WrongNumbers) -> Numbers:
        """The numbers that it gets wrong in a case; none where it gives nothing to judge.

        A generated one that once comes to no end is not tried again.
        """
        key = key_of(case)
        if key not in self.found and not self.endless:
            limit = GENERATED_SECONDS if self.is_generated else LIMIT_SECONDS
            observed = observe_within_limits(self.observe, self.answer, case, limit)
            if self.is_generated and observed.get("trouble") == "stopped":
                self.endless.append(case)
            wrong = {} if _is_trouble(observed) else wrong_numbers(case, observed["value"])
            self.found[key] = {
                each: wrong[each] for each in self.known_by or wrong if each in wrong
            }
        return self.found.get(key, {})


def _is_trouble(observed: dict[str, Plain]) -> bool:
    """Whether a call, or the part of it that an observer watched, came to no value."""
    value = observed.get("value")
    return value is None or (isinstance(value, dict) and "trouble" in value)


def mistakes_of(
    exercise: str, observe: Callable[[Any, Case], object] = call
) -> list[ChangedAnswer]:
    """The known mistakes of an exercise, for its judge: what its unit's file says, in that order.

    Those of a formula are followed by all its mutations, which take no time to run.

    Raises:
        MistakeFileError: If one cannot be read, or does not fit the model answer.
    """
    source = model_source(exercise)
    chosen = [
        ChangedAnswer(
            exercise,
            each.hint,
            each.applied(source),
            observe,
            known_by=each.known_by,
            points=each.points,
        )
        for each in _section(exercise).patches
    ]
    generated = mutations(source, statement(exercise)) if observe is call else ()
    return chosen + [
        ChangedAnswer(exercise, each.question, each.source, is_generated=True) for each in generated
    ]


def questions_of(exercise: str) -> dict[str, str]:
    """What to ask where no mistake is recognised, by scenario or by the first wrong number."""
    return _section(exercise).questions


def _section(exercise: str) -> Section:
    """What the file of the exercise's unit says of it."""
    path = _folder(exercise) / mistake_file.NAME
    return mistake_file.sections_of(path).get(exercise, Section())


@functools.cache
def model_answer(exercise: str) -> Any:
    """The model answer, ready to be called."""
    return answer_of(exercise, model_source(exercise))


@functools.cache
def model_source(exercise: str) -> str:
    """The source of the model answer, from its text master."""
    return _master(exercise).source_of(catalogue.exercise(exercise).function)


def whole_model_source(exercise: str) -> str:
    """The source of the model answer, after all that it reads of its text master."""
    own = catalogue.exercise(exercise).function
    return _master(exercise).behind(model_source(exercise), own)


def statement(exercise: str) -> str:
    """The text on the exercise's card, up to the cell of the answer."""
    return _master(exercise).statement(exercise)


def answer_of(exercise: str, source: str) -> Any:
    """The answer that a source defines, with the names of the master that it reads."""
    filename = f"<answer to {exercise}, {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    own = catalogue.exercise(exercise).function
    for node in _master(exercise).needed(source, own):
        exec(compile(ast.Module([node], []), f"<master of {exercise}>", "exec"), namespace)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[own]


def _master(exercise: str) -> MasterCode:
    """The code of the exercise's master."""
    folder = _folder(exercise)
    return _read(folder / f"{folder.name}.py")


def _folder(exercise: str) -> Path:
    """The folder of the exercise's unit, with its master and its mistakes."""
    unit = next(u for u in catalogue.units() if any(exercise == e.id for e in u.exercises))
    return MASTERS / unit.folder


@functools.cache
def _read(path: Path) -> MasterCode:
    return MasterCode(path)
