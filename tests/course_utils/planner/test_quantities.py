"""The lines of a plan, from the course's own functions, against numbers made by hand."""

import math
from dataclasses import replace

import pytest

from course_utils.configs import Plan, preset
from course_utils.formulas.rates import Group
from course_utils.planner import (
    COURSE_FUNCTIONS,
    MISSION,
    QUANTITIES,
    PlanCosts,
    course_function,
)
from course_utils.planner.quantities import fastest, link_rate, messages_rate
from course_utils.planner.rates import rates_of

COURSE = {name: course_function(name) for name in COURSE_FUNCTIONS}
VALUES = {each.label: each.value(COURSE, MISSION) for each in QUANTITIES}


def test_work_time_and_cost_follow_from_the_flops_of_a_token():
    per_token = 57_912_852_480  # of Llama-3-8B at 8,192 tokens, forward and backward
    assert VALUES["work"] == pytest.approx(per_token * 1e11 / 1e21)
    seconds = per_token * 1e11 / (8 * 0.4 * 989.4e12)
    assert VALUES["time"] == pytest.approx(seconds / 86_400)
    assert VALUES["cost"] == pytest.approx(seconds / 3600 * 8 * 2.5)


def test_time_at_the_roof_is_that_of_each_product_by_itself():
    """Linear layers compute at the peak; scores of attention wait for the memory."""
    s, d, cores, peak, bandwidth = 8192, 128, 32 * 32, 989.4e12, 3.35e12
    attention = 3 * 2 * cores * 2 * (2 * s * d + s * s) / bandwidth
    all_products, of_attention = 57_912_852_480 * s, 3 * 4 * cores * s * s * d
    seconds = (all_products - of_attention) / peak + attention
    days = 1e11 / s / 8 * seconds / 86_400
    assert VALUES["time at the roof"] == pytest.approx(days)
    assert round(days, 1) == 11.1


def test_memory_is_that_of_the_picture_of_unit_03():
    assert VALUES["state on each device"] == 16 * 8_030_261_248 / 1e9
    assert round(VALUES["with one sequence"]) == 177


def test_recomputation_leaves_layer_inputs_and_the_loss():
    """The picture of unit 05: 44 GB of layers become 2, beside state, norm, head and logits."""
    inputs = 32 * 2 * 8192 * 4096
    final_norm = 8192 * 4096 * 2 + 8192 * 4  # its input, and 1/rms in fp32
    ids = 8 * 8192
    for_the_head, targets, log_softmax = 8192 * 4096 * 2, 8192 * 8, 4 * 8192 * 128_256
    beside = ids + final_norm + for_the_head + targets + log_softmax
    state = VALUES["state on each device"]
    assert VALUES["with layers recomputed"] == pytest.approx(state + (inputs + beside) / 1e9)
    assert round(VALUES["with layers recomputed"]) == 135


def test_a_step_and_its_exchange():
    assert VALUES["passes in each step"] == 4 * 2**20 / 8192 / 8
    num_bytes = 2 * 8_030_261_248  # of bf16 gradients
    sent = rates_of(MISSION.machine).collective("all_reduce", num_bytes, Group(8))
    for_one_token = 4 * 8_030_261_248 / (0.4 * 989.4e12)
    assert VALUES["tokens that hide the exchange"] == math.ceil(sent / for_one_token)


def test_eight_devices_that_share_each_layer_exchange_for_a_week():
    """Eight messages of a hidden state, 67 MB, a layer: at what such gathers reach, 281 GB/s."""
    hidden = 2 * 8192 * 4096
    seconds = rates_of(MISSION.machine).collective("all_gather", hidden, Group(8))
    days = 1e11 / 8192 * 32 * 8 * seconds / 86_400
    assert VALUES["exchange if all devices share each layer"] == pytest.approx(days)
    assert (round(days, 1), round(messages_rate(MISSION) / 1e9)) == (7.6, 281)


def test_one_device_has_nobody_to_send_to():
    alone = replace(MISSION, machine=replace(MISSION.machine, num_devices=1))
    assert link_rate(alone, "all_reduce", 10**9) == MISSION.machine.link_bytes_per_second


def test_a_pipeline_cuts_the_state_and_not_the_activations():
    """Eight micro-batches on an eighth of the layers are one on all of them."""
    state = 16 * 8_030_261_248 / 8 / 1e9
    assert round(VALUES["first stage of a pipeline"] - state) == 44
    assert VALUES["idle in it"] == pytest.approx(100 * 7 / (512 + 7))


def test_every_function_of_the_plan_is_used_and_no_other():
    used = {name for each in QUANTITIES for name in each.needs}
    assert used == set(COURSE_FUNCTIONS)


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda each: each.label)
def test_a_quantity_needs_what_it_says(quantity):
    functions = {name: COURSE[name] for name in quantity.needs}
    assert quantity.value(functions, MISSION) > 0
    for name in quantity.needs:
        with pytest.raises(KeyError):
            quantity.value({k: f for k, f in functions.items() if k != name}, MISSION)


def test_sharded_it_fits():
    """16 bytes for each of 8,030,261,248 / 8 parameters, and what unit 03 keeps of a sequence."""
    assert VALUES["state, sharded"] == 16 * 1_003_782_656 / 1e9
    kept = VALUES["with one sequence"] - VALUES["state on each device"]
    assert VALUES["sharded, with one sequence"] == pytest.approx(VALUES["state, sharded"] + kept)
    assert round(VALUES["sharded, with one sequence"]) == 64


def test_the_fastest_plan_fits_in_time():
    """Two replicas of four stages: 23,842 steps of 70.9 seconds."""
    assert round(VALUES["memory of the fastest plan"], 1) == 79.4
    assert VALUES["its time"] == pytest.approx(1e11 / 2**22 * 70.9 / 86_400, rel=1e-3)
    assert VALUES["its cost"] == pytest.approx(VALUES["its time"] * 24 * 8 * 2.5)
    plan = fastest(COURSE, MISSION)
    assert str(plan) == "d 2 t 1 p 4, stage 1, micro-batch 1"


def none(*_):
    return None


def on_four_devices(*_):
    return Plan(data=4)


@pytest.mark.parametrize(
    ("answer", "message"), [(none, "gave None where a Plan"), (on_four_devices, "no such plan")]
)
def test_a_planner_that_gives_no_plan_of_this_machine_is_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        fastest({"best_plan": answer}, MISSION)


@pytest.mark.parametrize(
    ("name", "what"), [("DeepSeek-V3", "latent attention"), ("Mixtral-8x7B", "experts")]
)
def test_what_no_run_checks_has_no_plan_even_if_a_planner_gives_one(name, what):
    with pytest.raises(ValueError, match=what):
        fastest({"best_plan": lambda *_: Plan(data=8)}, replace(MISSION, model=preset(name)))


def test_fp32_gradients_take_two_bytes_more_of_each_parameter():
    other = replace(MISSION, has_fp32_gradients=True)
    more = next(each for each in QUANTITIES if each.label == "state on each device")
    assert more.value(COURSE, other) == 18 * 8_030_261_248 / 1e9
    assert PlanCosts.of(other).step(Plan(data=8)).plan.has_fp32_gradients
