"""Check of the tables of a paged cache, by a memory that is written and read back."""

import random
from string import ascii_lowercase
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=script_cases,
    observe=paged.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u13-paged", observe=paged.observe),
        summarise=paged.summarise,
        scenarios=SCENARIOS,
        labels=paged.LABELS,
        questions=questions_of("u13-paged"),
    ),
    fallback="course_utils.reference.paged_cache.PagedCache",
    answers=("course_utils.reference.paged_cache",),
)
