"""A loss scaler, and the same with one mistake, to recognise it by."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class LossScaler:
    """The course's own answer: a scale that shrinks after an overflow and grows in peace."""

    def __init__(
        self, scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
    ) -> None:
        """Begin with a scale."""
        self.scale = scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.num_good, self.has_overflowed = 0, False

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        return loss * self.scale

    def step(self, optimizer: Optimizer) -> bool:
        """Unscale the gradients, and let the optimizer step if all are finite."""
        gradients = gradients_of(optimizer)
        for each in gradients:
            each.div_(self.scale)
        self.has_overflowed = not all(bool(each.isfinite().all()) for each in gradients)
        if not self.has_overflowed:
            optimizer.step()
        return not self.has_overflowed

    def update(self) -> None:
        """Shrink after an overflow, grow after so many good steps in a row."""
        self.num_good = 0 if self.has_overflowed else self.num_good + 1
        if self.has_overflowed:
            self.scale *= self.backoff_factor
        elif self.num_good == self.growth_interval:
            self.scale *= self.growth_factor
            self.num_good = 0


def gradients_of(optimizer: Optimizer) -> list[Tensor]:
    """Gradients of an optimizer's weights, of those that have one."""
    every = (each for group in optimizer.param_groups for each in group["params"])
    return [each.grad for each in every if each.grad is not None]


class Flawed(LossScaler):
    """The course's scaler with one mistake, which has a name."""

    def __init__(self, flaw: str, *settings: Any) -> None:
        """Take the name of a mistake, or of none, and what a scaler takes."""
        super().__init__(*settings)
        self.flaw = flaw

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        self.is_loss_finite = bool(loss.isfinite())
        return loss if self.flaw == "not scaled" else super().scaled(loss)

    def step(self, optimizer: Optimizer) -> bool:
        """Unscale as often as the mistake says, and skip when it says so."""
        power = {"not unscaled": 0, "unscaled twice": 2, "multiplied again": -1}.get(self.flaw, 1)
        gradients = gradients_of(optimizer)
        for each in gradients:
            each.div_(self.scale**power)
        self.has_overflowed = self._overflow([self._is_bad(each) for each in gradients])
        self._repair(optimizer)
        if not self.has_overflowed or self.flaw in ("no skip", "only the bad ones", "zeros"):
            optimizer.step()
        return not self.has_overflowed

    def _is_bad(self, gradient: Tensor) -> bool:
        is_bad = {"only inf": torch.isinf, "only nan": torch.isnan}.get(self.flaw)
        return bool((is_bad(gradient) if is_bad else ~gradient.isfinite()).any())

    def _overflow(self, bad: list[bool]) -> bool:
        if self.flaw == "the last alone":
            return bad[-1]
        if self.flaw == "all of them":
            return all(bad)
        if self.flaw == "loss alone":
            return not self.is_loss_finite
        return any(bad) or (self.flaw == "for good" and self.has_overflowed)

    def _repair(self, optimizer: Optimizer) -> None:
        """What is done to bad gradients instead of skipping."""
        if self.flaw == "zeros":
            for gradient in gradients_of(optimizer):
                gradient.nan_to_num_(0, 0, 0)
        if self.flaw == "only the bad ones":
            for weight in (each for group in optimizer.param_groups for each in group["params"]):
                if weight.grad is not None and self._is_bad(weight.grad):
                    weight.grad = None

    def update(self) -> None:
        """Shrink, count and grow as the mistake says."""
        if self.has_overflowed:
            power = {"no backoff": 0, "turned over": -1}.get(self.flaw, 1)
            self.scale *= self.backoff_factor**power
            if self.flaw not in ("goes on", "counts all"):
                self.num_good = 0
        if not self.has_overflowed or self.flaw == "counts all":
            self.num_good += 1
            self._grow_if_due()

    def _grow_if_due(self) -> None:
        interval = self.growth_interval + (self.flaw == "one later")
        is_overdue = self.flaw == "grows on and on" and self.num_good > interval
        if self.num_good == interval or is_overdue:
            self.scale *= 1 if self.flaw == "no growth" else self.growth_factor
            if self.flaw not in ("grows on and on", "grows once"):
                self.num_good = 0
