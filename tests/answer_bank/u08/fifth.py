"""Right answers to the exercises of unit 08, in a fifth style."""

from torch.nn import functional as F

# === u08-accumulate


def accumulate(model, ids, targets, micro_batch_size):
    n = (targets != -100).sum()
    mean = 0.0
    for x, y in zip(ids.split(micro_batch_size), targets.split(micro_batch_size)):
        mine = (y != -100).sum()
        if mine > 0:
            logits = model(x).transpose(1, 2)
            loss = F.cross_entropy(logits, y) * (mine / n).double()
            loss = F.cross_entropy(logits, y) * (int(mine) / int(n))
            loss.backward()
            mean += float(loss)
    return mean
