"""Check of gradients summed after the backward pass, in one call for each parameter."""

import functools

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.after_backward import (
    ADD_BACK,
    BACKWARD,
    GRADIENTS,
    LABELS,
    NOT_REACHED,
    ONLY_NEW,
    SCENARIOS,
    SET_ASIDE,
    TRAINERS,
    cases_of,
    edits,
    measured,
)
from autograder.observing.u09 import after_backward

CALL = "comm.all_reduce(gradient)"
LOOP = f"for gradient in {GRADIENTS}:\n        {CALL}"
EDITS = (
    *edits("gradient", but_one=1.5, but_two=1.0, but_shared=0.5),
    Edit(
        "Afterwards grad is None. What gives back a call that works in place, and where do you put "
        "it?",
        {
            LOOP: f"{GRADIENTS}\n    for p in model.parameters():\n"
            "        if p.requires_grad:\n            p.grad = comm.all_reduce(p.grad)"
        },
        shows=("missing",),
    ),
    Edit(
        "The ranks make one call more than there are gradients to sum. Which number of the ranks "
        "does nobody need?",
        {BACKWARD: f"{BACKWARD}\n    comm.all_reduce(loss.detach())"},
        shows=("calls",),
    ),
    Edit(
        ONLY_NEW,
        {
            BACKWARD: SET_ASIDE,
            CALL: f"{CALL}\n    {ADD_BACK}",
        },
        points=1.5,
        shows=("length",),
    ),
    Edit(NOT_REACHED, {CALL: "comm.all_reduce(gradient.clone())"}),
    Edit(
        "Every rank sums what is in grad before it runs backward, and adds its own share "
        "afterwards. What must be in grad when the calls are made?",
        {f"{BACKWARD}\n": "\n", CALL: f"{CALL}\n    {BACKWARD}"},
    ),
    Edit(
        "Twice as many calls as parameters. What does a sum that is summed again hold?",
        {CALL: f"{CALL}; {CALL}"},
        shows=("calls",),
    ),
    Edit(
        "One call where the exercise asks for one for each parameter. Which exercise does that?",
        {LOOP: f"comm.all_reduce(torch.cat([each.flatten() for each in {GRADIENTS}]))"},
        shows=("calls",),
    ),
)

CHECK = Check(
    cases=functools.partial(cases_of, SCENARIOS),
    observe=after_backward.observe,
    judge=Behaviour(
        measured,
        *edited("u09-each", EDITS, observe=after_backward.observe),
        summarise=after_backward.summarise,
        scenarios=SCENARIOS,
        questions={
            "calls": "How many parameters require a gradient, and how often is each of them sent?",
            "missing": "A gradient is None afterwards. Which given function makes zeros of it, "
            "and on which ranks?",
            "length": "The gradient has another length. What is in grad before the call, and is "
            "anything divided?",
            "frozen": "Wrong only with a frozen parameter. Which parameters take part, and which "
            "stay as they are?",
        },
        labels=LABELS,
    ),
    fallback="course_utils.reference.gradient_sync.backward_each",
    answers=TRAINERS,
)
