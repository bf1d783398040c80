"""What does a function of a `Comm` do by itself, without the others? Calls that change nothing."""

from torch import Tensor

from course_utils.distributed.call_matching import Call, Group
from course_utils.distributed.comm import Comm, Handle


class NullComm(Comm, Handle):
    """Rank 0 of two: its calls come back at once, take no memory and leave tensors as they are."""

    def __init__(self) -> None:
        """There is one such rank."""
        super().__init__(0, Group((0, 1)))

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        return self

    def split(self, colour: int) -> Comm:
        """Refused: without the others there are no groups."""
        raise ValueError("split: nobody answers, so there are no groups")

    def wait(self) -> None:
        """Nothing is under way."""
