"""Which outputs of an instructor notebook may a reader see? Those of cells that need no answer.

An instructor notebook was run with the model answers. A given cell may be shown with what it
printed where it calls no answer, or only what `answer(...)` gave it: in a notebook without a line
of the student's, that is the course's own function, which students have. What calls an answer
itself (`try_it`, a check), and what was made from one, stays out.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from nbformat import NotebookNode

from autograder.cells import is_solution, nbgrader_metadata

LENDS = "answer"
"""What stands between an answer and a cell: gives the course's function where none is there."""

PERSONAL = {"check", "plan", "predict", "progress", "try_it"}
"""What these show is about one student's answers or guesses."""

WIDGET = "application/vnd.jupyter.widget-view+json"
OF_AN_ANSWER = re.compile(r"Using (?:your own|the course's) “[^\n]*\n")


def outputs_to_show(solved: NotebookNode, released: NotebookNode) -> dict[str, list[NotebookNode]]:
    """Outputs by the id of their cell.

    Args:
        solved: The instructor notebook, run.
        released: The student's notebook; a cell that reads otherwise in it gets no output.
    """
    given = {cell.id: cell.source for cell in released.cells if cell.cell_type == "code"}
    shown = {}
    for cell in cells_without_answers(solved.cells):
        outputs = [each for output in cell.outputs if (each := _readable(output))]
        if outputs and given.get(cell.id) == cell.source:
            shown[cell.id] = outputs
    return shown


def cells_without_answers(cells: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    """Given code cells that use no answer and nothing that was made from one."""
    of_answers: set[str] = set()
    for cell in cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        if is_solution(cell):
            of_answers |= _bound(tree)
            continue
        used = _used(tree)
        if used & of_answers:
            of_answers |= _bound(tree) | _changed(tree)
            continue
        of_answers -= _bound(tree)
        if not nbgrader_metadata(cell).get("grade") and not used & PERSONAL:
            yield cell


def _used(tree: ast.Module) -> set[str]:
    """Names that a cell reads, but for answers that it only passes on to `answer`."""
    nodes = list(ast.walk(tree))
    passed_on = {
        id(each)
        for node in nodes
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == LENDS
        for each in node.args
    }
    names = (node for node in nodes if isinstance(node, ast.Name) and id(node) not in passed_on)
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _bound(tree: ast.Module) -> set[str]:
    """Names that a cell gives a value to, at its top level."""
    names = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return names


def _changed(tree: ast.Module) -> set[str]:
    """Names whose values a cell may change in place: `a[0] = …`, `a.b = …`, `a.append(…)`."""
    names = set()
    for node in ast.walk(tree):
        is_target = isinstance(node, ast.Subscript | ast.Attribute)
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        part: ast.AST = node.value.func if is_call else node  # type: ignore[attr-defined]
        if is_call or (is_target and isinstance(node.ctx, ast.Store)):  # type: ignore[attr-defined]
            while isinstance(part, ast.Subscript | ast.Attribute):
                part = part.value
            if isinstance(part, ast.Name):
                names.add(part.id)
    return names


def _readable(output: NotebookNode) -> NotebookNode | None:
    """An output without a kernel: a widget as its still picture; None where nothing is left."""
    if output.output_type == "stream":
        text = OF_AN_ANSWER.sub("", output.text)
        return NotebookNode(output | {"text": text}) if text.strip() else None
    data: Mapping[str, str] = {kind: each for kind, each in output.data.items() if kind != WIDGET}
    return NotebookNode(output | {"data": NotebookNode(data)}) if data else None
