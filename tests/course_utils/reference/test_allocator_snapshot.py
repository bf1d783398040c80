"""A snapshot of the course's allocator, read by PyTorch's own tools and by its viewer's rules."""

import pickle
import pickletools
import random
import re
from collections import Counter

import pytest
from torch.cuda import _memory_viz

from course_utils.instruments.allocator_history import read_history
from course_utils.reference.allocator import CachingAllocator, rounded_bytes
from course_utils.reference.allocator_snapshot import snapshot_of

# What torch/utils/viz/MemoryViz.js reads of a pickle.
OPCODES = {
    "PROTO",
    "FRAME",
    "STOP",
    "MARK",
    "MEMOIZE",
    "BINGET",
    "LONG_BINGET",
    "EMPTY_DICT",
    "EMPTY_LIST",
    "EMPTY_TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
    "TUPLE",
    "APPEND",
    "APPENDS",
    "SETITEM",
    "SETITEMS",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "SHORT_BINUNICODE",
    "BINUNICODE",
}


def stack(name: str) -> list[dict]:
    return [
        {"filename": "torch/nn/functional.py", "line": 3, "name": "linear"},
        {"filename": "train.py", "line": 7, "name": name},
    ]


def random_script(seed: int) -> list[int]:
    rng = random.Random(seed)
    script, live = list[int](), list[int]()
    for _ in range(120):
        if live and rng.random() < 0.45:
            script.append(-live.pop(rng.randrange(len(live))))
        else:
            script.append(rng.randint(1, rng.choice((600, 2**20, 30 * 2**20))))
            live.append(sum(request > 0 for request in script))
    return script


SCRIPTS = [random_script(seed) for seed in range(4)]


def snapshot(script: list[int], recorded_from: int = 0) -> dict:
    names = [stack(f"call_{number % 5}") for number in range(len(script))]
    return snapshot_of(script, names, recorded_from)


def live_bytes(script: list[int]) -> list[int]:
    """Requested bytes in use after each request."""
    sizes = [request for request in script if request > 0]
    changes = [request if request > 0 else -sizes[-request - 1] for request in script]
    return [sum(changes[: number + 1]) for number in range(len(changes))]


def test_by_hand():
    # 600 bytes take 1,024 of a segment of 2 MiB, and one byte 512; the first is freed again.
    made = snapshot([600, 1, -1])
    (segment,) = made["segments"]
    blocks = [(each["state"], each["size"], each["requested_size"]) for each in segment["blocks"]]
    assert blocks == [
        ("inactive", 1024, 0),
        ("active_allocated", 512, 1),
        ("inactive", 2**21 - 1536, 0),
    ]
    start = segment["address"]
    events = [(e["action"], e["addr"] - start, e["size"]) for e in made["device_traces"][0]]
    assert events == [
        ("segment_alloc", 0, 2**21),
        ("alloc", 0, 600),
        ("alloc", 1024, 1),
        ("free_requested", 0, 600),
        ("free_completed", 0, 600),
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_pytorch_reads_what_the_allocator_holds(script):
    levels = CachingAllocator().play_script(script)[-1]
    made = snapshot(script)
    segments = made["segments"]
    assert sum(each["total_size"] for each in segments) == levels.reserved_bytes
    assert sum(each["allocated_size"] for each in segments) == levels.allocated_bytes
    assert sum(each["requested_size"] for each in segments) == live_bytes(script)[-1]
    sizes = Counter[str]()
    lines = _memory_viz.memory(made, format_flamegraph=str).splitlines()
    for line in lines:
        of, _, num_bytes = line.rpartition(" ")
        sizes[of.split(";")[1]] += int(num_bytes)
    assert sizes["inactive"] == levels.reserved_bytes - levels.allocated_bytes
    assert sizes["active_allocated"] == levels.allocated_bytes
    num_in_use = sum(request > 0 for request in script) - sum(request < 0 for request in script)
    stacks = [line for line in lines if "active_allocated;train.py:7:call_" in line]
    assert len(stacks) == num_in_use
    summary = _memory_viz.segsum(made)  # it asserts that bytes add up
    for name, num_bytes in (
        ("reserved", levels.reserved_bytes),
        ("allocated", live_bytes(script)[-1]),
        ("free", levels.reserved_bytes - live_bytes(script)[-1]),
    ):
        assert f"total_{name}: {_memory_viz.Bytes(num_bytes)}" in summary
    assert f"segments: {len(segments)}\n" in summary


@pytest.mark.parametrize("script", SCRIPTS)
def test_pytorch_reads_the_events(script):
    printed = _memory_viz.trace(snapshot(script))
    counted = [
        len(re.findall(pattern, printed, flags=re.MULTILINE))
        for pattern in (r"^\w+ = \w+\[", r"^del ", r"^# free completed", r"= cudaMalloc")
    ]
    num_frees = sum(request < 0 for request in script)
    num_segments = len(snapshot(script)["segments"])
    assert counted == [len(script) - num_frees, num_frees, num_frees, num_segments]
    assert "MEM[" not in printed  # every block lies in a segment that was reserved before
    of_all = read_history(snapshot(script)).total_bytes
    line, sizes = live_bytes(script), iter(of_all[1:])
    for request, after in zip(script, line, strict=True):
        if request > 0:
            assert next(sizes) == after


@pytest.mark.parametrize("recorded_from", [0, 40, 119])
def test_the_viewers_replay_backwards_from_the_end_comes_out_even(recorded_from):
    """It begins with the blocks in use at the end, and takes events back one by one."""
    script = SCRIPTS[1]
    made = snapshot(script, recorded_from)
    blocks = {
        each["address"]: each["requested_size"]
        for segment in made["segments"]
        for each in segment["blocks"]
        if each["state"] == "active_allocated"
    }
    segments = {each["address"]: each["total_size"] for each in made["segments"]}
    for event in reversed(made["device_traces"][0]):
        if event["action"] == "alloc":
            assert blocks.pop(event["addr"]) == event["size"]
        elif event["action"] == "free_completed":
            assert event["addr"] not in blocks
            blocks[event["addr"]] = event["size"]
        elif event["action"] == "segment_alloc":
            assert segments.pop(event["addr"]) == event["size"]
    before = CachingAllocator().play_script(script[:recorded_from])
    assert sum(blocks.values()) == ([0, *live_bytes(script)][recorded_from])
    assert sum(segments.values()) == (before[-1].reserved_bytes if before else 0)
    assert sum(map(rounded_bytes, blocks.values())) <= sum(segments.values())


def test_its_pickle_has_only_what_the_viewer_reads():
    for recorded_from in (0, 60):
        pickled = pickle.dumps(snapshot(SCRIPTS[2], recorded_from))
        used = {opcode.name for opcode, _, _ in pickletools.genops(pickled)}
        assert used <= OPCODES
        assert '"Active Memory Timeline"' in _memory_viz.trace_plot(pickle.loads(pickled)).replace(
            "'", '"'
        )
