"""`nbgrader autograde` with our engine: whom it grades, how it ends and what its log says."""

import logging

import pytest
from nbgrader.apps.autogradeapp import AutogradeApp

from tests.autograder.grading.course_folder import Course
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import UNITS

UNIT = UNITS[0]
CLASS = ("ann", "wim", "wes", "a[b]c")


class Lines(logging.Handler):
    """What a log says, by level."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append((record.levelname, record.getMessage()))

    def of(self, level):
        return [text for name, text in self.said if name == level]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    made = Course(tmp_path_factory.mktemp("plugin"))
    made.run("generate_assignment", UNIT)
    for student in CLASS:
        made.hand_in(student, UNIT, {})
    return made


@pytest.fixture
def autograde(course, monkeypatch):
    """Run the command in the course's folder: its exit code, its log."""
    monkeypatch.chdir(course.folder)
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(*arguments):
        app, lines = AutogradeApp(), Lines()
        app.initialize(list(arguments))
        app.log.addHandler(lines)
        try:
            app.start()
        except SystemExit as end:
            return end.code, lines
        finally:
            app.log.removeHandler(lines)
        return 0, lines

    return run


def graded(lines):
    """Who was graded, by the log."""
    return sorted(
        text.split(":")[0] for text in lines.of("INFO") if " points by the checks, " in text
    )


@needs(SANDBOX)
def test_a_pattern_then_others_then_nobody_then_again(autograde, course):
    code, lines = autograde(UNIT, "--student=w*")
    assert (code, graded(lines)) == (0, ["wes", "wim"])
    code, lines = autograde(UNIT, "--CourseDirectory.student_id_exclude=ann,wes")
    assert (code, graded(lines)) == (0, ["a[b]c"])
    code, lines = autograde(UNIT, "--student=w*")
    assert (code, graded(lines)) == (0, [])
    assert lines.of("INFO")[-1].startswith("Nothing has changed since all 2")
    code, lines = autograde(UNIT, "--force", "--student=a[b]c")
    assert (code, graded(lines)) == (0, ["a[b]c"])
    assert set(course.scores("a[b]c", UNIT).values()) == {0.0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([UNIT, "--student=nobody"], f"Nothing was collected of {UNIT} from nobody; 4 others"),
        ([UNIT, "--student=x*"], f"Nothing was collected of {UNIT} from x*; 4 others"),
        (["99_nothing"], "There is no unit `99_nothing`: name one of these"),
    ],
)
def test_what_cannot_be_graded_is_said_in_one_line(autograde, arguments, said):
    code, lines = autograde(*arguments)
    assert code == 1
    assert len(lines.of("ERROR")) == 1
    assert lines.of("ERROR")[0].startswith(said)
