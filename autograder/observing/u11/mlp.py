"""A gated MLP on several ranks."""

from typing import Any

from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data
from autograder.observing.u11.blocks import LABELS as BLOCK_LABELS
from autograder.observing.u11.blocks import Weights, observe_block, random_block, summarise_block
from autograder.observing.u11.named_errors import error_as_number, numbers_of_error

WEIGHTS = ("gate", "up", "down", "bias")
SCENARIOS = ("even", "uneven")
ABSENT = "absent_part"
LABELS = BLOCK_LABELS | {
    ABSENT: "An index asks for a part that is not there.",
    "wrong_bias": "ranks whose gradient of the bias is wrong",
    **{f"wrong_{name}": f"The parts of the gradient of {name} are wrong." for name in WEIGHTS[:3]},
}


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


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Calls and FLOPs on the judge's cluster; results and gradients beside the right ones."""
    error = numbers_of_error(ABSENT, observed, right)
    return error or summarise_block(case, observed, right) | {ABSENT: 0}
