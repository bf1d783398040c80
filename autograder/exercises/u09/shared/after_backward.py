"""Gradients summed after the backward pass, in one call for each parameter or in one for all."""

import functools
import random
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.judges import Mistake
from autograder.exercises.u09.shared.on_ranks import FLOAT64_BYTES, ROUNDING, most_calls, on_ranks

SCENARIOS = ("all used", "unused on a rank", "frozen", "gradients before")
NUM_CASES = 20

# What is counted, in the words of a verdict's sentence.
EMPTY = "gradients that are None afterwards"
CALLS, BYTES = "calls to the other ranks", "bytes in these calls"
LENGTH = "the length of the gradient"
FROZEN = "frozen parameters with a gradient"
WRONG = "ranks without the gradient of the whole batch"


def cases_of(scenarios: tuple[str, ...], seed: int) -> list[Case]:
    """Each scenario on one to four ranks; for memory, layers that are large beside their inputs."""
    rng = random.Random(seed)
    cases = [_case("all used", 2, 3, 2)]
    for scenario in scenarios:
        first = 2 if scenario == "unused on a rank" else 1  # alone, no other rank has a gradient
        for num_ranks in (first, 2, 4, 2, 3)[: NUM_CASES // len(scenarios)]:
            width = rng.randint(16, 24) if scenario == "memory" else rng.randint(2, 6)
            cases.append(_case(scenario, num_ranks, width, 1 + (num_ranks == 2)))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(("scenario", "num_ranks", "width", "num_layers"), values, strict=True))


class _Net(nn.Module):
    """Layers of different shapes in a row, and one in parallel that a rank may leave out."""

    def __init__(self, scenario: str, width: int, num_layers: int) -> None:
        super().__init__()
        torch.default_generator.manual_seed(width)
        widths = range(width, width + num_layers + 1)
        layers = [nn.Linear(w, w + 1, dtype=torch.float64) for w in widths[:-1]]
        self.layers = nn.ModuleList(layers)
        self.parallel = nn.Linear(widths[0], widths[-1], dtype=torch.float64)
        layers[0].requires_grad_(scenario != "frozen")

    def forward(self, x: Tensor, is_parallel_used: bool) -> Tensor:
        out = x
        for layer in self.layers:
            out = layer(out)
        return out + self.parallel(x) if is_parallel_used else out


def _net(case: Case) -> _Net:
    return _Net(case["scenario"], case["width"], case["num_layers"])


def _shares(model: nn.Module, case: Case, rank: int) -> list[Tensor]:
    """Losses of a rank, different on each; all but the last were accumulated before the call."""
    width, num_ranks = case["width"], case["num_ranks"]
    generator = torch.Generator().manual_seed(100 * width + rank)
    is_used = case["scenario"] != "unused on a rank" or rank % 2 == 1
    num_losses = 2 if case["scenario"] == "gradients before" else 1
    shape = (num_losses, rank + 1, width)
    inputs = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [model(x, is_used).square().sum() / num_ranks for x in inputs]


def prepared(case: Case, rank: int) -> tuple[nn.Module, Tensor]:
    """A model with the gradients accumulated before, and the loss that comes next."""
    model = _net(case)
    *before, loss = _shares(model, case, rank)
    for each in before:
        each.backward()
    return model, loss


def observe_gradients(answer: Any, case: Case) -> dict[str, float]:
    """Gradients of all ranks, and what was communicated for them."""
    ranks = [prepared(case, rank) for rank in range(case["num_ranks"])]
    run = on_ranks(case["num_ranks"], lambda comm: answer(comm, *ranks[comm.rank]))
    gradients = [_gradient(model) for model, _ in ranks]
    whole = whole_gradient(*case.values())
    frozen = (each for each in ranks[0][0].parameters() if not each.requires_grad)
    trained = [p for model, _ in ranks for p in model.parameters() if p.requires_grad]
    near = (torch.allclose(each, whole, rtol=ROUNDING, atol=ROUNDING) for each in gradients)
    return {
        EMPTY: sum(each.grad is None for each in trained),
        CALLS: most_calls(run),
        BYTES: sum(each.num_bytes for each in run.communications()),
        LENGTH: float(gradients[0].norm()),
        FROZEN: sum(each.grad is not None for each in frozen),
        WRONG: sum(not each for each in near),
    }


