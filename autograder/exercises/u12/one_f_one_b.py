"""Check of the lists of 1F1B, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FEW,
    FORBIDDEN,
    MANY,
    QUESTIONS,
    cases_of,
    fewest_seconds,
    right_numbers,
)
from autograder.observing.u12 import lists


def schedule_cases(seed: int) -> list[Case]:
    """As many micro-batches as stages, more, fewer; one stage, one micro-batch."""
    return cases_of((2, 2), random.Random(seed))


def measured(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """The fewest seconds, and on stage s as many micro-batches as are below it and on it."""
    held = [min(num_micro_batches, num_stages - stage) for stage in range(num_stages)]
    return right_numbers(num_stages, fewest_seconds(num_stages, num_micro_batches), held)


# Places of the model answer.
MOST, AHEAD = "num_stages - 1 - stage", "min(num_stages - 1 - stage, num_micro_batches)"
F, B = 'actions.append(("F", k + ahead, 0))', 'actions.append(("B", k, 0))'
LEFT = "range(num_micro_batches - ahead, num_micro_batches)"

EDITS = (
    Edit(
        "Every stage holds one micro-batch more than it must. How many micro-batches does the last "
        "stage hold when it begins its first backward pass?",
        {MOST: "num_stages - stage"},
    ),
    Edit(
        "After its first forward passes each of your stages wants a B before an F, and all wait. "
        "What must have happened on the last stage before your first B?",
        {f"{F}\n            {B}": f"{B}\n            {F}"},
    ),
    Edit(
        "Every stage runs equally many forward passes ahead. When does the last stage begin its "
        "first backward pass, and who waits for it?",
        {MOST: "num_stages - 1"},
    ),
    Edit(
        "The last stage runs the most forward passes ahead, and the first one none. Which stage "
        "has the longest way to the loss?",
        {MOST: "stage"},
    ),
    Edit(
        "The last backward pass is missing where stages run ahead. How many B are left when all F "
        "are done?",
        {LEFT: LEFT.replace(", num_micro_batches)", ", num_micro_batches - 1)")},
    ),
    Edit(
        "The time is right: this is GPipe. What does a stage hold?",
        {AHEAD: "num_micro_batches"},
    ),
    Edit(
        "All is right but for few micro-batches. How many can a stage run ahead if there are fewer "
        "of them than stages?",
        {AHEAD: MOST},
        points=1.5,
        shows=("unknown",),
    ),
    Edit(
        "No stage runs ahead: a micro-batch comes all the way back before the next one goes down. "
        "What do the other stages do meanwhile?",
        {AHEAD: "0"},
    ),
    Edit(
        "After the first forward passes your F begin again at micro-batch 0. Which ones has the "
        "stage already seen?",
        {F: F.replace("k + ahead", "k")},
    ),
    Edit(
        "Your B goes with the F just before it. Which micro-batch has been in flight the longest?",
        {B: B.replace("k,", "k + ahead,"), LEFT: "range(ahead)"},
    ),
    Edit(
        "Twice as many forward passes as needed come ahead. Which moment of the last stage does "
        "a stage wait for, and how far is that?",
        {MOST: "2 * (num_stages - 1 - stage)"},
    ),
    Edit(
        "The backward passes that are left never come. Which micro-batches are still in flight "
        "when a stage has run its last F?",
        {LEFT: "()"},
    ),
)

CHECK = Check(
    cases=schedule_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *edited("u12-one-f-one-b", EDITS, observe=lists.observe),
        scenarios=(MANY, FEW),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions={
            **QUESTIONS,
            "missing": "Every stage makes F and B of every micro-batch. Which ones are left when "
            "F and B no longer alternate?",
            "repeated": "An action stands there twice. With which micro-batch do F and B go on "
            "after the first passes?",
            "seconds": "It takes longer than GPipe. Which stage has a gap that GPipe has not, and "
            "what does it wait for there?",
            "held_0": "A stage holds more than it must. How many forward passes does it take until "
            "the first gradient comes back?",
        },
    ),
    fallback="course_utils.reference.pipeline_schedules.one_forward_one_backward",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
