"""How are many tiny models traced in little time?

Nearly all the time of such a trace goes elsewhere: threads wait for each other, and the garbage
collector, which a trace runs once so as not to meet it later, looks through all of torch.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def quick_traces() -> Iterator[None]:
    """One thread, and a collector that leaves alone what is there already; both only inside."""
    num_threads = torch.get_num_threads()
    is_frozen = gc.get_freeze_count() > 0
    torch.set_num_threads(1)
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
        if not is_frozen:
            gc.unfreeze()
