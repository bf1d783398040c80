"""Check of a step's seconds, against a simulated pipeline and a link that takes layer by layer."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import one_forward_one_backward

NAMES = ("num_micro_batches", "num_stages", "num_layers", "forward_seconds", "reduce_seconds")


def step_cases(seed: int) -> list[Case]:
    """Sums that hide and that do not; one layer, one stage, one micro-batch, nothing to sum."""
    rng = random.Random(seed)
    few, several = rng.randint(2, 6), rng.randint(4, 12)
    sizes = [(8, 4, 4, 6, 4), (8, 4, 4, 6, 40 + few), (several, 1, 1, 5, 8)]
    sizes += [(1, 1, several, 4, 3), (several, 1, 8, few, 0)]
    sizes += [(1, 3, several, 2, 9), (several, 2, 1, 7, few)]
    for number in range(15):
        layers, forward = rng.randint(2, 12), rng.randint(2, 30)
        reduce = rng.randint(1, forward) if number % 2 else rng.randint(4 * forward, 9 * forward)
        sizes.append((rng.randint(2, 12), rng.randint(1, 5), layers, forward, reduce))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def simulated(
    num_micro_batches: int,
    num_stages: int,
    num_layers: int,
    forward_seconds: int,
    reduce_seconds: int,
) -> dict[str, float]:
    """1F1B through the simulator; then the last backward pass of the first stage by layers."""
    backward = 2 * forward_seconds
    schedule = one_forward_one_backward(num_stages, num_micro_batches)
    seconds = PassSeconds(forward=forward_seconds, input_gradient=backward, weight_gradient=0)
    run = simulate_pipeline(schedule, num_micro_batches, seconds=seconds).require_complete()
    now = summed = Fraction(0)
    for _ in range(num_layers):
        now += Fraction(backward, num_layers)
        summed = max(now, summed) + Fraction(reduce_seconds, num_layers)
    bubble = run.idle_seconds(0)
    return {
        "work": float(run.seconds - bubble),
        "bubble": float(bubble),
        "exposed": float(summed - now),
    }


WORK, BUBBLE = "num_micro_batches * both", "(num_stages - 1) * both"
FRACTION = "Your bubble is a fraction of something. Which time do you multiply it by?"
OF_WORK, OF_ALL = (
    "(num_stages - 1) / num_micro_batches",
    ("(num_stages - 1) / (num_micro_batches + num_stages - 1)"),
)
FRACTIONS = (
    *(f"{share}{times}" for share in (OF_WORK, OF_ALL) for times in ("", " * both", " * 100")),
    f"{OF_ALL} * num_micro_batches * both",
    f"{OF_WORK} * (num_micro_batches + num_stages - 1) * both",
)
EXPOSED = "max(reduce_seconds / num_layers, reduce_seconds - hidden)"
HIDDEN = "backward * (num_layers - 1) / num_layers"
EDITS = (
    Edit(
        "Nothing is hidden with you. What does the device compute while the last layers' "
        "gradients travel?",
        {EXPOSED: "reduce_seconds"},
        points=2.0,
    ),
    Edit(
        "The layer that comes last in backward: behind what should its gradients hide?",
        {EXPOSED: "max(0, reduce_seconds - hidden)"},
        points=2.0,
    ),
    Edit(
        "You hide the sum behind the whole backward pass. When has the first layer gradients to "
        "send?",
        {EXPOSED: "max(0, reduce_seconds - backward)"},
        points=2.0,
    ),
    Edit(
        "All of backward hides it with you. How much of it is over when the first gradients leave?",
        {HIDDEN: "backward"},
        points=2.0,
    ),
    Edit(
        "You hide gradients behind all micro-batches. In which of them is the sum complete?",
        {HIDDEN: "num_micro_batches * backward * (num_layers - 1) / num_layers"},
        points=2.0,
    ),
    Edit(
        "The gradients travel after every micro-batch with you. When do they have to?",
        {EXPOSED: "num_micro_batches * max(reduce_seconds / num_layers, reduce_seconds - hidden)"},
        points=2.0,
    ),
    Edit(
        "Gradients come from backward. Is there anything to send while the forward pass runs?",
        {HIDDEN: "both * (num_layers - 1) / num_layers"},
        points=2.0,
    ),
    Edit(
        "The bubble is one pass too long: how many stages lie before the last one?",
        {BUBBLE: "num_stages * both"},
        points=2.0,
    ),
    *(Edit(FRACTION, {BUBBLE: each}, points=2.0) for each in FRACTIONS),
    Edit(
        "Your bubble is that of all micro-batches. How many of them does the last stage wait for?",
        {BUBBLE: "(num_stages - 1) * num_micro_batches * both"},
        points=2.0,
    ),
    Edit(
        "A stage's seconds are those of its own layers already. What do you divide them by?",
        {WORK: "num_micro_batches * both / num_stages"},
        points=2.0,
    ),
    Edit(
        "Backward is as long as forward with you. How many products does it make of one?",
        {"2 * forward_seconds": "forward_seconds"},
    ),
)

CHECK = Check(
    cases=step_cases,
    judge=EqualTo(
        simulated,
        *edited("u14-exposed", EDITS),
        relative_tolerance=PROMISED,
        labels={
            "work": "seconds of work",
            "bubble": "seconds of the bubble",
            "exposed": "seconds of the sum that are not hidden",
        },
        questions={
            "work": "How many micro-batches does a stage run, and how long is each, forward and "
            "backward?",
            "bubble": "How long does the first micro-batch go down, and the last gradient up?",
            "exposed": "Draw two layers: backward of the second, of the first, and below them "
            "the two sums. When does the last one end?",
        },
    ),
    fallback="course_utils.formulas.plan.seconds_of_step",
)
