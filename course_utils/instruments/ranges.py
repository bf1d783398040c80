"""Which part of a program was that? A name for a stretch of code, seen in a profile.

    >>> with named_range("loss"):
    ...     loss = model(ids).sum()
    >>> @named_range("forward")
    ... def forward(x):
    ...     return x * 2

PyTorch's profiler shows the range on every device, and Nsight Systems on a GPU.

Sources: PyTorch documentation, `torch.profiler.record_function`, `torch.cuda.nvtx`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def named_range(name: str) -> Iterator[None]:
    """A range with a name, around the body of a ``with`` or as a decorator.

    It is the time in which Python works, on a GPU not that of the kernels: they run later. A
    profile finds those by what launched them.

    Raises:
        TypeError: If the name is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"named_range wants a name in quotes, got {type(name).__name__}")
    with torch.profiler.record_function(name):
        if not torch.cuda.is_available():
            yield
            return
        torch.cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            torch.cuda.nvtx.range_pop()
