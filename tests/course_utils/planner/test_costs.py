"""What plans cost by the one model of a step, and a constant from one step of one's own."""

import math
from dataclasses import replace

import pytest

from course_utils.configs import Plan, machine_of, preset
from course_utils.formulas.rates import Group
from course_utils.planner import MISSION, PlanCosts, Step, calibrate_from
from course_utils.planner.rates import rates_of

LLAMA = preset("Llama-3-8B")
COSTS = PlanCosts(LLAMA, 8192, 512, machine_of("H100-SXM", 8))


def test_parts_are_the_whole_and_ones_own():
    plan = Plan(data=2, pipeline=4, zero_stage=1)
    seconds = COSTS.seconds_by_part(plan)
    assert math.fsum(seconds.values()) == COSTS.seconds_of(plan)
    seconds.clear()
    assert COSTS.seconds_by_part(plan)
    assert sum(COSTS.bytes_by_part(plan).values()) == COSTS.bytes_of(plan)


def test_stage_two_scatters_for_each_micro_batch_and_so_costs_more_than_stage_one():
    """Unit 10: 64 scatters of bf16 gradients instead of one."""
    one, two = (COSTS.seconds_of(Plan(data=8, zero_stage=n)) for n in (1, 2))
    num_bytes = 2 * 8_030_261_248
    rates = rates_of(COSTS.machine)
    each = rates.collective("reduce_scatter", num_bytes, Group(8))
    whole = rates.collective("all_reduce", num_bytes, Group(8))
    assert two - one == pytest.approx(64 * each - whole)


def test_layers_that_run_again_take_a_third_of_their_products_more():
    kept, again = (
        COSTS.seconds_by_part(Plan(data=8, is_recomputed=each))["work"] for each in (False, True)
    )
    assert 1.25 < again / kept < 4 / 3
    tensor = (Plan(tensor=8, is_recomputed=each) for each in (False, True))
    kept, again = (COSTS.seconds_by_part(each)["messages"] for each in tensor)
    assert again / kept == pytest.approx(14 / 10, rel=0.03)


def test_a_layer_that_runs_again_is_whole_once():
    kept, again = (COSTS.memory(Plan(data=8, is_recomputed=each)) for each in (False, True))
    inputs = 32 * 2 * 8192 * 4096
    ends = 2 * 2 * 8192 * 4096
    assert again.kept["activations"] == inputs + ends
    assert 32 * again.added["layer that runs again"] == kept.kept["activations"] - ends


def test_stage_three_holds_a_gathered_layer_and_the_next():
    memory = COSTS.memory(Plan(data=8, zero_stage=3))
    layer = 2 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert memory.kept["gathered layer"] == memory.added["next gathered layer"] == layer
    assert memory.kept["weights"] == 2 * 1_003_782_656


def test_beyond_a_node_links_are_slower():
    """What one link for 512 devices hid: messages between tensor ranks on two nodes."""
    large = replace(COSTS, machine=machine_of("A100-80", 16))
    parts = large.seconds_by_part(Plan(tensor=16, micro_batch=1))
    inside = large.seconds_by_part(Plan(tensor=8, data=2, micro_batch=1))
    assert math.fsum(parts.values()) > math.fsum(inside.values())


def test_the_published_run_of_the_same_model_is_predicted():
    """torchtitan, 8 H100s of 2.4 TB/s and 500 W, two sequences each: 6,667 tokens/s on each."""
    machine = replace(COSTS.machine, memory_bytes_per_second=2.4e12)
    costs = replace(COSTS, machine=machine, num_sequences=16, has_fp32_gradients=True)
    seconds = costs.seconds_of(Plan(data=8, zero_stage=3, micro_batch=2))
    assert 16 * 8192 / 8 / seconds == pytest.approx(6667, rel=0.08)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.4])
def test_a_step_of_ones_own_comes_out_as_it_was(factor):
    step = COSTS.step(Plan(data=8, zero_stage=1))
    measured = factor * COSTS.seconds_of(step.plan)
    own = calibrate_from(COSTS.machine, step, measured)
    assert replace(COSTS, machine=own).seconds_of(step.plan) == pytest.approx(measured)
    assert own == replace(COSTS.machine, elementwise=own.elementwise)


def test_where_launches_set_the_pace_their_seconds_are_calibrated():
    step = Step(preset("Llama-3.2-1B"), 1024, 8, Plan(tensor=8))
    costs = PlanCosts(step.model, 1024, 8, COSTS.machine)
    own = calibrate_from(COSTS.machine, step, 1.5 * costs.seconds_of(step.plan))
    assert own.elementwise == COSTS.machine.elementwise
    assert own.launch_seconds > COSTS.machine.launch_seconds


@pytest.mark.parametrize("seconds", [1.0, 10_000.0])
def test_a_time_that_no_software_explains_is_refused(seconds):
    with pytest.raises(ValueError, match="are model, tokens and plan those of the measured step"):
        calibrate_from(COSTS.machine, COSTS.step(Plan(data=8)), seconds)


def test_a_mission_takes_everything_from_its_machine():
    other = replace(MISSION, machine=machine_of("A100-40", 4))
    assert (other.num_devices, other.usd_per_device_hour) == (4, 1.2)
    with pytest.raises(TypeError, match="device"):
        replace(MISSION, device="H100-SXM")
