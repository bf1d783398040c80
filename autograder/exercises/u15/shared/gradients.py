"""What several checks say of gradients that ranks share, and what is right of them."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from autograder.observing.observation import length_of
from autograder.observing.replay import LABELS as REPLAY_LABELS

LABELS = REPLAY_LABELS | {
    "calls": "calls to the other ranks",
    "bytes": "bytes in these calls",
    "missing": "gradients that are None afterwards",
    "length": "the length of rank 0's gradient",
    "length_on_last": "the length of the last rank's gradient",
    "wrong_ranks": "ranks without the gradient of the whole batch",
}

# What sums gradients, and so answers these exercises.
TRAINERS = (
    "course_utils.reference.gradient_sync",
    "course_utils.reference.bucketing",
    "torch.nn.parallel.DistributedDataParallel",
)


def on_every_rank(
    gradients: Sequence[Tensor | None], call_bytes: Sequence[int], **others: Any
) -> dict[str, Any]:
    """What is right where every rank ends with the same gradients.

    Args:
        gradients: Those of the whole batch on one rank.
        call_bytes: Bytes of each call that a rank makes.
        others: What else is right; or another number under one of these names.
    """
    length = length_of(gradients)
    return {
        "forged_calls": 0,
        "missing": 0,
        "calls": len(call_bytes),
        "bytes": sum(call_bytes),
        "length": length,
        "length_on_last": length,
        "wrong_ranks": 0,
        **others,
        "gradients": gradients,
    }
