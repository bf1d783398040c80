"""Right answers to the exercises of unit 10, in a third style."""

import torch

# === u10-norm


def clip_sharded(comm, gradients, max_norm):
    mine = torch.cat([each.reshape(-1) for each in gradients]).norm().square()
    handle = comm.all_reduce(mine, async_op=True)
    handle.wait()
    norm = mine.sqrt()
    factor = torch.clamp(max_norm / norm, max=1.0)
    for position, each in enumerate(gradients):
        gradients[position] = each.copy_(each * factor)
    return norm
