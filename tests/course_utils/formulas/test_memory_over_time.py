"""Live bytes over a training step against a trace and sums by hand."""

import pytest
import torch
from torch import nn

from course_utils.configs import ModelConfig
from course_utils.formulas.memory_over_time import (
    left_after_fixes,
    live_at_candidates,
    live_at_moments,
    peak_of_changes,
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
def test_moments_are_those_of_a_trace(is_grad_freed):
    trace = train_twice(nn.Linear(5, 3), is_grad_freed)
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


def test_peak_of_changes_is_that_of_a_trace():
    trace = train_twice(nn.Linear(5, 3), True)
    changes = [
        (at, category, line[at])
        for at in range(trace.num_operations + 1)
        for category, line in trace.live_bytes.items()
    ]
    assert peak_of_changes(changes, ["activations", "temporaries"]) == {
        "peak_bytes": trace.peak_bytes,
        "peak_us": trace.peak_at,
        "saved_bytes": trace.peak_bytes - max(_of_the_rest(trace)),
    }


def _of_the_rest(trace):
    rest = ("parameters", "gradients", "optimizer_states")
    return [
        sum(trace.live_at(at).get(name, 0) for name in rest) for at in range(len(trace.total_bytes))
    ]


def test_fixes_for_the_recorded_error():
    error = {"requested": 4202692608, "free": 4028760064}
    error |= {"reserved": 37073453056, "allocated": 36227704832}
    live = {
        "weights": 4016195328,
        "gathered weights": 1050681344,
        "layer inputs": 1073741824,
        "layers": 23648665856,
        "bf16 logits": 2101346304,
        "fp32 logits": 4202692608,
        "others": 134381568,
    }
    assert sum(live.values()) == error["allocated"]
    run = {"num_layers": 32, "num_checkpointed": 16, "num_chunks": 8, "step": 1}
    left = {
        "expandable": 671815680,
        "half_batch": 17507827840,
        "checkpoint_all": 22400991488,
        "chunked_loss": 7180779520,
    }
    assert left_after_fixes(error, live, run) == left
    later = left_after_fixes(error, live, run | {"step": 2})
    assert later == {name: size - 2 * 4016195328 for name, size in left.items()}
    assert {name for name, size in later.items() if size < 0} == {"expandable", "chunked_loss"}
