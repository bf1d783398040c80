"""What is observed of the gradient of a mean over the micro-batches of all ranks."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.fact import Fact
from autograder.checking.plain_data import Plain
from autograder.observers.after_backward import length, length_on_last, wrong_ranks
from autograder.observers.on_ranks import bytes_in_calls, calls_made, cluster_of, most_calls
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import gradients_after, layers_of, missing, rows_of


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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the mean over all rows, and what was sent."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    gradients, whole = observed["gradients"], right["gradients"]
    return [
        forged(forged_calls),
        missing(gradients, whole),
        calls_made(
            most_calls(run),
            "How often do ranks have to communicate, for one optimizer step?",
        ),
        bytes_in_calls(run),
        length(
            gradients,
            "By which factor is the gradient too large or too small, and which of your lines "
            "divide?",
        ),
        length_on_last(gradients),
        wrong_ranks(gradients, whole),
        Fact(
            "lost",
            observed["lost"],
            "micro-batches removed from the list",
            "The gradient is right, but the list of micro-batches is shorter than before. Which "
            "of your lines takes from it, and what else may still need it?",
        ),
    ]
