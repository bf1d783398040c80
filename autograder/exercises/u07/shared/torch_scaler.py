"""What a loss scaler leaves after each step, by PyTorch's own."""

from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from autograder.observing.observation import undisturbed
from autograder.observing.u07 import scaler


def measured(scenario: str, *, steps: list[str], **settings: Any) -> dict[str, Any]:
    """What is there after each step with `torch.amp.GradScaler`, and no flaw."""
    with undisturbed():
        seen = _with_torchs(scaler.Trial(scenario, steps), steps, **settings)
    flaws = ("not_scaled", "losses_changed", "gone", "wrong_first", "wrong_second", "doublings")
    later = ("wrong_returns", "gone_when_skipped", "wrong_when_skipped")
    return {
        **dict.fromkeys(flaws, 0),
        "steps": sum(each["is_good"] for each in seen),
        "wrong_weights": 0,
        "other_scales": 0,
        "sum_of_scales": sum(each["scale"] for each in seen),
        **dict.fromkeys(later, 0),
        "of_torch": seen,
    }


def _with_torchs(
    trial: scaler.Trial, steps: list[str], *, scale: float, **settings: Any
) -> list[dict[str, Any]]:
    torchs, seen = torch.amp.GradScaler("cpu", init_scale=scale, **settings), []
    for step in steps:
        trial.optimizer.zero_grad()
        torchs.scale(trial.loss(step)).backward()
        before = trial.num_steps
        # PyTorch's refuses a step without any gradient
        torchs.step(_with_gradients_of_zero() if step == "nothing" else trial.optimizer)
        torchs.update()
        seen.append(
            {
                "is_good": trial.num_steps > before or step == "nothing",
                "gradients": trial.gradients(),
                "weights": [each.tolist() for each in trial.weights],
                "scale": torchs.get_scale(),
            }
        )
    return seen


def _with_gradients_of_zero() -> SGD:
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    return SGD([weight], 1.0)
