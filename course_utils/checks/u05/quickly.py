"""Small tensors under instruments, in as little time as they need."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def quickly() -> Iterator[None]:
    """Without what takes most time for tensors this small.

    That is waiting for other threads, and a collector that looks at all that was there before.
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.set_num_threads(num_threads)
