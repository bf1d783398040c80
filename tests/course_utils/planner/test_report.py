"""A report says what the functions of a plan say, and what would move its time."""

import re
from dataclasses import replace

import pytest

from course_utils.configs import Plan, machine_of, preset
from course_utils.formulas.best_plan import best_plan
from course_utils.planner import COURSE_FUNCTIONS, MISSION, Report, course_function
from course_utils.planner.choice import Choice
from course_utils.planner.quantities import days_of_fastest
from course_utils.planner.sensitivity import DOUBLED, doubled
from course_utils.planner.truth.kinds import time_line, why_no_line

STAGED = Plan(data=2, pipeline=4, zero_stage=1)
COURSE = {name: course_function(name) for name in COURSE_FUNCTIONS}
SMALL = replace(
    MISSION,
    name="Llama-3.2-1B",
    model=preset("Llama-3.2-1B"),
    machine=machine_of("A100-80", num_devices=4),
)
TOO_LARGE = replace(MISSION, name="Llama-3-70B", model=preset("Llama-3-70B"))


def report(mission):
    return Report(mission, COURSE)


def values(report):
    return {label: value for label, value, _ in report.rows()}


def test_a_report_is_about_its_mission():
    said = Report(SMALL, COURSE, ["A note."])
    assert str(said).startswith("Llama-3.2-1B on 4 × A100-80: 100 billion tokens in 30 days")
    assert str(said).endswith("\nA note.")
    assert values(said)["its time"] == f"{days_of_fastest(COURSE, SMALL):.3g} of 30 days ✓"
    assert values(said)["its time with 2 × tokens"] == "× 2.00"
    assert "<td" in said._repr_html_() and "<div>A note.</div>" in said._repr_html_()


def test_a_report_says_which_time_is_rough_and_which_is_the_plans():
    labels = [label for label, *_ in report(SMALL).rows()]
    assert labels.index("roughly") < labels.index("time") < labels.index("with the fastest plan")
    assert labels.index("with the fastest plan") < labels.index("its time")


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
    said = Report.of(SMALL, own)
    assert values(said) == values(Report(SMALL, COURSE))
    assert said.notes == [f"From the course: `{first}`, `{second}`."]
    assert Report.of(SMALL, COURSE).notes == []


def test_where_no_plan_fits_the_report_says_so_and_no_more():
    said = values(Report(TOO_LARGE, COURSE))
    assert said["its time"] == said["the plan"] == "none"
    assert not any("2 ×" in label for label in said)
    assert re.search(
        r"no plan fits: the smallest .* takes .* GB; take more", str(report(TOO_LARGE))
    )


def test_seven_devices_are_not_told_to_take_more():
    seven = replace(MISSION, machine=replace(MISSION.machine, num_devices=7))
    assert "no plan uses all of 7 devices" in str(report(seven))


def test_the_machine_says_its_name_peak_memory_and_price_by_itself():
    """The walk's case: 0.255·10²¹ FLOPs on four A100s at 40 % take 5.9 days, not 1.87."""
    other = replace(SMALL, num_tokens=24 * 10**9)
    said = values(report(other))
    assert str(other).startswith("Llama-3.2-1B on 4 × A100-80: 24 billion tokens")
    assert "24.7 billion" in str(replace(other, num_tokens=247 * 10**8))
    assert said["time"].startswith("5.92 of 30 days")
    assert "of 83 GB" in said["with one sequence"]
    small = replace(other, machine=replace(other.machine, name="mine", memory_bytes=22 * 10**9))
    assert str(small).startswith("Llama-3.2-1B on 4 × mine")
    assert "of 22 GB ✗" in values(report(small))["with one sequence"]


def test_a_report_names_the_plan_its_parts_and_two_others():
    said = {label: (value, note) for label, value, note in report(MISSION).rows()}
    assert said["the plan"][0] == "d 2 t 1 p 4, stage 1, micro-batch 1, 256 of them"
    assert said["the plan"][1].startswith("fits: at least 74.4 GB, 79.4 with what")
    assert said["its memory by part"][0].startswith("state 24.9, layers 49.6")
    assert said["its step"][1].startswith("work 69.89, launches 0.00, bubble 0.75")
    assert {"number 2", "number 3"} < said.keys() and "number 4" not in said


def test_the_error_bar_is_that_of_the_committed_line():
    line = time_line(MISSION.machine, Plan(data=2, pipeline=4, zero_stage=1))
    assert line.on == "Playbook, seconds of a step, 1 node"
    share = line.of_class.ninety / 100
    days = days_of_fastest(COURSE, MISSION)
    wanted = f"{days:.3g} days, from {days / (1 + share):.3g} to {days / (1 - share):.3g}"
    assert values(report(MISSION))["its days"] == wanted


@pytest.mark.parametrize(
    ("name", "num_devices", "plan", "wanted"),
    [
        ("H100-SXM", 32, Plan(data=8, tensor=4), "at most 4 nodes"),
        ("H100-SXM", 256, Plan(data=32, tensor=8, zero_stage=1), "at most 32 nodes"),
        ("H100-SXM", 512, Plan(data=64, tensor=8), "64 nodes"),
        ("H100-SXM", 32, Plan(data=2, tensor=16), "tensor ranks beyond a node"),
        ("H100-SXM", 8, Plan(data=8, zero_stage=3), "llm-foundry"),
        ("A100-80", 8, Plan(data=8, zero_stage=3, is_recomputed=True), "llm-foundry"),
        ("A100-80", 8, Plan(data=8), None),
        ("H100-SXM", 8, Plan(data=8, zero_stage=2), None),
        ("H100-SXM", 8, Plan(data=8, is_recomputed=True), None),
        ("A100-40", 8, Plan(data=8, zero_stage=3), None),
    ],
)
def test_a_plan_has_the_bar_of_its_kind_or_none(name, num_devices, plan, wanted):
    line = time_line(machine_of(name, num_devices), plan)
    assert line is None if wanted is None else wanted in line.on


