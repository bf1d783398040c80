"""The diagram in `docs/architecture.md`: the packages' rooms, and who imports whom.

A room is a subpackage. The arrows are made from the import statements; modules at the root of a
package are left out, and so is an arrow that follows from two others.
"""

from itertools import product
from pathlib import Path

from autograder.authoring.dependencies import PACKAGES, Dependencies
from autograder.authoring.generated_part import between_marks

BEGIN, END = "<!-- rooms: drawn by make build -->", "<!-- end of rooms -->"

Arrows = set[tuple[str, str]]


def with_diagram(text: str, root: Path, dependencies: Dependencies) -> str:
    """The page with its diagram made anew.

    Raises:
        BuildError: If the two marks around the diagram are not there.
    """
    return between_marks(text, BEGIN, END, diagram(root, dependencies))


def diagram(root: Path, dependencies: Dependencies) -> str:
    """The rooms as a Mermaid flowchart: a box a room, an arrow from who imports to what."""
    arrows = imports_between_rooms(root, dependencies)
    lines = ["```mermaid", "flowchart TD"]
    for package in PACKAGES:
        lines.append(f"  subgraph {package}")
        lines += [f"    {package}.{room}[{room}]" for room in rooms_of(root / package)]
        inside = {pair for pair in arrows if all(end.startswith(f"{package}.") for end in pair)}
        lines += [f"    {start} --> {end}" for start, end in sorted(without_detours(inside))]
        lines.append("  end")
    across = {(start, "course_utils") for start, end in arrows if end.startswith("course_utils.")}
    lines += [
        f"  {start} --> {end}" for start, end in sorted(across) if start.startswith("autograder.")
    ]
    return "\n".join([*lines, "```"])


def rooms_of(package: Path) -> list[str]:
    """Folders of a package that hold modules."""
    return sorted(path.parent.name for path in package.glob("*/__init__.py"))


def imports_between_rooms(root: Path, dependencies: Dependencies) -> Arrows:
    """Pairs of rooms, ``package.room``, of which the first imports the second."""
    known = {f"{package}.{room}" for package in PACKAGES for room in rooms_of(root / package)}
    arrows: Arrows = set()
    for room in known:
        for file in root.joinpath(*room.split(".")).rglob("*.py"):
            names = (f"{module}.{name}" for module, name in dependencies.source(file).imports)
            used = {".".join(name.split(".")[:2]) for name in names}
            arrows |= {(room, other) for other in used & known if other != room}
    return arrows


def without_detours(arrows: Arrows) -> Arrows:
    """The arrows without those that also lead through another room."""
    reached = set(arrows)
    while new := {(a, d) for (a, b), (c, d) in product(reached, reached) if b == c} - reached:
        reached |= new
    through = {(a, d) for (a, b), (c, d) in product(reached, reached) if b == c}
    return arrows - through
