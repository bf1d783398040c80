"""A class with hostile submissions: the others lose nothing, and the gradebook stays correct.

One run grades them all, with processes of its own. The hostile code knows the course's folder;
another test shows that without a sandbox each would have succeeded.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time

import nbformat
import pytest

from tests.autograder.grading.attacks.bank import FORMULA, WRONG
from tests.autograder.grading.handed_in import cell_of, packed, plain
from tests.autograder.grading.small import UNIT, Small
from tests.notebooks.filling import ROOT, filled, solved

FULL = 6.0
STAYS_SECONDS, LATER_SECONDS = 10, 3
GRADEBOOK = "gradebook.db"
FIRST = """
import os, shutil, sqlite3, time
book = os.path.join(COURSE, "gradebook.db")
def stay():
    if os.fork(): return False
    os.setsid()
    return True
"""
READING = {
    "gradebook read": """
        with open(book, "rb") as file: print("READ", len(file.read()))
        for row in sqlite3.connect(book).execute("select source from source_cell"):
            print("READ", row[0])
    """,
    "work of another read": """
        place = os.path.join(COURSE, "submitted", "a_honest", "00_start_here")
        with open(os.path.join(place, "00_start_here.ipynb")) as file: print("READ", file.read())
    """,
    "solutions read and run": """
        import json
        for above in ("../../..", COURSE):
            place = os.path.join(above, "solutions", "00_start_here", "00_start_here.ipynb")
            if not os.path.exists(place): continue
            for cell in json.load(open(place))["cells"]:
                mark = cell["metadata"].get("nbgrader", {})
                if cell["cell_type"] == "code" and mark.get("solution"):
                    print("READ", cell["source"])
                    exec("".join(cell["source"]), globals())
    """,
}
HARMING = {
    "gradebook locked": f"""
        if stay():
            held = sqlite3.connect(book)
            held.execute("BEGIN EXCLUSIVE")
            time.sleep({STAYS_SECONDS})
            os._exit(0)
        time.sleep(1)
    """,
    "gradebook deleted": "os.remove(book)",
    "points written": """
        held = sqlite3.connect(book)
        held.execute("update grade set manual_score = 100, needs_manual_grade = 0")
        held.commit()
    """,
    "points written later by a process that stays": f"""
        if stay():
            time.sleep({LATER_SECONDS})
            held = sqlite3.connect(book)
            held.execute("update grade set auto_score = 2")
            held.commit()
            os._exit(0)
    """,
    "work of others deleted": """
        for name in ("submitted", "autograded"): shutil.rmtree(os.path.join(COURSE, name))
    """,
}


def skipped(content):
    for cell in content["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]


def for_no_person(locked):
    """The answer that a person reads, marked as a test that passed."""

    def change(content):
        cell = cell_of(content, "u00-view")
        cell.update(cell_type="code", source="print('done')", outputs=[], execution_count=1)
        cell["metadata"]["nbgrader"] |= {"solution": False, "locked": locked, "cell_type": "code"}

    return change


FOR_NO_PERSON = {
    "a person's exercise marked as a test": for_no_person(locked=True),
    "a person's exercise marked as an open test": for_no_person(locked=False),
}
MARKING = {"tests tagged to be skipped": skipped} | FOR_NO_PERSON


def a_pipe(folder):
    os.mkfifo(folder / "pipe")


def a_time_that_is_none(folder):
    (folder / "timestamp.txt").write_text("the day before yesterday", encoding="utf-8")


def a_link(folder):
    (folder / "data.txt").symlink_to("/etc/shadow")
    (folder / "notes.txt").symlink_to(folder.parents[2] / GRADEBOOK)


def a_copied_cell(folder):
    content = plain()
    content["cells"].insert(5, cell_of(content, FORMULA))
    (folder / f"{UNIT}.ipynb").write_bytes(packed(content))


def nothing(folder):
    pass


HONEST = {
    "a_honest": nothing,
    "a[b]c": nothing,
    "b_pipe": a_pipe,
    "c_time": a_time_that_is_none,
    "d_link": a_link,
    "e_copied": a_copied_cell,
    "z_honest": nothing,
}
HOSTILE = {name: f"m{n:02}" for n, name in enumerate([*READING, *HARMING, *MARKING])}
LINKED, BLANK = "m_linked", "n_blank"


def code_of(name, course):
    source = textwrap.dedent((READING | HARMING)[name])
    return f"COURSE = {str(course)!r}\n{FIRST}\n{source}"


def handed_in(course):
    """The class hands in, and the instructor's notebook is in its usual place."""
    course = Small(course)
    for student, damage in HONEST.items():
        damage(course.hand_in(student, solved(UNIT)))
    for name in (*READING, *HARMING):
        answer = f"{WRONG[FORMULA]}\n{code_of(name, course.root)}"
        course.hand_in(HOSTILE[name], {FORMULA: answer})
    for name, change in MARKING.items():
        content = json.loads(nbformat.writes(filled(UNIT, {FORMULA: WRONG[FORMULA]})))
        change(content)
        (course.hand_in(HOSTILE[name], {}) / f"{UNIT}.ipynb").write_bytes(packed(content))
    course.hand_in(BLANK, {})
    mine = course.hand_in(LINKED, {}) / f"{UNIT}.ipynb"
    mine.unlink()
    mine.symlink_to(course.root / "submitted" / "a_honest" / UNIT / f"{UNIT}.ipynb")
    (course.root / "solutions").symlink_to(ROOT / "solutions")
    return course


