"""Right answers to the exercises of unit 09, in a third style."""

import torch

# === u09-ring


def ring_all_reduce(comm, tensor):
    # the other way round the ring
    n, rank = comm.size, comm.rank
    parts = list(torch.tensor_split(tensor.flatten(), n))
    for phase in (0, 1):
        for step in range(n - 1):
            k = (rank + step - phase) % n
            handle = comm.send(parts[k].clone(), (rank - 1) % n, async_op=True)
            buffer = torch.zeros_like(parts[(k + 1) % n])
            comm.receive(buffer, (rank + 1) % n)
            handle.wait()
            if phase == 0:
                buffer += parts[(k + 1) % n]
            parts[(k + 1) % n].copy_(buffer)


# === u09-flat


def backward_flat(comm, model, loss):
    # the buffer is there first, and backward adds into it
    trainable = [p for p in model.parameters() if p.requires_grad]
    total = sum(p.numel() for p in trainable)
    flat, start = torch.zeros(total, dtype=trainable[0].dtype), 0
    for p in trainable:
        view = flat[start : start + p.numel()].view_as(p)
        if p.grad is not None:
            view.copy_(p.grad)
        p.grad, start = view, start + p.numel()
    loss.backward()
    comm.all_reduce(flat)
