"""Right answers to the exercises of unit 08, in a third style."""

import torch
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from course_utils.reference import token_loss

# === u08-accumulate


def accumulate(model, ids, targets, micro_batch_size):
    counts = [int((y != -100).sum()) for y in targets.split(micro_batch_size)]
    parts = zip(ids.split(micro_batch_size), targets.split(micro_batch_size), counts)
    mean = 0.0
    for x, y, count in parts:
        if count:
            loss = token_loss(model(x), y) * count / sum(counts)
            loss.backward()
            mean += loss.item()
    return mean


# === u08-noise-scale


def noise_scale(gradients):
    mean = gradients.mean(0)
    if mean.norm() == 0:
        return float("inf")
    return ((gradients - mean).norm() ** 2 / len(gradients) / mean.norm() ** 2).item()


# === u08-mean-of-means


def token_weights(lengths, micro_batch_size):
    parts = torch.tensor(lengths, dtype=torch.float64).split(micro_batch_size)
    return [1 / (p.sum().item() * len(parts)) for p in parts for _ in p]


# === u08-train


def train(model, optimizer, scheduler, micro_batches, micro_batches_per_step, max_norm):
    results, group = [], []
    model.zero_grad()
    for number, batch in enumerate(micro_batches, 1):
        group.append(batch)
        if len(group) == micro_batches_per_step or number == len(micro_batches):
            results.append(step(model, optimizer, scheduler, group, max_norm))
            group = []
    return results


def step(model, optimizer, scheduler, group, max_norm):
    total, count = torch.zeros((), dtype=torch.float64), 0
    for ids, targets in group:
        logits = model(ids).transpose(1, 2)
        loss = F.cross_entropy(logits, targets, reduction="sum")
        loss.backward()
        total += loss.detach()
        count += int((targets >= 0).sum())
    try:
        if not count:
            return None
        for parameter in model.parameters():
            parameter.grad /= count
        norm = clip_grad_norm_(model.parameters(), max_norm)
        if not (torch.isfinite(norm) and torch.isfinite(total)):
            return None
        optimizer.step()
        scheduler.step()
        return (total / count).item()
    finally:
        model.zero_grad()


# === u08-buffer


def sum_in_fp32(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    buffers = [torch.zeros(p.shape) for p in trainable]
    for number, p in enumerate(trainable):

        def add(p, number=number):
            buffers[number].data = buffers[number] + p.grad
            p.grad = None

        p.register_post_accumulate_grad_hook(add)
    return buffers
