"""Collectives made of messages around a ring: all bytes that a rank sends can be counted."""

from torch import Tensor

from course_utils.distributed import Comm, Handle
from course_utils.distributed.call_matching import Call


class MessageComm(Comm):
    """Ranks whose all-reduce, gather and scatter are messages between neighbours, of equal parts.

    For counting, on tensors without numbers: nothing is summed.
    """

    def __init__(self, comm: Comm) -> None:
        """Carry messages over another connection."""
        super().__init__(comm._world_rank, comm._group)
        self._comm = comm

    def split(self, colour: int) -> Comm:
        """Make a group of the ranks that give the same number."""
        return MessageComm(self._comm.split(colour))

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        assert tensor is not None and output is not None
        whole = max(tensor, output, key=lambda each: each.numel())
        rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}[call.kind]
        part = whole.new_empty(whole.numel() // self.size)
        for _ in range(rounds * (self.size - 1)):
            self._pass_on(part)
        return _Done()

    def _pass_on(self, part: Tensor) -> None:
        """Send one part to the next rank, and receive one from the rank before."""
        sending = self._comm.send(part, (self.rank + 1) % self.size, async_op=True)
        self._comm.receive(part.clone(), (self.rank - 1) % self.size)
        sending.wait()


class _Done:
    """A call that is over."""

    def wait(self) -> None:
        """Return at once."""
