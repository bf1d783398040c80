"""What is observed of the gradient of a mean over the micro-batches of all ranks."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import (
    facts_of_sums,
    gradients_after,
    layers_of,
    replayed,
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
    return gradients_after(answer, models, [(each,) for each in batches]) | {
        "lost": sum(case["num_micro_batches"] - len(each) for each in batches)
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the mean over all rows, and what was sent."""
    of_sums = facts_of_sums(
        replayed(case, observed),
        observed,
        right,
        ask_calls="How often do ranks have to communicate, for one optimizer step?",
        ask_length="By which factor is the gradient too large or too small, and which of your "
        "lines divide?",
    )
    return [
        *of_sums,
        Fact(
            "lost",
            observed["lost"],
            "micro-batches removed from the list",
            "The gradient is right, but the list of micro-batches is shorter than before. Which "
            "of your lines takes from it, and what else may still need it?",
        ),
    ]
