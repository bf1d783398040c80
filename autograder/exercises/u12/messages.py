"""Check of the bytes between stages: the messages that real ranks send are counted."""

import random

import torch
from torch import nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
BORDERS, TURN = "num_stages * num_chunks - 1", "is_v or num_stages == 1"
FEWER, BOTH_WAYS = "between_parts -= num_chunks - 1", "2 * num_micro_batches"

EDITS = (
    Edit("Only activations travel with you. What comes back?", {BOTH_WAYS: "num_micro_batches"}),
    Edit(
        "How many borders are there between two parts?",
        {BORDERS: "num_stages * num_chunks"},
    ),
    Edit("Who crosses a border: a micro-batch, or the whole batch?", {BOTH_WAYS: "2"}),
    Edit(
        "In a V two parts that follow one another can lie on one stage. Where does it turn?",
        {TURN: "num_stages == 1"},
    ),
    Edit(
        "All is right but with a single stage. Between whom do its parts send anything?",
        {TURN: "is_v"},
    ),
    Edit(
        "Right for one chunk. How often does a micro-batch go around?",
        {BORDERS: "num_stages - 1", FEWER: "between_parts -= 0"},
    ),
    Edit(
        "How many turns has a V of v chunks?",
        {FEWER: "between_parts -= num_chunks"},
    ),
    Edit(
        "From the last stage of a chunk to the first of the next nothing is sent with you. On "
        "which stages do these two parts lie?",
        {BORDERS: "num_chunks * (num_stages - 1)", FEWER: "between_parts -= 0"},
    ),
)

CHECK = Check(
    cases=message_cases,
    judge=EqualTo(sent, *edited("u12-messages", EDITS)),
    fallback="course_utils.formulas.pipeline.boundary_bytes",
)
