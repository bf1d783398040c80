"""How are hundreds of tiny tensors handled in little time?"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch works in one thread inside: on tiny tensors several wait longer than they work.

    On a busy machine a check then takes a thirtieth of the time. Where torch was not loaded there
    is nothing to do.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
