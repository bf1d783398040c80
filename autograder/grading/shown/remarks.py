"""Remarks on a submission, for a person to look at; none of them decides a point.

A student's code is read as syntax. It may use what the given cells of its notebook use, public
names of some modules, and all but a few builtins. This is a reminder and no defence: code that
makes a name while it runs gets past it.
"""

import ast
import re
import signal
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import ModuleType

from IPython.core.inputtransformer2 import leading_indent
from nbformat import NotebookNode

from autograder import catalogue
from autograder.cell_code import python_of
from autograder.cells import cell_key, is_solution
from autograder.checking.error_hints import A_PERSON
from autograder.checking.lookup import check_of
from autograder.checking.verdict import Verdict
from autograder.grading.intake.wording import listed, shown
from autograder.grading.sandbox import audit_hook
from autograder.grading.sandbox.ipython_shell import STOPPED

MODULES = (
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "math",
    "numpy",
    "random",
    "torch",
    "typing",
    "weakref",
)
CLOSED = (  # what of them reaches native code, files, memory or other processes, or is an answer
    "numpy.ctypeslib",
    "numpy.lib",
    "torch.as_strided",
    "torch.autograd.profiler",
    "torch.autograd.profiler_legacy",
    "torch.classes",
    "torch.from_file",
    "torch.hub",
    "torch.library",
    "torch.load",
    "torch.multiprocessing",
    "torch.ops.load_library",
    "torch.profiler",
    "torch.utils.cpp_extension",
    "torch.utils.flop_counter",
)
# Builtins and IPython's names that reach other code, names or files, or end the process.
REACHING_NAMES = (
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "exit",
    "get_ipython",
    "getattr",
    "globals",
    "In",
    "input",
    "open",
    "Out",
    "quit",
    "setattr",
)
REACHING_ATTRIBUTES = (  # frames, memory, and what counts calls
    "ag_frame",
    "cr_frame",
    "gi_frame",
    "tb_frame",
    "f_back",
    "f_builtins",
    "f_code",
    "f_globals",
    "f_locals",
    "as_strided",
    "ctypes",
    "num_calls",
)
ORDINARY = (
    "__call__",
    "__doc__",
    "__enter__",
    "__exit__",
    "__getitem__",
    "__init__",
    "__iter__",
    "__len__",
    "__name__",
    "__next__",
    "__post_init__",
    "__repr__",
    "_asdict",
    "_fields",
    "_make",
    "_replace",
)
OUT_OF_TIME = ("Stopped after ", "it did not come back within ")  # in the sentence of a verdict
MAX_CHARACTERS = 100_000  # of a cell, which Python parses within a second whatever they are
MAX_SHOWN = 60  # characters of a name
ALARMS = {  # by the exit code of the student process
    audit_hook.EXIT_CODE: "reaches for Python's own frames, memory or objects",
    -signal.SIGSYS: "reaches for what the sandbox talks through",
}


def on_unusual_code(
    notebook: NotebookNode, release: NotebookNode, given: NotebookNode | None = None
) -> Iterator[str]:
    """One sentence for each of the student's cells that uses something unusual.

    Args:
        notebook: The release with the student's cells.
        release: The notebook that is graded.
        given: The notebook that the student had, if it was another release.
    """
    course = [*release.cells, *(given.cells if given else ())]
    trees = [_parsed(cell.source) for cell in course if cell.cell_type == "code"]
    imports = {name: path for tree in trees if tree for name, path in _imports(tree)}
    usual = {path for tree in trees if tree for path in _paths(tree, imports)}
    told = {word for cell in course for word in re.findall(r"\b_\w+", cell.source)}
    for cell in _students_cells(notebook, release):
        tree = _parsed(cell.source)
        if tree is None:
            yield f"{_label(cell)} cannot be read as Python: if it does not run, it has no points."
            continue
        forbidden, allowed = _rules_of(cell_key(cell))
        known = {*usual, *allowed}
        owners = [path for path in known if "." in path and path not in sys.modules]
        names = imports | dict(_imports(tree))
        found = {
            *_reaching(tree),
            *(f".{each}" for each in _private(tree, names) if each not in told),
        }
        for path in set(_paths(tree, names)):
            is_usual = path in known or _within(path, owners) or _is_public(path)
            if not is_usual or _within(path, forbidden):
                found.add(path)
        if found:
            shortened = listed(name[:MAX_SHOWN] for name in sorted(found))
            yield f"{_label(cell)} uses {shortened}, which no exercise needs."


def on_stopped_cells(notebook: NotebookNode, release: NotebookNode) -> Iterator[str]:
    """One sentence for each of the student's cells that ran out of time."""
    for cell in _students_cells(notebook, release):
        if any(each.get("traceback") == [STOPPED] for each in cell.outputs):
            yield f"{_label(cell)} does not come to an end and was stopped."


