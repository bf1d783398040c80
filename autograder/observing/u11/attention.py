"""Attention with heads on several ranks."""

from typing import Any

from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data
from autograder.observing.u11.blocks import LABELS as BLOCK_LABELS
from autograder.observing.u11.blocks import Weights, observe_block, random_block, summarise_block
from autograder.observing.u11.named_errors import error_as_number, numbers_of_error

WEIGHTS = ("q", "k", "v", "o")
SCENARIOS = ("a key head for each query head", "grouped heads")
UNSERVED = "unserved_heads"
LABELS = BLOCK_LABELS | {
    UNSERVED: "`attend` got a number of key heads that does not divide that of query heads.",
    **{f"wrong_{name}": f"The parts of the gradient of {name} are wrong." for name in WEIGHTS},
}


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


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Calls and FLOPs on the judge's cluster; results and gradients beside the right ones."""
    error = numbers_of_error(UNSERVED, observed, right)
    return error or summarise_block(case, observed, right) | {UNSERVED: 0}
