"""Fake tensors cost no memory, and report in one sentence what they cannot do."""

import weakref

import pytest
import torch
from torch import nn

from course_utils.instruments import count_saved_bytes, fake_tensors


def test_the_largest_layer_costs_no_memory():
    # 2**20 tokens of 2**14 numbers of 4 bytes: 64 GiB, and a weight of 1 GiB
    with fake_tensors():
        layer = nn.Linear(2**14, 2**14)
        tokens = torch.ones(2**20, 2**14)
        saved = count_saved_bytes(lambda: layer(tokens), layer)
    assert saved.total_bytes == 2**36


def test_converting_a_module_inside_is_rejected_with_advice():
    with pytest.raises(ValueError, match="give the dtype when you build it"), fake_tensors():
        layer = nn.LayerNorm(4)
        ref = weakref.ref(layer.weight)  # as torch's own cache may hold one
        layer.to(torch.bfloat16)
    assert ref


def test_mixing_real_and_fake_tensors_is_rejected():
    real = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="real and fake tensors meet"), fake_tensors():
        real(torch.ones(2, 3))
    with fake_tensors():
        fake = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="real and fake tensors meet"):
        count_saved_bytes(lambda: fake(torch.ones(2, 3)), fake)


def test_reading_a_number_is_rejected():
    with pytest.raises(ValueError, match="a fake tensor has no numbers"), fake_tensors():
        torch.ones(3).sum().item()


def test_other_errors_are_unchanged_and_nothing_is_logged(caplog):
    with pytest.raises(RuntimeError, match=r"\[2, 4\] X \[3, 5\]"), fake_tensors():
        nn.Linear(3, 5)(torch.ones(2, 4))
    assert caplog.records == []
    with fake_tensors():
        tensor = torch.ones(3)
    assert tensor.shape == (3,)
    assert torch.ones(3).sum().item() == 3  # tensors are real again


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.ones(3, device="cuda", requires_grad=True).sum().backward(),
        lambda: torch.ones(3).to("cuda"),
        lambda: torch.ones(3).new_zeros(3, device="cuda:0"),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: nn.Linear(3, 5, device="cuda"),
    ],
    ids=["backward", "to", "new", "tensor", "module"],
)
def test_a_fake_gpu_is_refused_before_it_ends_the_process(call):
    with pytest.raises(ValueError, match="leave the device out"), fake_tensors():
        call()


def test_fake_tensors_may_move_to_meta():
    with fake_tensors():
        assert torch.ones(3).to("meta").device.type == "meta"
