"""Check of lists with backward passes in halves, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FEW,
    FORBIDDEN,
    MANY,
    QUESTIONS,
    cases_of,
    right_numbers,
)
from autograder.observing.u12 import lists
from course_utils.instruments import simulate_pipeline
from course_utils.reference.pipeline_schedules import greedy_halves


def zero_cases(seed: int) -> list[Case]:
    """As many micro-batches as stages, more, fewer; one stage, one micro-batch."""
    return cases_of((1, 2), random.Random(seed))


def measured(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """The later of two bounds, and p micro-batches in flight.

    The last stage begins after the way down, and has F, I and W of each micro-batch to do. Or: it
    does all F and I at once, then the last gradient comes all the way up, and stage 0 does its W.
    """
    down = up = num_stages - 1
    last_stage = down + 3 * num_micro_batches
    last_gradient = down + 2 * num_micro_batches + up + 1
    held = [min(num_stages, num_micro_batches)] * num_stages
    return right_numbers(num_stages, max(last_stage, last_gradient), held)


# Places of the model answer.
PUT_OFF, AHEAD = "put_off = stage", "min(num_stages - 1 - stage, num_micro_batches)"
I_ACTION, W_ACTION = 'actions.append(("I", k, 0))', 'actions.append(("W", k - put_off, 0))'
LEFT, FIRST_LEFT = "for k in left", "max(0, num_micro_batches - put_off)"
F_ACTION = """            if k + ahead < num_micro_batches:
                actions.append(("F", k + ahead, 0))
"""
WHOLE = {
    I_ACTION: 'actions.append(("B", k, 0))',
    W_ACTION: "pass",
    LEFT: "for k in ()",
}

ALL_AT_ONCE = (
    "Every micro-batch is in flight at once: all F come first, or all W last. What does a stage "
    "hold until W, and where were its gaps?"
)
EDITS = (
    Edit(
        "Half of the gain is there. What does the last stage still do before its last I, and what "
        "does stage 0 do while it waits for its own last ones?",
        {PUT_OFF: "put_off = 0"},
    ),
    Edit(
        ALL_AT_ONCE,
        {PUT_OFF: "put_off = num_micro_batches"},
    ),
    Edit(
        "Your first stages put off the most. Which stages are done early in 1F1B, and have gaps at "
        "the end?",
        {PUT_OFF: "put_off = num_stages - 1 - stage"},
    ),
    Edit(
        "Every stage puts off as many W as the last one needs to. How many micro-batches does the "
        "first one then hold?",
        {PUT_OFF: "put_off = num_stages - 1"},
    ),
    Edit(
        "Every stage holds one micro-batch too many. How many F came ahead, and how many W may "
        "wait beside them?",
        {PUT_OFF: "put_off = stage + 1"},
    ),
    Edit(
        "The W that you put off never come. When are they done?",
        {LEFT: "for k in ()"},
    ),
    Edit(
        "Your backward passes are whole: that is 1F1B. Which of its halves does the stage before "
        "wait for?",
        WHOLE,
    ),
    Edit(
        "All is right but for few micro-batches. How many W can be put off if there are fewer of "
        "them than that?",
        {FIRST_LEFT: "num_micro_batches - put_off"},
        points=1.5,
    ),
    Edit(
        ALL_AT_ONCE,
        {AHEAD: "num_micro_batches"},
    ),
    Edit(
        "After its first F each of your stages wants I before F, and all wait. What must have "
        "happened on the last stage before your first I?",
        {F_ACTION: "", I_ACTION: f"{I_ACTION}\n{F_ACTION.rstrip()}"},
    ),
    Edit(
        "W comes before I of the same micro-batch in your lists. Which of the two makes what the "
        "other one needs?",
        {I_ACTION: "pass", W_ACTION: f"{W_ACTION}\n            {I_ACTION}"},
        shows=("waiting",),
    ),
    Edit(
        "Every stage runs equally many F ahead. When does the last stage begin its first I, and "
        "who waits for it?",
        {AHEAD: "min(num_stages - 1, num_micro_batches)"},
    ),
)


def greedy(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """I, or else F while there is room, or else W."""
    schedule = greedy_halves(num_stages, num_micro_batches, most_in_flight=num_stages)
    return {"seconds": int(simulate_pipeline(schedule, num_micro_batches).seconds)}


GREEDY = Symptom(
    "Every stage takes what is best at the moment: I, or else F, or else W. Which room does an F "
    "take that comes earlier than anybody needs it, and which W must then come early too?",
    greedy,
)

CHECK = Check(
    cases=zero_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *edited("u12-zero", EDITS, observe=lists.observe),
        GREEDY,
        scenarios=(MANY, FEW),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions={
            **QUESTIONS,
            "unknown": "How many can a stage run ahead if there are fewer of them than stages, and "
            "what are the three parts of an action?",
            "missing": "Every stage makes F, I and W of every micro-batch. Which ones are left at "
            "the end?",
            "repeated": "An action stands there twice, or as B beside I or W. How often is each "
            "half done?",
            "seconds": "It takes longer than it must. Which stage has a gap after its first I, and "
            "which W of its own could lie there?",
            "held_0": "Stage 0 holds too many micro-batches. How many F come ahead of its first W?",
            "held_1": "A stage holds too many micro-batches. How many F come ahead of its first W?",
        },
    ),
    fallback="course_utils.reference.pipeline_schedules.zero_bubble",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