def on_stopped_answers(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """One sentence for each answer that ran out of time when a check called it."""
    for verdict in verdicts:
        if any(words in verdict.sentence for words in OUT_OF_TIME):
            yield (
                f"{verdict.exercise} does not come to an end when it is called, and was stopped."
            )


def for_a_person(verdicts: Iterable[Verdict], exit_codes: Iterable[int]) -> Iterator[str]:
    """One sentence for each answer that makes a person look at all of them, and for each alarm."""
    for verdict in verdicts:
        if verdict.judged and A_PERSON in verdict.sentence:
            yield f"{verdict.exercise}: {' '.join(verdict.sentence.split())}"
    for code, what in ALARMS.items():
        if code in exit_codes:
            yield f"Its code {what}, which ended its process."


def _students_cells(notebook: NotebookNode, release: NotebookNode) -> Iterator[NotebookNode]:
    """The solution cells, and the code cells that the student added."""
    given = {cell_key(cell) for cell in release.cells if not is_solution(cell)}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell_key(cell) not in given:
            yield cell


def _label(cell: NotebookNode) -> str:
    """How a reader finds a cell: by its exercise, or by the first line of an added cell."""
    lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
    return cell_key(cell) if is_solution(cell) else f"An added cell ({shown(''.join(lines[:1]))})"


def _rules_of(exercise: str) -> tuple[Collection[str], Collection[str]]:
    """The modules that an exercise forbids, and the names of the course that it allows."""
    known = {item.id for unit in catalogue.units() for item in unit.exercises if not item.manual}
    if exercise not in known:
        return (), ()
    return check_of(exercise).forbidden_modules, check_of(exercise).allowed_names


def _parsed(source: str) -> ast.AST | None:
    """The code of a cell as a syntax tree; None if it is no Python, too long or too deep."""
    if len(source) > MAX_CHARACTERS:
        return None
    lines = leading_indent(python_of(source).splitlines(keepends=True))  # as IPython
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.AST = _LiteralGetattr().visit(ast.parse("".join(lines)))
            return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _LiteralGetattr(ast.NodeTransformer):
    """Writes `getattr(owner, "name")` and `vars(owner)["name"]` as `owner.name`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Name("vars"), args=[owner]), slice=ast.Constant(str(name))
            ):
                return ast.Attribute(owner, name, node.ctx)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name("getattr"), args=[owner, ast.Constant(str(name)), *_]):
                return ast.Attribute(owner, name, ast.Load())
        return node


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each name that code imports, and the path that it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for each in node.names:
                yield each.asname or each.name, start + each.name
                if not start and not each.asname:  # of `import a.b`, the name is `a`
                    yield (each.name.split(".")[0],) * 2


def _paths(tree: ast.AST, imports: Mapping[str, str]) -> Iterator[str]:
    """The paths of all that code imports, and of all that it uses of what is imported.

    A word is added where a module itself is used as a value, and where a name in it is assigned.
    """
    yield from (_real_path(path) for _, path in _imports(tree))
    nodes = list(ast.walk(tree))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and _is_assigned(node)}
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in owners:
            name, *parts = _chain(node)
            if name in imports and name not in own:
                path = _real_path(".".join([imports[name], *parts]))
                is_module = isinstance(sys.modules.get(path), ModuleType)
                word = " itself" * is_module or " assigned" * _is_assigned(node)
                yield path + word


def _chain(node: ast.expr) -> list[str]:
    """A name and its attributes; the name is empty if something else has them."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(parts)]


def _is_assigned(node: ast.Name | ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _real_path(path: str) -> str:
    """A path by the module that it leads into: `contextlib.sys.modules` is `sys.modules`."""
    name, *parts = path.split(".")
    found: object = sys.modules.get(name)
    for part in parts:
        found = vars(found).get(part) if isinstance(found, ModuleType) else None
        name = found.__name__ if isinstance(found, ModuleType) else f"{name}.{part}"
    return name


def _is_public(path: str) -> bool:
    """Whether it is in an ordinary module, and neither private, closed nor with a word behind."""
    name, *parts = path.split(".")
    is_private = any(part.startswith(("_", "*")) for part in parts)
    return name in MODULES and not is_private and " " not in path and not _within(path, CLOSED)


def _within(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


def _reaching(tree: ast.AST) -> Iterator[str]:
    """Builtins, attributes and special methods that reach further than an exercise does."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) if name in REACHING_NAMES or _is_special(name):
                yield name
            case ast.Attribute(attr=name) if name in REACHING_ATTRIBUTES or _is_special(name):
                yield f".{name}"
            case ast.FunctionDef(name=name) if _is_special(name):
                yield f".{name}"


def _private(tree: ast.AST, imports: Collection[str]) -> Iterator[str]:
    """Private attributes of anything but a module, that the code does not define itself."""
    nodes = list(ast.walk(tree))
    own = {node.attr for node in nodes if isinstance(node, ast.Attribute) and _is_assigned(node)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and _is_assigned(node)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    used = [node for node in nodes if isinstance(node, ast.Attribute)]
    names = {node.attr for node in used if _chain(node)[0] not in imports}
    names |= {name for node in nodes if isinstance(node, ast.MatchClass) for name in node.kwd_attrs}
    yield from (name for name in names - own if name.startswith("_") and name not in ORDINARY)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name not in ORDINARY
