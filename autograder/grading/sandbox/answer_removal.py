"""Remove the course's answers from the sandbox before a student's code runs in it.

The names of formulas, of hidden cases and of the reference of the exercise that is observed stay,
but their code is replaced by an error. Checks in cells show nothing here: the referee judges.
"""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any, NoReturn

import autograder
from autograder import catalogue
from autograder.checking.exercise_check import Check

FORMULAS = "course_utils.formulas."
UNLOADED = ("autograder.checking", "autograder.exercises", "autograder.grading")


def remove_answers() -> None:
    """Remove the code of formulas, the cases and judge of every check, and a formula's reference.

    `check`, `grade` and `answer` give nothing away any more.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(FORMULAS):
            values = vars(module).values()
            _remove_code([each for each in values if getattr(each, "__module__", None) == name])
    for item in catalogue.by_graded_cell().values():
        if not item.manual:
            checked: Any = sys.modules[item.check_module]
            if checked.CHECK.is_formula:
                parts = vars(checked.CHECK.judge).values()
                _remove_code([checked.CHECK.reference, *filter(callable, parts)])
            checked.CHECK = replace(checked.CHECK, judge=_removed, cases=_removed)
    autograder.check = autograder.grade = _without_globals(_no_points)
    autograder.answer = _without_globals(_own_function)


def unload_checks() -> None:
    """Remove the modules of checks, exercises and grader from every name that leads to them."""
    for name, module in list(sys.modules.items()):
        if name.startswith(UNLOADED):
            parent, _, last = name.rpartition(".")
            del sys.modules[name]
            if vars(sys.modules.get(parent, module)).get(last) is module:
                delattr(sys.modules[parent], last)


@contextlib.contextmanager
def without_reference(check: Check) -> Iterator[None]:
    """Remove the code of an exercise's reference while a student's answer is observed.

    The code of `outside_observation` is removed, too, so that the integrity check finds a change if
    a reply is forged meanwhile.
    """
    functions: list[FunctionType] = [outside_observation]  # type: ignore[list-item]
    if not check.observe_runs_reference:
        functions += _functions(check.reference)
    codes = [function.__code__ for function in functions]
    _remove_code(functions)
    try:
        yield
    finally:
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code


def outside_observation() -> None:
    """Do nothing; it has code only while no observation is in progress."""


def _remove_code(objects: list[Any]) -> None:
    """Replace the code of functions, and of all functions of classes, by an error."""
    for function in (function for each in objects for function in _functions(each)):
        free = function.__code__.co_freevars
        function.__code__ = _removed.__code__.replace(co_freevars=free)


def _functions(value: Any) -> Iterator[FunctionType]:
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        yield from (part for part in vars(value).values() if isinstance(part, FunctionType))


def _removed(*arguments: Any, **named: Any) -> NoReturn:
    raise RuntimeError("the course's own answers are not here while yours are graded")


def _without_globals(function: Any) -> FunctionType:
    """The same function without this module's global names, which lead to others."""
    return FunctionType(function.__code__, {}, function.__name__)


def _no_points(exercise: str, answer: object) -> float:
    return 0.0


def _own_function(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    return mine
