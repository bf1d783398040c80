"""Check of the bytes between stages: the messages that real ranks send are counted."""

import random

import torch
from torch import nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.configs import Action, Placement
from course_utils.distributed import Comm, VirtualCluster
from course_utils.reference.pipeline_stage import run_stage

NAMES = ("num_stages", "num_chunks", "num_micro_batches", "tensor_bytes", "is_v")


def message_cases(seed: int) -> list[Case]:
    """Looped and V; one stage, one chunk; bytes beyond 2⁵³."""
    rng = random.Random(seed)
    few, many = rng.randint(3, 99), 2**53 + 2 * rng.randint(0, 99) + 1
    sizes = [
        (2, 2, 3, 10, False),
        (2, 2, 3, few, True),
        (1, 3, 2, few, False),
        (1, 2, 2, few, True),
    ]
    sizes += [(3, 1, 2, few, False), (3, 1, 2, few, True), (3, 2, 1, many, False)]
    sizes += [(2, 3, 2, many, True)]
    for number in range(12):
        shape = rng.randint(2, 4), rng.randint(2, 3), rng.randint(1, 3)
        sizes.append((*shape, rng.randint(3, 99), bool(number % 2)))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def sent(
    num_stages: int, num_chunks: int, num_micro_batches: int, tensor_bytes: int, is_v: bool
) -> int:
    """Messages of all ranks that run a step, each counted with the given bytes."""
    placement = Placement(num_stages, num_chunks, is_v)
    micro_batches = [torch.zeros(1, 1) for _ in range(num_micro_batches)]
    forward: list[Action] = [
        ("F", k, chunk) for chunk in range(num_chunks) for k in range(num_micro_batches)
    ]
    backward: list[Action] = [("B", k, num_chunks - 1 - chunk) for _, k, chunk in forward]
    schedule = [forward + backward] * num_stages

    def step(comm: Comm) -> None:
        modules = [nn.Linear(1, 1) for _ in range(num_chunks)]
        run_stage(
            comm, schedule, placement, modules=modules, micro_batches=micro_batches, loss=torch.sum
        )

    run = VirtualCluster(num_stages).run(step)
    return tensor_bytes * sum(len(run.sent_by(rank)) for rank in range(num_stages))


CHECK = Check(
    cases=message_cases,
    judge=EqualTo(sent, *mistakes_of("u12-messages")),
    fallback="course_utils.formulas.pipeline.boundary_bytes",
)
