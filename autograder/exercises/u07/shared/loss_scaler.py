"""The course's loss scaler, and one with a mistake, to recognise a student's by."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class LossScaler:
    """The course's own answer: the scale shrinks after an overflow and grows after good steps."""

    def __init__(
        self, scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
    ) -> None:
        """Start at a scale."""
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
        """Shrink after an overflow, grow after ``growth_interval`` good steps in a row."""
        self.num_good = 0 if self.has_overflowed else self.num_good + 1
        if self.has_overflowed:
            self.scale *= self.backoff_factor
        elif self.num_good == self.growth_interval:
            self.scale *= self.growth_factor
            self.num_good = 0


def gradients_of(optimizer: Optimizer, num_groups: int | None = None) -> list[Tensor]:
    """The gradients of an optimizer's weights, in all groups or the first ``num_groups``."""
    every = (each for group in optimizer.param_groups[:num_groups] for each in group["params"])
    return [each.grad for each in every if each.grad is not None]


class FlawedScaler(LossScaler):
    """The course's scaler with one named mistake."""

    def __init__(self, flaw: str, *settings: Any) -> None:
        """Take the name of a mistake, empty for none, and the settings of a scaler."""
        super().__init__(*settings)
        self.flaw = flaw

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        self.is_loss_finite = bool(loss.isfinite())
        if self.flaw == "scaled in place":
            loss *= self.scale
            return loss
        return loss if self.flaw == "not scaled" else super().scaled(loss)

    def step(self, optimizer: Optimizer) -> bool:
        """Unscale and skip as the mistake says."""
        power = {"not unscaled": 0, "unscaled twice": 2, "multiplied again": -1}.get(self.flaw, 1)
        num_groups = 1 if self.flaw == "one group" else None
        gradients = gradients_of(optimizer, num_groups)
        for each in self._until_bad(gradients):
            each.div_(self.scale**power)
        self.has_overflowed = self._overflow([self._is_bad(each) for each in gradients])
        is_one_missing = len(gradients) < sum(len(g["params"]) for g in optimizer.param_groups)
        self.has_overflowed |= self.flaw == "none is bad" and is_one_missing
        self._repair(optimizer)
        if not self.has_overflowed or self.flaw in ("no skip", "only the bad ones", "zeros"):
            optimizer.step()
        is_good = not self.has_overflowed
        if self.flaw == "updates twice" or (self.flaw == "updates good steps twice" and is_good):
            self.update()
        return not self.has_overflowed

    def _until_bad(self, gradients: list[Tensor]) -> list[Tensor]:
        """All gradients, or those up to the first bad one."""
        bad = [n for n, each in enumerate(gradients) if self._is_bad(each)]
        return gradients[: bad[0] + 1] if bad and self.flaw == "stops dividing" else gradients

    def _is_bad(self, gradient: Tensor) -> bool:
        if self.flaw == "one finite":
            return not bool(gradient.isfinite().any())
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
