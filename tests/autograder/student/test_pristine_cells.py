"""`original` prints a cell as released, or one sentence if there is no such cell."""

import pytest

from autograder.student import pristine_cells
from autograder.student.pristine_cells import original


def test_original_prints_the_stub(capsys):
    original("u00-state-gib")
    said = capsys.readouterr().out
    assert said.startswith("def state_gib(")
    assert "NotImplementedError" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("u00-stategib", "is it one of u00-state-gib"),
        ("u99-nothing", "No unit has a cell 'u99-nothing'"),
        (original, "Expected the id of a cell in quotes"),
    ],
    ids=["near", "no unit", "no string"],
)
def test_an_unknown_cell_is_answered_in_one_sentence(name, words, capsys):
    original(name)
    assert words in capsys.readouterr().out


def test_without_the_released_notebooks_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pristine_cells, "NOTEBOOKS", tmp_path / "notebooks")
    original("u00-state-gib")
    assert "a new copy of the notebook, from where you got this one" in capsys.readouterr().out
