"""Each cell of a student's notebook is known for what it is; only answers and own cells cross."""

import time

import nbformat
import nbformat.v4 as nbf
import pytest

from autograder import catalogue
from autograder.cell_code import defined, python_of
from autograder.cells import is_solution
from autograder.commands import CommandError
from autograder.notebook_reader import Cell, read
from autograder.student.work_folder import with_cell_reset
from autograder.student_notebook import MAX_ADDED_CELLS, StudentNotebook
from tests.notebooks.filling import UNITS, filled, released, solved

TWO_TEXTS = [
    unit.folder for unit in catalogue.units() if sum(item.manual for item in unit.exercises) > 1
]


def code(source, grade_id="", solution=False, **more):
    cell = nbf.new_code_cell(source, **more)
    if grade_id:
        cell.id = grade_id
        cell.metadata["nbgrader"] = {"grade_id": grade_id, "solution": solution}
    return cell


def notebook(*cells):
    return nbf.new_notebook(cells=list(cells))


def course():
    return [
        nbf.new_markdown_cell("# Unit", id="title"),
        code("import torch", "setup"),
        code("def f(): ...", "f", solution=True),
        code("check('f', f)", "f-test"),
        code("def g(): ...", "g", solution=True),
    ]


def sources(cells):
    return [cell.source for cell in cells]


def student_notebook(content, fresh):
    return StudentNotebook(read(nbformat.writes(content).encode())[0], fresh)


def merged(mine, spare=None):
    """The cells of what comes out."""
    return (
        student_notebook(notebook(*mine), notebook(*course())).release(spare, to_read=False).cells
    )


def test_only_answers_cross():
    mine = course()
    mine[0].source, mine[1].source = "# Mine", "import os"
    mine[2].source, mine[3].source = "def f(): return 1", "print('all right')"
    mine[2].metadata["tags"] = ["skip-execution"]
    made = merged(mine)
    assert made[2].source == "def f(): return 1"
    assert "tags" not in made[2].metadata
    made[2].source = "def f(): ..."
    assert sources(made) == sources(course())


def test_added_cells_stay_after_the_cell_they_followed():
    mine, wanted = course(), sources(course())
    for place, text in ((0, "first"), (4, "after f"), (5, "after that")):
        mine.insert(place, code(text))
        wanted.insert(place, text)
    assert sources(merged(mine)) == wanted


def test_answer_of_a_cell_that_is_gone_comes_from_the_spare_ones():
    mine, spare = course(), {"f": "def f(): return 'spare'"}
    made = merged([*mine[:2], *mine[3:]], spare)
    assert sources(made)[2] == "def f(): return 'spare'"
    assert sources(made)[4] == "def g(): ..."


def test_what_is_merged_once_stays_as_it_is():
    mine = course()
    mine[2].source = "def f(): return 1\n\ndef g(): return 2"
    mine.insert(3, code("def f(): return 3"))
    once = merged(mine)
    assert sources(once)[2::2] == ["def f(): return 3", "def g(): return 2"]
    assert sources(merged(once)) == sources(once)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("with_names", [True, False])
def test_every_unit_keeps_its_answers_with_and_without_names(unit, with_names):
    content = filled(unit, solved(unit))
    for number, cell in enumerate(content.cells):
        if not with_names:
            cell.metadata, cell.id = nbformat.NotebookNode(), f"{number:08}"
    made = student_notebook(content, released(unit)).release(to_read=True)
    assert {c.id: c.source for c in made.cells if is_solution(c)} == solved(unit)
    assert len(made.cells) == len(content.cells)


@pytest.mark.parametrize("unit", TWO_TEXTS)
@pytest.mark.parametrize("below", [0, 1], ids=["in their cells", "below the stubs"])
def test_texts_without_names_are_told_apart_by_their_places(unit, below):
    content = filled(unit, solved(unit) if not below else {})
    texts = [item.id for item in catalogue.units()[int(unit[:2])].exercises if item.manual]
    for name in texts if below else ():
        place = next(n for n, cell in enumerate(content.cells) if cell.id == name)
        content.cells.insert(place + 1, nbf.new_markdown_cell(solved(unit)[name]))
    for number, cell in enumerate(content.cells):
        cell.metadata, cell.id = nbformat.NotebookNode(), f"{number:08}"
    found = student_notebook(content, released(unit)).answers
    assert {name: found[name] for name in texts} == {name: solved(unit)[name] for name in texts}


def test_resetting_one_cell_leaves_the_rest():
    mine = course()
    mine[2].source, mine[4].source = "broken", "def g(): return 3"
    made = with_cell_reset(notebook(*mine), notebook(*course()), "f")
    assert sources(made.cells)[2:] == ["def f(): ...", "check('f', f)", "def g(): return 3"]


def test_one_deleted_cell_comes_back_to_its_place():
    mine = course()
    made = with_cell_reset(notebook(*mine[:2], *mine[3:]), notebook(*course()), "f")
    assert sources(made.cells) == sources(course())


def test_unknown_cell_is_named():
    with pytest.raises(CommandError, match="Nothing was changed: there is no cell 'h'"):
        with_cell_reset(notebook(*course()), notebook(*course()), "h")


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("%%time\nx = 1", "pass\nx = 1"),
        ("!pip install x\nx = 1", "pass\nx = 1"),
        ("if x:\n    !ls\ny?", "if x:\n    pass\npass"),
        ("%timeit -n 10 f(1)", "f(1)"),
        ("files = !ls", "files = None"),
        ("%%bash\nls", ""),
        ("x = (1\n% 2)", "x = (1\n% 2)"),
    ],
)
def test_what_only_ipython_understands_is_left_out(source, python):
    assert python_of(source) == python


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass\nclass G: pass", ["f", "G"]),
        ("f = lambda: 1\ng = functools.partial(f)\nh = f()", ["f", "g"]),
        ("def f(:", ["f"]),
        ('"""\ndef f(): pass\n"""', []),
        ("%%time\n@cache\ndef f(): pass", ["f"]),
    ],
)
def test_what_a_cell_defines(source, names):
    assert defined(source) == names


@pytest.mark.parametrize("source", ["", "a note", "x = 1", "u00"])
def test_a_crowd_of_cells_costs_no_more_than_its_size(source):
    cells = [Cell(kind=kind, source=source, grading={}) for kind in ("code", "markdown")] * 3_000
    begin = time.process_time()
    made = StudentNotebook(cells, released(UNITS[0])).release(to_read=True)
    assert time.process_time() - begin < 15
    assert len(made.cells) <= len(released(UNITS[0]).cells) + MAX_ADDED_CELLS
