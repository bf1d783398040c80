"""A unit's notebook as a page of the book.

Cards become boxes with a name to link to, folded code stays folded, what was measured after a guess
waits for a click, and outputs come from `outputs`.
"""

import re
from copy import deepcopy

from nbformat import NotebookNode

from autograder.book.outputs import outputs_to_show
from autograder.book.prose import Linker
from autograder.catalogue import Exercise, Unit
from autograder.cells import is_solution

CARD = re.compile(
    r'<div style="[^"]*">\n<div style="[^\n]*✎ [^\n]*</div>\n\n'
    r"### (?P<number>\d\d\.\d+) · (?P<title>[^\n]+)\n\n(?P<text>.*)\n\n</div>",
    re.DOTALL,
)
BOX = "(%s)=\n### %s · %s\n\n:::::{container} %s\n%s\n\n%s\n:::::"
TEXT_STUB = "*Your answer in words: write it in the notebook.*"
TITLE = re.compile(r"\A# [^\n]+\n")


def unit_page(
    unit: Unit, released: NotebookNode, solved: NotebookNode, linker: Linker
) -> NotebookNode:
    """The page of a unit, as a notebook without a kernel.

    Args:
        unit: What the catalogue says of it.
        released: The student's notebook.
        solved: The instructor notebook, for outputs of given cells.
        linker: Makes links in its prose.
    """
    outputs = outputs_to_show(solved, released)
    page = deepcopy(released)
    for cell in page.cells:
        if cell.cell_type == "markdown":
            cell.source = TEXT_STUB if is_solution(cell) else _prose(unit, cell.source, linker)
        else:
            cell.outputs = outputs.get(cell.id, [])
            cell.metadata = _folds(cell)
    page.cells[0].source = _with_download(unit, page.cells[0].source)
    return page


def exercise_of(unit: Unit, source: str) -> Exercise | None:
    """The exercise whose card a cell is; None where it is none."""
    found = CARD.fullmatch(source)
    return unit.exercises[int(found["number"].partition(".")[2]) - 1] if found else None


def _prose(unit: Unit, source: str, linker: Linker) -> str:
    item = exercise_of(unit, source)
    if item is None:
        return linker.linked(source)
    found = CARD.fullmatch(source)
    assert found
    kind = "exercise extra" if item.extra else "exercise"
    text = linker.linked(found["text"])
    return BOX % (item.id, found["number"], found["title"], kind, _facts(item), text)


def _facts(item: Exercise) -> str:
    points = "1 point" if item.points == 1 else f"{item.points:g} points"
    dots = "●" * item.difficulty + "○" * (5 - item.difficulty)
    facts = ["**Extra**" if item.extra else "**Your turn**", points, f"{item.minutes} min"]
    facts += [f"difficulty {dots}", *(["read by a person"] if item.manual else [])]
    return " · ".join(facts)


def _folds(cell: NotebookNode) -> NotebookNode:
    """What is folded in the book: plumbing, and what is measured after a guess."""
    first = cell.source.partition("\n")[0].removeprefix("# ")
    is_folded = cell.metadata.get("jupyter", {}).get("source_hidden")
    is_measured = cell.outputs and re.search(r"^\s*compare\(", cell.source, re.MULTILINE)
    tags = {
        (True, True): ["hide-cell"],
        (True, False): ["hide-input"],
        (False, True): ["hide-output"],
        (False, False): [],
    }[bool(is_folded), bool(is_measured)]
    prompts = {"code_prompt_show": first, "code_prompt_hide": first} if is_folded else {}
    return NotebookNode({"tags": tags, "mystnb": prompts})


def _with_download(unit: Unit, source: str) -> str:
    link = f"<a class='notebook' download href='../notebooks/{unit.folder}.ipynb'>"
    return TITLE.sub(lambda title: f"{title[0]}\n{link}Get the notebook</a>\n\n", source, count=1)
