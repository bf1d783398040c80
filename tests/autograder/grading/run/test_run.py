"""What is graded again and what is not, what people wrote stays, and what stops a run."""

import ctypes
import errno
import os
import random
import resource
import shutil
import sqlite3
import subprocess
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import nbformat
import pytest

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.grading import command, course_version
from autograder.grading.errors import GradingError
from autograder.grading.gradebook.grade_key import Key
from autograder.grading.report.lms_csv import CanvasExporter
from autograder.grading.run import referee, run, submission
from autograder.grading.run.run import Run
from autograder.grading.run.submission_limits import Limits
from autograder.grading.sandbox import bubblewrap
from tests.autograder.grading.changing import give, opened, scores, waiting
from tests.autograder.grading.small import UNIT, InThisProcess
from tests.needs import ROOT, require
from tests.notebooks.filling import composite, solved

CLONE_NEWNS = 0x20000  # a view of the mounted disks of one's own
CLASS = ["s000", "s001", "s002"]
LATER = "2026-01-01 14:00:00.000000 UTC"


@pytest.fixture(scope="module")
def graded_once(generated, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_GRADING_SEED", "a secret of this test")
        patch.setattr(Run, "_pool", lambda _: InThisProcess())
        course = generated.copy(tmp_path_factory.mktemp("graded") / "course")
        course.hand_in_a_class(3)
        assert names(course.grade()) == CLASS
    return course


@pytest.fixture
def graded(graded_once, tmp_path, monkeypatch):
    """A class of three, the first of them blank, of which all were graded."""
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    monkeypatch.setattr(Run, "_pool", lambda _: InThisProcess())
    return graded_once.copy(tmp_path / "graded")


def names(results):
    return [result.student for result in results]


def sentence(small, **options):
    """What the run says that does not go through; no file is left half-written."""
    with pytest.raises(GradingError) as stopped:
        small.grade(**options)
    assert not list(small.root.rglob("*.writing"))
    (line,) = str(stopped.value).splitlines()
    return line


def test_what_is_graded_is_not_graded_again(graded):
    before, files = graded.contents(), graded.files()
    assert graded.grade() == []
    assert names(graded.grade(again=True)) == CLASS
    assert names(graded.grade(again=True, students=("s001", "s002"))) == CLASS[1:]
    assert (graded.contents(), graded.files()) == (before, files)


def test_another_notebook_another_time_and_a_new_student_are_graded(graded):
    graded.hand_in("s001", solved(UNIT))
    graded.hand_in("s002", solved(UNIT), LATER)
    graded.hand_in("s003", {})
    assert names(graded.grade()) == ["s001", "s002", "s003"]
    stamps = {row[0]: row[1] for row in graded.contents()["submissions"]}
    assert stamps["s001"].startswith("2026-01-01 12:00")
    assert stamps["s002"].startswith("2026-01-01 14:00")


def test_a_time_that_is_gone_is_gone_everywhere(graded):
    (graded.root / "submitted" / "s001" / UNIT / "timestamp.txt").unlink()
    assert names(graded.grade()) == ["s001"]
    assert not (graded.root / "autograded" / "s001" / UNIT / "timestamp.txt").exists()
    assert {row[0]: row[1] for row in graded.contents()["submissions"]}["s001"] is None


def test_a_changed_course_grades_everything_again(graded, monkeypatch):
    changed = course_version.of_course() + "x"
    monkeypatch.setattr(course_version, "of_course", lambda: changed)
    assert names(graded.grade()) == CLASS


def test_a_worker_with_another_version_is_refused(graded, monkeypatch):
    monkeypatch.setattr(run, "grade_key", lambda *parts: Key("submission", "another"))
    assert "is not the one with which this run began: close JupyterLab after" in sentence(graded)


def test_one_exercise_is_asked_again_and_the_others_stay(graded, monkeypatch, tmp_path):
    asked, judge = tmp_path / "asked.txt", referee.judge_answer

    def judge_answer(session, question, seeds):
        with asked.open("a") as file:
            file.write(f"{question.exercise}\n")
        return judge(session, question, seeds)

    monkeypatch.setattr(referee, "judge_answer", judge_answer)
    before, files = graded.contents(), graded.files()
    exercise = graded.grade(students=("s002",), again=True)[0].verdicts[0].exercise
    asked.unlink()
    assert names(graded.grade(exercise=exercise)) == CLASS
    assert asked.read_text() == 3 * f"{exercise}\n"
    assert (graded.contents(), graded.files()) == (before, files)
    graded.hand_in("s001", solved(UNIT))
    asked.unlink()
    graded.grade(exercise=exercise, students=("s001",))
    assert asked.read_text().count("\n") > 1, "of another submission nothing is known"
    assert graded.grade() == []


@pytest.mark.parametrize("is_changed", [False, True])
def test_what_people_wrote_survives_and_is_flagged_where_the_answers_changed(graded, is_changed):
    with opened(graded) as book:
        notebook = book.find_submission(UNIT, "s002").notebooks[0]
        automatic = next(each for each in notebook.grades if each.auto_score)
        name, automatic.manual_score, automatic.extra_credit = automatic.name, 0.5, 0.25
        notebook.comments[0].manual_comment = "well done"
        book.db.commit()
    if is_changed:
        graded.hand_in("s002", solved(UNIT) | {"u00-view": "Another text."})
    graded.grade(again=True)
    with opened(graded) as book:
        notebook = book.find_submission(UNIT, "s002").notebooks[0]
        grade = next(each for each in notebook.grades if each.name == name)
        assert (grade.manual_score, grade.extra_credit, grade.needs_manual_grade) == (
            0.5,
            0.25,
            is_changed,
        )
        assert notebook.comments[0].manual_comment == "well done"


def test_a_check_that_fails_by_itself_is_nobodys_fault(graded, monkeypatch, break_check, capsys):
    before = {result.student: result for result in graded.grade(again=True)}
    broken = before["s002"].verdicts[0].exercise
    break_check(broken)
    assert command.main([UNIT, "--exercise", broken], graded.root) == 0
    said = capsys.readouterr().out
    why = f"{broken}: Not judged: the check itself failed with ZeroDivisionError."
    assert f"  s002: needs a human: {why} A person will look at this." in said
    assert f"  {broken}: other points than before: s002 2 → 0" in said
    monkeypatch.undo()
    assert names(graded.grade(exercise="u00-step-seconds")) == ["s000", "s001", "s002"]
    again = {result.student: result for result in graded.grade(students=("s002",), again=True)}
    assert again["s002"].verdicts == before["s002"].verdicts


def waiting_cells(course, student):
    return {cell for who, cell in waiting(course) if who == student}


@pytest.fixture
def break_check(monkeypatch):
    """A function that lets the check of an exercise fail by itself."""

    def fails(*_):
        raise ZeroDivisionError("in a judge")

    def of(exercise):
        check = replace(check_of(exercise), judge=fails)
        monkeypatch.setattr(
            referee, "check_of", lambda name: check if name == exercise else check_of(name)
        )

    return of


def test_an_exercise_whose_check_fails_waits_alone(graded, break_check, tmp_path):
    (text,) = waiting_cells(graded, "s002")
    before = scores(graded, "s002")
    broken = "u00-state-gib"
    cell = catalogue.exercise(broken).graded_cell
    break_check(broken)
    (result,) = graded.grade(students=("s002",), again=True)
    assert result.unjudged == (broken,)
    assert result.state == "needs a human"
    assert not result.needs_human
    assert waiting_cells(graded, "s002") == {text, cell}
    assert scores(graded, "s002") == before | {broken: 0.0}
    page = graded.files()[f"s002/{UNIT}/{UNIT}.ipynb"].decode()
    assert f"**A person will look at this:** {broken}: Not judged: the check itself" in page
    with opened(graded) as book:
        CanvasExporter(to=str(tmp_path / "canvas.csv")).export(book)
        worth = book.find_submission(UNIT, "s002").score
    give(graded, "s002", cell, 0.5)
    rows = (tmp_path / "canvas.csv").read_text().splitlines()
    assert any("s002" in row and f"{worth:g}" in row for row in rows)
    graded.grade(students=("s002",), again=True)
    assert waiting_cells(graded, "s002") == {text}, "a person has judged this very answer"
    assert scores(graded, "s002") == before | {broken: 0.5}


def test_a_check_that_cannot_make_its_cases_stops_the_run(small, monkeypatch):
    def fails(_):
        raise ZeroDivisionError("in the cases")

    check = replace(check_of("u00-state-gib"), cases=fails)
    monkeypatch.setattr(referee, "check_of", lambda _: check)
    referee.cases_of.cache_clear()
    small.hand_in("s000", {})
    says = r"u00-\S+ cannot make its cases \(ZeroDivisionError: in the cases\)"
    with pytest.raises(GradingError, match=says):
        small.grade()


def test_the_gradebook_is_copied_before_the_first_grade_of_a_run(graded):
    folder = graded.root / "gradebook_backups"
    (first,) = folder.iterdir()
    kept = sqlite3.connect(first)
    assert kept.execute("select count(*) from grade").fetchone() == (0,)
    kept.close()
    days = [f"gradebook-202001{day:02}-080000.db" for day in range(1, 13)]
    moments = [f"gradebook-20200201-0800{second:02}.db" for second in range(20)]
    for name in days + moments:
        (folder / name).touch()
    graded.grade(again=True)
    kept = sorted(path.name for path in folder.iterdir())
    assert kept[:-2] == [*days[-8:], moments[0], *moments[-8:]]
    assert first.name in kept[-2:]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"students": ("nobody",)}, "Nothing was collected of 00_start_here from nobody; 3 others"),
        ({"exercise": "u00-x"}, "has no exercise `u00-x` that a check judges: name one of u00-"),
    ],
)
def test_wrong_options_say_what_is_there(graded, options, wanted):
    assert wanted in sentence(graded, **options)


