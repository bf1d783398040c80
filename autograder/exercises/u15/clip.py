"""Check of a gradient that is clipped by the norm of the whole batch's."""

import random
from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import (
    LABELS,
    NOT_REACHED,
    RETURNS_NOTHING,
    TOO_SHORT,
    TRAINERS,
)
from autograder.observing.observation import length_of
from autograder.observing.u15 import clip
from autograder.observing.u15.clip import WITH_EPSILON

# What ranks do, and the limit over the norm of the whole gradient; none is a rank's own norm.
KINDS = (("equal", 0.4), ("mixed", 0.7), ("opposed", 4.0), ("mixed", 3.0), ("equal", 1.5))


def clipping_cases(seed: int) -> list[Case]:
    """Norms above the limit and below; ranks that agree, that nearly cancel, or neither.

    The limit lies between the norm of a rank and that of all where they cancel.
    """
    rng = random.Random(seed)
    cases = [_case("equal", 4, 2, 0.5)]
    for ranks in ((2, 3), (4, 2), (2, 4), (3, 2)):
        for number, (kind, times) in enumerate(KINDS):
            num_ranks = 2 if kind == "opposed" else ranks[number % 2]
            cases.append(_case(kind, num_ranks, rng.randint(2, 9), times))
    return [*cases, _case("mixed", 1, rng.randint(2, 9), 0.5)]


def _case(kind: str, num_ranks: int, width: int, times: float) -> Case:
    case = {"kind": kind, "num_ranks": num_ranks, "width": width}
    return case | {"max_norm": round(times * length_of(_gradients(case)), 6)}


def _gradients(case: Case) -> list[Tensor]:
    """The gradient of the whole batch by one rank."""
    model: nn.Module = clip.model_of(case)
    for rank in range(case["num_ranks"]):
        clip.loss_of(model, case, rank).backward()
    return [each.grad for each in model.parameters() if each.grad is not None]


def measured(**case: Any) -> dict[str, Any]:
    """Norm and clipping of the whole batch's gradient, and a call for each parameter."""
    gradients = _gradients(case)
    norm = length_of(gradients)
    scale = min(1.0, case["max_norm"] / norm)
    return {
        "forged_calls": 0,
        "missing": 0,
        "calls": len(gradients),
        "bytes": sum(each.nbytes for each in gradients),
        "length": norm * scale,
        "wrong_ranks": 0,
        "norm": norm,
        "norm_on_last": norm,
        "gradients": [each * scale for each in gradients],
    }


