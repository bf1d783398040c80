"""Check of the lists of interleaved 1F1B, followed by the simulator of pipelines."""

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

NAMES = ("num_stages", "num_micro_batches", "num_chunks")


def interleaved_cases(seed: int) -> list[Case]:
    """One group of micro-batches and several; one chunk, one stage."""
    rng = random.Random(seed)
    groups, chunks, stages = rng.randint(2, 5), rng.randint(2, 4), rng.randint(2, 6)
    sizes = [(2, 2, 2), (4, 4 * groups, 2), (stages, stages, chunks), (3, 3 * groups, 1)]
    sizes += [(1, rng.randint(2, 20), chunks), (stages, stages * groups, 4), (stages, stages, 3)]
    for _ in range(14):
        num_stages = rng.randint(2, 5)
        sizes.append((num_stages, num_stages * rng.randint(1, 5), rng.randint(2, 4)))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured(num_stages: int, num_micro_batches: int, num_chunks: int) -> dict[str, int]:
    """The fewest seconds, with messages and without; what each stage holds, as Megatron does.

    No micro-batch can be faster than all messages on its way down and up. Ahead of a first B come,
    on the last stage, the first group in all chunks but the last one; on each stage above two more.
    """
    passes = num_micro_batches * num_chunks
    seconds = fewest_seconds(num_stages, passes)
    messages = 2 * (num_stages * num_chunks - 1) if num_stages > 1 else 0
    on_last = (num_chunks - 1) * num_stages + 1
    held = [min(passes, on_last + 2 * above) for above in reversed(range(num_stages))]
    return right_numbers(num_stages, seconds, held, tenths=10 * seconds + messages)


# Places of the model answer.
WAY, ROUNDS = "2 * (num_stages - 1 - stage)", "(num_chunks - 1) * num_stages"
LIMIT = "        ahead = min(ahead, len(forward))\n"
PAIR = "[forward[ahead + k], backward[k]]"
FORWARD = "forward = forward_order(num_stages, num_micro_batches, num_chunks)"
BACKWARD = "backward = backward_order(num_stages, num_micro_batches, num_chunks)"
LEFT = "backward[len(forward) - ahead :]"

EDITS = (
    Edit(
        "All micro-batches go through chunk 0 before any goes through chunk 1. After p of them, "
        "what could stage 0 do at once?",
        {
            FORWARD: f"{FORWARD}\n    forward.sort(key=lambda action: action[2])",
            BACKWARD: f"{BACKWARD}\n    backward.sort(key=lambda action: -action[2])",
        },
    ),
    Edit(
        "Right while messages take no time. Between two neighbours an activation is on its way "
        "down *and* a gradient on its way up: how many passes of one stage does that take?",
        {WAY: "(num_stages - 1 - stage)"},
        shows=("tenths",),
    ),
    Edit(
        "You run as many ahead as if there were a single chunk. What must the last stage have run "
        "before its first B?",
        {f" + {ROUNDS}": ""},
    ),
    Edit(
        "You run one group too many ahead. Through which chunks must the first group go before "
        "the last stage can begin its first B?",
        {ROUNDS: "num_chunks * num_stages"},
    ),
    Edit(
        "All is right but where there is a single group. Can more F come ahead than there are?",
        {LIMIT: ""},
    ),
    Edit(
        "All F come before all B. What does a stage hold then, and when could its first B come?",
        {LIMIT: "        ahead = len(forward)\n"},
    ),
    Edit(
        "The last stages run the most F ahead. Which stage has the longest way to the loss?",
        {WAY: "2 * stage"},
    ),
    Edit(
        "After the first passes each stage wants a B before an F. Which F is missing for it?",
        {PAIR: "[backward[k], forward[ahead + k]]"},
    ),
    Edit(
        "Backward passes go through the chunks from the first to the last. Which chunk of the "
        "model is next to the loss?",
        {BACKWARD: 'backward = [("B", k, chunk) for _, k, chunk in forward]'},
    ),
    Edit(
        "Every stage runs equally many F ahead. Who is nearer to the loss?",
        {WAY: "2 * (num_stages - 1)"},
    ),
    Edit(
        "The B that are left after the last F never come. How many are there?",
        {LEFT: "[]"},
    ),
    Edit(
        "The last stage holds one pass too many, and so do all others. Does its first B need the "
        "F that comes after it?",
        {WAY: "1 + 2 * (num_stages - 1 - stage)"},
    ),
)

CHECK = Check(
    cases=interleaved_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *edited("u12-interleaved", EDITS, observe=lists.observe),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions={
            **QUESTIONS,
            "unknown": "What are the three parts of an action, and which chunks has a stage?",
            "missing": "Every stage makes F and B of every micro-batch in every chunk. Which ones "
            "are left when F and B no longer alternate?",
            "repeated": "An action stands there twice. Where do the orders go on after the first "
            "passes?",
            "waiting": "Your stages wait for each other. How many F must, and may, a stage run "
            "before the first gradient can reach it?",
            "seconds": "It takes longer than it must. Which stage has a gap in the middle, and "
            "what does it wait for there?",
            "tenths": "Right while messages take no time. How many F would a stage have to run "
            "ahead so that it need not wait for them?",
            "held_0": "Stage 0 holds more than it must. How many F does it take until the first "
            "gradient comes back?",
            "held_1": "Stage 1 holds more than it must. How many F does it take until the first "
            "gradient comes back to it?",
        },
    ),
    fallback="course_utils.reference.pipeline_schedules.interleaved",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
