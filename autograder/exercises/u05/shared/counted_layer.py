"""A layer that counts its calls, and helpers of checks that run training code."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CountedLayer(nn.Module):
    """A small residual block; further inputs scale its result.

    Attributes:
        num_calls: How often it was called.
        dtypes: The precision of its matrix product in each call.
    """

    def __init__(self, width: int, noise: str = "", dtype: torch.dtype = torch.float64) -> None:
        """Build a block; ``noise`` is ``"dropout"``, ``"noise"`` or empty."""
        super().__init__()
        self.up = nn.Linear(width, 2 * width, dtype=dtype)
        self.down = nn.Linear(2 * width, width, dtype=dtype)
        self.noise, self.num_calls, self.dtypes = noise, 0, list[torch.dtype]()

    def forward(self, x: Tensor, *scales: Tensor) -> Tensor:
        """From (rows, width) to (rows, width)."""
        self.num_calls += 1
        inner = self.up(x)
        self.dtypes.append(inner.dtype)
        out: Tensor = self.down(F.gelu(inner))
        for scale in scales:
            out = out * scale
        if self.noise == "dropout":
            out = F.dropout(out, 0.5)
        if self.noise == "noise":
            out = out * torch.rand_like(out)
        return x + out


def num_calls(layers: Iterable[CountedLayer]) -> int:
    """Calls of all layers together."""
    return sum(layer.num_calls for layer in layers)
