"""Ranks that begin together: weights, buffers and a random number of each, and what it did."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.on_ranks import cluster_of, record_on_ranks
from autograder.observers.random_numbers import uniform_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, undisturbed
from course_utils.distributed import Comm

BEYOND_FLOAT64 = 2**53 + 1


def model_of(case: Case, rank: int) -> nn.Module:
    """Layers with biases and buffers, different on each rank.

    A nested layer is frozen; a buffer beside a counter is not saved with the model.
    """
    generator = torch.Generator().manual_seed(rank)
    layers = [nn.Linear(*pair, dtype=torch.float64) for pair in pairwise(case["widths"])]
    if case["kind"] == "shared":
        layers[1].weight = layers[0].weight
    inner = nn.Sequential(*layers[1:])
    is_nested, is_counting = case["kind"] == "nested", case["kind"] == "counting"
    model = nn.Sequential(layers[0], inner) if is_nested else nn.Sequential(*layers)
    scale = torch.zeros(2, dtype=torch.float64)
    model.register_buffer("scale", scale, persistent=not is_counting)
    inner.requires_grad_(not is_nested)
    with torch.no_grad():
        for each in (*model.parameters(), *model.buffers()):
            each.copy_(uniform_numbers(each.shape, generator))
    if is_counting:  # as a layer of BatchNorm does, with more than a float64 holds
        model.register_buffer("num_batches_tracked", torch.tensor(BEYOND_FLOAT64 + 10 * rank))
    return model


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What each rank has after the student's start, and the next random number that it draws."""
    models = [model_of(case, rank) for rank in range(case["num_ranks"])]

    def step(comm: Comm) -> dict[str, Any]:
        model = models[comm.rank]
        answer(comm, model, case["seed"])
        return {
            "weights": [each.detach().clone() for each in model.parameters()],
            "buffers": [each.clone() for each in model.buffers()],
            "wants_gradient": [each.requires_grad for each in model.parameters()],
            "number": torch.rand(()).item(),
        }

    with undisturbed():
        return record_on_ranks(case["num_ranks"], step)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """State and random numbers against those that ranks should have, and what was sent."""
    ranks = observed["ranks"]
    numbers = [each["number"] for each in ranks]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    calls = run.communications()
    num_messages = sum(each.name.startswith("message") for each in calls)
    num_broadcasts = sum(each.name.startswith("broadcast") for each in calls)
    return [
        Fact(
            "wrong_weights",
            sum(_num_other(each["weights"], right["weights"]) for each in ranks),
            "weights that are not rank 0's, on all ranks",
            "Which weights go through a call, whose numbers does that call give to all ranks, and "
            "does it fill the weights themselves?",
        ),
        Fact(
            "wrong_buffers",
            sum(_num_other(each["buffers"], right["buffers"]) for each in ranks),
            "buffers that are not rank 0's, on all ranks",
            "Which buffers go through a call, and does each arrive exactly as rank 0 has it?",
        ),
        Fact(
            "otherwise_frozen",
            sum(each["wants_gradient"] != right["wants_gradient"] for each in ranks),
            "ranks where requires_grad has changed",
            "Which of your lines sets `requires_grad` or replaces a weight by another tensor, and "
            "what was the value before?",
        ),
        Fact(
            "messages",
            num_messages,
            "messages from one rank to another",
            "By which kind of call does a tensor get from rank 0 to the other ranks, and which "
            "kind does the exercise name?",
        ),
        Fact(
            "other_calls",
            int(num_messages + num_broadcasts < len(calls)),
            "There are calls to all ranks that are not a broadcast.",
            "Which of your calls is no `comm.broadcast`, and what do the ranks need it for?",
        ),
        Fact(
            "bytes",
            sum(each.num_bytes for each in calls),
            "bytes that are sent",
            "Which tensors do `model.parameters()` and `model.buffers()` name, and is each of "
            "them sent exactly once, in its own precision?",
        ),
        Fact(
            "equal_numbers",
            len(numbers) - len(set(numbers)),
            "ranks with the random numbers of another",
            "From which seed does each rank draw, and do two ranks share one?",
        ),
        Fact(
            "wrong_numbers",
            sum(a != b for a, b in zip(numbers, right["numbers"], strict=True)),
            "ranks whose random numbers are not those of seed + rank",
            "Which line is the last to set a rank's generator, to which seed, and is anything "
            "uniform_numbers between that line and the end of your function?",
        ),
        forged(forged_calls),
    ]


def _num_other(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> int:
    """How many tensors are other ones; one that is missing or too many makes all others."""
    if len(ours) != len(theirs):
        return len(theirs)
    return sum(not torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
