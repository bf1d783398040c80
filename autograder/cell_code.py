"""Read the code of a cell as Python, without what only IPython understands."""

import ast
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import groupby, islice

MAX_CHARACTERS = 100_000  # of a cell, which Python parses within a second whatever they are
MAX_MARKS = 30  # on a letter, as Unicode's stream-safe form: sorting them takes the square of it
TIMED = re.compile(r"%%?(?:time|timeit|prun|capture)\b(?: +-\w+(?: +\d+)?)*")
ASSIGNED = re.compile(r"\s*\w+ *= *[!%]")
DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)


def python_of(source: str) -> str:
    """The Python of a cell: IPython's lines become `pass`; nothing is left of another language."""
    first = source.lstrip().partition("\n")[0]
    if first.startswith("%%") and not TIMED.match(first):
        return ""
    if tree_of(source) or not is_readable(source):  # in brackets, a percent sign may begin a line
        return source
    return textwrap.dedent("\n".join(map(_python_line, source.split("\n"))))


def is_readable(source: str) -> bool:
    """Whether Python parses a source in time that grows as its length: no name is full of marks."""
    return len(source) <= MAX_CHARACTERS and source == with_few_marks(source)


def with_few_marks(text: str) -> str:
    """A text with at most so many combining marks in a row as any writing has."""
    if text.isascii():
        return text
    runs = groupby(text, lambda each: unicodedata.combining(each) > 0)
    return "".join("".join(islice(run, MAX_MARKS) if is_marks else run) for is_marks, run in runs)


@lru_cache(maxsize=64)
def tree_of(source: str) -> ast.Module | None:
    """A source as a syntax tree; None if it is no Python, too long or too deep."""
    if not is_readable(source):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def defined(source: str) -> list[str]:
    """What a cell defines by `def`, `class`, `lambda` or `partial`, finished or not."""
    tree = tree_of(python_of(source))
    if tree is None:
        return DEFINITION.findall(source)
    return [name for statement in tree.body for name in _defined_by(statement)]


def without(source: str, names: Collection[str]) -> str:
    """A cell without the statements that define some names, if it is Python."""
    tree, lines = tree_of(source), source.split("\n")
    for statement in tree.body if tree else ():
        if any(name in names for name in _defined_by(statement)):
            decorators = getattr(statement, "decorator_list", [])
            first = min(node.lineno for node in (statement, *decorators)) - 1
            for number in range(first, statement.end_lineno or first):
                lines[number] = ""
    return "\n".join(lines).strip("\n")


def _python_line(line: str) -> str:
    words = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if timed := TIMED.match(words):
        rest = "" if words.startswith("%%") else words[timed.end() :].strip()
        return indent + (rest or "pass")
    if words.startswith(("!", "%", "?")) or words.endswith("?"):
        return f"{indent}pass"
    found = ASSIGNED.match(line)
    return f"{found[0][:-1]}None" if found else line


def _defined_by(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(name)], value=ast.Lambda()):
            yield name
        case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=function)):
            if ast.unparse(function).split(".")[-1] == "partial":
                yield name
