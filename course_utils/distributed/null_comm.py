"""What does one rank do by itself, without the others? A `Comm` whose calls do nothing.

Instruments that cannot run inside a virtual cluster follow one rank alone:

    >>> comm = NullComm(size=4, rank=3)
    >>> count_saved_bytes(lambda: layer(comm, x), layer)
"""

import copy
from collections.abc import Sequence

from torch import Tensor

from course_utils.distributed.call_matching import Call, Group
from course_utils.distributed.comm import Comm, Handle


class NullComm(Comm, Handle):
    """One rank of several: its calls return at once, take no memory and leave tensors unchanged."""

    def __init__(self, size: int = 2, rank: int = 0, groups: Sequence[Sequence[int]] = ()) -> None:
        """Be one rank of so many.

        Args:
            size: Number of ranks.
            rank: Number of this one.
            groups: What each call of `split` gives, in their order: numbers of ranks, this one
                among them.

        Raises:
            ValueError: If there is no such rank, or if it is missing in a group.
        """
        if not 0 <= rank < size:
            raise ValueError(f"NullComm: rank must be from 0 to {size - 1}, got {rank}")
        for members in groups:
            if rank not in members or not set(members) <= set(range(size)):
                raise ValueError(
                    f"NullComm: each group has rank {rank} and ranks below {size}, got {members}"
                )
        super().__init__(rank, Group(tuple(range(size))))
        self._groups = [Group(tuple(members)) for members in groups]

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        return self

    def split(self, colour: int) -> Comm:
        """Make the next of the groups that were given.

        Raises:
            ValueError: If none is left: the others, who would say their colours, are not there.
        """
        if not self._groups:
            raise ValueError(
                "split: nobody answers, so give the groups, as in NullComm(4, groups=[(0, 1)])"
            )
        part = copy.copy(self)
        Comm.__init__(part, self._world_rank, self._groups.pop(0))
        return part

    def wait(self) -> None:
        """Return at once: nothing is in flight."""
