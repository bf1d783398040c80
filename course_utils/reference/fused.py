"""Operations with a backward pass of their own, which keep less than autograd would.

Composed of separate operations, a norm in bf16 keeps fp32 copies of its input, a rotation keeps
sines and cosines, and a gate keeps what can be recomputed from its two inputs.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.configs import Kernels

ROPE_BASE = 10_000.0
RMS_EPSILON = 1e-5


class RMSNorm(nn.Module):
    """Divide by the root of the mean square, computed in fp32 (Zhang and Sennrich 2019).

    Keeps its input and one fp32 number per token.
    """

    def __init__(self, size: int, device: str, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """From (..., h) to (..., h)."""
        out: Tensor = _RMSNorm.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return out


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        inverse = (wide.square().mean(-1, keepdim=True) + RMS_EPSILON).rsqrt()
        ctx.save_for_backward(x, weight, inverse)
        return (wide * inverse).to(x.dtype) * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, inverse = ctx.saved_tensors
        normed = x * inverse
        grad_normed = grad.to(normed.dtype) * weight
        # Scaling x changes nothing, so the gradient has no component along x.
        along = (grad_normed * normed).mean(-1, keepdim=True)
        grad_x = inverse * (grad_normed - normed * along)
        grad_weight = (grad * normed).sum_to_size(weight.shape)
        return grad_x.to(x.dtype), grad_weight.to(weight.dtype)


def rotate(x: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021): rotate each pair of numbers by an angle that grows with s.

    Keeps nothing: the backward pass rotates the gradient back.

    Args:
        x: Queries or keys, shape (b, s, a, d); d is even.
    """
    out: Tensor = _Rotation.apply(x)  # type: ignore[no-untyped-call]
    return out


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _rotated(x, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _rotated(grad, -1)


def _rotated(x: Tensor, direction: int) -> Tensor:
    seq_len, head_dim = x.shape[1], x.shape[3]
    precision = torch.promote_types(x.dtype, torch.float32)
    pair = torch.arange(0, head_dim, 2, dtype=precision, device=x.device)
    angle = torch.arange(seq_len, device=x.device)[:, None] / ROPE_BASE ** (pair / head_dim)
    cos, sin = angle.cos()[:, None].to(x.dtype), direction * angle.sin()[:, None].to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def gated(gate: Tensor, up: Tensor, kernels: Kernels) -> Tensor:
    """``silu(gate) * up`` (SwiGLU, Shazeer 2020), fused or as two operations."""
    return swiglu(gate, up) if kernels.is_gate_fused else F.silu(gate) * up


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up`` as one operation: keeps its two inputs, but not silu(gate)."""
    out: Tensor = _SwiGLU.apply(gate, up)  # type: ignore[no-untyped-call]
    return out


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        grad_gate = torch.ops.aten.silu_backward(grad * up, gate)
        return grad_gate, grad * F.silu(gate)
