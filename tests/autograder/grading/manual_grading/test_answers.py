"""What a reader gets of a class: like texts together, numbers in place of names."""

import json
import re
from dataclasses import replace
from unittest.mock import MagicMock

import pytest
from jupyterlab.labapp import LabApp

from autograder.grading.errors import GradingError
from autograder.grading.gradebook.gradebook_writer import GradebookWriter
from autograder.grading.manual_grading import __main__ as command
from autograder.grading.manual_grading.answers import (
    MAX_SHOWN,
    Answers,
    cards_of,
    saved_comments,
)
from autograder.grading.manual_grading.marks import ChangedMeanwhileError, Mark
from autograder.grading.report.tables import text_table
from autograder.grading.run.run import configuration
from autograder.student import launch
from tests.autograder.grading.manual_grading.conftest import TEXTS
from tests.autograder.grading.manual_grading.graded_class import (
    EXERCISE,
    UNIT,
    result_of,
    store_result,
)

GIVEN = Mark(1.5, "Which peak?\n\nSay more.", False)


@pytest.fixture
def answers(root):
    return Answers(root)


def request(answer, wanted: Mark) -> dict:
    return {
        "id": answer.graded.id,
        "version": answer.version,
        "seen": answer.graded.mark.to_json(),
        "wanted": wanted.to_json(),
    }


def by_student(answers) -> dict:
    return {each.graded.student: each for each in answers.to_read(UNIT, EXERCISE)}


def give(answers, student: str, wanted: Mark) -> None:
    answers.change(UNIT, EXERCISE, [request(by_student(answers)[student], wanted)])


def grade_again(root, student: str, text: str, n: int = 0, code: str = "") -> None:
    store = GradebookWriter(root, configuration(root), "a secret of this test")
    result = result_of(student, text, n)
    if code:
        result = replace(result, answers={**result.answers, UNIT.exercises[0].id: code})
    store_result(root, store, result)
    store.close()


def test_written_texts_are_to_read_and_stubs_are_not(answers):
    found = by_student(answers)
    assert {name: each.text for name, each in found.items()} == {
        name: text for name, text in TEXTS.items() if name != "mary"
    }
    assert {each.state for each in found.values()} == {"waits"}


def test_verdicts_of_checks_are_in_the_same_table(answers):
    rows = answers.of_unit(UNIT)
    assert [*rows] == [1, 2, 3, 4]
    for row in rows.values():
        assert row.keys() == {item.id for item in UNIT.exercises}
        checked = [each for each in row.values() if each.verdict]
        assert {each.state for each in checked} == {"full", "part", "no"}
        assert all(each.points == each.verdict.points for each in checked)


def test_like_texts_are_a_card_until_their_marks_differ(answers):
    cards = cards_of(answers.to_read(UNIT, EXERCISE))
    assert sorted(len(card.answers) for card in cards) == [1, 2]
    give(answers, "ada", GIVEN)
    assert [len(card.answers) for card in cards_of(answers.to_read(UNIT, EXERCISE))] == [1] * 3


def test_answers_that_a_check_judged_otherwise_are_never_a_card(answers):
    item = UNIT.exercises[0]
    cards = cards_of(answers.to_read(UNIT, item))
    points = {each.graded.student: each.verdict.points for each in answers.to_read(UNIT, item)}
    assert len({*points.values()}) == 3 and len(points) == 4, "all wrote the same program"
    assert sorted(len(card.answers) for card in cards) == [1, 1, 2]
    for card in cards:
        assert len({each.verdict for each in card.answers}) == 1


def test_programs_with_the_same_verdict_are_a_card_only_where_they_are_the_same(root, answers):
    item = UNIT.exercises[0]
    alike = ["return s - b  # mine", "return  s - b"]
    for student, line in zip(TEXTS, [*alike, "return s + b", "return b - s"], strict=True):
        grade_again(root, student, TEXTS[student], code=f"def f(s, b):\n    {line}")
    found = [{each.text for each in card.answers} for card in cards_of(answers.to_read(UNIT, item))]
    assert sorted(map(len, found)) == [1, 1, 2]
    assert {f"def f(s, b):\n    {line}" for line in alike} in found


def test_numbers_stay_when_somebody_comes_later(root, answers):
    before = {each.graded.student: each.number for each in answers.to_read(UNIT, EXERCISE)}
    grade_again(root, "zoe", "Mine.")
    after = {each.graded.student: each.number for each in answers.to_read(UNIT, EXERCISE)}
    assert after == before | {"zoe": 5}


def test_a_mark_is_written_and_taken_back(answers):
    given = by_student(answers)["ada"]
    answers.change(UNIT, EXERCISE, [request(given, GIVEN)])
    marked = by_student(answers)["ada"]
    assert (marked.graded.mark, marked.state) == (GIVEN, "part")
    answers.change(UNIT, EXERCISE, [request(marked, given.graded.mark)])
    assert by_student(answers)["ada"] == given
    with pytest.raises(ChangedMeanwhileError):
        answers.change(UNIT, EXERCISE, [request(marked, GIVEN)])


