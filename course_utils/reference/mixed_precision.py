"""What does training keep from one step to the next? One Adam step in each of four recipes.

The weight that the matrix products read, its gradient, and the optimizer's state: in mixed
precision also a master copy of the weight in fp32, because a small step would vanish in bf16.

    >>> state = TrainingState(5, "bf16")
    >>> state.step()
    >>> {part: [t.dtype for t in tensors] for part, tensors in state.tensors().items()}["weights"]
    [torch.bfloat16]
"""

import torch
from torch import Tensor, nn

from course_utils.configs import precision
from course_utils.reference.dtypes import FLOATS


class TrainingState:
    """The tensors that outlive a training step, for ``num_params`` parameters."""

    def __init__(self, num_params: int, recipe: str) -> None:
        """Create weights in the recipe's precision, and a master copy if the recipe has one."""
        sizes = precision(recipe)
        self.weight = nn.Parameter(torch.ones(num_params, dtype=FLOATS[sizes.weight_bytes]))
        has_master = sizes.master_weight_bytes > 0
        self.master = nn.Parameter(self.weight.detach().float()) if has_master else self.weight
        self.keeps_bf16_gradient = sizes.gradient_bytes != 4
        self.has_sum = has_master and sizes.gradient_bytes >= 4
        self.gradient_sum = torch.zeros(num_params) if self.has_sum else None
        self.optimizer = torch.optim.AdamW([self.master])

    def step(self) -> None:
        """Run forward, backward, and one optimizer step."""
        self.weight.float().square().sum().backward()
        if self.master is self.weight:
            self.optimizer.step()
            return
        self.master.grad = self._gradient_in_fp32()
        self.optimizer.step()
        self.master.grad = None
        with torch.no_grad():
            self.weight.copy_(self.master)

    def _gradient_in_fp32(self) -> Tensor:
        assert self.weight.grad is not None
        if self.gradient_sum is None:
            return self.weight.grad.float()  # freed when the step is over
        self.gradient_sum += self.weight.grad
        if not self.keeps_bf16_gradient:
            self.weight.grad = None
        return self.gradient_sum

    def tensors(self) -> dict[str, list[Tensor]]:
        """What stays in memory, as ``weights``, ``gradients`` and ``optimizer``."""
        moments = self.optimizer.state[self.master]
        master = [] if self.master is self.weight else [self.master]
        gradients = (self.weight.grad, self.gradient_sum)
        return {
            "weights": [self.weight],
            "gradients": [each for each in gradients if each is not None],
            "optimizer": [*master, moments["exp_avg"], moments["exp_avg_sq"]],
        }


@torch.no_grad()
def step_on_masters(weights: list[Tensor], masters: list[Tensor], learning_rate: float) -> None:
    """One step of SGD on fp32 masters, rounded into the bf16 weights; gradients are freed.

    Weights without a gradient stay as they are, as do their masters.
    """
    for weight, master in zip(weights, masters, strict=True):
        if weight.grad is not None:
            master.add_(weight.grad.float(), alpha=-learning_rate)
            weight.copy_(master)
            weight.grad = None
