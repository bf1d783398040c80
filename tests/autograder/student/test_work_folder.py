"""Hand in a notebook that is saved, complete and of its unit; repair one without losing work."""

import json
import shutil
import subprocess
import sys

import nbformat
import pytest

from autograder.commands import CommandError
from autograder.student.__main__ import main
from autograder.student.work_folder import WorkFolder, unit_and_cell
from tests.notebooks.filling import ROOT, UNITS, filled, solved

UNIT, OTHER = UNITS[0], UNITS[1]
NOON, EVENING = 1_760_000_000, 1_760_030_000


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    (tmp_path / "work" / UNIT).mkdir(parents=True)
    folder = WorkFolder(tmp_path)
    put(folder, filled(UNIT, solved(UNIT)))
    remember(folder, {})
    return folder


def mine(folder):
    return folder.root / "work" / UNIT / f"{UNIT}.ipynb"


def put(folder, notebook):
    nbformat.write(notebook, mine(folder))


def remember(folder, exercises):
    memory = {"version": 1, "exercises": exercises, "predictions": {}}
    (folder.root / "work" / "progress.json").write_text(json.dumps(memory))


def checked(source, stamp="2030-01-01T12:00:00"):
    return {"u00-tensor-bytes": {"points": 2.0, "source": source, "checked": stamp}}


def cell(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def test_submit_writes_one_file_to_hand_in(folder):
    path = folder.submit(UNIT)
    assert path == folder.root / "work" / "hand_in" / f"{UNIT}.ipynb"
    handed_in = nbformat.read(path, as_version=4)
    assert cell(handed_in, "u00-tensor-bytes").source == solved(UNIT)["u00-tensor-bytes"]
    assert all(not each.get("outputs") for each in handed_in.cells)


def test_points_shown_are_those_of_the_answer_handed_in(folder, capsys):
    answer = solved(UNIT)["u00-tensor-bytes"]
    remember(folder, checked(answer, "2001-01-01T12:00:00"))
    folder.submit(UNIT)
    said = capsys.readouterr().out
    assert "Bytes of a tensor: 2 of 2 points at its last check" in said
    assert "How long does a step take?: not checked here" in said
    put(folder, filled(UNIT, solved(UNIT) | {"u00-tensor-bytes": answer.replace("*=", "+=")}))
    folder.submit(UNIT)
    assert "Bytes of a tensor: changed since its last check" in capsys.readouterr().out


def test_copies_changes_and_broken_cells_are_reported(folder, capsys):
    notebook = filled(UNIT, solved(UNIT))
    copy = nbformat.from_dict(cell(notebook, "u00-state-gib"))
    copy = copy | {"id": "copy", "source": "def state_gib(n, b): return 0"}
    own = nbformat.v4.new_code_cell("    return 3")
    notebook.cells += [nbformat.from_dict(copy), own, nbformat.v4.new_code_cell("%time 1")]
    cell(notebook, "u00-tensor-bytes-test").source = "2.0"
    cell(notebook, "u00-tensor-bytes").source = "def tensor_bytes(:"
    notebook.cells[0].source += "\nMy notes."
    put(folder, notebook)
    mine(folder).write_text("\ufeff" + mine(folder).read_text("utf-8"), "utf-8")
    handed_in = nbformat.read(folder.submit(UNIT), as_version=4)
    said = capsys.readouterr().out
    assert "2 cells have the name u00-state-gib; the last that defines the function cou" in said
    assert "u00-tensor-bytes-test: of another text in the file, and the course's again" in said
    assert (
        "a cell of your own is not valid Python ('return' outside function, line 1): `return"
        in said
    )
    assert "you changed a text of the course (`# 00 · Start here" in said
    assert "Bytes of a tensor: is not valid Python (invalid syntax, line 1)" in said
    assert "%time" not in said
    assert [each.source for each in handed_in.cells[-2:]] == [own.source, "%time 1"]


def test_unwritten_exercises_are_reported_and_may_be_handed_in(folder, capsys):
    put(folder, filled(UNIT, {"u00-view": "  "}))
    folder.submit(UNIT)
    assert capsys.readouterr().out.count("not written yet") == 5


def test_missing_answer_is_refused_by_name_where_it_can_be_put_back(folder, capsys):
    folder.submit(UNIT)
    notebook = filled(UNIT, solved(UNIT))
    gone = ("u00-state-gib", "u00-state-gib-test")
    notebook.cells = [each for each in notebook.cells if each.id not in gone]
    put(folder, notebook)
    with pytest.raises(CommandError, match=r"answer to u00-state-gib is missing.*make fresh"):
        folder.submit(UNIT)
    (folder.work / "hand_in" / f"{UNIT}.ipynb").unlink()
    folder.submit(UNIT)
    assert "Missing and put back as the course made them: u00-state-gib" in capsys.readouterr().out


def test_notebook_of_another_unit_is_refused(folder):
    put(folder, filled(OTHER, {}))
    with pytest.raises(CommandError, match=r"holds no cell of this unit.*make fresh"):
        folder.submit(UNIT)


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "damaged"), ('{"cells": [', "damaged"), ("[" * 200_000, "damaged"), ("[]", "damaged")],
    ids=["empty", "cut off", "deep", "a list"],
)
def test_damaged_notebook_is_one_sentence(folder, content, words):
    mine(folder).write_text(content)
    with pytest.raises(CommandError, match=words):
        folder.submit(UNIT)


