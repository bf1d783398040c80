"""Which modules of the course does a piece of code use? The imports say it; nothing is run.

A package's front (`from course_utils.show import explorer`) is followed to the module in which the
name is defined, so that a change in another module of the room changes nothing. The code that an
import reaches is followed in turn.

    Dependencies(root).of("from course_utils.show import explorer")
"""

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("autograder", "course_utils")
MODULE_NAME = re.compile(rf"""["']((?:{"|".join(PACKAGES)})(?:\.\w+)+)["']""")


class Dependencies:
    """What pieces of code use of the packages below a course's root.

    Not seen: a package imported under another name, one that is passed on as a whole, names that
    are made while the code runs.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sources: dict[Path, Source] = {}

    def fingerprint(self, code: str, modules: tuple[str, ...] = ()) -> str:
        """Hash of the code and of all that it uses.

        Args:
            code: The code itself.
            modules: Dotted names of modules that it loads by name.
        """
        digest = hashlib.sha256(code.encode())
        for path in sorted(self.of(code, modules)):
            digest.update(path.relative_to(self._root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def of(self, code: str, modules: tuple[str, ...] = ()) -> set[Path]:
        """Files that the code uses: modules, and the data beside them.

        Data are scripts and styles that a widget hands to the page, tables beside a module that is
        used, and all records where `records` is used.
        """
        found: set[Path] = set()
        new = {path for name in modules if (path := self._file(name))}
        new |= set(self._used(Source(code)))
        while new:
            found |= new
            new = {used for path in new for used in self._used(self.source(path))} - found
        folders = {path.parent for path in found}
        return found.union(*(folder.glob(data) for folder in folders for data in _data(folder)))

    def _used(self, source: "Source") -> Iterator[Path]:
        """Files that a piece of code names itself."""
        for module, name in source.imports:
            inside = f"{module}.{name}"
            if not name:
                yield from filter(None, [self._file(module)])
            elif self._is_package(inside) and not self._offered(module, name):
                yield from (self._home(inside, part) for part in source.attributes_of(name))
            elif self._file(module):
                yield self._home(module, name)
        yield from (path for name in source.module_names if (path := self._file(name)))

    def _home(self, module: str, name: str) -> Path:
        """The file in which a name is defined that a module offers."""
        if inner := self._offered(module, name):
            return self._home(inner, name)
        file = self._file(f"{module}.{name}") or self._file(module)
        assert file is not None, f"{module} is not a module of the course"
        return file

    def _offered(self, module: str, name: str) -> str | None:
        """The module from which a package's front imports a name, to offer it."""
        front = self._file(module)
        if front is None or front.name != "__init__.py":
            return None
        imports = self.source(front).imports
        return next((inner for inner, each in imports if each == name and self._file(inner)), None)

    def _is_package(self, module: str) -> bool:
        file = self._file(module)
        return file is not None and file.name == "__init__.py"

    def _file(self, module: str) -> Path | None:
        """The file of a module of the course; None for any other name."""
        path = self._root.joinpath(*module.split("."))
        if module.split(".", maxsplit=1)[0] not in PACKAGES:
            return None
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file for file in files if file.is_file()), None)

    def source(self, path: Path) -> "Source":
        """A module as it is read here, once."""
        if path not in self._sources:
            self._sources[path] = _parsed(path.read_text(encoding="utf-8"))
        return self._sources[path]


@functools.cache
def _parsed(code: str) -> "Source":
    """The same code once, in however many courses it stands."""
    return Source(code)


class Source:
    """A piece of code and what it imports.

    Attributes:
        imports: Pairs of a module and a name in it; no name for ``import module``.
    """

    def __init__(self, code: str) -> None:
        self._code = code
        self.imports: list[tuple[str, str]] = []
        for node in _statements(ast.parse(code)):
            if isinstance(node, ast.Import):
                self.imports += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                self.imports += [(node.module or "", alias.name) for alias in node.names]

    @property
    def module_names(self) -> set[str]:
        """Strings that are names of modules, as of one that a process is started with."""
        return set(MODULE_NAME.findall(self._code))

    def attributes_of(self, name: str) -> set[str]:
        """What is used of a name, as in ``name.attribute``."""
        return set(re.findall(rf"\b{name}\.(\w+)", self._code))


def _data(folder: Path) -> tuple[str, ...]:
    """Names of files in a folder that its modules read."""
    always = ("*.js", "*.css", "*.csv")
    return (*always, "*.json") if folder.name == "records" else always


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all statements inside it; no expressions, which import nothing."""
    yield node
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, []):
            yield from _statements(inner)
