"""Answers and added cells go into a fresh notebook, and nothing else."""

import nbformat.v4 as nbf
import pytest
from autograder.student.merge_answers import merge_answers, with_cell_reset

from autograder.cells import cell_key
from autograder.commands import CommandError


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


def merged(mine, spare=None):
    """The cells of what comes out."""
    return merge_answers(notebook(*mine), notebook(*course()), spare).cells


def test_only_answers_cross():
    mine, fresh = course(), notebook(*course())
    mine[0].source, mine[1].source = "# Mine", "import os"
    mine[2].source, mine[3].source = "def f(): return 1", "print('all right')"
    mine[2].metadata["tags"] = ["skip-execution"]
    made = merge_answers(notebook(*mine), fresh).cells
    assert made[2].source == "def f(): return 1"
    assert "tags" not in made[2].metadata
    made[2].source = "def f(): ..."
    assert sources(made) == sources(fresh.cells) == sources(course())


def test_added_cells_stay_after_the_cell_they_followed():
    mine, wanted = course(), sources(course())
    for place, text in ((0, "first"), (4, "after f"), (5, "after that")):
        mine.insert(place, code(text))
        wanted.insert(place, text)
    assert sources(merged(mine)) == wanted


@pytest.mark.parametrize("first", ["def f(): ...", "def f(): return 1"])
def test_first_of_copied_cells_that_is_written_counts_and_the_other_becomes_raw(first):
    mine = course()
    mine[2].source = first
    mine.insert(3, code("def f(): return 2", "f", solution=True))
    mine[3].id = "another"
    made = merged(mine)
    assert made[2].source == (first if "1" in first else "def f(): return 2")
    assert made[3].source == "def f(): return 2"
    assert [cell_key(cell) for cell in made].count("f") == 1
    assert (made[3].metadata, made[3].cell_type) == ({}, "raw")


def test_answer_of_a_cell_that_is_gone_comes_from_the_spare_ones():
    mine, spare = course(), {"f": "def f(): return 'spare'", "g": "def g(): return 'spare'"}
    made = merged([*mine[:2], *mine[3:]], spare)
    assert sources(made)[2] == "def f(): return 'spare'"
    assert sources(made)[4] == "def g(): ..."


def test_moved_answers_are_found_and_missing_cells_come_back():
    mine = course()
    mine[4].source = "def g(): return 3"
    made = merged([mine[4], mine[2]])
    assert sources(made) == [*sources(course())[:4], "def g(): return 3"]


def test_given_cells_that_lost_their_ids_are_not_doubled():
    mine = course()
    mine[0].id = "random"
    assert sources(merged(mine)) == sources(course())


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
