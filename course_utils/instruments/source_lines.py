"""In which line does a function do something? Found in its source, by the name that it uses there.

    >>> line_that_uses(backward_in_buckets, "all_reduce").text
    'travelling.append((comm.all_reduce(flat, async_op=True), flat, bucket.copy()))'

A line uses what it calls, compares with, assigns to as an attribute, or deletes (`del`). What a
function calls beside it, from the same file or notebook, is searched after the function itself.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class OwnLine:
    """A line of somebody's own code.

    Attributes:
        function: Name of the function or class in which it stands.
        line: Its number in the file, or in the cell of a notebook.
        text: The line without its indentation.
    """

    function: str
    line: int
    text: str


def line_that_uses(function: Callable[..., Any], *names: str) -> OwnLine | None:
    """The first line that uses one of some names; None where no source has any.

    Args:
        function: Searched first; then the functions and classes beside it that it uses.
        names: As they stand in the source, without what comes before a dot; ``"del"`` for `del`.
    """
    for each in _sources(function):
        for line, name in sorted(_uses(each.tree), key=lambda use: use[0]):
            if name in names:
                text = each.lines[line - 1].strip()
                return OwnLine(function=each.name, line=each.first + line - 1, text=text)
    return None


@dataclass(frozen=True)
class _Source:
    name: str
    first: int
    lines: list[str]
    tree: ast.Module


def _sources(function: Callable[..., Any]) -> Iterator[_Source]:
    """The source of a function, and of what stands beside it and is named in it."""
    for own in _source(function):
        yield own
        named = dict.fromkeys(n.id for n in ast.walk(own.tree) if isinstance(n, ast.Name))
        around = inspect.unwrap(function).__globals__
        for each in map(around.get, named):
            is_code = inspect.isfunction(each) or inspect.isclass(each)
            if is_code and each.__module__ == function.__module__ and each is not function:
                yield from _source(each)


def _source(thing: Any) -> Iterator[_Source]:
    """What Python finds as the source of a function or class, if it finds any."""
    try:
        lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError):
        return
    source = textwrap.dedent("".join(lines))
    yield _Source(thing.__name__, first, source.splitlines(), ast.parse(source))


def _uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every line that uses a name, and the name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name) as called):
                yield called.end_lineno or node.lineno, name
            case ast.Assign(targets=[ast.Attribute(attr=name)]):
                yield node.lineno, name
            case ast.Compare():
                names = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
                yield from ((node.lineno, name) for name in names)
            case ast.Delete():
                yield node.lineno, "del"
