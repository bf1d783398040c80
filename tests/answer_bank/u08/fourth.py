"""Right answers to the exercises of unit 08, in a fourth style."""

import math

import torch
from torch.nn.utils import clip_grad_norm_

from course_utils.reference import token_loss

# === u08-accumulate


def accumulate(model, ids, targets, micro_batch_size):
    num_targets = (targets != -100).sum().item()
    total = torch.zeros(())
    for start in range(0, len(ids), micro_batch_size):
        some = slice(start, start + micro_batch_size)
        counts = targets[some] != -100
        if not counts.any():
            continue
        logits = model(ids[some])
        scores = logits.log_softmax(-1)[counts]
        loss = -scores.gather(1, targets[some][counts][:, None]).sum() / num_targets
        loss.backward()
        total = total.double() + loss
    return float(total)


# === u08-train


def train(model, optimizer, scheduler, micro_batches, micro_batches_per_step, max_norm):
    results = []
    for start in range(0, len(micro_batches), micro_batches_per_step):
        group = micro_batches[start : start + micro_batches_per_step]
        counts = [(y != -100).sum().item() for _, y in group]
        optimizer.zero_grad()
        mean = 0 if any(counts) else math.nan
        for (x, y), count in zip(group, counts):
            if count:
                loss = token_loss(model(x), y) * count / sum(counts)
                loss.backward()
                mean += loss.item()
        norm = clip_grad_norm_(model.parameters(), max_norm)
        if math.isfinite(mean + norm):
            optimizer.step()
            scheduler.step()
            results.append(mean)
        else:
            results.append(None)
    return results


# === u08-buffer


class Mover:
    def __init__(self, shape):
        self.total = torch.zeros(shape)

    def __call__(self, parameter):
        self.total.copy_(self.total + parameter.grad.float())
        parameter.grad = None


def sum_in_fp32(model):
    movers = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            movers.append(Mover(parameter.shape))
            parameter.register_post_accumulate_grad_hook(movers[-1])
    return [mover.total for mover in movers]
