"""The random generators of Python, NumPy and torch: seeded, saved and restored together."""

import functools
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor


class RandomState(NamedTuple):
    """State of the random generators, without those of GPUs, for threads that take turns.

    NumPy's is the generator itself, one for each thread: to copy its state takes five times as long
    as all the rest, and to make one a hundred times as long as to seed it, so the next threads get
    the same ones. Only the second of a pair of normal numbers, which NumPy's older functions keep
    for the next call, does not outlive a turn.
    """

    python: tuple[Any, ...]
    torch: Tensor
    numpy: Any

    @classmethod
    def seeded(cls, seed: int, thread: int) -> "RandomState":
        """That of a new thread, by its number."""
        if numpy := sys.modules.get("numpy"):
            numpy.random.set_bit_generator(_numpy_generator(thread))
        seed_generators(seed)
        return cls.now()

    @classmethod
    def now(cls) -> "RandomState":
        """The state at this moment."""
        numpy = sys.modules.get("numpy")
        return cls(
            random.getstate(),
            torch.default_generator.get_state(),
            numpy.random.get_bit_generator() if numpy else None,
        )

    def restore(self) -> None:
        """Set the generators to this state."""
        random.setstate(self.python)
        torch.default_generator.set_state(self.torch)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_bit_generator(self.numpy)


@functools.cache
def _numpy_generator(thread: int) -> Any:
    return sys.modules["numpy"].random.MT19937()


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
    state, numpy = RandomState.now(), sys.modules.get("numpy")
    numbers = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        state.restore()
        if numpy:
            numpy.random.set_state(numbers)
