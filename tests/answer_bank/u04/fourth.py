"""Right answers to the exercises of unit 04, in a fourth style."""

import torch
from torch.nn import functional as F

# === u04-repair-training


def train(body, head, optimizer, batches, held_out):
    average, states = torch.zeros(()), []
    for ids, targets in batches:
        hidden = body(ids)
        logits = head(hidden)
        probabilities = logits.softmax(dim=-1)
        average = 0.9 * average + 0.1 * probabilities.amax(-1).mean()
        average = average.detach()
        states.append(torch.tensor(hidden[:, -1].tolist(), dtype=hidden.dtype))
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        losses = [F.cross_entropy(head(body(x)).flatten(0, 1), y.flatten()) for x, y in held_out]
    mean = torch.stack(losses).mean()
    return {"loss": mean, "confidence": average, "states": states}
