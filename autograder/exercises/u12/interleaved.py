"""Check of the lists of interleaved 1F1B, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FORBIDDEN,
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


CHECK = Check(
    cases=interleaved_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u12-interleaved", observe=lists.observe),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions=questions_of("u12-interleaved"),
    ),
    fallback="course_utils.reference.pipeline_schedules.interleaved",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
