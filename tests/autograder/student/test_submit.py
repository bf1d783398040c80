"""Handing in: saved, complete, of the right unit; and mending without losing anything."""

import json
import os
import shutil

import nbformat
import pytest

from autograder.student.errors import CommandError
from autograder.student.submit import WorkFolder, _unit_and_cell, main
from tests.notebooks.filling import ROOT, UNITS, filled, solved

UNIT, OTHER = UNITS[0], UNITS[1]
NOON, EVENING = 1_760_000_000, 1_760_030_000


@pytest.fixture
def desk(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    (tmp_path / "work" / UNIT).mkdir(parents=True)
    desk = WorkFolder(tmp_path)
    put(desk, filled(UNIT, solved(UNIT)))
    remember(desk, {})
    return desk


def mine(desk):
    return desk.root / "work" / UNIT / f"{UNIT}.ipynb"


def put(desk, notebook):
    nbformat.write(notebook, mine(desk))


def remember(desk, exercises):
    memory = {"version": 1, "exercises": exercises, "predictions": {}}
    (desk.root / "work" / "progress.json").write_text(json.dumps(memory))


def checked(source, stamp="2030-01-01T12:00:00"):
    return {"u00-tensor-bytes": {"points": 2.0, "source": source, "checked": stamp}}


def cell(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def test_one_file_to_hand_in(desk):
    path = desk.submit(UNIT)
    assert path == desk.root / "work" / "hand_in" / f"{UNIT}.ipynb"
    handed_in = nbformat.read(path, as_version=4)
    assert cell(handed_in, "u00-tensor-bytes").source == solved(UNIT)["u00-tensor-bytes"]
    assert all(not each.get("outputs") for each in handed_in.cells)


def test_points_are_those_of_the_answer_that_is_handed_in(desk, capsys):
    answer = solved(UNIT)["u00-tensor-bytes"]
    remember(desk, checked(answer, "2001-01-01T12:00:00"))
    desk.submit(UNIT)
    said = capsys.readouterr().out
    assert "Bytes of a tensor: 2 of 2 points at its last check" in said
    assert "How long does a step take?: not checked here" in said
    put(desk, filled(UNIT, solved(UNIT) | {"u00-tensor-bytes": answer.replace("*=", "+=")}))
    desk.submit(UNIT)
    assert "Bytes of a tensor: changed since its last check" in capsys.readouterr().out


def test_answer_that_is_no_python_is_told(desk, capsys):
    put(desk, filled(UNIT, solved(UNIT) | {"u00-tensor-bytes": "def tensor_bytes(:"}))
    desk.submit(UNIT)
    assert "Bytes of a tensor: is no Python (invalid syntax, line 1)" in capsys.readouterr().out


def test_copies_changes_and_broken_cells_of_ones_own_are_told(desk, capsys):
    notebook = filled(UNIT, solved(UNIT))
    copy = nbformat.from_dict(cell(notebook, "u00-state-gib"))
    copy = copy | {"id": "copy", "source": "def state_gib(n, b): return 0"}
    own = nbformat.v4.new_code_cell("    return 3")
    notebook.cells += [nbformat.from_dict(copy), own, nbformat.v4.new_code_cell("%time 1")]
    cell(notebook, "u00-tensor-bytes-test").source = "2.0"
    put(desk, notebook)
    handed_in = nbformat.read(desk.submit(UNIT), as_version=4)
    said = capsys.readouterr().out
    assert "2 cells claim to be u00-state-gib; the first written counts" in said
    assert "you changed u00-tensor-bytes-test; it is handed in as the course made it" in said
    assert "a cell of your own is no Python (unexpected indent, line 1): `return 3`" in said
    assert "%time" not in said
    assert [each.cell_type for each in handed_in.cells[-3:]] == ["raw", "code", "code"]


def test_unwritten_exercises_are_told_and_may_be_handed_in(desk, capsys):
    put(desk, filled(UNIT, {"u00-view": "  "}))
    desk.submit(UNIT)
    assert capsys.readouterr().out.count("not written yet") == 5


def test_missing_cell_is_refused_by_name(desk):
    notebook = filled(UNIT, solved(UNIT))
    notebook.cells = [each for each in notebook.cells if each.id != "u00-state-gib-test"]
    put(desk, notebook)
    with pytest.raises(CommandError, match=r"u00-state-gib-test is missing.*make fresh"):
        desk.submit(UNIT)


def test_notebook_of_another_unit_is_refused(desk):
    put(desk, filled(OTHER, {}))
    with pytest.raises(CommandError, match="holds cells of unit 01, not of unit 00"):
        desk.submit(UNIT)


def test_answer_checked_after_the_last_save_is_refused(desk):
    remember(desk, checked("def tensor_bytes(): return 'newer'"))
    with pytest.raises(CommandError, match=r"is not saved.*Ctrl-S"):
        desk.submit(UNIT)


def test_answer_edited_after_its_check_is_accepted(desk):
    remember(desk, checked("def tensor_bytes(): return 'older'", "2001-01-01T12:00:00"))
    desk.submit(UNIT)


def test_saved_answer_with_a_later_check_is_accepted(desk):
    source = solved(UNIT)["u00-tensor-bytes"]
    os.utime(mine(desk), (NOON, NOON))
    remember(desk, checked(source + "\n"))
    desk.submit(UNIT)


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "damaged"), ('{"cells": [', "damaged"), ("[" * 200_000, "damaged"), ("[]", "damaged")],
    ids=["empty", "cut off", "deep", "a list"],
)
def test_damaged_notebook_is_one_sentence(desk, content, words):
    mine(desk).write_text(content)
    with pytest.raises(CommandError, match=words):
        desk.submit(UNIT)


