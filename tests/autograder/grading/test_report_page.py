"""The report of a class: its numbers, its picture, and a page without injected HTML."""

import dataclasses
import inspect
import os
import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.checking.verdict import Verdict
from autograder.grading.gradebook.submission_status import (
    Score,
    SubmissionStatus,
    what_waits,
    who_was_late,
)
from autograder.grading.report.__main__ import main
from autograder.grading.report.class_report import report_on
from autograder.grading.report.course_copies import MODEL_ANSWER, PACKAGE, course_copies
from autograder.grading.report.figure import (
    OUTCOMES,
    headline,
    outcome_picture,
    points_picture,
)
from autograder.grading.report.tables import exercise_table, text_table
from autograder.grading.result import SubmissionResult
from tests.autograder.grading.classes import results_of_a_class, write_results
from tests.notebooks.filling import ROOT, UNITS, solved

UNIT = UNITS[0]
CATALOGUE = next(each for each in catalogue.units() if each.folder == UNIT)
EXERCISES = [item for item in CATALOGUE.exercises if not item.manual]
BAD = "<script>alert('x')</script>"


@pytest.fixture
def root(tmp_path):
    """A course whose notebooks are those of this one, and in which nothing was graded yet."""
    for place in ("notebooks", "solutions", "nbgrader_config.py"):
        (tmp_path / place).symlink_to(ROOT / place)
    return tmp_path


def told(exercise, points, hint="", *, written=True):
    return Verdict(
        exercise=exercise,
        points=points,
        max_points=2.0,
        sentence="3 of 20 cases are wrong.",
        hint=hint,
        written=written,
    )


def a_result(student, *verdicts, **more):
    some = {"answers": {EXERCISES[0].id: "an answer"}}
    return SubmissionResult(unit=UNIT, student=student, verdicts=verdicts, **some | more)


def test_numbers_of_an_exercise():
    first = EXERCISES[0].id
    table = exercise_table(
        CATALOGUE,
        [
            a_result("a", told(first, 2.0)),
            a_result("b", told(first, 1.0, "How wide?")),
            a_result("c", told(first, 0.0, "How wide?")),
            a_result("d", told(first, 0.0, "How deep?")),
            a_result("e", told(first, 0.0, "Not yet?", written=False)),
            a_result("f"),
            a_result("nobody could read it", told(first, 0.0, written=False), answers={}),
        ],
    )
    row = table.loc[first]
    counts = {"full": 1, "part": 1, "wrong": 2, "not_written": 1, "judged": 5}
    assert {name: row[name] for name in counts} == counts
    assert row["full_fraction"] == 1 / 5
    assert row["points_fraction"] == 3 / 10
    assert row["hints"] == [("How wide?", 2), ("How deep?", 1)]
    assert list(table.index) == [item.id for item in EXERCISES]
    assert table.loc[EXERCISES[1].id, "judged"] == 0


def test_submissions_that_need_a_human_come_first_with_their_reasons(root):
    first = EXERCISES[0].id
    write_results(
        root,
        [
            a_result("ada", told(first, 1.5), cpu_seconds=2.5),
            a_result("bob", remarks=("Two cells are one.",)),
            a_result("cyd", remarks=("Mended.",), needs_human=("It did not end.",)),
        ],
    )
    *_, table = report_on(root, UNIT).page().split("<table>")
    rows = [re.split(r"\s*<td[^>]*>", row)[1:] for row in table.split("<tr>")[2:]]
    assert [row[:2] for row in rows] == [
        ["cyd", "needs a human"],
        ["ada", "graded"],
        ["bob", "graded with remarks"],
    ]
    assert rows[0][4].startswith("<ul><li>It did not end.<li>Mended.</ul>")
    assert rows[1][2:4] == ["1.5 of 2", "2.5"]


def test_every_bar_of_the_picture_ends_at_a_hundred():
    table = exercise_table(CATALOGUE, results_of_a_class(UNIT, 23))
    (pair,) = outcome_picture(table).figure.axes
    bars = dict(zip(OUTCOMES, pair.containers, strict=True))
    for row, exercise in enumerate(table.index):
        lengths = {name: each[row].get_width() for name, each in bars.items()}
        assert sum(lengths.values()) == pytest.approx(100)
        assert lengths["wrong"] == pytest.approx(100 * table.loc[exercise, "wrong"] / 23)
    assert [each.get_text() for each in pair.get_yticklabels()] == list(table["title"])


