"""Check of accumulation: gradients of the whole batch, with the memory of one micro-batch."""

import random
from typing import Any

from autograder.checking import borrowed_code
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u08.shared.ragged_batches import (
    kept_bytes,
    losses_of,
    num_targets,
    ragged,
)
from autograder.observing.observation import length_of
from autograder.observing.u08 import accumulate
from autograder.observing.u08.accumulate import prepared
from course_utils.instruments import trace_memory
from course_utils.reference import accumulation

SCENARIOS = (
    "equal",
    "ragged",
    "remainder",
    "empty micro-batch",
    "no targets",
    "existing gradients",
    "memory",
)
FIELDS = ("scenario", "lengths", "micro_batch_size", "width", "vocab_size")

FEW_TOKENS = 2  # so that weights take more memory than activations
# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
# Scenarios share the points equally.
EACH = 0.5


def accumulate_cases(seed: int) -> list[Case]:
    """Every scenario three times; for memory, large activations and large weights."""
    rng = random.Random(seed)
    cases = []
    for number in range(3):
        length = rng.randint(4, 7)
        lengths_of: dict[str, tuple[list[int], int]] = {
            "equal": ([length] * 4, number % 2 + 1),
            "ragged": (ragged(rng, 6), number % 2 + 1),
            "remainder": (ragged(rng, 5), number + 2),  # at last 4 and 1, not 3 and 2
            "empty micro-batch": (_with_empty(rng, number % 2 + 1), number % 2 + 1),
            "no targets": ([0] * (number + 2), number % 2 + 1),
            "existing gradients": ([length] * 4, number % 2 + 1),
        }
        for scenario, (lengths, size) in lengths_of.items():
            cases.append(_case(scenario, lengths, size, rng.randint(3, 5), rng.randint(7, 11)))
    for length, size in ((300, 1), (150, 2)):
        num_micro_batches = rng.randint(3, 5)
        cases.append(_case("memory", [length] * (num_micro_batches * size), size, 16, 5))
    cases.append(_case("memory", [FEW_TOKENS] * rng.randint(3, 5), 1, 48, 48))
    cases.sort(key=lambda case: case["scenario"] == "no targets")  # other trouble is told first
    return [_case("remainder", [3, 1, 2], 2, 3, 5), *cases]


def _with_empty(rng: random.Random, size: int) -> list[int]:
    """Lengths of three micro-batches; the middle one has no targets."""
    lengths = ragged(rng, 2 * size)
    return [*lengths[:size], *[0] * size, *lengths[size:]]


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """Loss and gradients of the whole batch at once, added to those from before; nothing else.

    Of memory, the peak of a right loop, and the bytes of a micro-batch and of all gradients.
    """
    model, ids, targets = prepared(case)
    before = [each.grad for each in model.parameters()]
    losses = losses_of(model, ids, targets)
    mean = losses.sum() / max(1, len(losses))
    mean.backward()  # adds to what is there
    gradients = [each.grad for each in model.parameters()]
    parts = targets.split(case["micro_batch_size"])
    return {
        "changed_batch": 0,
        "not_numbers": 0,
        "loss": mean.item(),
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "new_gradients": 0,
        "sequences_too_many": 0,
        "passes_missing": 0,
        "passes_too_many": 0,
        "other_sizes": 0,
        "micro_batches_held": 0,
        "gradients_held": 0,
        "gradients": gradients,
        "before": before,
        "passes": [sum(num_targets(part) > 0 for part in parts), len(parts)],
        "sizes": [len(part) for part in parts],
        "bytes": _bytes_of(case) if case["scenario"] == "memory" else [],
    }


def _bytes_of(case: Case) -> list[int]:
    """At the peak of a right loop, kept by one micro-batch, and of all gradients."""
    size, (model, ids, targets) = case["micro_batch_size"], prepared(case)
    trace = trace_memory(lambda: accumulation.accumulate(model, ids, targets, size), model)
    kept = kept_bytes(model, ids[:size], targets[:size])
    return [trace.peak_bytes, kept, sum(each.nbytes for each in model.parameters())]


COUNT, EMPTY = "int((targets != -100).sum())", "if num_targets == 0:\n        return 0.0"
STARTS, SOME = "range(0, len(ids), micro_batch_size)", "slice(start, start + micro_batch_size)"
PIECE = "-(-len(ids) // micro_batch_size)"
SUMMED, SHARE = 'reduction="sum"', "summed / num_targets"
BACKWARD, NOTE, RETURN = "loss.backward()", "mean_loss += loss.item()", "return mean_loss"
BEGIN = "mean_loss = 0.0"
MEANS = {SUMMED: 'reduction="mean"'}
EVEN = "-(-len(ids) // -(-len(ids) // micro_batch_size))"
VALUES = ("not_numbers", "loss", "gradient_length")
HELD = ("micro_batches_held", "gradients_held")

