"""Check of a cut of a model into stages, against every cut there is."""

import itertools
import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u12 import stages


def stage_cases(seed: int) -> list[Case]:
    """Equal pieces and unequal ones, heavy ends, as many pieces as stages, one stage."""
    rng = random.Random(seed)
    few = [rng.randint(1, 9) for _ in range(3)]
    cases: list[tuple[list[int], int]] = [([0, 2, 2, 2, 2, 5], 3), ([few[0]] * 8, 4), (few, 3)]
    cases += [(few[::-1], 1), ([0, *[few[1]] * 8, 2 * few[1] + 1], 4)]
    cases += [([0, *[1] * rng.randint(6, 12), 9], 4), ([1, 1, rng.randint(6, 30), 1, 1], 3)]
    for number in range(15):
        num_stages = rng.randint(2, 4)
        seconds = [rng.randint(1, 9) for _ in range(rng.randint(num_stages + 1, 9))]
        if number % 3 == 0:
            seconds = [0, *[seconds[0]] * (len(seconds) - 2), 2 * seconds[0] + 1]
        cases.append((seconds, num_stages))
    return [{"seconds": seconds, "num_stages": number} for seconds, number in cases]


def searched(seconds: list[int], num_stages: int) -> dict[str, int]:
    """The slowest stage of the best of all cuts."""
    places = itertools.combinations(range(1, len(seconds)), num_stages - 1)
    cuts = ([0, *inner, len(seconds)] for inner in places)
    slowest = min(max(sum(seconds[a:b]) for a, b in itertools.pairwise(cut)) for cut in cuts)
    return {"stages": num_stages, "odd_sizes": 0, "pieces": len(seconds), "slowest": slowest}


# Places of the model answer.
MOST = "len(seconds) - (num_stages - stage - 1)"
DONE, RESULT = "sizes if start == len(seconds) else None", "limit += 1"
LIMIT = "limit = max(seconds)"
EQUAL = """base, more = divmod(len(seconds), num_stages)
    return [base + (stage < more) for stage in range(num_stages)]"""
STARTS = "[sum(sizes[: n + 1]) for n in range(num_stages)]"

EDITS = (
    Edit(
        "Your stages have equally many pieces. Do all pieces take equally long?",
        {LIMIT: f"{EQUAL}\n    {LIMIT}"},
    ),
    Edit(
        "You fill each stage up to the mean, and the last one takes the rest. Could a somewhat "
        "higher limit leave less for the last one?",
        {
            LIMIT: "limit = max(max(seconds), -(-sum(seconds) // num_stages))",
            DONE: "[*sizes[:-1], len(seconds) - sum(sizes[:-1])]",
        },
    ),
    Edit(
        "Pieces at the end are on no stage. What has to be done if the limit was too low for all?",
        {DONE: "sizes"},
    ),
    Edit(
        "Those are the numbers of the pieces at which stages end. How many pieces has each stage?",
        {RESULT: f"{RESULT}\n    return {STARTS}"},
    ),
    Edit(
        "Those are seconds. What does the exercise want counted for each stage?",
        {
            RESULT: f"{RESULT}\n    ends = {STARTS}\n"
            "    return [sum(seconds[end - size : end]) for end, size in zip(ends, sizes)]"
        },
    ),
    Edit(
        "Some stages have no piece. May the first stages take all?",
        {MOST: "len(seconds)", "start + 1, len": "start, len"},
    ),
    Edit(
        "Your limit skips the best one. In which steps does it rise, if every second counts?",
        {RESULT: "limit += max(seconds)"},
        shows=("slowest",),
    ),
    Edit(
        "The first stages have one piece each, and the last has all the rest. How long does that "
        "one take?",
        {LIMIT: f"return [1] * (num_stages - 1) + [len(seconds) - num_stages + 1]\n    {LIMIT}"},
    ),
)

CHECK = Check(
    cases=stage_cases,
    observe=stages.observe,
    judge=Behaviour(
        searched,
        *edited("u12-stages", EDITS, observe=stages.observe),
        summarise=stages.summarise,
        labels=stages.LABELS,
        questions={
            "stages": "How many numbers does the exercise want?",
            "odd_sizes": "What is the smallest number of pieces that a stage may have?",
            "pieces": "Is every piece of the model on exactly one stage?",
            "slowest": "Take a case with three pieces, and write down all its cuts. Which one is "
            "best, and which one do you take?",
        },
    ),
    fallback="course_utils.formulas.pipeline.cut_into_stages",
    answers=("course_utils.formulas.pipeline",),
)
