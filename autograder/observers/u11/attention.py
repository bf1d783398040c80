"""Attention with heads on several ranks."""

from typing import Any

from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
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

SCENARIOS = ("a key head for each query head", "grouped heads")
UNSERVED = "unserved_heads"


def tensors_of(case: Case) -> tuple[Tensor, Weights]:
    """The input and the whole weights."""
    h, d = case["hidden_size"], case["head_dim"]
    q, k = case["num_heads"] * d, case["num_kv_heads"] * d
    shapes = {"x": (case["num_tokens"], h), "q": (q, h), "k": (k, h), "v": (k, h), "o": (h, q)}
    return random_block(shapes, seed=10 * h + q)


@errors_as_data
@error_as_number(UNSERVED, RuntimeError, "must divide the number of heads")
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradients of each rank, and all calls."""

    def call(comm: Any, f: Any, g: Any, x: Tensor, weights: Weights) -> Any:
        return answer(comm, f, g, x, weights, case["head_dim"])

    return observe_block(case["num_ranks"], lambda: tensors_of(case), call)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Calls and FLOPs on the judge's cluster; results and gradients beside the right ones."""
    unserved = Fact(
        UNSERVED,
        observed.get(UNSERVED, 0),
        "`attend` got a number of key heads that does not divide that of query heads.",
        "How many query heads and how many key heads does a rank have after your cut, and how many "
        "query heads should share one key head?",
    )
    block = silent_block(case, right) if unserved.value else observed
    run, forged_calls = replay(block["logs"], cluster_of(case["num_ranks"]))
    others = [
        forged(forged_calls),
        *traffic(
            run,
            ["all_reduce"],
            ask_of_forward="Where in forward do ranks hold parts of one sum?",
            ask_of_backward="How often does x enter the block, and what does f do in backward?",
        ),
        *result_facts(
            block,
            right,
            "Four heads on two ranks: which rows of q, k and v, and which columns of o, does rank "
            "1 hold?",
        ),
        *input_facts(block, right),
        weight_fact("q", "rows", block, right),
        weight_fact("k", "rows", block, right),
        weight_fact("v", "rows", block, right),
        weight_fact("o", "columns", block, right),
        *flops_facts(
            run,
            case["num_ranks"],
            ask_of_forward="Which of the four products still works on all heads?",
            ask_of_backward="Backward goes once through `attend` and once through each of the four "
            "products. Which of these steps is missing, doubled, or made for other ranks' heads?",
        ),
    ]
    return with_error(unserved, others, right)
