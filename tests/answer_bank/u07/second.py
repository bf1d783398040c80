"""Right answers to the exercises of unit 07, in a second style."""

import math

import torch

# === u07-master


@torch.no_grad()
def update(weights, masters, learning_rate):
    for n in range(len(weights)):
        gradient = weights[n].grad
        if gradient is None:
            continue
        gradient = gradient.to(torch.float32)
        weights[n].grad = None
        masters[n].sub_(gradient, alpha=learning_rate)
        weights[n].data.copy_(masters[n].to(torch.bfloat16))


# === u07-scaler


class LossScaler:
    def __init__(self, scale, growth_factor, backoff_factor, growth_interval):
        self.scale = torch.tensor(scale)
        self.factors = (growth_factor, backoff_factor)
        self.left = self.interval = growth_interval
        self.stepped = None

    def scaled(self, loss):
        return self.scale * loss

    def step(self, optimizer):
        every = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in every if p.grad is not None]
        for grad in grads:
            grad.mul_(1 / self.scale)
        self.stepped = all(math.isfinite(grad.abs().max().item()) for grad in grads)
        if self.stepped:
            optimizer.step()
        return self.stepped

    def update(self):
        growth, backoff = self.factors
        self.left = self.left - 1 if self.stepped else self.interval
        if not self.stepped:
            self.scale = self.scale * backoff
        elif self.left == 0:
            self.scale, self.left = self.scale * growth, self.interval


# === u07-int8


def quantised(x):
    rows, scales = [], []
    for row in x.tolist():
        scale = max(abs(number) for number in row) / 127 or 1.0
        scales.append([scale])
        rows.append([round(number / scale) for number in row])
    return torch.tensor(rows, dtype=torch.int8), torch.tensor(scales)


# === u07-stochastic


def rounded_by_chance(x, random):
    bits = (x.view(torch.int32) + random) >> 16
    return bits.to(torch.int16).view(torch.bfloat16)
