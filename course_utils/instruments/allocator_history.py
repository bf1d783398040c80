"""What did the allocator of a GPU do? Its own history, read as a memory trace.

PyTorch's allocator can record every allocation and every free, with address and size;
`read_history` turns this record into a `MemoryTrace`. Here one operation is one allocation. The
allocator does not know what a block is for: marks tell it, by address.

    >>> alloc, free = {"action": "alloc", "addr": 512, "size": 12}, {"action": "free_requested"}
    >>> events = [alloc, free | {"addr": 512, "size": 12}, alloc | {"size": 20}]
    >>> read_history({"device_traces": [events], "segments": []}).total_bytes
    [0, 12, 20]

Conventions: bytes are those requested; the allocator rounds them up and may give more. A block is
live until its free is requested, as `torch.cuda.memory_allocated` counts; the allocator may wait
for another stream before it reuses the block.

Sources: PyTorch documentation, "Understanding CUDA Memory Usage"; PyTorch,
c10/cuda/CUDACachingAllocator.cpp: `TraceEntry`; torch/csrc/cuda/Module.cpp: `memorySnapshot`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from course_utils.instruments.memory_trace import (
    MemoryTrace,
    Phase,
    TracedStorage,
    bytes_at_end,
)

ALLOC, FREE = "alloc", "free_requested"

# A block with several marks belongs to the first of these.
MARKED = ("parameters", "optimizer_states", "gradients")


class Mark(NamedTuple):
    """The category of the block at an address at one moment.

    Attributes:
        num_events: Allocations and frees before that moment.
        address: Of the block.
        category: One of `MARKED`.
    """

    num_events: int
    address: int
    category: str


class PhaseStart(NamedTuple):
    """The beginning of a phase of a training step.

    Attributes:
        num_events: Allocations and frees before it begins.
        step: Number of the training step, from 1.
        name: ``"forward"``, ``"backward"`` or ``"step"``.
    """

    num_events: int
    step: int
    name: str


@dataclass(kw_only=True)
class _Block:
    """One block from its allocation to its free, counted in events and in allocations."""

    address: int
    num_bytes: int
    operation: str = ""
    first_event: int = 0
    born: int = 0
    last_event: int | None = None
    died: int | None = None
    category: str = ""

    def is_live(self, num_events: int) -> bool:
        """Whether it is live after ``num_events`` events."""
        is_freed = self.last_event is not None and self.last_event <= num_events
        return self.first_event <= num_events and not is_freed

    def traced(self) -> TracedStorage:
        """The same as the trace has it; the allocator knows no shape or dtype, only bytes."""
        return TracedStorage(
            self.category or "temporaries",
            self.operation,
            (self.num_bytes,),
            torch.uint8,
            self.num_bytes,
            self.born,
            self.died,
        )


def read_history(
    snapshot: Mapping[str, Any],
    marks: Iterable[Mark] = (),
    phases: Sequence[PhaseStart] = (PhaseStart(0, 1, "forward"),),
    device: int = 0,
) -> MemoryTrace:
    """The trace in an allocator's history: live bytes over allocations, by category.

    A block that a forward pass allocates and that is still live when the pass ends is an
    activation; every other block without a mark is temporary. A block from before the history
    began, freed in it or still live at its end, is live from the beginning.

    Args:
        snapshot: From ``torch.cuda.memory._snapshot()``, with a history.
        marks: Which addresses hold parameters, optimizer states and gradients, and when.
        phases: Where phases begin, in order; the first at zero events.
        device: Number of the GPU.

    Raises:
        ValueError: If the snapshot has no history of that device, or no allocation in it.
    """
    events = _events(snapshot, device)
    blocks, num_allocations = _blocks(events)
    if not num_allocations:
        raise ValueError(
            "the allocator's history has no allocation: the step must make tensors on the GPU"
        )
    blocks = [*_blocks_from_before(snapshot, device, blocks), *blocks]
    _set_marked(blocks, marks)
    _set_activations(blocks, phases)
    storages = tuple(block.traced() for block in sorted(blocks, key=lambda block: block.born))
    return MemoryTrace(
        storages=storages,
        phases=tuple(_phases(phases, events, storages)),
        num_operations=num_allocations,
    )


def _events(snapshot: Mapping[str, Any], device: int) -> list[Mapping[str, Any]]:
    """Allocations and frees, without the segments that the allocator takes from the device."""
    traces = snapshot.get("device_traces", ())
    if device >= len(traces):
        raise ValueError(f"the snapshot has no history of GPU {device}: record one first")
    return [event for event in traces[device] if event["action"] in (ALLOC, FREE)]


def _blocks(events: Iterable[Mapping[str, Any]]) -> tuple[list[_Block], int]:
    """All blocks in the history, and how many of them it saw allocated."""
    blocks: list[_Block] = []
    live: dict[int, _Block] = {}
    num_allocations = 0
    for number, event in enumerate(events, start=1):
        address = event["addr"]
        block = live.pop(address, None) if event["action"] == FREE else None
        if block is None:
            block = _Block(address=address, num_bytes=event["size"])
            blocks.append(block)
        if event["action"] == ALLOC:
            num_allocations += 1
            block.operation = _requesting_function(event)
            block.first_event, block.born = number, num_allocations
            live[address] = block
        else:
            block.last_event, block.died = number, num_allocations + 1
    return blocks, num_allocations


def _requesting_function(event: Mapping[str, Any]) -> str:
    """The Python function that requested the block, the first outside torch, if recorded."""
    for frame in event.get("frames", ()):
        file = frame["filename"]
        if file.endswith(".py") and "/torch/" not in file and "/instruments/" not in file:
            return str(frame["name"])
    return ALLOC


def _blocks_from_before(
    snapshot: Mapping[str, Any], device: int, recorded: Iterable[_Block]
) -> Iterator[_Block]:
    """Blocks in use at the end whose allocation the history does not hold."""
    seen = {block.address for block in recorded if block.died is None}
    for segment in snapshot["segments"]:
        if segment["device"] == device:
            for each in segment["blocks"]:
                if each["state"] == "active_allocated" and each["address"] not in seen:
                    yield _Block(address=each["address"], num_bytes=each["requested_size"])


def _set_marked(blocks: Iterable[_Block], marks: Iterable[Mark]) -> None:
    at_address = defaultdict(list)
    for block in blocks:
        at_address[block.address].append(block)
    # from the last category to the first, which overwrites the others
    for mark in sorted(marks, key=lambda mark: -MARKED.index(mark.category)):
        for block in at_address[mark.address]:
            if block.is_live(mark.num_events):
                block.category = mark.category


def _set_activations(blocks: Iterable[_Block], phases: Sequence[PhaseStart]) -> None:
    stops = [phase.num_events for phase in phases[1:]]
    for phase, stop in zip(phases, stops, strict=False):
        if phase.name == "forward":
            for block in blocks:
                is_new = phase.num_events < block.first_event <= stop
                if is_new and block.is_live(stop) and not block.category:
                    block.category = "activations"


def _phases(
    starts: Sequence[PhaseStart],
    events: Sequence[Mapping[str, Any]],
    storages: Sequence[TracedStorage],
) -> Iterator[Phase]:
    """Phases counted in allocations; one without an allocation is left out."""
    edges = [*(start.num_events for start in starts), len(events)]
    firsts = [1 + sum(event["action"] == ALLOC for event in events[:edge]) for edge in edges]
    for start, first, stop in zip(starts, firsts, firsts[1:], strict=False):
        if first < stop:
            yield Phase(start.step, start.name, first, stop, bytes_at_end(stop, storages))
