"""Gradients reduced in buckets while backward still computes.

Every collective has a latency, so many small ones are slow; and one for all gradients can only
start when the last gradient is ready. **Buckets** are in between: as soon as the ready gradients
reach a given size they are sent together, while backward continues with the layers below.

    >>> def step(comm: Comm, model: nn.Module, rows: Tensor) -> None:
    ...     loss = model(rows).square().sum() / (comm.size * len(rows))
    ...     backward_in_buckets(comm, model, loss, bucket_bytes=25 * 2**20)

Conventions: the loss of a rank is its share of the loss of the whole batch, so gradients are summed
and not divided. What is in ``grad`` before also belongs to the rank's share.

Sources: Li et al. 2020, PyTorch Distributed: Experiences on Accelerating Data Parallel Training,
sections 3.2.3 (overlap) and 3.2.4 (accumulation).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_utils.distributed.comm import Comm, Handle
from course_utils.reference.gradient_sync import gradient_or_zeros

Backward = Callable[[Comm, nn.Module, Tensor], None]


class _BucketInFlight:
    """Gradients in one flat tensor whose all-reduce has started."""

    def __init__(self, comm: Comm, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.flat = torch.cat([gradient_or_zeros(each).flatten() for each in parameters])
        self.handle: Handle = comm.all_reduce(self.flat, async_op=True)

    def finish(self) -> None:
        """Wait for the sums and make them the gradients, as views of the flat tensor."""
        self.handle.wait()
        parts = self.flat.split([each.numel() for each in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def backward_in_buckets(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward, with an all-reduce of each bucket as soon as it is full.

    Args:
        comm: This rank's communicator; all ranks must call this.
        model: The loss uses all parameters that require a gradient, on every rank.
        loss: This rank's share of the loss of the whole batch.
        bucket_bytes: The ready gradients are sent when they have at least this many bytes.
    """
    ready: list[nn.Parameter] = []
    sent: list[_BucketInFlight] = []

    def send() -> None:
        sent.append(_BucketInFlight(comm, tuple(ready)))
        ready.clear()

    def collect(parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter)
        ready.append(parameter)
        if sum(each.nbytes for each in ready) >= bucket_bytes:
            send()

    trained = [each for each in model.parameters() if each.requires_grad]
    hooks = [each.register_post_accumulate_grad_hook(collect) for each in trained]
    try:
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    if ready:
        send()
    for bucket in sent:
        bucket.finish()


def accumulate_together(
    comm: Comm, model: nn.Module, micro_batches: Sequence[Callable[[], Tensor]], backward: Backward
) -> None:
    """Accumulate several micro-batches on each rank, and communicate only in the last.

    Args:
        comm: This rank's communicator.
        model: Its gradients are added to.
        micro_batches: Each runs forward when called, and returns a share of the loss of the whole
            batch.
        backward: Runs backward, then sums ``grad`` over all ranks.
    """
    for micro_batch in micro_batches[:-1]:
        micro_batch().backward()
    backward(comm, model, micro_batches[-1]())


def _static_buckets(model: nn.Module, bucket_bytes: int) -> list[list[nn.Parameter]]:
    """All parameters from last to first, in groups of at least ``bucket_bytes``."""
    buckets: list[list[nn.Parameter]] = [[]]
    for parameter in reversed(list(model.parameters())):
        if sum(each.nbytes for each in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


def make_buckets(model: nn.Module, bucket_bytes: int) -> list[Tensor]:
    """Allocate flat buckets of zeros, and make every ``grad`` a view of one: sent without a copy.

    Args:
        model: No parameter is frozen, and all have the same dtype.
        bucket_bytes: A bucket is full when its parameters have at least this many bytes.
    """
    flat_buckets = []
    for bucket in _static_buckets(model, bucket_bytes):
        flat = torch.zeros(sum(each.numel() for each in bucket), dtype=bucket[0].dtype)
        for parameter, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = part.view_as(parameter)
        flat_buckets.append(flat)
    return flat_buckets


def start_equal(comm: Comm, model: nn.Module, seed: int) -> None:
    """Give all ranks the weights of rank 0, and each its own random numbers.

    Args:
        comm: This rank's communicator.
        model: Its parameters and buffers are overwritten.
        seed: Rank r continues with the seed ``seed + r``.
    """
    with torch.no_grad():
        for each in (*model.parameters(), *model.buffers()):
            comm.broadcast(each, 0)
    torch.manual_seed(seed + comm.rank)
