"""What does PyTorch's DistributedDataParallel say of its own buckets?

    >>> run_ranks(logged_buckets, 2, (256, 512, 256), False)[0]["later_steps"]
    [1048576]

DDP logs the bytes of its buckets when it is made, and again once it has rebuilt them; a step's log
is complete when the next step begins.

Source: PyTorch's `DistributedDataParallel._get_ddp_logging_data`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.distributed.comm import Comm

NUM_STEPS = 3  # of which the second rebuilds, and the third logs that


def logged_buckets(
    comm: Comm, widths: Sequence[int], finds_unused: bool, bucket_cap_mb: int | None = None
) -> dict[str, list[int]]:
    """Train a few steps of linear layers on real ranks, and return what DDP logs.

    Args:
        comm: Of this rank, in a process group of PyTorch.
        widths: Of the layers, each without a bias.
        finds_unused: Whether DDP looks for unused parameters.
        bucket_cap_mb: As DDP takes it.

    Returns:
        ``parameter_bytes`` in the order of definition, ``arrival`` of the gradients, and the bytes
        of the buckets in the ``first_step`` and in ``later_steps``, in the order of sending.
    """
    layers = [nn.Linear(*pair, bias=False) for pair in pairwise(widths)]
    model = DistributedDataParallel(
        nn.Sequential(*layers), bucket_cap_mb=bucket_cap_mb, find_unused_parameters=finds_unused
    )
    first = _log(model)["bucket_sizes"]
    for _ in range(NUM_STEPS):
        model(torch.ones(1, widths[0])).sum().backward()
    log = _log(model)
    return {
        "parameter_bytes": [each.nbytes for each in model.parameters()],
        "arrival": _numbers(log["prev_iteration_grad_ready_order_indices"]),
        "first_step": _numbers(first),
        "later_steps": _numbers(log.get("rebuilt_bucket_sizes") or log["bucket_sizes"]),
    }


def _log(model: DistributedDataParallel) -> dict[str, Any]:
    return dict(model._get_ddp_logging_data())


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(", ")]
