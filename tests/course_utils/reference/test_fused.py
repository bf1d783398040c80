"""Operations with a backward pass of their own: values, gradients, and what they keep."""

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.instruments import count_saved_bytes
from course_utils.reference.fused import RMS_EPSILON, RMSNorm, rotate, swiglu


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Random numbers that require a gradient."""
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def test_gradients_are_those_of_finite_differences():
    norm = RMSNorm(5, "cpu", torch.float64)
    x = numbers(2, 3, 5)
    torch.autograd.gradcheck(norm, x)
    torch.autograd.gradcheck(lambda w: functional_call(norm, {"weight": w}, x), numbers(5))
    torch.autograd.gradcheck(rotate, numbers(2, 3, 2, 4))
    torch.autograd.gradcheck(swiglu, (numbers(3, 5), numbers(3, 5) + 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_norm_agrees_with_torch(dtype):
    x, same = (numbers(7, 33, dtype=dtype) for _ in range(2))
    ours, theirs = RMSNorm(33, "cpu", dtype), nn.RMSNorm(33, RMS_EPSILON, dtype=dtype)
    upstream = numbers(7, 33, dtype=dtype).detach().sin()
    ours(x).backward(upstream)
    theirs(same).backward(upstream)
    # bf16: torch rounds to 8 bits in other places; else the default tolerance of the precision
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(ours(x), theirs(same), **close)
    torch.testing.assert_close(x.grad, same.grad, **close)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, **close)
    assert ours.weight.grad.dtype == x.grad.dtype == dtype


def test_rotation_multiplies_pairs_as_complex_numbers():
    """An independent oracle: times e^(i angle); the first pair rotates by one radian per token."""
    x = numbers(1, 4, 1, 2).detach()
    rotated = torch.view_as_complex(x) * torch.exp(1j * torch.arange(4.0))[None, :, None]
    # angles are computed in fp32
    torch.testing.assert_close(rotate(x), torch.view_as_real(rotated), rtol=1e-6, atol=1e-6)


def test_gate_is_silu_times_up():
    gate, up = numbers(3, 5), numbers(3, 5) + 1
    torch.testing.assert_close(swiglu(gate, up), F.silu(gate) * up)


# For 6 tokens of 10 numbers of 2 bytes, 120 bytes a tensor, and of 6 fp32 numbers, 24 bytes.
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (RMSNorm(10, "cpu", torch.bfloat16), 120 + 24 + 20),  # and its weight
        (lambda x: rotate((x * 2.0).unflatten(-1, (1, 10))), 0),
        (lambda x: swiglu(x, x + 1), 240),
        (lambda x: F.silu(x) * (x + 1), 360),
    ],
    ids=["norm", "rotation", "fused gate", "gate"],
)
def test_kept_bytes(call, expected):
    x = numbers(2, 3, 10, dtype=torch.bfloat16)
    assert count_saved_bytes(lambda: call(x)).total_bytes == expected
