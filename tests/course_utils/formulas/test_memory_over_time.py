"""Live bytes over a training step against a trace and sums by hand."""

import pytest
import torch
from torch import nn

from course_utils.configs import ModelConfig
from course_utils.formulas.memory_over_time import (
    live_at_candidates,
    live_at_moments,
    peak_of_storages,
)
from course_utils.instruments import trace_memory


def train_twice(layer, is_grad_freed):
    """The trace of two steps of a small layer."""
    optimizer = torch.optim.AdamW(layer.parameters(), foreach=False)

    def step():
        layer(torch.ones(2, 5)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=is_grad_freed)

    return trace_memory(step, layer, optimizer, num_steps=2)


@pytest.mark.parametrize("is_grad_freed", [True, False])
def test_peak_and_moments_are_those_of_a_trace(is_grad_freed):
    trace = train_twice(nn.Linear(5, 3), is_grad_freed)
    lives = [(each.born, each.died, each.storage_bytes) for each in trace.storages]
    assert peak_of_storages(lives, trace.num_operations) == {
        "peak_bytes": trace.peak_bytes,
        "operation": trace.peak_at,
        "end_bytes": trace.total_bytes[-1],
    }
    live = [trace.total_bytes[0], *(phase.end_bytes for phase in trace.phases)]
    for step in (1, 2):
        measured = live[3 * step - 3 : 3 * step + 1]
        kept = measured[1] - measured[0]
        assert [*live_at_moments(18, 2, kept, step, is_grad_freed).values()] == measured


@pytest.mark.parametrize(("is_tied", "beside"), [(True, 2 * 5 * 7), (False, 3 * 5)])
def test_candidates(is_tied, beside):
    """N = 100, width 5, 7 words, 3 tokens: 12 and 16 bytes a parameter, 4 a number beside them."""
    model = ModelConfig(
        num_layers=1, hidden_size=5, num_heads=1, ffn_size=3, vocab_size=7, is_tied=is_tied
    )
    assert live_at_candidates(model, 100, 1000, 3, 44) == {
        "loss": 1200 + 1000 + 2 * 4 * 3 * 7,
        "backward": 1600 + 4 * beside,
        "step": 1600 + 44,
    }
