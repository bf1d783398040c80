"""What does one rank do by itself, without the others? A `Comm` whose calls do nothing.

Instruments that cannot run inside a virtual cluster follow one rank alone:

    >>> comm = NullComm(size=4, rank=3)
    >>> count_saved_bytes(lambda: layer(comm, x), layer)
"""

from torch import Tensor

from course_utils.distributed.call_matching import Call, Group
from course_utils.distributed.comm import Comm, Handle


class NullComm(Comm, Handle):
    """One rank of several: its calls return at once, take no memory and leave tensors unchanged."""

    def __init__(self, size: int = 2, rank: int = 0) -> None:
        """Be one rank of so many.

        Args:
            size: Number of ranks.
            rank: Number of this one.

        Raises:
            ValueError: If there is no such rank.
        """
        if not 0 <= rank < size:
            raise ValueError(f"NullComm: rank must be from 0 to {size - 1}, got {rank}")
        super().__init__(rank, Group(tuple(range(size))))

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        return self

    def split(self, colour: int) -> Comm:
        """Refuse: the others, who would say their colours, are not there.

        Raises:
            ValueError: Always.
        """
        raise ValueError("split: nobody answers a rank that is alone: use a VirtualCluster")

    def wait(self) -> None:
        """Return at once: nothing is in flight."""
