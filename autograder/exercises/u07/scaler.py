"""Check of a loss scaler: step by step beside PyTorch's own."""

import random
from collections.abc import Sequence

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u07.shared.torch_scaler import measured
from autograder.observing.u07 import scaler

SCENARIOS = ("growth", "overflow", "one after the other", "one without gradient")
NAMES = ("scenario", "scale", "growth_factor", "backoff_factor", "growth_interval", "steps")
# From a small scale to less than one; gradients are so large that fp16 rounds them all alike.
LOW = ["large", "inf", "inf", "inf", "large"]


def scaler_cases(seed: int) -> list[Case]:
    """Growth after 1 to 4 steps; each kind of overflow in the first step, later and in a row."""
    rng = random.Random(seed)
    good = ["good"]
    by_hand = {"scale": 2.0**10, "growth_factor": 2.0, "backoff_factor": 0.5}
    cases = [_case(rng, "growth", good * 5, interval=2) | by_hand]
    cases += [_case(rng, "growth", good * rng.randint(5, 8), interval=n) for n in (1, 2, 3)]
    cases.append(
        _case(rng, "growth", ["huge", *good * rng.randint(5, 12)], interval=4) | {"scale": 1.0}
    )
    for steps in (
        ["inf", *good * 3],
        ["nan", "opposite", *good * 2],
        [*good, "inf in the first", *good * 2],
        [*good, "nan in the second", *good * 2],
        ["inf in the second", "nan in the first", "all", *good],
    ):
        cases.append(_case(rng, "overflow", steps, interval=rng.randint(7, 9)))
    cases.append(_case(rng, "overflow", LOW, interval=rng.randint(7, 9)) | {"scale": 4.0})
    for steps in (
        [*good * 2, "inf", *good * 3],
        [*good * 2, "nan", *good * 3, "inf", *good * 4],
        [*good, "inf", *good * 2, "inf", *good * 3],
        [*good * 4, "inf in the first", *good * 6],
    ):
        cases.append(_case(rng, "one after the other", steps, interval=3))
    cases.append(_case(rng, "one after the other", ["large"] * 8, interval=2) | {"scale": 2.0**22})
    cases.append(_case(rng, "one after the other", [*good, "nan"] * 3, interval=1))
    for steps, interval in (
        (["good", "nothing", "good", "good"], 2),
        (["inf", *good * 3], 2),
        ([*good * 2, "nan", *good * 3], 3),
    ):
        cases.append(_case(rng, "one without gradient", steps, interval=interval))
    lasts = {case["scenario"]: case for case in cases}
    for case in lasts.values():  # in each scenario some factors that are not those by hand
        case |= {"growth_factor": 4.0, "backoff_factor": 0.25}
    return cases


def _case(rng: random.Random, scenario: str, steps: Sequence[str], *, interval: int) -> Case:
    growth_factor, backoff_factor = rng.choice((2.0, 4.0)), rng.choice((0.5, 0.25))
    sizes = (scenario, 2.0 ** rng.randint(12, 15), growth_factor, backoff_factor, interval)
    return dict(zip(NAMES, (*sizes, list(steps)), strict=True))


CHECK = Check(
    cases=scaler_cases,
    observe=scaler.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u07-scaler", observe=scaler.observe),
        Symptom(
            "All is right but what your `step` returns. Does it say whether it stepped?",
            lambda *case: {"wrong_returns": len(case[-1])},  # in every step
        ),
        scenarios=SCENARIOS,
        summarise=scaler.summarise,
        questions=questions_of("u07-scaler"),
        labels=scaler.LABELS,
    ),
    fallback="course_utils.reference.loss_scaling.LossScaler",
    answers=("course_utils.reference.loss_scaling", "torch.amp.grad_scaler.GradScaler"),
    forbidden_modules=("torch.amp", "torch.cuda.amp"),
)
