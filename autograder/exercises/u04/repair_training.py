"""Check of a training loop with an evaluation, an average and samples, of which none may leak."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
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

# Places of the model answer.
BODY, STEP, ZERO = (
    "states = body(inputs)",
    "optimizer.step(None)",
    "optimizer.zero_grad(set_to_none=True)",
)
BACKWARD = "loss_of(scores, wanted).backward()"
TAKE = "for inputs, wanted in batches:"
SURE = "scores.detach().softmax(-1).amax(-1).mean()"
PART = "states.detach()[:, -1].clone()"
NO_GRAD = "with torch.no_grad():"
LOSSES = "losses = [loss_of(head(body(inputs)), wanted) for inputs, wanted in held_out]"
MEAN = "sum(losses) / len(losses)"
RETURN, STATES, CONFIDENCE = "    return {", '"states": kept', '"confidence": sure'
WEIGHTS = "for weight in [*body.parameters(), *head.parameters()]:"
RECORDED, SURE_RECORDED = {NO_GRAD: "if True:"}, {SURE: "scores.softmax(-1).amax(-1).mean()"}
WITH_A_NAME = (
    "losses = []\n        for inputs, wanted in held_out:\n"
    "            loss = loss_of(head(body(inputs)), wanted)\n            "
)
FROZEN = f"{WEIGHTS}\n        weight.requires_grad_(False)\n    if True:"


def _one_third_lost(
    hint: str, *edits: Mapping[str, str], shows: tuple[str, ...] = ()
) -> list[Edit]:
    """Edits that go wrong in one scenario alone."""
    return [Edit(hint, pieces, 2.0, shows) for pieces in edits]


OTHER_PRECISION = (
    "Your states have the right numbers in another precision. Which precision does the model have, "
    "and is it the same in all cases?"
)
OF_TRAINING_EDITS = (
    *_one_third_lost(
        "Gradients that are there before the first batch are thrown away, and the given loop makes "
        "its first step with them. When does it set gradients to zero, and when do you?",
        {ZERO: "pass", BODY: f"optimizer.zero_grad()\n        {BODY}"},
        {BACKWARD: f"optimizer.zero_grad()\n        {BACKWARD}"},
    ),
    *(
        Edit(
            "The body is not trained any more: its weights are as they were. Which path does the "
            "loss take back to them, and where do you cut it?",
            {BODY: cut},
        )
        for cut in (f"{BODY}.detach()", f"with torch.no_grad():\n            {BODY}")
    ),
    *(
        Edit(
            "No weight is trained any more, not even the head's. Which line changes them, and what "
            "does it find in grad?",
            pieces,
        )
        for pieces in ({STEP: "pass"}, {f"{STEP}\n        {ZERO}": f"{ZERO}\n        {STEP}"})
    ),
    Edit(
        "The weights differ from those of the given loop. Which gradients are in a weight "
        "when the optimizer reads it, and are they gone before the next batch?",
        {ZERO: "pass"},
    ),
    Edit(
        "A list of batches is shorter afterwards. Whose list is it, and who may want to go "
        "through it once more?",
        {TAKE: "while batches:\n        inputs, wanted = batches.pop(0)"},
    ),
)
OF_EVALUATION = (
    *_one_third_lost(
        "The mean is wrong where one batch is smaller than the others. Does the given loop "
        "take the mean over batches or over tokens?",
        {
            LOSSES: "losses = [\n            loss_of(head(body(inputs)), wanted)\n"
            "            for inputs, wanted in held_out\n            for _ in range(len(inputs))\n"
            "        ]"
        },
    ),
    *_one_third_lost(
        "The mean is right where nothing is trained before. With which weights does the given "
        "loop evaluate: those from before the training, or those from after it?",
        {
            f"    {NO_GRAD}\n        {LOSSES}\n": "",
            "    sure, kept": f"    {NO_GRAD}\n        {LOSSES}\n    sure, kept",
        },
    ),
    *_one_third_lost(
        "With a few batches nothing piles up, with many it does. What do you keep of each batch "
        "until the end that is larger than a number?",
        {
            LOSSES: "logits = [head(body(inputs)) for inputs, _ in held_out]\n"
            "        losses = [loss_of(z, y) for z, (_, y) in zip(logits, held_out)]"
        },
        {
            LOSSES: "logits = torch.cat([head(body(x)).flatten(0, 1) for x, _ in held_out])\n"
            "        targets = torch.cat([y.flatten() for _, y in held_out])\n"
            "        losses = [F.cross_entropy(logits, targets)]"
        },
    ),
    *_one_third_lost(
        "All held-out batches go through the model at once. How many of them have to be in memory "
        "at a time, and is the mean of all tokens that of the batches?",
        {
            LOSSES: "inputs = torch.cat([inputs for inputs, _ in held_out])\n"
            "        wanted = torch.cat([wanted for _, wanted in held_out])\n"
            "        losses = [loss_of(head(body(inputs)), wanted)]"
        },
    ),
    *_one_third_lost(
        "The model comes back in another mode, training or evaluation. Who had "
        "chosen the one that it came with?",
        {NO_GRAD: f"body.eval()\n    head.eval()\n    {NO_GRAD}"},
        {
            TAKE: f"body.train()\n        head.train()\n    {TAKE}".replace(
                "        head", "    head"
            )
        },
        {
            NO_GRAD: f"body.eval()\n    head.eval()\n    {NO_GRAD}",
            RETURN: f"    body.train()\n    head.train()\n{RETURN}",
        },
    ),
    *_one_third_lost(
        "Weights that were frozen require a gradient after your function. What do you have to "
        "know of each weight to give it back as it was?",
        {
            NO_GRAD: FROZEN,
            RETURN: f"    {WEIGHTS}\n        weight.requires_grad_(True)\n{RETURN}",
        },
    ),
    *_one_third_lost(
        "The weights do not require what they required: their `requires_grad` is changed. What "
        "would the training around yours find?",
        {NO_GRAD: FROZEN},
    ),
    *_one_third_lost(
        "Gradients that were there before your function are gone or changed. Whose are they, in "
        "the middle of a training step?",
        {NO_GRAD: f"optimizer.zero_grad()\n    {NO_GRAD}"},
        {NO_GRAD: f"{WEIGHTS}\n        weight.grad = None\n    {NO_GRAD}"},
    ),
    *_one_third_lost(
        "Where the caller has switched recording off, your function ends with an error. Which "
        "line of it needs a graph?",
        {
            LOSSES: f"{WITH_A_NAME}losses.append(loss.item())\n"
            "    if not torch.is_grad_enabled():\n        loss.backward()"
        },
    ),
    *_one_third_lost(
        "The weights come back with other gradients: a backward pass of the evaluation fills "
        "them. What would the training around yours find, and is a gradient needed for a mean?",
        {
            **RECORDED,
            LOSSES: f"{WITH_A_NAME}loss.backward()\n            losses.append(loss.item())",
        },
        shows=("errors_without_recording", "changed_gradients"),
    ),
    *_one_third_lost(
        "The backward pass of your evaluation builds a graph, walks through it, and its gradients "
        "are thrown away, the caller's with them. Who will ever ask for a graph here?",
        {
            **RECORDED,
            LOSSES: f"{WITH_A_NAME}loss.backward()\n            losses.append(loss.item())\n"
            "            optimizer.zero_grad()",
        },
        {
            **RECORDED,
            LOSSES: f"{WITH_A_NAME}torch.autograd.grad(loss, [*body.parameters()])\n"
            "            losses.append(loss.item())",
        },
    ),
    *_one_third_lost(
        "After your function nothing records graphs any more. Who switches it on again, also for "
        "the training step that comes next?",
        {NO_GRAD: "torch.set_grad_enabled(False)\n    if True:"},
    ),
    *_one_third_lost(
        "A caller who had switched recording off finds it on after your function. How could it "
        "leave recording as it was, whichever that is?",
        {
            NO_GRAD: "torch.set_grad_enabled(False)\n    if True:",
            RETURN: f"    torch.set_grad_enabled(True)\n{RETURN}",
        },
    ),
    *_one_third_lost(
        "The loss that you return is light, but the activations of all held-out batches lie in "
        "memory until then. When does a loss have to drop its graph?",
        {**RECORDED, MEAN: f"float({MEAN})"},
    ),
    *_one_third_lost(
        "The activations of all held-out batches are live until the last, and even beyond, held "
        "by the result. What does a loss carry besides its number?",
        RECORDED,
        shows=("graphs_left", "graphs_at_peak"),
    ),
    *_one_third_lost(
        "Two held-out batches' activations are live at the peak: those of the last one have not "
        "gone when the next is computed. Which name still holds them, and who needs any of them?",
        {**RECORDED, LOSSES: f"{WITH_A_NAME}losses.append(loss.item())"},
        {
            NO_GRAD: "losses = []\n    for inputs, wanted in held_out:",
            LOSSES: "scores = head(body(inputs))\n        with torch.no_grad():\n"
            "            losses.append(loss_of(scores, wanted))",
        },
    ),
    *_one_third_lost(
        "Nothing piles up in the evaluation, and yet one batch's activations are all live at the "
        "peak. Who will ever ask for them here?",
        {**RECORDED, "wanted) for": "wanted).item() for"},
    ),
)
OF_AVERAGE = (
    *_one_third_lost(
        "The probabilities of all batches are still there when the loop is over. Backward frees "
        "what it walks through: does it ever walk from the average back to them?",
        SURE_RECORDED,
        shows=("probabilities_left",),
    ),
    *_one_third_lost(
        "One batch's probabilities outlive the loop. Of which batch are they, and what does your "
        "average still carry besides its number?",
        {**SURE_RECORDED, "0.9 * sure": "0.9 * float(sure)"},
        shows=("probabilities_left",),
    ),
    *_one_third_lost(
        "The average that you return is light, but until then the probabilities of all batches "
        "are in memory. In which line of the loop does the average have to drop them?",
        {**SURE_RECORDED, CONFIDENCE: '"confidence": float(sure)'},
    ),
)
OF_SAMPLES = (
    *_one_third_lost(
        "Your states are those of the weights after the step. When does the given loop take them, "
        "and does the batch have to go through the body once more?",
        {
            f"        kept.append({PART})\n": "",
            STEP: f"{STEP}\n        with torch.no_grad():\n"
            "            kept.append(body(inputs)[:, -1].clone())",
        },
    ),
    *_one_third_lost(
        OTHER_PRECISION,
        {PART: "states.detach()[:, -1].float()"},
        shows=("other_precision", "states_left", "states_at_peak"),
    ),
    *_one_third_lost(
        "The states in your list are right and small, but until the end whole batches lie in "
        "memory. When does a batch's part have to get a storage of its own?",
        {".clone()": "", STATES: '"states": [each.clone() for each in kept]'},
    ),
    *_one_third_lost(
        "Only batches of a single sequence stay whole in memory. Does the method that you call "
        "copy always, or only where the numbers do not lie side by side already?",
        {".clone()": ".contiguous()"},
    ),
    *_one_third_lost(
        "The hidden states of all tokens of all batches are still there, and they have no graph. "
        "What does a part of a tensor hold on to?",
        {".clone()": ""},
        shows=("states_left", "states_at_peak"),
    ),
    *_one_third_lost(
        "The states carry a graph, and hold whole batches as well. Which of the two does "
        "`detach` end, and what ends the other?",
        {PART: "states[:, -1]"},
    ),
    *_one_third_lost(
        "The states that you return carry a graph. Which backward pass will ever come to them?",
        {PART: "states[:, -1].clone()"},
    ),
)

CHECK = Check(
    cases=training_cases,
    observe=repair_training.observe,
    judge=Behaviour(
        measured,
        *edited(
            "u04-repair-training",
            (*OF_TRAINING_EDITS, *OF_EVALUATION, *OF_AVERAGE, *OF_SAMPLES),
            observe=repair_training.observe,
        ),
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
