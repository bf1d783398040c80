"""Random numbers of Python, NumPy and torch: seeded together, put aside, and brought back."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor


class RandomState(NamedTuple):
    """Where the generators of a process stand, those of GPUs apart."""

    python: tuple[Any, ...]
    torch: Tensor
    numpy: tuple[Any, ...] | None

    @classmethod
    def now(cls) -> "RandomState":
        """Where they stand at this moment."""
        numpy = sys.modules.get("numpy")
        return cls(
            random.getstate(),
            torch.default_generator.get_state(),
            numpy.random.get_state() if numpy else None,
        )

    def restore(self) -> None:
        """Bring them back to where they stood."""
        random.setstate(self.python)
        torch.default_generator.set_state(self.torch)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


def seed_generators(seed: int) -> None:
    """Seed all of them with one number."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed % 2**32)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Whatever is drawn inside, outside nothing was drawn."""
    state = RandomState.now()
    try:
        yield
    finally:
        state.restore()
