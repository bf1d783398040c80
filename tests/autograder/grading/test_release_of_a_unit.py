"""A unit that changes after its release: every grade stays, nobody is blamed, and none is lost.

The class is that of a new teacher: three students, of whom one has a cell of their own, texts that
a person reads, and a score that a person gave instead of a check's.
"""

import contextlib
import dataclasses
import io
import json
import os
import signal
import subprocess

import nbformat
import pytest
from nbgrader.preprocessors import GetGrades
from sqlalchemy.orm import Session

from autograder import catalogue
from autograder.cells import cell_key, nbgrader_metadata
from autograder.grading import command
from autograder.grading.errors import GradingError
from autograder.grading.gradebook import unit_in_gradebook
from autograder.grading.release import archive
from autograder.grading.release.__main__ import main as release
from autograder.grading.release.difference import exercise_of, points_of
from autograder.grading.shown.preprocessors import OnlyKnownCells
from tests.autograder.grading.changing import (
    beside,
    cells,
    give,
    hand_in,
    judge_by_text,
    opened,
    place_of,
    put,
    scores,
    waiting,
    with_points,
    with_text,
    without,
)
from tests.autograder.grading.small import SEED, UNIT, Small
from tests.needs import SANDBOX, require
from tests.notebooks.filling import ROOT, composite, solved

TEXT, MENDED, DEARER, NEW = "u00-view", "u00-four-memories", "u00-tensor-bytes", "u00-state-gib"
OWN_CELL = "import itertools\nlist(itertools.chain([1], [2]))"
STUDENTS = ("ada", "grace", "bob")


CHECKED = (DEARER, "u00-step-seconds", MENDED)


