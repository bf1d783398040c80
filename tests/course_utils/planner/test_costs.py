"""What plans cost by the one model of a step, and a constant from one step of one's own."""

import math
from dataclasses import replace

import pytest

from course_utils.configs import NoSuchPlan, Plan, machine_of, preset
from course_utils.formulas.best_plan import best_plan
from course_utils.formulas.rates import Group
from course_utils.planner import MISSION, Choice, PlanCosts, Step, calibrate_from
from course_utils.planner.quantities import fastest
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
    model = replace(LLAMA, num_kv_heads=16)  # which sixteen tensor ranks divide
    large = replace(COSTS, model=model, machine=machine_of("A100-80", 16))
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


def test_a_time_that_every_constant_explains_is_refused():
    """At 0 seconds of a launch the work sets the pace, as it does at a little more."""
    step = Step(preset("Llama-3.2-1B"), 1024, 8, Plan(tensor=8))
    free = replace(COSTS.machine, launch_seconds=0.0)
    at_work = PlanCosts(step.model, 1024, 8, free).seconds_of(step.plan)
    with pytest.raises(ValueError, match="as long with half of `launch_seconds`"):
        calibrate_from(COSTS.machine, step, at_work)


def test_a_refused_time_names_what_was_varied_and_what_stays():
    said = (
        "kernels that only move bytes take 0 to 10 times.*attention and products stay.*attention="
    )
    with pytest.raises(ValueError, match=said):
        calibrate_from(COSTS.machine, COSTS.step(Plan(data=8)), 1.0)
    step = Step(preset("Llama-3.2-1B"), 1024, 8, Plan(tensor=8))
    with pytest.raises(ValueError, match="the launches of a layer take 0 to 10 times"):
        calibrate_from(COSTS.machine, step, 1000.0)


def test_a_mission_takes_everything_from_its_machine():
    other = replace(MISSION, machine=machine_of("A100-40", 4))
    assert (other.num_devices, other.usd_per_device_hour) == (4, 1.2)
    with pytest.raises(TypeError, match="device"):
        replace(MISSION, device="H100-SXM")


TWELVE_HEADS = replace(preset("Llama-3.2-1B"), num_heads=12, num_kv_heads=12, hidden_size=1536)
TWELVE = PlanCosts(TWELVE_HEADS, 8192, 240, machine_of("A100-80", 12))


def test_twelve_ranks_span_two_nodes():
    assert [Group(n).num_nodes for n in (1, 8, 9, 12, 16, 17)] == [1, 1, 2, 2, 2, 3]
    assert [Group(2, stride).num_nodes for stride in (1, 4, 8)] == [1, 1, 2]
    rates, num_bytes = rates_of(TWELVE.machine), 2**30
    twelve = rates.collective("all_gather", num_bytes, Group(12))
    assert twelve == pytest.approx(11 / 12 * num_bytes / 200e9)  # eight adapters of 25 GB/s


@pytest.mark.parametrize(
    ("costs", "plan", "why"),
    [
        (COSTS, Plan(data=8, micro_batch=128), "128 sequences of a micro-batch do not divide 64"),
        (COSTS, Plan(data=8, micro_batch=3), "3 sequences of a micro-batch do not divide 64"),
        (COSTS, Plan(pipeline=64), "64 devices of 8"),
        (COSTS, Plan(data=4), "4 devices of 8"),
        (replace(COSTS, num_sequences=4), Plan(data=8), "8 replicas do not divide 4 sequences"),
        (replace(COSTS, machine=machine_of("A100-80", 9)), Plan(tensor=9), "key and value heads"),
        (replace(COSTS, machine=machine_of("A100-80", 5)), Plan(pipeline=5), "32 layers"),
        (TWELVE, Plan(tensor=12), "12 tensor ranks do not divide 8,192 tokens of a sequence"),
    ],
)
def test_a_plan_that_nobody_can_start_costs_nothing_but_a_sentence(costs, plan, why):
    for cost in (costs.bytes_of, costs.seconds_of, costs.memory, costs.seconds_by_part):
        with pytest.raises(NoSuchPlan, match=f"no such plan.*{why}"):
            cost(plan)
    mission = replace(
        MISSION,
        model=costs.model,
        machine=costs.machine,
        tokens_per_step=costs.num_sequences * MISSION.seq_len,
    )
    with pytest.raises(NoSuchPlan, match=why):
        Choice(mission, plan)


def test_a_search_passes_over_tensor_ranks_that_do_not_divide_the_sequence():
    mission = replace(
        MISSION, model=TWELVE_HEADS, machine=TWELVE.machine, tokens_per_step=240 * 8192
    )
    chosen = fastest({"best_plan": best_plan}, mission)
    assert chosen.tensor in (1, 2, 4)
    assert all(each.tensor in (1, 2, 4) for each in Choice(mission, chosen).runners_up())
