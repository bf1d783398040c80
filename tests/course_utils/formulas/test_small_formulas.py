"""Bytes, memories and seconds: expected numbers can be checked with a pencil."""

import pytest

from course_utils.configs import PRECISIONS, RunConfig, device, precision, preset
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.memory import (
    four_memories,
    largest_micro_batch,
    state_bytes,
    state_bytes_of_recipe,
)
from course_utils.formulas.parameters import parameters
from course_utils.formulas.step_time import step_seconds
from course_utils.formulas.tensors import tensor_bytes


def test_tensor_bytes():
    # 4 * 2,048 * 1,024 = 2**23 numbers of 2 bytes = 2**24 bytes
    assert tensor_bytes((4, 2048, 1024), 2) == 2**24
    assert tensor_bytes((), 4) == 4
    assert tensor_bytes((3, 0, 5), 4) == 0


def test_step_seconds():
    # 4 * 1,000 tokens * 6e9 FLOPs = 2.4e13 FLOPs; at 1e14 FLOP/s 0.24 s
    assert step_seconds(4, 1000, 6 * 10**9, 10**14) == 0.24


def test_four_memories():
    # 100 + 40 = 140 allocated; + 10 = 150 reserved; + 500 = 650 seen by the driver
    live = {"parameters": 100, "saved_for_backward": 40}
    assert four_memories(live, 10, 500) == {
        "saved_bytes": 40,
        "allocated_bytes": 140,
        "reserved_bytes": 150,
        "driver_bytes": 650,
    }


# Per parameter: weights + gradients + master weights + moments.
STATE = {
    "fp32": (4, 4, 0, 8),
    "bf16": (2, 2, 4, 8),
    "bf16-fp32-gradients": (2, 4, 4, 8),
    "bf16-both-gradients": (2, 6, 4, 8),
}


@pytest.mark.parametrize("name", PRECISIONS)
def test_state_bytes(name):
    sizes = state_bytes(1000, precision(name))
    assert tuple(sizes.values()) == tuple(1000 * each for each in STATE[name])
    assert list(sizes) == ["weights", "gradients", "master_weights", "moments"]


# The lectures' tables, in bytes of 10**9 for rounded parameter counts.
@pytest.mark.parametrize(
    ("billions", "name", "gigabytes"),
    [
        (1, "fp32", 16),
        (7, "bf16", 112),
        (70, "bf16", 1120),
        (405, "bf16", 6480),
        (8, "bf16", 128),
        (8, "bf16-fp32-gradients", 144),
        (8, "fp32", 128),
        (8, "bf16-both-gradients", 160),
    ],
)
def test_state_of_the_lectures_tables(billions, name, gigabytes):
    sizes = state_bytes(billions * 10**9, precision(name))
    assert sum(sizes.values()) == gigabytes * 10**9


@pytest.mark.parametrize("memory", ["A100-40", "A100-80", "H100-SXM", "H200"])
@pytest.mark.parametrize("seq_len", [1024, 2048, 8192])
@pytest.mark.parametrize("name", ["GPT-2-124M", "Llama-3.2-1B"])
def test_largest_micro_batch_is_the_first_that_fits_from_above(name, seq_len, memory):
    """An independent oracle: try sizes downwards until one fits."""
    model, memory_bytes = preset(name), device(memory).memory_bytes
    free = memory_bytes - 16 * sum(parameters(model).values())

    def saved(b: int) -> int:
        return sum(
            model_saved_bytes(model, RunConfig(micro_batch_size=b, seq_len=seq_len)).values()
        )

    expected = next((b for b in range(1000, 0, -1) if saved(b) <= free), 0)
    run = RunConfig(micro_batch_size=99, seq_len=seq_len)
    assert largest_micro_batch(model, run, memory_bytes) == expected


def test_largest_micro_batch_at_the_edge():
    """One byte less than three sequences need is enough for two."""
    model, run = preset("Llama-3.2-1B"), RunConfig(micro_batch_size=3, seq_len=1024)
    state = 16 * sum(parameters(model).values())
    needed = state + sum(model_saved_bytes(model, run).values())
    assert largest_micro_batch(model, run, needed) == 3
    assert largest_micro_batch(model, run, needed - 1) == 2
    assert largest_micro_batch(model, run, state) == 0


def test_a_model_whose_state_does_not_fit_has_no_micro_batch():
    """128 GB before the first activation, on a device of 80 GB."""
    run = RunConfig(seq_len=1)
    assert largest_micro_batch(preset("Llama-3-8B"), run, device("H100-SXM").memory_bytes) == 0


@pytest.mark.parametrize("name", PRECISIONS)
def test_state_bytes_of_a_recipe_count_the_master_copy_to_the_optimizer(name):
    weights, gradients, master, moments = STATE[name]
    wanted = {"weights": weights, "gradients": gradients, "optimizer": master + moments}
    assert state_bytes_of_recipe(1, name) == wanted
