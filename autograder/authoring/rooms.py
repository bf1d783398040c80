"""The drawing in `docs/architecture.md`: which rooms the packages have, and who imports whom.

It is made from the import statements. Small modules at the root of a package count for no room,
and an arrow that follows from two others is left out.
"""

import re
from itertools import product
from pathlib import Path

from autograder.authoring.dependencies import PACKAGES, Dependencies

BEGIN, END = "<!-- rooms: drawn by make build -->", "<!-- end of rooms -->"

Arrows = set[tuple[str, str]]


def with_drawing(text: str, root: Path, read: Dependencies) -> str:
    """The page with its drawing made anew.

    Raises:
        ValueError: If the two marks around the drawing are not there.
    """
    if BEGIN not in text or END not in text:
        raise ValueError(f"docs/architecture.md wants the marks {BEGIN!r} and {END!r}")
    marked = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    drawing = f"{BEGIN}\n{diagram(root, read)}\n{END}"
    return re.sub(marked, lambda _: drawing, text, flags=re.DOTALL)


def diagram(root: Path, read: Dependencies) -> str:
    """The rooms as a Mermaid flowchart: a box a room, an arrow from who imports to what."""
    arrows = imports_between_rooms(root, read)
    lines = ["```mermaid", "flowchart TD"]
    for package in PACKAGES:
        lines.append(f"  subgraph {package}")
        lines += [f"    {package}.{room}[{room}]" for room in rooms_of(root / package)]
        inside = {pair for pair in arrows if all(end.startswith(f"{package}.") for end in pair)}
        lines += [f"    {start} --> {end}" for start, end in sorted(without_detours(inside))]
        lines.append("  end")
    across = {(start, "course_utils") for start, end in arrows if end.startswith("course_utils.")}
    lines += [f"  {start} --> {end}" for start, end in sorted(across) if "course" not in start]
    return "\n".join([*lines, "```"])


def rooms_of(package: Path) -> list[str]:
    """Folders of a package that hold modules."""
    return sorted(path.parent.name for path in package.glob("*/__init__.py"))


def imports_between_rooms(root: Path, read: Dependencies) -> Arrows:
    """Pairs of rooms, ``package.room``, of which the first imports the second."""
    known = {f"{package}.{room}" for package in PACKAGES for room in rooms_of(root / package)}
    arrows: Arrows = set()
    for room in known:
        for file in root.joinpath(*room.split(".")).rglob("*.py"):
            names = (f"{module}.{name}" for module, name in read.source(file).imports)
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