def test_constants_of_ones_own_have_no_bar():
    machine = replace(MISSION.machine, elementwise=4.0)
    assert time_line(machine, Plan(data=8)) is None
    assert time_line(replace(machine, name="mine"), Plan(data=8)) is None
    assert "no error bar" in str(report(replace(MISSION, machine=machine)))


@pytest.mark.parametrize("mission", [MISSION, SMALL], ids=str)
def test_days_follow_tokens_and_what_moves_them_most_comes_first(mission):
    factors = doubled(COURSE, mission)
    assert factors["tokens"] == 2
    assert factors.keys() == DOUBLED.keys()
    moved = [max(factor, 1 / factor) for factor in factors.values()]
    assert moved == sorted(moved, reverse=True)
    assert factors["tokens of a sequence"] > 1 > factors["speed of products"] > 0.5
    assert 0.5 < factors["speed of memory"] < 1
    assert factors["speed of adapters"] == 1  # one node
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


@pytest.mark.parametrize(
    "change",
    [
        {"matmul_flops_per_second": 2 * 794.5e12},
        {"link_bytes_per_second": 10e9},
        {"adapter_bytes_per_second": 25e9},
        {"peak_flops_per_second": 312e12},
        {"memory_bytes_per_second": 2.4e12},
        {"spread_ratio": 1.0},
    ],
    ids=str,
)
def test_a_machine_half_replaced_has_no_bar_and_is_told(change):
    machine, plan = replace(MISSION.machine, **change), Plan(data=2, pipeline=4, zero_stage=1)
    assert time_line(machine, plan) is None
    (name,) = change
    assert name in why_no_line(machine, plan)
    assert time_line(replace(MISSION.machine, memory_bytes=140 * 10**9), plan)


def test_a_renamed_machine_is_not_the_measured_one():
    machine = replace(machine_of("A100-80", 8), peak_flops_per_second=989e12)
    assert "not the measured one (peak_flops_per_second)" in why_no_line(machine, Plan(data=8))


def test_where_there_is_no_bar_the_nearest_kinds_stand():
    a100, h100 = machine_of("A100-80", 8), machine_of("H100-SXM", 8)
    foundry = "nearest: A100-80, one node, ZeRO 3: nine in ten within 6 %"
    for machine in (a100, machine_of("A100-40", 8), replace(a100, name="mine")):
        assert foundry in why_no_line(machine, Plan(data=8))
    said = why_no_line(h100, Plan(data=8, is_recomputed=True))
    assert "H100-SXM, one node, ZeRO 3" in said
    assert "H100-SXM, one node, ZeRO 0 or 1, layers kept: nine in ten within 8 %" in said


def test_after_a_calibration_the_reason_is_the_constant():
    machine = replace(MISSION.machine, elementwise=4.0)
    assert "elementwise is a constant of one's own" in why_no_line(machine, Plan(data=8))


def test_its_time_says_whose_constants_it_has():
    own = replace(MISSION, machine=replace(MISSION.machine, elementwise=4.0))
    notes = {each: {label: note for label, _, note in report(each).rows()} for each in (own, SMALL)}
    assert "elementwise of one's own" in notes[own]["its time"]
    assert "elsewhere it is uncertain" in notes[own]["its time"]
    assert "constants of measured software" not in str(report(own))
    assert "of nanotron's on H100s" in notes[SMALL]["its time"]


def test_the_two_times_name_each_other_and_their_utilisation():
    said = {label: (value, note) for label, value, note in report(SMALL).rows()}
    assert said["work"][1] == "assumed: attention in full, not the half that a causal mask leaves"
    value, note = said["its utilisation"]
    share = float(value.removesuffix("% of the peak")) / 100
    same = report(replace(SMALL, utilisation=share))
    assert float(values(same)["time"].split()[0]) == pytest.approx(
        days_of_fastest(COURSE, SMALL), rel=5e-3
    )
    assert "“time” assumes 40%" in note


def test_a_framework_that_cannot_express_the_plan_has_the_fastest_that_it_can_express():
    notes = {label: note for label, _, note in Choice(MISSION, STAGED).rows()}
    others = [each for each in Choice(MISSION, STAGED).possible if each.pipeline == 1]
    costs, limit = Choice(MISSION, STAGED).costs, MISSION.machine.memory_bytes
    fitting = [each for each in others if costs.memory(each).expected <= limit]
    assert f"the fastest that it can express: {fitting[0]} (" in notes["in DeepSpeed"]
    assert "zero_optimization.stage=" in notes["in DeepSpeed"]


def test_where_a_framework_can_express_no_plan_the_report_says_so():
    notes = {label: note for label, _, note in Choice(MISSION, STAGED).rows()}
    assert (
        "; nor can it express any other plan that fits with gradients in bf16"
        in (notes["in nanotron"])
    )
