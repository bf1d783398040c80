"""A layer that counts its calls, the checkpoint that exercises hand out, and bytes beside it."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from autograder.checking.fact import Fact


class CountedLayer(nn.Module):
    """A small residual block; further inputs scale its result.

    Attributes:
        num_calls: How often it was called.
        dtypes: The precision of its matrix product in each call.
        num_wanting: How many of its inputs require a gradient in each call.
        results: A weak reference to what each call returned.
    """

    def __init__(self, width: int, noise: str = "", dtype: torch.dtype = torch.float64) -> None:
        """Build a block; ``noise`` is ``"dropout"``, ``"noise"`` or empty."""
        super().__init__()
        self.up = nn.Linear(width, 2 * width, dtype=dtype)
        self.down = nn.Linear(2 * width, width, dtype=dtype)
        self.noise, self.num_calls, self.dtypes = noise, 0, list[torch.dtype]()
        self.num_wanting: list[int] = []
        self.results: list[weakref.ref[torch.UntypedStorage]] = []

    def forward(self, x: Tensor, *scales: Tensor) -> Tensor:
        """From (rows, width) to (rows, width)."""
        self.num_calls += 1
        self.num_wanting.append(sum(each.requires_grad for each in (x, *scales)))
        inner = self.up(x)
        self.dtypes.append(inner.dtype)
        out: Tensor = self.down(F.gelu(inner))
        for scale in scales:
            out = out * scale
        if self.noise == "dropout":
            out = dropped(out)
        if self.noise == "noise":
            out = out * torch.rand_like(out)
        result = x + out
        self.results.append(weakref.ref(result.untyped_storage()))
        return result


def dropped(x: Tensor) -> Tensor:
    """Half of the numbers, doubled: dropout whose masks are the same on every processor."""
    return 2 * x * (torch.rand_like(x) < 0.5)


def given_checkpoint(function: Callable[..., Tensor], *tensors: Any) -> Tensor:
    """PyTorch's own, for answers that get one: it keeps the inputs alone."""
    out: Tensor = checkpoint(function, *tensors, use_reentrant=True, preserve_rng_state=False)
    return out


def unseen(num_bytes: int) -> Fact:
    """Bytes that live on from the forward pass and that autograd does not keep."""
    return Fact(
        "unseen_bytes",
        num_bytes,
        "bytes kept where autograd does not see them",
        "Which variable, list or attribute of yours still holds a tensor when the forward pass is "
        "over, and does backward need it?",
    )
