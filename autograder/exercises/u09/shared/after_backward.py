"""Gradients summed after the backward pass, in one call for each parameter or in one for all."""

import random
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.exercises.model_answers import Edit
from autograder.exercises.u09.shared.backward_steps import BUCKETERS
from autograder.observing.observation import length_of
from autograder.observing.replay import LABELS as REPLAY_LABELS
from autograder.observing.u09.after_backward import (
    Net,
    frozen,
    gradients_of,
    losses_of,
    ranks_of,
    trained,
)

SCENARIOS = ("all used", "unused on a rank", "frozen", "gradients before")
FIELDS = ("scenario", "num_ranks", "width", "num_layers", "is_bias_shared", "is_transposed")
NUM_CASES = 20
MOST_RANKS = 4

LABELS = REPLAY_LABELS | {
    "missing": "gradients that are None afterwards",
    "other_shapes": "gradients that lack their parameter's shape",
    "calls": "calls to the other ranks",
    "bytes": "bytes in these calls",
    "length": "the length of rank 0's gradient",
    "length_on_last": "the length of the last rank's gradient",
    "changed_frozen": "frozen parameters whose grad has changed, on all ranks",
    "wrong_ranks": "ranks without the gradient of the whole batch",
}

# What does the same, and so answers these exercises.
TRAINERS = ("course_utils.reference.gradient_sync", *BUCKETERS)


def cases_of(scenarios: tuple[str, ...], seed: int, transposed: tuple[str, ...] = ()) -> list[Case]:
    """Each scenario on one to four ranks, on four with a bias that two layers share.

    For memory, layers are large beside their inputs. In the scenarios called transposed a weight is
    stored so on four ranks.
    """
    rng = random.Random(seed)
    cases = [_case("all used", 2, 3, 2, False, False)]
    for scenario in scenarios:
        first = 2 if scenario == "unused on a rank" else 1  # alone, no other rank has a gradient
        for num_ranks in (first, 2, MOST_RANKS, 2, 3)[: NUM_CASES // len(scenarios)]:
            width = rng.randint(16, 24) if scenario == "memory" else rng.randint(2, 9)
            is_shared = num_ranks == MOST_RANKS and scenario != "memory"
            is_transposed = num_ranks == MOST_RANKS and scenario in transposed
            num_layers = 1 + (num_ranks == 2)
            cases.append(_case(scenario, num_ranks, width, num_layers, is_shared, is_transposed))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, computed on one rank; a call for each parameter."""
    model = Net(case)
    for rank in range(case["num_ranks"]):
        for loss in losses_of(model, case, rank):
            loss.backward()
    gradients = gradients_of(trained(model))
    return {
        "missing": 0,
        "other_shapes": 0,
        "calls": len(gradients),
        "bytes": sum(each.nbytes for each in trained(model)),
        "length": length_of(gradients),
        "length_on_last": length_of(gradients),
        "changed_frozen": 0,
        "wrong_ranks": 0,
        "forged_calls": 0,
        "gradients": gradients,
        "frozen": [gradients_of(frozen(each)) for each, _ in ranks_of(case)],
    }


BACKWARD, GRADIENTS = "loss.backward()", "gradients_or_zeros(model)"

NOT_REACHED = (
    "Rank 0 ends with the gradient of its own share: what comes over the links does not reach it. "
    "Into which tensors does your call write, and what are they to the parameters?"
)
ONLY_NEW = (
    "What was in grad before stays on its rank, and only the new part is summed. Which tensor has "
    "both, and from when on?"
)
SET_ASIDE = f"""before = [(p, p.grad) for p in model.parameters() if p.requires_grad]
    for p, _ in before:
        p.grad = None
    {BACKWARD}"""
ADD_BACK = """for p, old in before:
        p.grad = p.grad if old is None else p.grad + old"""
TOO_LONG = (
    "Too long by a factor, the number of ranks. Each loss is a share of the mean already, and "
    "shares add up: what is your factor for?"
)
TOO_SHORT = (
    "Too short by a factor, the number of ranks. Each loss is a share of the mean already: what "
    "does your division divide?"
)


def edits(tensor: str, but_one: float, but_two: float, but_shared: float) -> tuple[Edit, ...]:
    """Mistakes in both exercises.

    Args:
        tensor: What the model answer sums.
        but_one: Points of all scenarios but one.
        but_two: Points of all scenarios but two.
        but_shared: Points of the scenarios in which no gradient is shared.
    """
    call = f"comm.all_reduce({tensor})"
    return (
        Edit(
            "Only where two layers share a bias there is too much: it travels once for each of "
            "them. How many gradients has a parameter that two layers share?",
            {
                GRADIENTS: f"{GRADIENTS} and [p.grad for _, p in "
                "model.named_parameters(remove_duplicate=False) if p.requires_grad]"
            },
            points=but_shared,
            shows=("calls", "bytes"),
        ),
        Edit(
            "Half of the bytes. Which precision has what you send, and which have the gradients?",
            {call: f"comm.all_reduce({tensor}.float())"},
            shows=("bytes",),
        ),
        Edit(
            "Nothing goes over the links. What must the ranks tell each other, and is it there "
            "when your calls are made?",
            {call: "pass"},
            shows=("calls",),
        ),
        Edit(
            "Frozen parameters take part: they get gradients, or zeros travel for them. Which "
            "parameters want one?",
            {GRADIENTS: "gradients_or_zeros(model.requires_grad_())"},
            points=but_one,
            shows=("calls", "bytes"),
        ),
        Edit(
            "What was in the gradients before is lost. Who may set them to zero?",
            {BACKWARD: f"model.zero_grad()\n    {BACKWARD}"},
            points=but_two,
            shows=("length", "changed_frozen"),
        ),
        Edit(
            "Zeros take part where a rank has no gradient, and the sum that comes back is in no "
            "grad there. Where does the tensor of zeros belong before the call?",
            {
                GRADIENTS: "[torch.zeros_like(p) if p.grad is None else p.grad "
                "for p in model.parameters() if p.requires_grad]"
            },
            points=but_one,
            shows=("missing",),
        ),
        Edit(
            "This rank's own share is in the sum twice. How often does backward run?",
            {BACKWARD: "loss.backward(retain_graph=True)\n    loss.backward()"},
            shows=("length",),
        ),
        Edit(
            "A parameter that was frozen with a gradient in grad still takes part, and the ranks "
            "change it. What tells whether a parameter wants one?",
            {
                GRADIENTS: f"{GRADIENTS} and [p.grad for p in model.parameters() "
                "if p.grad is not None]"
            },
            points=but_one,
            shows=("calls", "bytes"),
        ),
        Edit(
            "All ranks end with the gradient of rank 0's share. Which call adds up what the ranks "
            "have, instead of giving what one of them has to all?",
            {call: f"comm.broadcast({tensor}, 0)"},
            shows=("length", "length_on_last"),
        ),
        Edit(
            "Backward never runs, and grad holds what was there before. Who fills it?",
            {BACKWARD: "pass"},
            shows=("length",),
        ),
        Edit(TOO_LONG, {call: f"{call}; {tensor} *= comm.size"}, shows=("length",)),
        Edit(TOO_LONG, {BACKWARD: "(loss * comm.size).backward()"}, shows=("length",)),
        Edit(TOO_SHORT, {call: f"{call}; {tensor} /= comm.size"}, shows=("length",)),
        Edit(TOO_SHORT, {BACKWARD: "(loss / comm.size).backward()"}, shows=("length",)),
    )
