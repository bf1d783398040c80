"""Check of an SGD step on fp32 master weights: what it changes, frees and leaves alone."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u07 import master

SCENARIOS = ("few weights", "many weights", "one without gradient")
NUM_WEIGHTS = dict(zip(SCENARIOS, ((2, 3), (6, 8), (3, 3)), strict=True))
RATES = (0.003, 0.007, 0.011, 0.013)
NAMES = ("scenario", "num_weights", "num_numbers", "num_steps", "learning_rate")

FP32_BYTES = 4
# fp32 tensors alive at once: a gradient and its product with the rate, for two weights in a row.
MOST_AT_ONCE = 4


def master_cases(seed: int) -> list[Case]:
    """Each scenario with one step and more, and weights of several sizes."""
    rng = random.Random(seed)
    sizes: list[tuple[str, int, int, int, float]] = [("few weights", 1, 1, 4, 0.01)]
    for num_steps in (1, 2, 3, 4, 5, 3, 2):
        for scenario in SCENARIOS:
            num_weights = rng.randint(*NUM_WEIGHTS[scenario])
            numbers = rng.randint(20, 40)
            sizes.append((scenario, num_weights, numbers, num_steps, rng.choice(RATES)))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured(**case: Any) -> dict[str, Any]:
    """Masters that have gone all steps in float64; no tensor has any flaw."""
    trial = master.trial_of(case)
    way = case["learning_rate"] * trial.factors.double().sum(0)
    if trial.idle is not None:
        way[trial.idle] = 0
    return {
        "way": 1.0,
        "wrong_masters": 0,
        "gradients_left": 0,
        "in_fp32": 0,
        "moved": 0,
        "frozen": 0,
        "wrong_weights": 0,
        "weights_elsewhere": 0,
        "idle_changed": 0,
        "too_much": 0,
        "masters": trial.start.double() - way,
        "most_working_bytes": [MOST_AT_ONCE * FP32_BYTES * case["num_numbers"]],
    }


CHECK = Check(
    cases=master_cases,
    observe=master.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u07-master", observe=master.observe),
        Symptom(
            "All is right, except that several gradients are in fp32 at once. When is each of "
            "them no longer needed?",
            lambda *case: {"too_much": 1},
        ),
        scenarios=SCENARIOS,
        summarise=master.summarise,
        questions=questions_of("u07-master"),
        labels={
            "gradients_left": "gradients not freed",
            "in_fp32": "weights in fp32",
            "moved": "tensors in new memory",
            "frozen": "weights that no longer require a gradient",
            "way": "the masters' move, as a multiple of the right one",
            "wrong_masters": "wrong masters",
            "wrong_weights": "weights that are not their masters rounded",
            "weights_elsewhere": "weights that change otherwise",
            "idle_changed": "weights changed without a gradient",
            "too_much": "Too many gradients are in fp32 at once.",
        },
    ),
    fallback="course_utils.reference.mixed_precision.step_on_masters",
    answers=("course_utils.reference.mixed_precision.step_on_masters",),
)
