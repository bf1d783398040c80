"""A course on a JupyterHub, walked by two students and a grader with ordinary accounts.

The walk is made once: fetch, solve, Validate, submit, collect, grade, feedback, in browser windows.
The tests say what must be true of it, and what nobody must be able to do. Pictures and logs are in
`test-results/browser/`, their names begin with `hub`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder import catalogue
from tests.autograder.secrets import RECORDED, TEACHES, model_trees, syntax_trees
from tests.browser.fixtures import PICTURES
from tests.hub import tools
from tests.hub.machine import Machine, RunningHub, machine, root_environ, running_hub
from tests.hub.people import Grader, Student
from tests.notebooks.filling import (
    UNITS,
    answer_banks_of,
    composite,
    expected_points,
    solved,
)

pytestmark = pytest.mark.browser

UNIT, COURSE_ID = UNITS[0], "efficient_llm_training"
TEXT, SETUP = "u00-view", "check_setup()"
CHECKED = [item for item in catalogue.units()[0].exercises if not item.manual]
DOCTOR = "python -m autograder.hub doctor"


@dataclass
class Walk:
    """What people saw.

    Attributes:
        hub: Where.
        validated: What *Validate* said, by student.
        feedback: What their feedback says.
        doctor: Exit code and words of the doctor, by account.
        graded: What `make grade` printed.
    """

    hub: RunningHub
    validated: list[str]
    feedback: list[str]
    doctor: list[tuple[int, str]]
    graded: tuple[int, str]


@pytest.fixture(scope="module")
def made(browser: Any) -> Iterator[Machine]:
    """The machine; skipped where a part of it cannot be had."""
    try:
        tools.ensure()
    except tools.MissingPartError as error:
        pytest.skip(f"A JupyterHub cannot be started here: {error}")
    with machine() as ready:
        yield ready


@pytest.fixture(scope="module")
def walk(browser: Any, made: Machine) -> Iterator[Walk]:
    """The walk of all three."""
    with running_hub(made) as hub:
        grader = Grader(browser, hub, made.grader)
        students = [Student(browser, hub, each) for each in made.students]
        grader.press(UNIT, "release")
        validated = [
            solve(student, answers)
            for student, answers in zip(students, (right(), wrong()), strict=True)
        ]
        grader.press(UNIT, "collect")
        graded = grader.terminal(f"make grade UNIT={UNIT[:2]}")
        assert graded[0] == 0, graded[1]
        grader.press(UNIT, "generate-feedback")
        grader.press(UNIT, "release-feedback")
        feedback = [student.feedback(UNIT) for student in students]
        doctor = [person.terminal(DOCTOR) for person in (*students, grader)]
        yield Walk(hub, validated, feedback, doctor, graded)


def right() -> dict[str, str]:
    return solved(UNIT) | {TEXT: "A view of the large storage."}


def wrong() -> dict[str, str]:
    return solved(UNIT) | composite(UNIT, 0) | {TEXT: "A copy."}


def solve(student: Student, answers: dict[str, str]) -> str:
    """Fetch, write, run, validate, hand in; what *Validate* says."""
    notebook = student.notebook(student.fetch(UNIT))
    notebook.run(SETUP)
    for name, answer in answers.items():
        if name == TEXT:
            notebook.type_text(name, answer)
        else:
            notebook.write(name, answer)
            notebook.run(name)
            notebook.run(f"{name}-test")
    said = notebook.validate(f"hub {student.account.name[:3]} validates")
    student.submit(UNIT)
    return said


def scores(made: Machine) -> list[dict[str, float]]:
    """Points of each student's checked exercises."""
    with Gradebook(f"sqlite:///{made.repository / 'gradebook.db'}", COURSE_ID) as book:
        return [
            {
                grade.name.removesuffix("-test"): grade.auto_score
                for notebook in book.find_submission(UNIT, student.name).notebooks
                for grade in notebook.grades
                if grade.auto_score is not None
            }
            for student in made.students
        ]


# --- The walk -------------------------------------------------------------------------------------


def test_validate_says_what_each_notebook_earns(walk: Walk) -> None:
    assert "Success" in walk.validated[0]
    for item in CHECKED:
        assert item.title in walk.validated[1]


def test_progress_is_kept_in_the_students_folder(walk: Walk) -> None:
    for student, points in zip(walk.hub.machine.students, expected(), strict=True):
        kept = json.loads((student.home / "work" / "progress.json").read_text())["exercises"]
        assert {name: entry["points"] for name, entry in kept.items()} == points


def test_the_grader_gives_the_points(walk: Walk) -> None:
    assert scores(walk.hub.machine) == expected()
    assert "2 graded" in walk.graded[1]


def expected() -> list[dict[str, float]]:
    return [{item.id: item.points for item in CHECKED}, expected_points(UNIT, 0)]


def test_feedback_says_points_and_hints(walk: Walk) -> None:
    for item in CHECKED:
        assert f"{item.title}\t{item.points:g} of {item.points:g}" in walk.feedback[0]
    for bank in answer_banks_of(UNIT).values():
        assert bank.wrong[0].hint in walk.feedback[1]
        assert bank.wrong[0].hint not in walk.feedback[0]


