"""The sizes of a case by the names under which a student's code reads them."""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, is_dataclass
from typing import Any

from autograder.checking.case_objects import OBJECTS
from autograder.checking.exercise_check import Case

Path = tuple[str, ...]
Table = dict[str, list[Any]]
"""The sizes of several cases, one column for each name."""


def filled(case: Case) -> Case:
    """A copy of a case with all sizes that an object fills in, such as the width of a head."""
    copied = deepcopy(case)
    for name, value in case.items():
        if name in OBJECTS and isinstance(value, dict):
            made = OBJECTS[name](value)
            is_object = is_dataclass(made) and not isinstance(made, type)
            copied[name] = _without_none(asdict(made)) if is_object else value
    return copied


def paths_of(case: Mapping[str, Any], outer: Path = ()) -> dict[str, Path]:
    """Where the size of each name lies in a filled case, those of a model included.

    A name that is taken already comes with the names of what it lies in.
    """
    paths: dict[str, Path] = {}
    for name, value in case.items():
        here = (*outer, name)
        for short, path in (paths_of(value, here) if type(value) is dict else {name: here}).items():
            paths[short if short not in paths else ".".join(path)] = path
    return paths


def value_at(case: Mapping[str, Any], path: Path) -> Any:
    """What lies under a path."""
    value: Any = case
    for name in path:
        value = value[name]
    return value


def sizes_of(case: Case) -> dict[str, Any]:
    """All numbers, flags, words and lists of a case by name."""
    case = filled(case)
    return {name: value_at(case, path) for name, path in paths_of(case).items()}


def table_of(cases: Sequence[Case]) -> Table:
    """The sizes that all cases have, and of lists their length, sum and product."""
    return columns_of([_with_totals(sizes_of(case)) for case in cases])


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What all rows have, by name."""
    names = [name for name in rows[0] if all(name in row for row in rows)] if rows else []
    return {name: [row[name] for row in rows] for name in names}


def _with_totals(sizes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in sizes.items():
        if not isinstance(value, (list, tuple)):
            found[name] = value
            continue
        found[f"the length of {name}"] = len(value)
        if all(type(each) in (int, float) for each in value):
            found[f"the sum of {name}"] = sum(value)
            found[f"the product of {name}"] = math.prod(value)
    return {name: value for name, value in found.items() if value is not None}


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in data.items()
        if value is not None
    }
