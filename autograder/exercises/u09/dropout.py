"""Check of ranks that begin with equal weights and continue with different random numbers."""

import random
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check, case_key
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from autograder.exercises.u09.shared.backward_steps import Job
from course_utils.distributed import Comm
from course_utils.reference.bucketing import start_equal

FIELDS = ("widths", "num_ranks", "seed", "kind")
KINDS = ("flat", "nested", "shared", "flat", "shared")

WEIGHTS = "weights that are not rank 0's, on all ranks"
BUFFERS = "buffers that are not rank 0's, on all ranks"
FROZEN = "ranks whose weights want no gradient any more"
MESSAGES = "messages from one rank to another"
BYTES = "bytes that are sent"
SAME_NUMBERS = "ranks with the random numbers of another"
OTHER_NUMBERS = "ranks with other random numbers than those of seed + rank"

Numbers = dict[str, Any]


def begin_cases(seed: int) -> list[Case]:
    """Layers with a buffer: in a row, nested, or sharing a weight; on two to four ranks."""
    rng = random.Random(seed)
    cases = [_case([2, 3, 4], 2, 7, "flat")]
    for most_ranks in (2, 3, 2, 4):
        for kind, num_ranks in zip(KINDS, (2, 2, most_ranks, 2, 2), strict=True):
            width = rng.randint(2, 4)
            widths = [width] * 3 if kind == "shared" else [width, rng.randint(2, 4), width]
            cases.append(_case(widths, num_ranks, rng.randint(1, 10**6), kind))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def _model(case: Case, rank: int) -> nn.Module:
    """Layers with biases and a buffer, different on each rank."""
    generator = torch.Generator().manual_seed(rank)
    layers = [nn.Linear(*pair, dtype=torch.float64) for pair in pairwise(case["widths"])]
    if case["kind"] == "shared":
        layers[1].weight = layers[0].weight
    inner = nn.Sequential(*layers[1:])
    is_nested = case["kind"] == "nested"
    model = nn.Sequential(layers[0], inner) if is_nested else nn.Sequential(*layers)
    model.register_buffer("scale", torch.zeros(2, dtype=torch.float64))
    with torch.no_grad():
        for each in (*model.parameters(), *model.buffers()):
            each.copy_(torch.randn(each.shape, generator=generator, dtype=torch.float64))
    return model


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Weights and random numbers after the student's start, and what it sent."""
    models = [_model(case, rank) for rank in range(case["num_ranks"])]

    def step(comm: Comm) -> tuple[list[Tensor], list[Tensor], float, bool]:
        model = models[comm.rank]
        answer(comm, model, case["seed"])
        parameters = [each.detach().clone() for each in model.parameters()]
        buffers = [each.clone() for each in model.buffers()]
        is_trainable = all(each.requires_grad for each in model.parameters())
        return parameters, buffers, torch.rand(()).item(), is_trainable

    with undisturbed():
        run = Job(widths=(), num_ranks=case["num_ranks"]).run(step)
    first = _model_of_rank_0(*case_key(case))
    numbers = [number for _, _, number, _ in run.results]
    return {
        WEIGHTS: sum(_num_other(ours, first.parameters()) for ours, *_ in run.results),
        BUFFERS: sum(_num_other(ours, first.buffers()) for _, ours, *_ in run.results),
        FROZEN: sum(not is_trainable for *_, is_trainable in run.results),
        MESSAGES: sum("message" in event.name for event in run.communications()),
        BYTES: sum(event.num_bytes for event in run.communications()),
        SAME_NUMBERS: len(numbers) - len(set(numbers)),
        OTHER_NUMBERS: sum(
            number != _first_number(case["seed"] + rank) for rank, number in enumerate(numbers)
        ),
    }


