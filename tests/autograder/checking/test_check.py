"""`check`, `grade`, `answer`, predictions and progress, as a notebook calls them."""

import json
import os
import pickle
import subprocess
import sys
import time

import pytest
from IPython.core.formatters import DisplayFormatter

from autograder import answer, catalogue, check, compare, grade, predict, progress, progress_file
from autograder.checking import seeds
from autograder.checking.exercise_check import Check
from autograder.checking.lookup import check_of
from autograder.checking.progress import Progress
from autograder.checking.verdict import CaseResult
from autograder.exercises.model_answers import whole_model_source
from course_utils.formulas.flops import matmul_flops as reference
from tests.answer_bank import make
from tests.answer_bank.every import ANSWER_BANKS
from tests.notebooks.filling import ROOT

EXERCISE = "u01-matmul-flops"
RIGHT = make(whole_model_source(EXERCISE), "matmul_flops")
WRONG = make(
    """
    def matmul_flops(rows, inner, columns):
        multiplications = rows * inner * columns
        return {"forward_flops": multiplications, "backward_flops": 2 * multiplications}
    """,
    "matmul_flops",
)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """The progress file of a work folder with one unit, which is the current folder."""
    (tmp_path / "01_unit").mkdir()
    progress_file.create(tmp_path)
    monkeypatch.chdir(tmp_path / "01_unit")
    return tmp_path / progress_file.NAME