def test_title_says_what_was_found():
    full = [told(item.id, 2.0) for item in EXERCISES]
    easy = exercise_table(CATALOGUE, [a_result("a", *full), a_result("b", *full)])
    assert headline(exercise_table(CATALOGUE, [a_result("a")])) == "Nothing was judged yet"
    assert headline(easy) == "Everybody has full marks in every exercise"
    wrong = told(EXERCISES[2].id, 0.0)
    results = [a_result("a", *full), a_result("b", *full[:2], wrong, *full[3:])]
    title = EXERCISES[2].title
    assert f"“{title}” is the hardest: 1 of 2" in headline(exercise_table(CATALOGUE, results))
    part = told(EXERCISES[1].id, 1.0)
    results[1] = a_result("b", full[0], part, wrong, *full[3:])
    assert f"“{title}” is the hardest: 1 of 2" in headline(exercise_table(CATALOGUE, results))


TEXT = next(item for item in CATALOGUE.exercises if item.manual)
FIRST = EXERCISES[0].id
STATUSES = (
    SubmissionStatus(
        student="ada", scores={FIRST: Score(2, 2), TEXT.id: Score(0, 1, is_unread=True)}
    ),
    SubmissionStatus(
        student="bob",
        scores={FIRST: Score(1, 2, is_doubtful=True), TEXT.id: Score(0.5, 1)},
        late=timedelta(days=1),
        extension=timedelta(hours=2),
        penalty=0.25,
    ),
    SubmissionStatus(student="cyd", scores={FIRST: Score(0, 2), TEXT.id: Score(1, 1)}, penalty=3.0),
)


def test_numbers_of_a_text_are_those_of_who_was_read():
    row = text_table(CATALOGUE, STATUSES).loc[TEXT.id]
    assert (row["title"], row["handed_in"], row["read"]) == (TEXT.title, 3, 2)
    assert row["written"] == 3
    assert (row["full_fraction"], row["points_fraction"]) == (1 / 2, 3 / 4)


def test_a_text_that_was_never_written_is_not_read_and_in_no_mean(root):
    blank = SubmissionStatus(student="dan", scores={TEXT.id: Score(0, 1, is_written=False)})
    row = text_table(CATALOGUE, [*STATUSES, blank]).loc[TEXT.id]
    assert (row["handed_in"], row["written"], row["read"]) == (4, 3, 2)
    assert (row["full_fraction"], row["points_fraction"]) == (1 / 2, 3 / 4)
    write_results(root, results_of_a_class(UNIT, 3))
    report = report_on(root, UNIT)

    def cells(statuses):
        texts = text_table(CATALOGUE, statuses)
        page = dataclasses.replace(report, statuses=tuple(statuses), texts=texts).page()
        (row,) = (row for row in page.split("<tr>") if f"{TEXT.title} ✎" in row)
        return [cell.partition(">")[2].strip() for cell in row.split("<td")[2:5]]

    assert cells([*STATUSES, blank]) == ["3 of 4, 2 read", "50 %", "75 %"]
    assert cells([STATUSES[0], blank]) == ["1 of 2, 0 read", "–", "–"]


def test_what_waits_and_who_was_late_is_counted():
    assert what_waits(STATUSES) == [
        f"1 text waits for a reader: {TEXT.id} 1.",
        f"1 score waits for a second look: {FIRST} 1.",
    ]
    assert who_was_late(STATUSES[:2]) == [
        "Due date: bob 1 d late, 0.25 points less, extension of 2 h."
    ]
    assert what_waits(STATUSES[2:]) == who_was_late(STATUSES[:1]) == []


def test_points_are_after_the_penalty_and_not_below_zero():
    assert [each.points for each in STATUSES] == [2, 1.25, 0]


@pytest.mark.parametrize("most", [7, 40])
def test_the_histogram_counts_everybody_once(most):
    points = [0, 0.5, 1, 6.75, most, most + 1]
    picture = points_picture(points, most)
    (pair,) = picture.figure.axes
    assert sum(bar.get_height() for bar in pair.patches) == len(points)
    for bar in pair.patches:
        middle, width = bar.get_x() + bar.get_width() / 2, bar.get_width() / 0.9
        start, end = round(middle - width / 2, 9), round(middle + width / 2, 9)
        inside = [each for each in points if start <= each < end]
        assert bar.get_height() == len(inside)
    assert "has 6.75 points or more" in picture.caption