def submitted_in(course):
    """Everything that was handed in, by its path."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((course.root / "submitted").rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture(scope="module")
def before(generated, tmp_path_factory):
    return handed_in(generated.copy(tmp_path_factory.mktemp("hostile") / "course").root)


@pytest.fixture(scope="module")
def graded(before):
    """The course some time after one run, and the result of each student."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_GRADING_SEED", "a secret of this test")
        files = submitted_in(before)
        results = {each.student: each for each in before.grade(jobs=2)}
        time.sleep(LATER_SECONDS + 1)
        assert submitted_in(before) == files
    return before, results


def rows_of(course, student):
    """Automatic and manual points and whether a person has to look, by the cell."""
    rows = course.contents()["grades"]
    return {row[2]: (row[3], row[4], row[6]) for row in rows if row[0] == student}


def points_of(course, student):
    return sum(automatic or 0 for automatic, _, _ in rows_of(course, student).values())


def test_everybody_is_graded(graded):
    course, results = graded
    assert set(results) == {*HONEST, *HOSTILE.values(), LINKED, BLANK}
    assert {row[0] for row in course.contents()["submissions"]} == set(results)


@pytest.mark.parametrize("student", HONEST)
def test_the_honest_keep_every_point(graded, student):
    course, results = graded
    assert points_of(course, student) == FULL
    assert {manual for _, manual, _ in rows_of(course, student).values()} == {None}
    assert not results[student].needs_human


@pytest.mark.parametrize("name", HOSTILE)
def test_the_hostile_gain_nothing(graded, name):
    course, _ = graded
    rows = rows_of(course, HOSTILE[name])
    assert {automatic for automatic, _, _ in rows.values()} <= {0.0, None}
    assert {manual for _, manual, _ in rows.values()} == {None}


@pytest.mark.parametrize("name", [*READING, *HARMING])
def test_the_hostile_read_nothing(graded, name):
    course, _ = graded
    path = course.root / "autograded" / HOSTILE[name] / UNIT / f"{UNIT}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    assert "READ" not in "".join(
        each.get("text", "") for cell in cells for each in cell.get("outputs", [])
    )


@pytest.mark.parametrize("name", FOR_NO_PERSON)
def test_what_a_person_reads_waits_for_a_person(graded, name):
    course, _ = graded
    assert rows_of(course, HOSTILE[name])["u00-view"] == (None, None, 1)


def test_a_link_to_the_work_of_another_earns_nothing_and_is_told(graded):
    course, results = graded
    assert points_of(course, LINKED) == 0
    assert results[LINKED].needs_human == ("There is no notebook to grade.",)
    assert "is a link and was left alone" in results[LINKED].remarks[1]


def test_a_blank_notebook_earns_nothing_and_needs_nobody(graded):
    course, results = graded
    assert points_of(course, BLANK) == 0
    assert results[BLANK].needs_human == results[BLANK].remarks == ()


@pytest.mark.parametrize("student", ["d_link", LINKED])
def test_nothing_behind_a_link_is_copied(graded, student):
    course, _ = graded
    folder = course.root / "autograded" / student / UNIT
    names = {f"{UNIT}.ipynb", "timestamp.txt", "submission_secret.txt"}
    assert {path.name for path in folder.iterdir()} == names


@pytest.mark.parametrize("name", [*READING, *HARMING])
def test_without_a_sandbox_it_would_have_worked(generated, graded, name, tmp_path):
    """The code in an ordinary process, with access to the same course."""
    course = generated.copy(tmp_path / "course")
    course.hand_in("a_honest", solved(UNIT))
    for part in (GRADEBOOK, "autograded/a_honest", "solutions"):
        copied(graded[0].root / part, course.root / part)
    first, said = state_of(course), tmp_path / "said.txt"
    with said.open("wb") as file:
        command = [sys.executable, "-c", code_of(name, course.root)]
        subprocess.run(command, cwd=tmp_path, stdout=file, check=True)
    if name in READING:
        assert "READ" in said.read_text(encoding="utf-8")
    else:
        assert any(state_of(course) != first for _ in patiently(LATER_SECONDS + 5))


def copied(place, other):
    (shutil.copytree if place.is_dir() else shutil.copy)(place, other)


def patiently(seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.2)


def state_of(course):
    """Grades and files of a course, or why there are none."""
    try:
        return course.contents(), course.files(), submitted_in(course)
    except sqlite3.Error as error:
        return str(error)
