"""Detect whether a student's code has replaced something of the course's that observes it.

Before the student's code comes, a seal records the function, class, check or constant behind every
name of the watched modules, and the code of every function. For each observation it reports what
differs. It also reports what was replaced and put back meanwhile: Python gives every dictionary a
version tag that changes with each assignment. So it sees who assigns to a name, a class or a
function's code, but not who rewrites memory.

Source: PEP 509.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from autograder.checking.exercise_check import Check

WATCHED = (
    "autograder.checking",
    "autograder.exercises",
    "autograder.grading",
    "autograder.observers",
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
WITHOUT_SUBMODULES = ("autograder", "torch", "torch._C")
# They keep state in a global name, so that their version changes by itself.
STATEFUL = ("torch.autograd.profiler", "torch.utils._python_dispatch", "warnings")
# CPython 3.11: offset of the version tag in a dict, and of the dict in a mapping proxy.
VERSION_OFFSET, PROXIED_DICT_OFFSET = 24, 16

OURS = ("autograder", "course_utils")

ReadVersions = Callable[[], list[int]]
FindChange = Callable[[list[int]], str]


class _Name(NamedTuple):
    """One name in a module, a class or a dictionary, and its value."""

    place: str
    space: Mapping[Any, Any]
    name: Any
    value: Any


class _Namespace(NamedTuple):
    """A namespace with the names in it and its version tag, zero where Python has none."""

    place: str
    names: list[_Name]
    version: ctypes.c_uint64
    is_stateful: bool


class _Code(NamedTuple):
    """The code and defaults of one function."""

    place: str
    function: FunctionType
    code: Any
    defaults: Any
    named_defaults: Any


def seal(modules: Mapping[str, Any]) -> tuple[ReadVersions, FindChange]:
    """Record the present state of the watched modules.

    Args:
        modules: All modules that are loaded, by name.

    Returns:
        A function that reads all versions before an observation, and one that takes them afterwards
        and names the first thing that is, or meanwhile was, replaced; or nothing. Neither uses a
        global name, which could be replaced, too.
    """
    watched = _watched(modules)
    for module in watched:  # where Python notes at any time which warnings the module has caused
        vars(module).setdefault("__warningregistry__", {})
    names = [name for module in watched for name in _in_module(module)]
    codes = list({id(code.function): code for name in names for code in _codes(name)}.values())
    spaces = _namespaces(names)
    versions = [space.version for space in spaces]
    at_first, together = [version.value for version in versions], zip

    def read_versions() -> list[int]:
        return [version.value for version in versions]

    def find_change(versions_before: list[int]) -> str:
        for space, version, first, before in together(spaces, versions, at_first, versions_before):
            if version.value != before and not space.is_stateful:
                return space.place
            if version.value != first or not first:
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

    return read_versions, find_change


def has_version_tags() -> bool:
    """Whether this Python keeps the version tag of a dict at the expected offset."""
    trial: dict[str, int] = {}
    version = ctypes.c_uint64.from_address(id(trial) + VERSION_OFFSET)
    seen = [version.value, trial.update(a=1) or version.value, trial.update(a=2) or version.value]
    return len(set(seen)) == 3


def _namespaces(names: list[_Name]) -> list[_Namespace]:
    by_space: dict[int, list[_Name]] = {}
    for name in names:
        by_space.setdefault(id(name.space), []).append(name)
    is_versioned = has_version_tags()
    return [
        _Namespace(
            inside[0].place,
            inside,
            _version_tag(inside[0].space) if is_versioned else ctypes.c_uint64(0),
            inside[0].place in STATEFUL,
        )
        for inside in by_space.values()
    ]


def _watched(modules: Mapping[str, Any]) -> list[ModuleType]:
    return [
        module
        for name, module in sorted(modules.items())
        if isinstance(module, ModuleType)
        and (
            name in WITHOUT_SUBMODULES
            or any(name == p or name.startswith(f"{p}.") for p in WATCHED)
        )
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
    """The code of the function behind a name, or of the functions that make up a check.

    Torch has too many of them; `audit_hook` sees who replaces their code.
    """
    if name.place.startswith("torch"):
        return
    value = getattr(name.value, "__func__", name.value)
    parts = vars(value).values() if type(value) is Check else [value]
    for part in parts:
        if type(part) is FunctionType:
            place = f"{name.place}.{name.name}"
            yield _Code(place, part, part.__code__, part.__defaults__, part.__kwdefaults__)


def _version_tag(space: Mapping[Any, Any]) -> ctypes.c_uint64:
    """A live view of the version tag of a namespace."""
    address = id(space)
    if type(space) is not dict:
        address = ctypes.c_void_p.from_address(address + PROXIED_DICT_OFFSET).value or 0
    return ctypes.c_uint64.from_address(address + VERSION_OFFSET)
