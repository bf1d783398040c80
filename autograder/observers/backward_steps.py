"""A backward pass on the ranks of a virtual cluster, and what it did there.

A message has a latency of one second and a FLOP takes one second, so that times are whole numbers,
except for the bytes of a ring's parts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.error_hints import TOO_EARLY
from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import record_on_cluster
from autograder.observers.random_numbers import whole_numbers
from course_utils.distributed import ClusterRun, Comm, Event, Link, Network, VirtualCluster

NUM_ROWS = 2

WHEN_SUMS_COME_BACK = (
    "Gradients are not the sum over all ranks. When do the sums come back, and into which tensors?"
)


class Ready(NamedTuple):
    """A gradient or a bucket: its bytes, and the seconds computed when it is complete."""

    num_bytes: int
    seconds: float


@lru_cache(maxsize=1024)
def random_rows(width: int, seed: int) -> Tensor:
    """Inputs of a model on one rank; cached, since operations on a virtual cluster are slow."""
    generator = torch.Generator().manual_seed(seed)
    return whole_numbers((NUM_ROWS, width), generator)


class Layers(nn.Module):
    """Matrix products in a row, in float64, in any order of the parameters.

    There is nothing between them, since every operation makes a check slower.
    """

    def __init__(self, widths: Sequence[int], is_reordered: bool) -> None:
        """Make a matrix between neighbouring widths; if reordered, every second one comes first."""
        super().__init__()
        positions = list(range(len(widths) - 1))
        made = positions[1::2] + positions[::2] if is_reordered else positions
        generator = torch.Generator().manual_seed(sum(widths))
        weights = {n: whole_numbers((widths[n + 1], widths[n]), generator) for n in positions}
        self.weights = nn.ParameterList([nn.Parameter(weights[n]) for n in made])
        self.order = [made.index(n) for n in positions]

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, first width) to (rows, last width)."""
        for n in self.order:
            x = F.linear(x, self.weights[n])
        return x


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model, the rows of each rank, and the cluster that they run on.

    Attributes:
        widths: Of the inputs and of the output of each matrix.
        num_ranks: How many share the batch.
        bandwidth: Bytes per virtual second.
        is_reordered: Whether parameters are made in another order than they are used.
        has_gradients: Whether ranks have gradients before the step, different on each.
        precision: Of the model and its rows.
    """

    widths: Sequence[int]
    num_ranks: int
    bandwidth: int = 1
    is_reordered: bool = False
    has_gradients: bool = False
    precision: str = "float64"

    def model(self) -> Layers:
        """The model, with the same weights every time."""
        return Layers(self.widths, self.is_reordered).to(getattr(torch, self.precision))

    def cluster(self) -> VirtualCluster:
        """A virtual cluster on which a FLOP takes one second."""
        link = Link(latency_seconds=1.0, bandwidth_bytes_per_second=self.bandwidth)
        return VirtualCluster(self.num_ranks, network=Network(inside=link), flops_per_second=1.0)

    def loss(self, model: nn.Module, rank: int, micro_batch: int = 0) -> Tensor:
        """A rank's share of the mean: summed over its rows, divided by the rows of all ranks."""
        rows = random_rows(self.widths[0], 100 * micro_batch + rank)
        rows = rows.to(getattr(torch, self.precision))
        share: Tensor = model(rows).square().sum() / (self.num_ranks * NUM_ROWS)
        return share

    def fill(self, model: nn.Module, rank: int) -> None:
        """Set the gradients that a rank has before the step."""
        if self.has_gradients:
            for parameter in model.parameters():
                parameter.grad = torch.sin(parameter.detach() + rank)


def job_of(case: Case) -> Job:
    """The job of a case, which names its fields."""
    return Job(**{name: case[name] for name in Job.__dataclass_fields__ if name in case})


def observe_step(
    backward: Callable[[Comm, nn.Module, Tensor], object],
    cluster: VirtualCluster,
    models: Sequence[nn.Module],
    others: Sequence[nn.Module],
    loss_of: Callable[[Any, int], Tensor],
) -> dict[str, Any]:
    """Gradients, hooks and calls of all ranks after a student's backward.

    Each rank also calls it for its other model, with a loss whose backward raises.
    """
    passes = [[0] for _ in models]

    def step(comm: Comm) -> None:
        model, other = models[comm.rank], others[comm.rank]
        backward(comm, model, count_backward(loss_of(model, comm.rank), passes[comm.rank]))
        with suppress(RuntimeError):
            # A loss without a graph: backward raises, and hooks must be removed all the same.
            backward(comm, other, torch.zeros((), dtype=torch.float64))

    recorded = record_on_cluster(cluster, step)
    return {
        "logs": recorded.logs,
        "gradients": [gradients_of(model) for model in models],
        "states": [state_of(model) for model in models],
        "passes": passes,
        "num_hooks": num_hooks(models[0]),
        "num_hooks_after_error": num_hooks(others[0]),
    }


def gradients_of(model: nn.Module) -> list[Tensor | None]:
    """Copies of what is in ``grad``."""
    return [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]


def state_of(model: nn.Module) -> Plain:
    """Copies of the weights, which of them are trained, and the model's mode."""
    flags = [model.training, *(each.requires_grad for each in model.parameters())]
    return {"weights": [each.detach().clone() for each in model.parameters()], "flags": flags}


