"""What the marks on a master's cell lines stand for: nbgrader's metadata, and the graded cells.

A master says in a word what nbgrader wants in a line of metadata:

    # %% Bytes of a tensor [markdown] exercise="u00-tensor-bytes" points=2 minutes=3 ...   the card
    # %% solution="u00-tensor-bytes"        the model answer, between BEGIN and END SOLUTION
    # %% check="u00-tensor-bytes"           comments that say what is verified
    # %% [markdown] text_answer="u00-view"  an answer in words, read by a person
    # %% setup=true                         the first cell of code, locked and folded
    # %% [markdown] opening=true            the first cell: picture, promise, a list of goals
    # %% folded=true                        code that only draws or compares, under its first line
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from nbformat import NotebookNode

from autograder.authoring import page

CARD_KEYS = ("title", "difficulty", "importance", "minutes", "points")
ROLES = ("solution", "check", "text_answer")
SOLUTION = re.compile(r"BEGIN SOLUTION[^\n]*\n(?P<body>.*?)\n[^\n]*END SOLUTION", re.DOTALL)
DEFINITION = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
GRADED_CELL = """{verified}
check("{exercise}", {answer})
### BEGIN HIDDEN TESTS
from autograder import grade

grade("{exercise}", {answer})
### END HIDDEN TESTS"""


def cards(notebook: NotebookNode) -> list[dict[str, Any]]:
    """What the card of each exercise says, in the order of the notebook."""
    return [dict(cell.metadata) for cell in notebook.cells if "exercise" in cell.metadata]


def functions(notebook: NotebookNode) -> dict[str, str]:
    """The function or class that each solution cell defines, by exercise."""
    cells = [cell for cell in notebook.cells if "solution" in cell.metadata]
    return {cell.metadata["solution"]: DEFINITION.findall(cell.source)[-1] for cell in cells}


def problems(notebook: NotebookNode) -> Iterator[str]:
    """Every rule that the marks of a master break, as a sentence."""
    yield from _mistakes_of_cards(notebook)
    for cell in notebook.cells:
        name = next((cell.metadata[role] for role in ROLES if role in cell.metadata), "")
        place = name or f"the cell `{cell.source.strip()[:40]}`"
        yield from (f"{place}: {mistake}" for mistake in _mistakes_of_cell(cell))


def to_nbgrader(notebook: NotebookNode, unit: str) -> None:
    """Replace the marks of a sound master by nbgrader's metadata, and complete its graded cells.

    Args:
        notebook: Changed in place; the marks of its cards stay.
        unit: The number of the unit, ``"00"``.
    """
    points = {card["exercise"]: card["points"] for card in cards(notebook)}
    answers = functions(notebook)
    for cell in notebook.cells:
        marks = cell.metadata
        if marks.pop("folded", False):
            page.fold(cell)
        if marks.pop("setup", False):
            cell.source = f"{page.SETUP_LINE}\n{cell.source}"
            page.fold(cell)
            marks["nbgrader"] = _nbgrader(f"u{unit}-setup", locked=True)
            marks["tags"] = ["nbval-ignore-output"]
        if name := marks.pop("solution", ""):
            marks["nbgrader"] = _nbgrader(name, solution=True)
        if name := marks.pop("text_answer", ""):
            marks["nbgrader"] = _nbgrader(name, solution=True, grade=True, points=points[name])
        if name := marks.pop("check", ""):
            verified = cell.source.rstrip()
            cell.source = GRADED_CELL.format(verified=verified, exercise=name, answer=answers[name])
            marks["nbgrader"] = _nbgrader(
                f"{name}-test", grade=True, locked=True, points=points[name]
            )


def _nbgrader(grade_id: str, **roles: Any) -> dict[str, Any]:
    every = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
    return {"grade_id": grade_id, **every, **roles}


def _mistakes_of_cards(notebook: NotebookNode) -> Iterator[str]:
    for card in cards(notebook):
        if missing := [key for key in CARD_KEYS if not card.get(key)]:
            yield f"the card of {card['exercise']} lacks {', '.join(missing)}"
    found = {role: Counter(_names(notebook, role)) for role in ("exercise", *ROLES)}
    for role, names in found.items():
        yield from (f"`{role}` names {name} {n} times" for name, n in names.items() if n > 1)
    for role in ROLES:
        yield from (f"{name} has no card" for name in found[role] if name not in found["exercise"])
    for name in found["exercise"]:
        roles = {role for role in ROLES if name in found[role]}
        if roles not in ({"solution", "check"}, {"text_answer"}):
            yield (
                f"{name} needs a cell with `solution` and one with `check`, or one with "
                f"`text_answer`; it has {', '.join(sorted(roles)) or 'none of them'}"
            )


def _names(notebook: NotebookNode, role: str) -> Iterator[str]:
    yield from (cell.metadata[role] for cell in notebook.cells if role in cell.metadata)


def _mistakes_of_cell(cell: NotebookNode) -> Iterator[str]:
    marks, source = cell.metadata, cell.source
    bodies = [match["body"] for match in SOLUTION.finditer(source)]
    if "nbgrader" in marks or "BEGIN HIDDEN TESTS" in source:
        yield "nbgrader's metadata and hidden tests are written by the build: use a mark instead"
    if source.count("BEGIN SOLUTION") != len(bodies):
        yield "every BEGIN SOLUTION needs an END SOLUTION, and a body between them"
    if "solution" in marks or "text_answer" in marks:
        if not bodies or not all(body.strip() for body in bodies):
            yield "a solution needs a body between BEGIN SOLUTION and END SOLUTION"
    elif "BEGIN SOLUTION" in source:
        yield "a solution stands in a cell that is not marked as one"
    if "solution" in marks and not DEFINITION.search(source):
        yield "a solution defines a function or a class"
    if "folded" in marks and not source.startswith("# "):
        yield "folded code begins with a comment, which is all that is seen of it"
    if "exercise" in marks and "</div>" in source:
        yield "a card's text may not close the box that the build puts around it"
    if "opening" in marks and "\n\n1. " not in source:
        yield "an opening ends with a numbered list of what one can do afterwards"
    if "check" in marks and not re.fullmatch(r"(#.*\n?)+", source.strip()):
        yield "a check needs comments that say what is verified, and nothing else"
