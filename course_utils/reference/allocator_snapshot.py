"""What would PyTorch's allocator have recorded? A memory snapshot, in PyTorch's own format.

A snapshot has two parts: the events of a device, one after the other, and its segments as they are
at the end. This one is written by the course's allocator, so it needs no GPU, and PyTorch's tools
read it as they read a GPU's.

    >>> stack = [{"filename": "train.py", "line": 7, "name": "forward"}]
    >>> snapshot = snapshot_of([600, -1], [stack, stack])
    >>> [event["action"] for event in snapshot["device_traces"][0]]
    ['segment_alloc', 'alloc', 'free_requested', 'free_completed']
    >>> Path("snapshot.pickle").write_bytes(pickle.dumps(snapshot))  # for pytorch.org/memory_viz

Conventions: sizes of events are those requested, without rounding; all is on device 0 and its
default stream, where a free is complete at once. A block from before the recording has no frames.

Sources: PyTorch, torch/cuda/memory.py: `_snapshot` (the format); torch/csrc/cuda/Module.cpp:
`THCPModule_memorySnapshot`; c10/cuda/CUDACachingAllocator.cpp: `record_trace`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from course_utils.reference.allocator import Allocator, Block
from course_utils.reference.allocator_replay import Device

FIRST_ADDRESS = 0x7F00_0000_0000
POOL = (0, 0)  # the default memory pool
PACKAGES = "/usr/lib/python3/site-packages"

Frame = Mapping[str, str | int]
Event = dict[str, Any]


class _InUse(NamedTuple):
    num_bytes: int
    frames: Sequence[Frame]


def snapshot_of(
    script: Sequence[int], stacks: Sequence[Sequence[Frame]], recorded_from: int = 0
) -> dict[str, Any]:
    """Serve a script of requests, and give its snapshot.

    Args:
        script: A positive number allocates that many bytes; -n frees the n-th allocation.
        stacks: Of each request its stack, the innermost frame first: ``"filename"``, ``"line"`` and
            ``"name"`` of a function.
        recorded_from: Index of the first request that is recorded; what those before it did is seen
            in the segments only.
    """
    events: list[Event] = []
    in_use: dict[int, _InUse] = {}
    addresses: list[int] = []
    device, frames = Device("upwards"), list[Frame]()
    device.start = FIRST_ADDRESS

    def note(action: str, address: int, num_bytes: int) -> None:
        event = {"action": action, "addr": address, "size": num_bytes, "stream": 0}
        events.append(event | {"time_us": len(events), "pool_id": POOL, "frames": frames})

    def reserve(num_bytes: int) -> int:
        address = device.reserve(num_bytes)
        note("segment_alloc", address, num_bytes)
        return address

    allocator = Allocator(reserve)
    for number, (request, stack) in enumerate(zip(script, stacks, strict=True)):
        if number == recorded_from:
            events.clear()
        frames = list(stack) if number >= recorded_from else []
        if request > 0:
            address = allocator.allocate(request)
            addresses.append(address)
            in_use[address] = _InUse(request, frames)
            note("alloc", address, request)
        else:
            address = addresses[-request - 1]
            num_bytes = in_use.pop(address).num_bytes
            note("free_requested", address, num_bytes)
            allocator.free(address)
            note("free_completed", address, num_bytes)
    return {
        "segments": list(_segments(allocator.blocks, in_use)),
        "device_traces": [events],
        "allocator_settings": {},
    }


def stacks_of(functions: Sequence[str]) -> list[list[Frame]]:
    """A stack for each function of a made-up ``train.py``, called by ``main``.

    The n-th one has n % 3 frames of torch inside, as the function calls torch directly or not. The
    empty name has no frame at all, as what autograd's own thread allocates.
    """
    inner: list[Frame] = [
        {"filename": f"{PACKAGES}/torch/{file}", "line": line, "name": name}
        for file, line, name in (
            ("nn/functional.py", 2134, "linear"),
            ("nn/modules/linear.py", 134, "forward"),
        )
    ]
    main: Frame = {"filename": "train.py", "line": 90, "name": "main"}
    own: dict[str, Frame] = {
        name: {"filename": "train.py", "line": 10 * number, "name": name}
        for number, name in enumerate(sorted({*functions}), start=1)
    }
    return [
        [*inner[: number % 3], own[name], main] if name else []
        for number, name in enumerate(functions)
    ]


def _segments(blocks: Sequence[Block], in_use: Mapping[int, _InUse]) -> Iterator[dict[str, Any]]:
    """All segments as they are, in the order of their addresses."""
    in_order = sorted(blocks, key=lambda block: block.address)
    for address, group in groupby(in_order, key=lambda block: block.segment):
        parts = [*group]
        allocated_bytes = sum(block.size_bytes for block in parts if not block.is_free)
        described = [_described(block, in_use) for block in parts]
        yield {
            "device": 0,
            "address": address,
            "total_size": sum(block.size_bytes for block in parts),
            "allocated_size": allocated_bytes,
            "active_size": allocated_bytes,
            "requested_size": sum(block["requested_size"] for block in described),
            "stream": 0,
            "segment_type": "small" if parts[0].is_small else "large",
            "segment_pool_id": POOL,
            "is_expandable": False,
            "frames": [],
            "blocks": described,
        }


def _described(block: Block, in_use: Mapping[int, _InUse]) -> dict[str, Any]:
    num_bytes, frames = (0, []) if block.is_free else in_use[block.address]
    return {
        "address": block.address,
        "size": block.size_bytes,
        "requested_size": num_bytes,
        "state": "inactive" if block.is_free else "active_allocated",
        "frames": frames,
    }
