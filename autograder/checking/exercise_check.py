"""A check has three pure pieces: `cases`, `observe` and `judge`.

`cases` and `judge` run where the student's code cannot reach them; `observe` runs beside it. Only
plain data crosses between them, so the same check serves the notebook, nbgrader and a grader that
keeps the student's code in another process.
"""

import importlib
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from autograder.checking.case_objects import ArgumentChanged, arguments
from autograder.checking.judges import ValueJudge
from autograder.checking.mistakes import Case

__all__ = ["DECLARED", "Case", "Check", "call", "named"]


def named(names: Iterable[str], values: Iterable[Any]) -> Case:
    """A case of values in the order of their names.

    Raises:
        ValueError: If there are more of one than of the other.
    """
    return dict(zip(names, values, strict=True))


def call(answer: Any, case: Case) -> object:
    """Call the student's function with the sizes of a case: `observe` of every formula.

    Raises:
        ArgumentChanged: If one of its arguments is another one afterwards.
    """
    passed, kept = arguments(case), arguments(deepcopy(case))
    value = answer(*passed.values())
    for name, each in kept.items():
        if passed[name] != each:
            raise ArgumentChanged(name)
    return value


@dataclass(frozen=True, kw_only=True)
class Check:
    """How one exercise is judged.

    Attributes:
        cases: Maps a seed to at least twenty cases, the worked case first; for every seed, each
            named feature occurs among them.
        judge: A `ValueJudge` or an `ImplementationJudge`: maps a case and what `observe` returned
            to the result of the case. The measurement cache and the tests read its attributes too.
        observe: Uses the student's object and returns plain data.
        observer: Dotted name of the module that a pack takes `observe` and `facts` from; empty for
            a formula.
        fallback: Dotted name of what the course teaches, for cells that need a working answer.
        give_away: Dotted names of modules and functions that would answer it: where an answer is
            graded they are not there.
        forbidden_modules: Modules outside the course that already hold the answer.
        allowed_names: Names of the course that hold no answer to this exercise.
    """

    cases: Callable[[int], list[Case]]
    judge: ValueJudge
    observe: Callable[[Any, Case], object] = call
    observer: str = ""
    fallback: str = ""
    give_away: tuple[str, ...] = ()
    forbidden_modules: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()

    @property
    def is_formula(self) -> bool:
        """Whether only the value that the function returns is judged."""
        return self.observe is call

    def reference(self) -> Callable[..., Any]:
        """The course's own answer, for cells that need a working one."""
        module, _, name = self.fallback.rpartition(".")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function


DECLARED: dict[str, Check] = {}
"""The staff's checks, by exercise, of those units whose module was imported."""