def test_no_such_unit_and_nothing_collected(small, capsys):
    assert command.main(["77"], small.root) == 1
    assert command.main([UNIT], small.root) == 1
    one, other = capsys.readouterr().err.splitlines()
    assert "77" in one
    assert other.startswith(f"Nothing was collected of {UNIT}: run `nbgrader collect {UNIT}` or")


def test_a_release_that_the_gradebook_does_not_know(graded):
    release = graded.root / "notebooks" / UNIT / f"{UNIT}.ipynb"
    release.write_text(release.read_text().replace("check(", "check( "))
    assert f"{UNIT} has changed since the gradebook learned it (changed: u00-" in sentence(graded)
    release.write_text(release.read_text().replace("check( ", "check("))
    assert graded.grade() == []
    release.write_text(release.read_text().replace('"points": 1', '"points": 50'))
    assert f"{UNIT} has changed since the gradebook learned it (changed: u00-" in sentence(graded)


def test_a_gradebook_that_another_process_holds(graded):
    other = sqlite3.connect(graded.root / "gradebook.db")
    other.execute("BEGIN EXCLUSIVE")
    assert "The gradebook is held by another process." in sentence(graded, again=True)
    other.close()
    assert names(graded.grade(again=True)) == CLASS


def test_a_gradebook_of_an_older_nbgrader(graded):
    book = sqlite3.connect(graded.root / "gradebook.db")
    book.execute("alter table grade drop column extra_credit")
    book.close()
    assert "was made by an older nbgrader: run `nbgrader db upgrade`" in sentence(graded)


