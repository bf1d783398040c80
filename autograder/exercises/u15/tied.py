"""Check of gradients that are summed once, however many layers share a weight."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import (
    LABELS,
    NOT_REACHED,
    RETURNS_NOTHING,
    TOO_SHORT,
    TRAINERS,
    on_every_rank,
)
from autograder.observing.observation import length_of
from autograder.observing.u09.after_backward import frozen, gradients_of
from autograder.observing.u15 import tied

KINDS = ("two", "three", "bias", "layer", "equal", "frozen", "none")
NUM_CASES = 21


def tied_cases(seed: int) -> list[Case]:
    """A weight in two layers or three, a bias, a whole layer, nothing; on one rank to four."""
    rng = random.Random(seed)
    cases: list[Case] = [{"kind": "two", "num_ranks": 2, "width": 2}]
    for number in range(NUM_CASES):
        num_ranks = (2, 3, 4, 1)[number % 4]  # three of them for each kind
        kind, width = KINDS[number % len(KINDS)], rng.randint(2, 5)
        cases.append({"kind": kind, "num_ranks": num_ranks, "width": width})
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch by one rank, and a call for each parameter."""
    ranks = range(case["num_ranks"])
    model = tied.model_of(case, 0)
    kept = [gradients_of(frozen(tied.model_of(case, rank))) for rank in ranks]
    for rank in ranks:
        tied.loss_of(model, case, rank).backward()
    sent = [each for each in model.parameters() if each.requires_grad]
    gradients = gradients_of(list(model.parameters()))
    trained = [
        gradient if parameter.requires_grad else None
        for gradient, parameter in zip(gradients, model.parameters(), strict=True)
    ]
    return on_every_rank(
        trained,
        [each.nbytes for each in sent],
        length=length_of(gradients),
        length_on_last=_length_on_last(case, model),
        changed_frozen=0,
        frozen=kept,
    )


def _length_on_last(case: Case, model: Any) -> float:
    """The length of the last rank's gradient: what a frozen bias has kept is its own."""
    trained = [each for each in model.parameters() if each.requires_grad]
    last = tied.model_of(case, case["num_ranks"] - 1)
    return length_of([*gradients_of(trained), *gradients_of(frozen(last))])


PARAMETERS, CALL = "model.parameters()", "comm.all_reduce(each.grad)"
LOOP = f"for each in {PARAMETERS}:\n        if each.requires_grad:\n            {CALL}"
IN_LAYERS = "[p for m in model.modules() for p in m.parameters(recurse=False)]"
AGAIN = (
    "A weight that layers share is sent once for each of them, so its sum is summed again. "
    "How many gradients does it have?"
)
EDITS = (
    Edit(
        "`model.modules()` yields the model itself and then its layers, and `parameters()` looks "
        "into all of them. How often do you meet each weight?",
        {PARAMETERS: "[p for m in model.modules() for p in m.parameters()]"},
    ),
    Edit(
        "You clear the gradient of a frozen parameter. Whose job is that?",
        {"loss.backward()": "model.zero_grad()\n    loss.backward()"},
    ),
    Edit(
        "The values are right, but a shared weight is still sent once per layer, and the excess "
        "is divided out again. Which of its calls can you leave out?",
        {
            LOOP: f"seen = set()\n    for each in {IN_LAYERS}:\n"
            "        if each.requires_grad:\n"
            "            if each in seen:\n"
            "                each.grad /= comm.size\n"
            f"            seen.add(each)\n            {CALL}"
        },
    ),
    Edit(AGAIN, {PARAMETERS: IN_LAYERS}, shows=("calls", "bytes")),
    Edit(
        AGAIN,
        {
            PARAMETERS: "[p for _, p in model.named_parameters(remove_duplicate=False)]",
        },
        shows=("calls", "bytes"),
    ),
    Edit(
        "Shared weights are never sent: each rank keeps its own gradient of them. What should "
        "happen when you meet a weight for the first time, and what when you meet it again?",
        {
            PARAMETERS: f"[p for p in {PARAMETERS} if sum(p is q for q in {IN_LAYERS}) == 1]",
        },
        shows=("calls", "bytes"),
    ),
    Edit(
        "You treat two weights of the same shape as one weight. What do tied layers share, other "
        "than a shape?",
        {PARAMETERS: "{p.shape: p for p in model.parameters() if p.requires_grad}.values()"},
        shows=("calls", "bytes"),
    ),
    Edit(
        "You treat two layers with equal values as tied, so only one of them is summed. Which "
        "operator asks whether two names mean the same object?",
        {
            LOOP: f"seen = []\n    for each in {PARAMETERS}:\n"
            "        if not each.requires_grad:\n            continue\n"
            "        if not any(torch.equal(each, other) for other in seen):\n"
            f"            seen.append(each)\n            {CALL}"
        },
        shows=("calls", "bytes"),
    ),
    Edit(
        "A frozen parameter that still has a gradient from earlier is sent too. Which attribute "
        "says that a parameter is trained?",
        {"if each.requires_grad:": "if each.grad is not None:"},
        shows=("calls", "bytes"),
    ),
    Edit(NOT_REACHED, {CALL: "comm.all_reduce(each.grad.clone())"}),
    Edit(TOO_SHORT, {CALL: f"{CALL}\n            each.grad /= comm.size"}, shows=("length",)),
    Edit(
        "You make one call; the exercise asks for one per parameter. Which line of the broken "
        "trainer really has to change?",
        {
            LOOP: "flat = torch.cat([p.grad.flatten() for p in model.parameters() "
            "if p.requires_grad])\n    comm.all_reduce(flat)"
        },
        shows=("calls",),
    ),
    Edit(
        "Weights are sent, biases are not. Which parameters does your condition leave out?",
        {"if each.requires_grad:": "if each.requires_grad and each.dim() == 2:"},
        shows=("calls", "bytes"),
    ),
)

CHECK = Check(
    cases=tied_cases,
    observe=tied.observe,
    judge=Behaviour(
        measured,
        *edited("u15-tied", EDITS, observe=tied.observe),
        summarise=tied.summarise,
        questions={
            "missing": RETURNS_NOTHING,
            "calls": "How many parameters are trained, each counted once, and how many calls do "
            "you make?",
            "length": "Which gradients are too large or too small, and by which factor?",
        },
        labels=LABELS | {"changed_frozen": "frozen parameters whose grad has changed"},
    ),
    answers=TRAINERS,
)
