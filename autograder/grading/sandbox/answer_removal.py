"""Remove the course's answers from the sandbox before a student's code runs in it.

The names of formulas and of hidden cases stay, but their code is replaced by an error. Checks in
cells show nothing here: the referee judges.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from importlib.util import cache_from_source
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import autograder
from autograder.checking.exercise_check import Check

FORMULAS = "course_utils.formulas."
UNLOADED = (
    "autograder.checking",
    "autograder.exercises",
    "autograder.grading",
    "autograder.observers",
)


def remove_answers(checks: Iterable[Check]) -> None:
    """Remove the code of formulas, and what the checks hold of a formula's answer.

    `check`, `grade` and `answer` give nothing away any more.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(FORMULAS):
            _remove_code(_defined_in(module))
    for check in checks:
        if check.is_formula:
            _remove_code([*filter(callable, vars(check.judge).values())])
    autograder.check = autograder.grade = _without_globals(_no_points)
    autograder.answer = _without_globals(_own_function)


def for_observing(check: Check) -> Check:
    """A check without its judge and cases."""
    return replace(check, judge=NOTHING, cases=NOTHING)


def remove_named(names: Iterable[str]) -> bool:
    """Remove the code of modules, functions and classes, given by their dotted names."""
    for name in names:
        module, part = _found(name)
        _remove_code([getattr(module, part)] if part else _defined_in(module))
    return True


def files_of(checks: Iterable[Check]) -> set[Path]:
    """The files, compiled ones too, of all modules that would answer an exercise."""
    places = (_found(name) for check in checks for name in check.give_away)
    names = {
        getattr(module, part).__module__ if part else module.__name__ for module, part in places
    }
    sources = {Path(file) for name in names if (file := sys.modules[name].__file__)}
    return sources | {Path(cache_from_source(str(path))) for path in sources}


def _found(name: str) -> tuple[ModuleType, str]:
    """The module that a dotted name is or lies in, and the name of the part, if it is one."""
    try:
        return importlib.import_module(name), ""
    except ModuleNotFoundError:
        owner, _, part = name.rpartition(".")
        return importlib.import_module(owner), part


def _defined_in(module: ModuleType) -> list[Any]:
    """What a module defines itself."""
    values = vars(module).values()
    return [each for each in values if getattr(each, "__module__", None) == module.__name__]


def unload_checks() -> None:
    """Remove the modules of checks, exercises and grader from every name that leads to them."""
    for name, module in list(sys.modules.items()):
        if name.startswith(UNLOADED):
            parent, _, last = name.rpartition(".")
            del sys.modules[name]
            if vars(sys.modules.get(parent, module)).get(last) is module:
                delattr(sys.modules[parent], last)


@contextlib.contextmanager
def observing() -> Iterator[None]:
    """Remove the code of `outside_observation` while a student's answer is observed.

    So the integrity check finds a change if a reply is forged meanwhile.
    """
    function: Any = outside_observation
    code = function.__code__
    _remove_code([function])
    try:
        yield
    finally:
        function.__code__ = code


def outside_observation() -> None:
    """Do nothing; it has code only while no observation is in progress."""


def _remove_code(objects: list[Any]) -> None:
    """Replace the code of functions, and of all functions of classes, by an error."""
    for function in (function for each in objects for function in _functions(each)):
        free = function.__code__.co_freevars
        function.__code__ = _removed.__code__.replace(co_freevars=free)


def _functions(value: Any) -> Iterator[FunctionType]:
    """A function and all that it wraps, or those that a class defines."""
    for part in vars(value).values() if isinstance(value, type) else [value]:
        each = part
        if isinstance(part, property | cached_property):
            each = part.fget if isinstance(part, property) else part.func
        while each is not None:
            if isinstance(each, FunctionType):
                yield each
            each = getattr(each, "__wrapped__", None)


def _removed(*arguments: Any, **named: Any) -> NoReturn:
    raise RuntimeError("the course's own answers are not here while yours are graded")


NOTHING: Any = _removed
"""Stands where a judge and cases were."""


def _without_globals(function: Any) -> FunctionType:
    """The same function without this module's global names, which lead to others."""
    return FunctionType(function.__code__, {}, function.__name__)


def _no_points(exercise: str, answer: object) -> float:
    return 0.0


def _own_function(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    return mine
