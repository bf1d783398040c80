"""The parts of a file that an exercise depends on: model answer or check, and what those use."""

import ast
import re
import symtable
from pathlib import Path

from autograder.global_names import free_names

MIN_LETTERS = 4  # shorter names occur in a text by chance


class FileCode:
    """The text of a file of code, and the statements at its top."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            SyntaxError: If it is not Python.
        """
        self.path, self._text = path, path.read_text(encoding="utf-8")
        self._lines = self._text.splitlines()
        self._statements = [each for node in ast.parse(self._text).body for each in _apart(node)]

    @property
    def names(self) -> set[str]:
        """The names that statements at its top define."""
        return set().union(*map(_bound, self._statements))

    def source_of(self, name: str) -> str:
        """The source of the statement that defines a name.

        Raises:
            LookupError: If there is none.
        """
        for node in self._statements:
            if name in _bound(node):
                return self._segment(node)
        raise LookupError(f"{self.path}: nothing at the top of the file defines {name!r}")

    def needed(self, source: str, own: str) -> list[ast.stmt]:
        """The statements that define the names a source reads, in order; imports name by name.

        Args:
            source: Such as the model answer.
            own: The name that it defines itself.
        """
        needed: list[ast.stmt] = []
        names = _read(source) - {own}
        while new := [n for n in self._statements if n not in needed and _bound(n) & names]:
            needed += new
            names = names.union(*(_read(self._segment(node)) for node in new)) - {own}
        return [node for node in self._statements if node in needed]

    def behind(self, source: str, own: str = "") -> str:
        """A source, after all that it reads of the file."""
        return "\n".join([*map(self._segment, self.needed(source, own)), source])

    def check_of(self, exercise: str) -> str:
        """The statement that declares the check of an exercise, after all that it reads.

        Empty where the file has none.
        """
        declares = (each for each in self._statements if _declared(each) == exercise)
        return "".join(self.behind(self._segment(each)) for each in declares)

    def _segment(self, node: ast.stmt) -> str:
        """The source of a statement, decorators included."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            return ast.unparse(node)
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        return "\n".join(self._lines[first - 1 : node.end_lineno])


class MasterCode(FileCode):
    """The code of a text master."""

    def statement(self, exercise: str) -> str:
        """The text on an exercise's card, up to the cell of the answer."""
        card = self._text.split(f'exercise="{exercise}"', 1)[1]
        return card.split(f'solution="{exercise}"', 1)[0].split("\n", 1)[1]

    def inputs_of(self, exercise: str, function: str) -> str:
        """All code behind a model answer, and which of its names stand in the exercise's text.

        Args:
            exercise: Id of the exercise.
            function: What its answer defines.
        """
        answer, statement = self.source_of(function), self.statement(exercise)
        told = sorted(name for name in _assigned(answer) if is_in(name, statement))
        return f"{self.behind(answer, function)}\n# {told}"


def is_in(name: str, text: str) -> bool:
    """Whether the words of a name stand in a text, so that its readers know what it means."""
    words = "[ -]".join(map(re.escape, name.split("_")))
    return len(name) >= MIN_LETTERS and bool(re.search(rf"\b{words}\b", text, re.IGNORECASE))


def _read(source: str) -> set[str]:
    """The global names that a source reads."""
    return set(free_names(symtable.symtable(source, "answer", "exec")))


def _assigned(source: str) -> set[str]:
    """What a source assigns to, as it stands there."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            found += [each for to in node.targets for each in getattr(to, "elts", [to])]
        elif isinstance(node, ast.AugAssign):
            found.append(node.target)
    return {ast.unparse(each) for each in found}


def _declared(node: ast.stmt) -> str | None:
    """Id of the exercise whose check a statement declares, as a decorator or by itself."""
    calls = [node.value] if isinstance(node, ast.Expr) else getattr(node, "decorator_list", [])
    for each in (inner for call in calls for inner in ast.walk(call)):
        match each:
            case ast.Call(
                func=ast.Name(id="declares_check"),
                args=[ast.Constant(value=str(exercise)), *_],
            ):
                return exercise
    return None


def _apart(node: ast.stmt) -> list[ast.stmt]:
    """A statement; one that imports several names as one for each."""
    match node:
        case ast.Import(names=names):
            return [ast.copy_location(ast.Import([each]), node) for each in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            return [ast.copy_location(ast.ImportFrom(module, [e], level), node) for e in names]
    return [node]


def _bound(node: ast.stmt) -> set[str]:
    """Names that a statement at the top of a file defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(each.asname or each.name).split(".")[0] for each in names}
        case ast.Assign(targets=targets):
            return {n.id for each in targets for n in ast.walk(each) if isinstance(n, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()
