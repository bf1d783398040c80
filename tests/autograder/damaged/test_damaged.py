"""Honest damage ends well: in practice, in `make submit`, in `make fresh` and in a grade.

Every notebook of `damages.py` was solved once. Where its file still holds an answer, the answer
counts; a text always reaches a reader; and no remark accuses anybody.
"""

import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder import check
from autograder.grading.intake import merge
from autograder.grading.run import submission
from autograder.grading.run.notebook_plan import Question, steps
from autograder.notebook_reader import read
from autograder.student.work_folder import WorkFolder
from tests.autograder.damaged.damages import (
    CODE,
    DAMAGED,
    FULL,
    TEXT,
    Damaged,
    bytes_of,
)
from tests.autograder.grading.handed_in import FRESH, UNIT, answers_in, plain
from tests.needs import SANDBOX, require
from tests.notebooks.filling import ROOT

ACCUSING = ("cannot be read as Python", "which no exercise needs", "changed by the student")
GRADED = [*sorted(DAMAGED)[::12], "%%time", "!pip", "moved to the end, with what it needs"]
SEEDS = (4711, 4712)
GIVEN = {cell.source for cell in FRESH.cells if cell.id not in (*CODE, TEXT)}


@cache
def file_of(name: str) -> bytes:
    return bytes_of(DAMAGED[name], plain())


@cache
def shell() -> InteractiveShell:
    config = Config()
    config.HistoryManager.enabled = False
    return InteractiveShell(config=config)


def new_kernel() -> InteractiveShell:
    kernel = shell()
    kernel.reset()
    kernel.user_ns |= dict.fromkeys(("check", "predict", "try_it"), lambda *_: None)
    return kernel


def accusations(remarks: Iterable[str]) -> list[str]:
    return [line for line in remarks if any(words in line for words in ACCUSING)]


def expected(damaged: Damaged) -> dict[str, float]:
    return FULL | dict.fromkeys(damaged.lost, 0.0)


def graded(raw: bytes):
    """Points by exercise as the plan of a grade has them, by the practice checks; the text."""
    merged = merge(raw, FRESH)
    points, kernel = dict.fromkeys(FULL, 0.0), new_kernel()
    for step in [] if merged.is_foreign else steps(merged.notebook, FRESH):
        if isinstance(step, Question):
            points[step.exercise] = float(check(step.exercise, kernel.user_ns.get(step.name)))
        elif step.source not in GIVEN:
            kernel.run_cell(step.source, store_history=True)
    return points, answers_in(merged.notebook)[TEXT], merged


def assert_whole(raw: bytes, damaged: Damaged) -> None:
    points, words, _ = graded(raw)
    assert points == expected(damaged)
    assert all(each in words for each in damaged.words)


@pytest.fixture
def folder(tmp_path) -> WorkFolder:
    (tmp_path / "notebooks" / UNIT).mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", tmp_path / "notebooks" / UNIT)
    (tmp_path / "work" / UNIT).mkdir(parents=True)
    return WorkFolder(tmp_path)


def put(folder: WorkFolder, raw: bytes) -> Path:
    path = folder.work / UNIT / f"{UNIT}.ipynb"
    path.write_bytes(raw)
    return path


def test_there_are_fifty():
    assert len(DAMAGED) >= 50


@pytest.mark.parametrize("name", DAMAGED)
def test_practice(name):
    """All cells run from top to bottom, and then the checks again."""
    cells, _ = read(file_of(name))
    sources = [cell.source for cell in cells if cell.kind == "code"]
    kernel = new_kernel()
    for source in sources:
        if source not in GIVEN:
            kernel.run_cell(source, store_history=True)
    names = kernel.user_ns
    lost = (*DAMAGED[name].lost, *DAMAGED[name].not_in_kernel)
    points = {
        exercise: float(check(exercise, names.get(exercise[4:].replace("-", "_"))))
        for exercise in FULL
    }
    assert points == FULL | dict.fromkeys(lost, 0.0)


@pytest.mark.parametrize("name", DAMAGED)
def test_submit(name, folder, capsys):
    put(folder, file_of(name))
    handed_in = folder.submit(UNIT)
    assert_whole(handed_in.read_bytes(), DAMAGED[name])
    said = capsys.readouterr().out
    assert said.count("not written yet") == len(DAMAGED[name].lost)
    assert "is not valid Python" not in said


@pytest.mark.parametrize("name", DAMAGED)
def test_fresh(name, folder):
    path = put(folder, file_of(name))
    folder.fresh(UNIT)
    assert_whole(path.read_bytes(), DAMAGED[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkFolder, "_spare_answers", lambda *_: {})
        folder.fresh(UNIT)
    assert_whole(path.read_bytes(), DAMAGED[name])


@pytest.mark.parametrize("name", DAMAGED)
def test_grade(name):
    raw, damaged = file_of(name), DAMAGED[name]
    assert_whole(raw, damaged)
    assert merge(raw, FRESH).needs_human == ()
    assert not accusations(merge(raw, FRESH).remarks)


@pytest.mark.parametrize("name", GRADED)
def test_grade_in_the_sandbox(name):
    require(SANDBOX)
    outcome = submission.grade(
        submission.Submission(
            unit=UNIT,
            student="ada",
            raw=file_of(name),
            release=nbformat.writes(FRESH),
            seeds=SEEDS,
        )
    )
    points = {verdict.exercise: verdict.points for verdict in outcome.result.verdicts}
    assert points == expected(DAMAGED[name])
    assert not accusations(outcome.result.remarks)
    assert all(each in outcome.result.answers[TEXT] for each in DAMAGED[name].words)
