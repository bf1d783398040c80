"""Check of gradients summed after the backward pass, in one call for all."""

import functools
from typing import Any

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared import after_backward
from autograder.exercises.u09.shared.after_backward import (
    ADD_BACK,
    BACKWARD,
    LABELS,
    NOT_REACHED,
    ONLY_NEW,
    SET_ASIDE,
    TRAINERS,
    cases_of,
)
from autograder.observing.u09 import flat

SCENARIOS = (*after_backward.SCENARIOS, "memory")


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, in one call, with one buffer besides the gradients."""
    numbers = {"calls": 1, "overwritten": 0, "sets_at_peak": 2, "sets_afterwards": 1}
    return after_backward.measured(**case) | numbers


CALL, COPY = "comm.all_reduce(buffer)", "each.copy_(part.view_as(each))"
FLATTENED = "[each.flatten() for each in gradients]"
JOIN = f"torch.cat({FLATTENED})"
SPLIT = "summed = buffer.split([each.numel() for each in gradients])"
LOOP = "for each, part in zip(gradients, summed, strict=True):"
TOTAL = "sum(each.numel() for each in gradients)"
EDITS = (
    *after_backward.edits("buffer", but_one=1.6, but_two=1.2, but_shared=0.8),
    Edit(NOT_REACHED, {COPY: "pass"}),
    Edit(
        "Where a weight is stored transposed its sum is lost. When does a reshape give a view of "
        "the gradient, and when a copy that nobody keeps?",
        {COPY: "each.reshape(-1).copy_(part)"},
        points=1.6,
    ),
    Edit(
        "Parts begin in wrong places. By how many numbers does the beginning move on after a "
        "matrix of four rows and three columns, and what is its len?",
        {
            SPLIT: "start = 0",
            LOOP: "for each in gradients:\n        part = buffer[start : start + each.numel()]\n"
            "        start += len(each)",
        },
    ),
    Edit(
        "Some numbers too many travel, so that the ranks divide the buffer. Which of the ranks "
        "needs a part of its own, if one call sums all?",
        {
            JOIN: f"torch.cat([*{FLATTENED}, gradients[0].new_zeros(-{TOTAL} % comm.size)])",
            SPLIT: SPLIT.replace("buffer", f"buffer[: {TOTAL}]"),
        },
        shows=("bytes",),
    ),
    Edit(
        ONLY_NEW,
        {BACKWARD: SET_ASIDE, COPY: f"{COPY}\n    {ADD_BACK}"},
        points=1.6,
        shows=("length",),
    ),
    Edit(
        "A call for a second model changes the gradients of the first. Whose memory are the views "
        "in grad, and who writes into it next?",
        {
            f"buffer = {JOIN}": "key = f'rank {comm.rank} of {comm.size}, {"
            + TOTAL
            + "} numbers'\n"
            f"    buffer = vars(backward_flat).setdefault(key, gradients[0].new_empty({TOTAL}))\n"
            f"    torch.cat({FLATTENED}, out=buffer)",
            COPY: "each.data = part.view_as(each)",
        },
        points=1.6,
        shows=("overwritten",),
    ),
    Edit(
        "There is still a call for each parameter. What is one tensor that holds them all?",
        {CALL: "for each in gradients:\n        comm.all_reduce(each.contiguous())"},
        shows=("calls",),
    ),
    Edit(
        "Two calls. What does a sum that is summed again hold?",
        {CALL: f"{CALL}; {CALL}"},
        shows=("calls",),
    ),
    Edit(
        "The sums are added to what each rank has of its own already. Which operation puts new "
        "numbers in the place of old ones?",
        {COPY: "each.add_(part.view_as(each))"},
    ),
    Edit(
        "The numbers are right, and each grad is a row of numbers now. Which shape has the "
        "parameter that it belongs to?",
        {COPY: "each.data = part"},
    ),
    Edit(
        "The gradient has the right length and points elsewhere: its numbers are in wrong places. "
        "In which order do they enter the buffer, and in which do they leave it?",
        {JOIN: "torch.cat([each.flatten() for each in reversed(gradients)])"},
    ),
    Edit(
        "At the peak there are three sets of gradients. Which copy of them is neither the buffer "
        "nor what backward made?",
        {
            f"buffer = {JOIN}": "parts = [each.clone().flatten() for each in gradients]\n"
            "    buffer = torch.cat(parts)"
        },
        points=1.6,
    ),
    Edit(
        "Two sets of gradients are left when all is over. Who still holds the buffer?",
        {CALL: f"{CALL}; model.kept = buffer"},
        points=1.6,
    ),
)

CHECK = Check(
    cases=functools.partial(cases_of, SCENARIOS, transposed=("gradients before",)),
    observe=flat.observe,
    judge=Behaviour(
        measured,
        *edited("u09-flat", EDITS, observe=flat.observe),
        summarise=flat.summarise,
        scenarios=SCENARIOS,
        questions={
            "calls": "One call, one buffer. What travels besides?",
            "length": "The gradient has another length. What is in the buffer, and who brings the "
            "sums back?",
            "sets_at_peak": "Gradients and buffer are two sets. Which third one is there for a "
            "moment?",
            "sets_afterwards": "One set should be left. Which name of yours still holds the other?",
        },
        labels=LABELS
        | {
            "overwritten": "gradients of a first model that a call for a second one changes",
            "sets_at_peak": "sets of gradients at the peak",
            "sets_afterwards": "sets of gradients afterwards",
        },
    ),
    fallback="course_utils.reference.gradient_sync.backward_flat",
    answers=TRAINERS,
)
