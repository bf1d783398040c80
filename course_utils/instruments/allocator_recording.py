"""Which bytes does a training step really hold on a GPU, and what are they?

`trace_allocator` is `trace_memory` for a real device: it shows not what operations should need, but
what the allocator gave, the workspaces of kernels and of cuBLAS included.

    >>> trace = trace_allocator(training.step, *training.owners, num_steps=2, path="memory.pickle")
    >>> memory_timeline(trace)

The file opens at https://pytorch.org/memory_viz, which shows each block with its stack of calls.

Sources: PyTorch documentation, "Understanding CUDA Memory Usage".
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils.configs.validation import require_positive
from course_utils.instruments.allocator_history import Mark, PhaseStart, read_history
from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.memory_trace import MemoryTrace
from course_utils.instruments.memory_tracer import trace_memory
from course_utils.instruments.preconditions import (
    collector_disabled,
    require_call,
    require_real_tensors,
)
from course_utils.instruments.training_step import Owner, StepFollower

NO_HISTORY = (
    "There is no GPU here, so there is no allocator history to read or save: this is what "
    "trace_memory sees on the CPU."
)
MAX_EVENTS = 1_000_000


def trace_allocator(
    step: Callable[[], object],
    *owners: Owner,
    num_steps: int = 1,
    path: str | Path | None = None,
) -> MemoryTrace:
    """Bytes that the GPU's allocator holds over ``num_steps`` calls of ``step()``, by category.

    Without a GPU it prints a sentence and returns the trace of `trace_memory`.

    Args:
        step: Takes nothing; runs one training step on the GPU, without CUDA graphs.
        owners: All modules and optimizers that take part, and tensors that count as parameters.
        num_steps: How often ``step()`` is called.
        path: File for the history, in the format of PyTorch's viewer; None writes none.

    Returns:
        The trace over allocations; it holds no tensor.

    Raises:
        TypeError: If the step cannot be called, or an owner is not a module, optimizer or tensor.
        ValueError: If the step allocates nothing on the GPU or too often to be recorded, if
            tensors are fake here, or if another instrument is running.
    """
    require_call("trace_allocator", step)
    if not torch.cuda.is_available():
        print(NO_HISTORY)
        return trace_memory(step, *owners, num_steps=num_steps)
    return record_allocator(step, owners, num_steps, path)


@exclusive
def record_allocator(
    step: Callable[[], object], owners: tuple[Owner, ...], num_steps: int, path: str | Path | None
) -> MemoryTrace:
    """`trace_allocator` on a machine with a GPU."""
    require_real_tensors("trace_allocator")
    require_positive("trace_allocator", num_steps=num_steps)
    with ExitStack() as stack:
        stack.enter_context(collector_disabled())
        stack.enter_context(_recording())
        marker = _Marker()
        for owner in owners:
            marker.add_owner(owner, stack)
        marker.add_optimizer_hooks(stack)
        stack.enter_context(marker)
        for number in range(1, num_steps + 1):
            marker.begin_step(number)
            step()
        torch.cuda.synchronize()
        snapshot = torch.cuda.memory._snapshot()
    _require_complete(snapshot, marker.device)
    if path is not None:
        Path(path).write_bytes(pickle.dumps(snapshot))
    return read_history(snapshot, marker.marks, marker.phases, marker.device)


@contextmanager
def _recording() -> Iterator[None]:
    """Record the allocator's history, starting from an empty one."""
    torch.cuda.synchronize()  # the allocator exists only once the GPU has been used
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.memory._record_memory_history(max_entries=MAX_EVENTS, stacks="python")
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def _require_complete(snapshot: dict[str, Any], device: int) -> None:
    if len(snapshot["device_traces"][device]) >= MAX_EVENTS:
        raise ValueError(
            f"the allocator did more than {MAX_EVENTS:,} things, and the first of them are lost: "
            f"trace fewer steps"
        )


class _Marker(StepFollower):
    """Notes where phases begin and which blocks hold what, in events of the allocator."""

    def __init__(self) -> None:
        super().__init__()
        self.device = torch.cuda.current_device()
        self.events_before = 0
        self.events_before = self._num_events()
        self.marks: list[Mark] = []
        self.phases: list[PhaseStart] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._enter(self.running_phase(torch.is_grad_enabled()))
        return func(*args, **(kwargs or {}))

    def _num_events(self) -> int:
        """Allocations and frees since the start."""
        counts = torch.cuda.memory_stats_as_nested_dict(self.device)["allocation"]["all"]
        return int(counts["allocated"] + counts["freed"]) - self.events_before

    def _enter(self, phase: str) -> None:
        if phase != self.phase:
            self.phase = phase
            self.phases.append(PhaseStart(self._num_events(), self.step, phase))

    def begin_step(self, number: int) -> None:
        self.step, self.phase = number, ""
        self._enter("forward")

    def set_category(self, tensor: Tensor, category: str) -> None:
        address = tensor.untyped_storage().data_ptr()
        self.marks.append(Mark(self._num_events(), address, category))
