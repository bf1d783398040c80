"""A backward pass on several ranks of a virtual cluster, what it shows, and its oracle on one.

One message takes a second and so does one FLOP, so that all times are whole numbers that a pencil
finds, up to the bytes of a ring's pieces.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.check import Case
from autograder.checking.error_hints import TOO_EARLY
from autograder.exercises.counted_layers import num_different
from course_utils.distributed import Comm, Event, Link, Network, VirtualCluster

NUM_ROWS = 2

# What is counted, in the words of the sentence that tells wanted and got.
LENGTH = "the length of the gradient"
WRONG = "gradients that are not the sum of all ranks'"
COLLECTIVES = "collectives"
OTHER_BUCKETS = "buckets with other bytes than wanted"
WAITS = "waits before backward is over"
LATE = "buckets that leave later than they could"
SECONDS = "the seconds of the step"
HOOKS_LEFT = "hooks that are left afterwards"
EARLY_HOOKS = "hooks that run before grad is filled"


class Ready(NamedTuple):
    """A gradient: its bytes, and how many seconds are computed when it is complete."""

    num_bytes: int
    seconds: float


@lru_cache(maxsize=1024)
def random_rows(width: int, seed: int) -> Tensor:
    """What a model is given on one rank; kept, since ranks run slower what a clock watches."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((NUM_ROWS, width), generator=generator, dtype=torch.float64)


class Layers(nn.Module):
    """Matrices in a row, in float64, that forward takes in another order than they were made.

    Nothing is between them: each operation costs a check its time.
    """

    def __init__(self, widths: Sequence[int], is_reordered: bool) -> None:
        """Make matrices between neighbouring widths, every second one first if reordered."""
        super().__init__()
        places = list(range(len(widths) - 1))
        made = places[1::2] + places[::2] if is_reordered else places
        generator = torch.Generator().manual_seed(sum(widths))
        weights = {
            place: torch.randn(
                widths[place + 1], widths[place], generator=generator, dtype=torch.float64
            )
            for place in places
        }
        self.weights = nn.ParameterList([nn.Parameter(weights[place]) for place in made])
        self.order = [made.index(place) for place in places]

    def forward(self, x: Tensor) -> Tensor:
        """From (rows, first width) to (rows, last width)."""
        for place in self.order:
            x = F.linear(x, self.weights[place])
        return x


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model, the rows of each rank, and the cluster that they run on.

    Attributes:
        widths: Of the inputs and of what each matrix gives.
        num_ranks: How many share the batch.
        bandwidth: Bytes in a virtual second.
        is_reordered: Whether parameters are made in another order than they are used.
        has_gradients: Whether each rank has other gradients before the step.
    """

    widths: tuple[int, ...]
    num_ranks: int
    bandwidth: int = 1
    is_reordered: bool = False
    has_gradients: bool = False

    def model(self) -> Layers:
        """Always the same."""
        return Layers(self.widths, self.is_reordered)

    def cluster(self, num_ranks: int | None = None) -> VirtualCluster:
        """One FLOP a second."""
        link = Link(latency_seconds=1.0, bandwidth_bytes_per_second=self.bandwidth)
        network = Network(inside=link)
        return VirtualCluster(num_ranks or self.num_ranks, network=network, flops_per_second=1.0)

    def loss(self, model: nn.Module, rank: int, micro_batch: int = 0) -> Tensor:
        """A rank's share: summed over its own rows, divided by those of all."""
        rows = random_rows(self.widths[0], 100 * micro_batch + rank)
        share: Tensor = model(rows).square().sum() / (self.num_ranks * NUM_ROWS)
        return share

    def fill(self, model: nn.Module, rank: int) -> None:
        """The gradients that a rank has before the step."""
        if self.has_gradients:
            for parameter in model.parameters():
                parameter.grad = torch.sin(parameter.detach() + rank)

    def local_gradients(self, rank: int, num_micro_batches: int = 1) -> list[Tensor]:
        """What backward leaves on one rank, what was there included."""
        model = self.model()
        self.fill(model, rank)
        before = [each.grad for each in model.parameters()]
        loss = torch.stack([self.loss(model, rank, k) for k in range(num_micro_batches)]).sum()
        made = torch.autograd.grad(loss, list(model.parameters()))
        return [new if old is None else new + old for new, old in zip(made, before, strict=True)]

    def whole_gradients(self, num_micro_batches: int = 1) -> list[Tensor]:
        """Those of the whole batch: the sum over all ranks."""
        every = [self.local_gradients(rank, num_micro_batches) for rank in range(self.num_ranks)]
        return [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]

    def ready(self) -> list[Ready]:
        """The gradients in the order in which they are complete, seen by hooks on one rank.

        Each is told to a group of one, which takes no time and stands in the log at its moment.
        """

        def step(comm: Comm) -> None:
            model = self.model()
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(lambda p: comm.all_reduce(p.grad))
            self.loss(model, 0).backward()

        log = self.cluster(1).run(step).of(0)
        return [Ready(event.num_bytes, seconds) for event, seconds in calls(log)]


def calls(log: Iterable[Event]) -> list[tuple[Event, float]]:
    """What a rank sent, and how many seconds it had computed by then; waiting does not count."""
    made, computed = [], 0.0
    for event in log:
        if event.kind == "communication":
            made.append((event, computed))
        if event.kind == "compute":
            computed += event.end_seconds - event.start_seconds
    return made


def waits_in_backward(log: Sequence[Event]) -> int:
    """Waits after which a rank still computes."""
    last = max((n for n, event in enumerate(log) if event.kind == "compute"), default=0)
    return sum(event.kind == "wait" for event in log[:last])


def num_wrong(results: Iterable[Sequence[Tensor | None]], theirs: Sequence[Tensor]) -> int:
    """Gradients of all ranks that are not those of the whole batch."""
    return sum(num_different(ours, theirs) for ours in results)


def gradients_of(model: nn.Module) -> list[Tensor | None]:
    """Copies of what is in ``grad``, that no later change reaches."""
    return [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]


def num_hooks(model: nn.Module) -> int:
    """Hooks on parameters; torch has no public way to ask for them."""
    kinds = ("_post_accumulate_grad_hooks", "_backward_hooks")
    return sum(len(getattr(p, kind) or ()) for p in model.parameters() for kind in kinds)


def num_early_hooks(models: Iterable[nn.Module]) -> int:
    """Parameters that had a hook on their new gradient; torch keeps an empty dictionary of them."""
    return sum(p._backward_hooks is not None for model in models for p in model.parameters())


@contextmanager
def telling_early_hooks(models: Iterable[nn.Module]) -> Iterator[None]:
    """An error inside says so, if hooks were set that come before ``grad`` is filled."""
    try:
        yield
    except Exception as error:
        if not num_early_hooks(models):
            raise
        told = RuntimeError(f"{TOO_EARLY} ({error})")
        raise told.with_traceback(error.__traceback__) from None


def grouped(sizes: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    """Sizes in their order, in groups that end as soon as they have so many bytes."""
    groups: list[list[int]] = []
    for size in sizes:
        if not groups or sum(groups[-1]) >= bucket_bytes:
            groups.append([])
        groups[-1].append(size)
    return groups


def job_of(case: Case) -> Job:
    """The job of a case, which names its fields."""
    names = [name for name in Job.__dataclass_fields__ if name in case]
    return Job(**{name: _plain(case[name]) for name in names})


def _plain(value: Any) -> Any:
    return tuple(value) if type(value) is list else value