def test_fresh_keeps_answers_and_the_old_notebook(folder):
    notebook = filled(UNIT, solved(UNIT))
    notebook.cells[0].source = "scribbled over"
    put(folder, notebook)
    kept = folder.fresh(UNIT)
    assert nbformat.read(kept, as_version=4).cells[0].source == "scribbled over"
    made = nbformat.read(mine(folder), as_version=4)
    assert made.cells[0].source.startswith("# 00")
    assert cell(made, "u00-tensor-bytes").source == solved(UNIT)["u00-tensor-bytes"]


def test_fresh_can_reset_one_cell(folder):
    folder.fresh(UNIT, "u00-state-gib")
    made = nbformat.read(mine(folder), as_version=4)
    assert "NotImplementedError" in cell(made, "u00-state-gib").source
    assert cell(made, "u00-tensor-bytes").source == solved(UNIT)["u00-tensor-bytes"]


def test_resetting_one_cell_of_a_damaged_notebook_makes_a_whole_fresh_one(folder):
    mine(folder).write_text("{ cut")
    folder.fresh(UNIT, "u00-state-gib")
    made = nbformat.read(mine(folder), as_version=4)
    assert len(made.cells) == len(filled(UNIT, {}).cells)


def test_id_of_a_cell_names_its_unit_too():
    assert unit_and_cell("u00-state-gib", "") == ("00", "u00-state-gib")
    assert unit_and_cell("00_start_here", "") == ("00_start_here", "")
    assert unit_and_cell("00", "u00-view") == ("00", "u00-view")


def test_fresh_for_an_unknown_cell_changes_nothing(folder):
    before = mine(folder).read_bytes()
    with pytest.raises(CommandError, match="Nothing was changed: there is no cell 'u00-nothing'"):
        folder.fresh(UNIT, "u00-nothing")
    assert mine(folder).read_bytes() == before


def files_of(folder):
    return {each: each.read_bytes() for each in folder.root.rglob("*") if each.is_file()}


@pytest.mark.parametrize("command", ["submit", "fresh"])
def test_on_a_full_disk_nothing_is_moved(folder, command):
    """No file may grow beyond a few bytes, in a process of its own."""
    before = files_of(folder)
    code = (
        "import pathlib, resource, signal, sys\n"
        "from autograder.student.__main__ import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"sys.exit(main([{command!r}, {UNIT!r}], pathlib.Path({str(folder.root)!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, files_of(folder)) == (1, before)
    assert "Nothing of yours was changed: File too large" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_fresh_notebooks_in_one_second_keep_both_old_ones(folder):
    kept = {folder.fresh(UNIT), folder.fresh(UNIT)}
    assert len(kept) == 2
    assert all(path.exists() for path in kept)


def test_an_answer_that_was_checked_after_the_last_save_must_be_in_the_file(folder):
    remember(folder, checked("def tensor_bytes(): return 'newer'"))
    with pytest.raises(CommandError, match=r"is not saved.* was checked at 12:00.*Ctrl-S"):
        folder.submit(UNIT)
    remember(folder, checked(solved(UNIT)["u00-tensor-bytes"] + "\n"))
    folder.submit(UNIT)
    remember(folder, checked("def tensor_bytes(): return 'older'", "2001-01-01T12:00:00"))
    folder.submit(UNIT)


def test_a_missing_notebook_says_how_to_get_one(folder):
    mine(folder).unlink()
    with pytest.raises(CommandError, match=r"is not there. `make fresh UNIT=00_start_here` cre"):
        folder.submit(UNIT)
    assert folder.fresh(UNIT) is None
    assert mine(folder).exists()


def test_answers_of_a_damaged_notebook_come_from_checks_and_other_files(folder, capsys):
    folder.submit(UNIT)
    nbformat.write(filled(OTHER, solved(OTHER)), mine(folder).with_name("other.ipynb"))
    renamed = mine(folder).rename(mine(folder).with_name("my FLOPs.ipynb"))
    put(folder, filled(UNIT, {}))  # what is not written yet hides nothing
    kept_stubs = folder.fresh(UNIT)
    mine(folder).write_text("{ cut")
    remember(folder, checked("def tensor_bytes(): return 'checked'\n"))
    assert folder.fresh(UNIT).read_text() == "{ cut"
    made = nbformat.read(mine(folder), as_version=4)
    assert cell(made, "u00-tensor-bytes").source == "def tensor_bytes(): return 'checked'"
    assert cell(made, "u00-view").source == solved(UNIT)["u00-view"]
    assert len(made.cells) == len(filled(UNIT, {}).cells)
    assert renamed.exists()
    assert kept_stubs.exists()
    said = capsys.readouterr().out
    assert "u00-tensor-bytes was not in your notebook; it comes from its last check" in said


def test_a_deleted_cell_comes_back_empty_where_nothing_has_its_answer(folder, capsys):
    notebook = filled(UNIT, solved(UNIT))
    notebook.cells = [each for each in notebook.cells if each.id != "u00-tensor-bytes"]
    put(folder, notebook)
    folder.fresh(UNIT)
    made = nbformat.read(mine(folder), as_version=4)
    assert "not written yet" in cell(made, "u00-tensor-bytes").source
    assert cell(made, "u00-state-gib").source == solved(UNIT)["u00-state-gib"]
    assert "u00-tensor-bytes was not in your notebook; it starts empty" in capsys.readouterr().out


def test_an_unknown_unit_ends_the_command_with_one_sentence(capsys):
    assert main(["submit", "99_nothing"]) == 1
    assert "There is no unit `99_nothing`" in capsys.readouterr().err
