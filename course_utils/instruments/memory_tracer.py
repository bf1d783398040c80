"""How many bytes are live at every moment of a training step, and what are they?

The tracer sees every operation that runs and the storages that it makes; a weak reference tells
when one is freed. With fake tensors nothing is allocated, yet the bytes are those of a real run.

    >>> with fake_tensors():
    ...     layer, x = nn.Linear(2**14, 2**14), torch.ones(2**20, 2**14)
    ...     trace = trace_memory(lambda: layer(x).relu().sum().backward(), layer)
    >>> trace
    MemoryTrace: 138,512,760,840 bytes at operation 9 of 17, in phase 'backward' of step 1
    >>> trace.live_at(trace.peak_at)["activations"]
    68719476744

Categories: parameters are what the given modules hold; gradients, what becomes the ``grad`` of a
parameter; optimizer states, what an optimizer holds; activations, what the forward pass makes and
leaves for the backward pass; temporaries, the rest, recomputed tensors included.

Not seen: workspace that a kernel frees before it returns, an allocator's rounding and cache, and
older tensors that are not given. A reference cycle keeps its tensors to the end, as the garbage
collector is off.

On a rank of a `VirtualCluster` it follows that rank alone: neither the other ranks nor the copies
that carry a message are seen.

Sources: PyTorch documentation, "TorchDispatchMode", "Weak references".
"""

import importlib
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from course_utils.instruments.exclusive_use import exclusive_on_a_rank
from course_utils.instruments.fake import one_sentence_errors
from course_utils.instruments.memory_trace import (
    MemoryTrace,
    Phase,
    TracedStorage,
    bytes_at_end,
)
from course_utils.instruments.operands import tensors_in
from course_utils.instruments.preconditions import collector_disabled
from course_utils.instruments.training_step import Owner, StepFollower

# These do no work on tensors; how often they run differs between real and fake tensors.
IGNORED_NAMESPACES = ("prim", "profiler")


@exclusive_on_a_rank
def trace_memory(step: Callable[[], object], *owners: Owner, num_steps: int = 1) -> MemoryTrace:
    """Bytes live over the operations of ``num_steps`` calls of ``step()``, by category.

    The phase follows from what runs: an operation of autograd's engine is backward, one of an
    optimizer is step, and one that makes a tensor while gradients are recorded is forward. All
    hooks are removed at the end, also if ``step()`` fails.

    Args:
        step: Takes nothing; runs one training step, or part of one. Its result is dropped.
        owners: All modules and optimizers that take part, and tensors that count as parameters:
            what they hold is live from the beginning.
        num_steps: How often ``step()`` is called.

    Returns:
        The trace; it holds no tensor.

    Raises:
        TypeError: If an owner is not a module, optimizer or tensor.
        ValueError: If a parameter is used that no owner holds, if a tensor without a storage is
            made, such as a sparse one, if real and fake tensors meet, if a GPU is named and there
            is none, or if another instrument is running.
    """
    if type(num_steps) is not int or num_steps < 1:
        raise ValueError(f"trace_memory: num_steps must be an int above zero, got {num_steps!r}")
    # The first operation under a mode imports this module, which would keep its tensors alive.
    importlib.import_module("torch._dynamo")
    recorder = _Recorder()
    with ExitStack() as stack:
        stack.enter_context(collector_disabled())
        stack.enter_context(one_sentence_errors())
        for owner in sorted(owners, key=lambda owner: isinstance(owner, Optimizer)):
            recorder.add_owner(owner, stack)
        recorder.add_optimizer_hooks(stack)
        stack.enter_context(recorder)
        for number in range(1, num_steps + 1):
            recorder.begin_step(number)
            step()
            recorder.end_phase(recorder.now + 1)
        return recorder.trace()


@dataclass(kw_only=True)
class _Record:
    """A storage while the trace runs; dropping `ref` also drops its callback."""

    operation: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    storage_bytes: int
    born: int
    is_forward: bool
    category: str = ""
    died: int | None = None
    ref: Any = None

    def traced(self) -> TracedStorage:
        return TracedStorage(
            self.category or "temporaries",
            self.operation,
            self.shape,
            self.dtype,
            self.storage_bytes,
            self.born,
            self.died,
        )


