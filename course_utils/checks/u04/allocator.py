"""Checks of the student's caching allocator, and of a stream of requests that breaks memory up.

A stream is a list of whole numbers: one above zero asks for so many bytes, and -n frees the n-th
block that was asked for. What an allocator does is told by how many requests it serves as the rules
say: the address, and what it has reserved by then, up to the first that differs.
"""

import functools
import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from typing import Any, NamedTuple

from course_utils.checks.check import Case, Check
from course_utils.checks.judges import EqualTo, Mistake
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.instruments import fake_tensors, trace_memory
from course_utils.reference import Training
from course_utils.reference.allocator import CachingAllocator

Stream = list[int]
Reserve = Callable[[int], int]

KIB, MIB = 2**10, 2**20
BLOCK_BYTES = 512
TRACED = "two steps of a small Llama"
DIRECTIONS = ("upwards", "downwards", "scattered")


def block_bytes(num_bytes: int) -> int:
    """Bytes of a block: the next multiple of 512."""
    return (num_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES


def segment_bytes(size: int) -> int:
    """Bytes of the segment that a block of so many bytes is the first of."""
    if size <= MIB:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else (size + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)


@dataclass(kw_only=True)
class Piece:
    """A part of a segment.

    Attributes:
        segment: Number of its segment, in the order of asking.
        since: When it was freed or split off: the number of the event.
    """

    address: int
    size: int
    segment: int
    since: int
    is_small: bool
    is_free: bool = True


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What an allocator does where mistakes are made; as it should be unless told otherwise."""

    size_of: Callable[[int], int] = block_bytes
    segment_of: Callable[[int], int] = segment_bytes
    is_small: Callable[[int], bool] = lambda size: size <= MIB
    has_pools: bool = True
    order: Callable[[Piece], tuple[int, ...]] = lambda piece: (piece.size, piece.address)
    is_split: Callable[[int, bool], bool] = lambda rest, is_small: (
        rest >= BLOCK_BYTES if is_small else rest > MIB
    )
    does_reuse: bool = True
    joins_before: bool = True
    joins_after: bool = True
    joins_segments: bool = False


class Allocator:
    """The course's own answer: a list of pieces that is searched from end to end."""

    def __init__(self, reserve: Reserve, rules: Rules | None = None) -> None:
        """Segments come from ``reserve``."""
        self.reserve, self.rules = reserve, rules or Rules()
        self.pieces: list[Piece] = []
        self.now = self.num_segments = 0

    def allocate(self, num_bytes: int) -> int:
        """Address of a block of at least so many bytes."""
        size = self.rules.size_of(num_bytes)
        is_small = self.rules.is_small(size)
        fitting = [each for each in self.pieces if self._can_serve(each, size, is_small)]
        piece = min(fitting, key=self.rules.order) if fitting else self._new(size, is_small)
        rest = piece.size - size
        if rest and self.rules.is_split(rest, piece.is_small):
            piece.size = size
            self._add(piece.address + size, rest, piece.segment, piece.is_small)
        piece.is_free = False
        return piece.address

    def free(self, address: int) -> None:
        """Take a block back, joined with its neighbours."""
        piece = next(p for p in self.pieces if p.address == address and not p.is_free)
        end = piece.address + piece.size
        piece.is_free, piece.since = True, self._tick()
        for other in [each for each in self.pieces if each.is_free and each is not piece]:
            if other.segment != piece.segment and not self.rules.joins_segments:
                continue
            is_before = other.address + other.size == address and self.rules.joins_before
            if is_before or (other.address == end and self.rules.joins_after):
                piece.address = min(piece.address, other.address)
                piece.size += other.size
                self.pieces.remove(other)

    def _tick(self) -> int:
        self.now += 1
        return self.now

    def _can_serve(self, piece: Piece, size: int, is_small: bool) -> bool:
        is_in_pool = piece.is_small == is_small or not self.rules.has_pools
        return piece.is_free and piece.size >= size and is_in_pool and self.rules.does_reuse

    def _new(self, size: int, is_small: bool) -> Piece:
        wanted = self.rules.segment_of(size)
        self.num_segments += 1
        return self._add(self.reserve(wanted), wanted, self.num_segments, is_small)

    def _add(self, address: int, size: int, segment: int, is_small: bool) -> Piece:
        piece = Piece(
            address=address, size=size, segment=segment, since=self._tick(), is_small=is_small
        )
        self.pieces.append(piece)
        return piece


class Device:
    """Gives segments, one beside the other or not, and counts their bytes."""

    def __init__(self, direction: str) -> None:
        """One of `DIRECTIONS`: where the next segment lies."""
        self.direction, self.reserved_bytes, self.end = direction, 0, 2**40
        self.start = 0 if direction != "downwards" else self.end

    def reserve(self, num_bytes: int) -> int:
        """Address of a new segment."""
        self.reserved_bytes += num_bytes
        if self.direction == "downwards":
            self.start -= num_bytes
            return self.start
        address = self.start
        self.start += num_bytes
        if self.direction == "scattered":  # every other one far up, so that none has a neighbour
            address += 2**40 * (self.start // MIB % 4)
            self.start += 2 * MIB
        return address


class Served(NamedTuple):
    """What can be seen of one request: its address, 0 where a block is freed; what is reserved."""

    address: int
    reserved_bytes: int


def serve(allocator: Any, device: Device, stream: Iterable[int]) -> Iterator[Served]:
    """Hand a stream's requests to an allocator, one at a time."""
    addresses: list[int] = []
    for request in stream:
        if request > 0:
            addresses.append(allocator.allocate(request))
            yield Served(addresses[-1], device.reserved_bytes)
        else:
            allocator.free(addresses[-request - 1])
            yield Served(0, device.reserved_bytes)


def requests_of(stream: Stream | str) -> Stream:
    """A stream as it is, or that of the traced training."""
    return list(_traced_stream() if isinstance(stream, str) else stream)


@functools.cache
def _traced_stream() -> tuple[int, ...]:
    """Requests of two training steps, of a few bytes up to 16 MiB."""
    model = ModelConfig(num_layers=1, hidden_size=512, num_heads=8, ffn_size=1408, vocab_size=8000)
    with fake_tensors():
        training = Training(model, RunConfig(seq_len=256, precision=precision("fp32")))
        trace = trace_memory(training.step, *training.owners, num_steps=2)
    return tuple(stream_of(trace.requests()))


def stream_of(requests: Iterable[tuple[Hashable, int | None]]) -> Iterator[int]:
    """Requests by name as a stream of whole numbers."""
    numbers: dict[Hashable, int] = {}
    for name, num_bytes in requests:
        if num_bytes is None:
            yield -numbers[name]
        else:
            numbers[name] = len(numbers) + 1
            yield num_bytes


def probe_allocator(answer: Any, case: Case) -> object:
    """How many requests of each stream the student's allocator serves as the rules say."""
    return {
        kind: num_served(answer, case[kind], case["segments"])
        for kind in ("small", "large", "both")
    }


def num_served(make: Callable[[Reserve], Any], stream: Stream | str, direction: str) -> int:
    """Requests that are served as the rules say, up to the first that is not."""
    device = Device(direction)
    served = serve(make(device.reserve), device, requests_of(stream))
    pairs = zip(served, _wanted(_hashable(stream), direction), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _hashable(stream: Stream | str) -> tuple[int, ...] | str:
    return stream if isinstance(stream, str) else tuple(stream)


@functools.lru_cache(maxsize=2000)
def _wanted(stream: tuple[int, ...] | str, direction: str) -> list[Served]:
    device = Device(direction)
    return list(serve(Allocator(device.reserve), device, requests_of(stream)))  # type: ignore[arg-type]


def all_served(small: Stream, large: Stream, both: Stream | str, segments: str) -> dict[str, int]:
    """Every request of every stream."""
    streams = {"small": small, "large": large, "both": both}
    return {kind: len(requests_of(stream)) for kind, stream in streams.items()}


def _random_stream(rng: random.Random, num_requests: int, size: Callable[[], int]) -> Stream:
    """More is asked for than freed, so that some segments fill."""
    stream: Stream = []
    used: list[int] = []
    for _ in range(num_requests):
        if used and rng.random() < 0.45:
            stream.append(-used.pop(rng.randrange(len(used))))
        else:
            stream.append(size())
            used.append(sum(each > 0 for each in stream))
    return stream


def _small_size(rng: random.Random) -> int:
    return rng.choice((rng.randint(1, 4 * KIB), 512 * rng.randint(1, 6), rng.randint(300_000, MIB)))


def _large_size(rng: random.Random) -> int:
    return rng.choice(
        (rng.randint(MIB + 1, 4 * MIB), rng.randint(2, 7) * MIB, 3 * MIB, 12 * MIB + 1)
    )


def _small_streams(rng: random.Random) -> Iterator[Stream]:
    """The rules of the small pool one by one."""
    a, b = 512 * rng.randint(2, 9), 512 * rng.randint(10, 20)
    yield [1, 1, 1, -2, 600, 400]  # the worked case: a hole that is too small, then one that fits
    yield [MIB, MIB, MIB, MIB, -1, -3, MIB, MIB]  # equal ones in two segments: the lower address
    yield [rng.randint(1, 511), rng.randint(513, 1023), 512]  # rounded up
    yield [a + b, 1, a, 1, -1, -3, a - 511]  # the smallest that fits, not the first
    yield [a, 1, a, 1, a, 1, -5, -1, -3, a, a]  # of equal ones the lowest, not the last freed
    yield [a, b, 1, -1, -2, a + b]  # joined with the one before
    yield [a, b, 1, -2, -1, a + b]  # joined with the one behind
    yield [a, b, a, 1, -1, -3, -2, 2 * a + b]  # joined with both
    yield [b, 1, -1, b - a, a, a - 512, MIB - a, MIB]  # what is left is split off
    yield [MIB, MIB, MIB, MIB, MIB, MIB, -2, -3, -5, MIB]  # neighbours of two segments


def _large_streams(rng: random.Random) -> Iterator[Stream]:
    """The rules of the large pool one by one."""
    a, b = MIB * rng.randint(2, 4), MIB * rng.randint(5, 8)
    little = 512 * rng.randint(1, 2000)
    yield [3 * MIB, 5 * MIB, -1, 2 * MIB, 3 * MIB]  # the worked case
    yield [12 * MIB, 12 * MIB, -1, -2, 11 * MIB, 11 * MIB]
    yield [10 * MIB - 512, 10 * MIB, 10 * MIB + 1, MIB + 1, 20 * MIB + 1]  # sizes of segments
    yield [a + b, a, 2 * MIB, b, -1, -3, 2 * MIB]
    yield [a, MIB + 1, a, MIB + 1, a, MIB + 1, -5, -1, -3, a, a]
    yield [a, b, 4 * MIB, -1, -2, a + b, 2 * MIB]
    yield [a, b, 4 * MIB, -2, -1, a + b, 2 * MIB]
    yield [a, b, a, 2 * MIB, -1, -3, -2, 2 * a + b - 512 * rng.randint(1, 9)]
    yield [4 * MIB, b, 16 * MIB - b, -1, 3 * MIB + little, -2, b + MIB - little]  # too little left
    yield [20 * MIB, 20 * MIB, -1, -2, 30 * MIB, 20 * MIB, 20 * MIB]


def allocator_cases(seed: int) -> list[Case]:
    """Each rule alone in both pools, then streams of all sizes, and one of a traced training."""
    rng = random.Random(seed)
    pairs = list(zip(_small_streams(rng), _large_streams(rng), strict=True))
    # A rest of exactly one MiB is no rest.
    pairs.append(([1, MIB], [4 * MIB, 5 * MIB, 11 * MIB, -1, 3 * MIB, -2, 6 * MIB]))
    cases: list[Case] = [
        {"small": small, "large": large, "both": _interleaved(small, large)}
        for small, large in pairs
    ]
    cases[0]["both"] = [3 * MIB, 1, MIB, MIB + 1]
    cases += [
        {
            "small": _random_stream(rng, 24, lambda: _small_size(rng)),
            "large": _random_stream(rng, 24, lambda: _large_size(rng)),
            "both": _random_stream(rng, 24, lambda: rng.choice((_small_size, _large_size))(rng)),
        }
        for _ in range(9)
    ]
    cases[-1]["both"] = TRACED
    return [case | {"segments": DIRECTIONS[n % 3]} for n, case in enumerate(cases)]


def _interleaved(small: Stream, large: Stream) -> Stream:
    """Two streams in turn, with the numbers of their blocks made anew."""
    stream: Stream = []
    numbers: tuple[list[int], list[int]] = ([], [])
    for pair in zip_longest(small, large):
        for request, mine in zip(pair, numbers, strict=True):
            if request is None:
                continue
            if request > 0:
                mine.append(1 + sum(each > 0 for each in stream))
            stream.append(request if request > 0 else -mine[-request - 1])
    return stream


def _served_by(**rules: Any) -> Callable[..., dict[str, int]]:
    """How far an allocator with other rules comes."""
    changed = Rules(**rules)

    @functools.lru_cache(maxsize=2000)
    def served(stream: tuple[int, ...] | str, direction: str) -> int:
        return num_served(lambda reserve: Allocator(reserve, changed), stream, direction)  # type: ignore[arg-type]

    def formula(small: Stream, large: Stream, both: Stream | str, segments: str) -> dict[str, int]:
        streams = {"small": small, "large": large, "both": both}
        return {kind: served(_hashable(each), segments) for kind, each in streams.items()}

    return formula


# How free blocks stand in a list: as they came into it, or segment by segment.
LISTED: tuple[Callable[[Piece], tuple[int, ...]], ...] = (
    lambda piece: (piece.since,),
    lambda piece: (piece.segment, piece.address),
)

ALLOCATOR = Check(
    cases=allocator_cases,
    reference=Allocator,
    probe=probe_allocator,
    judge=EqualTo(
        all_served,
        Mistake(
            "Addresses do not stay multiples of 512. Where does the size that was asked for "
            "become the size of a block?",
            _served_by(size_of=lambda num_bytes: num_bytes),
        ),
        Mistake(
            "A segment is as large as the block that was asked for. How many bytes does the card "
            "want to be reserved at once, and what is the rest for?",
            _served_by(segment_of=lambda size: size),
        ),
        Mistake(
            "Every request goes to the device. Where do you look for a free block first?",
            _served_by(does_reuse=False),
        ),
        Mistake(
            "Whatever fits is given whole. What happens to the part of a block that nobody asked "
            "for?",
            _served_by(is_split=lambda rest, is_small: False),
        ),
        Mistake(
            "In the small pool too little is split off. From how many bytes on does the card "
            "split there?",
            _served_by(is_split=lambda rest, is_small: rest > MIB),
        ),
        Mistake(
            "Only a rest of exactly 1 MiB goes wrong in the large pool. Does the card say 'at "
            "least' there, or 'more than'?",
            _served_by(is_split=lambda rest, is_small: is_small or rest >= MIB),
        ),
        Mistake(
            "In the large pool small rests are split off. What would they be of use for, and "
            "from when on does the card split there?",
            _served_by(is_split=lambda rest, is_small: True),
        ),
        Mistake(
            "Freed blocks never grow. What becomes of two free blocks that lie side by side?",
            _served_by(joins_before=False, joins_after=False),
        ),
        Mistake(
            "A freed block is joined with the one before it and not with the one behind. What if "
            "that one was freed first?",
            _served_by(joins_after=False),
        ),
        Mistake(
            "A freed block is joined with the one behind it and not with the one before. What if "
            "that one was freed first?",
            _served_by(joins_before=False),
        ),
        Mistake(
            "Blocks grow beyond their segment. Two segments may lie side by side: how do you "
            "know that two blocks come from the same one?",
            _served_by(joins_segments=True),
        ),
        Mistake(
            "Requests of both kinds are served from the same blocks. Which blocks may a request "
            "of up to 1 MiB use?",
            _served_by(has_pools=False),
        ),
        Mistake(
            "A request of exactly 1 MiB goes to the wrong pool. Does the card say 'up to' or "
            "'below'?",
            _served_by(is_small=lambda size: size < MIB),
        ),
        Mistake(
            "You take the first free block by address that is large enough. Which one does the "
            "card want, and what does it spare?",
            _served_by(order=lambda piece: (piece.address,)),
        ),
        *(
            Mistake(
                "You take some free block that is large enough, wherever it stands in your list. "
                "By what are they to be compared?",
                _served_by(order=order),
            )
            for order in LISTED
        ),
        *(
            Mistake(
                "Of equally large blocks you take the one that comes first in your list. In which "
                "order does the card want them, whatever came when?",
                _served_by(order=lambda piece, order=order: (piece.size, *order(piece))),
            )
            for order in LISTED
        ),
        Mistake(
            "Of equally large blocks you take the one with the highest address. Which one does "
            "the card want?",
            _served_by(order=lambda piece: (piece.size, -piece.address)),
        ),
    ),
)


def fragment(device_bytes: int) -> Stream:
    """The course's own answer: one MiB of every segment of the small pool stays in use."""
    num_blocks = device_bytes // MIB
    return [MIB] * num_blocks + [-number for number in range(1, num_blocks + 1, 2)]


def fragment_cases(seed: int) -> list[Case]:
    """Devices of 40 MiB to 400 MiB."""
    rng = random.Random(seed)
    sizes = [40, 60, 80, 100, 200, 400, *(20 * rng.randint(2, 20) for _ in range(14))]
    return [{"device_bytes": MIB * size} for size in sizes]


MAX_REQUESTS = 1000
WAYS_TO_MISS = (
    "too_many_requests",
    "impossible_requests",
    "refused_too_early",
    "too_little_free",
    "last_is_served",
)


def probe_fragment(answer: Any, case: Case) -> object:
    """Which way the student's stream misses, if one: played on the course's allocator."""
    way = _way_to_miss(answer(case["device_bytes"]), case["device_bytes"])
    return {each: int(each == way) for each in WAYS_TO_MISS}


def _way_to_miss(stream: Any, device_bytes: int) -> str:
    if not isinstance(stream, list) or len(stream) > MAX_REQUESTS:
        return "too_many_requests"
    allocator = CachingAllocator(device_bytes)
    try:
        allocator.play(_named(stream))
    except (ValueError, TypeError):
        return "impossible_requests"
    except MemoryError:
        return "refused_too_early"
    if 2 * allocator.levels.allocated_bytes > device_bytes:
        return "too_little_free"
    try:
        allocator.allocate("the last", device_bytes // 4)
    except MemoryError:
        return ""
    return "last_is_served"


def _named(stream: Stream) -> Iterator[tuple[int, int | None]]:
    """A stream as requests with the numbers of the blocks as names."""
    number = 0
    for request in stream:
        if request > 0:
            number += 1
            yield number, request
        else:
            yield -request, None


def _missed(way: str) -> Callable[[int], dict[str, int]]:
    return lambda device_bytes: {way: 1}


FRAGMENT = Check(
    cases=fragment_cases,
    reference=fragment,
    probe=probe_fragment,
    judge=EqualTo(
        lambda device_bytes: dict.fromkeys(WAYS_TO_MISS, 0),
        Mistake(
            "It is no list, or one of more than 1,000 requests. How large may your blocks be, and "
            "how many of them fill the device?",
            _missed("too_many_requests"),
        ),
        Mistake(
            "A request in it cannot be: a block is freed that is not in use, or nothing is asked "
            "for. From which number on are the blocks of a stream counted?",
            _missed("impossible_requests"),
        ),
        Mistake(
            "The device is full before your stream ends. Into which segments do your blocks go, "
            "and how much of each is left over?",
            _missed("refused_too_early"),
        ),
        Mistake(
            "When your stream is over, less than half of the device is free. How many of the "
            "blocks are still in use, and of how many bytes?",
            _missed("too_little_free"),
        ),
        Mistake(
            "The last request is served. Free neighbours are joined, and a segment that is free "
            "altogether goes back to the device: which blocks must stay in use to prevent both?",
            _missed("last_is_served"),
        ),
        together=True,
    ),
)
