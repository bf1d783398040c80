"""Gradients that travel while backward still computes, in buckets.

A collective has a latency, so that many small ones are slow; and one for all gradients can only
begin when the last is there. In between lie **buckets**: as soon as the gradients that are complete
have a certain size they are sent together, while backward goes on to the layers below.

    >>> def step(comm: Comm, model: nn.Module, rows: Tensor) -> None:
    ...     loss = model(rows).square().sum() / (comm.size * len(rows))
    ...     backward_in_buckets(comm, model, loss, bucket_bytes=25 * 2**20)

Conventions: the loss of a rank is its share of the loss of the whole batch, so that gradients are
summed and divided by nothing. What is in ``grad`` before belongs to the rank's share as well.

Sources: Li et al. 2020, PyTorch Distributed: Experiences on Accelerating Data Parallel Training,
sections 3.2.3 (overlap), 3.2.4 (accumulation) and 4.2 (unused parameters).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_utils.distributed.comm import Comm, Handle
from course_utils.reference.gradient_sync import gradient_or_zeros

Backward = Callable[[Comm, nn.Module, Tensor], None]


class _Sent:
    """Gradients on their way in one flat tensor."""

    def __init__(self, comm: Comm, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.flat = torch.cat([gradient_or_zeros(each).flatten() for each in parameters])
        self.handle: Handle = comm.all_reduce(self.flat, async_op=True)

    def arrive(self) -> None:
        """Make the sums the gradients, as views of the flat tensor."""
        self.handle.wait()
        parts = self.flat.split([each.numel() for each in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def backward_in_buckets(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """Backward, with an all-reduce of each bucket as soon as it is full.

    Args:
        comm: This rank's way to the others; all must call this.
        model: The loss uses all parameters that want gradients, on every rank.
        loss: This rank's share of the loss of the whole batch.
        bucket_bytes: Gradients are sent when those that wait have at least so many.
    """
    waiting: list[nn.Parameter] = []
    sent: list[_Sent] = []

    def send() -> None:
        sent.append(_Sent(comm, tuple(waiting)))
        waiting.clear()

    def collect(parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter)
        waiting.append(parameter)
        if sum(each.nbytes for each in waiting) >= bucket_bytes:
            send()

    trained = [each for each in model.parameters() if each.requires_grad]
    hooks = [each.register_post_accumulate_grad_hook(collect) for each in trained]
    try:
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    if waiting:
        send()
    for bucket in sent:
        bucket.arrive()


def accumulate_together(
    comm: Comm, model: nn.Module, micro_batches: Sequence[Callable[[], Tensor]], backward: Backward
) -> None:
    """The gradient of a batch that each rank takes in several micro-batches, with one exchange.

    Args:
        comm: This rank's way to the others.
        model: Its gradients are added to.
        micro_batches: Each runs forward when it is called, and gives a share of the loss of the
            whole batch.
        backward: Backward with communication: sums what is in ``grad`` afterwards over all ranks.
    """
    *earlier, last = micro_batches
    for micro_batch in earlier:
        micro_batch().backward()
    backward(comm, model, last())


def backward_with_unused(comm: Comm, model: nn.Module, loss: Tensor, bucket_bytes: int) -> None:
    """As `backward_in_buckets`, where a rank's loss may leave parameters out.

    Ranks that do not agree on which gradients come must agree on the buckets beforehand: these are
    made of the parameters, the last one first, and sent in this order. What is missing when
    backward is over counts as zeros.

    Args:
        comm: This rank's way to the others; all must call this.
        model: May share a parameter between modules.
        loss: This rank's share of the loss of the whole batch.
        bucket_bytes: A bucket is complete when its parameters have at least so many.
    """
    buckets = _static_buckets(model, bucket_bytes)
    missing = [set(bucket) for bucket in buckets]
    sent: list[_Sent] = []

    def send_complete(is_over: bool = False) -> None:
        while len(sent) < len(buckets) and (is_over or not missing[len(sent)]):
            sent.append(_Sent(comm, buckets[len(sent)]))

    def collect(parameter: Tensor) -> None:
        for each in missing:
            each.discard(parameter)
        send_complete()

    hooks = [each.register_post_accumulate_grad_hook(collect) for each in model.parameters()]
    try:
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    send_complete(is_over=True)
    for bucket in sent:
        bucket.arrive()


def _static_buckets(model: nn.Module, bucket_bytes: int) -> list[list[nn.Parameter]]:
    """All parameters from the last to the first, in groups of at least so many bytes."""
    buckets: list[list[nn.Parameter]] = [[]]
    for parameter in reversed(list(model.parameters())):
        if sum(each.nbytes for each in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


def make_buckets(model: nn.Module, bucket_bytes: int) -> list[Tensor]:
    """Flat tensors of zeros that can be sent as they are: every ``grad`` becomes a view of one.

    Args:
        model: No parameter is frozen, and all have one dtype.
        bucket_bytes: A bucket is complete when its parameters have at least so many.
    """
    made = []
    for bucket in _static_buckets(model, bucket_bytes):
        flat = torch.zeros(sum(each.numel() for each in bucket), dtype=bucket[0].dtype)
        for parameter, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = part.view_as(parameter)
        made.append(flat)
    return made


def start_equal(comm: Comm, model: nn.Module, seed: int) -> None:
    """Give all ranks the weights of rank 0, and each random numbers of its own.

    Args:
        comm: This rank's way to the others.
        model: Parameters and buffers are filled.
        seed: Rank r goes on with random numbers of ``seed + r``.
    """
    with torch.no_grad():
        for each in (*model.parameters(), *model.buffers()):
            comm.broadcast(each, 0)
    torch.manual_seed(seed + comm.rank)
