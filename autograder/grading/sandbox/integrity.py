"""Has a student's code replaced something of the course's that observes it?

A seal remembers, before the student's code is there, which function, class, check or constant
every name of the watched modules stands for, and which code every function runs. For each
observation it tells what differs, and also what was replaced meanwhile and put back: Python
numbers the changes of every namespace. Who assigns to a name, a class or a function's code is
seen. Who rewrites memory is not.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from autograder.checking.check import Check

WATCHED = (
    "autograder.checking",
    "autograder.exercises",
    "autograder.grading",
    "course_utils.distributed",
    "course_utils.instruments",
    "course_utils.reference",
    "ast",
    "builtins",
    "contextlib",
    "functools",
    "gc",
    "inspect",
    "itertools",
    "json",
    "math",
    "random",
    "safetensors",
    "signal",
    "warnings",
    "weakref",
    "torch._tensor",
    "torch.autograd",
    "torch.multiprocessing.reductions",
    "torch.nn",
    "torch.overrides",
    "torch.random",
    "torch.utils._python_dispatch",
    "torch.utils._pytree",
    "torch.utils.flop_counter",
)
ALONE = ("autograder", "torch", "torch._C")  # without the modules below
# They keep a state in a global name.
RESTLESS = ("torch.autograd.profiler", "torch.utils._python_dispatch", "warnings")
OF_A_DICTIONARY, OF_A_PROXY = 24, 16  # where its number of changes stands, and its dictionary

OURS = ("autograder", "course_utils")

Broken = Callable[[list[int]], str]
Marks = Callable[[], list[int]]


class _Name(NamedTuple):
    """One name in a module, a class or a dictionary, and what it stands for."""

    place: str
    space: Mapping[Any, Any]
    name: Any
    value: Any


class _Space(NamedTuple):
    """A namespace with the names in it and its number of changes, zero where nobody counts."""

    place: str
    names: list[_Name]
    changes: ctypes.c_uint64
    is_restless: bool


class _Code(NamedTuple):
    """What one function runs."""

    place: str
    function: FunctionType
    code: Any
    defaults: Any
    named_defaults: Any


def seal(modules: Mapping[str, Any]) -> tuple[Marks, Broken]:
    """Take a seal now.

    Args:
        modules: All that are loaded, by name.

    Returns:
        A function that gives marks to begin an observation with, and one that takes them at its
        end and names the first thing that is, or was meanwhile, not what it was; or nothing. They
        use no name of any module, for that could be replaced too.
    """
    names = [name for module in _watched(modules) for name in _in_module(module)]
    codes = list({id(code.function): code for name in names for code in _codes(name)}.values())
    spaces = _spaces(names)
    counts = [space.changes for space in spaces]
    at_first, together = [count.value for count in counts], zip

    def marks() -> list[int]:
        return [count.value for count in counts]

    def broken(before: list[int]) -> str:
        for space, count, first, mark in together(spaces, counts, at_first, before):
            if count.value != mark and not space.is_restless:
                return space.place
            if count.value != first or not first:
                for name in space.names:
                    if name.space.get(name.name) is not name.value:
                        return f"{name.place}.{name.name}"
        for place, function, code, defaults, named in codes:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not named
            ):
                return place
        return ""

    return marks, broken


def counts_changes() -> bool:
    """Whether this Python counts changes at the known place."""
    trial: dict[str, int] = {}
    count = ctypes.c_uint64.from_address(id(trial) + OF_A_DICTIONARY)
    seen = [count.value, trial.update(a=1) or count.value, trial.update(a=2) or count.value]
    return len(set(seen)) == 3


def _spaces(names: list[_Name]) -> list[_Space]:
    by_space: dict[int, list[_Name]] = {}
    for name in names:
        by_space.setdefault(id(name.space), []).append(name)
    is_counted = counts_changes()
    return [
        _Space(
            inside[0].place,
            inside,
            _changes(inside[0].space) if is_counted else ctypes.c_uint64(0),
            inside[0].place in RESTLESS,
        )
        for inside in by_space.values()
    ]


def _watched(modules: Mapping[str, Any]) -> list[ModuleType]:
    return [
        module
        for name, module in sorted(modules.items())
        if isinstance(module, ModuleType)
        and (name in ALONE or any(name == p or name.startswith(f"{p}.") for p in WATCHED))
    ]


def _in_module(module: ModuleType) -> Iterator[_Name]:
    space, is_ours = vars(module), module.__name__.startswith(OURS)
    for name, value in list(space.items()):
        if is_ours and isinstance(value, dict) and name.isupper():
            yield from (_Name(f"{module.__name__}.{name}", value, *item) for item in value.items())
        if callable(value) or (is_ours and (name.isupper() or isinstance(value, ModuleType))):
            yield _Name(module.__name__, space, name, value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            inside = vars(value)
            yield from (
                _Name(f"{module.__name__}.{name}", inside, *part) for part in inside.items()
            )


def _codes(name: _Name) -> Iterator[_Code]:
    """What the function runs that a name stands for, or those that make up a check.

    Of torch there are too many; `alarm` sees who replaces their code.
    """
    if name.place.startswith("torch"):
        return
    value = getattr(name.value, "__func__", name.value)
    parts = vars(value).values() if type(value) is Check else [value]
    for part in parts:
        if type(part) is FunctionType:
            place = f"{name.place}.{name.name}"
            yield _Code(place, part, part.__code__, part.__defaults__, part.__kwdefaults__)


def _changes(space: Mapping[Any, Any]) -> ctypes.c_uint64:
    """The number of changes of a namespace."""
    address = id(space)
    if type(space) is not dict:
        address = ctypes.c_void_p.from_address(address + OF_A_PROXY).value or 0
    return ctypes.c_uint64.from_address(address + OF_A_DICTIONARY)
