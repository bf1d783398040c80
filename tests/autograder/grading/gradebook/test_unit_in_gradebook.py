"""How the gradebook learns a unit, and where it does not follow by itself."""

import pytest

from autograder.grading import command
from autograder.grading.errors import GradingError
from autograder.grading.release.__main__ import main as release
from autograder.grading.run.run import Run
from tests.autograder.grading.changing import cells, put, scores, without
from tests.autograder.grading.small import UNIT, InThisProcess
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import composite, solved

LEFT_OUT = "u00-state-gib"


@pytest.fixture
def shorter(whole):
    """The unit as it was while it had one exercise less."""
    return without(whole, LEFT_OUT)


@pytest.fixture
def course(small, monkeypatch):
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    monkeypatch.setattr(Run, "_pool", lambda _: InThisProcess())
    small.hand_in("ada", solved(UNIT))
    small.hand_in("grace", solved(UNIT) | composite(UNIT, 0))
    return small


@needs(SANDBOX)
def test_an_unknown_unit_is_learned_as_nbgrader_would(course, whole):
    by_nbgrader = cells(course)
    assert len(by_nbgrader) == 10
    (course.root / "gradebook.db").unlink()
    put(course, whole)
    course.grade()
    assert cells(course) == by_nbgrader


@needs(SANDBOX)
def test_a_gradebook_that_knows_another_form_and_no_release_is_not_changed_by_grading(
    course, whole, shorter, capsys
):
    """As nbgrader's own commands may leave it."""
    put(course, shorter)
    with pytest.raises(GradingError, match=rf"\(gone: {LEFT_OUT}\)\. `make release UNIT=00`"):
        course.grade()
    assert release([UNIT], course.root) == 0
    assert "as the build left it:\n  4 exercises with 6 points\n" in capsys.readouterr().out
    course.grade()
    assert LEFT_OUT not in scores(course, "ada")
    copy, *_ = sorted((course.root / "gradebook_backups").iterdir())
    course.root.joinpath("gradebook.db").write_bytes(copy.read_bytes())
    assert f"{LEFT_OUT}-test" in {name for _, name, *_ in cells(course)}


@needs(SANDBOX)
def test_two_builds_are_not_mixed(course, shorter, whole):
    put(course, whole)
    release_of_whole = course.root / "notebooks" / UNIT / f"{UNIT}.ipynb"
    text = release_of_whole.read_text()
    put(course, shorter)
    release_of_whole.write_text(text)
    (course.root / "gradebook.db").unlink()
    with pytest.raises(GradingError, match=r"two builds \(new: u00-state-gib\): run `make build"):
        course.grade()
    put(course, shorter)
    course.grade()
    assert LEFT_OUT not in scores(course, "ada")


def test_a_release_that_nbgrader_deleted_is_named(course, capsys):
    (course.root / "notebooks" / UNIT / f"{UNIT}.ipynb").unlink()
    assert command.main(["0"], course.root) == 1
    assert "`make build UNIT=00` makes it again" in capsys.readouterr().err


@needs(SANDBOX)
def test_hidden_tests_are_needed_to_learn_a_unit(course):
    (course.root / "gradebook.db").unlink()
    with pytest.raises(GradingError, match=r"00_start_here.ipynb is not there: the gradebook"):
        course.grade()
