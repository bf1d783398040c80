"""The check of unit 06 on real rates: what attention can reach with an L2 cache, and without."""

import math
import random
from collections.abc import Iterator
from typing import Any

import torch

from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from course_utils.instruments import TwoLevelMemory
from course_utils.records.traces import recorded_rows
from course_utils.reference.tiled_attention import flash_forward

# === u06-l2
# What attention moves and reaches with a cache between, against a device that is walked through.


L2_NAMES = ("shape", "block_q", "gpu")
SHAPE_NAMES = ("batch", "heads", "kv_heads", "seq", "head_dim")
GPU_NAMES = ("peak", "bandwidth", "l2_bytes", "processors")
WORKED = (
    named(SHAPE_NAMES, (1, 4, 2, 8, 2)),
    4,
    named(GPU_NAMES, (10, 2, 64, 3)),
)
RECORD, BLOCK = "attention_prefill_rates", 128
# Like an A100, an H100 and smaller ones: rates, bytes a second, cache and multiprocessors.
GPUS = (
    (312_000_000_000_000, 2_039_000_000_000, 40, 108),
    (989_400_000_000_000, 3_350_000_000_000, 50, 132),
    (362_000_000_000_000, 864_000_000_000, 96, 142),
    (121_000_000_000_000, 300_000_000_000, 48, 58),
)
MIB, BF16_BYTES = 2**20, 2
SEQUENCES = 3  # of the cases that a rule decides: those in flight end in the first, second or last

Numbers = dict[str, int]


def l2_cases(seed: int) -> list[Case]:
    """Recorded shapes and made-up ones: caches that hold what is in flight, just so, or not."""
    rng = random.Random(seed)
    cases = [named(L2_NAMES, WORKED)]
    cases += [_recorded(rng) for _ in range(8)]
    cases += [_made(rng, number) for number in range(16)]
    return cases + list(_decided(rng))


def _recorded(rng: random.Random) -> Case:
    """A shape of the record on a device of another size."""
    row = rng.choice(recorded_rows(RECORD))
    peak, bandwidth, mib, processors = rng.choice(GPUS)
    more, fewer = 10**9 * rng.randint(1, 99), rng.randint(0, 9)
    gpu = named(GPU_NAMES, (peak, bandwidth + more, mib * MIB, processors - fewer))
    shape = {name: row[name] for name in SHAPE_NAMES}
    return named(L2_NAMES, (shape, BLOCK, gpu))