@pytest.fixture
def kernel_only(tmp_path, monkeypatch):
    """The current folder is in no work folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress_file, "_of_this_kernel", dict(progress_file.EMPTY))


def remembered(work):
    return json.loads(work.read_text(encoding="utf-8"))


@pytest.mark.parametrize("call", [check, grade])
def test_points_are_a_number_that_shows_itself_as_its_verdict(call, kernel_only, capsys):
    assert (call(EXERCISE, RIGHT), call(EXERCISE, WRONG)) == (2.0, 0.0)
    points = call(EXERCISE, RIGHT)
    shown, _ = DisplayFormatter().format(points)
    assert shown == {"text/plain": "2.0", "text/html": points.verdict._repr_html_()}
    assert "2 of 2 points" in shown["text/html"]
    copied = pickle.loads(pickle.dumps(points))
    assert (type(copied), copied) == (float, 2.0)
    assert capsys.readouterr() == ("", "")


def test_check_says_wanted_and_got_and_grade_does_not(kernel_only):
    said = str(check(EXERCISE, WRONG).verdict)
    assert "Expected 60 for forward_flops, got 30 (ratio 0.5)" in said
    said = str(grade(EXERCISE, WRONG).verdict)
    assert "Expected" not in said
    assert "on hidden sizes: the check gives 0 of 2 points" in said


def test_validate_gets_the_verdict_of_what_lacks_points(kernel_only, capsys, monkeypatch):
    check(EXERCISE, WRONG)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("NBGRADER_VALIDATING", "1")  # as nbgrader sets it
    check(EXERCISE, RIGHT)
    assert capsys.readouterr().err == ""
    check(EXERCISE, WRONG)
    said = capsys.readouterr().err
    assert "0 of 2 points" in said
    assert "Hint: " in said


@pytest.mark.parametrize("thing", [None, 3, "matmul_flops", object(), print])
@pytest.mark.parametrize("call", [check, grade])
def test_an_answer_of_another_type_earns_nothing_and_raises_nothing(call, thing, kernel_only):
    assert call(EXERCISE, thing) == 0.0


def test_unknown_exercise_is_answered_with_the_nearest(kernel_only):
    points = check("u01-matmul-flop", RIGHT)
    assert points == 0.0
    assert "near it: u01-matmul-flops" in points.verdict.sentence


def test_a_failing_check_gives_no_points_and_says_so(kernel_only, monkeypatch):
    def judge(case, got):
        raise RuntimeError("a mistake of ours")

    broken = Check(cases=lambda seed: [{"n": 1}], judge=judge)
    monkeypatch.setattr("autograder.checking.check.practice_check_of", lambda exercise: broken)
    points = check(EXERCISE, lambda n: n)
    assert points == 0.0
    assert "check itself failed (RuntimeError: a mistake of ours)" in points.verdict.sentence


def test_without_a_case_there_are_no_points(kernel_only, monkeypatch):
    empty = Check(cases=lambda seed: [], judge=lambda c, g: CaseResult(right={"": True}))
    monkeypatch.setattr("autograder.checking.check.practice_check_of", lambda exercise: empty)
    assert check(EXERCISE, lambda n: n) == 0.0


def test_grading_seeds_are_secret_and_not_those_of_practice(monkeypatch):
    monkeypatch.setenv("COURSE_GRADING_SEED", "one year")
    first = seeds.grading_seeds()
    monkeypatch.setenv("COURSE_GRADING_SEED", "another year")
    assert not set(first) & set(seeds.grading_seeds())
    assert not set(first) & set(seeds.PRACTICE_SEEDS)


def test_who_knows_the_practice_cases_passes_practice_alone(kernel_only):
    cases = check_of(EXERCISE).cases(seeds.PRACTICE_SEEDS[0])
    known = {tuple(case.values()): RIGHT(**case) for case in cases}

    def matmul_flops(rows, inner, columns):
        return known.get((rows, inner, columns), WRONG(rows, inner, columns))

    assert (check(EXERCISE, matmul_flops), grade(EXERCISE, matmul_flops)) == (2.0, 0.0)


def test_answer_gives_mine_if_it_passes_and_the_courses_otherwise(kernel_only, capsys):
    assert answer(EXERCISE, RIGHT) is RIGHT
    assert answer(EXERCISE, WRONG) is reference
    assert "yours does not pass its check yet" in capsys.readouterr().out


def test_work_folder_remembers_points_and_source(work):
    check(EXERCISE, RIGHT)
    entry = remembered(work)["exercises"][EXERCISE]
    assert entry["points"] == 2.0
    assert "def matmul_flops" in entry["source"]


def test_an_answer_with_another_name_than_the_reference_is_remembered(work):
    bank = ANSWER_BANKS["u03-fused-gate"]
    check("u03-fused-gate", make(bank.right[0], bank.function))
    assert remembered(work)["exercises"]["u03-fused-gate"]["points"] == 2.0


def test_stubs_trials_grading_and_validating_are_not_remembered(work, monkeypatch):
    check(EXERCISE, make("def matmul_flops(*s):\n    raise NotImplementedError", "matmul_flops"))
    check(EXERCISE, make("def trial(*s):\n    return 1", "trial"))
    grade(EXERCISE, RIGHT)
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    check(EXERCISE, RIGHT)
    assert remembered(work)["exercises"] == {}


def test_a_slow_check_says_that_it_runs_in_a_work_folder_alone(work, monkeypatch, capsys):
    def slow(*sizes):
        time.sleep(0.05)
        return RIGHT(*sizes)

    check(EXERCISE, RIGHT)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("autograder.checking.check.SLOW_SECONDS", 0.1)
    check(EXERCISE, slow)
    assert capsys.readouterr() == ("Measuring …\n", "")
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    check(EXERCISE, slow)
    assert capsys.readouterr() == ("", "")


def test_progress_marks_what_is_right_wrong_and_untried(work):
    check(EXERCISE, WRONG)
    assert str(progress("01")).endswith("✗✎○○○○○○○○○○")
    check(EXERCISE, RIGHT)
    assert str(progress("01")).endswith("✓✎○○○○○○○○○○")
    page = progress()._repr_html_()
    assert 'title="FLOPs of a matrix product, forward and backward: 2 points">✓<' in page
    assert 'title="Four memories: 2 points">○<' in page


def test_prediction_can_change_until_the_measurement_is_shown(work, capsys):
    predict("u01-mlp-matmul", None, "FLOPs")
    assert "No prediction yet" in capsys.readouterr().out
    predict("u01-mlp-matmul", 5, "FLOPs")
    predict("u01-mlp-matmul", 50, "FLOPs")
    table = compare("u01-mlp-matmul", "FLOPs", computed=100, measured=100)
    assert list(table["FLOPs"]) == ["50", "100", "100"]
    assert list(table["ratio to measured"]) == ["0.5", "1", "1"]
    predict("u01-mlp-matmul", 100, "FLOPs")
    assert "so it stays" in capsys.readouterr().out
    assert remembered(work)["predictions"]["u01-mlp-matmul"]["value"] == 50


@pytest.mark.parametrize("value", ["many", -1, float("nan"), float("inf"), True])
def test_prediction_that_is_not_a_size_is_asked_for_again(work, capsys, value):
    predict("u01-mlp-matmul", value, "FLOPs")
    assert "Expected a number such as 8_000_000" in capsys.readouterr().out
    assert remembered(work)["predictions"] == {}


def test_large_and_small_ratios_are_readable(kernel_only):
    predict("far", 5, "bytes")
    assert list(compare("far", "bytes", measured=10_000)["ratio to measured"]) == ["1 / 2,000", "1"]
    predict("high", 123_456, "bytes")
    assert compare("high", "bytes", measured=2)["ratio to measured"].iloc[0] == "61,728"


def test_a_label_has_no_ratio_and_may_be_zero(kernel_only):
    predict("late", 0, "rank")
    table = compare("late", "rank", measured=0, is_label=True)
    assert table.to_dict("list") == {"rank": ["0", "0"]}
    assert list(table.index) == ["predicted", "measured"]


@pytest.mark.parametrize("content", ["{ cut", "[]", "null", '{"exercises": null}'])
def test_damaged_progress_is_kept_aside(work, content):
    work.write_text(content, encoding="utf-8")
    check(EXERCISE, RIGHT)
    kept = list(work.parent.glob("progress-damaged-*.json"))
    assert [path.read_text(encoding="utf-8") for path in kept] == [content]
    assert remembered(work)["exercises"][EXERCISE]["points"] == 2.0


ODD = (5, None, [], {}, {"points": "2"}, {"points": 2.0, "failed_tries": "three"})


@pytest.mark.parametrize("entry", ODD)
def test_of_a_file_with_an_odd_entry_the_others_stay(work, capsys, entry):
    predict("u01-mlp-matmul", 5, "FLOPs")
    predict("u01-ratio", 3, "times")
    before = remembered(work)
    before["exercises"][EXERCISE] = entry
    work.write_text(json.dumps(before), encoding="utf-8")
    assert "01" in str(progress())
    assert "2 entries of it are whole and stay" in capsys.readouterr().out
    assert check(EXERCISE, RIGHT) == 2.0
    (kept,) = work.parent.glob("progress-damaged-*.json")
    assert json.loads(kept.read_text(encoding="utf-8")) == before
    after = remembered(work)
    assert after["predictions"] == before["predictions"]
    assert after["exercises"].keys() == before["exercises"].keys()


WRITER = """
import sys
from autograder import progress_file
for number in range(100):
    progress_file.remember("exercises", f"{sys.argv[1]}-{number}", {"points": 1.0})
