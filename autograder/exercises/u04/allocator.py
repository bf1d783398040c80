"""Check of the student's caching allocator, against one that searches a plain list of blocks.

An allocator is judged by how many requests it serves right, up to the first that differs in the
address returned or in the bytes reserved by then.
"""

from typing import Any

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u04.shared.allocator_scripts import KINDS, allocator_cases
from autograder.observing.u04 import allocator
from course_utils.reference.segment_allocator import Allocator


def measured(**case: Any) -> dict[str, Any]:
    """Every request served, and the addresses and reserved bytes that are right."""
    right: Any = allocator.observe(Allocator, case)
    return {"served_requests": len(right["served"]), "served": right["served"]}


# Places of the model answer.
SIZE, TOTAL = "rounded_bytes(num_bytes)", "new_segment_bytes(size)"
SMALL, LARGE = "(self.small, 512)", "(self.large, MIB + 1)"
NEW = "if not free:"
BEST = "min(free, key=lambda piece: (piece.size, piece.address))"
ORDER = "(piece.size, piece.address)"
REST = """row.insert(at + 1, Piece(best.address + size, best.size - size, True))
            best.size = size"""
INIT, SEGMENT = "self.reserve = reserve", "pool.append(free)"
FREED, NEIGHBORS = "row[at].is_free = True", "(at, at - 1)"
JOINED = "                del row[first + 1 : first + 2]"

# Joins a freed piece with those beside it in other segments, too.
BEYOND = """
        piece = next(p for p in row if p.is_free and p.address <= address < p.address + p.size)
        for other in {segments}:
            if other is not row and other and other[0].is_free:
                if piece.address + piece.size == other[0].address:
                    piece.size += other.pop(0).size
            if other is not row and other and other[-1].is_free:
                if other[-1].address + other[-1].size == piece.address:
                    piece.address = other[-1].address
                    piece.size += other.pop().size"""
