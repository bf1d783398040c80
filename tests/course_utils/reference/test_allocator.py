"""The allocator by hand, by its invariants, and on the requests of a training step."""

import random
from itertools import groupby, pairwise

import pytest

from course_utils.configs import RunConfig, precision, preset
from course_utils.instruments import fake_tensors, trace_memory
from course_utils.reference import Training
from course_utils.reference.allocator import (
    MIB,
    Allocator,
    Block,
    CachingAllocator,
    Levels,
    new_segment_bytes,
    rounded_bytes,
)
from course_utils.reference.allocator_replay import Device, serve


@pytest.mark.parametrize(
    ("num_bytes", "rounded"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)]
)
def test_sizes_are_rounded_up(num_bytes, rounded):
    assert rounded_bytes(num_bytes) == rounded


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (3 * 2**30, 3 * 2**30),
    ],
)
def test_segments_have_their_sizes(size, segment):
    assert new_segment_bytes(size) == segment


# Levels in MiB after each request, in order: allocated, reserved, inactive.
BY_HAND = [
    ("a", 3 * MIB, (3, 20, 17)),  # at the front of a new segment of 20
    ("b", 5 * MIB, (8, 20, 12)),  # from the 17 that are left
    ("c", 11 * MIB + 1, (8 + 12, 20 + 0, 0)),  # takes all 12: a rest below 1 MiB is not split off
    ("d", 2 * MIB, (22, 40, 18)),  # nothing is free
    ("a", None, (19, 40, 18 + 3)),  # a hole of 3 before b
    (
        "e",
        2 * MIB,
        (19 + 3, 40, 18),
    ),  # the smallest that fits: the hole; a rest of 1 MiB is not split off
    ("b", None, (17, 40, 18 + 5)),
    ("e", None, (14, 40, 18 + 8)),  # merged with the hole of b: 8 at the front
    ("f", 8 * MIB, (22, 40, 18)),
    ("d", None, (20, 40, 0)),  # the second segment is all free, so no longer split
    ("c", None, (8, 40, 12)),
    ("f", None, (0, 40, 0)),
]


def play(allocator, requests):
    levels = []
    for name, size in requests:
        allocator.free(name) if size is None else allocator.allocate(name, size)
        levels.append(allocator.levels)
    return levels


def test_large_blocks_by_hand():
    levels = play(CachingAllocator(), ((name, size) for name, size, _ in BY_HAND))
    expected = [Levels(*(MIB * each for each in numbers)) for *_, numbers in BY_HAND]
    assert levels == expected


def test_small_blocks_by_hand():
    allocator = CachingAllocator()
    allocator.allocate("a", 100)
    allocator.allocate("b", MIB)
    # 2 MiB of which one is split off, and 512 B
    assert allocator.levels == Levels(MIB + 512, 2 * MIB, MIB - 512)
    allocator.allocate("c", MIB)  # the rest is 512 B too small
    assert allocator.levels.reserved_bytes == 4 * MIB
    allocator.allocate("d", MIB - 512)
    assert allocator.levels == Levels(3 * MIB, 4 * MIB, MIB)
    allocator.free("a")
    allocator.free("b")
    assert allocator.levels.inactive_split_bytes == MIB + 512 + MIB
    allocator.free("d")
    allocator.empty_cache()  # releases the first segment; c is in the second
    assert allocator.levels == Levels(MIB, 2 * MIB, MIB)


def test_of_equal_blocks_the_lowest_address_is_taken():
    allocator = CachingAllocator()
    for name in "abcd":
        allocator.allocate(name, 1000)
    allocator.free("c")
    allocator.free("a")
    allocator.allocate("e", 600)
    assert [block.is_free for block in segments_of(allocator)[0]][:4] == [False, False, True, False]


def test_a_full_device_gives_segments_back_before_it_refuses():
    allocator = CachingAllocator(device_bytes=40 * MIB)
    play(allocator, [("a", 20 * MIB), ("b", 20 * MIB), ("a", None), ("c", 15 * MIB)])
    # c took a's segment of 20 and split it: all but 5 is in use
    assert allocator.levels == Levels(35 * MIB, 40 * MIB, 5 * MIB)
    with pytest.raises(MemoryError, match="tried to get 20,971,520 bytes of a device"):
        allocator.allocate("d", 6 * MIB)
    allocator.free("b")
    allocator.allocate("e", 2 * MIB)  # the smallest that fits: the 5
    allocator.free("c")
    allocator.free("e")
    allocator.allocate("f", 30 * MIB)  # both segments of 20 are released first
    assert allocator.levels == Levels(30 * MIB, 30 * MIB, 0)