@pytest.fixture(scope="module")
def first(generated, whole, tmp_path_factory):
    """Release 1, with one exercise less, graded while a check was broken; texts were read."""
    require(SANDBOX)
    made = generated.copy(tmp_path_factory.mktemp("first") / "course")
    (made.root / "gradebook.db").unlink()
    put(made, without(whole, NEW))
    assert release([UNIT], made.root) == 0
    hand_in(made, "ada", solved(UNIT) | {TEXT: "A view."}, OWN_CELL)
    hand_in(made, "grace", solved(UNIT) | composite(UNIT, 0) | {TEXT: "A stride."})
    hand_in(made, "bob", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_GRADING_SEED", SEED)
        judge_by_text(patch, broken=MENDED)
        made.grade()
    assert waiting(made) == {
        *((student, TEXT) for student in ("ada", "grace")),
        *((student, f"{name}-test") for student in ("ada", "grace") for name in (MENDED,)),
    }
    give(made, "ada", TEXT, 0.75)
    give(made, "grace", TEXT, 0.5)
    give(made, "grace", f"{DEARER}-test", 1.25)
    return made


@pytest.fixture
def course(first, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_GRADING_SEED", SEED)
    judge_by_text(monkeypatch)
    return first.copy(tmp_path / "course")


def released(course: Small, *options: str) -> None:
    assert release([UNIT, *options], course.root) == 0


@pytest.fixture
def told(capsys):
    """A function that releases the unit: what the command prints."""

    def by_release(course: Small, *options: str) -> str:
        capsys.readouterr()
        released(course, *options)
        return capsys.readouterr().out

    return by_release


def graded_anew(course: Small, **options) -> dict[str, dict[str, float | None]]:
    """The points of everybody after a grading in which nobody is blamed for anything."""
    results = course.grade(**options)
    assert {each.student for each in results} == set(STUDENTS)
    assert {each.student: each.remarks + each.needs_human for each in results} == dict.fromkeys(
        STUDENTS, ()
    )
    return {student: scores(course, student) for student in STUDENTS}


def test_four_changes_and_back(course, whole, told):
    """In one course, since each step goes on from the one before."""
    assert {student: scores(course, student) for student in ("ada", "grace")} == {
        "ada": {DEARER: 2, TEXT: 0.75, "u00-step-seconds": 1, MENDED: 0},
        "grace": {DEARER: 1.25, TEXT: 0.5, "u00-step-seconds": 0, MENDED: 0},
    }
    first_form = without(whole, NEW)
    right = a_mended_check(course, first_form, told)
    text = with_text(first_form, "Every exercise has a **check**", "Each exercise has a **check**")
    a_text(course, text, told, right)
    dearer = other_points(course, with_points(text, DEARER, 3), told, right)
    more = with_text(whole, "Every exercise has a **check**", "Each exercise has a **check**")
    more = with_points(more, DEARER, 3)
    an_exercise_more(course, more, told, dearer)
    back_again(course, (text, with_points(text, DEARER, 3), more), told, dearer, right)


MENDED_CHECK = {MENDED.replace("-", "_"): "mended"}


def a_mended_check(course, form, told):
    """It gives what it should, and what people gave stays."""
    put(course, form, **MENDED_CHECK)
    said = told(course)
    assert f"  check: {MENDED}\n" in said
    assert "Grades of 3 students in 4 exercises stay as they are.\n" in said
    assert "This is release 2 now.\n" in said
    before = {student: scores(course, student) for student in STUDENTS}
    right = graded_anew(course, again=True)
    assert right == before | {
        "ada": before["ada"] | {MENDED: 2},
        "grace": before["grace"] | {MENDED: right["grace"][MENDED]},
    }
    assert waiting(course) == set()
    return right


def a_text(course, form, told, right):
    """All points stay, and nobody has to look at anything again."""
    put(course, form, **MENDED_CHECK)
    said = told(course, "--dry-run")
    assert f"  text or given code of: {DEARER}\n" in said
    assert said.endswith("Nothing was written.\n")
    assert course.grade() == []
    released(course)
    assert graded_anew(course) == right
    assert waiting(course) == set()


def other_points(course, form, told, right):
    """What a check gave grows with them; a score that a person gave waits for a look."""
    put(course, form, **MENDED_CHECK)
    said = told(course)
    assert f"  points: {DEARER} 2 → 3\n" in said
    assert "text or given code" not in said
    assert "Grades of 3 students in 3 exercises stay as they are.\n" in said
    assert (
        "Where points change, those of checks follow at `make grade`, and marks that people gave "
        f"wait for a second look: {DEARER} 1.\n"
    ) in said
    totals = [sum(points_of(each).values()) for each in (form, with_points(form, DEARER, 2))]
    assert f"  points in all: {totals[1]:g} → {totals[0]:g}\n" in said
    after = graded_anew(course)
    assert after == right | {"ada": right["ada"] | {DEARER: 3}}
    assert waiting(course) == {("grace", f"{DEARER}-test")}
    give(course, "grace", f"{DEARER}-test", 2.0)
    return after | {"grace": after["grace"] | {DEARER: 2}}


def an_exercise_more(course, form, told, before):
    """Nobody who has the notebook of release 1 could know it."""
    put(course, form, **MENDED_CHECK)
    said = told(course)
    assert f"  exercise more: {NEW} (1)\n" in said
    assert f"Nobody has an answer to {NEW} yet, which is 0 points. Where it should cost" in said
    after = graded_anew(course)
    assert after == {student: before[student] | {NEW: 0} for student in STUDENTS}
    assert waiting(course) == set()
    hand_in(course, "ada", solved(UNIT) | {TEXT: "A view."}, OWN_CELL)  # with the new notebook
    (result,) = course.grade()
    assert (result.remarks, scores(course, "ada")[NEW]) == ((), 1)


def back_again(course, forms, told, dearer, right):
    """Grades of an exercise that goes are set aside, and come back with it."""
    first, second, third = forms
    put(course, second, **MENDED_CHECK)
    said = told(course)
    assert f"Set aside, and back whenever the exercise is: grades of {NEW}.\n" in said
    assert NEW not in scores(course, "ada")
    shown = graded_in_feedback(course, "ada")  # before the next grading
    assert {exercise_of(name) for name in shown} == scores(course, "ada").keys()
    assert graded_anew(course) == dearer
    put(course, first, **MENDED_CHECK)
    released(course)
    again = graded_anew(course)
    assert again["ada"] == right["ada"]
    assert again["grace"] == right["grace"] | {DEARER: 2}, "what a person gave is theirs"
    put(course, third, **MENDED_CHECK)
    assert f"Back again: the grades of {NEW} that were set aside.\n" in told(course)
    assert scores(course, "ada")[NEW] == 1
    numbers = archive.Archive(course.root, UNIT).numbers()
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8], "none was ever deleted"


def graded_in_feedback(course: Small, student: str) -> set[str]:
    """The cells of a graded notebook that have points in its feedback."""
    path = course.root / "autograded" / student / UNIT / f"{UNIT}.ipynb"
    names = {"notebook": UNIT, "assignment": UNIT, "student": student}
    with opened(course) as book:
        names["db_url"] = str(book.db.get_bind().url)
    shown = nbformat.read(path, 4), {"nbgrader": names}
    for step in (OnlyKnownCells(), GetGrades()):
        shown = step.preprocess(*shown)
    return {cell_key(each) for each in shown[0].cells if "score" in nbgrader_metadata(each)}


def test_a_build_counts_when_it_is_released_and_not_before(course, whole, capsys):
    put(course, whole)
    assert course.grade() == []
    capsys.readouterr()
    assert command.main([UNIT, "--jobs", "1"], course.root) == 0
    said = capsys.readouterr().out
    assert "It is graded as in release 1 of " in said
    assert f"The notebook has changed since (exercise more: {NEW} (1)" in said
    assert NEW not in scores(course, "ada")


def test_what_checks_share_is_no_change_of_a_check(course, whole, monkeypatch, told):
    """As where an exercise is added: the cases of the others stay, and a bonus costs nothing."""
    recorded = json.loads((ROOT / "solutions" / "practice.json").read_text())[DEARER]
    extra = dataclasses.replace(catalogue.exercise(NEW), extra=True)
    monkeypatch.setattr(
        catalogue,
        "exercise",
        lambda name, known=catalogue.exercise: extra if name == NEW else known(name),
    )
    put(course, whole)
    path = course.root / "solutions" / "practice.json"
    checks = json.loads(path.read_text())
    path.write_text(json.dumps(checks | {DEARER: ["moved", recorded[1]]}))
    said = told(course, "--dry-run")
    assert f"  code behind the checks, with the same practice cases, of: {DEARER}\n" in said
    assert "  check: " not in said
    assert f"  exercise more: {NEW} (1, extra)\n" in said
    assert f"Nobody has an answer to {NEW} yet, which is 0 points.\n" in said


def test_numbers_and_minutes_that_the_build_writes_are_no_change_of_a_text(course, whole, told):
    form = without(whole, NEW)
    for old, new in (
        (" minutes**", " minutes** (plus 50 for extras)"),
        ("### 00.4 · ", "### 00.3 · "),
    ):
        form = with_text(form, old, new)
    put(course, form)
    assert "text or given code" not in told(course, "--dry-run")


def test_nothing_is_released_twice(course, told):
    unchanged = "Nothing of 00_start_here as it was built has changed since release 1 of "
    assert unchanged in told(course)
    assert archive.Archive(course.root, UNIT).numbers() == [1]


def test_a_release_with_what_the_course_lacks_says_so(course, monkeypatch):
    """With the next step: until the exercise is back in the master, nobody can be graded."""
    units = [
        dataclasses.replace(
            unit, exercises=tuple(each for each in unit.exercises if each.id != DEARER)
        )
        for unit in catalogue.units()
    ]
    monkeypatch.setattr(catalogue, "units", lambda: units)
    master = f"solutions/{UNIT}/{UNIT}.py"
    with pytest.raises(GradingError, match=f"put it back into {master}, .*`make build UNIT=00`"):
        course.grade()


def test_a_rubric_for_other_points_is_named(course, whole, told):
    put(course, with_points(whole, TEXT, 2))
    said = told(course, "--dry-run")
    assert f"The rubric of {TEXT} makes 1 points, and the exercise has 2: change one" in said
    put(course, whole)
    assert "The rubric of" not in told(course, "--dry-run")


def test_a_master_that_git_could_not_bring_back_is_named(course, whole, told):
    def git(*words):
        subprocess.run(["git", "-C", str(course.root), *words], check=True, capture_output=True)

    master = course.root / "solutions" / UNIT / f"{UNIT}.py"
    master.write_text("# first")
    git("init")
    git("add", str(master))
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    git(*author, "commit", "--message", "first")
    put(course, whole)
    assert "is not committed" not in told(course)
    master.write_text("# second")
    put(course, with_points(whole, DEARER, 3))
    assert f"solutions/{UNIT}/{UNIT}.py is not committed: commit it" in told(course)


def test_what_is_printed_into_a_closed_pipe_is_done(course, whole):
    """`make release … | head -1` must not end between the words and the deed."""
    put(course, whole)

    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError), contextlib.redirect_stdout(Closed()):
        release([UNIT], course.root)
    assert NEW in scores(course, "ada")


