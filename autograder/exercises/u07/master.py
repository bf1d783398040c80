"""Check of an SGD step on fp32 master weights: what it changes, frees and leaves alone."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
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


# The model answer's pieces.
SKIP, ROUND, FREE = "continue", "weight.copy_(master)", "weight.grad = None"
PRODUCT, IN_FP32 = "learning_rate * weight.grad.to(torch.float32)", ".to(torch.float32)"
STEP = f"master.sub_({PRODUCT})"
OF_WEIGHT = f"weight.sub_({PRODUCT})"
MASTERS, WEIGHTS = ("way", "wrong_masters"), ("wrong_weights", "weights_elsewhere")
ROUNDED_PRODUCT = (
    "Your masters are a little off, as if each update had only 8 bits. In which precision is the "
    "gradient when it meets the learning rate?"
)
STILL_THERE = (
    "Gradients are still there after your step, and the next backward pass adds to them. What do "
    "you set a gradient to, so that its memory is freed?"
)
NOT_FOLLOWING = (
    "Your masters are right, and the weights do not follow. Does your line write into the "
    "weight, or give its name to something new?"
)
LEFT_OUT = (
    "Weights after the one without a gradient are left out. Does your loop go on there, or end?"
)
ALL_BUT_IDLE = 2.0
EDITS = (
    Edit(LEFT_OUT, {SKIP: "return"}, points=ALL_BUT_IDLE),
    Edit(
        "A weight without a gradient has changed, or its master. Which of your lines still run "
        "for it?",
        {SKIP: f"weight.data.copy_(master)\n            {SKIP}"},
        points=ALL_BUT_IDLE,
    ),
    Edit(STILL_THERE, {FREE: "pass"}),
    Edit(STILL_THERE, {FREE: "weight.grad.zero_()"}),
    Edit(
        "After your step, the weights and their gradients are what they were. Which of your "
        "lines change a tensor, and which only give its name to something new?",
        {ROUND: "weight = master.bfloat16()"},
    ),
    Edit(
        "Your weights are in fp32 now. Which operation copies numbers into an existing tensor, "
        "and rounds them to its precision?",
        {ROUND: "pass", FREE: f"{FREE}\n        weight.data = master"},
        shows=("in_fp32",),
    ),
    Edit(
        "Your numbers are in new memory. Who else may hold the old tensors, and which operation "
        "writes into those?",
        {ROUND: "weight.data = master.bfloat16()"},
        shows=("moved",),
    ),
    *(
        Edit(
            "Your masters have not moved. Which tensor does your line change, or does it only "
            "give a name to a new one?",
            pieces,
            shows=MASTERS,
        )
        for pieces in ({STEP: f"master = master - {PRODUCT}"}, {STEP: OF_WEIGHT, ROUND: "pass"})
    ),
    *(
        Edit(
            "Your masters hold numbers with 8 bits, like bf16. Which of the two is updated, and "
            "which is made from the other?",
            {STEP: of_weight, ROUND: "master.copy_(weight)"},
            shows=MASTERS,
        )
        for of_weight in (
            OF_WEIGHT,
            f"weight.sub_({PRODUCT.removesuffix(IN_FP32)})",
            "weight.sub_(weight.grad, alpha=learning_rate)",
        )
    ),
    Edit(
        "Your masters begin every step at the rounded weights, so small updates are lost after "
        "all. What has to survive from one step to the next?",
        {STEP: f"master.copy_(weight)\n            {STEP}"},
        shows=MASTERS,
    ),
    Edit(ROUNDED_PRODUCT, {IN_FP32: ""}, shows=MASTERS),
    Edit(ROUNDED_PRODUCT, {PRODUCT: f"(learning_rate * weight.grad){IN_FP32}"}, shows=MASTERS),
    Edit(
        "Your masters move uphill. Which sign does a step of SGD have?",
        {STEP: f"master.add_({PRODUCT})"},
        shows=MASTERS,
    ),
    Edit(
        "Your masters move by the whole gradient. What shortens a step of SGD?",
        {"learning_rate * ": ""},
        shows=MASTERS,
    ),
    Edit(
        "After your step, weights no longer require a gradient, so there is no next one. Which "
        "line switches that off, where only the recording has to be?",
        {ROUND: f"weight.requires_grad_(False)\n            {ROUND}"},
        shows=("frozen",),
    ),
    Edit(NOT_FOLLOWING, {ROUND: "pass"}),
    Edit(
        "Your weights are the masters of the step before. Which of your two lines needs what the "
        "other one makes?",
        {f"{STEP}\n            {ROUND}": f"{ROUND}\n            {STEP}"},
    ),
    Edit(
        "Your masters are right. Your weights change too, but are not the rounded masters. In "
        "the exercise's third step, which tensor do their new numbers come from?",
        {ROUND: OF_WEIGHT},
        shows=WEIGHTS,
    ),
)

CHECK = Check(
    cases=master_cases,
    observe=master.observe,
    judge=Behaviour(
        measured,
        *edited("u07-master", EDITS, observe=master.observe),
        Symptom(
            "All is right, except that several gradients are in fp32 at once. When is each of "
            "them no longer needed?",
            lambda *case: {"too_much": 1},
        ),
        scenarios=SCENARIOS,
        summarise=master.summarise,
        questions={
            "wrong_masters": "The masters are not where fp32 steps lead. In which precision do "
            "gradients meet them, and which step is taken?",
            "wrong_weights": "Weights are not their masters rounded. When are they written, and "
            "from what?",
            "idle_changed": "A weight without a gradient has moved. Who changes it, and from what?",
            "frozen": "Weights no longer require a gradient. Which of your lines made new tensors "
            "of them?",
        },
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