@pytest.mark.parametrize("who", [0, 1, 2], ids=["ada", "grace", "grader"])
def test_the_doctor_finds_nothing_wrong(walk: Walk, who: int) -> None:
    code, said = walk.doctor[who]
    (PICTURES / f"hub doctor {who}.txt").write_text(said)
    assert (code, said.splitlines()[-1]) == (0, "Nothing is wrong.")


def test_words_are_those_of_a_hub(walk: Walk) -> None:
    released = walk.hub.machine.exchange / COURSE_ID / "outbound" / UNIT / f"{UNIT}.ipynb"
    text = released.read_text("utf-8")
    assert "`make " not in text
    assert "Assignment List" in text
    student = walk.hub.machine.students[0]
    python = walk.hub.machine.python
    assert student.run(str(python), "-m", "autograder.hub", "fresh", UNIT[:2]).startswith("Done; ")
    assert "Assignment List" in (student.home / "work" / UNIT / f"{UNIT}.ipynb").read_text()
    said = student.run(str(python), "-m", "autograder.hub", "practice", UNIT[:2])
    assert said.startswith("New sizes in the check cells of\n")
    assert f"`python -m autograder.hub fresh {CHECKED[0].id}`" in said


# --- What nobody can do ---------------------------------------------------------------------------


def test_a_student_cannot_read_what_is_anothers(walk: Walk) -> None:
    made = walk.hub.machine
    ada, grace = made.students
    inbound = made.exchange / COURSE_ID / "inbound"
    (submission,) = inbound.glob(f"{ada.name}+*")
    assert len(submission.name.rpartition("+")[2]) == 12, "72 random bits, which nobody guesses"
    for place in (ada.home, ada.home / "work", inbound, made.exchange / COURSE_ID / "feedback"):
        assert "Permission denied" in grace.run("ls", str(place), code=2)


def test_a_student_cannot_read_the_graders_folder(walk: Walk) -> None:
    made = walk.hub.machine
    for name in ("", "solutions", "gradebook.db", "grading_seed", "submitted", "feedback"):
        path = made.repository / name
        assert path.exists(), name
        for student in made.students:
            assert "Permission denied" in student.run("ls", str(path), code=2)


def test_a_student_can_change_neither_environment_nor_release(walk: Walk) -> None:
    made = walk.hub.machine
    released = made.exchange / COURSE_ID / "outbound" / UNIT / f"{UNIT}.ipynb"
    packages = tools.packages_of(made.course / "environment")
    for path in (released, packages / "new", made.course / "autograder" / "new"):
        said = made.students[0].run("sh", "-c", f"echo x >> {path}", code=2)
        assert "Permission denied" in said
    for path in (released, made.exchange / COURSE_ID):
        said = made.students[0].run("mv", str(path), f"{path}.taken", code=1)
        assert "cannot move" in said
        assert path.exists()


def test_the_doctor_finds_what_has_been_broken(walk: Walk) -> None:
    """Outside of a server that `start` has started there are no settings, and it says so."""
    made = walk.hub.machine
    command = [str(made.python), "-m", "autograder.hub", "doctor"]
    made.students[0].home.chmod(0o755)
    try:
        said = made.students[0].run(*command, code=1)
    finally:
        made.students[0].home.chmod(0o700)
    subjects = {line.split(":")[0] for line in said.splitlines() if line.startswith("WRONG")}
    assert subjects == {"WRONG  nbgrader's exchange", "WRONG  home closed to others"}
    assert f"chmod 700 {made.students[0].home}" in said
    refused = subprocess.run(
        command, cwd=made.course, env=root_environ(), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "root may read and write all" in refused.stderr


# --- Nothing that a student gets holds a model answer ---------------------------------------------


@pytest.fixture(scope="module")
def trees(walk: Walk) -> set[str]:
    """The syntax trees of all functions in the students' copy and the exchange."""
    made, found = walk.hub.machine, set()
    for path in made.course.rglob("*.py"):
        parts = path.relative_to(made.course).parts
        if parts[0] != "environment" and not TEACHES & set(parts):
            found |= set(syntax_trees(path.read_text("utf-8")))
    for folder in (made.course / "notebooks", made.exchange / COURSE_ID / "outbound"):
        for path in folder.rglob("*.ipynb"):
            for cell in nbformat.read(path, as_version=4).cells:
                if cell.cell_type == "code":
                    found |= set(syntax_trees(cell.source))
    assert any(tree.startswith("[['rows', 'inner', 'columns']") for tree in found)
    return found


def test_no_model_answer_can_be_read(trees: set[str]) -> None:
    assert [name for name in RECORDED if model_trees(name) & trees] == []


def test_no_room_of_staff_can_be_imported(walk: Walk) -> None:
    made = walk.hub.machine
    packages = tools.packages_of(made.course / "environment")
    assert not list(packages.glob("autograder*")) + list(packages.glob("course_utils*"))
    code = (
        "import autograder.hub.doctor as c, autograder, pathlib;"
        "print(c.answers(pathlib.Path(autograder.__file__).parents[1]), autograder.__file__)"
    )
    said = made.students[0].run(str(made.python), "-c", code).strip()
    assert said == f"[] {made.course}/autograder/__init__.py"
