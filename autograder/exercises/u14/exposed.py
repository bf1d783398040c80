"""Check of a step's seconds, against a simulated pipeline and a link that takes layer by layer."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=step_cases,
    judge=EqualTo(
        simulated,
        *mistakes_of("u14-exposed"),
        relative_tolerance=PROMISED,
        labels={
            "work": "seconds of work",
            "bubble": "seconds of the bubble",
            "exposed": "seconds of the sum that are not hidden",
        },
        questions=questions_of("u14-exposed"),
    ),
    fallback="course_utils.formulas.plan.seconds_of_step",
)