def _num_other(ours: list[Tensor], theirs: Any) -> int:
    return sum(not torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _first_number(seed: int) -> float:
    return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()


@lru_cache(maxsize=1024)
def _model_of_rank_0(*key: Any) -> nn.Module:
    """The model of rank 0; callers must not change it."""
    return _model(_case(*key), 0)


def _num_weights(case: Case) -> int:
    return len(list(_model_of_rank_0(*case_key(case)).parameters()))


def _bytes(case: Case, *, times: int = 1) -> int:
    """Bytes of the weights, some number of times, and of the buffers."""
    model = _model_of_rank_0(*case_key(case))
    weights, buffers = list(model.parameters()), list(model.buffers())
    return times * sum(each.nbytes for each in weights) + sum(each.nbytes for each in buffers)


def _bytes_by_module(case: Case, *, recurse: bool) -> int:
    """Bytes of each module's tensors: only its own, or with those of its submodules."""
    return sum(
        each.nbytes
        for module in _model_of_rank_0(*case_key(case)).modules()
        for each in (*module.parameters(recurse), *module.buffers(recurse))
    )


def wanted(**case: Any) -> Numbers:
    """Rank 0's weights everywhere, sent once, and another seed for each rank."""
    return {
        WEIGHTS: 0,
        BUFFERS: 0,
        FROZEN: 0,
        MESSAGES: 0,
        BYTES: _bytes(case),
        SAME_NUMBERS: 0,
        OTHER_NUMBERS: 0,
    }


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    return lambda *values: formula(_case(*values))


CHECK = Check(
    cases=begin_cases,
    reference=start_equal,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "Every rank still has the weights that it began with. Which call gives those of one "
            "rank to all?",
            _of_case(lambda case: {WEIGHTS: (case["num_ranks"] - 1) * _num_weights(case)}),
        ),
        Mistake(
            "Ranks agree, and not on the weights of rank 0: even rank 0 has others now. What does "
            "an all-reduce make of weights?",
            _of_case(lambda case: {WEIGHTS: case["num_ranks"] * _num_weights(case)}),
        ),
        Mistake(
            "Weights are equal, buffers are not. What of a model's state is no parameter?",
            _of_case(lambda case: {WEIGHTS: 0, BUFFERS: case["num_ranks"] - 1}),
        ),
        Mistake(
            "The weights want no gradient any more. What did you change so that they could be "
            "sent?",
            _of_case(lambda case: {FROZEN: case["num_ranks"]}),
        ),
        Mistake(
            "Rank 0 sends every tensor to each of the others in a message of its own. Which call "
            "brings it to all of them at once?",
            _of_case(lambda case: {MESSAGES: (case["num_ranks"] - 1) * (_num_weights(case) + 1)}),
        ),
        Mistake(
            "A weight that two layers share is sent twice. Which list of a model's weights names "
            "each one once?",
            _of_case(lambda case: {BYTES: _bytes_by_module(case, recurse=False)}),
        ),
        Mistake(
            "What lies in a module inside another one is sent with both. Which modules does "
            "parameters() of the whole model look into?",
            _of_case(lambda case: {BYTES: _bytes_by_module(case, recurse=True)}),
        ),
        Mistake(
            "Weights are sent twice. Which tensors do two of your loops share?",
            _of_case(lambda case: {BYTES: _bytes(case, times=2)}),
        ),
        Mistake(
            "All ranks draw the same random numbers, and drop the same units. What could their "
            "seeds differ by?",
            _of_case(lambda case: {SAME_NUMBERS: case["num_ranks"] - 1}),
        ),
        Mistake(
            "Rank 0 draws the numbers that it should, the others do not. By how much do the seeds "
            "of two neighbours differ in the exercise's text, and by how much do yours?",
            _of_case(lambda case: {OTHER_NUMBERS: case["num_ranks"] - 1}),
        ),
        Mistake(
            "Random numbers differ from rank to rank, and are not those of the exercise's seeds. "
            "Which seed belongs to rank 1, and is anything drawn after it is set?",
            _of_case(lambda case: {OTHER_NUMBERS: case["num_ranks"]}),
        ),
    ),
)
