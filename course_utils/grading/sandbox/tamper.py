"""Has a student's code replaced something of the course's that observes it?

A seal is taken before the student's code is there: which object every name of the watched modules
stands for, which code every function runs. Afterwards it says what differs. Whoever rewrites memory
can deceive it; who assigns to a name, a class or a function's code cannot.
"""

import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

WATCHED = (
    "course_utils.checks",
    "course_utils.configs",
    "course_utils.instruments",
    "course_utils.reference",
    "course_utils.literals",
    "builtins",
    "contextlib",
    "dataclasses",
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
    "torch.utils._pytree",
    "torch.utils.flop_counter",
    "torch._tensor",
)
CHANGES_BY_ITSELF = {"__builtins__", "__warningregistry__", "_", "__cached__"}


class Seal:
    """What the watched modules were when it was taken."""

    def __init__(self) -> None:
        """Take it now."""
        self._kept = list(_objects())  # so that no identity is given to another object
        self._before = dict(_marks())

    def broken(self) -> str:
        """The first name that stands for something else now, or nothing."""
        now = dict(_marks())
        if now == self._before:
            return ""
        names = self._before.keys() | now.keys()
        return min(name for name in names if self._before.get(name) != now.get(name))


def seal() -> Seal:
    """A seal on all watched modules that are loaded."""
    return Seal()


def _objects() -> Iterator[Any]:
    for module in _modules():
        yield from list(vars(module).values())


def _modules() -> list[ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if isinstance(module, ModuleType)
        and any(name == place or name.startswith(f"{place}.") for place in WATCHED)
    ]


def _marks() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for module in _modules():
        for name, value in list(vars(module).items()):
            if (
                name not in CHANGES_BY_ITSELF
                and sys.modules.get(f"{module.__name__}.{name}") is not value
            ):
                yield f"{module.__name__}.{name}", _mark(value)
                if isinstance(value, type) and value.__module__ == module.__name__:
                    for part, inside in list(vars(value).items()):
                        yield f"{module.__name__}.{name}.{part}", _mark(inside)


def _mark(value: Any) -> tuple[Any, ...]:
    """What tells one meaning of a name from another."""
    value = getattr(value, "__func__", value)
    if type(value) is FunctionType:
        return (id(value), id(value.__code__), id(value.__defaults__), id(value.__kwdefaults__))
    if type(value) is dict and len(value) < 100:
        return (id(value), *(id(part) for part in value.values()))
    return (id(value),)
