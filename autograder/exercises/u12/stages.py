"""Check of a cut of a model into stages, against every cut there is."""

import itertools
import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=stage_cases,
    observe=stages.observe,
    judge=Behaviour(
        searched,
        *mistakes_of("u12-stages", observe=stages.observe),
        summarise=stages.summarise,
        labels=stages.LABELS,
        questions=questions_of("u12-stages"),
    ),
    fallback="course_utils.formulas.pipeline.cut_into_stages",
    answers=("course_utils.formulas.pipeline",),
)
