"""Check of a sharded optimizer step: equal to one optimizer for all, in the time of one call."""

import random
from typing import Any

import torch
from torch import nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing import replay
from autograder.observing.observation import length_of
from autograder.observing.u09.on_ranks import cluster_of
from autograder.observing.u10 import owners
from autograder.observing.u10.owners import NUM_STEPS

FIELDS = ("scenario", "num_ranks", "part_length", "rank_without_grad")

SCENARIOS = ("sgd", "adam")


def owners_cases(seed: int) -> list[Case]:
    """Both optimizers on one rank to four; parts of one number and of several, one without grad."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = []
    for scenario in SCENARIOS:
        for number, usual in enumerate((2, 1, 3, 4, 2, 2, 3, 1, 2, 2)):
            is_single = number % 5 == 4
            num_ranks = rng.randint(2, 8) if is_single else usual
            length = 1 if is_single else rng.randint(2, 12)
            without_grad = rng.randrange(num_ranks) if len(cases) % 3 == 2 else None
            cases.append((scenario, num_ranks, length, without_grad))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """One optimizer for all weights in one process; the time of an all-reduce of them."""
    weights = nn.Parameter(owners.weights_of(case))
    optimizer, after = owners.optimizer_of(case, weights), []
    for step in range(NUM_STEPS):
        now = weights.detach()
        shares = [owners.gradient_of(now, rank, step) for rank in range(case["num_ranks"])]
        weights.grad = torch.stack(shares).sum(0)
        optimizer.step()
        after.append(weights.detach().clone())
    alone = cluster_of(case["num_ranks"]).run(lambda comm: comm.all_reduce(after[0].clone()))
    return {
        "forged_calls": 0,
        "updates": NUM_STEPS,
        "wrong_steps": 0,
        "wrong_ranks": 0,
        "wrong_parts": 0,
        "length": length_of(after[-1:]),
        "calls": 2 * NUM_STEPS,
        "sent_bytes": 2 * NUM_STEPS * (after[0].nbytes - 8 * case["part_length"]),
        "seconds": NUM_STEPS * alone.step_seconds,
        "after": after,
        "parts": list(after[-1].chunk(case["num_ranks"])),
    }


CHECK = Check(
    cases=owners_cases,
    observe=owners.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u10-owners", observe=owners.observe),
        summarise=owners.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u10-owners"),
        labels=replay.LABELS
        | {
            "updates": "updates of the optimizer in two steps",
            "wrong_steps": "steps that leave rank 0 with wrong weights",
            "wrong_ranks": "ranks with wrong weights",
            "wrong_parts": "ranks whose part is wrong",
            "length": "the norm of the weights in the end",
            "calls": "calls in two steps",
            "sent_bytes": "bytes that rank 0 sends",
            "seconds": "virtual seconds of two steps",
        },
    ),
    fallback="course_utils.reference.sharding.sharded_step",
    answers=("course_utils.reference.sharding",),
)