"""


def test_two_kernels_lose_nothing_of_one_another(work):
    around = os.environ | {"PYTHONPATH": str(ROOT)}
    one, two = (
        subprocess.Popen([sys.executable, "-c", WRITER, name], env=around) for name in ("1", "2")
    )
    assert (one.wait(), two.wait()) == (0, 0)
    assert len(remembered(work)["exercises"]) == 200


def test_a_file_that_nobody_may_write_stays_as_it_is(work, capsys, monkeypatch):
    before = work.read_bytes()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everything
    assert check(EXERCISE, RIGHT) == 2.0
    assert "Progress was not kept" in capsys.readouterr().out
    assert work.read_bytes() == before


def test_work_folder_that_cannot_be_written_loses_only_progress(work, capsys, monkeypatch):
    def refuse(path, progress):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(progress_file, "_save", refuse)
    assert check(EXERCISE, RIGHT) == 2.0
    assert "Progress was not kept" in capsys.readouterr().out


def test_outside_a_work_folder_the_kernel_remembers(kernel_only):
    check(EXERCISE, RIGHT)
    assert "✓" in str(progress())
    assert "Start here" not in str(progress()), "a unit of which this kernel knows nothing"
    assert "Start here" in str(progress("00"))


def test_progress_counts_extra_points_apart():
    points = {"u01-matmul-flops": 2.0, "u01-utilisation": 1.5}
    line = str(Progress(catalogue.units(), points)).splitlines()[1]
    assert "2 of 14 points, 1.5 of 8 extra, 1 ✎" in line


def test_progress_is_one_line_a_unit(work):
    lines = str(progress()).splitlines()
    assert len(lines) == len(catalogue.units()) == progress()._repr_html_().count("<tr>")
    starts = {line.index("░") for line in lines}
    assert len(starts) == 1, "bars stand below one another"
    title = catalogue.units()[1].title
    assert str(progress("01")).startswith(f"01 {title}  ░░░░░░░░░░  0 of 14 points")
    with pytest.raises(ValueError, match=r"wanted one of 00, 01, .*, got '1'"):
        progress("1")
