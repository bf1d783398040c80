"""Check of the student's caching allocator, against one that searches a plain list of blocks.

An allocator is judged by how many requests it serves right, up to the first that differs in the
address returned or in the bytes reserved by then.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.u04.shared.allocator_scripts import (
    KINDS,
    Script,
    allocator_cases,
    requests_of,
)
from course_utils.reference.allocator import MIN_BLOCK_BYTES, new_segment_bytes, rounded_bytes
from course_utils.reference.allocator_replay import MIB, Device, Served, serve

Reserve = Callable[[int], int]


@dataclass(kw_only=True)
class Block:
    """A part of a segment, free or in use.

    Attributes:
        segment: Number of its segment, in the order in which they were reserved.
        since: Number of the event that freed it or split it off.
    """

    address: int
    size: int
    segment: int
    since: int
    is_small: bool
    is_free: bool = True


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules of an allocator that a mistake can change; the defaults are right."""

    size_of: Callable[[int], int] = rounded_bytes
    segment_of: Callable[[int, int], int] = lambda num_bytes, size: new_segment_bytes(size)
    is_small: Callable[[int], bool] = lambda size: size <= MIB
    has_pools: bool = True
    order: Callable[[Block], tuple[int, ...]] = lambda block: (block.size, block.address)
    is_split: Callable[[int, bool], bool] = lambda rest, is_small: (
        rest >= MIN_BLOCK_BYTES if is_small else rest > MIB
    )
    does_reuse: bool = True
    joins_before: bool = True
    joins_after: bool = True
    joins: Callable[[Block, Block], bool] = lambda one, other: one.segment == other.segment
    does_free: bool = True
    gives_front: bool = True


class Allocator:
    """The course's own answer: a list of blocks, searched from end to end."""

    def __init__(self, reserve: Reserve, rules: Rules | None = None) -> None:
        """Take the function that reserves a segment and returns its address."""
        self.reserve, self.rules = reserve, rules or Rules()
        self.blocks: list[Block] = []
        self.now = self.num_segments = 0

    def allocate(self, num_bytes: int) -> int:
        """Address of a block of at least that many bytes."""
        size = self.rules.size_of(num_bytes)
        is_small = self.rules.is_small(size)
        fitting = [each for each in self.blocks if self._can_serve(each, size, is_small)]
        block = min(fitting, key=self.rules.order, default=None)
        if block is None:
            block = self._new(self.rules.segment_of(num_bytes, size), is_small)
        rest = block.size - size
        if rest and self.rules.is_split(rest, block.is_small):
            block.size = size
            start_of_rest = block.address + size
            if not self.rules.gives_front:
                start_of_rest, block.address = block.address, block.address + rest
            self._add(start_of_rest, rest, block.segment, block.is_small)
        block.is_free = False
        return block.address

    def free(self, address: int) -> None:
        """Take a block back and join it with its free neighbours."""
        if not self.rules.does_free:
            return
        block = next(each for each in self.blocks if each.address == address and not each.is_free)
        end = block.address + block.size
        block.is_free, block.since = True, self._tick()
        for other in [each for each in self.blocks if each.is_free and each is not block]:
            if not self.rules.joins(block, other):
                continue
            is_before = other.address + other.size == address and self.rules.joins_before
            if is_before or (other.address == end and self.rules.joins_after):
                block.address = min(block.address, other.address)
                block.size += other.size
                self.blocks.remove(other)

    def _tick(self) -> int:
        self.now += 1
        return self.now

    def _can_serve(self, block: Block, size: int, is_small: bool) -> bool:
        is_in_pool = block.is_small == is_small or not self.rules.has_pools
        return block.is_free and block.size >= size and is_in_pool and self.rules.does_reuse

    def _new(self, wanted: int, is_small: bool) -> Block:
        self.num_segments += 1
        return self._add(self.reserve(wanted), wanted, self.num_segments, is_small)

    def _add(self, address: int, size: int, segment: int, is_small: bool) -> Block:
        block = Block(
            address=address, size=size, segment=segment, since=self._tick(), is_small=is_small
        )
        self.blocks.append(block)
        return block