def test_fragmented_memory_cannot_serve_a_large_request():
    """Half of the device is free, but no request larger than one free block can be served."""
    allocator = CachingAllocator(device_bytes=20 * MIB)
    names = range(10)
    play(allocator, ((name, 2 * MIB) for name in names))
    play(allocator, ((name, None) for name in names if name % 2))
    assert allocator.levels == Levels(10 * MIB, 20 * MIB, 10 * MIB)
    with pytest.raises(MemoryError, match=r"10,485,760 reserved beside them, in pieces too small"):
        allocator.allocate("large", 3 * MIB)
    allocator.free(0)
    allocator.allocate("large", 3 * MIB)


@pytest.mark.parametrize("seed", range(20))
def test_invariants_of_random_requests(seed):
    rng, allocator, used = random.Random(seed), CachingAllocator(), {}
    for number in range(300):
        if used and rng.random() < 0.45:
            name = rng.choice(list(used))
            allocator.free(name)
            del used[name]
        else:
            used[number] = rng.randrange(1, rng.choice((2_000, 2 * MIB, 30 * MIB)))
            allocator.allocate(number, used[number])
        check_invariants(allocator, sum(map(rounded_bytes, used.values())))
    for name in used:
        allocator.free(name)
    assert allocator.levels == Levels(0, allocator.levels.reserved_bytes, 0)
    allocator.empty_cache()
    assert allocator.levels == Levels(0, 0, 0)


def check_invariants(allocator: CachingAllocator, rounded: int) -> None:
    levels, rows = allocator.levels, segments_of(allocator)
    blocks = [block for row in rows for block in row]
    used = sum(block.size_bytes for block in blocks if not block.is_free)
    split = sum(b.size_bytes for row in rows if len(row) > 1 for b in row if b.is_free)
    assert levels == Levels(used, sum(block.size_bytes for block in blocks), split)
    # a block of the large pool may be up to 1 MiB larger than what it serves
    num_large = sum(not block.is_small and not block.is_free for block in blocks)
    assert rounded <= used <= rounded + num_large * MIB
    for row in rows:
        assert all(b.address == a.address + a.size_bytes for a, b in pairwise(row))
        assert not any(a.is_free and b.is_free for a, b in pairwise(row))
        assert len({block.is_small for block in row}) == 1


@pytest.mark.parametrize("adamw", ["for-loop", "foreach"])
def test_from_the_third_step_on_nothing_more_is_reserved(adamw):
    """Lecture E, first training steps: the first warms up, the second adds optimizer states."""
    run = RunConfig(seq_len=1024, precision=precision("fp32"), is_loss_fp32=True)
    with fake_tensors():
        training = Training(preset("Llama-3.2-1B"), run, adamw=adamw)
        trace = trace_memory(training.step, *training.owners, num_steps=4)
    requests = trace.requests()
    levels = CachingAllocator().play_script(trace.script())
    reserved = [each.reserved_bytes for each in levels]
    number, _ = requests[reserved.index(max(reserved))]
    starts = [phase.start for phase in trace.phases if phase.name == "forward"]
    assert starts[1] < trace.storages[number].born < starts[2]
    assert (
        trace.peak_bytes <= max(each.allocated_bytes for each in levels) < 1.001 * trace.peak_bytes
    )
    assert 1.05 * trace.peak_bytes < max(reserved) < 1.1 * trace.peak_bytes


def test_wrong_requests_raise():
    allocator = CachingAllocator()
    allocator.allocate("a", 1)
    with pytest.raises(ValueError, match="'a' is allocated already"):
        allocator.allocate("a", 1)
    with pytest.raises(ValueError, match="'b' is not allocated"):
        allocator.free("b")
    with pytest.raises(ValueError, match="'b': the number of bytes must be above zero, got 0"):
        allocator.allocate("b", 0)


@pytest.mark.parametrize(
    ("direction", "addresses"),
    [
        ("upwards", [0, 512, 2 * MIB, 512]),
        (
            "downwards",
            [2**40 - 2 * MIB, 2**40 - 2 * MIB + 512, 2**40 - 22 * MIB, 2**40 - 2 * MIB + 512],
        ),
    ],
)
def test_addresses_by_hand(direction, addresses):
    device = Device(direction)
    served = list(serve(Allocator(device.reserve), device, [1, 600, 2 * MIB, -2, 1000]))
    assert [each.address for each in served] == [*addresses[:3], 0, addresses[3]]
    assert [each.reserved_bytes for each in served] == [2 * MIB] * 2 + [22 * MIB] * 3


def segments_of(allocator: CachingAllocator) -> list[list[Block]]:
    blocks = sorted(allocator.blocks, key=lambda block: block.address)
    return [[*group] for _, group in groupby(blocks, key=lambda block: block.segment)]
