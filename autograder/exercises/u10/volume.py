"""Check of what a rank sends in a step, against the calls of a training step on virtual ranks."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


ROUND = "(num_ranks - 1) * (num_params // num_ranks) * bytes_per_element"
THREE, TWO, PLAIN = (
    "return 3 * num_micro_batches * one_round",
    "return (num_micro_batches + 1) * one_round",
    "return 2 * one_round",
)
EDITS = (
    Edit(
        "In stage 3 you count one gather and one scatter for a micro-batch. Weights are forgotten "
        "after forward: what does backward multiply with?",
        {THREE: THREE.replace("3", "2")},
    ),
    Edit(
        "In stage 3 you count one micro-batch. What does the next one find in memory, whole or in "
        "parts?",
        {THREE: "return 3 * one_round"},
    ),
    Edit(
        "In stage 3 you gather weights once more at the end of the step. Who needs them before "
        "the next forward?",
        {THREE: "return (3 * num_micro_batches + 1) * one_round"},
    ),
    Edit(
        "In stage 3 your gradients are scattered once in a step. Where would the whole sum of "
        "several micro-batches be kept until then?",
        {THREE: "return (2 * num_micro_batches + 1) * one_round"},
    ),
    Edit(
        "In stage 3 your weights are gathered once in a step. Where would they stay between "
        "micro-batches?",
        {THREE: "return (num_micro_batches + 2) * one_round"},
    ),
    Edit(
        "In stage 2 you count one micro-batch. Where would a rank keep a whole gradient until the "
        "last one?",
        {TWO: "return 2 * one_round"},
    ),
    Edit(
        "In stage 2 you gather weights in every micro-batch. When do they change?",
        {TWO: "return 2 * num_micro_batches * one_round"},
    ),
    Edit(
        "In stage 2 nobody is told the new weights. How do the other ranks learn them?",
        {TWO: "return num_micro_batches * one_round"},
    ),
    Edit(
        "In stage 2 you sum each micro-batch over all ranks for all ranks. Which half of an "
        "all-reduce brings a rank what it keeps?",
        {TWO: "return (2 * num_micro_batches + 1) * one_round"},
    ),
    Edit(
        "In stages 0 and 1 you exchange in every micro-batch. What do they add up first?",
        {PLAIN: "return 2 * num_micro_batches * one_round"},
    ),
    Edit(
        "In stages 0 and 1 you count every micro-batch. When do they send?",
        {PLAIN: "return (num_micro_batches + 1 if stage else 2 * num_micro_batches) * one_round"},
    ),
    Edit(
        "In stage 1 you send half as much again as needed. Of the summed gradient, how much does "
        "a rank use?",
        {PLAIN: "return (3 if stage == 1 else 2) * one_round"},
    ),
    Edit(
        "In stages 0 and 1 you count one round. How many does an all-reduce have?",
        {PLAIN: "return one_round"},
    ),
    Edit(
        "A rank sends nothing to itself. Which part of the whole does it have already?",
        {ROUND: "num_params * bytes_per_element"},
    ),
    Edit(
        "These are the bytes of all ranks together. How many does the exercise ask for?",
        {ROUND: "num_ranks * (num_ranks - 1) * (num_params // num_ranks) * bytes_per_element"},
    ),
    Edit(
        "A rank sends one part in your ring. How many turns does a round have?",
        {ROUND: "(num_params // num_ranks) * bytes_per_element"},
    ),
    Edit(
        "Elements are counted where bytes travel. How many bytes has each?",
        {ROUND: "(num_ranks - 1) * (num_params // num_ranks)"},
    ),
)

CHECK = Check(
    cases=volume_cases,
    judge=EqualTo(measured, *edited("u10-volume", EDITS)),
    fallback="course_utils.formulas.sharding.step_sent_bytes",
)
