"""Check of micro-batches on each rank: one exchange for all, one at a time in memory."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    CHANGES_MODEL,
    LABELS,
    whole_gradients,
)
from autograder.observing.observation import length_of
from autograder.observing.u09 import no_sync
from autograder.observing.u09.backward_steps import job_of, state_of

FIELDS = ("widths", "num_ranks", "num_micro_batches", "trainer")


def together_cases(seed: int) -> list[Case]:
    """One micro-batch and up to three, two ranks and three; each trainer with one and several."""
    rng, trainers = random.Random(seed), list(no_sync.TRAINERS)
    cases = [_case([2, 3, 4, 2], 2, 3, trainers[0])]
    for number, num_ranks in enumerate((2, 2, 3, 2)):
        for count in (1, 2, 3, 2, 3):
            widths = [rng.randint(2, 4) for _ in range(3)]
            cases.append(_case(widths, num_ranks, count, trainers[1 - number % 2]))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of all micro-batches of all ranks, and each parameter exchanged once."""
    gradients = whole_gradients(job_of(case), case["num_micro_batches"])
    return {
        "forged_calls": 0,
        "at_once": 1,
        "forward_passes": case["num_micro_batches"],
        "out_of_order": 0,
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "trainer_calls": 1,
        "in_trainer": 1,
        "backward_passes": case["num_micro_batches"],
        "collectives": len(case["widths"]) - 1,  # one for each matrix
        "changes_list": 0,
        "changes_model": 0,
        "gradients": gradients,
        "list": list(range(case["num_micro_batches"])),
        "state": state_of(job_of(case).model()),
    }


# Places of the model answer.
TAKE, RUN, EXCHANGE = (
    "*earlier, last = micro_batches",
    "micro_batch().backward()",
    "backward(comm, model, last())",
)
LOOP = f"for micro_batch in earlier:\n        {RUN}"
EACH_PARAMETER = "\n    for parameter in model.parameters():\n        "

