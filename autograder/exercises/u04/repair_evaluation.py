"""Check of a repaired evaluation: the right mean, no graph kept, no side effects."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u04.shared.held_by_loops import (
    FLOAT64_BYTES,
    Batches,
    batches_in,
    head_of,
    held,
    is_near,
    layers_of,
    loop_cases,
    nothing_held,
)

MANY_BATCHES = (
    "Of a few batches nothing piles up, of many it does. What of a batch do you keep until the end "
    "that is larger than a number?"
)


def evaluate(model: nn.Module, batches: Batches) -> float:
    """The course's own evaluation: autograd records nothing."""
    with torch.no_grad():
        losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches]
    return sum(losses) / len(losses)


def mean_loss(model: nn.Module, batches: Batches) -> float:
    """The mean loss from probabilities, as an independent oracle."""
    with torch.no_grad():
        probabilities = [model(x).softmax(-1).gather(-1, y[..., None]) for x, y in batches]
    return float(-torch.stack(probabilities).log().mean())


def evaluation_cases(seed: int) -> list[Case]:
    """The shared cases; the last two have more bytes of logits than of one batch's graph."""
    cases = loop_cases(seed)
    return [*cases[:-2], *(case | {"num_batches": 40} for case in cases[-2:])]


def observe_evaluation(answer: Any, case: Case) -> dict[str, int]:
    """Mean, side effects, and whole batches that the student's loop holds."""
    model = nn.Sequential(*layers_of(case["width"], case["num_layers"]), head_of(case["width"]))
    model.train(case["is_training"])
    batches = batches_in(case)
    one_batch = _graph_bytes(case["num_sequences"] * case["seq_len"], case["width"], len(model) - 2)
    before = [each.detach().clone() for each in model.parameters()]
    with torch.enable_grad():
        run = held(lambda: answer(model, batches), model)
        is_recording = torch.is_grad_enabled()
    return {
        "wrong_means": int(not is_near(run.result, mean_loss(model, batches))),
        "changed_model": int(
            model.training != case["is_training"] or not _is_unchanged(model, before)
        ),
        "changed_recording": int(not is_recording),
        "batches_left": run.left_bytes // one_batch,
        "batches_at_peak": run.peak_bytes // one_batch,
    }


@functools.lru_cache(maxsize=1000)
def _graph_bytes(num_tokens: int, width: int, num_modules: int) -> int:
    """What one batch keeps for backward, measured on a loss that is kept."""
    model = nn.Sequential(*layers_of(width, num_modules // 2), head_of(width))
    ids = torch.zeros(1, num_tokens, dtype=torch.long)
    run = held(lambda: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()), model)
    return run.left_bytes - FLOAT64_BYTES  # of the loss itself


def _is_unchanged(model: nn.Module, before: list[Tensor]) -> bool:
    """Whether all weights have their values, no gradient, and still require one."""
    return all(
        each.requires_grad and each.grad is None and torch.equal(each, old)
        for each, old in zip(model.parameters(), before, strict=True)
    )


def _peak_of(wrong: Callable[..., float]) -> Callable[..., dict[str, int]]:
    """What a wrong loop holds at its peak, measured for a case's sizes."""

    @functools.lru_cache(maxsize=1000)
    def peak(*sizes: Any) -> dict[str, int]:
        case = dict(zip(evaluation_cases(0)[0], sizes, strict=True))
        return {"batches_at_peak": observe_evaluation(wrong, case)["batches_at_peak"]}

    return peak


@torch.no_grad()
def _with_all_logits(model: nn.Module, batches: Batches) -> float:
    logits = [model(x).flatten(0, 1) for x, _ in batches]
    losses = [
        F.cross_entropy(each, y.flatten()) for each, (_, y) in zip(logits, batches, strict=True)
    ]
    return float(torch.stack(losses).mean())


@torch.no_grad()
def _with_one_tensor_of_logits(model: nn.Module, batches: Batches) -> float:
    logits = torch.cat([model(x).flatten(0, 1) for x, _ in batches])
    return float(F.cross_entropy(logits, torch.cat([y.flatten() for _, y in batches])))


CHECK = Check(
    cases=evaluation_cases,
    reference=evaluate,
    observe=observe_evaluation,
    judge=EqualTo(
        nothing_held(
            "wrong_means", "changed_model", "changed_recording", "batches_left", "batches_at_peak"
        ),
        Mistake(
            "The mean is not the one that the loop gave before. Which losses are in it, and by "
            "how many do you divide?",
            lambda *case: {"wrong_means": 1},
        ),
        Mistake(
            "The model does not come back as it was given: its mode, its weights' gradients or "
            "whether they want one. What would the training loop around yours find changed?",
            lambda *case: {"changed_model": 1},
        ),
        Mistake(
            "After your function nothing records graphs any more. Who switches it on again, also "
            "for the training step that comes next?",
            lambda *case: {"changed_recording": 1},
        ),
        Mistake(
            "What you return is light, but the activations of all batches lie in memory until "
            "then. When does a loss have to let go of its graph?",
            lambda num_batches, *sizes: {"batches_at_peak": num_batches},
        ),
        Mistake(
            "All batches' activations are held until the last, and even beyond, by the result. "
            "What does a loss carry besides its number?",
            lambda num_batches, *sizes: {
                "batches_left": num_batches,
                "batches_at_peak": num_batches,
            },
        ),
        *(
            Mistake(MANY_BATCHES, _peak_of(loop))
            for loop in (_with_all_logits, _with_one_tensor_of_logits)
        ),
        Mistake(
            "Two batches' activations are live at the peak: those of the last one have not gone "
            "when the next is computed. Which name still holds them, and who needs any of them?",
            lambda *case: {"batches_at_peak": 2},
        ),
        Mistake(
            "Nothing piles up, and yet one batch's activations are all live at the peak. Who "
            "will ever ask for them here?",
            lambda *case: {"batches_at_peak": 1},
        ),
        together=True,
    ),
)
