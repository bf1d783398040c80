"""Hidden cases are measured once, and again if the values could have changed."""

import json

import pytest

from autograder.checking.exercise_check import Check
from autograder.checking.judges import ValueJudge
from autograder.grading.run import measurement_cache

CASES = [{"shape": (2, 3)}, {"shape": (4, 5)}]
NAME = "u00-tensor-bytes"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(measurement_cache, "_folders", [])
    measurement_cache.use_folder(tmp_path / "measured")
    return tmp_path / "measured"


def measuring():
    """A check, and the shapes that were measured for it."""
    seen = []

    def measure(shape):
        seen.append(shape)
        return {"bytes": 4 * shape[0] * shape[1], "share": 1 / 3}

    return Check(cases=lambda seed: CASES, judge=ValueJudge(measure)), seen


def judged(check):
    return [check.judge(case, check.judge.measure(**case)).passed for case in CASES]


def test_another_process_does_not_measure_again(folder):
    measurement_cache.measure(measuring()[0], NAME, CASES)
    check, seen = measuring()
    measurement_cache.measure(check, NAME, CASES)
    assert seen == []
    assert [check.judge.measurement(case)["share"] for case in CASES] == [1 / 3, 1 / 3]
    assert judged(check) == [True, True]


@pytest.mark.parametrize("change", ["cases", "course", "damaged", "another form"])
def test_what_may_be_another_is_measured_again(folder, change, monkeypatch):
    measurement_cache.measure(measuring()[0], NAME, CASES[:1] if change == "cases" else CASES)
    path = folder / f"{NAME}.json"
    if change == "course":
        monkeypatch.setattr("autograder.grading.course_version.of_course", lambda: "another")
    if change == "damaged":
        path.write_text(path.read_text()[:-9])
    if change == "another form":
        path.write_text(json.dumps({"of": json.loads(path.read_text())["of"], "measured": 3}))
    check, seen = measuring()
    measurement_cache.measure(check, NAME, CASES)
    assert seen == [case["shape"] for case in CASES]
    again, seen = measuring()
    measurement_cache.measure(again, NAME, CASES)
    assert seen == []


def test_where_nothing_can_be_kept_it_is_measured_all_the_same(folder):
    folder.write_text("a file in the folder's place")
    check, seen = measuring()
    measurement_cache.measure(check, NAME, CASES)
    assert judged(check) == [True, True]
    assert len(seen) >= 2


def test_a_check_of_another_kind_measures_when_it_judges(folder):
    check = Check(cases=lambda seed: CASES, judge=lambda case, got: None)
    measurement_cache.measure(check, NAME, CASES)
    assert not folder.exists()
