"""The random generators of Python, NumPy and torch: seeded, saved and restored together."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor


class RandomState(NamedTuple):
    """State of the random generators of a process, without those of GPUs."""

    python: tuple[Any, ...]
    torch: Tensor
    numpy: tuple[Any, ...] | None

    @classmethod
    def now(cls) -> "RandomState":
        """The state at this moment."""
        numpy = sys.modules.get("numpy")
        return cls(
            random.getstate(),
            torch.default_generator.get_state(),
            numpy.random.get_state() if numpy else None,
        )

    def restore(self) -> None:
        """Set the generators to this state."""
        random.setstate(self.python)
        torch.default_generator.set_state(self.torch)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


def seed_generators(seed: int) -> None:
    """Seed all generators with one number."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed % 2**32)


@contextmanager
def random_state_restored() -> Iterator[None]:
    """Restore the generators afterwards, as if nothing had been drawn inside."""
    state = RandomState.now()
    try:
        yield
    finally:
        state.restore()
