"""Gradients of a batch that several ranks share, summed after the backward pass.

The loss of each rank is its share of the mean over all targets of the batch, so the sum of the
gradients is the gradient of the whole batch; nothing is divided by the number of ranks.

    >>> share = share_of_mean(comm, summed_loss, num_targets)
    >>> backward_flat(comm, model, share)
"""

import torch
from torch import Tensor, nn

from course_utils.distributed.comm import Comm


def share_of_mean(comm: Comm, summed_loss: Tensor, num_targets: int) -> Tensor:
    """This rank's share of the mean loss over the targets of all ranks; zero without targets."""
    total = torch.tensor(num_targets)
    comm.all_reduce(total)
    return summed_loss / total.clamp(min=1)


def backward_each(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce per gradient."""
    loss.backward()
    for gradient in _gradients(model):
        comm.all_reduce(gradient)


def backward_flat(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, then one all-reduce of all gradients in one buffer."""
    loss.backward()
    gradients = _gradients(model)
    buffer = torch.cat([each.flatten() for each in gradients])
    comm.all_reduce(buffer)
    for gradient, part in zip(gradients, buffer.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _gradients(model: nn.Module) -> list[Tensor]:
    """The ``grad`` of every parameter that requires one, filled with zeros if there is none."""
    gradients = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = gradient_or_zeros(parameter)
            gradients.append(parameter.grad)
    return gradients


def gradient_or_zeros(parameter: Tensor) -> Tensor:
    """A parameter's ``grad``, or zeros if it has none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
