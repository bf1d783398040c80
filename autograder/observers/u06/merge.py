"""Two partial results of attention put together."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_changed
from autograder.observers.exact_attention import attend_exactly
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data
from autograder.observers.u06.compared import facts_beside, pair_of_tensors

SCENARIOS = ("ordinary", "extreme", "empty")
BY_HAND = "by hand"


def scores_and_values(case: Case) -> tuple[Tensor, Tensor]:
    """Scores over all keys (rows, keys) and values (keys, width) of a case."""
    if case["kind"] == BY_HAND:
        scores = torch.tensor([[1.0, 2.0, 5.0]], dtype=torch.float64).log()
        return scores, torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    rows, first, other = case["rows"], case["first_keys"], case["other_keys"]
    num_keys, seed = first + other, 100 * rows + 10 * first + other
    scores, values = normal_numbers(seed, (rows, num_keys), (num_keys, case["width"]))
    match case["kind"]:
        case "high":
            scores += 2000
        case "low":
            scores -= 2000
        case "far apart":
            scores[:, :first] += torch.linspace(-900, 900, rows, dtype=torch.float64)[:, None]
        case "no key in the first":
            scores[::2, :first] = -torch.inf
        case "no key in the other":
            scores[::2, first:] = -torch.inf
        case "no key at all":
            scores[::2] = -torch.inf
    return scores, values


def inputs_of(case: Case) -> list[Tensor]:
    """The two results, each with its log-sum-exp."""
    scores, values = scores_and_values(case)
    first = case["first_keys"]
    halves = ((scores[:, :first], values[:first]), (scores[:, first:], values[first:]))
    return [tensor for half in halves for tensor in attend_exactly(*half)]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and log-sum-exp over all keys, and the arguments afterwards."""
    inputs = inputs_of(case)
    out, lse = pair_of_tensors(answer(*inputs))
    return {"out": out, "lse": lse, "inputs": inputs}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Numbers beside the right ones, and arguments that were changed."""
    return [
        *facts_beside(
            (observed["out"], observed["lse"]),
            (right["out"], right["lse"]),
            ask_of_result="Take one wrong row. For which sum of exponentials does each of its two "
            "log-sum-exps stand, and which share of both sums together do you give to each part?",
            ask_of_lse="The result is right, its log-sum-exp is not. For which sums do `lse_a` and "
            "`lse_b` stand in a wrong row, and for which sum should the new one stand?",
        ),
        Fact(
            "changed_inputs",
            num_changed(observed["inputs"], inputs_of(case)),
            "arguments that have changed",
            "Which of your operations writes into the tensor that it is called on?",
        ),
    ]
