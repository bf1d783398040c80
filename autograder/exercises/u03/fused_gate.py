"""Check of a fused gate: right results, right gradients, fewer bytes kept."""

import random
from typing import Any

from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u03.shared.counters import COUNTERS
from autograder.observing.u03 import fused_gate
from autograder.observing.u03.fused_gate import (
    FROZEN,
    FROZEN_G,
    HALVES,
    LARGE,
    LEAVES,
    SINGLE,
    inputs_of,
)
from autograder.observing.u03.kept import BESIDE, LABELS, gradients_of

KINDS = ("", HALVES, FROZEN, SINGLE, FROZEN_G, LEAVES, LARGE)


def gate_cases(seed: int) -> list[Case]:
    """One row and many, two sides and three; of every kind, with large numbers among them."""
    rng = random.Random(seed)
    shapes = [[1, 3], [1, rng.randrange(5, 30, 2)]]
    shapes += [[rng.randint(1, 3), rng.randrange(3, 30, 2)] for _ in range(6)]
    shapes += [[rng.randint(4, 12), rng.randint(2, 12)] for _ in range(8)]
    shapes += [[rng.randint(2, 3), rng.randint(2, 4), rng.randrange(3, 9, 2)] for _ in range(8)]
    kinds = ("", "", *(KINDS[n % len(KINDS)] for n in range(len(shapes) - 2)))
    return [{"shape": s, "kind": kind} for s, kind in zip(shapes, kinds, strict=True)]


def measured(**case: Any) -> dict[str, Any]:
    """silu(g) * u, left to autograd; kept are the two inputs and nothing else."""
    g, u = inputs_of(case)
    result = F.silu(g) * u
    return {
        **dict.fromkeys(("wrong_results", "rounded_results", *BESIDE), 0),
        "saved_bytes": 2 * g.numel() * g.element_size(),
        "copied_bytes": 0,
        "unseen_bytes": 0,
        "result": result.detach(),
        "gradients": gradients_of(result, [g, u]),
    }


# Places of the model answer.
SAVE, RESULT, LOAD = "ctx.save_for_backward(g, u)", "return F.silu(g) * u", "g, u = ctx.saved"
OF_G, OF_U = "upstream * u * sigma * (1 + g * (1 - sigma))", "upstream * g * sigma"
APPLY, SIGMA = "Gate.apply(g, u)", "sigma = g.sigmoid()"
SKIP_LAST = {LOAD: "g, u, *_ = ctx.saved"}

