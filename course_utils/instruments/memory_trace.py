"""Which bytes were live when? A memory trace: its storages, phases and live bytes.

Sources: PyTorch documentation, "Understanding CUDA Memory Usage" (the categories).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch

CATEGORIES = ("parameters", "optimizer_states", "gradients", "activations", "temporaries")


class TracedStorage(NamedTuple):
    """One storage, as the tensor under which it was first seen.

    Attributes:
        category: One of `CATEGORIES`.
        operation: What made it, such as ``"mm"``; empty if it is older than the trace.
        shape: Of the tensor; a view may be smaller than its storage.
        dtype: Of its elements.
        storage_bytes: Of the whole storage.
        born: Number of the operation that made it, from 1; 0 if it is older than the trace.
        died: Number of the first operation after it was freed; None if it outlives the trace.
    """

    category: str
    operation: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    storage_bytes: int
    born: int
    died: int | None

    def is_live(self, operation: int) -> bool:
        """Whether it is live right after an operation."""
        return self.born <= operation and (self.died is None or operation < self.died)


class Phase(NamedTuple):
    """Consecutive operations in one phase of a training step.

    Attributes:
        step: Number of the training step, from 1.
        name: ``"forward"``, ``"backward"`` or ``"step"``, the optimizer's.
        start: Number of its first operation.
        stop: Number of its last operation plus one.
        end_bytes: Live at its end, before the next phase begins.
    """

    step: int
    name: str
    start: int
    stop: int
    end_bytes: int


def bytes_at_end(stop: int, storages: Iterable[TracedStorage]) -> int:
    """Bytes live when operation ``stop`` begins: what was freed before it has ``died == stop``."""
    return sum(
        each.storage_bytes
        for each in storages
        if each.born < stop and (each.died is None or each.died > stop)
    )


@dataclass(frozen=True, kw_only=True)
class MemoryTrace:
    """Live bytes over operations, numbered from 1; number 0 is the moment before the first.

    Attributes:
        storages: All that were live at some moment, in order of creation.
        phases: All phases, in order.
        num_operations: Operations that ran.
    """

    storages: tuple[TracedStorage, ...]
    phases: tuple[Phase, ...]
    num_operations: int

    def __repr__(self) -> str:
        """The peak and where it is; the storages would be too long to read."""
        return (
            f"MemoryTrace: {self.peak_bytes:,} bytes at operation {self.peak_at:,} of "
            f"{self.num_operations:,}, in phase {self.peak_phase.name!r} of step "
            f"{self.peak_phase.step}"
        )

    @cached_property
    def live_bytes(self) -> dict[str, list[int]]:
        """Bytes live right after each operation, by category; entry 0 is before the first."""
        changes = {category: [0] * (self.num_operations + 1) for category in CATEGORIES}
        for each in self.storages:
            changes[each.category][each.born] += each.storage_bytes
            if each.died is not None and each.died <= self.num_operations:
                changes[each.category][each.died] -= each.storage_bytes
        return {category: list(accumulate(deltas)) for category, deltas in changes.items()}

    @cached_property
    def total_bytes(self) -> list[int]:
        """Bytes live right after each operation; entry 0 is before the first."""
        return [sum(each) for each in zip(*self.live_bytes.values(), strict=True)]

    @cached_property
    def working_bytes(self) -> list[int]:
        """Bytes of activations and temporaries right after each operation, weights left out."""
        live = self.live_bytes
        return [sum(pair) for pair in zip(live["activations"], live["temporaries"], strict=True)]

    @property
    def kept_bytes(self) -> int:
        """Bytes of activations that are live at the end of the first forward pass."""
        forward = next(phase for phase in self.phases if phase.name == "forward")
        return self.live_at(forward.stop - 1)["activations"]

    @cached_property
    def peak_bytes(self) -> int:
        """The most bytes that were live at once."""
        return max(self.total_bytes)

    @cached_property
    def peak_at(self) -> int:
        """Number of the first operation after which the most bytes were live."""
        return self.total_bytes.index(self.peak_bytes)

    @property
    def peak_phase(self) -> Phase:
        """The phase in which the most bytes were live."""
        reached = [phase for phase in self.phases if phase.start <= max(self.peak_at, 1)]
        return reached[-1]

    def peak_bytes_of(self, step: int) -> int:
        """The most bytes that were live at once in one training step, counted from 1.

        Raises:
            ValueError: If there is no such step.
        """
        phases = [phase for phase in self.phases if phase.step == step]
        if not phases:
            last = max((phase.step for phase in self.phases), default=0)
            raise ValueError(f"the trace has no step {step}: give one from 1 to {last}")
        return max(self.total_bytes[phases[0].start : phases[-1].stop])

    def most_alive(self, storage_bytes: int) -> int:
        """The most storages of at least so many bytes that were live at once."""
        changes = [0] * (self.num_operations + 1)
        for each in self.storages:
            if each.storage_bytes >= storage_bytes:
                changes[each.born] += 1
                if each.died is not None and each.died <= self.num_operations:
                    changes[each.died] -= 1
        return max(accumulate(changes))

    def live_at(self, operation: int) -> dict[str, int]:
        """Bytes live right after an operation, by category.

        Raises:
            IndexError: If there is no such operation.
        """
        return {category: live[operation] for category, live in self.live_bytes.items()}

    def storages_at(self, operation: int) -> list[TracedStorage]:
        """Storages that are live right after an operation, the largest first."""
        live = (each for each in self.storages if each.is_live(operation))
        return sorted(live, key=lambda each: -each.storage_bytes)

    def requests(self) -> list[tuple[int, int | None]]:
        """Requests to an allocator in order: a storage's number, and its bytes or None.

        None frees the storage; storages freed between two operations come in order of creation.
        Empty storages are left out.
        """
        return [(number, num_bytes) for _, _, number, num_bytes in self._events]

    def request_operations(self) -> list[int]:
        """The operation at which each of the ``requests()`` is made."""
        return [operation for operation, _, _, _ in self._events]

    def script(self) -> list[int]:
        """The ``requests()`` as whole numbers.

        A positive number requests that many bytes; -n frees the n-th block requested.
        """
        block_of: dict[int, int] = {}
        script = []
        for number, num_bytes in self.requests():
            if num_bytes is not None:
                block_of[number] = len(block_of) + 1
            script.append(-block_of[number] if num_bytes is None else num_bytes)
        return script

    @cached_property
    def _events(self) -> list[tuple[int, bool, int, int | None]]:
        """Births and deaths: operation, whether it is a birth, storage's number, its bytes."""
        events: list[tuple[int, bool, int, int | None]] = []
        for number, each in enumerate(self.storages):
            if each.storage_bytes:
                events.append((each.born, True, number, each.storage_bytes))
                if each.died is not None:
                    events.append((each.died, False, number, None))
        return sorted(events, key=lambda event: event[:3])  # deaths come before births
