"""What training keeps after a step matches the formula, in each recipe; and it trains."""

import pytest
import torch

from course_utils.configs import PRECISIONS
from course_utils.formulas.memory import state_bytes
from course_utils.instruments import storage_bytes
from course_utils.reference.mixed_precision import TrainingState, step_on_masters


@pytest.mark.parametrize("recipe", PRECISIONS)
def test_bytes_are_those_of_the_formula(recipe):
    state = TrainingState(37, recipe)
    state.step()
    held = {part: sum(map(storage_bytes, each)) for part, each in state.tensors().items()}
    parts = state_bytes(37, PRECISIONS[recipe])
    assert held == {
        "weights": parts["weights"],
        "gradients": parts["gradients"],
        "optimizer": parts["master_weights"] + parts["moments"],
    }


@pytest.mark.parametrize("recipe", PRECISIONS)
def test_a_step_moves_the_weights(recipe):
    """Adam steps by about the learning rate, 1e-3; just below one, bf16 has a spacing of 4e-3."""
    state = TrainingState(3, recipe)
    for _ in range(5):
        state.step()
    assert bool((state.weight < 1).all())


def test_masters_remember_what_a_weight_in_bf16_loses():
    weights = [torch.nn.Parameter(torch.ones(1).bfloat16()) for _ in range(2)]
    masters = [torch.ones(1), torch.ones(1)]
    for _ in range(4):
        weights[0].sum().backward()
        step_on_masters(weights, masters, 0.001)
    assert masters[0].item() == pytest.approx(0.996)
    assert weights[0].item() == masters[0].bfloat16().item()
    assert weights[0].grad is None
    assert (weights[1].item(), masters[1].item()) == (1, 1)  # it never had a gradient
