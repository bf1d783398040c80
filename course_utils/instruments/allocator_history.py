"""What did the allocator of a GPU do? Its own history, read as a trace of memory.

PyTorch's allocator can take down each block that it gives and that is given back, by address and
size; `read_history` turns this into the `MemoryTrace` of the other instruments. Here an operation
is one allocation. What a block was for the allocator does not know: marks say so, by its address.

    >>> alloc, free = {"action": "alloc", "addr": 512, "size": 12}, {"action": "free_requested"}
    >>> events = [alloc, free | {"addr": 512, "size": 12}, alloc | {"size": 20}]
    >>> read_history({"device_traces": [events], "segments": []}).total_bytes
    [0, 12, 20]

Conventions: bytes are those asked for; the allocator rounds them up and may give more. A block is
live until its freeing is requested, as `torch.cuda.memory_allocated` counts; the allocator may wait
for another stream before it uses it again.

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
    """What lies at an address at one moment belongs to a category.

    Attributes:
        num_events: Allocations and freeings that are over at that moment.
        address: Of the block.
        category: One of `MARKED`.
    """

    num_events: int
    address: int
    category: str


class PhaseStart(NamedTuple):
    """A phase of a training step begins.

    Attributes:
        num_events: Allocations and freeings that are over when it begins.
        step: Number of the training step, from 1.
        name: ``"forward"``, ``"backward"`` or ``"step"``.
    """

    num_events: int
    step: int
    name: str


@dataclass(kw_only=True)
class _Life:
    """One block from its allocation to its freeing, in events and in allocations."""

    address: int
    num_bytes: int
    operation: str = ""
    first_event: int = 0
    born: int = 0
    last_event: int | None = None
    died: int | None = None
    category: str = ""

    def is_live(self, num_events: int) -> bool:
        """Whether it is live when so many events are over."""
        not_over = self.last_event is None or self.last_event > num_events
        return self.first_event <= num_events and not_over


def read_history(
    snapshot: Mapping[str, Any],
    marks: Iterable[Mark] = (),
    phases: Sequence[PhaseStart] = (PhaseStart(0, 1, "forward"),),
    device: int = 0,
) -> MemoryTrace:
    """The trace that an allocator's history tells: live bytes over allocations, by category.

    What a forward pass allocates and leaves to the next phase is an activation; what has no mark
    and is none is temporary. What was there before the history began, and is freed in it or there
    at its end, is live from the beginning.

    Args:
        snapshot: As ``torch.cuda.memory._snapshot()`` gives it, with a history.
        marks: Which addresses belong to parameters, optimizer states and gradients, and when.
        phases: Where phases begin, in order; the first at zero events.
        device: Number of the GPU.

    Raises:
        ValueError: If the snapshot has no history of that device, or no allocation in it.
    """
    events = _events(snapshot, device)
    lives, num_allocations = _lives(events)
    if not num_allocations:
        raise ValueError(
            "the allocator's history has no allocation: the step must make tensors on the GPU"
        )
    lives = [*_there_before(snapshot, device, lives), *lives]
    _set_marked(lives, marks)
    _set_activations(lives, phases)
    storages = tuple(map(_storage, sorted(lives, key=lambda life: life.born)))
    return MemoryTrace(
        storages=storages,
        phases=tuple(_phases(phases, events, storages)),
        num_operations=num_allocations,
    )


def _events(snapshot: Mapping[str, Any], device: int) -> list[Mapping[str, Any]]:
    """Allocations and freeings; segments that come and go are the device's business."""
    traces = snapshot.get("device_traces", ())
    if device >= len(traces):
        raise ValueError(f"the snapshot has no history of GPU {device}: record one first")
    return [event for event in traces[device] if event["action"] in (ALLOC, FREE)]


def _lives(events: Iterable[Mapping[str, Any]]) -> tuple[list[_Life], int]:
    """All blocks that the history tells of, and how many of them it saw allocated."""
    lives: list[_Life] = []
    live: dict[int, _Life] = {}
    num_allocations = 0
    for number, event in enumerate(events, start=1):
        address = event["addr"]
        life = live.pop(address, None) if event["action"] == FREE else None
        if life is None:
            life = _Life(address=address, num_bytes=event["size"])
            lives.append(life)
        if event["action"] == ALLOC:
            num_allocations += 1
            life.operation, life.first_event, life.born = _maker(event), number, num_allocations
            live[address] = life
        else:
            life.last_event, life.died = number, num_allocations + 1
    return lives, num_allocations


def _maker(event: Mapping[str, Any]) -> str:
    """The Python function that asked for the block, where it is told; not one of torch's own."""
    for frame in event.get("frames", ()):
        file = frame["filename"]
        if file.endswith(".py") and "/torch/" not in file and "/instruments/" not in file:
            return str(frame["name"])
    return ALLOC


def _there_before(
    snapshot: Mapping[str, Any], device: int, lives: Iterable[_Life]
) -> Iterator[_Life]:
    """Blocks in use at the end that the history did not see come."""
    seen = {life.address for life in lives if life.died is None}
    for segment in snapshot["segments"]:
        if segment["device"] == device:
            for block in segment["blocks"]:
                if block["state"] == "active_allocated" and block["address"] not in seen:
                    yield _Life(address=block["address"], num_bytes=block["requested_size"])


def _set_marked(lives: Iterable[_Life], marks: Iterable[Mark]) -> None:
    at_address = defaultdict(list)
    for life in lives:
        at_address[life.address].append(life)
    for mark in sorted(marks, key=lambda mark: -MARKED.index(mark.category)):
        for life in at_address[mark.address]:
            if life.is_live(mark.num_events):
                life.category = mark.category


def _set_activations(lives: Iterable[_Life], phases: Sequence[PhaseStart]) -> None:
    stops = [phase.num_events for phase in phases[1:]]
    for phase, stop in zip(phases, stops, strict=False):
        if phase.name == "forward":
            for life in lives:
                is_new = phase.num_events < life.first_event <= stop
                if is_new and life.is_live(stop) and not life.category:
                    life.category = "activations"


def _storage(life: _Life) -> TracedStorage:
    """Shape and type are not known: so many bytes."""
    return TracedStorage(
        life.category or "temporaries",
        life.operation,
        (life.num_bytes,),
        torch.uint8,
        life.num_bytes,
        life.born,
        life.died,
    )


def _phases(
    starts: Sequence[PhaseStart],
    events: Sequence[Mapping[str, Any]],
    storages: Sequence[TracedStorage],
) -> Iterator[Phase]:
    """In allocations; a phase without one is left out."""
    edges = [*(start.num_events for start in starts), len(events)]
    firsts = [1 + sum(event["action"] == ALLOC for event in events[:edge]) for edge in edges]
    for start, first, stop in zip(starts, firsts, firsts[1:], strict=False):
        if first < stop:
            yield Phase(start.step, start.name, first, stop, bytes_at_end(stop, storages))
