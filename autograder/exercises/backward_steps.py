"""What is right of a backward pass on several ranks: gradients, moments, buckets."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from autograder.checking.error_hints import ERRORS
from autograder.observers.backward_steps import NUM_ROWS, Job, Ready

# Bytes of a number.
ELEMENT_BYTES = {"float64": 8, "float32": 4}

# What would answer the exercises about buckets.
BUCKETERS = ("course_utils.reference.bucketing", "torch.nn.parallel.DistributedDataParallel")

NO_BACKWARD = (
    "Backward never runs, so that nobody fills a gradient or calls a hook. What do you do with "
    "the loss that comes in?"
)
NONE_FILLED = dict(ERRORS)["'NoneType'"]


def local_gradients(job: Job, rank: int, num_micro_batches: int = 1) -> list[Tensor]:
    """What backward leaves in ``grad`` on one rank."""
    model = job.model()
    job.fill(model, rank)
    before = [each.grad for each in model.parameters()]
    loss = torch.stack([job.loss(model, rank, k) for k in range(num_micro_batches)]).sum()
    made = torch.autograd.grad(loss, list(model.parameters()))
    return [new if old is None else new + old for new, old in zip(made, before, strict=True)]


def whole_gradients(job: Job, num_micro_batches: int = 1) -> list[Tensor]:
    """Gradients of the whole batch: the sum over all ranks."""
    every = [local_gradients(job, rank, num_micro_batches) for rank in range(job.num_ranks)]
    return [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]


def ready_gradients(widths: Sequence[int], element_bytes: int) -> list[Ready]:
    """Gradients of matrices in a row in the order in which they are complete.

    One product for the weight and one for the input, but for that of the first matrix.
    """
    elements = [a * b for a, b in pairwise(widths)]
    clock, ready = 2.0 * NUM_ROWS * sum(elements), []
    for number, each in reversed(list(enumerate(elements))):
        clock += 2 * NUM_ROWS * each * (2 if number else 1)
        ready.append(Ready(element_bytes * each, clock))
    return ready


def grouped(sizes: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    """Sizes in groups; a group ends as soon as it has ``bucket_bytes``."""
    groups: list[list[int]] = []
    for size in sizes:
        if not groups or sum(groups[-1]) >= bucket_bytes:
            groups.append([])
        groups[-1].append(size)
    return groups
