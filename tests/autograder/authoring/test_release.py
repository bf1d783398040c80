"""No byte of a solution, a hidden test or an output is left in what students get."""

import nbformat
import pytest

from autograder.authoring import master
from autograder.authoring.errors import MasterError
from autograder.authoring.release import find_leaks, release
from tests.autograder.authoring import tiny
from tests.notebooks.filling import ROOT, UNITS, WITH_EXERCISES, released


def instructor(tmp_path, **changes):
    return master.read(tiny.make_course(tmp_path, tiny.parts() | changes)).notebook


def test_release_of_a_sound_master_has_the_stub(tmp_path):
    made = release(instructor(tmp_path), tmp_path)
    source = next(cell.source for cell in made.cells if cell.id == "u00-tensor-bytes")
    assert source.endswith('raise NotImplementedError("not written yet")')
    assert "num_bytes" not in source


def test_stub_that_gives_the_answer_away_is_refused(tmp_path):
    telling = tiny.markdown("Try `num_bytes *= size` for each size.")
    with pytest.raises(MasterError, match=r"holds the line `num_bytes\*=size`"):
        release(instructor(tmp_path, telling=telling), tmp_path)


def test_hidden_test_shown_elsewhere_is_refused(tmp_path):
    telling = tiny.cell('grade("u00-tensor-bytes",tensor_bytes)')
    with pytest.raises(MasterError, match="holds the line `grade"):
        release(instructor(tmp_path, telling=telling), tmp_path)


def test_output_left_in_a_release_is_found(tmp_path):
    notebook = instructor(tmp_path)
    made = release(notebook, tmp_path)
    made.cells[-1].outputs = [nbformat.v4.new_output("stream", text="5")]
    assert list(find_leaks(notebook, made)) == [f"{made.cells[-1].id} holds an output"]


def test_pairing_left_in_a_release_is_found(tmp_path):
    notebook = instructor(tmp_path)
    made = release(notebook, tmp_path)
    made.metadata["jupytext"] = {"formats": "ipynb,py"}
    assert "paired" in "".join(find_leaks(notebook, made))


@pytest.mark.parametrize("unit", WITH_EXERCISES)
def test_committed_release_holds_no_solution(unit):
    read = master.read(ROOT / "solutions" / unit / f"{unit}.py")
    assert master.solution_bodies(read.notebook)
    assert master.hidden_tests(read.notebook)
    assert list(find_leaks(read.notebook, released(unit))) == []


@pytest.mark.parametrize("unit", UNITS)
def test_release_folder_holds_the_notebook_and_nothing_else(unit):
    files = [path.name for path in (ROOT / "notebooks" / unit).iterdir()]
    assert [name for name in files if name != ".ipynb_checkpoints"] == [f"{unit}.ipynb"]
