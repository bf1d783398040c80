"""Which bytes were live when? The line that a trace of memory draws, and what it is made of.

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
        operation: What made it: ``"mm"``; empty for what was there before.
        shape: Of the tensor; a view may be smaller than its storage.
        dtype: Of its numbers.
        storage_bytes: Of the whole storage.
        born: Number of the operation that made it, from 1; 0 for what was there before.
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
    """Operations in a row that belong to one phase of a training step.

    Attributes:
        step: Number of the training step, from 1.
        name: ``"forward"``, ``"backward"`` or ``"step"``, the optimizer's.
        start: Number of its first operation.
        stop: One more than the number of its last.
        end_bytes: Live when it is over, before the next begins.
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
    """Live bytes over operations, which are numbered from 1; 0 stands for before the first.

    Attributes:
        storages: All that were live at some moment, in the order of their making.
        phases: All phases, in order.
        num_operations: Operations that ran.
    """

    storages: tuple[TracedStorage, ...]
    phases: tuple[Phase, ...]
    num_operations: int

    def __repr__(self) -> str:
        """The peak and where it is; the rest is too long to read."""
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
        lines = (self.live_bytes[category] for category in ("activations", "temporaries"))
        return [sum(pair) for pair in zip(*lines, strict=True)]

    @property
    def kept_bytes(self) -> int:
        """Bytes of activations that are live when the first forward pass is over."""
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

    def live_at(self, operation: int) -> dict[str, int]:
        """Bytes live right after an operation, by category.

        Raises:
            IndexError: If there is no such operation.
        """
        return {category: line[operation] for category, line in self.live_bytes.items()}

    def storages_at(self, operation: int) -> list[TracedStorage]:
        """What is live right after an operation, the largest first."""
        live = (each for each in self.storages if each.is_live(operation))
        return sorted(live, key=lambda each: -each.storage_bytes)

    def requests(self) -> list[tuple[int, int | None]]:
        """What an allocator is asked for, in order: a storage's number with its bytes, or None.

        None frees it; what is freed between two operations comes in the order of its making.
        Storages without a byte are left out.
        """
        return [(number, num_bytes) for _, _, number, num_bytes in self._events]

    def request_operations(self) -> list[int]:
        """The operation at which each of the ``requests()`` is made."""
        return [operation for operation, _, _, _ in self._events]

    def script(self) -> list[int]:
        """The ``requests()`` as whole numbers.

        One above zero asks for so many bytes, and -n frees the n-th block that was asked for.
        """
        turns: dict[int, int] = {}
        script = []
        for number, num_bytes in self.requests():
            if num_bytes is not None:
                turns[number] = len(turns) + 1
            script.append(-turns[number] if num_bytes is None else num_bytes)
        return script

    @cached_property
    def _events(self) -> list[tuple[int, bool, int, int | None]]:
        """Births and deaths: the operation, whether it is a birth, number and bytes of what."""
        events: list[tuple[int, bool, int, int | None]] = []
        for number, each in enumerate(self.storages):
            if each.storage_bytes:
                events.append((each.born, True, number, each.storage_bytes))
                if each.died is not None:
                    events.append((each.died, False, number, None))
        return sorted(events, key=lambda event: event[:3])  # deaths come before births
