"""Check of a rank's share of the mean loss over the targets of all ranks."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.precision import tolerance
from autograder.exercises.model_answers import mistakes_of
from autograder.observing import replay
from autograder.observing.u09 import global_mean

SCENARIOS = ("ragged", "equal", "a rank without")
NUM_CASES_EACH = 5
# Two of them are more than 2**15, three less than fp16's largest; 1 modulo 8 is not exact in fp16.
LARGE = range(2**14 + 1, 21_000, 8)
# One is more than float32 counts, two are more than int32 does; rounded to float32 each loses 63.
HUGE = range(3 * 2**29 + 63, 2**31, 128)


def _num_targets(scenario: str, num_ranks: int, is_large: bool, rng: random.Random) -> list[int]:
    possible = LARGE if is_large else range(1, 30)
    counts = rng.sample(possible, num_ranks)
    if scenario == "equal":
        return [counts[0]] * num_ranks
    if scenario == "a rank without":
        counts[rng.randrange(num_ranks)] = 0
    return counts


def share_cases(seed: int) -> list[Case]:
    """Each scenario on two to four ranks, with few targets and many.

    Equal numbers also on one rank; no targets at all; billions of targets.
    """
    rng = random.Random(seed)
    cases = [_case("ragged", [3, 1], [6.0, 4.0])]
    for scenario in SCENARIOS:
        for number in range(NUM_CASES_EACH):
            is_large = number == NUM_CASES_EACH - 1
            num_ranks = 3 if is_large else rng.randint(2, 4)  # a third is not exact in a float
            if (scenario, number) == ("equal", 0):
                num_ranks = 1
            counts = _num_targets(scenario, num_ranks, is_large, rng)
            losses = [round(n * rng.uniform(1, 4), 3) for n in counts]
            cases.append(_case(scenario, counts, losses))
    huge = rng.sample(HUGE, 2)
    cases.append(_case("ragged", huge, [2.0 * huge[0], 3.0 * huge[1]]))
    without = [[0] * num_ranks for num_ranks in rng.sample(range(1, 17), 5)]
    return cases + [_case("a rank without", counts, [0.0] * len(counts)) for counts in without]


def _case(scenario: str, num_targets: list[int], summed_losses: list[float]) -> Case:
    return {"scenario": scenario, "num_targets": num_targets, "summed_losses": summed_losses}


def measured(scenario: str, num_targets: list[int], summed_losses: list[float]) -> dict[str, float]:
    """The mean of all targets' losses; the gradient of a square at one is twice it."""
    mean = sum(summed_losses) / max(1, sum(num_targets))
    return {
        "forged_calls": 0,
        "shares": mean,
        "gradient": 2 * mean,
        "calls": 1,
        "dead_ends": 0,
        "changed_losses": 0,
    }


CHECK = Check(
    cases=share_cases,
    observe=global_mean.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u09-global-mean", global_mean.observe),
        scenarios=SCENARIOS,
        relative_tolerance=tolerance(cancelled=4),
        labels={
            **replay.LABELS,
            "shares": "the sum of all shares",
            "gradient": "the gradient of that sum",
            "calls": "calls to the other ranks",
            "dead_ends": "ranks whose share is cut off from the loss",
            "changed_losses": "ranks whose summed loss has changed",
        },
        summarise=global_mean.summarise,
    ),
    fallback="course_utils.reference.gradient_sync.share_of_mean",
    answers=("course_utils.reference.gradient_sync.share_of_mean",),
)
