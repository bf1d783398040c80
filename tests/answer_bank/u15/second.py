"""Right answers to the exercises of unit 15, in a second style."""

from collections.abc import Sequence

import torch
from torch import nn

from course_utils.distributed import Comm

# === u15-tied


def backward_tied(comm, model, loss):
    loss.backward()
    trained = {p: None for m in model.modules() for p in m.parameters(recurse=False)}
    handles = [comm.all_reduce(p.grad, async_op=True) for p in trained if p.requires_grad]
    for handle in handles:
        handle.wait()


# === u15-hang


def backward_of_rows(comm, model, rows):
    mine = rows.tensor_split(comm.size)[comm.rank]
    if len(mine):
        (model(mine).square().sum() / len(rows)).backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        comm.all_reduce(parameter.grad)


# === u15-hooks


def backward_in_hooks(comm, model, loss):
    under_way = {}
    hooks = []
    for parameter in model.parameters():

        def start(one):
            under_way[one] = comm.all_reduce(one.grad, async_op=True)

        hooks.append(parameter.register_post_accumulate_grad_hook(start))
    try:
        loss.backward()
    finally:
        [hook.remove() for hook in hooks]
    [call.wait() for call in under_way.values()]


# === u15-apart


def train_together(comm, model, batches, learning_rate):
    for each in model.state_dict().values():
        comm.broadcast(each, 0)
    for rows in batches:
        mine = rows.tensor_split(comm.size)[comm.rank]
        (model(mine).square().sum() / len(rows)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                comm.all_reduce(parameter.grad)
                parameter.sub_(learning_rate * parameter.grad)
                parameter.grad = None


# === u15-clip


def backward_clipped(comm, model, loss, max_norm):
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    for gradient in gradients:
        comm.all_reduce(gradient)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    if norm > max_norm:
        for gradient in gradients:
            gradient *= max_norm / norm
    return norm


# === u15-scale


def backward_of_mean(comm, model, micro_batches):
    for rows in micro_batches:
        loss = model(rows).square().mean() / (len(micro_batches))
        loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
        parameter.grad /= comm.size


# === u15-drift


def send(comm: Comm, bucket: Sequence[nn.Parameter]) -> None:
    """Sum the gradients of some parameters over all ranks, in one call."""
    flat = torch.cat([each.grad.flatten() for each in bucket])
    comm.all_reduce(flat)
    pieces = flat.split([each.numel() for each in bucket])
    for parameter, piece in zip(bucket, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)


def exchange_in_buckets(comm, model, loss, bucket_bytes):
    loss.backward()
    parameters = list(model.parameters())
    bucket = []
    for parameter in parameters:
        bucket.append(parameter)
        is_last = parameter is parameters[-1]
        if is_last or sum(each.nbytes for each in bucket) >= bucket_bytes:
            send(comm, bucket)
            bucket = []


# === u15-masks


def backward_with_dropout(comm, model, batches, seed):
    pass
    for step, rows in enumerate(batches):
        torch.manual_seed(10**6 * seed + 1000 * step + comm.rank)
        mine = rows.tensor_split(comm.size)[comm.rank]
        (model(mine).square().sum() / len(rows)).backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
