"""What is right of ragged batches, without PyTorch's own cross-entropy."""

import random
from collections.abc import Sequence

from torch import Tensor, nn

from course_utils.instruments import count_saved_bytes
from course_utils.reference.accumulation import IGNORED, sum_of_losses

Batches = Sequence[tuple[Tensor, Tensor]]


def ragged(rng: random.Random, count: int) -> list[int]:
    """Lengths that all differ, some of them short."""
    return rng.sample([1, 2, 3, 9, 10, 11, 12, 13], count)


def num_targets(targets: Tensor) -> int:
    """Targets that count."""
    return int((targets != IGNORED).sum())


def losses_of(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """The loss of each target that counts, without PyTorch's own cross-entropy."""
    counts = targets != IGNORED
    scores: Tensor = model(ids).log_softmax(-1)[counts]
    return -scores.gather(-1, targets[counts][:, None])[:, 0]


def kept_bytes(model: nn.Module, ids: Tensor, targets: Tensor) -> int:
    """Bytes that a micro-batch keeps for backward."""
    saved = count_saved_bytes(lambda: sum_of_losses(model, ids, targets), model)
    floats = (each for each in saved.tensors if each.dtype.is_floating_point)
    return sum(each.storage_bytes for each in floats)
