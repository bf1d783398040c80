"""The container holds nothing that is not for students, and is set up without starting Jupyter."""

from pathlib import Path

import pytest

from autograder.authoring.student_files import FOR_STAFF
from autograder.student.__main__ import main

ROOT = Path(__file__).parents[1]
IGNORED = (ROOT / ".dockerignore").read_text("utf-8").split()


@pytest.mark.parametrize("folder", [*FOR_STAFF, "solutions", "tests", "docs/book", ".git"])
def test_nothing_of_staff_is_sent_to_the_image(folder):
    assert (ROOT / folder).exists()
    assert folder in IGNORED


def test_setup_copies_the_units_and_starts_nothing(tmp_path, capsys):
    (tmp_path / "notebooks" / "00_unit").mkdir(parents=True)
    (tmp_path / "notebooks" / "00_unit" / "00_unit.ipynb").write_text("{}")
    assert main(["setup"], tmp_path) == 0
    assert capsys.readouterr().out == "Copied into work/: 00_unit\n"
    assert (tmp_path / "work" / "00_unit" / "00_unit.ipynb").read_text() == "{}"
    assert (tmp_path / "work" / "progress.json").exists()
