"""Check of the tables of a paged cache, by a memory that is written and read back."""

import random
from string import ascii_lowercase
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u13 import paged
from autograder.observing.u13.paged_memory import WRONG
from autograder.observing.u13.paged_scripts import random_script

SCENARIOS = ("append", "free", "share", "copy")
AMPLE = "share"  # its memory is never full
NUM_REQUESTS, A_FEW = 60, 6
BLOCK_SIZES = (4, 2, 3, 1, 5, 4)
# In blocks of two cells, and memory for four tokens where it is tight.
BY_HAND = {
    "append": ("a a a b a", "a a b c b a"),
    "free": ("a a b c -a b b a -b a c",),
    "share": ("a a a>b b -a c",),
    "copy": ("a a>b b a c -a c", "a a>b b -b a c b"),
}


def script_cases(seed: int) -> list[Case]:
    """Scripts of every scenario: short ones, then long ones; memory tight and ample."""
    rng = random.Random(seed)
    cases = [
        _case(scenario, words, len(words.split()), 0, NUM_REQUESTS if scenario == AMPLE else 2, 2)
        for scenario, scripts in BY_HAND.items()
        for words in scripts
    ]
    names = str.maketrans("abc", "".join(rng.sample(ascii_lowercase, 3)))
    cases[1:] = [case | {"begins": case["begins"].translate(names)} for case in cases[1:]]
    for scenario in SCENARIOS:
        for number, size in enumerate(BLOCK_SIZES):
            is_tight = scenario != AMPLE and number % 2 == 0
            blocks = rng.randint(5, 8) if is_tight else NUM_REQUESTS
            of_script = rng.randint(1, 10**4)
            begins = random_script(scenario, size, NUM_REQUESTS, of_script)[:A_FEW]
            cases.append(_case(scenario, " ".join(begins), NUM_REQUESTS, of_script, blocks, size))
    return cases


def _case(scenario: str, *others: str | int) -> Case:
    """A few requests and the number of all of them, which is what a verdict shows."""
    names = ("begins", "num_requests", "seed", "num_blocks", "block_size")
    return {"scenario": scenario, **dict(zip(names, others, strict=True))}


def measured(**_: Any) -> dict[str, int]:
    """No request is served wrong."""
    return dict.fromkeys(WRONG, 0)


NEW, SHARED = "if cell == 0:", "elif self.owners[blocks[-1]] > 1:"
TAKE, COPY = "block = self.taken()", "self.copies.append((blocks[-1], block, cell))"
LEFT = "self.owners[blocks[-1]] -= 1"
FORKED = """self.tables[child] = list(self.tables[sequence])
        self.lengths[child] = self.lengths[sequence]
        for block in self.tables[child]:
            self.owners[block] += 1"""
FREED = """self.owners[block] -= 1
            if self.owners[block] == 0:
                self.free_blocks.append(block)"""
