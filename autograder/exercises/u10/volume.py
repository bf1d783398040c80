"""Check of what a rank sends in a step, against the calls of a training step on virtual ranks."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.distributed import Comm, VirtualCluster

FIELDS = ("num_params", "num_ranks", "stage", "num_micro_batches", "bytes_per_element")
DTYPES = {2: torch.bfloat16, 4: torch.float32}


def volume_cases(seed: int) -> list[Case]:
    """Every stage with one micro-batch and several, on few ranks and on one."""
    rng = random.Random(seed)
    cases = [(8, 4, 2, 3, 2), *((4 * rng.randint(2, 50), 4, stage, 3, 2) for stage in (0, 1, 3))]
    for stage in range(4):
        for num_micro_batches in (1, rng.randint(2, 3), rng.randint(4, 6), rng.randint(7, 9)):
            ranks = rng.randint(2, 7)
            params = ranks * rng.randint(10**6, 10**9)
            cases.append((params, ranks, stage, num_micro_batches, rng.choice((2, 4))))
        cases.append((rng.randint(10, 99), 1, stage, rng.randint(1, 5), 2))
    cases += [
        (7 * (2**52 + 2 * rng.randint(1, 99) + 1), 7, s, rng.randint(2, 4), 2) for s in (1, 3)
    ]
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def step(comm: Comm, stage: int, num_micro_batches: int, weights: torch.Tensor) -> None:
    """One training step without numbers: only what its calls send."""
    gradient = torch.empty_like(weights)
    part = weights.chunk(comm.size)[comm.rank].clone()
    for _ in range(num_micro_batches):
        for _ in ("forward", "backward"):
            if stage == 3:
                comm.all_gather(weights, part)
        if stage >= 2:
            comm.reduce_scatter(torch.empty_like(part), gradient)
    if stage == 0:
        comm.all_reduce(gradient)
    if stage == 1:
        comm.reduce_scatter(torch.empty_like(part), gradient)
    if stage in (1, 2):
        comm.all_gather(weights, part)


def measured(
    num_params: int, num_ranks: int, stage: int, num_micro_batches: int, bytes_per_element: int
) -> int:
    """Bytes that rank 0 sends in its calls."""
    weights = torch.empty(num_params, dtype=DTYPES[bytes_per_element], device="meta")
    return VirtualCluster(num_ranks).run(step, stage, num_micro_batches, weights).sent_bytes()


CHECK = Check(
    cases=volume_cases,
    judge=EqualTo(measured, *mistakes_of("u10-volume")),
    fallback="course_utils.formulas.sharding.step_sent_bytes",
)
