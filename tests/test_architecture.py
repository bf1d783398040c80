"""The rooms of the two packages, and who may import whom."""

import ast
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The import tables. Beside them every room may use the small modules at its package's root.
COURSE_UTILS = {
    "configs": set(),
    "formulas": {"configs"},
    "traces": set(),
    "instruments": {"configs", "traces"},  # and no formula: a measurement could not disprove it
    "distributed": {"configs", "instruments", "traces"},
    "reference": {"configs", "distributed"},
    "planner": {"configs", "formulas", "records"},
    "records": {"traces"},
    "show": {
        "configs",
        "formulas",
        "instruments",
        "distributed",
        "reference",
        "planner",
        "records",
        "traces",
    },
    "torchrun": {"configs", "distributed", "reference"},  # a command; no other room imports it
}
AUTOGRADER = {
    "checking": set(),
    "observers": {"checking"},
    "exercises": {"checking", "observers"},
    "grading": {"checking", "exercises", "student"},
    "authoring": set(),
    "book": set(),
    "hub": {"student"},
    "planning": set(),
    "student": set(),
}
MAY_IMPORT = {"course_utils": COURSE_UTILS, "autograder": AUTOGRADER}
# Rooms whose modules are named by a string beside that: programs of another process, and modules
# that are taken away from one.
MAY_NAME = {"authoring": {"book", "exercises"}, "grading": {"observers"}}
NAMED_BY_A_STRING = re.compile(r'"(?:-m )?((?:autograder|course_utils)\.[\w.]+)')
# These use nothing of the subject: they run before anything is installed, or build what uses it.
WITHOUT_THE_SUBJECT = {"authoring", "book", "student"}

# The checks of a unit's exercises stand in one module, one after the other.
OF_A_UNIT = re.compile(r"/exercises/u\d\d\b")
LINES_OF_A_UNIT = 920

DRAWS = {"matplotlib", "ipywidgets", "anywidget"}
HEAVY = {*DRAWS, "torch", "pandas"}
WITHOUT = {
    "configs": HEAVY,
    "formulas": HEAVY,
    "instruments": DRAWS,
    "distributed": DRAWS,
    "reference": {*DRAWS, "pandas"},
    "records": HEAVY,
    "traces": HEAVY,
    "checking": DRAWS,
    "exercises": DRAWS,
    "grading": DRAWS,  # its figures are drawn by `show`
    "student": HEAVY,
    "catalogue": HEAVY,
    "commands": HEAVY,
    "files": HEAVY,
    "progress_file": HEAVY,
}
# Reference code may talk to other ranks; it measures nothing and simulates nothing.
COMM = {f"course_utils.distributed.comm.{name}" for name in ("Comm", "Handle")}
MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))
# Of Jupyter: they name extensions of the server.
SETTINGS = sorted((ROOT / "autograder").rglob("jupyter/**/*.json"))


def place(path: Path) -> tuple[str, str]:
    """Package and room of a module; a module at the root of a package is its own room."""
    package, room, *_ = path.relative_to(ROOT).parts
    return package, room.removesuffix(".py")


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names of everything that a module imports."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def rooms_imported(path: Path, package: str) -> set[str]:
    """Rooms of a package that a module imports; small modules at its root do not count."""
    return rooms_of(imported(path), package)


def rooms_of(names: Iterable[str], package: str) -> set[str]:
    ours = {name.split(".")[1] for name in names if name.startswith(f"{package}.")}
    return ours & set(MAY_IMPORT[package])


def forbidden(
    rule: Callable[[Path], set[str]], paths: Sequence[Path] = MODULES
) -> dict[str, set[str]]:
    """What the modules have that a rule forbids, by module."""
    found = {str(path.relative_to(ROOT)): rule(path) for path in paths}
    return {module: names for module, names in found.items() if names}


def test_every_folder_of_a_package_is_in_its_table():
    for package, table in MAY_IMPORT.items():
        folders = {
            path.name for path in (ROOT / package).iterdir() if (path / "__init__.py").exists()
        }
        assert folders == set(table)


def imports_that_its_room_may_not(path: Path) -> set[str]:
    package, room = place(path)
    found = {name.split(".")[0] for name in imported(path)} & WITHOUT.get(room, set())
    allowed = MAY_IMPORT[package].get(room)
    if allowed is not None:
        found |= rooms_imported(path, package) - {room} - allowed
    if room == "reference":
        found |= {name for name in imported(path) if name.startswith("course_utils.distributed")}
        found -= COMM
    return found


def names_in_a_string_of_other_rooms(path: Path) -> set[str]:
    package, room = place(path)
    if room not in MAY_IMPORT[package]:
        return set()
    allowed = {room} | MAY_IMPORT[package][room] | MAY_NAME.get(room, set())
    return rooms_of(NAMED_BY_A_STRING.findall(text_of(path)), package) - allowed


def imports_over_the_arrow(path: Path) -> set[str]:
    package, room = place(path)
    if package == "course_utils":
        return {name for name in imported(path) if name.split(".")[0] == "autograder"}
    return rooms_imported(path, "course_utils") if room in WITHOUT_THE_SUBJECT else set()


def what_makes_it_hard_to_read(path: Path) -> set[str]:
    num_lines = len(text_of(path).splitlines())
    most = LINES_OF_A_UNIT if OF_A_UNIT.search(str(path)) else 420
    found = {f"{num_lines} lines"} if num_lines > most else set()
    return found if ast.get_docstring(parsed(path)) else found | {"no docstring"}


def test_rooms_import_only_what_they_may():
    assert forbidden(imports_that_its_room_may_not) == {}


def test_rooms_name_no_other_in_a_string_either():
    assert forbidden(names_in_a_string_of_other_rooms, [*MODULES, *SETTINGS]) == {}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_room_imports_itself_by_way_of_others(package):
    table = MAY_IMPORT[package]
    TopologicalSorter({room: table[room] | MAY_NAME.get(room, set()) for room in table}).prepare()


def test_the_subject_knows_nothing_of_the_grader():
    assert forbidden(imports_over_the_arrow) == {}


def test_modules_open_with_a_docstring_and_can_be_read_in_one_go():
    assert forbidden(what_makes_it_hard_to_read) == {}
