"""New sizes for an exercise that was passed; its points stay."""

import json
import math

import pytest

from autograder import check, progress_file
from autograder.commands import CommandError
from autograder.student import practice
from autograder.student.__main__ import main
from tests.notebooks.filling import ROOT

EXERCISE = "u00-tensor-bytes"
asked = []


def tensor_bytes(shape, element_bytes):
    asked.append((shape, element_bytes))
    return math.prod(shape) * element_bytes


def forgets_the_width(shape, element_bytes):
    return math.prod(shape)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A course's folder with a work folder, which is the current one."""
    for folder in ("notebooks", "autograder"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "work" / "00_start_here").mkdir(parents=True)
    progress_file.create(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work" / "00_start_here")
    return tmp_path


def points(root):
    progress = json.loads((root / "work" / progress_file.NAME).read_text())
    return progress["exercises"][EXERCISE]["points"]


def test_new_sizes_stay_until_the_answer_is_right_there_and_points_stay_anyway(root):
    assert check(EXERCISE, tensor_bytes) == 2.0
    first = set(asked)
    assert [item.id for item in practice.practise(root, root / "work", "0")] == [EXERCISE]
    asked.clear()
    for _ in range(2):
        wrong = check(EXERCISE, forgets_the_width).verdict
        assert "on new sizes: 0 of 2 points here; yours stay" in str(wrong)
        assert "Hint: " in str(wrong)
        assert points(root) == 2.0
    right = check(EXERCISE, tensor_bytes).verdict
    assert right.passed
    assert right.is_again
    assert set(asked) - first
    assert not check(EXERCISE, tensor_bytes).verdict.is_again
    assert points(root) == 2.0


def test_validate_has_the_first_sizes(root, monkeypatch):
    check(EXERCISE, tensor_bytes)
    practice.practise(root, root / "work", "00")
    monkeypatch.setenv("NBGRADER_VALIDATING", "1")
    assert not check(EXERCISE, tensor_bytes).verdict.is_again


def test_what_was_not_passed_has_none(root):
    with pytest.raises(CommandError, match="for what was passed, and no check of 00_start_here"):
        practice.practise(root, root / "work", "00")
    check(EXERCISE, tensor_bytes)
    with pytest.raises(CommandError, match="no check of u00-state-gib"):
        practice.practise(root, root / "work", "00", "u00-state-gib")


def test_an_exercise_that_is_not_there_is_answered_with_those_that_are(root):
    with pytest.raises(CommandError, match="no exercise `u00-x` with a check; it has u00-"):
        practice.practise(root, root / "work", "00", "u00-x")


def test_an_exercise_whose_sizes_never_change_says_so(root):
    check(EXERCISE, tensor_bytes)
    (root / "autograder").unlink()
    with pytest.raises(CommandError, match="There are no other sizes for u00-tensor-bytes"):
        practice.practise(root, root / "work", "00")


def test_the_command_says_what_has_new_sizes(root, capsys):
    check(EXERCISE, tensor_bytes)
    assert main(["practice", EXERCISE], root) == 0
    said = capsys.readouterr().out
    assert f"  {EXERCISE}  " in said
    assert f"make fresh UNIT=00 CELL={EXERCISE}" in said
    assert main(["practice", "77"], root) == 1
    assert "There is no unit `77`" in capsys.readouterr().err
