"""The rooms of the package, and who may import whom."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "course_utils"

# The import table. The small modules beside the rooms may be read by several of them.
MAY_IMPORT = {
    "configs": set(),
    "formulas": {"configs"},
    "instruments": {"configs"},
    "reference": {"configs"},
    "checks": {
        *("configs", "formulas", "instruments", "reference"),
        *("catalogue", "colours", "literals", "store"),
    },
    "show": {"colours", "literals", "configs", "formulas", "instruments"},
    "desk": {"catalogue", "files", "store"},
    "authoring": {"catalogue", "files"},
    "grading": {"catalogue", "checks", "colours", "desk", "files", "show"},
    "catalogue": set(),
    "colours": set(),
    "files": set(),
    "literals": set(),
    "ready": set(),
    "store": set(),
    "__main__": {"desk"},
    "__init__": set(),
}
HEAVY = {"torch", "matplotlib", "ipywidgets", "pandas"}
WITHOUT = {
    "configs": HEAVY,
    "reference": {"matplotlib", "ipywidgets", "pandas"},
    "formulas": HEAVY,
    "instruments": {"matplotlib", "ipywidgets"},
    "checks": {"matplotlib", "ipywidgets"},
    "desk": HEAVY,
    "grading": {"matplotlib", "ipywidgets"},  # its figures are drawn by `show`
    "catalogue": HEAVY,
    "files": HEAVY,
    "store": HEAVY,
}
COMM = {f"course_utils.distributed.comm.{name}" for name in ("Comm", "Handle")}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names of everything that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_room_is_in_the_table():
    assert {room_of(path) for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_room_imports_only_what_it_may(path):
    room = room_of(path)
    names = {name for name in imported(path) if name.startswith("course_utils.")}
    if room == "reference":  # it may talk to other ranks, and measure nothing
        names -= COMM
    ours = {name.split(".")[1] for name in names}
    assert ours - {room, "__version__"} <= MAY_IMPORT[room]
    assert not {name.split(".")[0] for name in imported(path)} & WITHOUT.get(room, set())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_opens_with_a_docstring_and_can_be_read_in_one_go(path):
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 420
