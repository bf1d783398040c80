"""Answers and added cells go into a fresh notebook, and nothing else."""

import nbformat.v4 as nbf
import pytest

from autograder.cells import cell_key
from autograder.student.merge_answers import merge_answers, with_cell_reset


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


def sources(made):
    return [cell.source for cell in made.cells]


def test_only_answers_cross():
    mine = course()
    mine[0].source, mine[1].source = "# Mine", "import os"
    mine[2].source, mine[3].source = "def f(): return 1", "print('all right')"
    mine[2].metadata["tags"] = ["skip-execution"]
    made = merge_answers(notebook(*mine), notebook(*course()))
    assert sources(made) == [
        "# Unit",
        "import torch",
        "def f(): return 1",
        "check('f', f)",
        "def g(): ...",
    ]
    assert "tags" not in made.cells[2].metadata


def test_added_cells_stay_after_the_cell_they_followed():
    mine = course()
    mine.insert(0, code("first"))
    mine.insert(4, code("after f"))
    mine.insert(5, code("after that"))
    made = merge_answers(notebook(*mine), notebook(*course()))
    assert sources(made) == [
        "first",
        "# Unit",
        "import torch",
        "def f(): ...",
        "after f",
        "after that",
        "check('f', f)",
        "def g(): ...",
    ]


def test_first_of_copied_cells_counts_and_the_other_becomes_raw():
    mine = course()
    mine[2].source = "def f(): return 1"
    copy = code("def f(): return 2", "f", solution=True)
    copy.id = "another"
    mine.insert(3, copy)
    made = merge_answers(notebook(*mine), notebook(*course()))
    assert sources(made)[2:4] == ["def f(): return 1", "def f(): return 2"]
    assert [cell_key(cell) for cell in made.cells].count("f") == 1
    assert made.cells[3].metadata == {}
    assert made.cells[3].cell_type == "raw"


def test_copy_that_is_written_counts_where_the_first_is_not():
    mine = course()
    copy = code("def f(): return 2", "f", solution=True)
    copy.id = "another"
    mine.insert(3, copy)
    made = merge_answers(notebook(*mine), notebook(*course()))
    assert made.cells[2].source == "def f(): return 2"


def test_answer_of_a_cell_that_is_gone_comes_from_the_spare_ones():
    mine, spare = course(), {"f": "def f(): return 'spare'", "g": "def g(): return 'spare'"}
    made = merge_answers(notebook(*mine[:2], *mine[3:]), notebook(*course()), spare)
    assert sources(made)[2] == "def f(): return 'spare'"
    assert sources(made)[4] == "def g(): ..."


def test_moved_answers_are_found_and_missing_cells_come_back():
    mine = course()
    mine[4].source = "def g(): return 3"
    made = merge_answers(notebook(mine[4], mine[2]), notebook(*course()))
    assert sources(made) == [*sources(notebook(*course()))[:4], "def g(): return 3"]


def test_given_cells_that_lost_their_ids_are_not_doubled():
    mine = course()
    mine[0].id = "random"
    made = merge_answers(notebook(*mine), notebook(*course()))
    assert sources(made) == sources(notebook(*course()))


def test_nothing_given_is_changed():
    mine, fresh = notebook(*course()), notebook(*course())
    mine.cells[2].source = "def f(): return 1"
    merge_answers(mine, fresh)
    assert fresh.cells[2].source == "def f(): ..."


def test_resetting_one_cell_leaves_the_rest():
    mine = course()
    mine[2].source, mine[4].source = "broken", "def g(): return 3"
    made = with_cell_reset(notebook(*mine), notebook(*course()), "f")
    assert sources(made)[2:] == ["def f(): ...", "check('f', f)", "def g(): return 3"]


def test_one_deleted_cell_comes_back_to_its_place():
    mine = course()
    made = with_cell_reset(notebook(*mine[:2], *mine[3:]), notebook(*course()), "f")
    assert sources(made) == sources(notebook(*course()))


def test_unknown_cell_is_named():
    with pytest.raises(KeyError, match="there is no cell 'h'"):
        with_cell_reset(notebook(*course()), notebook(*course()), "h")
