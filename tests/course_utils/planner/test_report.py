"""A report says what the functions of a plan say, and what would move its time."""

from dataclasses import replace

import pytest

from course_utils.configs import machine_of, preset
from course_utils.formulas.best_plan import best_plan
from course_utils.planner import COURSE_FUNCTIONS, MISSION, Report, course_function
from course_utils.planner.quantities import days_of_fastest
from course_utils.planner.sensitivity import DOUBLED, doubled

COURSE = {name: course_function(name) for name in COURSE_FUNCTIONS}
SMALL = replace(
    MISSION,
    name="Llama-3.2-1B on 4 × A100-80",
    model=preset("Llama-3.2-1B"),
    machine=machine_of("A100-80", num_devices=4),
)
TOO_LARGE = replace(MISSION, name="Llama-3-70B on 8 × H100-SXM", model=preset("Llama-3-70B"))


def values(report):
    return {label: value for label, value, _ in report.rows()}


def test_a_report_is_about_its_mission():
    report = Report(SMALL, COURSE, ["A note."])
    assert str(report).startswith("Llama-3.2-1B on 4 × A100-80: 100 billion tokens in 30 days")
    assert str(report).endswith("\nA note.")
    assert values(report)["its time"] == f"{days_of_fastest(COURSE, SMALL):.3g} of 30 days ✓"
    assert values(report)["its time with 2 × tokens"] == "× 2.00"
    assert "<td" in report._repr_html_() and "<div>A note.</div>" in report._repr_html_()


def test_a_report_uses_the_functions_that_it_is_given():
    twice = COURSE | {"training_flops_per_token": lambda *_: 2 * 57_912_852_480}
    assert values(Report(MISSION, twice))["work"] == "11.6 ·10²¹ FLOPs"


def test_memory_time_and_cost_ask_once_for_the_fastest_plan():
    asked = []

    def chosen(model, num_sequences, machine, costs):
        asked.append(machine)
        return best_plan(model, num_sequences, machine, costs)

    said = values(Report(SMALL, COURSE | {"best_plan": chosen}))
    assert said == values(Report(SMALL, COURSE))
    assert len(asked) == len(DOUBLED)  # as it is, and each doubled; more tokens change no plan


def test_what_is_not_ones_own_is_the_courses_and_named():
    own = {name: COURSE[name] for name in [*COURSE_FUNCTIONS][2:]}
    first, second = [*COURSE_FUNCTIONS][:2]
    report = Report.of(SMALL, own)
    assert values(report) == values(Report(SMALL, COURSE))
    assert report.notes == [f"From the course: `{first}`, `{second}`."]
    assert Report.of(SMALL, COURSE).notes == []


def test_where_no_plan_fits_the_report_says_so_and_no_more():
    said = values(Report(TOO_LARGE, COURSE))
    assert said["its time"] == "none"
    assert not any("2 ×" in label for label in said)
    assert "no plan fits: take more devices" in str(Report(TOO_LARGE, COURSE))


@pytest.mark.parametrize("mission", [MISSION, SMALL], ids=str)
def test_days_follow_tokens_and_what_moves_them_most_comes_first(mission):
    factors = doubled(COURSE, mission)
    assert factors["tokens"] == 2
    assert factors.keys() == DOUBLED.keys()
    moved = [max(factor, 1 / factor) for factor in factors.values()]
    assert moved == sorted(moved, reverse=True)
    assert factors["tokens of a sequence"] > 1 > factors["speed of products"] > 0.5
    assert 0.5 < factors["speed of memory"] < 1
    assert factors["memory"] <= 1


def test_an_input_that_leaves_no_plan_is_left_out():
    tight = replace(SMALL, machine=replace(SMALL.machine, memory_bytes=12 * 10**9))
    assert "tokens" in doubled(COURSE, tight)
    assert "tokens of a sequence" not in doubled(
        COURSE, replace(tight, seq_len=next(n for n in lengths() if is_the_last(tight, n)))
    )


def lengths():
    return (2**n for n in range(10, 24))


def is_the_last(mission, seq_len):
    """Whether a sequence fits, and one of twice its length does not."""
    try:
        days_of_fastest(COURSE, replace(mission, seq_len=2 * seq_len))
    except ValueError:
        return True
    return False
