"""Record a real step of DistributedDataParallel: two processes, gloo, and PyTorch's profiler.

    >>> record = recorded_step((256, 512, 512, 256), num_tokens=256, bucket_cap_mb=1)
    >>> record["buckets"], len(record["events"]["0"])

`python -m course_utils.distributed.ddp_trace FILE` writes the record that unit 09 shows.
"""

import datetime
import json
import platform
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from course_utils.distributed.comm import Comm
from course_utils.distributed.ranks import run_ranks
from course_utils.instruments.profiling import trace_of
from course_utils.instruments.step_events import Event, step_events

WIDTHS, NUM_TOKENS, BUCKET_CAP_MB = (256, 512, 512, 768, 512, 256), 256, 1
NUM_RANKS, NUM_WARM_UP = 2, 3


def recorded_step(widths: Sequence[int], num_tokens: int, bucket_cap_mb: int) -> dict[str, Any]:
    """The events of a step on each of two ranks, with DDP's own log of its buckets.

    Args:
        widths: Of linear layers without biases.
        num_tokens: Rows of the input of each rank.
        bucket_cap_mb: As DDP takes it.
    """
    results = run_ranks(_step, NUM_RANKS, tuple(widths), num_tokens, bucket_cap_mb)
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": "python -m course_utils.distributed.ddp_trace FILE",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "machine": f"{platform.machine()}, one thread for each of two processes",
        "step": {"widths": list(widths), "tokens": num_tokens, "bucket_cap_mb": bucket_cap_mb},
        "buckets": results[0][1],
        "events": {str(rank): events for rank, (events, _) in enumerate(results)},
    }


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
    return step_events(trace_of(profiler)), [
        int(each) for each in log["rebuilt_bucket_sizes"].split(", ")
    ]


def main(path: str) -> None:
    """Record the step of unit 09, an event in each line."""
    record = recorded_step(WIDTHS, NUM_TOKENS, BUCKET_CAP_MB)
    events = {
        rank: [json.dumps(list(each.values())) for each in events]
        for rank, events in record.pop("events").items()
    }
    separator = ",\n"
    rows = separator.join(
        f'"{rank}": [\n{separator.join(lines)}\n]' for rank, lines in events.items()
    )
    head = json.dumps(record, indent=1)[:-2]
    Path(path).write_text(f'{head},\n "events": {{\n{rows}\n}}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
