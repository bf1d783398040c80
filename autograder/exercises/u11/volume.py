"""Check of the bytes that tensor and sequence parallelism send for one layer."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u11.shared.messages import MessageComm
from course_utils.distributed import Comm, VirtualCluster
from course_utils.reference.tensor_parallel import f_and_g, gather_and_scatter, gathered_product

FIELDS = ("num_tokens", "hidden_size", "num_ranks", "element_bytes")
TYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


def volume_cases(seed: int) -> list[Case]:
    """Ranks up to four, and eight; elements of several sizes; a layer beyond 2⁵³ bytes last."""
    rng = random.Random(seed)
    cases = [(4, 3, 4, 2)]
    for number in range(17):
        t = (1, 2, 3, 4, 2)[number % 5]
        sizes = (t * rng.randint(1, 9), rng.randint(2, 40), t, (2, 4, 8)[number % 3])
        cases.append(sizes)
    cases += [(8 * rng.randint(2**11, 2**13), 2**14, 8, 4)]
    cases.append((3 * (2**30 + rng.randint(0, 999)), 2**24, 3, 2))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(
    num_tokens: int, hidden_size: int, num_ranks: int, element_bytes: int
) -> dict[str, int]:
    """Bytes of all messages of rank 0, where collectives are rings of messages."""

    def both_blocks(comm: Comm, way: str) -> None:
        ring = MessageComm(comm)
        tokens = num_tokens // (1 if way == "tensor" else comm.size)
        make: dict[str, Any] = {
            "device": "meta",
            "dtype": TYPES[element_bytes],
            "requires_grad": True,
        }
        x, weight = torch.empty(tokens, hidden_size, **make), torch.empty(1, hidden_size, **make)
        for _ in range(2):  # attention, then the MLP
            x = _block(ring, way, x, weight)
        x.backward(torch.empty_like(x))

    return {
        way: sum(
            each.num_bytes for each in VirtualCluster(num_ranks).run(both_blocks, way).sent_by(0)
        )
        for way in ("tensor", "sequence", "shards_kept")
    }


def _block(comm: Comm, way: str, x: Tensor, weight: Tensor) -> Tensor:
    """What enters a block, a stand-in for its work, and what leaves it."""
    f, g = f_and_g(comm)
    gather, scatter = gather_and_scatter(comm)
    if way == "tensor":
        return g((f(x) @ weight.T).expand(x.shape))
    first = gathered_product(comm, x, weight) if way == "shards_kept" else gather(x) @ weight.T
    return scatter(first.expand(comm.size * len(x), x.shape[1]))


CHECK = Check(
    cases=volume_cases,
    judge=EqualTo(
        measured,
        *mistakes_of("u11-volume"),
        questions=questions_of("u11-volume"),
    ),
    fallback="course_utils.formulas.communication.tensor_parallel_bytes",
)
