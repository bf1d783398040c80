"""Gradients summed after the backward pass: the gradients of each rank, and what it did."""

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import is_equal, num_different
from autograder.observers.on_ranks import (
    bytes_in_calls,
    calls_made,
    cluster_of,
    most_calls,
    record_on_ranks,
)
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, undisturbed

Gradients = list[Tensor | None]


class Net(nn.Module):
    """Layers of different shapes in a row, and one in parallel that a rank may leave out.

    The weight of that one may be stored transposed.
    """

    def __init__(self, case: Case) -> None:
        """Make the layers of a case, with the same weights every time."""
        super().__init__()
        width, num_layers = case["width"], case["num_layers"]
        torch.default_generator.manual_seed(width)
        widths = range(width, width + num_layers + 1)
        layers = [nn.Linear(w, w + 1, dtype=torch.float64) for w in widths[:-1]]
        self.layers = nn.ModuleList(layers)
        self.parallel = nn.Linear(widths[0], widths[-1], dtype=torch.float64)
        if case["is_bias_shared"]:
            self.parallel.bias = layers[-1].bias
        if case["is_transposed"]:
            stored = self.parallel.weight.detach().t().contiguous()
            self.parallel.weight = nn.Parameter(stored.t())
        layers[0].requires_grad_(case["scenario"] != "frozen")

    def __iter__(self) -> NoReturn:
        """Not every model is a list of layers, as the one of the notebook is."""
        raise TypeError(
            "a model need not be a list of layers: which method gives every parameter once?"
        )

    def forward(self, x: Tensor, is_parallel_used: bool) -> Tensor:
        """From (rows, width) to (rows, width + num_layers)."""
        out = x
        for layer in self.layers:
            out = layer(out)
        return out + self.parallel(x) if is_parallel_used else out


def losses_of(model: nn.Module, case: Case, rank: int) -> list[Tensor]:
    """Losses of a rank, different on each; all but the last were accumulated before the call."""
    width, num_ranks = case["width"], case["num_ranks"]
    is_used = case["scenario"] != "unused on a rank" or rank % 2 == 1
    num_losses = 2 if case["scenario"] == "gradients before" else 1
    (inputs,) = normal_numbers(100 * width + rank, (num_losses, rank + 1, width))
    return [model(x, is_used).square().sum() / num_ranks for x in inputs]


def ranks_of(case: Case) -> list[tuple[Net, Tensor]]:
    """What `prepared` gives for each rank."""
    return [prepared(case, rank) for rank in range(case["num_ranks"])]


def prepared(case: Case, rank: int) -> tuple[Net, Tensor]:
    """A model with the gradients accumulated before, and the loss that comes next.

    A layer that is frozen was trained before: its bias has kept a gradient.
    """
    model = Net(case)
    *before, loss = losses_of(model, case, rank)
    for each in before:
        each.backward()
    for bias in (each for each in frozen(model) if each.dim() == 1):
        bias.grad = torch.full_like(bias, 1.0 + rank)
    return model, loss


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that want a gradient."""
    return [each for each in model.parameters() if each.requires_grad]


def frozen(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that want no gradient."""
    return [each for each in model.parameters() if not each.requires_grad]


def gradients_of(parameters: list[nn.Parameter]) -> Gradients:
    """Copies of what is in ``grad`` now."""
    return [None if each.grad is None else each.grad.detach().clone() for each in parameters]


def observe_gradients(answer: Any, ranks: list[tuple[Net, Tensor]]) -> dict[str, Any]:
    """What is in ``grad`` on each rank afterwards, and what each rank did."""
    all_trained, all_frozen = zip(
        *((trained(each), frozen(each)) for each, _ in ranks), strict=True
    )
    with undisturbed():  # torch may warn of a gradient's layout
        recorded = record_on_ranks(len(ranks), lambda comm: answer(comm, *ranks[comm.rank]))
    return {
        "gradients": list(map(gradients_of, all_trained)),
        "frozen": list(map(gradients_of, all_frozen)),
        "logs": recorded.logs,
    }


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What is in ``grad`` on each rank afterwards, and what each rank did."""
    return observe_gradients(answer, ranks_of(case))


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the whole batch, and what was communicated for them."""
    return facts_of_gradients(
        case,
        observed,
        right,
        ask_calls="How many parameters require a gradient, and how often is each of them sent?",
        ask_length="The norm of the gradient is wrong. What is in grad before the call, and is "
        "anything divided?",
    )


def facts_of_gradients(
    case: Case, observed: Plain, right: Plain, *, ask_calls: str, ask_length: str
) -> list[Fact]:
    """What counts however many calls an exercise asks for, with its own two questions."""
    gradients, whole = observed["gradients"], right["gradients"]
    pairs = [pair for of_rank in gradients for pair in zip(of_rank, whole, strict=True)]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    return [
        missing(
            sum(ours is None for ours, _ in pairs),
            "A gradient is None afterwards. Which given function makes zeros of it, and on which "
            "ranks?",
        ),
        Fact(
            "other_shapes",
            sum(ours is not None and ours.shape != each.shape for ours, each in pairs),
            "gradients that lack their parameter's shape",
            "Which tensor is in `grad` afterwards, and which of your lines gave it its shape?",
        ),
        calls_made(most_calls(run), ask_calls),
        bytes_in_calls(run),
        length(gradients, ask_length),
        length_on_last(gradients),
        changed_frozen(observed, right, "frozen parameters whose grad has changed, on all ranks"),
        wrong_ranks(gradients, whole),
        forged(forged_calls),
    ]


def missing(num_gradients: int, ask: str) -> Fact:
    """Gradients that nobody has filled."""
    return Fact("missing", num_gradients, "gradients that are None afterwards", ask)


def length(gradients: Sequence[Gradients], ask: str) -> Fact:
    """The length of the gradient on the first of all ranks."""
    return Fact("length", length_of(gradients[0]), "the norm of rank 0's gradient", ask)


def length_on_last(gradients: Sequence[Gradients]) -> Fact:
    """The length of the gradient on the last rank, compared where that on the first is right."""
    return Fact(
        "length_on_last",
        length_of(gradients[-1]),
        "the length of the last rank's gradient",
        "Rank 0 ends with a gradient of the right length, the last rank does not. What is "
        "different there: the tensors that go into your calls, or what becomes of `grad` outside "
        "of them?",
    )


def wrong_ranks(gradients: Sequence[Gradients], whole: Gradients) -> Fact:
    """Ranks with another gradient, compared where the first and the last have the right length."""
    return Fact(
        "wrong_ranks",
        sum(num_different(of_rank, whole) > 0 for of_rank in gradients),
        "ranks without the gradient of the whole batch",
        "The lengths of the first and the last rank's gradient are right. Does each number stand "
        "in the parameter that it belongs to, and do the ranks in between have the same numbers?",
    )


def changed_frozen(observed: Plain, right: Plain, label: str) -> Fact:
    """Frozen parameters of all ranks that have not kept their gradient, or None."""
    return Fact(
        "changed_frozen",
        sum(map(num_other, observed["frozen"], right["frozen"])),
        label,
        "A frozen parameter should keep the `grad` that it came with, even if that is None. Which "
        "of your lines reaches that parameter?",
    )


def num_other(ours: Gradients, theirs: Gradients) -> int:
    """How many gradients are not exactly those of others; None equals None only."""
    return sum(not is_equal(*pair) for pair in zip(ours, theirs, strict=True))
