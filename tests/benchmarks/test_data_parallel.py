"""Is the course's bucketed trainer as fast as PyTorch's own? Reported, not asserted.

Both train the same model on the same batches, in the same two processes and with the same bucket
size. Their steps alternate, so that other load slows both alike. The goal: a ratio of at most 1.2.
"""

import statistics
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.distributed import Comm, run_ranks
from course_utils.reference.bucketing import backward_in_buckets

NUM_STEPS, NUM_WARM = 9, 3
NUM_ROWS = 64


def model(width: int, num_layers: int) -> nn.Sequential:
    torch.manual_seed(0)
    pairs = [(nn.Linear(width, width), nn.Tanh()) for _ in range(num_layers)]
    return nn.Sequential(*(layer for pair in pairs for layer in pair))


def steps_in_turn(comm: Comm, width: int, num_layers: int, bucket_mib: int) -> dict[str, float]:
    """Median seconds of a step of each; their gradients are the same."""
    ours, theirs = model(width, num_layers), model(width, num_layers)
    wrapped = DistributedDataParallel(theirs, bucket_cap_mb=bucket_mib)
    rows = torch.randn(NUM_ROWS, width)

    def mean_loss(run: Callable[[Tensor], Tensor]) -> Tensor:
        return run(rows).square().sum() / NUM_ROWS

    def step_ours() -> None:
        backward_in_buckets(comm, ours, mean_loss(ours) / comm.size, bucket_mib * 2**20)

    def step_theirs() -> None:
        mean_loss(wrapped).backward()  # which takes the mean over ranks itself

    ways = {"ours": (ours, step_ours), "theirs": (theirs, step_theirs)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(NUM_WARM + NUM_STEPS):
        for way in sorted(ways, reverse=number % 2 == 1):
            trained, step = ways[way]
            trained.zero_grad()
            comm.barrier()
            start = time.perf_counter()
            step()
            seconds[way].append(time.perf_counter() - start)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    return {way: statistics.median(taken[NUM_WARM:]) for way, taken in seconds.items()}


@pytest.mark.parametrize(
    ("width", "num_layers", "bucket_mib"), [(1024, 8, 4), (1024, 8, 25), (256, 64, 1)]
)
def test_a_bucketed_step_beside_ddp(width, num_layers, bucket_mib, compared):
    millions = num_layers * width * (width + 1) / 1e6
    taken = run_ranks(steps_in_turn, 2, width, num_layers, bucket_mib)[0]
    name = f"{millions:.1f}M parameters in {2 * num_layers} tensors, buckets of {bucket_mib} MiB"
    compared(f"bucketed step / DDP step, 2 gloo processes, {name}", **taken)
