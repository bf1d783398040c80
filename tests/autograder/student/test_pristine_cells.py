"""`original` prints a cell as released, or one sentence if there is no such cell."""

import pytest

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
        (original, "Wanted the id of a cell in quotes"),
    ],
    ids=["near", "no unit", "no string"],
)
def test_an_unknown_cell_is_answered_in_one_sentence(name, words, capsys):
    original(name)
    assert words in capsys.readouterr().out
