"""A connection whose calls show when their results are used too early, as real links would."""

import math
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from course_utils.distributed import Comm
from course_utils.distributed.call_matching import Call
from course_utils.distributed.comm import Handle

FILLED_LATER = ("receive", "all_gather", "reduce_scatter")


class InFlightComm(Comm):
    """One rank's connection; what a call is to fill holds NaN until somebody waits for it."""

    def __init__(self, comm: Comm) -> None:
        super().__init__(comm._world_rank, comm._group)
        self._comm = comm

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        handle = self._comm._start(call, tensor, output)
        if output is not None and _is_filled_later(call, tensor, output):
            _blank(output)
        return handle

    def named(self, name: str) -> AbstractContextManager[None]:
        """Give a name to what this rank computes meanwhile."""
        return self._comm.named(name)

    def split(self, colour: int) -> Comm:
        """Make a group of the ranks that give the same number, in the order of their ranks."""
        return InFlightComm(self._comm.split(colour))


def _is_filled_later(call: Call, tensor: Tensor | None, output: Tensor) -> bool:
    """Whether a call sends nothing of the memory that it fills."""
    if call.kind not in FILLED_LATER or not output.is_floating_point():
        return False
    is_apart = tensor is None or tensor.untyped_storage()._cdata != output.untyped_storage()._cdata
    return call.kind == "receive" or is_apart


def _blank(output: Tensor) -> None:
    with torch.no_grad(), torch._C._DisableTorchDispatch():
        output.fill_(math.nan)
