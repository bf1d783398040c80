"""Bytes of tensors and of the training state: expected numbers can be checked with a pencil."""

import pytest

from course_utils.configs import PRECISIONS, precision
from course_utils.formulas.memory import state_bytes, state_bytes_of_recipe
from course_utils.formulas.tensors import tensor_bytes


def test_tensor_bytes():
    # 4 * 2,048 * 1,024 = 2**23 numbers of 2 bytes = 2**24 bytes
    assert tensor_bytes((4, 2048, 1024), 2) == 2**24
    assert tensor_bytes((), 4) == 4
    assert tensor_bytes((3, 0, 5), 4) == 0


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


@pytest.mark.parametrize("name", PRECISIONS)
def test_state_bytes_of_a_recipe_count_the_master_copy_to_the_optimizer(name):
    weights, gradients, master, moments = STATE[name]
    wanted = {"weights": weights, "gradients": gradients, "optimizer": master + moments}
    assert state_bytes_of_recipe(1, name) == wanted