def test_two_builds_are_not_released(course, whole, capsys):
    old = place_of(course, "notebooks").read_text()
    put(course, whole)
    place_of(course, "notebooks").write_text(old)
    assert release([UNIT], course.root) == 1
    assert f"are of two builds (gone: {NEW}): run `make build UNIT=00`" in capsys.readouterr().err
    assert archive.Archive(course.root, UNIT).numbers() == [1]


def test_a_gradebook_that_something_else_changed_is_put_right(course):
    with opened(course) as book:
        book.find_grade_cell(f"{DEARER}-test", UNIT, UNIT).max_score = 7
        book.db.commit()
    with pytest.raises(GradingError, match=rf"\(changed: {DEARER}\)\. `make release UNIT=00`"):
        course.grade()
    released(course)
    assert course.grade() == []
    assert (f"{DEARER}-test", 2.0) in {row[1:3] for row in cells(course)}


def test_a_release_that_is_lost_is_named(course):
    (folder,) = (course.root / "releases" / UNIT).iterdir()
    (folder / "about.json").unlink()
    with pytest.raises(GradingError, match="Release 1 of 00_start_here is not whole in"):
        course.grade()
    released(course)
    assert course.grade() == [], "the same notebook as before"


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (unit_in_gradebook, "_complete_submissions"),
        (archive, "write_synced"),
        (archive.Archive, "keep"),
        (Session, "commit"),
    ],
)
def test_killed_on_the_way_it_is_the_old_release_until_it_runs_again(
    course, whole, monkeypatch, where, name
):
    put(course, with_points(whole, DEARER, 3))
    old = cells(course), course.contents(), beside(course)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(where, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        release([UNIT], course.root)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (cells(course), course.contents(), beside(course)) == old
    released(course)
    assert (scores(course, "ada")[NEW], archive.Archive(course.root, UNIT).numbers()) == (0, [1, 2])
