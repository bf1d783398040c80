"""What does one rank do by itself, without the others? A `Comm` whose calls do nothing."""

from torch import Tensor

from course_utils.distributed.call_matching import Call, Group
from course_utils.distributed.comm import Comm, Handle


class NullComm(Comm, Handle):
    """Rank 0 of two: its calls return at once, take no memory and leave tensors unchanged."""

    def __init__(self) -> None:
        """Be rank 0 of two."""
        super().__init__(0, Group((0, 1)))

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        return self

    def split(self, colour: int) -> Comm:
        """Raise `ValueError`: there are no other ranks to group."""
        raise ValueError("split: nobody answers, so there are no groups")

    def wait(self) -> None:
        """Return at once: nothing is in flight."""
