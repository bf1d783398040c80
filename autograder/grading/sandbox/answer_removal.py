"""The sandbox forgets what is right before a student's code comes in.

A function that reaches for a formula of the course, for hidden cases or for the reference of the
exercise that is tried finds its name and, in place of its code, an error. Checks in cells say
nothing here: the referee judges.
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
from autograder.checking.check import Check, call
from autograder.checking.notebook_calls import module_of

FORGOTTEN_ROOM = "course_utils.formulas."
PUT_AWAY = ("autograder.checking", "autograder.exercises", "autograder.grading")


def forget() -> None:
    """Take the code out of every formula, and the cases and judges out of every check."""
    for name, module in list(sys.modules.items()):
        if name.startswith(FORGOTTEN_ROOM):
            _empty([value for value in vars(module).values() if _is_of(value, name)])
    for item in catalogue.by_graded_cell().values():
        if not item.manual:
            home: Any = sys.modules[module_of(item.id)]
            if home.CHECK.observe is call:
                _empty([home.CHECK.reference, *_callables(home.CHECK.judge)])
            home.CHECK = replace(home.CHECK, judge=_gone, cases=_gone)
    autograder.check = autograder.grade = _alone(_no_points)
    autograder.answer = _alone(_as_it_is)


def put_away() -> None:
    """No name leads any more to the rooms that observe; the folder is hidden as well."""
    for name, module in list(sys.modules.items()):
        if name.startswith(PUT_AWAY):
            parent, _, last = name.rpartition(".")
            del sys.modules[name]
            if vars(sys.modules.get(parent, module)).get(last) is module:
                delattr(sys.modules[parent], last)


@contextlib.contextmanager
def hidden(check: Check) -> Iterator[None]:
    """The reference of an exercise has no code while a student's answer is tried.

    Nor has `nobody_is_observed`, so that the seal knows a reply that is sent meanwhile.
    """
    functions: list[FunctionType] = [nobody_is_observed]  # type: ignore[list-item]
    if not check.observe_runs_reference:
        functions += _functions(check.reference)
    codes = [function.__code__ for function in functions]
    _empty(functions)
    try:
        yield
    finally:
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code


def nobody_is_observed() -> None:
    """Nothing; that it has its code says that no observation is under way."""


def _is_of(value: object, module: str) -> bool:
    return getattr(value, "__module__", None) == module


def _callables(judge: object) -> list[object]:
    return [value for value in vars(judge).values() if callable(value)]


def _empty(known: list[Any]) -> None:
    """Put an error in the place of the code of functions, or of all functions of classes."""
    for function in (function for each in known for function in _functions(each)):
        free = function.__code__.co_freevars
        function.__code__ = _gone.__code__.replace(co_freevars=free)


def _functions(known: Any) -> Iterator[FunctionType]:
    known = inspect.unwrap(known) if callable(known) else known
    if isinstance(known, FunctionType):
        yield known
    elif isinstance(known, type):
        yield from (part for part in vars(known).values() if isinstance(part, FunctionType))


def _gone(*arguments: Any, **named: Any) -> NoReturn:
    raise RuntimeError("the course's own answers are not here while yours are graded")


def _alone(function: Any) -> FunctionType:
    """The same function without the names of this module, which lead on."""
    return FunctionType(function.__code__, {}, function.__name__)


def _no_points(exercise: str, answer: object) -> float:
    return 0.0


def _as_it_is(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    return mine