def test_no_mark_for_a_text_that_nobody_has_seen(root, answers):
    seen = request(by_student(answers)["ada"], GIVEN)
    grade_again(root, "ada", "Something else.")
    with pytest.raises(GradingError, match="load the page anew"):
        answers.change(UNIT, EXERCISE, [seen])
    assert by_student(answers)["ada"].graded.mark == Mark(None, "", True)


def test_no_points_in_place_of_those_of_another_verdict(root, answers):
    item = UNIT.exercises[0]
    seen = next(e for e in answers.to_read(UNIT, item) if e.graded.student == "ada")
    grade_again(root, "ada", TEXTS["ada"], n=1)
    with pytest.raises(GradingError, match="load the page anew"):
        answers.change(UNIT, item, [request(seen, replace(GIVEN, score=1.0))])


def test_points_in_place_of_a_check_are_nbgraders(answers):
    item = UNIT.exercises[0]
    seen = answers.to_read(UNIT, item)[0]
    answers.change(UNIT, item, [request(seen, replace(GIVEN, score=1.0))])
    marked = next(e for e in answers.to_read(UNIT, item) if e.number == seen.number)
    assert (marked.points, marked.graded.mark.comment) == (1.0, GIVEN.comment)


@pytest.mark.parametrize("odd", ["\n", " ", "<", "a\u0301\u0316", "a b "])
def test_endless_answers_take_a_bounded_part_of_a_page(answers, odd):
    ada = by_student(answers)["ada"]
    endless = [replace(ada, text=odd * 50_000 + str(n)) for n in range(5)]
    assert len({each.version for each in endless}) == 5
    pieces = [piece for card in cards_of([ada, *endless]) for _, piece in card.in_pieces]
    for shown in map("".join, ([text for text, _ in each] for each in pieces)):
        assert len(shown) <= MAX_SHOWN + 100
        assert shown == ada.text or "more characters are left out here" in shown


@pytest.mark.parametrize("entry", [None, {}, {"id": "nobody"}, "x"])
def test_what_is_no_change_is_refused(answers, entry):
    with pytest.raises(GradingError, match="no change"):
        answers.change(UNIT, EXERCISE, [entry])


def test_comments_of_an_exercise_are_at_hand_by_paragraph(answers):
    give(answers, "ada", GIVEN)
    give(answers, "alan", replace(GIVEN, comment="Say more."))
    assert saved_comments(answers.to_read(UNIT, EXERCISE)) == ["Say more.", "Which peak?"]


def test_what_a_page_knows_of_an_answer_names_nobody(answers):
    for each in answers.to_read(UNIT, EXERCISE):
        words = re.findall(r"\w+", json.dumps(each.to_json()) + " " + each.graded.id)
        assert words and each.graded.student not in words


def test_question_and_model_answer_are_those_of_the_exercise(answers):
    prompt = answers.prompt(UNIT, EXERCISE)
    assert "Which row would you choose" in prompt.question
    assert "<div" not in prompt.question
    assert "Full recomputation alone peaks at" in prompt.model_answer
    assert len(prompt.rubric.items) == 4
    code = answers.prompt(UNIT, UNIT.exercises[0])
    assert code.model_answer.startswith("```python")
    assert not code.rubric.items


def test_the_command_says_what_is_missing(root, capsys):
    assert command.main(["77"], root) == 1
    assert "no unit `77`" in capsys.readouterr().err
    (root / "gradebook.db").unlink()
    assert command.main(["05"], root) == 1
    assert "make grade" in capsys.readouterr().err


def test_a_stopped_page_says_where_the_points_are(root, capsys, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    monkeypatch.setattr(launch, "address_of_running", lambda *_: "")
    monkeypatch.setattr(launch, "stop_on_signals", lambda _: None)
    monkeypatch.setattr(LabApp, "initialize_server", lambda _: MagicMock())
    assert command.main(["05"], root) == 0
    said = capsys.readouterr().out
    wanted = f"Reading is stopped; points and comments are in {root / 'gradebook.db'}"
    assert said.splitlines() == [wanted]


def test_the_report_counts_as_these_pages_do(root, answers):
    def row():
        store = GradebookWriter(root, configuration(root), "a secret of this test")
        found = text_table(UNIT, store.statuses(UNIT.folder)).loc[EXERCISE.id]
        store.close()
        written = answers.to_read(UNIT, EXERCISE)
        read = [each for each in written if not each.graded.mark.waits]
        assert (found["written"], found["read"]) == (len(written), len(read))
        return tuple(found[name] for name in ("handed_in", "written", "read", "points_fraction"))

    assert row() == (4, 3, 0, 0.0)
    give(answers, "ada", GIVEN)
    give(answers, "alan", replace(GIVEN, score=0.5))
    assert row() == (4, 3, 2, (1.5 + 0.5) / (2 + 2)), "mary, who wrote nothing, is in no mean"
    grade_again(root, "ada", "Something else.")
    assert by_student(answers)["ada"].graded.mark == replace(GIVEN, waits=True)
    assert row() == (4, 3, 1, 0.5 / 2), "ada's waits for a second look"


def test_units_that_were_graded_are_listed(answers, tmp_path):
    assert answers.units() == [UNIT]
    assert Answers(tmp_path).units() == []