NO_TARGETS = (
    "Without any target the loss or a gradient is not a number. What do you divide by then, and "
    "what does the exercise want?"
)
GRADIENTS_GONE = (
    "Gradients that were there before are gone. Who may set them to zero, your function or the "
    "one who calls it?"
)
SECOND_SET = (
    "A second set of all gradients is held. Who adds new gradients to those that are there, if "
    "you let it?"
)
ALL_HELD = (
    "The activations of all micro-batches are held at once, as those of the whole batch would be. "
    "When does backward go through each of them, and does it free them?"
)
# What each micro-batch's loss is instead of its share, and what that still earns.
OTHER_SHARES = (
    (
        "This is the mean of the micro-batches' means: right where all have as many targets, "
        "wrong elsewhere, and not a number where one has none. What is the mean of all targets "
        "divided by?",
        {**MEANS, SHARE: "summed / len(range(0, len(ids), micro_batch_size))"},
        4 * EACH,
    ),
    (
        "This is the sum of the micro-batches' means. When is a mean of all targets a sum of "
        "means, and what would each have to be multiplied by?",
        {**MEANS, SHARE: "summed"},
        EACH,
    ),
    (
        "You weigh the mean of a micro-batch by its sequences. What is it a mean of?",
        {**MEANS, SHARE: "summed * len(ids[some]) / len(ids)"},
        4 * EACH,
    ),
    (
        "This is the sum over all targets. Which mean does the exercise ask for?",
        {SHARE: "summed"},
        EACH,
    ),
    (
        "You divide the sum of the losses by the sequences of the batch. How many losses were "
        "added up?",
        {SHARE: "summed / len(ids)"},
        EACH,
    ),
    (
        "You divide by all positions of the batch, padding too. Which of them have a loss?",
        {SHARE: "summed / targets.numel()"},
        4 * EACH,
    ),
    (
        "You divide by the positions of a micro-batch. What does the mean of the exercise go over?",
        {SHARE: "summed / targets[some].numel()"},
        EACH,
    ),
    (
        "You divide the sum of the losses by the number of micro-batches. How many losses were "
        "added up?",
        {SHARE: "summed / len(range(0, len(ids), micro_batch_size))"},
        EACH,
    ),
    (
        "You divide by the targets seen so far, so that early micro-batches count more. When do "
        "you know how many the batch has?",
        {SHARE: "summed / max(1, int((targets[: some.stop] != -100).sum()))"},
        EACH,
    ),
    (
        "Targets that are the word 0 do not count with you. Which number marks what is not to be "
        "learned?",
        {COUNT: "int((targets > 0).sum())"},
        EACH,
    ),
    (
        "The sequences that fill no micro-batch are left out. Where does your last cut end?",
        {STARTS: "range(0, len(ids) - micro_batch_size + 1, micro_batch_size)"},
        6 * EACH,
    ),
)
EDITS = (
    Edit(
        "The ids or targets that came in are others afterwards. Which line writes into them, and "
        "who else may need them?",
        {EMPTY: f"{EMPTY}\n    targets[targets == -100] = 0\n    targets[0, 0] += 0"},
        points=4 * EACH,
        shows=("changed_batch",),
    ),
    Edit(
        "You cut the batch into micro_batch_size pieces. What does that number count, the pieces "
        "or the sequences in each?",
        {
            STARTS: STARTS.replace("micro_batch_size", PIECE),
            SOME: SOME.replace("micro_batch_size", PIECE),
        },
        points=EACH,
        shows=("sequences_too_many", "passes_missing", "passes_too_many"),
    ),
    Edit(
        "More sequences go through the model at once than a micro-batch has. Which tensors do you "
        "cut before they go in?",
        {STARTS: "range(1)", SOME: "slice(None)"},
        points=EACH,
        shows=("sequences_too_many",),
    ),
    Edit(NO_TARGETS, {EMPTY: "pass"}, points=6 * EACH, shows=("not_numbers",)),
    Edit(
        "One micro-batch without targets makes your loss not a number. What is the mean of no "
        "losses, and does multiplying it by zero help?",
        {**MEANS, SHARE: "summed * int((targets[some] != -100).sum()) / num_targets"},
        points=6 * EACH,
        shows=("not_numbers",),
    ),
    Edit(
        "The gradients are right, and the loss is that of the last micro-batch. Where do you add "
        "the others?",
        {NOTE: "mean_loss = loss.item()"},
        points=EACH,
    ),
    Edit(
        "The gradients are right, and the loss is a sum over the targets, or over means. What "
        "does the exercise want returned?",
        {NOTE: "mean_loss += summed.item()"},
        points=EACH,
    ),
    *(Edit(hint, pieces, points, shows=VALUES) for hint, pieces, points in OTHER_SHARES),
    Edit(
        "Gradients that were there before come out smaller: you divide them with the new ones. "
        "What can you divide before it goes into the sum?",
        {
            SHARE: "summed",
            NOTE: "mean_loss += loss.item() / num_targets",
            RETURN: f"for p in model.parameters():\n        p.grad /= num_targets\n    {RETURN}",
        },
        points=5 * EACH,
        shows=VALUES,
    ),
    Edit(
        "Only the gradients of the last micro-batch are there. Who throws away those of the "
        "others?",
        {BACKWARD: f"model.zero_grad()\n        {BACKWARD}"},
        points=EACH,
        shows=("gradient_length",),
    ),
    Edit(
        GRADIENTS_GONE,
        {BEGIN: f"{BEGIN}\n    model.zero_grad()"},
        points=5 * EACH,
        shows=("gradient_length",),
    ),
    Edit(
        "The new gradients are not in grad when your function ends. Does backward run, and what do "
        "you do with grad afterwards?",
        {BACKWARD: "pass"},
        points=EACH,
        shows=("gradient_length",),
    ),
    Edit(
        SECOND_SET,
        {
            BEGIN: f"{BEGIN}\n    old = [p.grad for p in model.parameters()]\n"
            "    model.zero_grad()",
            RETURN: "for p, before in zip(model.parameters(), old):\n"
            "        if before is not None:\n"
            "            p.grad = before if p.grad is None else before + p.grad\n"
            f"    {RETURN}",
        },
        points=6 * EACH,
        shows=HELD,
    ),
    Edit(
        SECOND_SET,
        {
            BACKWARD: "weights = list(model.parameters())\n"
            "        for p, new in zip(weights, torch.autograd.grad(loss, weights)):\n"
            "            p.grad = new if p.grad is None else p.grad + new"
        },
        points=6 * EACH,
        shows=HELD,
    ),
    *(
        Edit(
            ALL_HELD,
            {BACKWARD: backward, NOTE: "mean_loss = mean_loss + loss", RETURN: returned},
            points=6 * EACH,
            shows=HELD,
        )
        for backward, returned in (
            ("pass", "mean_loss.backward()\n    return mean_loss.item()"),
            ("loss.backward(retain_graph=True)", "return mean_loss.item()"),
        )
    ),
    Edit(
        "The activations of a micro-batch are still there while the next one runs. What do you "
        "tell backward, and what lives on between two rounds of your loop?",
        {BACKWARD: "loss.backward(retain_graph=True)"},
        points=6 * EACH,
        shows=HELD,
    ),
    Edit(
        "A batch without targets leaves gradients of zeros where there were none, and the next "
        "step of an optimizer takes them for gradients. What is there to do for such a batch?",
        {EMPTY: "num_targets = max(1, num_targets)"},
        points=6 * EACH,
    ),
    Edit(
        "One sequence after the other goes through the model, however many a micro-batch may "
        "have. Which argument have you not used?",
        {STARTS: "range(len(ids))", SOME: "slice(start, start + 1)"},
        points=EACH,
        shows=("passes_too_many",),
    ),
    Edit(
        "A micro-batch goes through the model more often than once. What do you need from the "
        "first time?",
        {BACKWARD: f"{BACKWARD}\n        model(ids[some])"},
        points=EACH,
        shows=("passes_too_many",),
    ),
    Edit(
        "Your micro-batches are nearly equal, and smaller than `micro_batch_size`. Does what you "
        "cut with take the size of a piece, or the number of pieces?",
        {STARTS: f"range(0, len(ids), {EVEN})", SOME: f"slice(start, start + {EVEN})"},
        points=6 * EACH,
        shows=("other_sizes",),
    ),
)


