"""The check of unit 04 on a training loop with three leaks."""

import random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case
from autograder.exercises.declaring import declares_check
from autograder.observers.u04 import repair_training
from autograder.observers.u04.repair_training import SCENARIOS
from autograder.observers.u04.training_loop import LEARNING_RATE, Setup, hold, precision_of

# === for several exercises
# How the loop with three leaks is called: each leak by itself, in varied surroundings.


PLAIN = {
    "is_training": True,
    "is_first_batch_small": False,
    "has_gradients": False,
    "is_head_frozen": False,
    "is_recording": True,
    "precision": "float64",
}


def training_cases(seed: int) -> list[Case]:
    """Each leak by itself, with one sequence in a batch and with several.

    Evaluations come with and without training before them, and with more bytes of logits than of
    one batch's graph; what is around them varies: before one training there are gradients already.
    States come in both precisions.
    """
    rng = random.Random(seed)
    cases = [_evaluation(rng, number) for number in range(12)]
    for number in range(5):
        sizes = _sizes(rng, number, num_batches=rng.randint(4, 5), seq_len=8)
        average = {"scenario": "confidence", "width": rng.randint(2, 3)}
        average["num_words"] = rng.randint(60, 68)
        precision = "float32" if number == 3 else "float64"
        samples = {"scenario": "states", "width": rng.choice((40, 44)), "num_words": 3}
        around = PLAIN | {"is_training": number != 1, "is_head_frozen": number == 2}
        cases.append(average | sizes | {"num_layers": 1, "num_held_out": 1} | around)
        around |= {"precision": precision}
        sizes |= {"num_batches": 4, "seq_len": rng.randint(10, 12)}
        cases.append(samples | sizes | {"num_layers": 1, "num_held_out": 1} | around)
    return cases


def _evaluation(rng: random.Random, number: int) -> Case:
    num_batches = 2 if number in (3, 7) else 0
    sizes = _sizes(rng, number, num_batches=num_batches, seq_len=rng.choice((5, 6)))
    return {
        "scenario": "loss",
        "width": rng.choice((20, 28)),
        "num_words": 5,
        **sizes,
        "num_layers": 2,
        "num_held_out": 20 if number > 9 else rng.choice((5, 6)),
        "is_training": number % 2 == 0,
        "is_first_batch_small": number in (1, 5, 7),
        "has_gradients": number % 3 == 1,
        "is_head_frozen": number % 4 == 2,
        "is_recording": number not in (5, 8),
        "precision": "float64",
    }


def _sizes(rng: random.Random, number: int, *, num_batches: int, seq_len: int) -> Case:
    num_sequences = rng.randint(2, 3) if number % 2 else 1
    return {"num_batches": num_batches, "num_sequences": num_sequences, "seq_len": seq_len}


# === u04-repair-training
# A training loop with an evaluation, an average and samples, of which none may leak.


def _shares(setup: Setup, ids: Tensor) -> Tensor:
    exponents: Tensor = setup.model(ids).exp()
    return exponents / exponents.sum(-1, keepdim=True)


@torch.no_grad()
def _mean_loss(setup: Setup) -> Tensor:
    losses = [-_shares(setup, x).gather(-1, y[..., None]).log().mean() for x, y in setup.held_out]
    return torch.stack(losses).mean()


def _unit_bytes(case: Case, setup: Setup) -> int:
    """One batch's probabilities, its hidden states but the last, or all that its graph keeps."""
    number_bytes = precision_of(case).itemsize
    num_tokens: int = case["num_sequences"] * case["seq_len"]
    if case["scenario"] == "confidence":
        num_shares: int = num_tokens * case["num_words"]
        return number_bytes * num_shares
    if case["scenario"] == "states":
        num_others: int = (num_tokens - case["num_sequences"]) * case["width"]
        return number_bytes * num_others
    ids = torch.zeros(1, num_tokens, dtype=torch.long)
    with torch.enable_grad():
        held = hold(lambda: F.cross_entropy(setup.model(ids)[0], ids[0]), setup.model)
    return held.left_bytes - number_bytes  # of the loss itself


@declares_check(
    "u04-repair-training",
    training_cases,
    observer=repair_training,
    scenarios=SCENARIOS,
)
def measured_repair_training(**case: Any) -> dict[str, Any]:
    """What is right by `torch.autograd.grad` and plain sums, and the unit of what may be held."""
    setup, confidence, states, later = Setup.of(case), 0.0, [], []
    trained = [weight for weight in setup.model.parameters() if weight.requires_grad]
    for ids, targets in setup.batches:
        with torch.no_grad():
            shares = _shares(setup, ids)
            confidence = 0.9 * confidence + 0.1 * float(shares.max(-1).values.mean())
            states.append(setup.body(ids[:, -1]))
        losses = -_shares(setup, ids).gather(-1, targets[..., None]).log()
        gradients = torch.autograd.grad(losses.mean(), trained)
        with torch.no_grad():
            for weight, gradient in zip(trained, gradients, strict=True):
                before = 0 if weight.grad is None else weight.grad
                weight.sub_(LEARNING_RATE * (before + gradient))
                weight.grad = None
            later.append(setup.body(ids[:, -1]))
    right = {
        "weights": [w.detach() for w in setup.model.parameters()] if setup.batches else [],
        "loss": _mean_loss(setup),
        "confidence": torch.tensor(confidence, dtype=precision_of(case)),
        "states": states if case["scenario"] == "states" else [],
        "later_states": later if case["scenario"] == "states" else [],
        "unit_bytes": _unit_bytes(case, setup),
    }
    return {"right": right}  # apart: a fact and one of these have the same name
