"""`make try` finds what is wrong, and says it in a sentence."""

import subprocess
import sys

import nbformat
import pytest

from autograder.authoring import master, reading_time
from tests.autograder.authoring import tiny
from tests.trying import changed, exercises, page
from tests.trying.answers import Tried

EXERCISE = "u00-tensor-bytes"


@pytest.fixture
def unit(tmp_path):
    return master.read(tiny.make_course(tmp_path))


def test_a_budget_that_is_passed_and_the_card_that_is_written(unit, monkeypatch):
    assert [*page.over_budget(unit)] == []
    monkeypatch.setattr(reading_time, "MAX_WORDS", 1)
    longest = f"Unit 00: 3 words, 2 too many: the longest card, of {EXERCISE}, has 2."
    assert [*page.over_budget(unit)] == [longest]
    assert [*page.over_budget(unit, EXERCISE)] == ["Unit 00: 3 words, 2 too many: this card has 2."]


def test_a_cell_runs_with_what_it_needs():
    sources = [
        "import math",
        "sizes, unused = [3], 1",
        "print(unused)",
        "sizes[0] = 4",
        "math.pi * sizes[0]",
        "sizes",
    ]
    cells = [nbformat.v4.new_code_cell(each) for each in sources]
    chosen = page.with_needs(cells, [cells[4]])
    assert chosen == [cells[0], cells[1], cells[3], cells[4]]


def test_cells_that_changed_run(tmp_path, unit):
    executed = unit.path.with_suffix(".ipynb")
    nbformat.write(unit.notebook, executed)
    assert [*page.failing_cells(tmp_path, unit, [])] == []
    text = unit.path.read_text(encoding="utf-8").replace("2 + 3", "2 / 0")
    unit.path.write_text(text, encoding="utf-8")
    (said,) = page.failing_cells(tmp_path, master.read(unit.path), [])
    assert said.startswith("Unit 00: a cell of the solved notebook fails:")
    assert "ZeroDivisionError" in said


def test_a_file_that_changed_has_its_cells_run(tmp_path, unit, monkeypatch):
    nbformat.write(unit.notebook, unit.path.with_suffix(".ipynb"))
    ran = []
    monkeypatch.setattr(page, "execute", ran.append)
    assert [*page.failing_cells(tmp_path, unit, [tmp_path / "autograder" / "__init__.py"])] == []
    (notebook,) = ran
    assert ["autograder" in cell.source for cell in notebook.cells] == [True]


def test_an_exercise_in_order_has_no_finding():
    assert [*exercises.findings(EXERCISE, 2)] == []


def test_an_answer_with_another_verdict_is_named(monkeypatch):
    wrong = Tried(
        exercise=EXERCISE, name="none", make=lambda: lambda *_: 0, points=1.0, hint="Why?"
    )
    monkeypatch.setattr(exercises, "answers", lambda kinds, exercise: [wrong])
    (said,) = exercises.findings(EXERCISE, 2)
    assert said.startswith(f"{EXERCISE}, none: it has to earn 1 points and to be told 'Why?'; ")


def test_what_cannot_be_tried_is_a_sentence(monkeypatch):
    (said,) = exercises.findings("u00-tensor-words", 2)
    assert said == "u00-tensor-words is not in the catalogue yet: `make build` takes it in."
    monkeypatch.setattr(exercises, "answers", lambda kinds, exercise: 1 / 0)
    (said,) = exercises.findings(EXERCISE, 2)
    assert said == f"{EXERCISE} cannot be tried: ZeroDivisionError: division by zero"


def test_style_of_what_changed(tmp_path):
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        names = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *names, *command], cwd=tmp_path, check=True)
    (tmp_path / "new.py").write_text("print(unknown )\n", encoding="utf-8")
    files = changed.changed_files(tmp_path)
    assert files == [tmp_path / "new.py"]
    undefined, form = changed.style(tmp_path, files)
    assert undefined == "new.py, line 1: Undefined name `unknown` (F821)."
    assert form == "new.py, line 1: File would be reformatted (unformatted)."


def test_an_unknown_exercise_is_refused():
    command = [sys.executable, "-m", "tests.trying", "u00-tensor-words"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unit 00 has no exercise 'u00-tensor-words'; it has u00-tensor-bytes, " in done.stderr