TOO_MANY = (
    "Cells are copied that hold nothing of this sequence. How many of its tokens lie in its last "
    "block?"
)
LEFT_OVER = "What do you still remember of a sequence that was refused, or ended?"
FOLLOW = "Follow the script of the verdict by hand (a>b forks, -a ends):"
NONE_FREE = "What should a request raise when no block is free?"
EDITS = (
    *(
        Edit(TOO_MANY, {COPY: COPY.replace("cell)", f"{count})")}, points=3.0)
        for count in ("length", "self.block_size", "cell + 1")
    ),
    Edit(
        "A copy is asked for, and it does not go into the block that you return. Which of the two "
        "blocks does the card name first?",
        {COPY: "self.copies.append((block, blocks[-1], cell))"},
        points=3.0,
    ),
    Edit(
        "The new block lacks the tokens that came before in it. Who copies them, and what tells "
        "that one to do so?",
        {COPY: "pass"},
        points=3.0,
    ),
    Edit(
        LEFT_OVER,
        {
            f"{NEW}\n": f"self.lengths[sequence] = length + 1\n        {NEW}\n",
            "self.tables[sequence] = blocks\n        self.lengths[sequence] = length + 1": ""
            "self.tables[sequence] = blocks",
        },
        points=1.0,
    ),
    Edit(LEFT_OVER, {"\n        del self.lengths[sequence]": ""}, points=1.0),
    Edit(
        NONE_FREE,
        {
            'if not self.free_blocks:\n            raise MemoryError("no block is free")\n'
            "        ": ""
        },
        points=1.0,
    ),
    Edit(
        "A sequence writes into a block that another one reads. Who else has the block that you "
        "write to?",
        {SHARED: "elif False:"},
        points=3.0,
    ),
    Edit(
        "The new block lacks the tokens that came before in it. How many of its cells does the "
        "sequence need from the old one?",
        {COPY: COPY.replace("cell)", "0)")},
        points=3.0,
    ),
    Edit(
        "The new block lacks the tokens that came before in it. How many of its cells does the "
        "sequence need from the old one?",
        {COPY: COPY.replace("cell)", "cell - 1)")},
        points=3.0,
    ),
    Edit(
        "A fork takes blocks of its own at once. What differs between the two right after a fork?",
        {
            FORKED: """self.lengths[child] = self.lengths[sequence]
        self.tables[child] = []
        for old in self.tables[sequence]:
            block = self.taken()
            self.copies.append((old, block, self.block_size))
            self.tables[child].append(block)"""
        },
        points=2.0,
    ),
    Edit(
        "The child's table grows with its parent's. Are these two tables, or two names of one?",
        {
            "list(self.tables[sequence])\n        self.lengths": "self.tables[sequence]\n        "
            "self.lengths"
        },
        points=2.0,
    ),
    Edit(
        "A block is free as soon as one sequence ends. Who else may still need it?",
        {FREED: "self.free_blocks.append(block)"},
        points=2.0,
    ),
    Edit(
        "Blocks that two had never come back. Who frees a block when the last of them ends?",
        {
            FREED: """if self.owners[block] == 1:
                self.free_blocks.append(block)"""
        },
        points=3.0,
    ),
    Edit(
        "What one sequence leaves is of use to nobody. Where do its blocks go when it ends?",
        {FREED: "self.owners[block] -= 1"},
        points=2.0,
    ),
    Edit(
        "A block is taken one token early. In which request is the first token of a block written?",
        {
            "return blocks[-1], cell": """place = blocks[-1], cell
        if cell == self.block_size - 1:
            blocks.append(self.taken())
        return place""",
            NEW: "if not blocks:",
        },
    ),
    Edit(
        "After a copy the old block still counts the one that left. How many sequences have it "
        "now?",
        {f"{LEFT}\n            ": ""},
        points=3.0,
    ),
    Edit(
        "You copy blocks that nobody shares. What does the only owner of a block gain by a copy?",
        {SHARED: "else:"},
        points=1.0,
    ),
    Edit(
        "A request was refused, and something had changed all the same. What do you change before "
        "you know that there is a block?",
        {
            f"{TAKE}\n            {COPY}\n            {LEFT}": f"{LEFT}\n            {TAKE}\n"
            f"            {COPY.replace('blocks[-1]', 'self.tables[sequence][-1]')}"
        },
        points=3.0,
    ),
    Edit(
        "A new name was refused, and it has a table now. What do you change before you know that "
        "there is a block?",
        {"self.tables.get(sequence, [])": "self.tables.setdefault(sequence, [])"},
        points=1.0,
    ),
    Edit(
        "A request was refused, and a copy is asked for all the same. What do you change before "
        "you know that there is a block?",
        {
            f"{TAKE}\n            {COPY}": "block = [0, *self.free_blocks][-1]\n"
            f"            {COPY}\n            block = self.taken()",
        },
        points=3.0,
    ),
    Edit(
        "Memory is full and you hand out a block that is in use. What does the exercise raise "
        "where none is free?",
        {'raise MemoryError("no block is free")': "return 0"},
        points=1.0,
    ),
)

CHECK = Check(
    cases=script_cases,
    observe=paged.observe,
    judge=Behaviour(
        measured,
        *edited("u13-paged", EDITS, observe=paged.observe),
        summarise=paged.summarise,
        scenarios=SCENARIOS,
        labels=paged.LABELS,
        questions={
            "looked_up": LEFT_OVER,
            "taken_of_none": NONE_FREE,
            "too_many_cells": TOO_MANY,
            "append": f"{FOLLOW} when does a sequence need a new "
            "block, and what does a refused request leave as it was?",
            "free": f"{FOLLOW} which blocks are free after a "
            "sequence has ended, and what is left of its name?",
            "share": f"{FOLLOW} how many sequences have each block, and when is it free?",
            "copy": f"{FOLLOW} who has the block that is written to, and who after a copy?",
        },
    ),
    fallback="course_utils.reference.paged_cache.PagedCache",
    answers=("course_utils.reference.paged_cache",),
)
