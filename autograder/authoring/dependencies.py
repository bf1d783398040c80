"""Which modules of the course does a piece of code use? Read from the imports, never run.

A package's front (`from course_utils.show import explorer`) is followed to the module in which the
name is defined, so that a change in another module of the room changes nothing. The code that an
import reaches is followed in turn.

    Dependencies(root).of("from course_utils.show import explorer")
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

PACKAGES = ("autograder", "course_utils")
MODULE_NAME = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")
DATA = (".csv", ".json", ".svg")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Dependencies:
    """Everything that pieces of code use of the packages below a course's root."""

    def __init__(self, root: Path) -> None:
        """Nothing is read before it is asked for."""
        self._root = root
        self._sources: dict[Path, Source] = {}

    def fingerprint(self, code: str, modules: tuple[str, ...] = ()) -> str:
        """Hash of what the code and all that it uses does.

        Comments, docstrings and layout do not count.

        Args:
            code: The code itself.
            modules: Dotted names of modules that it loads by name.
        """
        digest = hashlib.sha256(Source(code).meaning)
        for path in sorted(self.of(code, modules)):
            digest.update(path.relative_to(self._root).as_posix().encode() + b"\0")
            is_code = path.suffix == ".py"
            digest.update(self._source(path).meaning if is_code else path.read_bytes())
        return digest.hexdigest()

    def of(self, code: str, modules: tuple[str, ...] = ()) -> set[Path]:
        """Files that the code uses: modules, and the data beside those that only hold data."""
        found: set[Path] = set()
        new = {path for name in modules if (path := self._file(name))}
        new |= set(self._used(Source(code)))
        while new:
            found |= new
            new = {used for path in new for used in self._used(self._source(path))} - found
        beside = {path.parent for path in found if path.parent.name == "records"}
        return found | {
            each for folder in beside for each in folder.iterdir() if each.suffix in DATA
        }

    def _used(self, source: "Source") -> Iterator[Path]:
        """Files that a piece of code names itself."""
        for module, name in source.imports:
            target = self._file(f"{module}.{name}") if name else self._file(module)
            if target and target.name == "__init__.py" and name in source.attributes:
                inside = f"{module}.{name}"
                yield from (self._home(inside, part) for part in source.attributes[name])
            elif target:
                yield target
            elif self._file(module):
                yield self._home(module, name)
        yield from (path for name in source.module_names if (path := self._file(name)))

    def _home(self, module: str, name: str) -> Path:
        """The file in which a name is defined that a module offers."""
        file = self._file(f"{module}.{name}") or self._file(module)
        assert file is not None, f"{module} is no module of the course"
        if file.name == "__init__.py":
            for inner, offered in self._source(file).imports:
                if offered == name and self._file(inner):
                    return self._home(inner, name)
        return file

    def _file(self, module: str) -> Path | None:
        """The file of a module of the course; None for any other name."""
        path = self._root.joinpath(*module.split("."))
        if module.split(".", maxsplit=1)[0] not in PACKAGES:
            return None
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file for file in files if file.is_file()), None)

    def _source(self, path: Path) -> "Source":
        if path not in self._sources:
            self._sources[path] = Source(path.read_text(encoding="utf-8"))
        return self._sources[path]


class Source:
    """A piece of code as its imports and names.

    Attributes:
        imports: Pairs of a module and a name in it; no name for ``import module``.
        attributes: Of each name the attributes that are used of it.
        module_names: Strings that look like names of modules.
    """

    def __init__(self, code: str) -> None:
        """Read the code."""
        self._tree = ast.parse(code)
        self.imports: list[tuple[str, str]] = []
        self.attributes: dict[str, set[str]] = {}
        self.module_names: set[str] = set()
        for node in ast.walk(self._tree):
            self._read(node)

    @cached_property
    def meaning(self) -> bytes:
        """What the code does: its syntax tree without docstrings, comments and layout."""
        for node in ast.walk(self._tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                del node.body[0]
        return ast.dump(self._tree).encode()

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                self.imports += [(alias.name, "") for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                self.imports += [(module, alias.name) for alias in names]
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                self.attributes.setdefault(owner, set()).add(attribute)
            case ast.Constant(value=str(text)) if MODULE_NAME.fullmatch(text):
                self.module_names.add(text)
