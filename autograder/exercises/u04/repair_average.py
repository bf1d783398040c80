"""Check of a training loop that keeps an average, but no hidden states of old batches."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u04.shared.held_by_loops import (
    FLOAT64_BYTES,
    ROUNDING,
    Batches,
    Held,
    batches_in,
    head_of,
    held,
    is_near,
    layers_of,
    nothing_held,
    sample_cases,
)

DECAY = 0.9
LEARNING_RATE = 0.1


def train_with_average(
    body: nn.Module, head: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches
) -> float:
    """The course's own training loop: the average is a number."""
    average = 0.0
    for ids, targets in batches:
        hidden = body(ids)
        with torch.no_grad():
            average = DECAY * average + (1 - DECAY) * float(hidden.std())
        F.cross_entropy(head(hidden).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return average


def _modules(case: Case) -> tuple[nn.Module, nn.Module]:
    """Body and head of the model of a case, untrained."""
    width = case["width"]
    return nn.Sequential(*layers_of(width, case["num_layers"])), head_of(width)


class Trained(NamedTuple):
    """What a training loop gives: memory held, its average, the weights."""

    held: Held
    average: Any
    weights: list[Tensor]


def _train(loop: Callable[..., Any], case: Case) -> Trained:
    body, head = _modules(case)
    weights = [*body.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, LEARNING_RATE, foreach=False)
    run = held(lambda: loop(body, head, optimizer, batches_in(case)), body, head, optimizer)
    return Trained(run, run.result, [each.detach() for each in weights])


@functools.lru_cache(maxsize=1000)
def _course_training(**sizes: Any) -> Held:
    """Memory of the course's own loop: as much as is needed."""
    return _train(train_with_average, sizes).held


@functools.lru_cache(maxsize=1000)
def _oracle_training(**sizes: Any) -> tuple[float, list[Tensor]]:
    """Average and weights from `torch.autograd.grad` and plain SGD, as an independent oracle."""
    body, head = _modules(sizes)
    weights = [*body.parameters(), *head.parameters()]
    deviations = []
    for ids, targets in batches_in(sizes):
        hidden = body(ids)
        mean = hidden.detach().mean()
        squares = (hidden.detach() - mean).square().sum()
        deviations.append(float((squares / (hidden.numel() - 1)).sqrt()))
        scores = head(hidden).log_softmax(-1).gather(-1, targets[..., None])
        gradients = torch.autograd.grad(-scores.mean(), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(LEARNING_RATE * gradient)
    newest_first = enumerate(reversed(deviations))
    average = sum((1 - DECAY) * DECAY**age * each for age, each in newest_first)
    return average, [each.detach() for each in weights]


def observe_average(answer: Any, case: Case) -> object:
    """Average, weights, and hidden states that the student's loop holds beyond the course's."""
    hidden_bytes = FLOAT64_BYTES * case["num_sequences"] * case["seq_len"] * case["width"]
    mine, needed = _train(answer, case), _course_training(**case)
    average, weights = _oracle_training(**case)
    near = zip(mine.weights, weights, strict=True)
    are_weights_near = all(torch.allclose(a, b, rtol=ROUNDING, atol=ROUNDING) for a, b in near)
    left = mine.held.left_bytes - needed.left_bytes
    at_peak = mine.held.peak_bytes - needed.peak_bytes
    start = [each for layer in _modules(case) for each in layer.parameters()]
    return {
        "untrained_weights": sum(map(torch.equal, mine.weights, start)),
        "wrong_weights": int(not are_weights_near),
        "wrong_averages": int(not is_near(mine.average, average)),
        "hidden_states_left": max(0, left) // hidden_bytes,
        "hidden_states_at_peak": max(0, at_peak) // hidden_bytes,
    }


def average_cases(seed: int) -> list[Case]:
    """The shared cases with a single layer, as every traced operation takes time."""
    return [case | {"num_layers": 1} for case in sample_cases(seed)]


CHECK = Check(
    cases=average_cases,
    reference=train_with_average,
    observe_runs_reference=True,
    observe=observe_average,
    judge=EqualTo(
        nothing_held(
            "untrained_weights",
            "wrong_weights",
            "wrong_averages",
            "hidden_states_left",
            "hidden_states_at_peak",
        ),
        Mistake(
            "The body is not trained any more: its weights are as they were. Which path does the "
            "loss take back to them, and where do you cut it?",
            lambda num_batches, num_sequences, seq_len, width, num_layers: {
                "untrained_weights": 1 + num_layers
            },
        ),
        Mistake(
            "No weight is trained any more, the head's neither. Which line changes them, and where "
            "is it?",
            lambda num_batches, num_sequences, seq_len, width, num_layers: {
                "untrained_weights": 2 + num_layers
            },
        ),
        Mistake(
            "The weights are not those that the loop gave before. Which gradients are in a weight "
            "when the optimizer reads it, and are they gone before the next batch?",
            lambda *case: {"wrong_weights": 1},
        ),
        Mistake(
            "The average is not the one that the loop gave before. Which numbers enter it, when, "
            "and with which factors?",
            lambda *case: {"wrong_averages": 1},
        ),
        Mistake(
            "The hidden states of all batches are still there when the loop is over. Backward "
            "frees what it walks through: does it ever walk from the average back to them?",
            lambda num_batches, *sizes: {"hidden_states_left": num_batches},
        ),
        Mistake(
            "One hidden state outlives the loop. Of which batch is it, and what does your "
            "result still carry besides its number?",
            lambda *case: {"hidden_states_left": 1},
        ),
        Mistake(
            "Your result is light, but until then the hidden states of all batches but the last "
            "are too many. In which line of the loop does the average have to let go?",
            lambda num_batches, *sizes: {"hidden_states_at_peak": num_batches - 1},
        ),
        Mistake(
            "At the peak there is one hidden state more than needed. Which copy of it, or of "
            "which batch, do you hold while backward runs?",
            lambda *case: {"hidden_states_at_peak": 1},
        ),
        together=True,
    ),
)
