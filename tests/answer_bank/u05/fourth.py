"""Right answers to the exercises of unit 05, in a fourth style."""

from torch.nn import functional as F

# === u05-loss-in-pieces


def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
    losses, counts = [], []
    for part, wanted in zip(hidden.chunk(num_pieces), targets.chunk(num_pieces)):
        losses.append(checkpoint(lambda x, w, t: F.cross_entropy(x @ w.T, t), part, weight, wanted))
        counts.append(len(wanted))
    return sum(loss * n for loss, n in zip(losses, counts)) / sum(counts)