def _gradients_of_each_held(more: int) -> Symptom:
    return Symptom(
        "A set of all gradients is held for each micro-batch. Who adds new gradients to those that "
        "are there, if you let it?",
        lambda scenario, lengths, size, *_: {"gradients_held": -(-len(lengths) // size) + more},
    )


CHECK = Check(
    cases=accumulate_cases,
    observe=accumulate.observe,
    judge=Behaviour(
        measured,
        *edited("u08-accumulate", EDITS, observe=accumulate.observe),
        *(_gradients_of_each_held(more) for more in (0, -1, 1)),
        summarise=accumulate.summarise,
        scenarios=SCENARIOS,
        questions={
            "loss": "The loss that you return is another number. Over which targets is it a mean?",
            "wrong_gradients": "Gradients are not those of the whole batch. By what is the loss "
            "of one micro-batch divided?",
            "gradient_length": "Gradients are not those of the whole batch. By what is the loss "
            "of one micro-batch divided?",
            "memory": "The numbers are right, and something lives too long. Which of your names "
            "holds a graph when the next micro-batch begins?",
        },
        labels={
            "changed_batch": "changes to ids or targets (0 no, 1 yes)",
            "not_numbers": "nan or inf in the loss or a gradient (0 no, 1 yes)",
            "loss": "the loss that is returned",
            "gradient_length": "the norm of what is in grad",
            "wrong_gradients": "parameters with a wrong gradient in grad",
            "new_gradients": "gradients that are made without any target",
            "sequences_too_many": "sequences too many in a pass",
            "passes_missing": "missing forward passes",
            "passes_too_many": "forward passes too many",
            "other_sizes": "passes of other sizes than full micro-batches and the remainder",
            "micro_batches_held": "micro-batches whose activations are kept needlessly",
            "gradients_held": "sets of gradients that are kept needlessly",
        },
    ),
    fallback="course_utils.reference.accumulation.accumulate",
    answers=("course_utils.reference.accumulation.accumulate",),
    allowed_names=borrowed_code.TOKEN_LOSS,
)
