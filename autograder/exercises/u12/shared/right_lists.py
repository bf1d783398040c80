"""What is right of a schedule, whatever its order: every action once, and so many seconds.

F takes one second and B two, or I and W one each; of a chunk too.
"""

import random
from collections.abc import Sequence

from autograder.checking.exercise_check import Case

F, B = 1, 2
ANSWERS = ("course_utils.reference.pipeline_schedules",)
FORBIDDEN = ("torch.distributed.pipelining",)
MANY, FEW = "many", "few"


def right_numbers(
    num_stages: int, seconds: int, held: Sequence[int], **others: int
) -> dict[str, int]:
    """The numbers of a schedule that is whole.

    Args:
        num_stages: Lists that are wanted.
        seconds: Of the step.
        held: The most passes in flight on each stage.
        others: What else is counted.
    """
    return {
        "lists": num_stages,
        "unknown": 0,
        "repeated": 0,
        "missing": 0,
        "waiting": 0,
        "seconds": seconds,
        **others,
        **{f"held_{stage}": number for stage, number in enumerate(held)},
    }


def fewest_seconds(num_stages: int, passes_of_a_stage: int) -> int:
    """Of lists of F and B: the way down to the last stage, all its work, the way back up."""
    return (num_stages - 1) * F + passes_of_a_stage * (F + B) + (num_stages - 1) * B


def cases_of(worked: tuple[int, int], rng: random.Random) -> list[Case]:
    """Stages and micro-batches: those given, corners, then as many of each scenario at random."""
    equal = rng.randint(2, 9)
    sizes = [worked, (4, rng.randint(8, 20)), (1, rng.randint(1, 20)), (equal, equal)]
    sizes += [(rng.randint(4, 9), 2), (rng.randint(3, 12), 1)]
    for _ in range(8):
        num_stages = rng.randint(2, 7)
        sizes.append((num_stages, num_stages + rng.randint(0, 9)))
        num_stages = rng.randint(3, 9)
        sizes.append((num_stages, rng.randint(1, num_stages - 1)))
    return [
        {
            "scenario": MANY if num_micro_batches >= num_stages else FEW,
            "num_stages": num_stages,
            "num_micro_batches": num_micro_batches,
        }
        for num_stages, num_micro_batches in sizes
    ]
