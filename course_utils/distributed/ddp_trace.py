"""Record a real step of DistributedDataParallel: two processes, gloo, and PyTorch's profiler.

    >>> events, buckets = recorded_step((256, 512, 512, 256), num_tokens=256, bucket_cap_mb=1)

Kept are operators that no other one calls, among them each hand-over of a bucket, and each
all-reduce itself, on a thread of its own; each rank has a clock of its own.

`python -m course_utils.distributed.ddp_trace FILE` writes the record that unit 09 shows.
"""

import datetime
import platform
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from course_utils.distributed.comm import Comm
from course_utils.distributed.ranks import run_ranks
from course_utils.traces import Event, outermost, read_trace, select, write_table

WIDTHS, NUM_TOKENS, BUCKET_CAP_MB = (256, 512, 512, 768, 512, 256), 256, 1
NUM_RANKS, NUM_WARM_UP = 2, 3
HAND_OVER, ALL_REDUCE = "c10d::allreduce_", "gloo:all_reduce"


def recorded_step(
    widths: Sequence[int], num_tokens: int, bucket_cap_mb: int
) -> tuple[list[Event], list[int]]:
    """The events of a step on both ranks, and the bytes of the buckets by DDP's own log.

    Args:
        widths: Of linear layers without biases.
        num_tokens: Rows of the input of each rank.
        bucket_cap_mb: As DDP takes it.
    """
    results = run_ranks(_step, NUM_RANKS, tuple(widths), num_tokens, bucket_cap_mb)
    return [event for events, _ in results for event in events], results[0][1]


def _step(
    comm: Comm, widths: tuple[int, ...], num_tokens: int, bucket_cap_mb: int
) -> tuple[list[Event], list[int]]:
    """On one rank: some steps to rebuild the buckets, then one that is profiled."""
    layers = [nn.Linear(*pair, bias=False) for pair in pairwise(widths)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=bucket_cap_mb)
    inputs = torch.ones(num_tokens, widths[0])

    def step() -> None:
        model(inputs).sum().backward()

    for _ in range(NUM_WARM_UP):
        step()
    log = dict(model._get_ddp_logging_data())
    with profile(activities=[ProfilerActivity.CPU]):
        step()  # the profiler's own first use takes long
    comm.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    events = select(read_trace(profiler), kind=("cpu_op", "communication"))
    kept = [*outermost(events), *select(events, name=HAND_OVER)]
    kept.sort(key=lambda event: event["start_ns"])
    return kept, [int(each) for each in log["rebuilt_bucket_sizes"].split(", ")]


def about(date: str, versions: Mapping[str, str], buckets: Sequence[int]) -> list[str]:
    """What stands above the record of unit 09."""
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [
        f"One step of PyTorch's DistributedDataParallel on two processes of a CPU: linear layers "
        f"without biases of widths {', '.join(map(str, WIDTHS))}, {NUM_TOKENS} tokens a rank, "
        f"bucket_cap_mb={BUCKET_CAP_MB}",
        f"source: recorded by the course on {date}: "
        "python -m course_utils.distributed.ddp_trace FILE",
        "licence: MIT, as the course",
        f"software: {software}, gloo, one thread for each process",
        "units: microseconds from the first event of each rank, on a clock of its own; bytes of an "
        "all-reduce = its bucket, in fp32",
        "cut: operators that another one calls dropped",
        f"buckets by DDP's own log, in bytes: {', '.join(map(str, buckets))}",
    ]


def main(path: str) -> None:
    """Record the step of unit 09."""
    events, buckets = recorded_step(WIDTHS, NUM_TOKENS, BUCKET_CAP_MB)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    write_table(events, path, about(date, versions, buckets))


if __name__ == "__main__":
    main(sys.argv[1])
