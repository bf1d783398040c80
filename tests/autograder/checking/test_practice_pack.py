"""A check made of its practice pack says what the staff's says, and measures nothing."""

import dataclasses

import pytest
import torch

from autograder import practice_files
from autograder.checking import practice_pack
from autograder.checking.exercise_check import Check
from autograder.checking.judges import ImplementationJudge, ValueJudge
from autograder.checking.lookup import check_of, practice_check_of
from autograder.checking.mistakes import Symptom
from autograder.checking.scoring import score_answer
from autograder.exercises.packing import packs_of
from autograder.exercises.record import write

EXERCISE = "u00-tensor-bytes"
CASES = [{"rows": rows, "columns": columns} for rows in (2, 3, 5) for columns in (1, 4)]


def measured(rows, columns):
    return {"bytes": 2 * rows * columns, "ratio": rows / 3}


NEW_CASES = [{"rows": rows, "columns": 3} for rows in (7, 8)]
CHECK = Check(
    cases=lambda seed: CASES if seed == 1 else NEW_CASES,
    judge=ValueJudge(
        measured,
        Symptom("Half. How many bytes?", lambda rows, columns: {"bytes": rows * columns}),
        relative_tolerance=1e-9,
        labels={"bytes": "the bytes of all"},
    ),
    fallback="math.prod",
    allowed_names=("course_utils.formulas.tensors.tensor_bytes",),
)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Records a check and loads what was recorded."""
    monkeypatch.setattr(practice_pack, "ROOT", tmp_path)

    def recording(check):
        write({EXERCISE: packs_of(EXERCISE, check)})
        return practice_pack.load(EXERCISE)

    return recording


def verdict(check, answer):
    return score_answer(check, answer, [1]).verdict(EXERCISE, 2.0, tell_all=True)


@pytest.mark.parametrize(
    "answer",
    [
        lambda rows, columns: {"bytes": 2 * rows * columns, "ratio": rows / 3},
        lambda rows, columns: {"bytes": rows * columns, "ratio": rows / 3},
        lambda rows, columns: {"bytes": 7, "ratio": 1.0},
        lambda rows, columns: 3,
    ],
)
def test_verdicts_are_those_of_the_staffs_check(recorded, answer):
    assert verdict(recorded(CHECK), answer) == verdict(CHECK, answer)


def test_nothing_is_measured(recorded):
    check = recorded(CHECK)
    assert check.cases(1) == CASES
    assert check.judge.measurement(CASES[0]) == measured(**CASES[0])
    with pytest.raises(LookupError, match="no practice case is"):
        check.judge.measurement({"rows": 9, "columns": 9})
    assert check.allowed_names == CHECK.allowed_names
    assert check.reference()((2, 3)) == 6


def test_new_sizes_are_those_of_another_seed_and_measured_too(recorded):
    recorded(CHECK)
    again = practice_pack.load(EXERCISE, again=True)
    assert again.cases(1) == NEW_CASES
    assert verdict(again, measured).passed
    wrong = verdict(again, lambda rows, columns: measured(rows, columns + 1))
    assert "Expected 42 for the bytes of all, got 56" in wrong.sentence


def test_where_another_seed_gives_the_same_cases_none_are_kept(recorded):
    recorded(CHECK)
    recorded(dataclasses.replace(CHECK, cases=lambda seed: CASES))
    assert practice_pack.is_recorded(EXERCISE)
    assert not practice_pack.is_recorded(EXERCISE, again=True)


def test_a_case_that_an_answer_spoils_is_whole_in_the_next_try(recorded):
    check = recorded(CHECK)
    check.cases(1)[0]["rows"] = 99
    assert check.cases(1) == CASES


def test_tensors_that_are_right_are_recorded_for_a_summary(recorded):
    judge = ImplementationJudge(
        lambda rows, columns: {"total": torch.full((rows,), float(columns))},
        scenarios=(),
    )
    check = recorded(dataclasses.replace(CHECK, judge=judge))
    assert torch.equal(check.judge.measurement(CASES[1])["total"], torch.tensor([4.0, 4.0]))
    assert check.judge.scenarios == ()


def test_what_a_mistake_gives_in_each_case_is_kept_by_part_and_comes_back(recorded):
    def only_wide(rows, columns):
        return {"bytes": rows} if columns == 1 else {"ratio": 9.0, "bytes": rows}

    mistakes = [Symptom("None. Why?", lambda rows, columns: {}), Symptom("Rows. Why?", only_wide)]
    judge = ValueJudge(measured, *mistakes)
    (kept,) = recorded(dataclasses.replace(CHECK, judge=judge)).judge.mistakes
    assert [kept.numbers(case, judge.wrong_numbers) for case in CASES] == [
        only_wide(**case) for case in CASES
    ]
    (written,) = practice_pack.read(EXERCISE)["mistakes"]
    assert written["numbers"] == {
        "bytes": [2, 2, 3, 3, 5, 5],
        "ratio": [None, 9.0, None, 9.0, None, 9.0],
    }


@dataclasses.dataclass
class Whole:
    """A mistake known by all that it gets wrong: in the narrow cases the last number alone."""

    hint: str = "Which of the two is wrong?"
    is_complete: bool = True
    is_generated: bool = False

    def numbers(self, case, judge):
        return {"last": 2} if case["columns"] == 1 else {"first": 1, "last": 2}


def test_a_mistake_is_known_by_all_its_parts_whichever_comes_first_in_the_pack(recorded):
    judge = ImplementationJudge(
        lambda rows, columns: {"first": 0, "last": 0}, Whole(), scenarios=()
    )
    check = recorded(dataclasses.replace(CHECK, judge=judge))

    def is_known(columns, given):
        case = next(each for each in CASES if each["columns"] == columns)
        return Whole().hint in check.judge(case, given).hints

    assert [*practice_pack.read(EXERCISE)["mistakes"][0]["numbers"]] == ["last", "first"]
    assert is_known(1, {"first": 0, "last": 2})
    assert is_known(4, {"first": 1, "last": 2})
    assert not is_known(1, {"first": 1, "last": 2})
    assert not is_known(4, {"first": 0, "last": 2})


def test_last_digits_of_another_machine_write_nothing(recorded):
    """A pack that is the same but for them is not replaced, and one that is not is."""
    recorded(CHECK)
    path = practice_files.path_of(practice_pack.ROOT, EXERCISE)

    def written_with(factor):
        before = path.read_bytes()
        judge = ValueJudge(lambda rows, columns: {"bytes": rows, "ratio": rows / 3 * factor})
        recorded(dataclasses.replace(CHECK, judge=judge))
        return path.read_bytes() != before

    assert [written_with(factor) for factor in (1, 1 + 1e-14, 1 + 1e-8)] == [True, False, True]


def test_an_exercise_without_a_pack_has_the_staffs_check(tmp_path, monkeypatch):
    monkeypatch.setattr(practice_pack, "ROOT", tmp_path)
    practice_check_of.cache_clear()
    try:
        assert practice_check_of(EXERCISE) is check_of(EXERCISE)
    finally:
        practice_check_of.cache_clear()


def test_how_an_answer_is_observed_stands_without_what_is_right(recorded, monkeypatch):
    check = recorded(CHECK)
    monkeypatch.setattr(practice_pack, "made_of", None)
    monkeypatch.setattr("safetensors.torch.load", None)
    parts = practice_pack.how_observed(EXERCISE)
    assert parts == {name: getattr(check, name) for name in parts}
    assert parts.keys() == {"observe", *practice_pack.KEPT}
