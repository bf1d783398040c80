"""What is observed of a backward pass in which a rank may have no rows."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_changed
from autograder.observing.observation import errors_as_data
from autograder.observing.u15.on_models import (
    calls_and_bytes,
    fill_gradients,
    gradient_numbers,
    gradients_after,
    layers_of,
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
    """Gradients of all ranks, whether the batch is as it was, and what each rank did."""
    ranks = range(case["num_ranks"])
    batches = [batch_of(case) for _ in ranks]
    models = [model_of(case, rank) for rank in ranks]
    observed = gradients_after(answer, models, [(each,) for each in batches])
    return {name: observed[name] for name in ("gradients", "logs")} | {
        "changed_batches": num_changed(batches, [batch_of(case) for _ in ranks])
    }


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Gradients against those of the whole batch, and what was sent for them."""
    return (
        calls_and_bytes(observed, case["num_ranks"])
        | gradient_numbers(observed, right["gradients"])
        | {"changed_batches": observed["changed_batches"]}
    )
