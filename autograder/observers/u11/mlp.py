"""A gated MLP on several ranks."""

from typing import Any

from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import cluster_of
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data
from autograder.observers.u11.blocks import (
    Weights,
    flops_facts,
    input_facts,
    observe_block,
    random_block,
    result_facts,
    silent_block,
    weight_fact,
)
from autograder.observers.u11.named_errors import error_as_number, with_error
from autograder.observers.u11.passes import traffic

SCENARIOS = ("even", "uneven")
ABSENT = "absent_part"


def tensors_of(case: Case) -> tuple[Tensor, Weights]:
    """The input and the whole weights."""
    h, f = case["hidden_size"], case["ffn_size"]
    shapes = {"x": (case["num_tokens"], h), "gate": (f, h), "up": (f, h)}
    return random_block({**shapes, "down": (h, f), "bias": (h,)}, seed=10 * h + f)


@errors_as_data
@error_as_number(ABSENT, IndexError, "index out of range")
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradients of each rank, and all calls."""
    return observe_block(case["num_ranks"], lambda: tensors_of(case), answer)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Calls and FLOPs on the judge's cluster; results and gradients beside the right ones.

    The gradient of the bias, which all ranks use whole, is the right one on each.
    """
    absent = Fact(
        ABSENT,
        observed.get(ABSENT, 0),
        "An index asks for a part that is not there.",
        "Into how many pieces does your line cut nine hidden units for four ranks?",
    )
    block = silent_block(case, right) if absent.value else observed
    run, forged_calls = replay(block["logs"], cluster_of(case["num_ranks"]))
    of_bias = [each["weights"]["bias"] for each in block["ranks"]]
    others = [
        forged(forged_calls),
        *traffic(
            run,
            ["all_reduce"],
            ask_of_forward="Where in forward do ranks hold parts of one sum, and how many such "
            "places are there?",
            ask_of_backward="How often does x enter the block, and what does f do in backward?",
        ),
        *result_facts(
            block,
            right,
            "With two hidden units on two ranks: which numbers does each rank need to make its "
            "part of the result?",
        ),
        *input_facts(block, right),
        weight_fact("gate", "rows", block, right),
        weight_fact("up", "rows", block, right),
        weight_fact("down", "columns", block, right),
        Fact(
            "wrong_bias",
            num_different(of_bias, [right["weights"]["bias"]] * len(of_bias)),
            "ranks whose gradient of the bias is wrong",
            "Is the bias added before g or after g, and which gradient reaches the bias on each "
            "rank?",
        ),
        *flops_facts(
            run,
            case["num_ranks"],
            ask_of_forward="Which of the three products still works on all hidden units?",
            ask_of_backward="Each of the three products needs two more in backward. Which of those "
            "are missing, doubled, or made for hidden units of other ranks?",
        ),
    ]
    return with_error(absent, others, right)
