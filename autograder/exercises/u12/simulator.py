"""Check of a simulator of pipelines, against the course's: orders of every kind, deadlocks."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from course_utils.configs import Action
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import gpipe, one_forward_one_backward

Lists = list[list[Action]]
STUCK: Lists = [
    [("F", 0, 0), ("B", 0, 0), ("F", 1, 0), ("B", 1, 0)],
    [("F", 0, 0), ("F", 1, 0), ("B", 0, 0), ("B", 1, 0)],
]


def simulator_cases(seed: int) -> list[Case]:
    """GPipe and 1F1B, orders at random that can be followed, and some that cannot."""
    rng = random.Random(seed)
    one, two = rng.randint(1, 30), rng.randint(1, 30)
    schedules: list[tuple[Lists, int, int]] = [(gpipe(2, 2), 1, 2), (STUCK, one, two)]
    schedules += [
        (one_forward_one_backward(3, 5), 1, two),
        ([[("B", 0, 0), ("F", 0, 0)]], one, one),
    ]
    schedules += [(one_forward_one_backward(3, 4)[::-1], one, two), (gpipe(1, 3), 4 * one, one)]
    for number in range(16):
        seconds = rng.randint(1, 5), rng.randint(1, 9)
        num_stages, m = rng.randint(2, 4), rng.randint(2, 4)
        schedule = [_followed, _shuffled][number % 4 == 3](num_stages, m, rng)
        schedules.append((schedule, *seconds))
    names = ("schedule", "forward_seconds", "backward_seconds")
    return [dict(zip(names, each, strict=True)) for each in schedules]


def _followed(num_stages: int, num_micro_batches: int, rng: random.Random) -> Lists:
    """Lists of actions that were done in some order that is possible."""
    schedule: Lists = [[] for _ in range(num_stages)]
    steps = [(kind, stage) for kind in "FB" for stage in range(num_stages)]
    steps[num_stages:] = reversed(steps[num_stages:])
    position = [0] * num_micro_batches
    while left := [k for k in range(num_micro_batches) if position[k] < len(steps)]:
        k = rng.choice(left)
        kind, stage = steps[position[k]]
        schedule[stage].append((kind, k, 0))
        position[k] += 1
    return schedule


def _shuffled(num_stages: int, num_micro_batches: int, rng: random.Random) -> Lists:
    return [rng.sample(each, len(each)) for each in gpipe(num_stages, num_micro_batches)]


def simulated(schedule: Lists, forward_seconds: int, backward_seconds: int) -> int:
    """What the course's simulator says."""
    seconds = PassSeconds(
        forward=forward_seconds, input_gradient=backward_seconds, weight_gradient=0
    )
    run = simulate_pipeline(schedule, len(schedule[0]) // 2, seconds=seconds)
    return -1 if run.waiting else int(run.seconds)


# Places of the model answer.
START = "max([free[stage], *(ends[each] for each in needs)])"
OWN_F, NEXT = '[("F", k, stage)]', '("B", k, stage + 1)'
END, STAGE_BEFORE = "-1 if is_stuck else max(free)", '[("F", k, stage - 1)] if stage > 0 else []'

EDITS = (
    Edit("What is the answer for stages that wait for ever?", {END: "max(free)"}),
    Edit(
        "A stage does two things at a time with you. When is it free again?",
        {START: "max([0, *(ends[each] for each in needs)])"},
    ),
    Edit(
        "An action begins as soon as its stage is free. When does what it waits for arrive?",
        {START: "free[stage]"},
    ),
    Edit("Does B take as long as F?", {'if kind == "F" else backward_seconds': "if kind else 0"}),
    Edit(
        "B comes before its own F in some lists, and you let it. Can that be?",
        {OWN_F: "[]"},
    ),
    Edit(
        "Your B does not wait for the stage after. Where does its gradient come from?",
        {NEXT: '("F", k, stage)'},
    ),
    Edit(
        "Your F does not wait for the stage before. Where does its input come from?",
        {STAGE_BEFORE: "[]"},
    ),
    Edit(
        "Those are the seconds of the last stage. Who is done after it?",
        {END: END.replace("max(free)", "free[-1]")},
    ),
    Edit(
        "Seconds of stages that work at the same time are added up. Which one ends last?",
        {END: END.replace("max(free)", "sum(free)")},
    ),
)

CHECK = Check(
    cases=simulator_cases,
    judge=EqualTo(simulated, *edited("u12-simulator", EDITS)),
    answers=("course_utils.instruments.pipeline",),
)
