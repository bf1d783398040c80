"""Plans: memory against ranks on fake tensors, seconds against simulators, the best against all."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from course_utils.configs import Plan, machine_of, preset
from course_utils.formulas.best_plan import best_plan, plans
from course_utils.formulas.calibration import calibrate
from course_utils.formulas.plan import (
    Task,
    model_sizes,
    plan_bytes,
    plan_seconds,
    seconds_of_step,
)
from course_utils.formulas.step_parts import elementwise_bytes, token_seconds
from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference import Block

MODEL, MACHINE = preset("Llama-3.2-1B"), machine_of("A100-80", 4)
S, SEQUENCES = 4096, 256


def parts_of(**sizes):
    return plan_bytes(MODEL, model_sizes(MODEL, S), S, SEQUENCES, Plan(**sizes))


def gigabytes(**sizes):
    return sum(parts_of(**sizes).values()) / 1e9


def seconds(machine=MACHINE, **sizes):
    return sum(plan_seconds(MODEL, S, SEQUENCES, machine, Plan(**sizes)).values())


def best_of(model, machine):
    return best_plan(model, 128, machine, Task(model, 8192, 128, machine))


def test_layers_keep_what_autograd_keeps():
    with fake_tensors():
        block = Block(MODEL, 0, dtype=torch.bfloat16)
        x = torch.empty(2, S, MODEL.hidden_size, dtype=torch.bfloat16)
        of_one = count_saved_bytes(lambda: block(x), block).total_bytes
    parts = parts_of(data=4, micro_batch=2)
    assert parts["layers"] == MODEL.num_layers * of_one
    parts = parts_of(pipeline=4, micro_batch=2)
    assert parts["layers"] == 4 * 4 * of_one  # as many micro-batches as stages


def test_a_step_of_the_practice_problem():
    assert [round(gigabytes(data=4, micro_batch=b)) for b in (1, 4)] == [31, 65]
    assert seconds(data=4) < seconds(data=4, is_recomputed=True) < 1.34 * seconds(data=4)
    assert 1.01 < seconds(tensor=4) / seconds(data=4) < 1.3
    of_replicas = seconds(data=4, zero_stage=1)  # they share the update, as stages do
    assert seconds(pipeline=4) / of_replicas == pytest.approx(259 / 256, rel=2e-3)


@pytest.mark.parametrize("seed", range(20))
def test_gradients_leave_a_step_layer_by_layer(seed):
    """Against a clock that follows each layer: computed, then sent when the link is free."""
    rng = random.Random(seed)
    layers, forward, reduce = (rng.randint(1, 9) for _ in range(3))
    now = sent = 0.0
    for _ in range(layers):
        now += 2 * forward / layers
        sent = max(now, sent) + reduce / layers
    step = seconds_of_step(3, 2, layers, forward, reduce)
    assert step["exposed"] == pytest.approx(sent - now)
    assert step["work"] + step["bubble"] == 12 * forward


def test_every_plan_uses_all_devices_and_no_other():
    found = list(plans(MODEL, SEQUENCES, MACHINE))
    assert len(found) == len({*found}) == 238
    assert {each.num_devices for each in found} == {4}


def test_the_winner_changes_with_the_machine():
    model, node = preset("Llama-3-8B"), machine_of("A100-80", 8)
    small = machine_of("A100-40", 8)
    chosen = [best_of(model, machine) for machine in (node, small)]
    assert [(each.data, each.tensor, each.pipeline) for each in chosen] == [(4, 1, 2), (2, 4, 1)]
    tiny = replace(node, memory_bytes=10**9)
    with pytest.raises(ValueError, match="no plan fits"):
        best_of(model, tiny)


def test_norms_residuals_and_gelu_move_eighteen_numbers():
    model = replace(MODEL, is_gated=False, ffn_size=4 * MODEL.hidden_size)
    assert elementwise_bytes(model)["layers"] == 16 * 18 * 2048 * 2
    assert elementwise_bytes(MODEL)["loss"] == 24 * 128_256


def test_at_the_peak_a_token_takes_its_flops():
    parts = token_seconds(MODEL, S, MACHINE, is_recomputed=False)
    core = 3 * 16 * 4 * S * 2048
    assert parts["products"] == pytest.approx((9_025_093_632 - core) / 271.2e12)
    assert parts["attention"] == pytest.approx(3.5 / 6 * core / 312e12)


@pytest.mark.parametrize("seed", range(20))
def test_constants_are_the_best_on_a_grid_too(seed):
    rng = np.random.default_rng(seed)
    true = rng.choice([0.0, 1.5, 3.0], 2) - 0.3
    columns = rng.uniform(1, 3, (6, 3))
    noise = rng.uniform(0.9, 1.1, 6)
    measured = np.maximum(columns[:, 0] / 2, columns @ [1, *true]) * noise
    rows = np.column_stack([columns, measured])

    def squares(first, second):
        return ((columns @ [1, first, second] / measured - 1) ** 2).sum()

    found = calibrate(rows.tolist()).values()
    grid = np.arange(0, 4, 0.05)
    best = min(squares(first, second) for first in grid for second in grid)
    assert min(found) >= 0
    assert squares(*found) <= best + 1e-12
