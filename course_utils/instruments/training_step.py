"""A training step as it runs: which phase it is in, and what its owners hold.

`trace_memory` and `trace_allocator` are both told what a storage is for by the modules and
optimizers that hold it, and by the hooks that a backward pass and an optimizer call.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

Owner = nn.Module | Tensor | Optimizer


def is_backward_running() -> bool:
    """Whether this thread is in a backward pass of autograd."""
    return bool(torch._C._current_graph_task_id() != -1)


class StepFollower(TorchDispatchMode):
    """Tells its subclass what each storage is for, as soon as that is known.

    Attributes:
        step: Number of the current step, from one.
        phase: ``"forward"``, ``"backward"`` or ``"step"``.
        is_stepping: Whether an optimizer runs.
        thread: Where it runs; an optimizer of another thread is another rank's.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.step, self.phase, self.is_stepping = 1, "", False
        self.thread = threading.get_ident()

    def set_category(self, tensor: Tensor, category: str) -> None:
        """Note what a tensor's storage is for."""
        raise NotImplementedError

    def require_owned(self, weight: Tensor) -> None:
        """Refuse a weight that no owner holds, if that can be known."""

    def running_phase(self, is_forward: bool) -> str:
        """The phase of what runs now, which may belong to a forward pass."""
        if is_backward_running():
            return "backward"
        if self.is_stepping:
            return "step"
        return "forward" if is_forward else self.phase  # no phase of its own, such as clipping

    def add_owner(self, owner: Owner, stack: ExitStack) -> None:
        """Note what an owner holds, and gradients of its parameters as soon as they exist.

        Raises:
            TypeError: If it is not a module, optimizer or tensor.
        """
        if isinstance(owner, nn.Module):
            self._add_parameters([*owner.parameters(), *owner.buffers()], stack)
        elif isinstance(owner, Tensor):
            self._add_parameters([owner], stack)
        elif isinstance(owner, Optimizer):
            for tensor in (*_weights(owner), *_states(owner)):
                self.set_category(tensor, "optimizer_states")
        else:
            raise TypeError(f"an owner must be a module, optimizer or tensor, got {type(owner)}")

    def _add_parameters(self, tensors: Iterable[Tensor], stack: ExitStack) -> None:
        for tensor in tensors:
            self.set_category(tensor, "parameters")
            if tensor.requires_grad and tensor.is_leaf:
                self._set_gradient(tensor)
                hook = tensor.register_post_accumulate_grad_hook(self._set_gradient)
                stack.callback(hook.remove)

    def _set_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self.set_category(parameter.grad, "gradients")

    def add_optimizer_hooks(self, stack: ExitStack) -> None:
        """Follow every optimizer of this thread, until the stack is left."""
        for handle in (
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ):
            stack.callback(handle.remove)

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == self.thread:
            self.is_stepping = True
            for weight in _weights(optimizer):
                self.require_owned(weight)
                self._set_gradient(weight)

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == self.thread:
            self.is_stepping = False
            for tensor in _states(optimizer):
                self.set_category(tensor, "optimizer_states")


def _weights(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _states(optimizer: Optimizer) -> Iterator[Tensor]:
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))