# Notes when a piece was freed or split off, as a list of free blocks would have them in order.
SINCE = {
    INIT: f"{INIT}\n        self.clock = iter(range(1, 10**9))",
    REST: f"{REST}\n            row[at + 1].since = next(self.clock)",
    JOINED: JOINED
    + """
        piece = next(p for p in row if p.address <= address < p.address + p.size)
        piece.since = next(self.clock)""",
}
SOME_FREE = (
    "You take some free block that is large enough, wherever it stands in your list. By what are "
    "they to be compared?"
)
FIRST_OF_EQUAL = (
    "Of equally large blocks you take the one that comes first in your list. In which order does "
    "the exercise want them, whatever came when?"
)
ONE_KIND = 1.5  # points where one kind of scripts is served right
EDITS = (
    Edit(
        "Your addresses are those of segments that lie one above the other. What does `reserve` "
        "return, and where do you use it?",
        {
            INIT: f"{INIT}\n        self.top = 0",
            "free = [Piece(self.reserve(total), total)]": "self.reserve(total)\n"
            "            free = [Piece(self.top, total)]\n            self.top += total",
        },
    ),
    Edit(
        "You give a segment up when all of it is free, and the next request reserves a new one. "
        "Does the device take a segment back?",
        {
            JOINED: f"{JOINED}\n        for pool in (self.small, self.large):\n"
            "            pool[:] = [other for other in pool if other is not row or len(row) > 1]"
        },
    ),
    Edit(
        "Only just below 10 MiB a segment is too large. For which number do you ask, that of the "
        "request or that of its block?",
        {TOTAL: "new_segment_bytes(num_bytes)"},
        ONE_KIND,
    ),
    Edit(
        "Addresses do not stay multiples of 512. Where does the size that was asked for become the "
        "size of a block?",
        {SIZE: "num_bytes"},
    ),
    Edit(
        "A segment is as large as the block that was asked for. How many bytes does the exercise "
        "want to be reserved at once, and what is the rest for?",
        {TOTAL: "size"},
    ),
    Edit(
        "Every request goes to the device. Where do you look for a free block first?",
        {NEW: "if True:"},
    ),
    Edit(
        "What was freed never serves again. What must your `free` change, so that `allocate` finds "
        "the block?",
        {FREED: "return"},
    ),
    Edit(
        "Blocks are taken from the end of a free block, or what is left lies in front. On which "
        "side does the exercise want the rest?",
        {
            REST: """row.insert(at, Piece(best.address, best.size - size, True))
            best.address, best.size = best.address + best.size - size, size"""
        },
    ),
    Edit(
        "Whatever fits is given whole. What happens to the part of a block that nobody asked for?",
        {"best.size - size >= least_rest": "False"},
    ),
    Edit(
        "In the small pool too little is split off. From how many bytes on does the exercise split "
        "there?",
        {SMALL: "(self.small, MIB + 1)"},
        ONE_KIND,
    ),
    Edit(
        "Only a rest of exactly 1 MiB goes wrong in the large pool. Does the exercise say 'at "
        "least' there, or 'more than'?",
        {LARGE: "(self.large, MIB)"},
        ONE_KIND,
    ),
    Edit(
        "In the large pool small rests are split off. What would they be of use for, and from when "
        "on does the exercise split there?",
        {LARGE: "(self.large, 512)"},
        ONE_KIND,
    ),
    Edit(
        "A freed block is joined with the one before it and not with the one behind. What if that "
        "one was freed first?",
        {NEIGHBORS: "(at - 1,)"},
    ),
    Edit(
        "A freed block is joined with the one behind it and not with the one before. What if that "
        "one was freed first?",
        {NEIGHBORS: "(at,)"},
    ),
    Edit(
        "Freed blocks never grow. What becomes of two free blocks that lie side by side?",
        {NEIGHBORS: "()"},
    ),
    *(
        Edit(
            "Blocks grow beyond their segment. Two segments may lie side by side: how do you know "
            "that two blocks come from the same one?",
            {JOINED: JOINED + BEYOND.format(segments=segments)},
        )
        for segments in (
            "self.small + self.large",
            "self.small if any(each is row for each in self.small) else self.large",
        )
    ),
    Edit(
        "Blocks are joined because they stand beside each other in your list. What may lie between "
        "the end of one segment and the beginning of the next in it?",
        {SEGMENT: "pool[:] = [[*sum(pool, []), *free]]"},
    ),
    Edit(
        "Requests of both kinds are served from the same blocks. Which blocks may a request of up "
        "to 1 MiB use?",
        {LARGE: "(self.small, MIB + 1)"},
        2 * ONE_KIND,
    ),
    Edit(
        "A request of exactly 1 MiB goes to the wrong pool. Does the exercise say 'up to' or "
        "'below'?",
        {"size <= MIB else": "size < MIB else"},
        ONE_KIND,
    ),
    Edit(
        "You take the first free block by address that is large enough. Which one does the "
        "exercise want, and what does it spare?",
        {ORDER: "piece.address"},
    ),
    Edit(SOME_FREE, SINCE | {ORDER: "getattr(piece, 'since', 0)"}),
    Edit(SOME_FREE, {BEST: "free[0]"}),
    Edit(FIRST_OF_EQUAL, SINCE | {ORDER: "(piece.size, getattr(piece, 'since', 0))"}),
    Edit(FIRST_OF_EQUAL, {ORDER: "piece.size"}),
    Edit(
        "Of equally large blocks you take the one with the highest address. Which one does the "
        "exercise want?",
        {ORDER: "(piece.size, -piece.address)"},
    ),
    Edit(
        "You take the largest free block. Which one does the exercise want, and what does it "
        "spare?",
        {ORDER: "(-piece.size, piece.address)"},
    ),
)

CHECK = Check(
    cases=allocator_cases,
    observe=allocator.observe,
    judge=Behaviour(
        measured,
        *edited("u04-allocator", EDITS, observe=allocator.observe),
        Symptom(
            "Not even the first request of a script is served as the rules say. What do your "
            "`allocate` and `reserve` return, and is it the same?",
            lambda *case: {"served_requests": 0},
        ),
        scenarios=KINDS,
        summarise=allocator.summarise,
        questions={
            "small": "Go through the script by hand, with the six rules beside you. At which "
            "request does your `Allocator` part ways, and which rule speaks of it?",
            "large": "Only requests beyond 1 MiB are wrong. Which of the six rules say something "
            "else for the large pool?",
            "both": "Each pool alone is right. What tells a block or a segment of one pool from "
            "those of the other?",
        },
        labels={"served_requests": "the requests that are served as the rules say"},
    ),
    fallback="course_utils.reference.segment_allocator.Allocator",
    answers=("course_utils.reference.allocator", "course_utils.reference.segment_allocator"),
)