def test_a_damaged_gradebook(graded):
    path = graded.root / "gradebook.db"
    path.write_bytes(random.Random(0).randbytes(path.stat().st_size))
    assert f"{path} is damaged (file is not a database)." in sentence(graded)


def test_what_the_gradebook_lost_is_graded_again(graded):
    """Somebody removed a student or restored an older copy, after it was graded."""
    before = graded.contents()
    with opened(graded) as book:
        book.remove_student("s001")
    assert names(graded.grade()) == ["s001"]
    assert graded.contents() == before
    first, *_ = sorted((graded.root / "gradebook_backups").iterdir())
    shutil.copy(first, graded.root / "gradebook.db")
    assert names(graded.grade()) == CLASS, "the copy was made before the first grade"
    assert graded.contents() == before


def test_a_damaged_graded_notebook_is_made_anew(graded):
    files = graded.files()
    (graded.root / "autograded" / "s001" / UNIT / f"{UNIT}.ipynb").write_text("{")
    assert names(graded.grade(again=True, students=("s001",))) == ["s001"]
    assert graded.files() == files


def test_trouble_of_the_machine_is_not_the_last_word(graded, monkeypatch):
    def submit(self, message):
        future = Future()
        future.set_exception(MemoryError())
        return future

    graded.hand_in("s001", solved(UNIT), LATER)
    with monkeypatch.context() as patch:
        patch.setattr(InThisProcess, "submit", submit)
        (result,) = graded.grade()
    assert result.needs_human == ("It was not graded (MemoryError: ).",)
    (result,) = graded.grade()
    assert not result.needs_human
    assert sum(verdict.points for verdict in result.verdicts) > 0