def test_the_page_shows_students_by_exercise(root):
    write_results(root, results_of_a_class(UNIT, 3))
    page = dataclasses.replace(report_on(root, UNIT), statuses=STATUSES).page()
    (row,) = (row for row in page.split("<tr>") if row.startswith("<td>bob"))
    shown = [cell.partition(">")[2].partition("<")[0].strip() for cell in row.split("<td")[1:]]
    assert (shown[0], shown[1], shown[2]) == ("bob", "1 ?", "0.5")
    assert "1 d late, 0.25 points less, extension of 2 h" in page
    assert "<b>1 text waits for a reader:" in page


class Page(HTMLParser):
    """What a browser would find in a page: its tags with what they load, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.text = set(), [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "data", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


def hostile_class():
    """Everything that a student or a broken submission could put a text into."""
    results = results_of_a_class(UNIT, 12)
    verdict = told(EXERCISES[0].id, 0.0, hint=f"{BAD} hint?")
    results[3] = a_result(f"{BAD} me", verdict, remarks=(f"{BAD} remark",), needs_human=(f"{BAD}",))
    return results


def test_page_holds_everything_and_runs_and_fetches_nothing(root):
    results = hostile_class()
    write_results(root, results)
    page = Page(report_on(root, UNIT).page())
    assert not page.tags & {"script", "iframe", "link", "object", "form", "base"}
    assert page.loads == []
    for text in [f"{BAD} me", f"{BAD} hint?", f"{BAD} remark"]:
        assert text in page.text
    for each in results:
        assert each.student in page.text
    for item in EXERCISES:
        assert item.id in page.text


def test_command_writes_the_page_and_prints_the_table(root, capsys):
    write_results(root, results_of_a_class(UNIT, 5))
    assert main([UNIT[:2]], root) == 0
    printed = capsys.readouterr().out
    assert all(item.id in printed for item in EXERCISES)
    assert "Submissions: graded 5." in printed
    assert [path.name for path in (root / "report").iterdir()] == [f"{UNIT}.html"]
    assert "</html>" in (root / "report" / f"{UNIT}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("unit", "gradebook", "sentence"),
    [
        ("77", "", "There is no unit `77`"),
        (UNIT, "", "holds no result"),
        (UNIT, "damaged " * 100, "file is not a database"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence_and_leaves_the_old_page(
    root, capsys, unit, gradebook, sentence
):
    old = root / "report" / f"{UNIT}.html"
    old.parent.mkdir()
    old.write_text("as it was")
    (root / "gradebook.db").write_text(gradebook)
    assert main([unit], root) == 1
    told = capsys.readouterr().err
    assert sentence in told
    assert len(told.splitlines()) == 1
    assert old.read_text() == "as it was"


def test_the_courses_own_code_is_named_with_whose_it_is(root):
    """In other comments and layout; neither short answers, nor ones with another sign or name."""
    unit, long = UNITS[9], "u09-buckets"
    model = solved(unit)[long]
    package = inspect.getsource(check_of(long).reference())
    answers = {
        "same": model,
        "layout": "# mine\n" + model.replace("\n", "  # here\n", 1) + "\n\n",
        "package": package,
        "other": model.replace("+", "-").replace("=", "= 0 +", 1),
        "nothing": "",
    }
    class_ = [SubmissionResult(unit=unit, student=n, answers={long: a}) for n, a in answers.items()]
    assert course_copies(root, unit, class_) == {
        long: {MODEL_ANSWER: ["same", "layout"], PACKAGE: ["package"]}
    }
    unit, short = UNITS[2], "u02-roofline-seconds"
    few = SubmissionResult(unit=unit, student="a", answers={short: solved(unit)[short]})
    assert course_copies(root, unit, [few]) == {}


def on_a_full_disk(descriptor):
    raise OSError("no space left")


def test_page_that_fails_leaves_the_old_one(root, monkeypatch):
    write_results(root, results_of_a_class(UNIT, 3))
    assert main([UNIT], root) == 0
    before = (root / "report" / f"{UNIT}.html").read_bytes()
    monkeypatch.setattr(os, "fsync", on_a_full_disk)
    with pytest.raises(OSError, match="no space"):
        main([UNIT], root)
    assert (root / "report" / f"{UNIT}.html").read_bytes() == before


def test_text_that_no_file_can_hold_is_written_in_other_letters(root):
    write_results(root, [a_result("half", remarks=("half a pair: \ud800",))])
    assert main([UNIT], root) == 0
    page = (root / "report" / f"{UNIT}.html").read_text(encoding="utf-8")
    assert "half a pair: \\ud800" in page
