"""Points and comments in the gradebook: changed as they were seen, or not at all."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from nbgrader.api import Gradebook

from autograder.grading.errors import GradingError
from autograder.grading.gradebook import course_table
from autograder.grading.manual_grading.marks import Change, ChangedMeanwhileError, Mark, Marks
from tests.autograder.grading.manual_grading.graded_class import EXERCISE, UNIT

WAITING = Mark(None, "", True)
GIVEN = Mark(1.5, "Which *peak*?", False)
EVERYTHING = ("grade", "comment", "submitted_notebook", "submitted_assignment", "student")


@pytest.fixture
def book(root):
    return Marks(root)


def texts(book):
    found = book.of_unit(UNIT.folder)
    return {each.student: each for each in found if each.cell == EXERCISE.id}


def rows(root):
    with closing(sqlite3.connect(root / "gradebook.db")) as book:
        return {name: {*book.execute(f"select * from {name}")} for name in EVERYTHING}


def test_every_answer_of_every_student_is_there(book):
    found = book.of_unit(UNIT.folder)
    assert len(found) == 4 * len(UNIT.exercises)
    assert {each.student: each.mark for each in texts(book).values()} == {
        **dict.fromkeys(("ada", "grace", "alan"), WAITING),
        "mary": Mark(None, "", False),
    }
    assert texts(book)["mary"].auto_score == 0
    assert {each.max_points for each in texts(book).values()} == {2.0}


def test_nbgrader_finds_what_was_given_and_nothing_else_has_changed(root, book):
    before = rows(root)
    book.change([Change(texts(book)["ada"], WAITING, GIVEN)])
    after = rows(root)
    assert {name: len(after[name] - before[name]) for name in EVERYTHING} == {
        **dict.fromkeys(EVERYTHING, 0),
        "grade": 1,
        "comment": 1,
    }
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "efficient_llm_training") as opened:
        place = (EXERCISE.id, UNIT.folder, UNIT.folder, "ada")
        grade = opened.find_grade(*place)
        assert (grade.score, grade.manual_score, grade.needs_manual_grade) == (1.5, 1.5, False)
        assert opened.find_comment(*place).comment == "Which *peak*?"
        assert not opened.find_submission(UNIT.folder, "ada").needs_manual_grade
        assert opened.find_submission(UNIT.folder, "alan").needs_manual_grade


def test_a_mark_taken_back_leaves_the_gradebook_as_it_was(root, book):
    before = rows(root)
    ada = texts(book)["ada"]
    book.change([Change(ada, WAITING, GIVEN)])
    book.change([Change(ada, GIVEN, WAITING)])
    assert rows(root) == before


@pytest.mark.parametrize(
    "theirs", [replace(WAITING, comment="mine"), Mark(1.0, "", False), Mark(1.5, "", True)]
)
def test_what_somebody_else_changed_is_left_alone_with_all_beside_it(root, book, theirs):
    found = texts(book)
    Marks(root).change([Change(found["grace"], WAITING, theirs)])
    before = rows(root)
    with pytest.raises(ChangedMeanwhileError):
        book.change([Change(found[name], WAITING, GIVEN) for name in ("ada", "grace")])
    assert rows(root) == before
    assert texts(book)["grace"].mark == theirs


@pytest.mark.parametrize("score", [-0.5, 2.5, float("inf"), float("nan")])
def test_points_out_of_bounds_are_refused(root, book, score):
    before = rows(root)
    with pytest.raises(GradingError, match="Points are"):
        book.change([Change(texts(book)["ada"], WAITING, Mark(score, "", False))])
    assert rows(root) == before


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {"score": 1, "comment": ""},
        {"score": True, "comment": "", "waits": False},
        {"score": "1", "comment": "", "waits": False},
        {"score": 1, "comment": None, "waits": False},
        {"score": 1, "comment": "", "waits": 0},
        {"score": 1, "comment": "x" * 20_001, "waits": False},
    ],
)
def test_what_is_no_mark_is_refused(entry):
    with pytest.raises(GradingError, match="this is none"):
        Mark.from_json(entry)


def test_a_mark_crosses_as_json():
    assert Mark.from_json(GIVEN.to_json()) == GIVEN
    assert Mark.from_json({"score": 1, "comment": "", "waits": False}) == Mark(1.0, "", False)


def test_a_gradebook_that_is_held_is_waited_for(root, book):
    ada = texts(book)["ada"]
    with closing(sqlite3.connect(root / "gradebook.db", check_same_thread=False)) as other:
        other.execute("begin immediate")
        release = threading.Timer(0.5, other.rollback)
        release.start()
        book.change([Change(ada, WAITING, GIVEN)])
        release.join()
    assert texts(book)["ada"].mark == GIVEN


def test_a_gradebook_that_is_held_for_long_is_told_of(root, monkeypatch):
    monkeypatch.setattr(course_table, "BUSY_SECONDS", 0.1)
    book = Marks(root)
    ada = texts(book)["ada"]
    with closing(sqlite3.connect(root / "gradebook.db")) as other:
        other.execute("begin immediate")
        with pytest.raises(GradingError, match=r"locked.*nothing was written"):
            book.change([Change(ada, WAITING, GIVEN)])
    assert texts(book)["ada"].mark == WAITING


def test_of_many_writers_one_succeeds(root, book):
    ada, outcomes = texts(book)["ada"], []
    start = threading.Barrier(8)

    def write(n: int) -> None:
        start.wait()
        try:
            Marks(root).change([Change(ada, WAITING, Mark(n / 8, str(n), False))])
            outcomes.append(n)
        except ChangedMeanwhileError:
            pass

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    (winner,) = outcomes
    assert texts(book)["ada"].mark == Mark(winner / 8, str(winner), False)


def test_without_a_gradebook_it_says_what_makes_one(tmp_path):
    with pytest.raises(GradingError, match="make grade"):
        Marks(tmp_path).of_unit(UNIT.folder)
    assert not [*tmp_path.iterdir()]