def wanted_of_each(**case: Any) -> dict[str, float]:
    """The gradient of the whole batch, and a call for each parameter."""
    sizes = sizes_of(**case)
    return {
        EMPTY: 0,
        CALLS: len(sizes),
        BYTES: FLOAT64_BYTES * sum(sizes),
        LENGTH: float(whole_gradient(*case.values()).norm()),
        FROZEN: 0,
        WRONG: 0,
    }


def sizes_of(scenario: str, num_ranks: int, width: int, num_layers: int) -> list[int]:
    """Elements of each trainable parameter."""
    parameters = _Net(scenario, width, num_layers).parameters()
    return [each.numel() for each in parameters if each.requires_grad]


def _gradient(model: nn.Module) -> Tensor:
    """All gradients as one vector, with zeros for None."""
    parts = [
        each.new_zeros(each.shape) if each.grad is None else each.grad
        for each in model.parameters()
    ]
    return torch.cat([each.detach().flatten() for each in parts])


@functools.lru_cache(maxsize=512)
def whole_gradient(*values: Any) -> Tensor:
    """The gradient of the whole batch, computed on one rank."""
    case = _case(*values)
    model = _net(case)
    for rank in range(case["num_ranks"]):
        for loss in _shares(model, case, rank):
            loss.backward()
    return _gradient(model)


@functools.lru_cache(maxsize=512)
def last_gradient(*values: Any) -> Tensor:
    """The gradient of the whole batch without what was accumulated before."""
    case = _case(*values)
    model = _net(case)
    for rank in range(case["num_ranks"]):
        _shares(model, case, rank)[-1].backward()
    return _gradient(model)


def gradient_before(*values: Any, on_all: bool = False) -> Tensor:
    """The gradient accumulated before the call, of rank 0 alone or of all ranks."""
    case = _case(*values)
    model = _net(case)
    for rank in range(case["num_ranks"] if on_all else 1):
        for loss in _shares(model, case, rank)[:-1]:
            loss.backward()
    return _gradient(model)


@functools.lru_cache(maxsize=512)
def own_gradient(*values: Any) -> Tensor:
    """The gradient of rank 0 alone."""
    model, loss = prepared(_case(*values), rank=0)
    loss.backward()
    return _gradient(model)


def _with_frozen(*values: Any) -> dict[str, float]:
    """What is seen where the frozen layer's weight and bias take part."""
    if values[0] != "frozen":
        return {}
    sizes = sizes_of("all used", *values[1:])
    return {CALLS: len(sizes), BYTES: FLOAT64_BYTES * sum(sizes), FROZEN: 2}


TOO_LONG = (
    "Too long by a factor, the number of ranks. Each loss is a share of the mean already, and "
    "shares add up: what is your factor for?"
)

MISTAKES = (
    Mistake(
        "Half of the bytes. Which precision has what you send, and which have the gradients?",
        lambda *values: {BYTES: FLOAT64_BYTES * sum(sizes_of(*values)) // 2},
    ),
    Mistake(
        "Nothing goes over the links. What must the ranks tell each other, and is it there when "
        "your calls are made?",
        lambda *values: {CALLS: 0},
    ),
    Mistake(
        "Frozen parameters take part: they get gradients, or zeros travel for them. Which "
        "parameters want one?",
        _with_frozen,
    ),
    Mistake(
        "What was in the gradients before is lost. Who may set them to zero?",
        lambda *values: (
            {LENGTH: float(last_gradient(*values).norm())}
            if values[0] == "gradients before"
            else {}
        ),
    ),
    Mistake(
        "Rank 0 ends with the gradient of its own share: what comes over the links does not reach "
        "it. Into which tensors does your call write, and what are they to the parameters?",
        lambda *values: {LENGTH: float(own_gradient(*values).norm())},
    ),
    Mistake(
        "Backward never runs, and grad holds what was there before. Who fills it?",
        lambda *values: {LENGTH: float(gradient_before(*values, on_all=True).norm())},
    ),
    Mistake(TOO_LONG, lambda *values: {LENGTH: float(whole_gradient(*values).norm()) * values[1]}),
    Mistake(
        TOO_LONG,
        lambda *values: {
            LENGTH: float(
                (gradient_before(*values, on_all=True) + values[1] * last_gradient(*values)).norm()
            )
        },
    ),
    Mistake(
        "Too short by a factor, the number of ranks. Each loss is a share of the mean "
        "already: what does your division divide?",
        lambda *values: {LENGTH: float(whole_gradient(*values).norm()) / values[1]},
    ),
)
