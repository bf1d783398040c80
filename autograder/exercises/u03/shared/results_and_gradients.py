"""What a check of memory-saving code compares: results, gradients, and bytes kept."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_utils.instruments import count_saved_bytes

FLOAT64_BYTES = 8

# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
ROUNDING = 1e-9

NOTHING_WRONG = {"wrong_results": 0, "wrong_gradients": 0}

Function = Callable[..., Tensor]


def wrong_numbers(answer: Function, oracle: Function, inputs: list[Tensor]) -> dict[str, int]:
    """How many entries of result and gradients differ from those of an oracle, in float64."""
    ours, theirs = (_result_and_gradients(each, inputs) for each in (answer, oracle))
    differ = [_num_different(a, b) for a, b in zip(ours, theirs, strict=True)]
    return {"wrong_results": differ[0], "wrong_gradients": sum(differ[1:])}


def upstream(result: Tensor) -> Tensor:
    """An upstream gradient that differs from entry to entry and is nowhere one."""
    return torch.linspace(1.5, 2.5, result.numel(), dtype=result.dtype).view_as(result)


def _result_and_gradients(function: Function, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    result = function(*leaves)
    result.backward(upstream(result))
    gradients = (torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves)
    return [result.detach(), *gradients]


def _num_different(ours: Tensor, theirs: Tensor) -> int:
    """Entries that differ; all of them where the shape does."""
    if ours.shape != theirs.shape:
        return theirs.numel()
    return int((~torch.isclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING)).sum())


def kept(call: Function, inputs: list[Tensor], *owners: nn.Module) -> dict[str, int]:
    """Bytes a call saves for backward, and bytes it holds where autograd does not see them."""
    made = [each.detach().clone().requires_grad_() * 1 for each in inputs]
    saved = count_saved_bytes(lambda: call(*made), *owners)
    return {"saved_bytes": saved.total_bytes, "unseen_bytes": saved.unseen_bytes}


def random_tensors(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Normally distributed tensors in float64, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
