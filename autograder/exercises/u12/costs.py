"""Check of what a pipeline costs: seconds, idle seconds, micro-batches in flight."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import gpipe, one_forward_one_backward

NAMES = ("num_stages", "num_micro_batches", "forward_seconds", "backward_seconds", "stage")


def cost_cases(seed: int) -> list[Case]:
    """One stage and many, few micro-batches, F and B of any length, the first and last stage."""
    rng = random.Random(seed)
    one, two = rng.randint(1, 30), rng.randint(1, 30)
    sizes = [(2, 3, 1, 2, 1), (4, 8, one, two, 0), (1, 4, one, two, 0), (6, 2, one, two, 0)]
    sizes += [(5, 1, one, two, 4), (4, 4, two, two, 3)]
    sizes.append((3, 5, 2**53 + 8 * rng.randint(0, 99) + 1, 2**54 + 3, 1))
    for number in range(14):
        num_stages = rng.randint(2, 7)
        most = num_stages - 1 if number % 3 == 0 else 12
        stage = (0, rng.randrange(num_stages), num_stages - 1)[number % 3]
        seconds = rng.randint(1, 9), rng.randint(1, 9)
        sizes.append((num_stages, rng.randint(1, most), *seconds, stage))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def simulated(
    num_stages: int,
    num_micro_batches: int,
    forward_seconds: int,
    backward_seconds: int,
    stage: int,
) -> dict[str, int]:
    """What the simulator says of both orders."""
    seconds = PassSeconds(
        forward=forward_seconds, input_gradient=backward_seconds, weight_gradient=0
    )
    schedules = {
        "gpipe": gpipe(num_stages, num_micro_batches),
        "1f1b": one_forward_one_backward(num_stages, num_micro_batches),
    }
    runs = {
        name: simulate_pipeline(each, num_micro_batches, seconds=seconds).require_complete()
        for name, each in schedules.items()
    }
    last = runs["1f1b"]
    return {
        "seconds": int(last.seconds),
        "idle_seconds": int(last.idle_seconds(stage)),
        **{name: int(run.in_flight(stage)) for name, run in runs.items()},
    }


CHECK = Check(
    cases=cost_cases,
    judge=EqualTo(
        simulated,
        *mistakes_of("u12-costs"),
        labels={
            "seconds": "seconds of the step",
            "idle_seconds": "seconds in which the stage is idle",
            "gpipe": "micro-batches in flight with GPipe",
            "1f1b": "micro-batches in flight with 1F1B",
        },
        questions=questions_of("u12-costs"),
    ),
    fallback="course_utils.formulas.pipeline.pipeline_costs",
)
