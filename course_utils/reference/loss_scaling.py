"""How do small gradients survive in fp16? A scale for the loss, found by trying.

After an overflow the scale is made smaller and the step skipped; after enough good steps in a row a
larger one is tried, as `torch.amp.GradScaler` does.

    >>> scaler = LossScaler(1024.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2)

Source: Micikevicius et al. 2018, Mixed Precision Training, section 3.2.
"""

from torch import Tensor
from torch.optim import Optimizer


class LossScaler:
    """A scale for the loss, made smaller by an overflow and larger by good steps."""

    def __init__(
        self, scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
    ) -> None:
        self.scale = scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.num_good, self.has_overflowed = 0, False

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        return loss * self.scale

    def step(self, optimizer: Optimizer) -> bool:
        """Unscale the gradients, and let the optimizer step if all are finite."""
        weights = (each for group in optimizer.param_groups for each in group["params"])
        gradients = [each.grad for each in weights if each.grad is not None]
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
