"""Check of gradients that are sent in hooks while backward goes on."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.backward_steps import (
    ELEMENT_BYTES,
    ready_gradients,
    whole_gradients,
)
from autograder.exercises.u15.shared.gradients import LABELS, NOT_REACHED, TOO_SHORT, TRAINERS
from autograder.observing.observation import length_of
from autograder.observing.u09.backward_steps import job_of
from autograder.observing.u15 import hooks

FIELDS = ("widths", "num_ranks", "bandwidth", "has_gradients")
NUM_CASES = 20


def overlap_cases(seed: int) -> list[Case]:
    """Two layers to four on two ranks and three; slow links and fast ones; gradients before."""
    rng = random.Random(seed)
    cases: list[Case] = [dict(zip(FIELDS, ([2, 3, 4, 2], 2, 8, False), strict=True))]
    for number in range(NUM_CASES):
        widths = [rng.randint(1, 2)]
        while len(widths) < 3 + number % 3:
            widths.append(widths[-1] + rng.randint(1, 2))
        values = (widths, 2 + (number % 4 == 1), rng.choice((2, 4, 16)), number % 5 == 2)
        cases.append(dict(zip(FIELDS, values, strict=True)))
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch; each leaves when it is complete and the links are free."""
    ready = ready_gradients(case["widths"], ELEMENT_BYTES["float64"])
    gradients = whole_gradients(job_of(case))
    num_ranks, free = case["num_ranks"], 0.0
    for each in ready:
        ring = 2 * (num_ranks - 1) * (1 + each.num_bytes / num_ranks / case["bandwidth"])
        free = max(free, each.seconds) + ring
    return {
        "forged_calls": 0,
        "backward_passes": 1,
        "calls": len(ready),
        "other_bytes": 0,
        "length": length_of(gradients),
        "wrong_gradients": 0,
        "waits": 0,
        "late_calls": 0,
        "step_seconds": free,
        "hooks_left": 0,
        "gradients": gradients,
        "sent": [list(each) for each in ready],
    }


START, KEEP = "comm.all_reduce(weight.grad, async_op=True)", "calls.append("
SEND = f"{KEEP}{START})"
WITH, BACKWARD = "with hooks_on(model, start):", "loss.backward()"
WAIT = "for call in calls:\n        call.wait()"
IN_HOOK = (
    "Backward stops at every layer until that layer's gradient has arrived. What does the next "
    "layer's backward pass need from the other ranks?"
)
AFTERWARDS = (
    "No hook waits, but nothing overlaps either: you make the first call when backward is over. "
    "What tells you earlier that a gradient is complete?"
)
EDITS = (
    Edit(IN_HOOK, {SEND: f"{START}.wait()"}, shows=("waits",)),
    Edit(IN_HOOK, {SEND: "comm.all_reduce(weight.grad)"}, shows=("waits",)),
    Edit(
        "The hook waits for the call before it. What goes wrong if two calls are in flight at "
        "once?",
        {SEND: f"if calls:\n            calls[-1].wait()\n        {SEND}"},
        shows=("waits",),
    ),
    Edit(
        IN_HOOK,
        {SEND: f"{SEND}\n        for each in calls:\n            each.wait()"},
        shows=("waits",),
    ),
    Edit(
        AFTERWARDS,
        {
            SEND: "complete.append(weight)",
            "calls = []": "calls, complete = [], []",
            WAIT: f"for weight in complete:\n        {SEND}\n    {WAIT}",
        },
        shows=("late_calls",),
    ),
    Edit(
        AFTERWARDS,
        {
            f"{WITH}\n        {BACKWARD}": f"{BACKWARD}\n    for weight in "
            "reversed(list(model.parameters())):\n        start(weight)"
        },
        shows=("late_calls",),
    ),
    Edit(
        "The calls are made after backward, from the first layer to the last. Which gradient is "
        "complete first?",
        {
            f"{WITH}\n        {BACKWARD}": f"{BACKWARD}\n    for weight in "
            "model.parameters():\n        start(weight)"
        },
        shows=("other_bytes",),
    ),
    Edit(
        "Your hooks are still there when the function returns. What will they do in the next "
        "backward pass?",
        {
            f"{WITH}\n        {BACKWARD}": "for weight in model.parameters():\n"
            f"        weight.register_post_accumulate_grad_hook(start)\n    {BACKWARD}"
        },
        shows=("hooks_left",),
    ),
    Edit(
        "You clear the gradients that were accumulated before. Whose job is that?",
        {WITH: f"model.zero_grad()\n    {WITH}"},
        shows=("length",),
    ),
    Edit(
        "One call for all gradients has nothing to hide behind. When is the last gradient "
        "complete?",
        {
            f"{WITH}\n        {BACKWARD}": f"{BACKWARD}\n    flat = torch.cat("
            "[each.grad.flatten() for each in model.parameters()])\n    comm.all_reduce(flat)\n"
            "    pieces = flat.split([each.numel() for each in model.parameters()])\n"
            "    for each, piece in zip(model.parameters(), pieces, strict=True):\n"
            "        each.grad = piece.view_as(each)"
        },
        shows=("calls",),
    ),
    Edit(
        "No hook ever runs: backward is over before you register any. What must happen inside "
        "the `with` block?",
        {f"{WITH}\n        {BACKWARD}": f"{BACKWARD}\n    {WITH}\n        pass"},
    ),
    Edit(TOO_SHORT, {BACKWARD: "(loss / comm.size).backward()"}, shows=("length",)),
    Edit(NOT_REACHED, {START: "comm.all_reduce(weight.grad.clone(), async_op=True)"}),
    Edit(
        "Every gradient is sent twice. Which of your calls sums what is already a sum?",
        {
            WAIT: f"{WAIT}\n    for weight in model.parameters():\n"
            "        comm.all_reduce(weight.grad)"
        },
        shows=("calls",),
    ),
)

CHECK = Check(
    cases=overlap_cases,
    observe=hooks.observe,
    judge=Behaviour(
        measured,
        *edited("u15-hooks", EDITS, observe=hooks.observe),
        summarise=hooks.summarise,
        questions={
            "calls": "How many gradients are there, and how many calls does each need?",
            "length": "When may a gradient be read, and is anything divided?",
            "waits": "Which line waits while backward could go on?",
            "late_calls": "What runs at the very moment when a gradient is complete?",
            "step_seconds": "The calls are right, but the step takes longer. Who waits, and when?",
        },
        labels=LABELS
        | {
            "backward_passes": "backward passes through the loss",
            "other_bytes": "calls out of order",
            "wrong_gradients": "gradients that are not the sum of all ranks'",
            "waits": "waits before backward is over",
            "late_calls": "calls made later than possible",
            "step_seconds": "the seconds of the step",
            "hooks_left": "hooks left behind",
        },
    ),
    answers=TRAINERS,
)
