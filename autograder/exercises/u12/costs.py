"""Check of what a pipeline costs: seconds, idle seconds, micro-batches in flight."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import gpipe, one_forward_one_backward

NAMES = ("num_stages", "num_micro_batches", "forward_seconds", "backward_seconds", "stage")
SECONDS, IN_FLIGHT = ("seconds", "idle_seconds"), ("gpipe", "1f1b")


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


# Places of the model answer.
BOTH, IDLE = "forward_seconds + backward_seconds", "(num_stages - 1) * of_one"
TOTAL, GPIPE = "num_micro_batches * of_one + idle", '"gpipe": num_micro_batches'
HELD = "min(num_micro_batches, num_stages - stage)"

EDITS = (
    Edit(
        "That is the work of one stage. What is added while the first micro-batch goes down and "
        "the last gradient comes up?",
        {TOTAL: "num_micro_batches * of_one"},
        points=1.5,
    ),
    Edit(
        "One pass too many: how many stages lie *before* the last one?",
        {IDLE: "num_stages * of_one"},
        points=1.0,
    ),
    Edit(
        "The first micro-batch needs F on its way down. What does the last one need on its way up?",
        {IDLE: "(num_stages - 1) * forward_seconds"},
        points=1.0,
    ),
    Edit(
        "Is a stage idle only while gradients come up, and not while activations go down?",
        {IDLE: "(num_stages - 1) * backward_seconds"},
        points=1.0,
    ),
    Edit(
        "Your stages work one after the other on each micro-batch. What does stage 0 do while "
        "stage 1 works?",
        {TOTAL: "num_micro_batches * num_stages * of_one"},
        points=1.5,
    ),
    Edit(
        "Is B as long as F?",
        {BOTH: "2 * forward_seconds"},
        points=1.0,
    ),
    Edit(
        "When does GPipe begin its first backward pass, and how many forward passes has a stage "
        "run by then?",
        {GPIPE: '"gpipe": min(num_micro_batches, num_stages)'},
        points=1.5,
    ),
    Edit(
        "Right where there are enough micro-batches. What if there are fewer of them than stages?",
        {HELD: "num_stages - stage"},
        points=1.5,
    ),
    Edit(
        "One too few: how many does the last stage hold while it runs B?",
        {HELD: "min(num_micro_batches, num_stages - stage - 1)"},
        points=1.5,
    ),
    Edit(
        "Does every stage hold as much as the first one?",
        {HELD: "min(num_micro_batches, num_stages)"},
        points=1.5,
    ),
    Edit(
        "Which stage holds the most: the one nearest to the loss, or the one farthest away?",
        {HELD: "min(num_micro_batches, stage + 1)"},
        points=1.5,
    ),
    Edit(
        "That is GPipe's number for 1F1B. When does 1F1B let the first micro-batch go?",
        {HELD: "num_micro_batches"},
        points=1.5,
    ),
    Edit(
        "Those are the idle seconds of all stages together. How many has one of them?",
        {'"idle_seconds": idle': '"idle_seconds": idle * num_stages'},
        points=1.5,
    ),
)

CHECK = Check(
    cases=cost_cases,
    judge=EqualTo(
        simulated,
        *edited("u12-costs", EDITS),
        labels={
            "seconds": "seconds of the step",
            "idle_seconds": "seconds in which the stage is idle",
            "gpipe": "micro-batches in flight with GPipe",
            "1f1b": "micro-batches in flight with 1F1B",
        },
        questions={
            "seconds": "When does the last stage begin, how long does it work, and what comes "
            "after that?",
            "idle_seconds": "A step's seconds minus those in which the stage works: what is left?",
            "gpipe": "How many forward passes has a stage run before its first backward pass?",
            "1f1b": "Look at the picture: what is the number at the right of each stage?",
        },
    ),
    fallback="course_utils.formulas.pipeline.pipeline_costs",
)
