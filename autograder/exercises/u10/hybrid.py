"""Check of a sum in hybrid sharding: inside of a node first, then each part between nodes."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing import replay
from autograder.observing.observation import length_of
from autograder.observing.u09.on_ranks import FLOAT64_BYTES
from autograder.observing.u10 import hybrid
from course_utils.distributed import Comm

FIELDS = ("num_nodes", "node_size", "part_length")
NODES = ((2, 2), (2, 3), (3, 2), (1, 2), (2, 1), (2, 2), (1, 1))


def hybrid_cases(seed: int) -> list[Case]:
    """Several nodes of several ranks, one node, nodes of one rank, and one rank."""
    rng = random.Random(seed)
    cases = [(2, 2, 4)]
    cases += [(*NODES[n % len(NODES)], rng.randint(2, 40)) for n in range(1, 20)]
    cases.append((2, 2, 12 * rng.randint(1, 3)))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def _in_two_steps(comm: Comm, gradient: torch.Tensor, node_size: int) -> None:
    """The calls alone: a scatter among neighbours, then a sum of parts of the same place."""
    node, across = comm.split(comm.rank // node_size), comm.split(comm.rank % node_size)
    part = torch.empty(len(gradient) // node_size, dtype=gradient.dtype)
    node.reduce_scatter(part, gradient)
    across.all_reduce(part)


def measured(**case: Any) -> dict[str, Any]:
    """Parts of the sum over all ranks; bytes and time of two calls."""
    cluster, size = hybrid.cluster_of(case), case["node_size"]
    gradients = [hybrid.gradient_of(case, rank) for rank in range(cluster.num_ranks)]
    parts = torch.stack(gradients).sum(0).chunk(size)
    run = cluster.run(lambda comm: _in_two_steps(comm, gradients[comm.rank], size))
    every = [parts[rank % size] for rank in range(cluster.num_ranks)]
    part_bytes, nodes = FLOAT64_BYTES * case["part_length"], case["num_nodes"]
    # A scatter in each node; then a part of each place is summed over nodes.
    sent = nodes * (size - 1) * size * part_bytes + size * 2 * (nodes - 1) * part_bytes
    return {
        "forged_calls": 0,
        "part_length": case["part_length"],
        "wrong_parts": 0,
        "length": length_of(every),
        "sent_bytes": sent,
        "seconds": run.step_seconds,
        "parts": every,
    }


CHECK = Check(
    cases=hybrid_cases,
    observe=hybrid.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u10-hybrid", observe=hybrid.observe),
        summarise=hybrid.summarise,
        questions=questions_of("u10-hybrid"),
        labels=replay.LABELS
        | {
            "part_length": "numbers in rank 0's part",
            "wrong_parts": "ranks with a wrong part",
            "length": "the norm of all parts",
            "sent_bytes": "bytes that all ranks send",
            "seconds": "virtual seconds",
        },
    ),
    fallback="course_utils.reference.sharding.hybrid_sum",
    answers=("course_utils.reference.sharding",),
)
