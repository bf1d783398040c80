"""The text of a cell as it came, and a sentence where there is no such cell."""

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
def test_what_is_not_there_is_told(name, words, capsys):
    original(name)
    assert words in capsys.readouterr().out
