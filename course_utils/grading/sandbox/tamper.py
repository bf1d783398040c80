"""Has a student's code replaced something of the course's that observes it?

A seal remembers, before the student's code is there, which function, class or check every name of
the watched modules stands for, and which code every function runs; afterwards it names what
differs. Who assigns to a name, a class or a function's code is seen. Who rewrites memory is not.
"""

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from course_utils.checks.check import Check

WATCHED = (
    "course_utils.checks",
    "course_utils.instruments",
    "course_utils.reference",
    "builtins",
    "contextlib",
    "inspect",
    "ast",
    "json",
    "math",
    "safetensors",
    "signal",
    "weakref",
    "torch.autograd.graph",
    "torch.nn.modules.module",
    "torch.utils._python_dispatch",
    "torch.utils.flop_counter",
    "torch._tensor",
)


class _Name(NamedTuple):
    """One name in a module or a class, and what it stands for."""

    place: str
    space: Mapping[str, Any]
    name: str
    value: Any


class _Code(NamedTuple):
    """What one function runs."""

    place: str
    function: FunctionType
    parts: tuple[Any, ...]


class Seal:
    """What the watched modules were when it was taken."""

    def __init__(self) -> None:
        """Take it now."""
        self._names = [name for module in _modules() for name in _in_module(module)]
        functions = {id(f): (name, f) for name in self._names for f in _functions(name.value)}
        self._codes = [
            _Code(f"{name.place}.{name.name}", f, _parts(f)) for name, f in functions.values()
        ]

    def broken(self) -> str:
        """The first name that stands for something else now, or nothing."""
        for place, space, name, value in self._names:
            if space.get(name) is not value:
                return f"{place}.{name}"
        for place, function, parts in self._codes:
            if any(a is not b for a, b in zip(_parts(function), parts, strict=True)):
                return place
        return ""


def _modules() -> list[ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if isinstance(module, ModuleType)
        and any(name == place or name.startswith(f"{place}.") for place in WATCHED)
    ]


def _in_module(module: ModuleType) -> Iterator[_Name]:
    for name, value in list(vars(module).items()):
        if isinstance(value, dict) and any(type(each) is Check for each in value.values()):
            yield from (_Name(f"{module.__name__}.{name}", value, *item) for item in value.items())
        if callable(value):
            yield _Name(module.__name__, vars(module), name, value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            inside = vars(value)
            yield from (
                _Name(f"{module.__name__}.{name}", inside, *part) for part in inside.items()
            )


def _functions(value: Any) -> Iterator[FunctionType]:
    """The function that a name stands for, or those that make up a check."""
    if type(value) is Check:
        yield from (part for part in vars(value).values() if type(part) is FunctionType)
    value = getattr(value, "__func__", value)
    if type(value) is FunctionType:
        yield value


def _parts(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__
