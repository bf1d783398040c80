"""The lines of a plan, from the course's own functions, against numbers made by hand."""

import math

import pytest

from course_utils.planner import COURSE_FUNCTIONS, MISSION, QUANTITIES, course_function

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
    sent = 2 * 7 / 8 * 2 * 8_030_261_248 / 200e9  # an all-reduce of bf16 gradients
    for_one_token = 4 * 8_030_261_248 / (0.4 * 989.4e12)
    assert VALUES["tokens that hide the exchange"] == math.ceil(sent / for_one_token)


def test_eight_devices_that_share_each_layer_exchange_for_ten_days():
    sent = 32 * 8 * 7 / 8 * 8192 * 4096 * 2  # of one sequence, in bf16
    days = 1e11 / 8192 * sent / 200e9 / 86_400
    assert VALUES["exchange if all devices share each layer"] == pytest.approx(days)
    assert round(days, 1) == 10.6


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
    """Replicas and stages: 23,842 steps of 64.1 seconds."""
    assert round(VALUES["memory of the fastest plan"], 1) == 76.6
    assert VALUES["its time"] == pytest.approx(1e11 / 2**22 * 64.05 / 86_400, rel=1e-3)
    assert VALUES["its cost"] == pytest.approx(VALUES["its time"] * 24 * 8 * 2.5)