def count_backward(loss: Tensor, passes: list[int]) -> Tensor:
    """The same loss; each backward pass through it counts in the one number of the list."""

    def count(gradient: Tensor) -> None:
        passes[0] += 1

    loss.register_hook(count)
    return loss


def num_hooks(model: nn.Module) -> int:
    """How many hooks parameters have; PyTorch has no public way to ask."""
    kinds = ("_post_accumulate_grad_hooks", "_backward_hooks")
    return sum(len(getattr(p, kind) or ()) for p in model.parameters() for kind in kinds)


def num_early_hooks(models: Iterable[nn.Module]) -> int:
    """Parameters that ever had a hook on the new gradient: PyTorch keeps its empty dictionary."""
    return sum(p._backward_hooks is not None for model in models for p in model.parameters())


@contextmanager
def explain_early_hooks(models: Iterable[nn.Module]) -> Iterator[None]:
    """Add to an error that hooks ran before ``grad`` was filled, if some did."""
    try:
        yield
    except Exception as error:
        if not num_early_hooks(models):
            raise
        explained = RuntimeError(f"{TOO_EARLY} ({error})")
        raise explained.with_traceback(error.__traceback__) from None


def calls(log: Iterable[Event]) -> list[Ready]:
    """Bytes of each call of a rank that communicates, and the seconds it had computed by then."""
    made, computed = [], 0.0
    for event in log:
        if event.kind == "communication":
            made.append(Ready(event.num_bytes, computed))
        if event.kind == "compute":
            computed += event.end_seconds - event.start_seconds
    return made


def most_waits_in_backward(run: ClusterRun) -> int:
    """How often a rank waits and then still computes, at most."""
    return max(_waits_in_backward(run.of(rank)) for rank in range(run.num_ranks))


def _waits_in_backward(log: Sequence[Event]) -> int:
    last = max((n for n, event in enumerate(log) if event.kind == "compute"), default=0)
    return sum(event.kind == "wait" for event in log[:last])


def num_wrong(results: Iterable[Sequence[Tensor | None]], theirs: Sequence[Tensor]) -> int:
    """How many gradients of all ranks are not those of the whole batch."""
    return sum(num_different(ours, theirs) for ours in results)


def backward_passes(observed: Plain) -> Fact:
    """How often rank 0 goes back through the loss that it was given."""
    return Fact(
        "backward_passes",
        observed["passes"][0][0],
        "backward passes through the loss",
        "How often does backward run from the loss that comes in, and which of your lines starts "
        "it?",
    )


def gradient_length(length: float, ask: str) -> Fact:
    """The length of all gradients of a rank as one vector."""
    return Fact("gradient_length", length, "the length of the gradient", ask)


def wrong_gradients(num_gradients: int, ask: str) -> Fact:
    """Gradients of all ranks that are not those of the whole batch."""
    label = "gradients that are not the sum of all ranks'"
    return Fact("wrong_gradients", num_gradients, label, ask)


def other_buckets(num_buckets: int, ask: str) -> Fact:
    """Buckets that do not have the bytes of the bucket that should be in their place."""
    return Fact("other_buckets", num_buckets, "buckets with the wrong bytes", ask)


def waits(
    run: ClusterRun,
    ask: str = "Which line waits for a bucket while backward still computes, and what needs that "
    "sum so early?",
) -> Fact:
    """Waits in backward, of the rank that has the most."""
    return Fact("waits", most_waits_in_backward(run), "waits before backward is over", ask)


def step_seconds(run: ClusterRun, ask: str) -> Fact:
    """The virtual time of the step."""
    return Fact("step_seconds", run.step_seconds, "the seconds of the step", ask)


def compute_seconds(run: ClusterRun) -> Fact:
    """How long all ranks compute together."""
    return Fact(
        "compute_seconds",
        sum(run.compute_seconds(rank) for rank in range(run.num_ranks)),
        "the seconds that all ranks compute",
        "A rank has to compute one backward pass through the loss that comes in. Which of your "
        "lines makes it compute more, or leaves some of that out?",
    )


def changes_model(states: Iterable[Plain], theirs: Plain) -> Fact:
    """Whether a rank's model has other weights or flags than it should."""
    has_changed = any(
        ours["flags"] != theirs["flags"] or num_different(ours["weights"], theirs["weights"])
        for ours in states
    )
    return Fact(
        "changes_model",
        int(has_changed),
        "Weights, requires_grad or the mode are not as they were before.",
        "Which of your lines writes to a parameter, to its `requires_grad` or to the model's mode, "
        "where only `grad` should change?",
    )


def left_behind(observed: Plain, right: Plain) -> list[Fact]:
    """What a backward in buckets leaves changed of the model: its state and its hooks."""
    return [
        changes_model(observed["states"], right["state"]),
        Fact(
            "hooks_left",
            observed["num_hooks"],
            "hooks that are left afterwards",
            "Which hooks does your function set, and what removes each of them before it returns?",
        ),
        Fact(
            "hooks_after_error",
            observed["num_hooks_after_error"],
            "hooks that are left after an error in backward",
            "Where backward raises an error, the lines after it do not run. What takes your hooks "
            "off then?",
        ),
    ]
