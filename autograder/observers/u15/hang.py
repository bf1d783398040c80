"""What is observed of a backward pass in which a rank may have no rows."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_changed
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import (
    facts_of_sums,
    fill_gradients,
    gradients_after,
    layers_of,
    replayed,
    rows_of,
)


def model_of(case: Case, rank: int) -> nn.Module:
    """Two layers, with gradients from before or without."""
    model = layers_of([case["width"], case["width"] + 1, 2], case["width"])
    if case["has_gradients"]:
        fill_gradients(model, rank)
    return model


def batch_of(case: Case) -> Tensor:
    """All rows, the same on every rank."""
    return rows_of(case["num_rows"], case["width"], case["num_rows"])


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients of all ranks, their batches afterwards, and what each rank did."""
    ranks = range(case["num_ranks"])
    batches = [batch_of(case) for _ in ranks]
    models = [model_of(case, rank) for rank in ranks]
    return gradients_after(answer, models, [(each,) for each in batches]) | {"batches": batches}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the whole batch, and what was sent for them."""
    of_sums = facts_of_sums(
        replayed(case, observed),
        observed,
        right,
        ask_missing="A gradient is None at the end. On which ranks? What belongs there?",
        ask_calls="How many calls does each rank make, and how many parameters are there?",
        ask_length="Is every row in exactly one rank's share, and what is its loss divided by?",
    )
    return [
        *of_sums,
        Fact(
            "changed_batches",
            num_changed(observed["batches"], [batch_of(case)] * case["num_ranks"]),
            "ranks on which the batch has changed",
            "`rows` should hold the same numbers afterwards. Which of your operations writes into "
            "that tensor or into a view of it?",
        ),
    ]
