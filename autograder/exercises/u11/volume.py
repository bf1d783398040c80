"""Check of the bytes that tensor and sequence parallelism send for one layer."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


PART = "tensor_bytes * (num_ranks - 1) // num_ranks"
FOUR, TEN = "8 * part", "10 * part"
HALF = (
    "Half is missing. An all-reduce has two halves, a layer two blocks, and there are two passes: "
    "which of these twos did you leave out?"
)
EDITS = (
    Edit(HALF, {FOUR: "4 * part", TEN: "5 * part"}),
    Edit(HALF, {FOUR: "4 * part", TEN: "6 * part"}),
    Edit(HALF, {'"tensor": four_calls': '"tensor": four_calls // 2'}, points=1.0),
    Edit(
        "Each call counts as if a rank sent the whole tensor. What of it is on the rank already, "
        "and need not travel?",
        {PART: "tensor_bytes"},
    ),
    Edit(
        "Right for two ranks only: each all-reduce counts as u. What does a rank send in both of "
        "its halves on a longer ring?",
        {FOUR: "4 * tensor_bytes", TEN: "5 * tensor_bytes"},
    ),
    Edit(
        "A ring of t ranks is taken for t messages of the whole. How large is one part?",
        {PART: "tensor_bytes * (num_ranks - 1)"},
    ),
    Edit(
        '"shards_kept" has one gather too few. How many blocks has a layer, and which of them '
        "gathers again?",
        {TEN: "9 * part"},
        points=1.0,
    ),
    Edit(
        '"shards_kept" gathers again after every call. Which of the two calls of a block brings '
        "tokens that backward needs?",
        {TEN: "12 * part"},
        points=1.0,
    ),
)

CHECK = Check(
    cases=volume_cases,
    judge=EqualTo(
        measured,
        *edited("u11-volume", EDITS),
        questions={
            "tensor": "Which calls does a layer make in both passes, how many are there, and what "
            "does a rank send in one of them?",
            "sequence": "Into which two calls has each all-reduce been cut?",
            "shards_kept": "Which call comes once more, and in which blocks?",
        },
    ),
    fallback="course_utils.formulas.communication.tensor_parallel_bytes",
)
