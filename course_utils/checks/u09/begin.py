"""Check of ranks that begin with equal weights and go on with different random numbers."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.check import Case, Check
from course_utils.checks.counted import tells_errors, undisturbed
from course_utils.checks.judges import Behaviour, Mistake
from course_utils.checks.u09.on_ranks import run_on
from course_utils.checks.u09.steps import Job
from course_utils.instruments import Comm
from course_utils.reference.bucketing import start_equal

FIELDS = ("widths", "num_ranks", "seed")

Numbers = dict[str, Any]


def begin_cases(seed: int) -> list[Case]:
    """Some layers with a buffer, two to four ranks."""
    rng = random.Random(seed)
    cases = [_case([2, 3, 4], 2, 7)]
    for num_ranks in (2, 3, 2, 4):
        for num_layers in (1, 2, 1, 3, 2):
            widths = [rng.randint(2, 5) for _ in range(num_layers + 1)]
            cases.append(_case(widths, num_ranks, rng.randint(1, 10**6)))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def _model(widths: list[int], rank: int) -> nn.Module:
    """Layers with biases and a buffer, different on each rank."""
    generator = torch.Generator().manual_seed(rank)
    model = nn.Sequential(*(nn.Linear(*pair, dtype=torch.float64) for pair in pairwise(widths)))
    model.register_buffer("scale", torch.zeros(2, dtype=torch.float64))
    with torch.no_grad():
        for each in (*model.parameters(), *model.buffers()):
            each.copy_(torch.randn(each.shape, generator=generator, dtype=torch.float64))
    return model


@tells_errors
def probe(answer: Any, case: Case) -> object:
    """Weights and random numbers after the student's start, and what it sent."""

    models = [_model(case["widths"], rank) for rank in range(case["num_ranks"])]

    def step(comm: Comm) -> tuple[list[Tensor], list[Tensor], float, bool]:
        model = models[comm.rank]
        answer(comm, model, case["seed"])
        parameters = [each.detach().clone() for each in model.parameters()]
        buffers = [each.clone() for each in model.buffers()]
        wants = all(each.requires_grad for each in model.parameters())
        return parameters, buffers, torch.rand(()).item(), wants

    with undisturbed():
        run = run_on(Job(widths=(), num_ranks=case["num_ranks"]).cluster(), step)
    first = _model(case["widths"], 0)
    numbers = [number for _, _, number, _ in run.results]
    return {
        "other_weights": sum(_num_other(ours, first.parameters()) for ours, *_ in run.results),
        "other_buffers": sum(_num_other(ours, first.buffers()) for _, ours, *_ in run.results),
        "weights_without_gradient": sum(not wants for *_, wants in run.results),
        "bytes_sent": sum(event.num_bytes for event in run.communications()),
        "ranks_with_random_numbers_of_another": len(numbers) - len(set(numbers)),
        "other_random_numbers": sum(
            number != _random(case["seed"] + rank) for rank, number in enumerate(numbers)
        ),
    }


def _num_other(ours: list[Tensor], theirs: Any) -> int:
    return sum(not torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _random(seed: int) -> float:
    return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()


def _num_tensors(case: Case) -> int:
    return 2 * len(case["widths"]) - 2


def _bytes(case: Case) -> tuple[int, int]:
    """Of weights, and of buffers."""
    model = _model(case["widths"], 0)
    weights, buffers = list(model.parameters()), list(model.buffers())
    return sum(each.nbytes for each in weights), sum(each.nbytes for each in buffers)


def wanted(**case: Any) -> Numbers:
    """Rank 0's weights everywhere, sent once, and a seed of its own for each rank."""
    return {
        "other_weights": 0,
        "other_buffers": 0,
        "weights_without_gradient": 0,
        "bytes_sent": sum(_bytes(case)),
        "ranks_with_random_numbers_of_another": 0,
        "other_random_numbers": 0,
    }


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    return lambda *values: formula(_case(*values))


START_EQUAL = Check(
    cases=begin_cases,
    reference=start_equal,
    probe=probe,
    judge=Behaviour(
        wanted,
        Mistake(
            "Every rank still has the weights that it began with. Which call gives those of one "
            "rank to all?",
            _of_case(lambda case: {"other_weights": (case["num_ranks"] - 1) * _num_tensors(case)}),
        ),
        Mistake(
            "Ranks agree, and not on the weights of rank 0: even rank 0 has others now. What does "
            "an all-reduce make of weights?",
            _of_case(lambda case: {"other_weights": case["num_ranks"] * _num_tensors(case)}),
        ),
        Mistake(
            "Weights are equal, buffers are not. What of a model's state is no parameter?",
            _of_case(lambda case: {"other_weights": 0, "other_buffers": case["num_ranks"] - 1}),
        ),
        Mistake(
            "The weights want no gradient any more. What did you change so that they could be "
            "sent?",
            _of_case(lambda case: {"weights_without_gradient": case["num_ranks"]}),
        ),
        Mistake(
            "Something is sent more than once. Which tensors do two of your loops share?",
            _of_case(lambda case: {"bytes_sent": 2 * sum(_bytes(case))}),
        ),
        Mistake(
            "All ranks draw the same random numbers, and drop the same units. What could their "
            "seeds differ by?",
            _of_case(lambda case: {"ranks_with_random_numbers_of_another": case["num_ranks"] - 1}),
        ),
        Mistake(
            "Random numbers differ from rank to rank, and are not those of the card's seeds. "
            "Which seed belongs to rank 1, and is anything drawn after it is set?",
            _of_case(lambda case: {"other_random_numbers": case["num_ranks"]}),
        ),
    ),
)