def _made(rng: random.Random, number: int) -> Case:
    """A cache for exactly the keys and values in flight, for a byte less, for half, or for less."""
    kind = number // 2 % 4
    kv_heads, group = rng.randint(2, 8), rng.choice((1, 2, 4))
    block = rng.choice((16, 32, 64))
    tiles = rng.randint(2, 12)
    seq = block * tiles - (rng.randint(1, block - 1) if number % 2 else 0)
    processors = (rng.randint(2, 200), 10_000)[number % 8 == 7]
    fastest = 10**12
    if kind == 1:  # the last head in flight has only begun, and bytes take the time
        group, fastest = (1, 4)[number % 2], 10**16
        begun = group * rng.randint(1, kv_heads - 1)
        processors = tiles * begun + rng.randint(1, tiles - 1)
    heads = (rng.randint(1, 3), kv_heads * group, kv_heads)
    shape = named(SHAPE_NAMES, (*heads, seq, rng.choice((16, 32, 64))))
    need = kv_in_flight(shape, block, processors) * kv_bytes(shape)
    half, small = rng.randint(need // 2 + 1, need), rng.randint(need // 9, need // 2)
    cache = (need, need - 1, half, small)[kind]
    rates = (rng.randint(fastest // 100, fastest), 10**6 * rng.randint(10, 10**4))
    return named(L2_NAMES, (shape, block, named(GPU_NAMES, (*rates, cache, processors))))


def _decided(rng: random.Random) -> Iterator[Case]:
    """Caches in each of which few wrong rules about what has to fit decide otherwise.

    So no two of them are wrong in the same cases. A row says which rules are.
    """
    each = rng.randint(3, 6)
    every, further = SEQUENCES * each, each + rng.randint(1, each - 1)
    group, tiles = rng.choice((1, 4)), rng.randint(5, 9)
    some, half = rng.randint(3, each), every // 2
    # query heads of a group, tiles of a head, key-value heads in flight, tiles in flight for each
    # of their query heads, and arrays that the cache holds: from so many on to less than so many
    rows = (
        (group, tiles, further, tiles, 2 * each, 2 * further),  # in flight in one sequence alone
        (group, tiles, further, tiles, 2 * further, 2 * further + 1),  # all of a begun sequence
        (1, tiles, 1, tiles, 1, 2),  # keys alone
        (1, tiles, some, tiles, 2, some),  # one head
        (1, 2, every, 2, 2 * every, 2 * every),  # less than the cache
        (1, 2, every, 2, 2 * every + 1, 3 * every),  # queries and results, too
        (4, 1, every, 1, 4 * every, 8 * every),  # query heads
        (1, tiles, every, tiles, 4 * every, 2 * tiles * every),  # processors
        (1, 4, 2, 4, 8, 16),  # a head for each processor
        (1, 2, 2, 2, 8, 2 * every),  # all heads
        (1, 2, every, 10, 4 * every, 10 * every),  # more heads than there are
        (4, 1, half, 1, 2 * half, 2 * every),  # processors, as far as there are heads
    )
    for group, tiles, in_flight, for_each, least, most in rows:
        block, head_dim = rng.choice((16, 32, 64)), rng.choice((16, 32, 64))
        heads = (SEQUENCES, each * group, each)
        shape = named(SHAPE_NAMES, (*heads, block * tiles, head_dim))
        array = kv_bytes(shape) // 2
        cache = rng.randint(least * array, max(least * array, most * array - 1))
        rates = (rng.randint(10**10, 10**12), 10**6 * rng.randint(10, 10**4))
        gpu = named(GPU_NAMES, (*rates, cache, in_flight * group * for_each))
        yield named(L2_NAMES, (shape, block, gpu))


def kv_bytes(shape: Numbers) -> int:
    """Keys and values of one head."""
    keys = torch.empty(2, shape["seq"], shape["head_dim"], dtype=torch.bfloat16, device="meta")
    return keys.nbytes


def kv_in_flight(shape: Numbers, block_q: int, processors: int) -> int:
    """Heads of keys and values that the first tiles read, as many as there are processors."""
    group = shape["heads"] // shape["kv_heads"]
    seen: set[tuple[int, int]] = set()
    tiles = 0
    for sequence in range(shape["batch"]):
        for head in range(shape["heads"]):
            if tiles >= processors:
                return len(seen)
            seen.add((sequence, head // group))
            tiles += len(range(0, shape["seq"], block_q))
    return len(seen)


@declares_check(
    "u06-l2",
    l2_cases,
    relative_tolerance=PROMISED,
    labels={
        "dram_bytes": "bytes without a cache",
        "l2_bytes": "bytes with the cache",
        "dram_rate": "FLOP/s without a cache",
        "l2_rate": "FLOP/s with the cache",
    },
    fallback="course_utils.formulas.attention_tiles.attention_bounds",
)
def walked(shape: Numbers, block_q: int, gpu: Numbers) -> dict[str, Any]:
    """A head on the machine for its traffic; heads in flight counted tile by tile."""
    heads = shape["batch"] * shape["heads"]
    size = (shape["seq"], shape["head_dim"])
    machine = TwoLevelMemory(device="meta")
    tensors = [torch.empty(size, device="meta") for _ in range(4)]
    tensors.append(torch.empty(size[0], device="meta"))
    flash_forward(machine, [machine.slow(each) for each in tensors], block_q, size[0])
    once = BF16_BYTES * heads * 2 * math.prod(size)  # q and out; the exercise leaves out lse
    dram = BF16_BYTES * heads * (machine.traffic_elements - size[0])
    fits = kv_in_flight(shape, block_q, gpu["processors"]) * kv_bytes(shape) <= gpu["l2_bytes"]
    cached = once + shape["batch"] * shape["kv_heads"] * kv_bytes(shape) if fits else dram
    flops, peak = heads * 2 * 2 * size[0] * size[0] * size[1], float(gpu["peak"])
    return {
        "dram_bytes": dram,
        "l2_bytes": cached,
        "dram_rate": min(peak, flops * gpu["bandwidth"] / dram),
        "l2_rate": min(peak, flops * gpu["bandwidth"] / cached),
    }
