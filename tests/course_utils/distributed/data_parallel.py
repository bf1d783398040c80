"""Ways to sum gradients over ranks, as a student would write them, for tests of the cluster."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from course_utils.distributed import Comm
from course_utils.distributed.comm import Handle

Parameters = list[nn.Parameter]
Averaging = Callable[[Comm, Parameters, Callable[[], Tensor]], None]


def no_communication(comm: Comm, parameters: Parameters, loss: Callable[[], Tensor]) -> None:
    loss().backward()


def per_parameter(comm: Comm, parameters: Parameters, loss: Callable[[], Tensor]) -> None:
    loss().backward()
    for parameter in parameters:
        comm.all_reduce(parameter.grad)


def flat(comm: Comm, parameters: Parameters, loss: Callable[[], Tensor]) -> None:
    loss().backward()
    comm.all_reduce(torch.cat([parameter.grad.flatten() for parameter in parameters]))


def bucketed(bucket_bytes: float) -> Averaging:
    """Each bucket is reduced as soon as it is full, while the backward pass goes on."""

    def average(comm: Comm, parameters: Parameters, loss: Callable[[], Tensor]) -> None:
        bucket: list[Tensor] = []
        in_flight: list[tuple[Handle, Tensor, list[Tensor]]] = []

        def flush() -> None:
            full = torch.cat([gradient.flatten() for gradient in bucket])
            in_flight.append((comm.all_reduce(full, async_op=True), full, bucket.copy()))
            bucket.clear()

        def hook(parameter: Tensor) -> None:
            bucket.append(parameter.grad)
            if sum(gradient.nbytes for gradient in bucket) >= bucket_bytes:
                flush()

        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(hook)
        loss().backward()
        if bucket:
            flush()
        for handle, full, gradients in in_flight:
            handle.wait()
            copy_back(full, gradients)

    return average


def copy_back(full: Tensor, gradients: list[Tensor]) -> None:
    parts = full.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def shapes_of(model: nn.Module) -> Iterator[tuple[int, int]]:
    """Shapes of all parameters as matrices; a vector is a column."""
    for parameter in model.parameters():
        yield (parameter.shape[0], parameter.numel() // parameter.shape[0])