def test_notebook_with_a_byte_order_mark_is_read(desk):
    text = mine(desk).read_text(encoding="utf-8")
    mine(desk).write_text("\ufeff" + text, encoding="utf-8")
    desk.submit(UNIT)


def test_missing_notebook_and_unknown_unit_are_told(desk, capsys):
    mine(desk).unlink()
    with pytest.raises(CommandError, match=r"is not there. `make fresh UNIT=00_start_here` makes"):
        desk.submit(UNIT)
    with pytest.raises(CommandError, match=f"name one of these.*{UNIT}"):
        desk.submit("00_nothing")


def test_fresh_keeps_answers_and_the_old_notebook(desk):
    notebook = filled(UNIT, solved(UNIT))
    notebook.cells[0].source = "scribbled over"
    put(desk, notebook)
    kept = desk.fresh(UNIT)
    assert nbformat.read(kept, as_version=4).cells[0].source == "scribbled over"
    made = nbformat.read(mine(desk), as_version=4)
    assert made.cells[0].source.startswith("# 00")
    assert cell(made, "u00-tensor-bytes").source == solved(UNIT)["u00-tensor-bytes"]


def test_fresh_can_set_one_cell_back(desk):
    desk.fresh(UNIT, "u00-state-gib")
    made = nbformat.read(mine(desk), as_version=4)
    assert "NotImplementedError" in cell(made, "u00-state-gib").source
    assert cell(made, "u00-tensor-bytes").source == solved(UNIT)["u00-tensor-bytes"]


def test_one_cell_of_a_damaged_notebook_brings_the_whole_one(desk):
    mine(desk).write_text("{ cut")
    desk.fresh(UNIT, "u00-state-gib")
    made = nbformat.read(mine(desk), as_version=4)
    assert len(made.cells) == len(filled(UNIT, {}).cells)


def test_id_of_a_cell_names_its_unit_too():
    assert _unit_and_cell("u00-state-gib", "") == ("00", "u00-state-gib")
    assert _unit_and_cell("00_start_here", "") == ("00_start_here", "")
    assert _unit_and_cell("00", "u00-view") == ("00", "u00-view")


def test_fresh_for_an_unknown_cell_changes_nothing(desk):
    before = mine(desk).read_bytes()
    with pytest.raises(CommandError, match="Nothing was changed: there is no cell 'u00-nothing'"):
        desk.fresh(UNIT, "u00-nothing")
    assert mine(desk).read_bytes() == before


def test_fresh_for_a_damaged_notebook_takes_the_checked_answers(desk, capsys):
    mine(desk).write_text("{ cut")
    remember(desk, checked("def tensor_bytes(): return 'checked'\n"))
    kept = desk.fresh(UNIT)
    assert kept.read_text() == "{ cut"
    made = nbformat.read(mine(desk), as_version=4)
    assert cell(made, "u00-tensor-bytes").source == "def tensor_bytes(): return 'checked'"
    said = capsys.readouterr().out
    assert "u00-tensor-bytes was not in your notebook; its last check" in said
    assert "u00-view was not in your notebook; it starts anew" in said


def test_fresh_brings_back_the_checked_answer_of_a_deleted_cell(desk):
    notebook = filled(UNIT, solved(UNIT))
    notebook.cells = [each for each in notebook.cells if each.id != "u00-tensor-bytes"]
    put(desk, notebook)
    remember(desk, checked("def tensor_bytes(): return 'checked'\n"))
    desk.fresh(UNIT)
    made = nbformat.read(mine(desk), as_version=4)
    assert cell(made, "u00-tensor-bytes").source == "def tensor_bytes(): return 'checked'"
    assert cell(made, "u00-state-gib").source == solved(UNIT)["u00-state-gib"]


def test_text_that_was_handed_in_comes_back_into_a_fresh_notebook(desk):
    desk.submit(UNIT)
    mine(desk).write_text("{ cut")
    desk.fresh(UNIT)
    made = nbformat.read(mine(desk), as_version=4)
    assert cell(made, "u00-view").source == solved(UNIT)["u00-view"]


def test_notes_in_a_text_of_the_course_are_told(desk, capsys):
    notebook = filled(UNIT, solved(UNIT))
    notebook.cells[0].source += "\nMy notes."
    put(desk, notebook)
    desk.submit(UNIT)
    assert "you wrote into a text of the course (`# 00 · Start here" in capsys.readouterr().out


def test_fresh_where_there_was_none(desk):
    mine(desk).unlink()
    assert desk.fresh(UNIT) is None
    assert mine(desk).exists()


def test_two_fresh_notebooks_in_one_second_keep_both_old_ones(desk):
    kept = {desk.fresh(UNIT), desk.fresh(UNIT)}
    assert len(kept) == 2
    assert all(path.exists() for path in kept)


def test_command_line_says_the_sentence_and_fails(capsys):
    assert main(["submit", "99_nothing"]) == 1
    assert "There is no unit `99_nothing`" in capsys.readouterr().err
    assert main(["submit"]) == 1
    assert "No unit is named: name one of these" in capsys.readouterr().err
