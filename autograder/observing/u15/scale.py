"""What is observed of the gradient of a mean over the micro-batches of all ranks."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data
from autograder.observing.u15.on_models import (
    calls_and_bytes,
    gradient_numbers,
    gradients_after,
    layers_of,
    rows_of,
)


def model_of(case: Case) -> nn.Module:
    """Two layers, with the same weights on each rank."""
    return layers_of([case["width"], 3, 2], case["width"])


def micro_batches_of(case: Case, rank: int) -> list[Tensor]:
    """Micro-batches of one size, different ones on each rank."""
    numbers = range(case["num_micro_batches"])
    return [rows_of(case["num_rows"], case["width"], 100 * rank + n) for n in numbers]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients of all ranks, how many micro-batches are left, and what each rank did."""
    ranks = range(case["num_ranks"])
    models, batches = [model_of(case) for _ in ranks], [micro_batches_of(case, n) for n in ranks]
    observed = gradients_after(answer, models, [(each,) for each in batches])
    return {name: observed[name] for name in ("gradients", "logs")} | {
        "lost": sum(case["num_micro_batches"] - len(each) for each in batches)
    }


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Gradients against those of the mean over all rows, and what was sent."""
    return (
        calls_and_bytes(observed, case["num_ranks"])
        | gradient_numbers(observed, right["gradients"])
        | {"lost": observed["lost"]}
    )