LENGTH = ("gradient_length",)
NO_FORWARD = "No micro-batch is called. What do the functions in the list give when they are?"
OTHER_ORDER = "Micro-batches run in another order than they stand in the list. Where do you begin?"
ALL_FORWARD = (
    "All micro-batches run forward before the first one runs backward, so that all "
    "activations are in memory. When is the first moment at which one can go?"
)
NO_MICRO_BATCH = (
    "The trainer gets a loss that no micro-batch has made. Which hook fires in its "
    "backward pass, and which loss does the exercise hand to it?"
)
EDITS = (
    *(
        Edit(ALL_FORWARD, {f"{LOOP}\n    {EXCHANGE}": all_forward})
        for all_forward in (
            "backward(comm, model, sum(each() for each in micro_batches))",
            "losses = [each() for each in micro_batches]\n    for loss in losses[:-1]:\n"
            "        loss.backward()\n    backward(comm, model, losses[-1])",
        )
    ),
    Edit(
        "Every micro-batch runs forward, and only one runs backward. The trainer takes the "
        "last: who runs backward from the losses of the others?",
        {RUN: "micro_batch()"},
        shows=("at_once", "backward_passes"),
    ),
    Edit(
        "Two micro-batches are in memory: the next one runs forward before the last one has "
        "run backward. How else can you know which one is the last?",
        {
            TAKE: "loss = 0",
            f"{LOOP}\n    {EXCHANGE}": "for micro_batch in micro_batches:\n"
            "        loss, before = micro_batch(), loss\n"
            "        if before:\n            before.backward()\n"
            "    backward(comm, model, loss)",
        },
        shows=("at_once",),
    ),
    Edit(
        "Micro-batches run forward twice. How often do you call each function?",
        {
            TAKE: f"for each in micro_batches:\n        each().backward()\n"
            f"    model.zero_grad()\n    {TAKE}"
        },
        shows=("forward_passes",),
    ),
    Edit(
        "One forward pass too many. Which micro-batch do you call once for its own backward "
        "pass, and once more for the trainer?",
        {"in earlier:": "in micro_batches:"},
        shows=("forward_passes",),
    ),
    Edit(
        "One micro-batch is missing. What becomes of the last one, and what of a list of one?",
        {
            "in earlier:": "in earlier[:-1]:",
            EXCHANGE: f"for last in earlier[-1:]:\n        {EXCHANGE}",
        },
        shows=("forward_passes",),
    ),
    Edit(
        "One micro-batch is called, however many there are. Whose gradients does the trainer find "
        "in grad when its turn comes?",
        {f"    {LOOP}\n": ""},
        shows=("forward_passes",),
    ),
    Edit(OTHER_ORDER, {TAKE: "*earlier, last = reversed(micro_batches)"}, shows=("out_of_order",)),
    Edit(OTHER_ORDER, {TAKE: "last, *earlier = micro_batches"}, shows=("out_of_order",)),
    Edit(
        "Every micro-batch is exchanged, and every exchange sums up what is in grad, "
        "including earlier sums. After which one do the ranks need each other's?",
        {RUN: "backward(comm, model, micro_batch())"},
        shows=LENGTH,
    ),
    Edit(
        "Every micro-batch is exchanged. After which one do the ranks need each other's gradients?",
        {
            f"{LOOP}\n    {EXCHANGE}": "sums = [0 for _ in model.parameters()]\n"
            "    for micro_batch in micro_batches:\n        model.zero_grad()\n"
            "        backward(comm, model, micro_batch())\n"
            "        sums = [s + p.grad for s, p in zip(sums, model.parameters())]\n"
            "    for total, parameter in zip(sums, model.parameters()):\n"
            "        parameter.grad = total"
        },
        shows=("trainer_calls",),
    ),
    Edit(
        "The first micro-batch is exchanged, and the others stay on their ranks. What is in "
        "grad at the moment at which the trainer sums it up?",
        {
            TAKE: "last, *earlier = micro_batches",
            f"{LOOP}\n    {EXCHANGE}": f"{EXCHANGE}\n    {LOOP}",
        },
        shows=LENGTH,
    ),
    Edit(
        "The gradient is too short by a factor, the number of ranks. What is each loss a share "
        "of, and who has divided already?",
        {EXCHANGE: f"{EXCHANGE}{EACH_PARAMETER}parameter.grad /= comm.size"},
        shows=LENGTH,
    ),
    Edit(
        "The trainer is never called, and each rank has its own gradients. Who exchanges what "
        "is in grad?",
        {EXCHANGE: "last().backward()"},
        shows=LENGTH,
    ),
    Edit(
        "You exchange gradients by yourself, and the trainer is never called. Who starts its "
        "buckets while backward still runs?",
        {EXCHANGE: f"last().backward(){EACH_PARAMETER}comm.all_reduce(parameter.grad)"},
        shows=("trainer_calls",),
    ),
    Edit(
        NO_MICRO_BATCH,
        {
            EXCHANGE: "last().backward()\n"
            "    backward(comm, model, torch.zeros((), requires_grad=True))"
        },
        shows=(*LENGTH, "in_trainer"),
    ),
    Edit(
        "A micro-batch runs backward once by itself and once more in the trainer. Through "
        "which of them does the trainer go, and who has gone there before?",
        {
            EXCHANGE: "loss = last()\n    loss.backward(retain_graph=True)\n"
            "    backward(comm, model, 0 * loss)"
        },
        shows=("backward_passes",),
    ),
    Edit(
        "Gradients are exchanged once more than the trainer does. What does it leave in grad?",
        {EXCHANGE: f"{EXCHANGE}{EACH_PARAMETER}comm.all_reduce(parameter.grad)"},
        shows=LENGTH,
    ),
    Edit(
        "Only the last micro-batch is in your gradients. Who throws away those of the others?",
        {RUN: f"{RUN}\n        model.zero_grad()"},
        shows=LENGTH,
    ),
    Edit(
        "Only the last two micro-batches are in your gradients. Which line throws away those "
        "of the others, and how often does it run?",
        {RUN: f"model.zero_grad()\n        {RUN}"},
        shows=LENGTH,
    ),
    Edit(
        "The gradient is too short by a factor, the number of micro-batches. What is "
        "each loss a share of, and who has divided already?",
        {
            RUN: "(micro_batch() / len(micro_batches)).backward()",
            "last())": "last() / len(micro_batches))",
        },
        shows=LENGTH,
    ),
    *(
        Edit(
            "The last loss counts more, or less, than those before it. What is each loss a share "
            "of, and does it matter how many ranks there are?",
            {EXCHANGE: f"backward(comm, model, last() {scaled} comm.size)"},
            shows=LENGTH,
        )
        for scaled in "*/"
    ),
    Edit(
        "The last micro-batch is summed over the ranks, and those before stay on their ranks. What "
        "is in grad at the moment at which the trainer sums it up?",
        {
            EXCHANGE: "kept = [p.grad for p in model.parameters()]\n    model.zero_grad()\n"
            f"    {EXCHANGE}\n    for p, before in zip(model.parameters(), kept):\n"
            "        p.grad += 0 if before is None else before"
        },
        shows=LENGTH,
    ),
    Edit(
        "The list of micro-batches is another one afterwards. Whose list is it, and how else do "
        "you tell the last from the others?",
        {TAKE: "last = micro_batches.pop()", "in earlier:": "in micro_batches:"},
        shows=("changes_list",),
    ),
    Edit(
        CHANGES_MODEL,
        {EXCHANGE: f"{EXCHANGE}\n    model.eval()"},
        shows=("changes_model",),
    ),
)

CHECK = Check(
    cases=together_cases,
    observe=no_sync.observe,
    judge=Behaviour(
        measured,
        Symptom(NO_FORWARD, lambda *values: {"forward_passes": 0}),
        *edited("u09-no-sync", EDITS, observe=no_sync.observe),
        labels=LABELS
        | {
            "at_once": "micro-batches in memory at once",
            "forward_passes": "forward passes",
            "backward_passes": "backward passes through micro-batches",
            "out_of_order": "micro-batches that run after one which follows them in the list",
            "trainer_calls": "calls of the trainer",
            "changes_list": "The list of micro-batches is not as it was before.",
            "in_trainer": "micro-batches that run backward in the trainer",
        },
        summarise=no_sync.summarise,
    ),
    fallback="course_utils.reference.bucketing.accumulate_together",
    answers=BUCKETERS,
)
