"""Check of a training loop over groups of micro-batches: steps, weights, and what it reports."""

import math
import random
from typing import Any

import torch

from autograder.checking import borrowed_code
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u08.shared.ragged_batches import Batches, kept_bytes, losses_of, ragged
from autograder.observing.observation import length_of
from autograder.observing.u08 import train
from autograder.observing.u08.train import LONG, TOLERANCE, Run, is_long
from course_utils.reference import accumulation

SCENARIOS = ("accumulation", "clipping", "schedule", "last group", "old gradients", "no step")
FIELDS = ("scenario", "lengths", "micro_batches_per_step", "max_norm", "broken", "kind")
NO_CLIPPING = 1e9


def train_cases(seed: int) -> list[Case]:
    """Every scenario twice or more, with groups of two to four micro-batches, some long."""
    rng = random.Random(seed)
    cases = [_case("accumulation", [[3], [1], [2], [5]], 2)]
    for size in (2, 3, 2):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        max_norm = round(rng.uniform(0.02, 0.04), 3)
        cases.append(_case("accumulation", two, size))
        cases.append(_case("clipping", two, size, max_norm=max_norm))
        cases.append(_case("schedule", two, size))
        cases.append(_case("last group", two[:-1], size))
    for size in (3, 4):
        shorter = LONG - rng.randint(1, 20)
        lengths = [[LONG], *([shorter - n] for n in range(2 * size - 1))]
        cases.append(_case("accumulation", lengths, size))
    for size in (2, 3):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        cases.append(_case("old gradients", two, size))
    for _ in range(2):
        first, middle, last = (_micro_batches(rng, 2) for _ in range(3))
        cases.append(_case("no step", [*first, [0, 0], [0, 0], *last], 2, kind="targets"))
        for kind in ("loss", "gradient"):
            three, broken = [*first, *middle, *last], rng.choice((2, 3))
            cases.append(_case("no step", three, 2, broken=broken, kind=kind))
    return cases


def _micro_batches(rng: random.Random, count: int) -> list[list[int]]:
    """Lengths of each micro-batch of a group, two sequences each."""
    lengths = ragged(rng, 2 * count)
    return [lengths[2 * n : 2 * n + 2] for n in range(count)]


def _case(scenario: str, lengths: list[list[int]], size: int, **others: float | str) -> Case:
    """A case; by default nothing is clipped or broken."""
    values = (scenario, lengths, size, NO_CLIPPING, -1, "")
    return dict(zip(FIELDS, values, strict=True)) | others


def measured(**case: Any) -> dict[str, Any]:
    """Steps, weights and report of a loop that takes all targets of a group at once.

    Of memory, the peak of a right loop, and the bytes that one micro-batch keeps.
    """
    run, size = Run(case), case["micro_batches_per_step"]
    groups = [run.batches[start : start + size] for start in range(0, len(run.batches), size)]
    report = [_step(run, group, case["max_norm"]) for group in groups]
    return {
        "not_numbers": 0,
        "steps": len(run.path),
        "schedule_steps": len(run.path),
        "right_steps": len(run.path),
        "weights_moved": run.path[-1],
        "wrong_weights": 0,
        "results": len(groups),
        "wrong_results": 0,
        "reported": sum(filter(None, report)),
        "sequences_too_many": 0,
        "micro_batches_held": 0,
        "path": run.path,
        "weights": run.weights(),
        "report": report,
        "bytes": _bytes_of(case) if is_long(case) else [],
    }


def _step(run: Run, group: Batches, max_norm: float) -> float | None:
    losses = torch.cat([losses_of(run.model, *each) for each in group])
    if not len(losses):
        return None
    mean, weights = losses.sum() / len(losses), list(run.model.parameters())
    gradients = torch.autograd.grad(mean, weights)
    length = length_of([*gradients])
    if not (math.isfinite(mean.item()) and math.isfinite(length)):
        return None
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = min(1.0, max_norm / length) * gradient
    run.optimizer.step()
    run.scheduler.step()
    return mean.item()


def _bytes_of(case: Case) -> list[int]:
    run = Run(case)
    return [run.peak_bytes(accumulation.train, []), kept_bytes(run.model, *run.batches[0])]


STARTS = "range(0, len(micro_batches), micro_batches_per_step)"
GROUP = "group = micro_batches[start : start + micro_batches_per_step]"
COUNT = "sum(int((targets != -100).sum()) for _, targets in group)"
ZERO, BEGIN = "optimizer.zero_grad()", "mean_loss = 0.0"
SUMMED, SHARE = 'reduction="sum"', " / num_targets"
BACKWARD, NOTE = "loss.backward()", "mean_loss += loss.item()"
CLIP = "norm = clip_grad_norm_(model.parameters(), max_norm)"
MEASURE = CLIP.replace("max_norm)", "math.inf)")
LOSS_IS_FINITE, NORM_IS_FINITE = "math.isfinite(mean_loss)", "math.isfinite(norm)"
STEP, SCHEDULE = "optimizer.step()", "scheduler.step()"
REPORT = "results.append(mean_loss if is_step else None)"
RESULTS = "results: list[float | None] = []"
MEANS = {SUMMED: 'reduction="mean"'}
TRACK = ("not_numbers", "steps", "schedule_steps", "right_steps", "weights_moved")

