"""Find an answer that uses the course's own code instead of the student's.

`find_borrowed` reads the source of a function as a syntax tree and follows the names that it uses:
imports inside it, what its notebook's names stand for, and the student's own helpers. Of a class it
reads the methods and the base classes.
This is a reminder, not a defence: the check says which name it found and gives no points. A student
can hide the name, but not from a person who reads the answer.
"""

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Iterator

ANSWERS = (
    "course_utils.formulas",
    "course_utils.reference",
    "course_utils.instruments",
    "course_utils.distributed",
    "autograder",
    "torch.utils.flop_counter",
)
INTERFACES = ("course_utils.distributed.comm",)  # passed to answers; holds none itself

# The mean loss that notebooks use, under both of its names.
TOKEN_LOSS = tuple(f"course_utils.reference.{name}token_loss" for name in ("", "transformer."))


def find_borrowed(
    answer: object, modules: tuple[str, ...] = ANSWERS, allowed_names: tuple[str, ...] = ()
) -> str | None:
    """The dotted name of course code that an answer uses, or None.

    Args:
        answer: What the student hands to a check.
        modules: Modules and packages that an answer may not use.
        allowed_names: Names in them that it may use all the same.
    """
    names = _borrowed_names(answer, modules, set())
    return next((name for name in names if name not in allowed_names), None)


def _borrowed_names(answer: object, modules: tuple[str, ...], seen: set[int]) -> Iterator[str]:
    while isinstance(answer, functools.partial):
        answer = answer.func
    answer = inspect.unwrap(answer) if callable(answer) else answer
    if id(answer) in seen:
        return
    seen.add(id(answer))
    if name := _name_within(answer, modules):
        yield name
    elif isinstance(answer, types.FunctionType):
        yield from _borrowed_in_source(answer, modules, seen)
    elif isinstance(answer, type):
        for part in (*answer.__bases__, *vars(answer).values()):
            if isinstance(part, types.FunctionType | type):
                yield from _borrowed_names(part, modules, seen)
    elif isinstance(called := vars(type(answer)).get("__call__"), types.FunctionType):
        yield from _borrowed_names(called, modules, seen)


def _borrowed_in_source(
    function: types.FunctionType, modules: tuple[str, ...], seen: set[int]
) -> Iterator[str]:
    tree = _syntax_tree(function)
    local = set(_bound_names(tree))
    outer = function.__globals__ | _closure(function)
    names = {name: value for name, value in outer.items() if name not in local}
    for node in ast.walk(tree):
        yield from (name for name in _imported(node) if _within(name, modules))
        if isinstance(node, ast.Attribute | ast.Name):
            found = _resolve(node, names)
            if name := _name_within(found, modules):
                yield name
            elif getattr(found, "__module__", None) == function.__module__:
                for part in _functions_of(found):
                    yield from _borrowed_names(part, modules, seen)


def _functions_of(found: object) -> list[types.FunctionType]:
    """A helper itself, or what a helper class defines."""
    parts = vars(found).values() if isinstance(found, type) else [found]
    unwrapped = (getattr(part, "__func__", part) for part in parts)  # of a staticmethod
    return [part for part in unwrapped if isinstance(part, types.FunctionType)]


def _syntax_tree(function: types.FunctionType) -> ast.AST:
    """The function as a syntax tree, or just its names if its source cannot be read.

    The source of a lambda is the whole statement around it: only the lambdas in it are kept.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        if function.__name__ == "<lambda>":
            lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
            return ast.Module(body=[ast.Expr(value=each) for each in lambdas], type_ignores=[])
        return tree
    except (OSError, TypeError, SyntaxError):
        names = [ast.Name(id=name, ctx=ast.Load()) for name in function.__code__.co_names]
        return ast.Module(body=[ast.Expr(value=name) for name in names], type_ignores=[])


def _bound_names(tree: ast.AST) -> Iterator[str]:
    """Names that the function itself binds: arguments, variables, imports, inner functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _closure(function: types.FunctionType) -> dict[str, object]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: _contents(cell) for name, cell in cells}


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet, as for a recursive function
        return None


def _imported(node: ast.AST) -> list[str]:
    """Dotted names that a node may import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
        return [node.value]  # importlib.import_module("...")
    return []


def _resolve(node: ast.AST, names: dict[str, object]) -> object:
    """What a name or a dotted name stands for; None if only running code would tell."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, names)
        return vars(owner).get(node.attr) if isinstance(owner, types.ModuleType) else None
    return None


def _name_within(value: object, modules: tuple[str, ...]) -> str | None:
    """The dotted name of a value if one of the modules defines it, else None."""
    if isinstance(value, types.ModuleType):
        return value.__name__ if _within(value.__name__, modules) else None
    if getattr(value, "__module__", None) in INTERFACES:
        return None
    if isinstance(value, types.FunctionType | type) and _within(value.__module__, modules):
        return f"{value.__module__}.{value.__qualname__}"
    return None


def _within(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)
