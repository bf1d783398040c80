"""Check of the student's own checkpoint: its bytes, calls, results and gradients."""

import random
from typing import Any

from autograder.checking import error_hints
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u05 import checkpoint
from autograder.observing.u05.checkpoint import LATE
from course_utils.instruments import storage_bytes

# The kinds of each scenario: how many inputs, what is drawn at random, which inputs require a
# gradient, and which precision autocast has.
KINDS = {
    "gradients": ("one input", "two inputs", "three inputs"),
    "random": ("dropout", "noise"),
    "frozen_inputs": ("data and a scale", "a mask", "data alone"),
    "autocast": ("bfloat16", "float16", "off", LATE),
}


def checkpoint_cases(seed: int) -> list[Case]:
    """Every kind for one layer and for chains of two and three."""
    rng = random.Random(seed)
    cases = []
    for scenario, kinds in KINDS.items():
        for kind, num_layers in ((kind, n) for kind in kinds for n in (1, rng.randint(2, 3))):
            rows, width = rng.randint(8, 11), rng.randrange(5, 11, 2)
            if scenario == "autocast":
                rows, width = 8 * rng.randint(1, 4), 8  # a new size takes ten milliseconds
            cases.append(_case(scenario, kind, num_layers, rows, width))
    return [cases[0] | {"rows": 2, "width": 3}, *cases[1:]]


