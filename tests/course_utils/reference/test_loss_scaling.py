"""The scale after good steps and after an overflow, beside PyTorch's own scaler."""

import math

import torch

from course_utils.reference.loss_scaling import LossScaler

GRADIENTS = (1.0, 1.0, math.inf, 1.0, 1.0, 1.0, math.nan, 1.0)


def test_scale_and_steps_are_those_of_torch():
    torchs = torch.amp.GradScaler("cpu", 1024.0, 2.0, 0.5, 2)
    ours = LossScaler(1024.0, 2.0, 0.5, 2)
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in "ab"]
    optimizers = [torch.optim.SGD([each], 0.1) for each in weights]
    for gradient in GRADIENTS:
        for scaled, weight, optimizer in zip(
            (ours.scaled, torchs.scale), weights, optimizers, strict=True
        ):
            optimizer.zero_grad()
            scaled((weight * gradient).sum()).backward()
        assert ours.step(optimizers[0]) == math.isfinite(gradient)
        torchs.step(optimizers[1])
        ours.update()
        torchs.update()
        assert ours.scale == torchs.get_scale()
        assert torch.equal(*weights)
