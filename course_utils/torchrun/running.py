"""One trainer on all ranks: is the result that of one rank, what was sent, how long did it take?"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_utils.torchrun.joining import RealComm
from course_utils.torchrun.trials import Sizes, Tensors, Trial

SPREAD = 8  # rounding errors of a sum of n terms grow as √n; allowed are eight times as much


@dataclass(frozen=True)
class Outcome:
    """What a trainer did on all ranks.

    Attributes:
        differences: Of this rank: by name, the largest difference from one rank's tensor, in
            multiples of the largest number in that.
        allowed: How large such a difference may be.
        sent_bytes: Of each rank, bytes sent in one run.
        calls: Of each rank, calls in one run.
        seconds: Of each rank, of a second run.
        largest: The largest difference, of each rank.
    """

    differences: Mapping[str, float]
    allowed: float
    sent_bytes: list[int]
    calls: list[int]
    seconds: list[float]
    largest: list[float]

    @property
    def is_equal(self) -> bool:
        """Whether all ranks have what one rank has; a NaN is not equal."""
        return all(each <= self.allowed for each in self.largest)


def run_trial(comm: RealComm, trial: Trial, own: Mapping[str, Any], sizes: Sizes) -> Outcome:
    """Run a trainer twice, compare it with one rank, and gather what all ranks say.

    The first run makes connections and loads kernels; seconds are of the second one.

    Args:
        comm: This rank's connection.
        trial: The trainer.
        own: Functions that take the place of the course's, by name.
        sizes: How much to compute.
    """
    functions = {**trial.functions, **own}
    trial.on_ranks(comm, functions, sizes)
    _wait_for_all(comm)
    calls, sent_bytes = comm.counted.num_calls, comm.counted.sent_bytes
    start = time.perf_counter()
    got = trial.on_ranks(comm, functions, sizes)
    if comm.device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    calls, sent_bytes = comm.counted.num_calls - calls, comm.counted.sent_bytes - sent_bytes
    differences = differences_from(got, trial.alone(comm.rank, comm.size, sizes))
    worst = max(differences.values())
    mine = torch.tensor([sent_bytes, calls, seconds, worst], dtype=torch.float64)
    of_all = torch.empty(comm.size, len(mine), dtype=torch.float64, device=comm.device)
    comm.all_gather(of_all, mine.to(comm.device))
    columns = of_all.T.tolist()
    return Outcome(
        differences,
        allowed_difference(trial, sizes, comm.size),
        sent_bytes=[int(each) for each in columns[0]],
        calls=[int(each) for each in columns[1]],
        seconds=columns[2],
        largest=columns[3],
    )


def _wait_for_all(comm: RealComm) -> None:
    """A barrier that also waits for the GPU."""
    token = torch.zeros(1, device=comm.device)
    comm.all_reduce(token)
    token.item()


def allowed_difference(trial: Trial, sizes: Sizes, num_ranks: int) -> float:
    """How far rounding can move a result when ranks add the same terms in another order.

    A sum of n terms moves by some √n roundings, and products stand one after the other: those of
    all layers, forward and backward, in all steps. What a trainer forgets is a term of n, larger by
    many orders.
    """
    longest_sum = max(sizes.rows, 2 * sizes.width)
    num_products = 2 * trial.num_layers(num_ranks) * sizes.steps
    return float(SPREAD * longest_sum**0.5 * num_products * torch.finfo(sizes.dtype).eps)


def differences_from(got: Tensors, wanted: Tensors) -> dict[str, float]:
    """By name, the largest difference in multiples of the largest number wanted.

    Infinite where a tensor is missing or has another shape; NaN where one has a NaN.
    """
    return {name: _difference(got.get(name), each) for name, each in wanted.items()}


def _difference(got: Tensor | None, wanted: Tensor) -> float:
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        return float("inf")
    return float((got - wanted).abs().max() / wanted.abs().max())
