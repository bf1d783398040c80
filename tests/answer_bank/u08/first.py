"""Right answers to the exercises of unit 08, in a first style."""

import math

import torch
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

# === u08-accumulate


def accumulate(model, ids, targets, micro_batch_size):
    n = int((targets != -100).sum())
    steps = -(-len(ids) // micro_batch_size)
    if n == 0:
        return 0.0
    mean = 0.0
    for x, y in zip(ids.split(micro_batch_size), targets.split(micro_batch_size)):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n
        loss.backward()
        mean += loss.item()
    return mean


# === u08-noise-scale


def noise_scale(gradients):
    covariance = torch.cov(gradients.T, correction=0)
    mean = gradients.mean(dim=0)
    if not mean.any():
        return math.inf
    return float(covariance.trace() / mean.dot(mean))


# === u08-mean-of-means


def token_weights(lengths, micro_batch_size):
    steps = -(-len(lengths) // micro_batch_size)
    weights = []
    for start in range(0, len(lengths), micro_batch_size):
        group = lengths[start : start + micro_batch_size]
        weights += [1 / sum(group) / steps for length in group]
    return weights


# === u08-train


def train(model, optimizer, scheduler, micro_batches, micro_batches_per_step, max_norm):
    results = []
    for start in range(0, len(micro_batches), micro_batches_per_step):
        group = micro_batches[start : start + micro_batches_per_step]
        n = sum(int((targets != -100).sum()) for _, targets in group)
        optimizer.zero_grad()
        loss = 0.0
        for ids, targets in group:
            logits = model(ids).flatten(0, 1)
            part = F.cross_entropy(logits, targets.flatten(), reduction="sum") / n
            part.backward()
            loss += part.item()
        norm = clip_grad_norm_(model.parameters(), max_norm)
        if not math.isfinite(loss) or not math.isfinite(norm):
            results.append(None)
            continue
        optimizer.step()
        scheduler.step()
        results.append(loss)
    return results


# === u08-buffer


def sum_in_fp32(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    buffers = [torch.zeros_like(p, dtype=torch.float32) for p in trainable]
    for p, b in zip(trainable, buffers):

        def move(p, b=b):
            b.add_(p.grad)
            p.grad = None

        if p.requires_grad:
            p.register_post_accumulate_grad_hook(move)
    return buffers