BACKWARD, CALL = "loss.backward()", "comm.all_reduce(each.grad)"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), max_norm)"
RETURN = f"return {CLIP}"
NORM = "nn.utils.get_total_norm([each.grad for each in model.parameters()])"
OWN_FACTOR = (
    "Ranks end with different gradients: each scales the sum by its own factor. Whose norm is in "
    "that factor?"
)
PER_RANK = (
    "With a smaller limit per rank the sum obeys the limit, but has another direction. Which "
    "gradient does one rank with all rows clip?"
)
TWICE = "You clip twice. What has the first clipping done to the direction?"
OWN = (
    "Each rank clips its own gradient. Their sum can have the limit's norm times the number "
    "of ranks, and another direction. Which gradient should obey the limit?"
)
SENT_NORM = (
    "You send a norm as well. Which norm can each rank compute by itself, once the gradients are "
    "summed?"
)
AFTER = (
    "The gradient is right, but you return its norm after clipping. Which norm tells whether "
    "anything was clipped?"
)
SCALED = "    if norm > max_norm:\n        for p in model.parameters():\n            p.grad *="
# Lengths that PyTorch's epsilon changes count as right: a mistake is known by what else is wrong.
ANY = ("length", "wrong_ranks", "norm", "norm_on_last")
EDITS = (
    Edit(
        "The gradient is right, but you return the norm of this rank's own part. When is the "
        "gradient complete?",
        {BACKWARD: f"{BACKWARD}\n    norm = {NORM}", RETURN: f"{CLIP}\n    return norm"},
        shows=("norm", "norm_on_last"),
    ),
    Edit(TWICE, {BACKWARD: f"{BACKWARD}\n    {CLIP}"}, shows=ANY),
    Edit(
        TWICE,
        {BACKWARD: f"{BACKWARD}\n    norm = {CLIP}", RETURN: f"{CLIP}\n    return norm"},
        shows=ANY,
    ),
    Edit(OWN, {BACKWARD: f"{BACKWARD}\n    norm = {CLIP}", RETURN: "return norm"}, shows=ANY),
    Edit(
        "Each rank clips its own gradient, and then you divide their sum. A rank's loss is already "
        "its share of the whole batch's: what is left to divide, and which gradient to clip?",
        {
            BACKWARD: f"{BACKWARD}\n    norm = {CLIP}",
            CALL: f"{CALL}\n        each.grad /= comm.size",
            RETURN: "return norm",
        },
        shows=ANY,
    ),
    Edit(
        PER_RANK,
        {
            BACKWARD: f"{BACKWARD}\n    max_norm /= comm.size\n    norm = {CLIP}",
            RETURN: "return norm",
        },
        shows=ANY,
    ),
    Edit(
        PER_RANK,
        {
            BACKWARD: f"{BACKWARD}\n    max_norm /= comm.size**0.5\n    norm = {CLIP}",
            RETURN: "return norm",
        },
        shows=ANY,
    ),
    Edit(
        "You clip after each call, when other parameters still have this rank's own gradient. When "
        "is the whole gradient complete?",
        {CALL: f"{CALL}\n        norm = {CLIP}", RETURN: "return norm"},
        shows=ANY,
    ),
    Edit(
        "Only rank 0 clips, so ranks end with different gradients. Which ranks take a step with "
        "theirs?",
        {
            RETURN: f"norm = {NORM}\n    if comm.rank == 0:\n        {CLIP}\n    return norm",
        },
        shows=ANY,
    ),
    Edit(
        "You leave the biases out of the norm. Which parameters make up the gradient?",
        {
            RETURN: "return nn.utils.clip_grad_norm_([p for p in model.parameters() if p.dim() > "
            "1], max_norm)"
        },
        shows=ANY,
    ),
    Edit(
        "You add up the norms of the parameters. How do the norms of two parts make the norm of "
        "the whole?",
        {
            RETURN: "norm = sum(p.grad.norm() for p in model.parameters())\n"
            f"{SCALED} max_norm / norm\n    return norm"
        },
        shows=ANY,
    ),
    Edit(AFTER, {RETURN: f"{CLIP}\n    return {NORM}"}, shows=ANY),
    Edit(AFTER, {RETURN: f"return {CLIP}.clamp(max=max_norm)"}, shows=ANY),
    Edit(
        OWN_FACTOR,
        {
            BACKWARD: f"{BACKWARD}\n    norm = {NORM}",
            RETURN: "for parameter in model.parameters():\n"
            "        parameter.grad *= min(1.0, float(max_norm / norm))\n    return norm",
        },
        shows=("length",),
    ),
    Edit(
        "You clip each parameter by its own norm. What is the norm of a model's gradient?",
        {
            RETURN: f"norm = {NORM}\n    for parameter in model.parameters():\n"
            "        nn.utils.clip_grad_norm_([parameter], max_norm)\n    return norm"
        },
        shows=("length",),
    ),
    Edit(
        "You clip element by element. Which operation makes a gradient smaller and keeps its "
        "direction?",
        {
            RETURN: f"norm = {NORM}\n    nn.utils.clip_grad_value_(model.parameters(), max_norm)\n"
            "    return norm"
        },
        shows=("length",),
    ),
    Edit(
        "Gradients below the limit grow. When should clipping do nothing?",
        {
            RETURN: f"norm = {NORM}\n    for parameter in model.parameters():\n"
            "        parameter.grad *= max_norm / norm\n    return norm"
        },
        shows=("length",),
    ),
    Edit(
        "You add up the ranks' squared norms, as if each rank held a shard of the gradient. What "
        "do ranks hold here: shards, or terms of a sum?",
        {
            BACKWARD: f"{BACKWARD}\n    norm = {NORM} ** 2\n    comm.all_reduce(norm)\n"
            "    norm = norm.sqrt()",
            RETURN: "for parameter in model.parameters():\n"
            "        parameter.grad *= min(1.0, float(max_norm / norm))\n    return norm",
        },
    ),
    Edit(
        SENT_NORM,
        {
            BACKWARD: f"{BACKWARD}\n    norm = {CLIP}",
            RETURN: "comm.all_reduce(norm)\n    return norm",
        },
        shows=("calls", "bytes", *ANY),
    ),
    Edit(
        SENT_NORM,
        {
            RETURN: f"norm = {CLIP}\n    comm.all_reduce(norm)\n    return norm / comm.size",
        },
        shows=("calls", "bytes"),
    ),
    Edit(TOO_SHORT, {CALL: f"{CALL}\n        each.grad /= comm.size"}),
    Edit(NOT_REACHED, {CALL: "comm.all_reduce(each.grad.clone())"}, shows=ANY),
    Edit(
        "Nothing is clipped. Which of your lines changes the gradient?", {RETURN: f"return {NORM}"}
    ),
)

CHECK = Check(
    cases=clipping_cases,
    observe=clip.observe,
    judge=Behaviour(
        measured,
        *edited("u15-clip", EDITS, observe=clip.observe),
        summarise=clip.summarise,
        relative_tolerance=WITH_EPSILON,
        questions={
            "missing": RETURNS_NOTHING,
            "calls": "How many calls are needed until every rank can compute the norm by itself?",
            "length": "Which gradient should obey the limit, and when is it complete?",
            "norm": "Which gradient's norm do you return?",
        },
        labels=LABELS
        | {
            "norm": "the norm that rank 0 returns",
            "norm_on_last": "the norm that the last rank returns",
            "wrong_ranks": "ranks without the clipped gradient of the whole batch",
        },
    ),
    answers=TRAINERS,
)
