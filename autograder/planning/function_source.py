"""The source of a module for a function that was written in a notebook.

With the function go the imports, helpers and plain values that it reads there.
"""

import ast
import builtins
import inspect
import symtable
import sys
import textwrap
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from autograder.global_names import free_names

NOTEBOOK = "__main__"


class NotPortable(Exception):
    """A function cannot stand in a module of its own; the message says why."""


def module_source(name: str, namespace: Mapping[str, Any]) -> str:
    """Source of a module that defines one function of a notebook, and all that it reads there.

    Args:
        name: The function's.
        namespace: The notebook's names.

    Raises:
        NotPortable: If it reads something that only the notebook has.
    """
    parts = _Parts(namespace)
    parts.add(name)
    imports = "\n".join(sorted(parts.imports))
    return (
        "\n\n\n".join(filter(None, [imports, "\n".join(parts.values), *parts.definitions])) + "\n"
    )


class _Parts:
    """What a module is put together from, each part after those that it reads."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.imports: set[str] = set()
        self.values: list[str] = []
        self.definitions: list[str] = []
        self._seen: set[str] = set()

    def add(self, name: str) -> None:
        """Add what a name stands for, unless it is there or Python's own."""
        if name in self._seen or (name not in self.namespace and hasattr(builtins, name)):
            return
        self._seen.add(name)
        if name not in self.namespace:
            raise NotPortable(f"it reads `{name}`, which the notebook does not define")
        value = self.namespace[name]
        if isinstance(value, ModuleType):
            self.imports.add(_import_as(value.__name__, name))
        elif isinstance(value, FunctionType | type) and value.__module__ == NOTEBOOK:
            self._define(name, value)
        elif source := _import_from(value, name):
            self.imports.add(source)
        elif _is_plain(value):
            self.values.append(f"{name} = {value!r}")
        else:
            raise NotPortable(f"it reads `{name}`, a {type(value).__name__} of the notebook")

    def _define(self, name: str, value: FunctionType | type) -> None:
        try:
            source = textwrap.dedent(inspect.getsource(value)).rstrip()
        except (OSError, TypeError):
            raise NotPortable(f"the source of `{name}` is not known") from None
        for each in free_names(symtable.symtable(source, name, "exec")):
            self.add(each)
        self.definitions.append(source)


def _import_as(module: str, name: str) -> str:
    package, _, last = module.rpartition(".")
    if module == name:
        return f"import {module}"
    return f"from {package} import {last}" if last == name else f"import {module} as {name}"


def _import_from(value: object, name: str) -> str:
    """The import that gives this very object; empty where there is none."""
    module, known_as = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if (
        module in (None, NOTEBOOK)
        or getattr(sys.modules.get(module), str(known_as), None) is not value
    ):
        return ""
    return f"from {module} import {known_as}" + ("" if known_as == name else f" as {name}")


def _is_plain(value: object) -> bool:
    """Whether a value can be written down as it is."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False