class NeighboursInAList:
    """A wrong answer: one list per pool, whose free neighbours are joined across segments."""

    def __init__(self, reserve: Reserve) -> None:
        """Take the function that reserves a segment and returns its address."""
        self.reserve = reserve
        self.pools: dict[bool, list[list[int]]] = {True: [], False: []}  # address, size, is_free

    def allocate(self, num_bytes: int) -> int:
        """Address of a block of at least that many bytes."""
        size = rounded_bytes(num_bytes)
        pool = self.pools[size <= MIB]
        fitting = [each for each in pool if each[2] and each[1] >= size]
        if not fitting:
            wanted = new_segment_bytes(size)
            fitting = [[self.reserve(wanted), wanted, True]]
            pool += fitting
        block = min(fitting, key=lambda each: (each[1], each[0]))
        rest = block[1] - size
        if rest >= (MIN_BLOCK_BYTES if size <= MIB else MIB + 1):
            pool.insert(pool.index(block) + 1, [block[0] + size, rest, True])
            block[1] = size
        block[2] = False
        return block[0]

    def free(self, address: int) -> None:
        """Take a block back and join it with its free neighbours in the list."""
        pool = next(p for p in self.pools.values() if any(b[0] == address and not b[2] for b in p))
        at = next(n for n, each in enumerate(pool) if each[0] == address and not each[2])
        pool[at][2] = True
        for first in (at, at - 1):
            if first >= 0 and first + 1 < len(pool) and pool[first][2] and pool[first + 1][2]:
                pool[first][1] += pool.pop(first + 1)[1]


def observe_allocator(answer: Any, case: Case) -> object:
    """How many requests of a script the student's allocator serves right."""
    return {"served_requests": num_served(answer, case["script"], case["segments"])}


def num_served(make: Callable[[Reserve], Any], script: Script | str, direction: str) -> int:
    """Requests that are served right, up to the first that is not."""
    device = Device(direction)
    served = serve(make(device.reserve), device, requests_of(script))
    pairs = zip(served, _right_answers(_hashable(script), direction), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _hashable(script: Script | str) -> tuple[int, ...] | str:
    return script if isinstance(script, str) else tuple(script)


@functools.lru_cache(maxsize=2000)
def _right_answers(script: tuple[int, ...] | str, direction: str) -> list[Served]:
    device = Device(direction)
    return list(serve(Allocator(device.reserve), device, requests_of(script)))  # type: ignore[arg-type]


def all_served(scenario: str, script: Script | str, segments: str) -> dict[str, int]:
    """The right number: every request."""
    return {"served_requests": len(requests_of(script))}


def _served_by(**rules: Any) -> Callable[..., dict[str, int]]:
    """How many requests an allocator with other rules serves right."""
    changed = Rules(**rules)
    return _served_from(lambda reserve: Allocator(reserve, changed))


def _served_from(make: Callable[[Reserve], Any]) -> Callable[..., dict[str, int]]:
    """How many requests another allocator serves right."""

    @functools.lru_cache(maxsize=2000)
    def served(script: tuple[int, ...] | str, direction: str) -> int:
        return num_served(make, script, direction)  # type: ignore[arg-type]

    def formula(scenario: str, script: Script | str, segments: str) -> dict[str, int]:
        return {"served_requests": served(_hashable(script), segments)}

    return formula


# Orders of free blocks in a list: as they were added, or segment by segment.
LIST_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda block: (block.since,),
    lambda block: (block.segment, block.address),
)

