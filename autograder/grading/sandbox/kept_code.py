"""Leave of the course, in the process that observes answers, what its exercises need.

`kept.json` says what that is; the build derives it. All other functions lose their code, whatever
name or object leads to them, before the first of a student's cells runs. So does what of torch
would answer an exercise. `check`, `grade` and `answer` give nothing away in any process.
"""

import gc
import json
import linecache
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from types import FunctionType
from typing import Any

import autograder
from autograder.checking.exercise_check import Check
from autograder.grading.course_version import SOURCE
from autograder.kept_names import FILE, OPEN, STRIPPED, home_of, is_within, is_written

UNLOADED = tuple(f"autograder.{room}" for room in ("checking", "exercises", "grading", "observers"))


@dataclass(frozen=True)
class Fork:
    """What a process that observes answers has of the course.

    Attributes:
        exercises: Those that are observed in it.
        kept: Dotted names of functions and classes of the course that keep their code.
        absent: Dotted names of modules and classes of torch that lose it.
    """

    exercises: tuple[str, ...]
    kept: frozenset[str]
    absent: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """What a new process is told."""
        return {"kept": sorted(self.kept), "absent": [*self.absent]}


NOT_HERE = """
def outer({free}):
    def not_here(*arguments, error, **named):
        raise error("this part of the course is not here while your answers are graded")
        return ({free})
    return not_here
"""


class NotHereError(RuntimeError):
    """Something of the course was called that is not there while answers are graded."""


@cache
def forks_of(unit: str) -> tuple[Fork, ...]:
    """The processes of a unit such as ``u05``."""
    return tuple(
        Fork(
            tuple(each["exercises"]),
            frozenset(f"{m}.{name}" for m, names in each["kept"].items() for name in names),
            tuple(each["absent"]),
        )
        for each in _units().get(unit, [])
    )


class Course:
    """The functions of the course and of torch in this process, as far as they may go."""

    def __init__(self) -> None:
        """Find them all, whatever leads to them."""
        absent = {name for unit in _units() for fork in forks_of(unit) for name in fork.absent}
        modules = {_module_of(name) for name in absent}
        self._functions = [
            (module, name, each)
            for each in gc.get_objects()
            if type(each) is FunctionType
            for module, name in [home_of(each)]
            if module.startswith((*STRIPPED, *(f"{each}." for each in modules)))
            or module in modules
        ]

    def leave(self, kept: Iterable[str], absent: Iterable[str]) -> None:
        """Take the code of all functions but those that are kept."""
        linecache.clearcache()
        stays, goes = {*kept}, tuple(absent)
        for module, name, function in self._functions:
            if module.startswith(STRIPPED):
                is_needed = f"{module}.{name.split('.')[0]}" in stays or is_within(module, OPEN)
            else:
                is_needed = not is_within(f"{module}.{name}", goes)
            if not is_needed and is_written(function):
                _remove_code(function)


@cache
def _units() -> dict[str, list[dict[str, Any]]]:
    """What the file says of the processes of each unit."""
    units: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return units


def _module_of(name: str) -> str:
    return name if name in sys.modules else name.rpartition(".")[0]


def files_of(absent: Iterable[str]) -> list[Path]:
    """The files, compiled ones too, of what of torch is absent, and all of the course."""
    rooms = [*(SOURCE / "course_utils").iterdir()]
    named = {*map(_module_of, absent)}
    sources = [
        Path(file)
        for name, module in sys.modules.items()
        if is_within(name, named) and (file := getattr(module, "__file__", None))
    ]
    return [*rooms, *sources, *(Path(cache_from_source(str(path))) for path in sources)]


def for_observing(check: Check) -> Check:
    """A check without its judge and cases."""
    return replace(check, judge=NOTHING, cases=NOTHING)


def silence_checks() -> None:
    """`check`, `grade` and `answer` show and give nothing from now on: the referee judges."""
    vars(autograder).update(check=_no_points, grade=_no_points, answer=_own_function)


def unload_checks() -> None:
    """Remove the modules of checks, exercises and grader from every name that leads to them."""
    for name, module in list(sys.modules.items()):
        if name.startswith(UNLOADED):
            parent, _, last = name.rpartition(".")
            del sys.modules[name]
            if vars(sys.modules.get(parent, module)).get(last) is module:
                delattr(sys.modules[parent], last)


def _remove_code(function: FunctionType) -> None:
    function.__code__ = _not_here(len(function.__code__.co_freevars)).__code__
    function.__kwdefaults__ = {"error": NotHereError}


@cache
def _not_here(num_free: int) -> FunctionType:
    """A function that raises an error, with as many names of a function around it as another has.

    Their number is the only thing that is asked of code when it takes another's place.
    """
    free = "".join(f"free_{n}, " for n in range(num_free))
    space: dict[str, Any] = {}
    exec(NOT_HERE.format(free=free), space)
    made: FunctionType = space["outer"](*range(num_free))
    made.__kwdefaults__ = {"error": NotHereError}
    return made


NOTHING: Any = _not_here(0)
"""Stands where a judge and cases were."""


def _no_points(exercise: str, answer: object) -> float:
    return 0.0


def _own_function(exercise: str, mine: Callable[..., Any]) -> Callable[..., Any]:
    return mine