class _Recorder(StepFollower):
    """Records operations and when storages are made and freed, without keeping them alive.

    Attributes:
        now: Number of operations so far.
        start: First operation of the current phase.
        live: Storages that are not freed yet, by address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now, self.start, self.phase = 0, 1, "forward"
        self.records: list[_Record] = []
        self.live: dict[int, _Record] = {}
        self.phases: list[tuple[int, str, int, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace in IGNORED_NAMESPACES:
            return func(*args, **(kwargs or {}))
        self.now += 1
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        # lift_fresh hands on a tensor that no operation was seen to make: count it as made here
        given = [] if name == "lift_fresh" else _dense_tensors((args, kwargs), name)
        made = self._new_storages(given, _dense_tensors(result, name))
        self._enter(self.running_phase(bool(made) and torch.is_grad_enabled()))
        for tensor in made:
            self._add(tensor, name)
        return result

    def _new_storages(self, given: list[Tensor], results: list[Tensor]) -> list[Tensor]:
        """One result for each new storage; also notes what was resized in place."""
        old = set[int]()
        for tensor in given:
            old.add(address := self._current_address(tensor))
            if address not in self.live and isinstance(tensor, nn.Parameter):
                raise _not_owned(tensor)
        made = {self._current_address(tensor): tensor for tensor in reversed(results)}
        return [made[each] for each in made if each not in old and each not in self.live]

    def _current_address(self, tensor: Tensor) -> int:
        """Address of a storage, which counts with its new size from here on if it was resized."""
        storage = tensor.untyped_storage()
        address: int = storage._cdata
        record = self.live.get(address)
        if record is not None and record.storage_bytes != storage.nbytes():
            record.died, record.ref = self.now, None
            resized = self._add(tensor, record.operation)
            resized.category, resized.is_forward = record.category, record.is_forward
        return address

    def _enter(self, phase: str) -> None:
        if phase != self.phase:
            self.end_phase(self.now)
            self.phase = phase

    def begin_step(self, number: int) -> None:
        self.step, self.start, self.phase = number, self.now + 1, "forward"

    def end_phase(self, stop: int) -> None:
        """Close the phase; what a forward pass made and is still live is an activation."""
        if self.phase == "forward":
            for record in self.live.values():
                if record.is_forward and not record.category:
                    record.category = "activations"
        if stop > self.start:
            self.phases.append((self.step, self.phase, self.start, stop))
        self.start = stop

    def add_owner(self, owner: Owner, stack: ExitStack) -> None:
        if isinstance(owner, Optimizer) and not self.live:
            raise ValueError("trace_memory needs the model too, to tell weights from copies")
        super().add_owner(owner, stack)

    def set_category(self, tensor: Tensor, category: str) -> None:
        """Set a storage's category for its whole life, unless it belongs to an owner already."""
        record = self.live.get(_address(tensor)) or self._add(tensor, "")
        if record.category not in ("parameters", "optimizer_states"):
            record.category = category

    def require_owned(self, weight: Tensor) -> None:
        if _address(weight) not in self.live:
            raise _not_owned(weight)

    def _add(self, tensor: Tensor, operation: str) -> _Record:
        storage = tensor.untyped_storage()
        record = _Record(
            operation=operation,
            shape=tuple(tensor.shape),
            dtype=tensor.dtype,
            storage_bytes=storage.nbytes(),
            born=self.now,
            is_forward=self.phase == "forward",
        )
        address = storage._cdata
        record.ref = weakref.ref(storage, lambda _: self._mark_freed(address))
        self.records.append(record)
        self.live[address] = record
        return record

    def _mark_freed(self, address: int) -> None:
        self.live.pop(address).died = self.now + 1

    def trace(self) -> MemoryTrace:
        """The finished trace; storages that live on no longer report when they are freed."""
        if not self.now:
            raise ValueError("trace_memory saw no operation on tensors: step() must run some")
        storages = tuple(record.traced() for record in self.records)
        phases = tuple(
            Phase(step, name, start, stop, bytes_at_end(stop, storages))
            for step, name, start, stop in self.phases
        )
        self.records.clear()
        self.live.clear()
        return MemoryTrace(storages=storages, phases=phases, num_operations=self.now)


def _address(tensor: Tensor) -> int:
    """Address of the storage, unique while the storage lives."""
    address: int = tensor.untyped_storage()._cdata
    return address


def _not_owned(weight: Tensor) -> ValueError:
    return ValueError(
        f"a parameter of shape {tuple(weight.shape)} is used that the trace was not told "
        f"of: name all that takes part, as in trace_memory(step, model, optimizer)"
    )


def _dense_tensors(values: object, operation: str) -> list[Tensor]:
    tensors = tensors_in(values)
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise ValueError(
                f"trace_memory follows dense tensors, and `{operation}` has one of layout "
                f"{tensor.layout}: make it dense first"
            )
    return tensors
