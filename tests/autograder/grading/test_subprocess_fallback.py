"""Without a sandbox each submission has a process of its own, and gets the same verdicts."""

import tempfile
from pathlib import Path

import nbformat
import pytest

from autograder.grading.run.submission import Submission, grade
from autograder.grading.sandbox.client import GoneError
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import ROOT, UNITS, filled, solved

UNIT = UNITS[0]


def graded(*, is_unsafe):
    release = (ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text(encoding="utf-8")
    raw = nbformat.writes(filled(UNIT, solved(UNIT))).encode()
    return grade(
        Submission(
            unit=UNIT, student="ada", raw=raw, release=release, seeds=(1, 2), is_unsafe=is_unsafe
        )
    )


@needs(SANDBOX)
def test_verdicts_and_notebook_are_those_of_the_sandbox():
    fallback, sandboxed = graded(is_unsafe=True), graded(is_unsafe=False)
    assert fallback.result.verdicts == sandboxed.result.verdicts
    assert fallback.notebook == sandboxed.notebook
    assert all(verdict.passed for verdict in fallback.result.verdicts)


@pytest.fixture
def conversation(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    conversation = SubprocessFallback().start_conversation()
    yield conversation
    conversation.end()


def run(conversation, source, seconds=60):
    return conversation.ask({"do": "run", "source": source, "seconds": 30.0}, seconds)["outputs"]


def test_nothing_of_a_submission_stays(conversation, tmp_path):
    code = """
import os, subprocess
open("left.txt", "w").write("x")
child = subprocess.Popen(["sleep", "600"])
print(child.pid, os.getcwd())
"""
    child, folder = run(conversation, code)[0]["text"].split()
    assert (Path(folder) / "left.txt").exists()
    conversation.end()
    assert list(tmp_path.iterdir()) == []
    status = Path("/proc") / child / "status"
    assert not status.exists() or "zombie" in status.read_text()


def test_what_does_not_come_back_is_given_up(conversation):
    run(conversation, "1")
    with pytest.raises(GoneError, match=r"within 0\.5 seconds"):
        run(conversation, "import time\nwhile True: time.sleep(1)", seconds=0.5)
    assert conversation.end() < 0