CHECK = Check(
    cases=allocator_cases,
    reference=Allocator,
    observe_runs_reference=True,
    observe=observe_allocator,
    judge=Behaviour(
        all_served,
        Mistake(
            "Only just below 10 MiB a segment is too large. For which number do you ask, that of "
            "the request or that of its block?",
            _served_by(segment_of=lambda num_bytes, size: new_segment_bytes(num_bytes)),
        ),
        Mistake(
            "Addresses do not stay multiples of 512. Where does the size that was asked for "
            "become the size of a block?",
            _served_by(size_of=lambda num_bytes: num_bytes),
        ),
        Mistake(
            "A segment is as large as the block that was asked for. How many bytes does the "
            "exercise want to be reserved at once, and what is the rest for?",
            _served_by(segment_of=lambda num_bytes, size: size),
        ),
        Mistake(
            "Every request goes to the device. Where do you look for a free block first?",
            _served_by(does_reuse=False),
        ),
        Mistake(
            "What was freed never serves again. What must your `free` change, so that `allocate` "
            "finds the block?",
            _served_by(does_free=False),
        ),
        Mistake(
            "Blocks are taken from the end of a free block, or what is left lies in front. On "
            "which side does the exercise want the rest?",
            _served_by(gives_front=False),
        ),
        Mistake(
            "Whatever fits is given whole. What happens to the part of a block that nobody asked "
            "for?",
            _served_by(is_split=lambda rest, is_small: False),
        ),
        Mistake(
            "In the small pool too little is split off. From how many bytes on does the exercise "
            "split there?",
            _served_by(is_split=lambda rest, is_small: rest > MIB),
        ),
        Mistake(
            "Only a rest of exactly 1 MiB goes wrong in the large pool. Does the exercise say 'at "
            "least' there, or 'more than'?",
            _served_by(is_split=lambda rest, is_small: is_small or rest >= MIB),
        ),
        Mistake(
            "In the large pool small rests are split off. What would they be of use for, and "
            "from when on does the exercise split there?",
            _served_by(is_split=lambda rest, is_small: True),
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
            "Freed blocks never grow. What becomes of two free blocks that lie side by side?",
            _served_by(joins_before=False, joins_after=False),
        ),
        *(
            Mistake(
                "Blocks grow beyond their segment. Two segments may lie side by side: how do you "
                "know that two blocks come from the same one?",
                _served_by(joins=joins),
            )
            for joins in (
                lambda one, other: True,
                lambda one, other: one.is_small == other.is_small,
            )
        ),
        Mistake(
            "Blocks are joined because they stand beside each other in your list. What may lie "
            "between the end of one segment and the beginning of the next in it?",
            _served_from(NeighboursInAList),
        ),
        Mistake(
            "Requests of both kinds are served from the same blocks. Which blocks may a request "
            "of up to 1 MiB use?",
            _served_by(has_pools=False),
        ),
        Mistake(
            "A request of exactly 1 MiB goes to the wrong pool. Does the exercise say 'up to' or "
            "'below'?",
            _served_by(is_small=lambda size: size < MIB),
        ),
        Mistake(
            "You take the first free block by address that is large enough. Which one does the "
            "exercise want, and what does it spare?",
            _served_by(order=lambda block: (block.address,)),
        ),
        *(
            Mistake(
                "You take some free block that is large enough, wherever it stands in your list. "
                "By what are they to be compared?",
                _served_by(order=order),
            )
            for order in LIST_ORDERS
        ),
        *(
            Mistake(
                "Of equally large blocks you take the one that comes first in your list. In which "
                "order does the exercise want them, whatever came when?",
                _served_by(order=lambda block, order=order: (block.size, *order(block))),
            )
            for order in LIST_ORDERS
        ),
        Mistake(
            "Of equally large blocks you take the one with the highest address. Which one does "
            "the exercise want?",
            _served_by(order=lambda block: (block.size, -block.address)),
        ),
        Mistake(
            "You take the largest free block. Which one does the exercise want, and what does it "
            "spare?",
            _served_by(order=lambda block: (-block.size, block.address)),
        ),
        Mistake(
            "Not even the first request of a script is served as the rules say. What do your "
            "`allocate` and `reserve` return, and is it the same?",
            lambda scenario, script, segments: {"served_requests": 0},
        ),
        scenarios=KINDS,
    ),
)
