"""Check of prefetching: gradients, exposed time, whole weights and gradients alive at once."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing import replay
from autograder.observing.observation import length_of
from autograder.observing.u09.on_ranks import FLOAT64_BYTES, NETWORK
from autograder.observing.u10 import prefetch

SCENARIOS = ("numbers", "time", "memory")
MOST_RANKS_AT = 12  # number of the case
FIELDS = ("scenario", "num_ranks", "num_layers", "width", "slack")


def prefetch_cases(seed: int) -> list[Case]:
    """Each scenario with one layer to four, on one rank to four; compute always hides calls."""
    rng = random.Random(seed)
    cases = []
    for number in range(21):
        ranks = (2, 3, 2, 2, 2, 2, 2)[number // 3]
        ranks = 4 if number == MOST_RANKS_AT else ranks
        layers = (3, 1, 4, 2, 2, 3, 2)[number // 3]
        scenario = SCENARIOS[number % 3]
        if scenario == "memory":
            layers = max(layers, 3)
        if number in (18, 9):
            ranks = 1
        width = 12 * rng.randint(1, 2)
        cases.append((scenario, ranks, layers, width, 1.05 + rng.randint(0, 40) / 40))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Autograd's gradients of the whole layers; time of one gather and one scatter."""
    layers = range(case["num_layers"])
    wholes = [prefetch.weight_of(case, layer).requires_grad_() for layer in layers]
    total = torch.zeros((), dtype=torch.float64)
    for rank in range(case["num_ranks"]):
        rows = prefetch.input_of(case, rank)
        for whole in wholes:
            rows = rows @ whole.T
        total = total + rows.sum()
    summed = torch.autograd.grad(total, wholes)
    parts = [each.flatten().chunk(case["num_ranks"]) for each in summed]
    num_bytes, ranks = FLOAT64_BYTES * case["width"] ** 2, range(case["num_ranks"])
    ends = [NETWORK.seconds(kind, num_bytes, ranks) for kind in ("all_gather", "reduce_scatter")]
    return {
        "forged_calls": 0,
        "wrong_gradients": 0,
        "length": length_of(part for each in parts for part in each),
        "gathers": 2 * case["num_layers"],
        "scatters": case["num_layers"],
        "other_calls": 0,
        "exposed_seconds": sum(ends),
        "weights_alive": 2,
        "gradients_alive": 2,
        "gradients": [[part[rank] for part in parts] for rank in ranks],
    }


CHECK = Check(
    cases=prefetch_cases,
    observe=prefetch.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u10-prefetch", observe=prefetch.observe),
        summarise=prefetch.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u10-prefetch"),
        labels=replay.LABELS
        | {
            "wrong_gradients": "wrong gradients of all ranks together",
            "length": "the norm of all gradients",
            "gathers": "gathers",
            "scatters": "scatters",
            "other_calls": "other calls",
            "exposed_seconds": "virtual seconds of the step beyond compute",
            "weights_alive": "whole weights alive at once",
            "gradients_alive": "whole gradients alive at once",
        },
    ),
    fallback="course_utils.reference.sharding.prefetched_step",
    answers=("course_utils.reference.sharding",),
)
