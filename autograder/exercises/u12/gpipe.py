"""Check of the lists of GPipe, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FORBIDDEN,
    QUESTIONS,
    fewest_seconds,
    right_numbers,
)
from autograder.observing.u12 import lists

NAMES = ("num_stages", "num_micro_batches")


def gpipe_cases(seed: int) -> list[Case]:
    """Few micro-batches and many; one stage, one micro-batch."""
    rng = random.Random(seed)
    num_stages = rng.randint(3, 7)
    sizes = [(1, 2), (num_stages, num_stages), (num_stages, rng.randint(8, 16))]
    sizes += [(1, rng.randint(1, 20)), (1, rng.randint(1, 20)), (rng.randint(2, 12), 1)]
    sizes.append((num_stages, rng.randint(2, num_stages - 1)))
    sizes += [(rng.randint(2, 7), rng.randint(2, 16)) for _ in range(15)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured(num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """All micro-batches in flight on every stage, and no forward pass after a backward one."""
    seconds = fewest_seconds(num_stages, num_micro_batches)
    held = [num_micro_batches] * num_stages
    return right_numbers(num_stages, seconds, held, late_forwards=0)


# Places of the model answer.
STAGES = "for _ in range(num_stages)"
FORWARD = 'actions = [("F", k, 0) for k in range(num_micro_batches)]'
BACKWARD = 'actions += [("B", k, 0) for k in range(num_micro_batches)]'
IN_TURN = 'actions = [(kind, k, 0) for k in range(num_micro_batches) for kind in "FB"]'

EDITS = (
    Edit(
        "F and B take turns in your lists, so each micro-batch comes back before the next one "
        "goes down. What do the other stages do meanwhile?",
        {FORWARD: IN_TURN, BACKWARD: ""},
    ),
    Edit(
        "There is one list for each micro-batch. Whose actions are in a list of a schedule?",
        {STAGES: "for _ in range(num_micro_batches)"},
        shows=("lists",),
    ),
    Edit(
        "Your numbers go one too far. What is the number of the first micro-batch?",
        {
            FORWARD: FORWARD.replace('"F", k', '"F", k + 1'),
            BACKWARD: BACKWARD.replace('"B", k', '"B", k + 1'),
        },
    ),
    Edit(
        "No list has a backward pass. Where do gradients come from?",
        {BACKWARD: ""},
    ),
    Edit(
        "Later stages leave out the first micro-batches. Which of them does a stage see?",
        {STAGES: STAGES.replace(" _ ", " stage "), FORWARD: FORWARD.replace("(num", "(stage, num")},
    ),
    Edit(
        "Backward passes come first in your lists. Which action of the same micro-batch does a "
        "backward pass wait for?",
        {FORWARD: FORWARD.replace('"F"', '"B"'), BACKWARD: BACKWARD.replace('"B"', '"F"')},
    ),
    Edit(
        "The last number of your actions is that of the stage. A stage has a single chunk here: "
        "what is its number?",
        {
            STAGES: STAGES.replace(" _ ", " stage "),
            FORWARD: FORWARD.replace("k, 0", "k, stage"),
            BACKWARD: BACKWARD.replace("k, 0", "k, stage"),
        },
    ),
    Edit(
        "All actions stand in one list. Whose list is it, and where are those of the others?",
        {"return schedule": "return [sum(schedule, [])]"},
        shows=("lists",),
    ),
)

CHECK = Check(
    cases=gpipe_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *edited("u12-gpipe", EDITS, observe=lists.observe),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions={
            **QUESTIONS,
            "unknown": "What are the three parts of an action, and from which number on do "
            "micro-batches count?",
            "missing": "Which passes does every stage make, and for which micro-batches?",
            "repeated": "How often does a stage see each micro-batch?",
            "late_forwards": "A forward pass comes after a backward pass. Is that GPipe?",
            "seconds": "It takes longer than it must. Which stage is late, and for what?",
        },
    ),
    fallback="course_utils.reference.pipeline_schedules.gpipe",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
