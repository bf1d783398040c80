"""Check of micro-batches on each rank: one exchange for all, one at a time in memory."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u09.shared.backward_steps import BUCKETERS, LABELS, whole_gradients
from autograder.observing.observation import length_of
from autograder.observing.u09 import no_sync
from autograder.observing.u09.backward_steps import job_of, state_of

FIELDS = ("widths", "num_ranks", "num_micro_batches", "trainer")


def together_cases(seed: int) -> list[Case]:
    """One micro-batch and up to three, two ranks and three; each trainer with one and several."""
    rng, trainers = random.Random(seed), list(no_sync.TRAINERS)
    cases = [_case([2, 3, 4, 2], 2, 3, trainers[0])]
    for number, num_ranks in enumerate((2, 2, 3, 2)):
        for count in (1, 2, 3, 2, 3):
            widths = [rng.randint(2, 4) for _ in range(3)]
            cases.append(_case(widths, num_ranks, count, trainers[1 - number % 2]))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of all micro-batches of all ranks, and each parameter exchanged once."""
    gradients = whole_gradients(job_of(case), case["num_micro_batches"])
    return {
        "forged_calls": 0,
        "at_once": 1,
        "forward_passes": case["num_micro_batches"],
        "out_of_order": 0,
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "trainer_calls": 1,
        "in_trainer": 1,
        "backward_passes": case["num_micro_batches"],
        "collectives": len(case["widths"]) - 1,  # one for each matrix
        "changes_list": 0,
        "changes_model": 0,
        "gradients": gradients,
        "list": list(range(case["num_micro_batches"])),
        "state": state_of(job_of(case).model()),
    }


NO_FORWARD = "No micro-batch is called. What do the functions in the list give when they are?"

CHECK = Check(
    cases=together_cases,
    observe=no_sync.observe,
    judge=Behaviour(
        measured,
        Symptom(NO_FORWARD, lambda *values: {"forward_passes": 0}),
        *mistakes_of("u09-no-sync", observe=no_sync.observe),
        labels=LABELS
        | {
            "at_once": "micro-batches in memory at once",
            "forward_passes": "forward passes",
            "backward_passes": "backward passes through micro-batches",
            "out_of_order": "micro-batches that run after one which follows them in the list",
            "trainer_calls": "calls of the trainer",
            "changes_list": "The list of micro-batches is not as it was before.",
            "in_trainer": "micro-batches that run backward in the trainer",
        },
        summarise=no_sync.summarise,
    ),
    fallback="course_utils.reference.bucketing.accumulate_together",
    answers=BUCKETERS,
)
