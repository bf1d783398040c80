"""Right answers to the exercises of unit 15, in a first style."""

from collections.abc import Sequence
from contextlib import contextmanager

import torch
from torch import nn

from course_utils.distributed import Comm

# === u15-tied


def backward_tied(comm, model, loss):
    loss.backward()
    sent = set()
    for layer in model.modules():
        for parameter in layer.parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in sent:
                sent.add(id(parameter))
                comm.all_reduce(parameter.grad)


# === u15-hang


def backward_of_rows(comm, model, rows):
    per_rank = -(-len(rows) // comm.size)  # rounded up, so that no row is lost
    mine = rows[comm.rank :: comm.size]
    loss = model(mine).square().sum() / len(rows)
    loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)


# === u15-hooks


@contextmanager
def hooks_on(model, hook):
    """Call `hook(parameter)` as soon as a gradient is complete, while the `with` lasts."""
    handles = [one.register_post_accumulate_grad_hook(hook) for one in model.parameters()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def backward_in_hooks(comm, model, loss):
    started = []

    def send(parameter):
        started.append(comm.all_reduce(parameter.grad, async_op=True))

    with hooks_on(model, send):
        loss.backward()
        while started:
            started.pop().wait()


# === u15-apart


def train_together(comm, model, batches, learning_rate):
    for each in [*model.parameters(), *model.buffers()]:
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
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return norm.item()


# === u15-scale


def backward_of_mean(comm, model, micro_batches):
    for rows in micro_batches:
        loss = model(rows).square().mean() / (comm.size * len(micro_batches))
        loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)


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
    bucket, held = [], 0
    for parameter in model.parameters():
        bucket.append(parameter)
        held += parameter.grad.nbytes
        if held >= bucket_bytes:
            send(comm, bucket)
            bucket, held = [], 0
    if held:
        send(comm, bucket)


# === u15-masks


def backward_with_dropout(comm, model, batches, seed):
    torch.manual_seed(seed * comm.size + comm.rank)
    for rows in batches:
        mine = rows.tensor_split(comm.size)[comm.rank]
        (model(mine).square().sum() / len(rows)).backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