def _case(*values: Any) -> Case:
    return dict(zip(("scenario", "kind", "num_layers", "rows", "width"), values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """Each layer called once in each pass, nothing kept but the layers' inputs.

    All else is as if nothing were recomputed.
    """
    x, *scales = checkpoint.inputs_of(case)
    return dict.fromkeys(checkpoint.LABELS, 0) | {
        "calls_in_forward": case["num_layers"],
        "calls_in_backward": case["num_layers"],
        "kept_bytes": case["num_layers"] * storage_bytes(x) + sum(map(storage_bytes, scales)),
        **checkpoint.plain_numbers(case),
    }


# Places of the model answer.
RUN, SAVE = "return function(*tensors)", "ctx.save_for_backward(*tensors)"
APPLY = "return Recomputed.apply(torch.empty(0, requires_grad=True), *tensors)"
RETURN, GRADIENTS = "return None, *(t.grad for t in fresh)", "*(t.grad for t in fresh)"
SAVED, WANTED = "ctx.saved_tensors, wanted, strict=True", "ctx.needs_input_grad[1:]"
WISH, AGAIN = ".requires_grad_(w)", "result = function(*fresh)"
FILL_IN = "torch.autograd.backward(result, upstream)"
STATE = "ctx.random_state = torch.get_rng_state()"
FIRST_NUMBERS, LATER_NUMBERS = (
    "torch.set_rng_state(ctx.random_state)",
    "torch.set_rng_state(state_now)",
)
CAST = 'torch.autocast("cpu", dtype=ctx.cast_type, enabled=ctx.is_cast)'

NOTHING_FLOWS = ("calls_in_backward", "kept_bytes")
# Nothing that requires a gradient is handed to `apply` beside the inputs.
WITHOUT_FLAG = {
    "forward(ctx, wants_gradient, *tensors)": "forward(ctx, *tensors)",
    WANTED: "ctx.needs_input_grad",
    RETURN: "return tuple(t.grad for t in fresh)",
    APPLY: "return Recomputed.apply(*tensors)",
}
WISHES = (".requires_grad_()", ".requires_grad_(t.is_floating_point())")
GRADIENTS_OF = ("wrong_gradients_of_inputs", "wrong_gradients_of_parameters")
OTHER_PRECISION = ("calls_in_other_precision",)

OTHER_NUMBERS = (
    "Gradients are wrong where the function draws random numbers. Which ones does the second run "
    "draw, and which did the first?"
)
EDITS = (
    Edit(
        "Where no input requires a gradient, autograd sees no need for one and never calls your "
        "backward. What requires one all the same, and what could you hand to `apply` so that "
        "autograd sees it?",
        WITHOUT_FLAG,
        points=3.0,
        shows=NOTHING_FLOWS,
    ),
    *(
        Edit(
            error_hints.REQUIRED_BEFORE,
            WITHOUT_FLAG | {WISH: wish},
            points=3.0,
            shows=(*NOTHING_FLOWS, "frozen_inputs_that_want_gradients"),
        )
        for wish in WISHES
    ),
    *(
        Edit(
            error_hints.SHIFTED,
            {SAVED: "ctx.saved_tensors, wanted", WANTED: shifted},
            points=points,
        )
        for shifted, points in (
            ("ctx.needs_input_grad", 3.0),
            ("(False, *ctx.needs_input_grad)", 0.0),
        )
    ),
    Edit(
        error_hints.CAPTURED,
        {
            APPLY: "whole, others = function, tensors[1:]\n"
            "    function = lambda first: whole(first, *others)\n"
            f"    {APPLY.replace('*tensors', 'tensors[0]')}"
        },
        points=2.0,
        shows=("kept_bytes",),
    ),
    Edit(
        "Autograd was given nothing to keep. Where do your tensors live until backward, and which "
        "method of `ctx` is made for them?",
        {SAVE: "ctx.tensors = tensors", "ctx.saved_tensors": "ctx.tensors"},
        shows=("kept_bytes",),
    ),
    Edit(
        "Nothing is kept, and no gradient flows: the result does not know how it was made. What, "
        "beside running without recording, tells autograd what to do in backward?",
        {APPLY: f"with torch.no_grad():\n        {RUN}"},
        shows=NOTHING_FLOWS,
    ),
    Edit(
        "The function runs once, and all that it makes on the way stays. What may be freed, and "
        "how would backward get it again?",
        {APPLY: RUN},
        shows=NOTHING_FLOWS,
    ),
    Edit(
        "One tensor more than the inputs is kept, as large as the result. Can backward make it "
        "again?",
        {
            SAVE: "result = function(*tensors)\n"
            "            ctx.save_for_backward(*tensors, result)",
            RUN: "return result",
            SAVED: "ctx.saved_tensors, wanted",
        },
        shows=("kept_bytes",),
    ),
    Edit(
        "You keep copies: an input that several functions share lies in memory once for each. "
        "Which tensors does the exercise want kept?",
        {SAVE: "ctx.save_for_backward(*(t.clone() for t in tensors))"},
        points=2.0,
        shows=("kept_bytes",),
    ),
    Edit(
        "The result stays in memory as long as its graph, though nobody asks for it. What does "
        "your `ctx` hold on to, and does backward need it?",
        {RUN: "ctx.result = function(*tensors)\n            return ctx.result"},
        shows=("results_that_stay",),
    ),
    Edit(
        "The second run's result outlives your backward: it stays in memory until the whole graph "
        "is freed. What still refers to it when backward returns?",
        {FILL_IN: f"{FILL_IN}\n            ctx.result = result"},
        shows=("second_results_that_stay",),
    ),
    Edit(
        "The first pass calls each function twice. How often may the forward pass call it, and "
        "when is the second time?",
        {RUN: f"function(*tensors)\n            {RUN}"},
        shows=("calls_in_forward",),
    ),
    Edit(
        "Each function runs three times: once in forward and twice in backward. Which lines of "
        "your backward call it, and can one run give all the gradients?",
        {AGAIN: f"function(*fresh)\n                {FIRST_NUMBERS}\n                {AGAIN}"},
        shows=("calls_in_backward",),
    ),
    Edit(
        "In backward a function of several inputs runs once for each of them. Can one run give "
        "all their gradients?",
        {
            AGAIN: "for _ in fresh:\n"
            f"                    {FIRST_NUMBERS}\n                    {AGAIN}"
        },
        points=2.0,
        shows=("calls_in_backward",),
    ),
    *(
        Edit(
            error_hints.REQUIRED_BEFORE,
            {WISH: wish},
            points=3.0,
            shows=("frozen_inputs_that_want_gradients",),
        )
        for wish in WISHES
    ),
    Edit(
        "Under autocast to float16 the second run has another precision than the first. Which "
        "precision does autocast take if none is said, and where do you learn that of the first "
        "run?",
        {"dtype=ctx.cast_type, ": ""},
        points=3.0,
        shows=OTHER_PRECISION,
    ),
    Edit(
        "Where autocast begins only after the forward pass, the second run has it and the first "
        "did not. What does your backward do if autocast was off?",
        {
            CAST: 'torch.autocast("cpu", dtype=ctx.cast_type) if ctx.is_cast '
            "else torch.enable_grad()"
        },
        points=3.0,
        shows=OTHER_PRECISION,
    ),
    Edit(
        "Under autocast the second run has another precision than the first: backward is called "
        "when autocast is over. What must forward remember?",
        {CAST: "torch.enable_grad()"},
        points=3.0,
        shows=OTHER_PRECISION,
    ),
    Edit(
        "The second run has bfloat16 whatever the first had. Where do you learn what autocast was "
        "like in the first run?",
        {"dtype=ctx.cast_type, enabled=ctx.is_cast": "dtype=torch.bfloat16"},
        points=3.0,
        shows=OTHER_PRECISION,
    ),
    Edit(
        "The result itself is not that of the function: other random numbers were drawn. Which "
        "line sets the seed in your forward, and which numbers would have come without it?",
        {RUN: f"torch.manual_seed(0)\n            {RUN}", FIRST_NUMBERS: "torch.manual_seed(0)"},
        points=3.0,
        shows=("wrong_results",),
    ),
    Edit(
        "Gradients are right, and afterwards other random numbers come than without recomputation. "
        "Where does the generator stand when your backward returns, and where did it stand before?",
        {LATER_NUMBERS: "pass"},
        points=3.0,
        shows=("random_numbers_off",),
    ),
    Edit(
        "With one function gradients are right, with several only those of the last: all draw "
        "its random numbers again. Where do you store the generator's state, and for how many "
        "calls?",
        {
            STATE: STATE.replace("ctx.", "checkpoint."),
            FIRST_NUMBERS: FIRST_NUMBERS.replace("ctx.", "checkpoint."),
        },
        points=3.0,
        shows=GRADIENTS_OF,
    ),
    Edit(OTHER_NUMBERS, {FIRST_NUMBERS: "pass"}, points=3.0, shows=GRADIENTS_OF),
    Edit(
        "Inputs get their gradients, parameters none. Which tensors do you ask for gradients, "
        "and which call fills in those of all leaves?",
        {
            FILL_IN: "asked = [t for t in fresh if t.requires_grad]\n"
            "            grads = asked and torch.autograd.grad(result, asked, upstream)\n"
            "            grads = iter(grads)",
            GRADIENTS: "*(next(grads) if t.requires_grad else None for t in fresh)",
        },
        shows=("parameters_left_out",),
    ),
    Edit(
        "Gradients that parameters had before are lost. What should happen to the old `grad` "
        "when a new one comes, and which call does that by itself?",
        {
            FILL_IN: "leaves = [t for t in (*fresh, *function.parameters()) if t.requires_grad]\n"
            "            grads = torch.autograd.grad(result, leaves, upstream)\n"
            "            for leaf, grad in zip(leaves, grads):\n"
            "                leaf.grad = grad"
        },
        shows=("wrong_gradients_of_parameters",),
    ),
    Edit(
        "Only the first input gets its gradient. For which of the others does backward return one?",
        {GRADIENTS: "*(t.grad if t is fresh[0] else None for t in fresh)"},
        points=2.0,
        shows=("wrong_gradients_of_inputs",),
    ),
    Edit(
        "Copies of the inputs live on where autograd does not see them. Which attribute of "
        "`ctx` holds them, and does backward need them?",
        {SAVE: f"ctx.copies = [t.clone() for t in tensors]\n            {SAVE}"},
        shows=("unseen_bytes",),
    ),
    Edit(
        "Parameters of the last function get their gradients, and none goes on to the input. A "
        "detached tensor requires no gradient: how do you tell it to, so that backward fills in "
        "its `grad`?",
        {WISH: ""},
        shows=GRADIENTS_OF,
    ),
    Edit(
        "Every gradient is wrong. The loss is not the sum of your result: how much does each "
        "number of the result count in it, and who tells your backward?",
        {FILL_IN: "result.backward(torch.ones_like(result))"},
        shows=GRADIENTS_OF,
    ),
)

CHECK = Check(
    cases=checkpoint_cases,
    observe=checkpoint.observe,
    judge=Behaviour(
        measured,
        *edited("u05-checkpoint", EDITS, observe=checkpoint.observe),
        summarise=checkpoint.summarise,
        scenarios=tuple(KINDS),
        questions={
            "kept_bytes": "Which tensors live between the two passes, and which of them does the "
            "second run need?",
            "calls_in_backward": "How often should the function run again, and who calls it?",
            "wrong_results": "Does the second run see what the first one saw?",
            "wrong_gradients_of_inputs": "Which inputs does the second run record, and from which "
            "of its results do you go back?",
            "parameters_left_out": "Gradients of inputs can be asked for by name. How do those of "
            "parameters come about?",
            "random": "Wrong only with random numbers. From which state does the second run draw "
            "them, and what does the next draw after it see?",
            "autocast": "Wrong only under autocast. In which precision does the second run "
            "compute?",
        },
        labels=checkpoint.LABELS,
    ),
    fallback="course_utils.reference.recomputation.checkpoint",
    answers=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
