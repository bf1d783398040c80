"""A student's own functions, out of their notebook, which is read and not run.

    >>> own = functions_of(Path("work/09_data_parallelism/09_data_parallelism.ipynb"),
    ...                    ["backward_in_buckets"])

Of the notebook's code only that runs which a function reads: the definitions, imports and values of
its cells. What the notebook prints, draws, checks or measures does not.
"""

import ast
import json
import symtable
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NOT_WRITTEN = "NotImplementedError"


def functions_of(notebook: Path, names: Sequence[str]) -> dict[str, Any]:
    """Those functions or classes, of the given names, that a notebook defines and has written.

    Args:
        notebook: A file of JupyterLab.
        names: Of functions or classes.

    Raises:
        ValueError: If the file is no notebook, or if what a function reads cannot be run.
    """
    statements = [*_statements(notebook)]
    defined = {name: number for number, each in enumerate(statements) for name in _defines(each)}
    own = {}
    for name in names:
        if name in defined and NOT_WRITTEN not in ast.dump(statements[defined[name]]):
            own[name] = _run(notebook, name, statements, _needed(name, statements, defined))
    return own


def _statements(notebook: Path) -> Iterator[ast.stmt]:
    """The statements of all code cells; cells with IPython's own commands are left out."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"--own wants a notebook of yours, as in work/09_data_parallelism/"
            f"09_data_parallelism.ipynb, and {notebook} cannot be read as one "
            f"({type(error).__name__}: {error}): give its path."
        ) from error
    for cell in cells:
        if cell["cell_type"] == "code":
            try:
                yield from ast.parse("".join(cell["source"])).body
            except SyntaxError:
                continue


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(each.asname or each.name).partition(".")[0] for each in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [
        each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
    ]


def _needed(name: str, statements: Sequence[ast.stmt], defined: dict[str, int]) -> list[int]:
    """Numbers of the statements that a name needs, its own among them, in their order."""
    needed, waiting = set[int](), [name]
    while waiting:
        number = defined.get(waiting.pop())
        if number is not None and number not in needed:
            needed.add(number)
            source = ast.unparse(statements[number])
            waiting += _reads(symtable.symtable(source, name, "exec"))
    return sorted(needed)


def _reads(table: symtable.SymbolTable) -> Iterator[str]:
    """The global names that a block and those within it read."""
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _reads(child)


def _run(notebook: Path, name: str, statements: Sequence[ast.stmt], numbers: list[int]) -> Any:
    namespace: dict[str, Any] = {"__name__": notebook.stem}
    module = ast.Module([statements[number] for number in numbers], type_ignores=[])
    try:
        exec(compile(module, str(notebook), "exec"), namespace)
    except Exception as error:
        raise ValueError(
            f"`{name}` of {notebook} wants what its cells define before it, and running those "
            f"ended with {type(error).__name__}: {error}. Does the notebook run from the top?"
        ) from error
    return namespace[name]
