"""Check of a training loop with an evaluation, an average and samples, of which none may leak."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u04.shared.training_cases import training_cases
from autograder.observing.u04 import repair_training
from autograder.observing.u04.repair_training import (
    LEARNING_RATE,
    SCENARIOS,
    Setup,
    hold,
    precision_of,
)


def measured(**case: Any) -> dict[str, Any]:
    """Nothing wrong and nothing held; what is right by `torch.autograd.grad` and plain sums."""
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
        "confidence": confidence,
        "states": states if case["scenario"] == "states" else [],
        "later_states": later if case["scenario"] == "states" else [],
        "unit_bytes": _unit_bytes(case, setup),
    }
    return dict.fromkeys((*OF_TRAINING, *OF_SCENARIO[case["scenario"]]), 0) | {"right": right}


def _shares(setup: Setup, ids: Tensor) -> Tensor:
    exponents: Tensor = setup.model(ids).exp()
    return exponents / exponents.sum(-1, keepdim=True)


@torch.no_grad()
def _mean_loss(setup: Setup) -> float:
    losses = [-_shares(setup, x).gather(-1, y[..., None]).log().mean() for x, y in setup.held_out]
    return float(torch.stack(losses).mean())


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


OF_TRAINING = {
    "untrained_weights": "weights that the training left as they were",
    "wrong_weights": "Some of the trained weights are wrong.",
    "other_batches": "A list of batches has another length afterwards.",
}
OF_SCENARIO = {
    "loss": {
        "errors_without_recording": "It ends with an error where no gradients are recorded.",
        "wrong_means": "The mean loss is wrong.",
        "changed_mode": "The mode, training or evaluation, is another one afterwards.",
        "changed_requires_grad": "requires_grad of some weights has changed.",
        "changed_gradients": "Gradients from before have changed.",
        "changed_recording": "Grad mode is not as it was before.",
        "graphs_left": "batches' graphs still held at the end",
        "graphs_at_peak": "batches' graphs held at the evaluation's peak",
    },
    "confidence": {
        "wrong_averages": "The average is wrong.",
        "probabilities_left": "batches' probabilities still held at the end",
        "probabilities_at_peak": "batches' probabilities held at the peak",
    },
    "states": {
        "other_precision": "The precision of the states is not the model's.",
        "later_states": "The states are those of the weights after the step.",
        "wrong_states": "The states are not one tensor (b, h) for each batch.",
        "graphs": "The states hold on to their graphs.",
        "states_left": "batches' hidden states still held at the end",
        "states_at_peak": "batches' hidden states held at the peak",
    },
}


OTHER_PRECISION = (
    "Your states have the right numbers in another precision. Which precision does the model have, "
    "and is it the same in all cases?"
)

CHECK = Check(
    cases=training_cases,
    observe=repair_training.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u04-repair-training", observe=repair_training.observe),
        Symptom(
            "The mean differs from that of the given loop. Which losses are in it, and by "
            "how many do you divide?",
            lambda *case: {"wrong_means": 1},
        ),
        Symptom(
            "The average differs from that of the given loop. Which numbers enter it, when, "
            "and with which factors?",
            lambda *case: {"wrong_averages": 1},
        ),
        Symptom(OTHER_PRECISION, lambda *case: {"other_precision": 1}),
        Symptom(
            "The states are not a list with one tensor of shape (b, h) for each training batch, "
            "with its last tokens' numbers as they were. What has changed against the given loop?",
            lambda *case: {"wrong_states": 1},
        ),
        scenarios=SCENARIOS,
        summarise=repair_training.summarise,
        labels=OF_TRAINING | {k: v for each in OF_SCENARIO.values() for k, v in each.items()},
    ),
)