GUARD = f"{LOSS_IS_FINITE} and {NORM_IS_FINITE}"
BUT_ONE, BUT_TWO = 2.5, 2.0
HELD = (
    "The activations of a micro-batch are still there while the next one runs. What do you tell "
    "backward, and what lives on between two rounds of your loop?"
)
ALL_HELD = (
    "The activations of all micro-batches of a group are held at once. When does backward go "
    "through each of them, and does it free them?"
)
EDITS = (
    Edit(
        "A group without targets makes a step of the optimizer. What can it have learned?",
        {SHARE: " / max(1, num_targets)"},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "A group makes a step though its loss is not finite: its gradient happens to be. Which two "
        "numbers have to be?",
        {GUARD: NORM_IS_FINITE},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "The loss is finite, and the gradient that goes into the weights is not. Which two numbers "
        "have to be?",
        {GUARD: LOSS_IS_FINITE},
        BUT_ONE,
        shows=("not_numbers",),
    ),
    Edit(
        "A group makes a step though its loss or its gradient is not finite, and the weights stay "
        "broken. What do you look at before the optimizer steps?",
        {GUARD: "True"},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "The group that makes no step is the last that you look at. What happens to those after "
        "it?",
        {REPORT: f"{REPORT}\n        if not is_step:\n            break"},
        BUT_ONE,
        shows=("steps", "schedule_steps"),
    ),
    Edit(
        "The optimizer steps after every micro-batch. What is a step made of here?",
        {
            f"{STEP}\n": "pass\n",
            BACKWARD: f"{BACKWARD}\n            {STEP}\n            {ZERO}",
        },
        shows=("steps",),
    ),
    Edit(
        "What is wrong comes after a group that made no step. What of it is left in the gradients "
        "when the next one begins?",
        {
            RESULTS: f"{RESULTS}\n    model.zero_grad()",
            f"{ZERO}\n": "pass\n",
            SCHEDULE: f"{SCHEDULE}\n            {ZERO}",
        },
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "The first step is wrong where gradients were there before you began. When do you set them "
        "to zero for the first time?",
        {f"{ZERO}\n": "pass\n", REPORT: f"{REPORT}\n        {ZERO}"},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "You set gradients to zero only after a step. What is in them before your first group, and "
        "what after a group that made no step?",
        {f"{ZERO}\n": "pass\n", SCHEDULE: f"{SCHEDULE}\n            {ZERO}"},
        BUT_TWO,
        shows=TRACK,
    ),
    Edit(
        "The last group has fewer micro-batches, and no step is made with it. Why throw it away?",
        {STARTS: STARTS.replace("micro_batches),", "micro_batches) + 1 - micro_batches_per_step,")},
        BUT_ONE,
        shows=("steps",),
    ),
    Edit(
        "The scheduler advances with every micro-batch. What does it count, and how soon is the "
        "learning rate at its end?",
        {f"            {SCHEDULE}\n": "", NOTE: f"{NOTE}\n            {SCHEDULE}"},
        shows=("schedule_steps",),
    ),
    Edit(
        "The scheduler never advances. Where does the learning rate change?",
        {SCHEDULE: "pass"},
        shows=("schedule_steps",),
    ),
    Edit(
        "The scheduler also advances with groups that make no step. What does it count?",
        {f"            {SCHEDULE}": f"        {SCHEDULE}"},
        BUT_ONE,
        shows=("schedule_steps",),
    ),
    Edit(
        "The scheduler also advances with groups that make no step, and an infinite gradient makes "
        "one. Which two numbers do you look at, and what depends on them?",
        {GUARD: LOSS_IS_FINITE, f"            {SCHEDULE}": f"        {SCHEDULE}"},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "The learning rate of each step is already that of the next. Who goes first, the optimizer "
        "or the scheduler?",
        {f"{STEP}\n            {SCHEDULE}": f"{SCHEDULE}\n            {STEP}"},
        BUT_TWO,
        shows=TRACK,
    ),
    Edit(
        "Every micro-batch counts the same in a group, and its targets differ. By what is the mean "
        "of all targets of a group divided?",
        {**MEANS, SHARE: " / len(group)"},
        shows=TRACK,
    ),
    Edit(
        "The means of the micro-batches are added up. How does the mean over all "
        "targets of the group differ from that sum?",
        {**MEANS, SHARE: ""},
        shows=TRACK,
    ),
    Edit(
        "The losses of all targets are added up, and the gradient grows with their number. Which "
        "mean does the exercise ask for?",
        {SHARE: ""},
        shows=TRACK,
    ),
    Edit(
        "You divide by all positions of the group, padding too. Which of them have a loss?",
        {COUNT: "sum(targets.numel() for _, targets in group)"},
        shows=TRACK,
    ),
    Edit(
        "Targets that are the word 0 do not count with you. Which number marks what is not to be "
        "learnt?",
        {COUNT: COUNT.replace("!= -100", "> 0")},
        shows=TRACK,
    ),
    Edit(
        "You divide by the targets of all groups. Whose loss goes into one step?",
        {COUNT: COUNT.replace("in group", "in micro_batches")},
        shows=TRACK,
    ),
    Edit(
        "You divide by the micro-batches of a whole group, also in the last. How many has that?",
        {SHARE: " / num_targets * len(group) / micro_batches_per_step"},
        BUT_ONE,
        shows=TRACK,
    ),
    *(
        Edit(
            "The gradient is clipped after every micro-batch, before it is complete. When does it "
            "become that of the group?",
            {BACKWARD: f"{BACKWARD}\n            {CLIP}", **others},
            BUT_ONE,
            shows=TRACK,
        )
        for others in ({f"        {CLIP}\n        is": "        is"}, {})
    ),
    Edit(
        "Each tensor is clipped by itself, which turns the gradient. Of which vector is the norm?",
        {
            CLIP: f"{MEASURE}\n        for p in model.parameters():\n"
            "            clip_grad_norm_(p, max_norm)"
        },
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "The gradient is not clipped, or too late. What is its norm when the optimizer steps?",
        {CLIP: MEASURE},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "Every number of the gradient is clipped by itself, which turns it. What is to be no "
        "longer than the norm?",
        {CLIP: f"{MEASURE}\n        torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)"},
        BUT_ONE,
        shows=TRACK,
    ),
    Edit(
        "Only the last micro-batch of each group moves the weights. When do you set gradients to "
        "zero?",
        {BACKWARD: f"model.zero_grad()\n            {BACKWARD}"},
        shows=TRACK,
    ),
    Edit(
        "The gradient of one parameter is never set to zero. Which parameters does your line go "
        "through, and which does the model have?",
        {f"{ZERO}\n": "for p in [*model.parameters()][:-1]:\n            p.grad = None\n"},
        shows=TRACK,
    ),
    Edit(
        "The gradients of a group are still there in the next one. When do you set them to zero?",
        {f"{ZERO}\n": "pass\n"},
        shows=TRACK,
    ),
    Edit(
        "The weights are right, and your list has not one entry for each group. What do you add "
        "for a group that makes no step?",
        {REPORT: f"if is_step:\n            {REPORT}"},
        BUT_ONE,
        shows=("results",),
    ),
    *(
        Edit(
            "The weights are right, and groups that make no step are not reported as the exercise "
            "wants it. What stands in the list for them?",
            {REPORT: f"results.append({entry})"},
            BUT_ONE,
        )
        for entry in ("mean_loss", "mean_loss if is_step else 0.0")
    ),
    Edit(
        "The weights are right, and you report the loss of the last micro-batch only. Where do you "
        "add the others?",
        {NOTE: "mean_loss = loss.item()"},
    ),
    Edit(
        "The weights are right, and you report sums of losses. Over which targets goes the mean of "
        "a group?",
        {NOTE: "mean_loss += loss.item() * num_targets"},
    ),
    Edit(
        "The weights are right, and your list has tensors for losses. Which type does the exercise "
        "ask for, and what makes a number of a tensor?",
        {NOTE: "mean_loss = mean_loss + loss.detach()"},
    ),
    Edit(
        "All micro-batches of a group go through the model as one batch, with all their "
        "activations. Why does the exercise hand it to you in pieces?",
        {
            GROUP: f"{GROUP}\n        longest = max(each.shape[1] for each, _ in group)\n"
            "        group = [tuple(torch.cat([F.pad(each, (0, longest - each.shape[1]), "
            "value=filler) for each in some]) for some, filler in zip(zip(*group), (0, -100)))]"
        },
        BUT_ONE,
        shows=("sequences_too_many",),
    ),
    Edit(
        ALL_HELD,
        {
            BACKWARD: "mean_loss = mean_loss + loss",
            f"            {NOTE}\n": "",
            CLIP: f"mean_loss.backward()\n        mean_loss = mean_loss.item()\n        {CLIP}",
        },
        BUT_ONE,
        shows=("micro_batches_held",),
    ),
    Edit(HELD, {BACKWARD: "loss.backward(retain_graph=True)"}, BUT_ONE),
)

CHECK = Check(
    cases=train_cases,
    observe=train.observe,
    judge=Behaviour(
        measured,
        *edited("u08-train", EDITS, observe=train.observe),
        summarise=train.summarise,
        scenarios=SCENARIOS,
        questions={
            "steps": "The optimizer takes another number of steps. After which micro-batches is a "
            "group full, and what of the last group?",
            "schedule_steps": "The scheduler takes another number of steps. Which event does it "
            "count?",
            "clipping": "Wrong only where gradients are clipped. Of which sum is the norm taken, "
            "and at which moment?",
            "wrong_results": "What is each entry of the list, and from which moment are its "
            "numbers?",
        },
        labels=train.LABELS,
        relative_tolerance=TOLERANCE,
    ),
    fallback="course_utils.reference.accumulation.train",
    answers=(
        "course_utils.reference.accumulation.train",
        "course_utils.reference.accumulation._step",
        "course_utils.reference.accumulation.sum_of_losses",
    ),
    allowed_names=borrowed_code.TOKEN_LOSS,
)