def test_whoever_gave_points_to_all_is_not_asked_again(graded, capsys):
    (graded.hand_in("s002", {}) / f"{UNIT}.ipynb").write_text("{")
    graded.grade()
    with opened(graded) as book:
        for notebook in book.find_submission(UNIT, "s002").notebooks:
            for grade in notebook.grades:
                grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.db.commit()
    assert names(graded.grade(again=True, students=("s002",))) == ["s002"]
    with opened(graded) as book:
        assert not book.find_submission(UNIT, "s002").needs_manual_grade
    assert command.main([UNIT], graded.root) == 0
    assert "still needs a human" not in capsys.readouterr().out


def test_a_folder_that_cannot_be_used(graded):
    shutil.rmtree(graded.root / "autograded")
    (graded.root / "autograded").touch()
    assert "cannot be used (Not a directory)" in sentence(graded, again=True)
    (graded.root / "autograded").unlink()
    assert names(graded.grade(again=True)) == CLASS


@pytest.mark.parametrize("max_file_bytes", [10, 2_000, 30_000, 150_000])
def test_a_full_disk_loses_nothing(graded, max_file_bytes):
    """No file can grow beyond a limit: sometimes the gradebook hits it, sometimes a notebook."""
    before, files = graded.contents(), graded.files()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, hard))
    try:
        said = sentence(graded, again=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot be" in said
    assert (graded.contents(), graded.files()) == (before, files)
    graded.grade()
    assert (graded.contents(), graded.files()) == (before, files)


def test_no_space_for_temporary_files(graded, monkeypatch):
    def refused(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/pymp")

    before = graded.contents(), graded.files()
    monkeypatch.setattr(Run, "_pool", refused)
    assert sentence(graded, again=True).startswith("/tmp/pymp cannot be used (No space left")
    assert (graded.contents(), graded.files()) == before


@pytest.fixture
def small_disk(tmp_path):
    """A folder that holds four megabytes; no other process sees the disk, so it ends with ours."""
    require(ROOT)
    place = tmp_path / "disk"
    place.mkdir()
    assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("free_bytes", [0, 8_192, 81_920])
def test_a_disk_without_space_loses_nothing(graded, small_disk, capsys, free_bytes):
    course = graded.copy(small_disk / "course")
    before, files = course.contents(), course.files()
    status, filling = os.statvfs(small_disk), small_disk / "filling"
    filling.write_bytes(bytes(max(0, status.f_bavail * status.f_bsize - free_bytes)))
    assert command.main([UNIT, "--again"], course.root) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Fix that and run this again: it goes on where it was.")
    assert course.contents() == before
    filling.unlink()
    assert command.main([UNIT, "--again"], course.root) == 0
    assert (course.contents(), course.files()) == (before, files)


def test_a_folder_whose_name_is_no_text_stops_nobody(graded, capsys):
    submitted = os.fsencode(graded.root / "submitted")
    shutil.copytree(submitted + b"/s001", submitted + b"/caf\xe9")
    assert names(graded.grade(again=True)) == CLASS
    assert command.main([UNIT, "--again"], graded.root) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "caf" in line]
    assert said == [
        r"The folder 'caf\udce9' of submitted is not graded: its name is no UTF-8. Rename it."
    ]


def test_without_bubblewrap_only_who_insists_grades(graded, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    bubblewrap.sandboxed.cache_clear()
    try:
        said = sentence(graded)
        assert "bubblewrap is not installed" in said
        assert "--unsafe" in said
        assert names(graded.grade(again=True, is_unsafe=True, students=("s002",))) == ["s002"]
    finally:
        bubblewrap.sandboxed.cache_clear()


def test_the_seed_is_made_once_and_for_nobody_else(small, monkeypatch):
    monkeypatch.delenv("COURSE_GRADING_SEED")
    secret = run.secret_of(small.root)
    assert len(secret) == 32
    assert run.secret_of(small.root) == secret
    assert (small.root / run.SEED_FILE).stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("COURSE_GRADING_SEED", "from outside")
    assert run.secret_of(small.root) == "from outside"


def test_a_seed_file_that_holds_none_is_refused(small, monkeypatch):
    monkeypatch.delenv("COURSE_GRADING_SEED")
    (small.root / run.SEED_FILE).write_text("\n")
    with pytest.raises(GradingError, match="holds no secret: remove it"):
        run.secret_of(small.root)


def test_the_summary_names_everyone_with_something_to_say(graded, capsys, monkeypatch):
    wrong = solved(UNIT) | composite(UNIT, 0)
    folder = graded.hand_in("s001", wrong)
    (folder / f"{UNIT}.ipynb").rename(folder / "mine.ipynb")
    (graded.hand_in("s002", {}) / f"{UNIT}.ipynb").write_text("{")
    assert command.main([UNIT], graded.root) == 0
    said = capsys.readouterr().out.splitlines()
    told = [line for line in said if line.startswith("  s")]
    assert "2 submissions in" in said[said.index(told[0]) - 1]
    assert "1 unchanged" in said[said.index(told[0]) - 1]
    assert {line.split(":")[0].strip() for line in told} == {"s001", "s002"}
    assert any(line.startswith("  s002: needs a human: ") for line in told)
    assert command.main([UNIT], graded.root) == 0
    *_, nothing, still, waits = capsys.readouterr().out.splitlines()
    assert nothing.startswith("Nothing has changed since all 3 were graded. `--again`")
    assert still.startswith("  s002: still needs a human: The file is no notebook")
    assert waits == "2 texts wait for a reader: u00-view 2."


def test_what_nobody_could_read_is_not_called_unwritten(graded):
    (graded.hand_in("s002", {}) / f"{UNIT}.ipynb").write_text("{")
    (result,) = graded.grade()
    assert {verdict.points for verdict in result.verdicts} == {0.0}
    page = graded.files()[f"s002/{UNIT}/{UNIT}.ipynb"].decode()
    assert "Not judged: this notebook could not be graded." in page
    assert "Not written yet" not in page


def test_a_cell_without_an_end_is_named(graded, monkeypatch):
    place = graded.hand_in("s002", solved(UNIT)) / f"{UNIT}.ipynb"
    notebook = nbformat.read(place, as_version=4)
    notebook.cells.insert(6, nbformat.v4.new_code_cell("while True:\n    pass"))
    nbformat.write(notebook, place)
    monkeypatch.setattr(
        run, "Submission", partial(submission.Submission, limits=Limits(cell_seconds=4.0))
    )
    (result,) = graded.grade()
    assert result.remarks == (
        "An added cell ('while True:') does not come to an end and was stopped.",
    )
    page = graded.files()[f"s002/{UNIT}/{UNIT}.ipynb"].decode()
    assert "did not come to an end in its time" in page
    assert "time_limit.py" not in page


def test_an_answer_without_an_end_is_named(graded, monkeypatch):
    item = next(each for each in catalogue.units()[0].exercises if not each.manual)
    endless = f"def {item.function}(*_, **__):\n    while True:\n        pass"
    graded.hand_in("s002", solved(UNIT) | {item.id: endless})
    monkeypatch.setattr(
        run, "Submission", partial(submission.Submission, limits=Limits(answer_seconds=0.5))
    )
    (result,) = graded.grade()
    wanted = f"{item.id} does not come to an end when it is called, and was stopped."
    assert result.remarks == (wanted,)
    assert result.state == "graded with remarks"