SAVED, COPIED, UNSEEN = ("saved_bytes",), ("copied_bytes",), ("unseen_bytes",)
GRADIENTS = ("wrong_gradients",)
THREE = (
    "The numbers are right, but three tensors are kept. Which of them can be recomputed from "
    "the other two?"
)
NOWHERE = (
    "The numbers are right, but no instrument sees autograd save g and u. Where do your tensors "
    "live (on `ctx`, in a closure, behind hooks of your own), and who frees them?"
)
ONE_COPY = (
    "One of the tensors that you keep is neither g nor u. What does it cost if somebody else "
    "still holds g and u?"
)
BOTH_WRONG = (
    "The result is right, but both gradients are wrong. In which order does backward return "
    "them, and what is each multiplied by?"
)
ONE_WRONG = (
    "The result is right, but one gradient is wrong. What are the two derivatives of silu(g) * "
    "u, and what is each multiplied by?"
)
OVERFLOW = (
    "Only large numbers go wrong. What is exp(120) in float32, and what comes of infinity over "
    "infinity?"
)
NEARLY = (
    "Nearly: the first digits are right and the last are not. In which precision do g and u come, "
    "and in which do you compute?"
)
WRITES = "Your gate writes into g or u. Who else may still read them?"
EXP = "g.exp() / (1 + g.exp())"
EDITS = (  # those that go wrong in one kind of cases are asked about first
    *(
        Edit(OVERFLOW, {RESULT: f"return g * ({EXP}) * u"} | backward, shows=("wrong_results",))
        for backward in ({}, {SIGMA: f"sigma = {EXP}"})
    ),
    *(
        Edit(OVERFLOW, pieces, shows=GRADIENTS)
        for pieces in (
            {SIGMA: f"sigma = {EXP}"},
            {OF_G: "upstream * u * (sigma + g * (-g).exp() / (1 + (-g).exp()) ** 2)"},
            {OF_G: "upstream * u * (sigma + g * g.exp() / (1 + g.exp()) ** 2)"},
        )
    ),
    Edit(
        "Where only u wants a gradient you keep a tensor that is neither g nor u. Which of the two "
        "does the gradient of u need?",
        {APPLY: "Gate.apply(g, u) if g.requires_grad else F.silu(g) * u"},
        shows=(*SAVED, *COPIED),
    ),
    *(
        Edit(
            "Of a leaf, such as a parameter, you keep a copy. While the leaf itself stays in "
            "memory, what does a second one cost?",
            {SAVE: f"ctx.save_for_backward({saved})"},
            shows=(*SAVED, *COPIED),
        )
        for saved in (
            "g.clone() if g.is_leaf else g, u",
            "*(each.clone() if each.is_leaf else each for each in (g, u))",
        )
    ),
    Edit(
        NEARLY,
        {RESULT: "return (F.silu(g.float()) * u.float()).to(g.dtype)"},
        shows=("rounded_results",),
    ),
    *(
        Edit(NEARLY, pieces, shows=("rounded_gradients",))
        for pieces in (
            {SIGMA: "sigma = g.float().sigmoid().to(g.dtype)"},
            {OF_G: f"({OF_G}).float().to(g.dtype)"},
        )
    ),
    Edit(
        "Your backward pass writes into the gradient that comes in. Who else may get that very "
        "tensor, and which operation leaves it as it is?",
        {OF_U: "upstream.mul_(g * sigma)"},
        shows=("changed_upstream",),
    ),
    Edit(
        WRITES,
        {OF_G: "u.data.mul_(upstream).mul_(sigma * (1 + g * (1 - sigma)))"},
        shows=("changed_inputs",),
    ),
    Edit(
        "The result is not silu(g) * u. Which input goes through silu, and what is silu?",
        {RESULT: "return F.silu(u) * g"},
        shows=("wrong_results",),
    ),
    Edit(
        WRITES,
        {SAVE: f"{SAVE}; g.add_(0)"},
        shows=("changed_inputs",),
    ),
    Edit(THREE, {APPLY: "F.silu(g) * u"}, shows=SAVED),
    Edit(THREE, {SAVE: "ctx.save_for_backward(g, u, F.silu(g))", **SKIP_LAST}, shows=SAVED),
    Edit(
        "The numbers are right, but four tensors are kept. Which of them can be recomputed from "
        "the two inputs?",
        {SAVE: "ctx.save_for_backward(g, u, g.sigmoid(), F.silu(g))", **SKIP_LAST},
        shows=SAVED,
    ),
    Edit(NOWHERE, {SAVE: "ctx.kept = g, u", "ctx.saved_tensors": "ctx.kept"}, shows=SAVED),
    Edit(
        "Autograd saves only one of your two tensors. Where does the other one live, and who "
        "frees it?",
        {
            SAVE: "ctx.save_for_backward(g); ctx.u = u",
            "g, u = ctx.saved_tensors": "(g,), u = ctx.saved_tensors, ctx.u",
        },
        shows=SAVED,
    ),
    Edit(
        "Where g and u are parts of one tensor, you keep copies. Which operation copies only "
        "what is not contiguous?",
        {SAVE: "ctx.save_for_backward(g.contiguous(), u.contiguous())"},
        shows=COPIED,
    ),
    Edit(
        "You keep copies of g and u. If somebody else still holds the originals, how many extra "
        "tensors are in memory?",
        {SAVE: "ctx.save_for_backward(g.clone(), u.clone())"},
        shows=COPIED,
    ),
    Edit(ONE_COPY, {SAVE: "ctx.save_for_backward(g, u.clone())"}, shows=(*SAVED, *COPIED)),
    Edit(
        "Something that you made stays alive where autograd does not see it. Who holds it until "
        "backward, and does backward need it?",
        {SAVE: f"{SAVE}; ctx.sigma = g.sigmoid()"},
        shows=UNSEEN,
    ),
    Edit(BOTH_WRONG, {OF_G: OF_U, f", {OF_U}": f", {OF_G}"}, shows=GRADIENTS),
    *(
        Edit(ONE_WRONG, pieces, shows=GRADIENTS)
        for pieces in ({OF_G: "upstream * u * sigma * (1 - sigma)"}, {OF_U: "None"})
    ),
)

CHECK = Check(
    cases=gate_cases,
    observe=fused_gate.observe,
    judge=Behaviour(
        measured,
        *edited("u03-fused-gate", EDITS, observe=fused_gate.observe),
        summarise=fused_gate.summarise,
        questions={
            "wrong_results": "The result is wrong. Put in gate 0, and then a large one: what "
            "should come out?",
            "wrong_gradients": "The result is right, gradients are not. Derive both by hand for "
            "one number: which factor do you find?",
            "saved_bytes": "The numbers are right, the bytes are not. Which tensors does backward "
            "read, and which of these can it make again?",
            "unseen_bytes": "Something stays alive where autograd does not see it. Which name of "
            "yours holds it?",
        },
        labels=LABELS | {"wrong_results": "wrong results"},
    ),
    answers=(
        *COUNTERS,
        "course_utils.reference.fused.swiglu",
        "course_utils.reference.fused._SwiGLU",
    ),
)
