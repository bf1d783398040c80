"""What of the course an exercise needs where it is graded: `make build` writes it down.

Its roots are its model answer with what that reads of its master, its observer, and the names that
it allows. From each function all names are followed that its code reads; of a class all functions.
So nothing is kept that only a given cell, a sibling or a fallback of another exercise needs. Beside
it stand the parts of torch that would answer it. Exercises that need the same are graded beside
each other in one process; a person reads the file in a review.
"""

import ast
import dis
import functools
import importlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ContextDecorator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from autograder import catalogue
from autograder.checking.exercise_check import Check
from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import whole_model_source
from autograder.files import write_whole
from autograder.kept_names import FILE, OPEN, STRIPPED, home_of, is_within, is_written

TAUGHT = "course_utils."
WITH_DATA = ("course_utils.records.", "course_utils.planner.")


class _Reached:
    """The parts of the course that code reaches, by their dotted names."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.outside: set[str] = set()
        self._seen: set[int] = set()

    def read(self, code: CodeType, space: dict[str, Any]) -> None:
        """Follow what some code, and the functions inside it, load by a global name or import."""
        for each in _codes(code):
            found: Any = None  # what the instruction before has loaded
            imported: Any = None
            for step in dis.get_instructions(each):
                if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    found = space.get(step.argval)
                elif step.opname == "IMPORT_NAME":
                    imported, found = sys.modules.get(step.argval), None
                elif step.opname == "IMPORT_FROM":
                    found = getattr(imported, step.argval, None)
                elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(found, ModuleType):
                    found = vars(found).get(step.argval)
                else:
                    found = None
                if not isinstance(found, ModuleType):
                    self.add(found)

    def add(self, value: Any) -> None:
        """Follow a function, a class, what wraps them, and what a container holds."""
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        for part in _parts(value):
            self.add(part)
        if isinstance(value, FunctionType):
            if is_written(value):
                self._note(home_of(value))
            if value.__module__.startswith(STRIPPED):
                self.read(value.__code__, value.__globals__)
        elif isinstance(value, type):
            self._note((value.__module__, value.__qualname__))
        elif type(value).__module__.startswith(STRIPPED):
            for part in (type(value), *getattr(value, "__dict__", {}).values()):
                self.add(part)

    def _note(self, home: tuple[str, str]) -> None:
        module, name = home
        if module.startswith(STRIPPED):
            self.names.add(f"{module}.{name.split('.')[0]}")
        elif module.startswith("torch."):
            self.outside.add(f"{module}.{name}")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _parts(value: Any) -> Iterator[Any]:
    """What is called or held inside of a value."""
    match value:
        case FunctionType():
            for cell in value.__closure__ or ():
                yield cell.cell_contents
        case type() if value.__module__.startswith(STRIPPED):
            yield from (*value.__bases__, *vars(value).values())
        case staticmethod() | classmethod():
            yield value.__func__
        case property():
            yield from filter(None, (value.fget, value.fset))
        case functools.partial() | functools.cached_property():
            yield value.func
        case ContextDecorator():  # what `contextmanager` made, as a decorator
            yield vars(value).get("func")
        case dict():
            yield from value.values()
        case list() | tuple() | set() | frozenset():
            yield from value
    if callable(value) and not isinstance(value, type) and hasattr(value, "__wrapped__"):
        yield value.__wrapped__


def needed(exercise: str, check: Check) -> tuple[set[str], set[str]]:
    """The names of the course that an exercise needs, and those of torch."""
    reached = _Reached()
    reached.read(*_code_and_names(exercise))
    if check.observer:
        reached.add(check.observe)
    for name in check.allowed_names:
        reached.add(_found(name))
    answers = {*check.give_away, check.fallback} - {""}
    kept = {each for each in reached.names if not is_within(each, (*OPEN, *answers))}
    return kept, reached.outside


def _code_and_names(exercise: str) -> tuple[CodeType, dict[str, Any]]:
    """The code of the model answer and of all that it reads of its master, and its imports."""
    tree, space = ast.parse(whole_model_source(exercise)), dict[str, Any]()
    imports: list[ast.stmt] = [
        node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(imports, []), f"<master of {exercise}>", "exec"), space)
    return compile(tree, f"<answer to {exercise}>", "exec"), space


def absent(check: Check) -> set[str]:
    """What of torch would answer an exercise, by the names of what defines it."""
    named = (*check.give_away, *check.forbidden_modules)
    return {_full_name(each) for each in named if each.startswith("torch.")}


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        owner, _, part = name.rpartition(".")
        return getattr(importlib.import_module(owner), part)


def _full_name(name: str) -> str:
    """A dotted name by the module that defines it."""
    found = _found(name)
    is_module = isinstance(found, ModuleType)
    return found.__name__ if is_module else f"{found.__module__}.{found.__qualname__}"


def derived() -> dict[str, list[dict[str, Any]]]:
    """For each unit its processes: their exercises, what they keep, and what of torch is absent.

    Raises:
        ValueError: If one needs recorded data, which is not there where answers are graded.
    """
    return {f"u{unit.number}": [*_processes(unit)] for unit in catalogue.units() if unit.exercises}


def _processes(unit: catalogue.Unit) -> Iterator[dict[str, Any]]:
    """Exercises are beside each other where they keep the same of what is taught.

    No formula is beside an observer, which may measure what the formula is about.
    """
    beside: dict[str, list[str]] = defaultdict(list)
    kept: dict[str, set[str]] = defaultdict(set)
    of_torch: dict[str, set[str]] = defaultdict(set)
    for item in (each for each in unit.exercises if not each.manual):
        check = check_of(item.id)
        names, outside = needed(item.id, check)
        taught = sorted(each for each in names if each.startswith(TAUGHT))
        key = json.dumps([check.is_formula, taught])
        beside[key].append(item.id)
        kept[key] |= names
        of_torch[key] |= outside
    for key, exercises in beside.items():
        if data := [each for each in kept[key] if each.startswith(WITH_DATA)]:
            raise ValueError(f"{exercises} need data that is not there while graded: {data}")
        answers = set().union(*(absent(check_of(each)) for each in exercises))
        answers -= {a for a in answers for name in of_torch[key] if is_within(name, (a,))}
        of_course = _by_module(sorted(kept[key]))
        yield {"exercises": exercises, "kept": of_course, "absent": sorted(answers)}


def _by_module(names: Iterable[str]) -> dict[str, list[str]]:
    by_module: dict[str, list[str]] = defaultdict(list)
    for name in names:
        module, _, part = name.rpartition(".")
        by_module[module].append(part)
    return dict(by_module)


def text() -> str:
    """What the file holds: a line for each list."""
    whole = json.dumps(derived(), indent=1)
    return re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", whole) + "\n"


if __name__ == "__main__":
    derived_text, name = text(), FILE.relative_to(FILE.parents[3])
    if not FILE.exists() or FILE.read_text(encoding="utf-8") != derived_text:
        if sys.argv[1:] == ["--check"]:
            sys.exit(f"  differs {name}: what exercises need has changed, run `make build`")
        write_whole(FILE, derived_text)
        print(f"  wrote {name}: read what is new in it, students' code will have that")
