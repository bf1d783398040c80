"""A backward pass on the ranks of a virtual cluster: what is observed, its oracle, its buckets.

A message has a latency of one second and a FLOP takes one second, so that times are whole numbers,
except for the bytes of a ring's parts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.error_hints import TOO_EARLY
from autograder.checking.exercise_check import Case
from autograder.exercises.observing import num_different
from autograder.exercises.u09.shared.on_ranks import run_on_cluster
from course_utils.distributed import ClusterRun, Comm, Event, Link, Network, VirtualCluster

NUM_ROWS = 2

# What is counted, in the words of a verdict's sentence.
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
    """A gradient or a bucket: its bytes, and the seconds computed when it is complete."""

    num_bytes: int
    seconds: float


Buckets = Sequence[Ready]


@lru_cache(maxsize=1024)
def random_rows(width: int, seed: int) -> Tensor:
    """Inputs of a model on one rank; cached, since operations on a virtual cluster are slow."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((NUM_ROWS, width), generator=generator, dtype=torch.float64)


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
        weights = {
            n: torch.randn(widths[n + 1], widths[n], generator=generator, dtype=torch.float64)
            for n in positions
        }
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
    """

    widths: tuple[int, ...]
    num_ranks: int
    bandwidth: int = 1
    is_reordered: bool = False
    has_gradients: bool = False

    def model(self) -> Layers:
        """The model, with the same weights every time."""
        return Layers(self.widths, self.is_reordered)

    def cluster(self, num_ranks: int | None = None) -> VirtualCluster:
        """A virtual cluster on which a FLOP takes one second."""
        link = Link(latency_seconds=1.0, bandwidth_bytes_per_second=self.bandwidth)
        network = Network(inside=link)
        return VirtualCluster(num_ranks or self.num_ranks, network=network, flops_per_second=1.0)

    def run(self, step: Callable[[Comm], Any]) -> ClusterRun:
        """Run a student's step on all ranks, within limits."""
        return run_on_cluster(self.cluster(), step)

    def loss(self, model: nn.Module, rank: int, micro_batch: int = 0) -> Tensor:
        """A rank's share of the mean: summed over its rows, divided by the rows of all ranks."""
        rows = random_rows(self.widths[0], 100 * micro_batch + rank)
        share: Tensor = model(rows).square().sum() / (self.num_ranks * NUM_ROWS)
        return share

    def fill(self, model: nn.Module, rank: int) -> None:
        """Set the gradients that a rank has before the step."""
        if self.has_gradients:
            for parameter in model.parameters():
                parameter.grad = torch.sin(parameter.detach() + rank)

    def local_gradients(self, rank: int, num_micro_batches: int = 1) -> list[Tensor]:
        """What backward leaves in ``grad`` on one rank."""
        model = self.model()
        self.fill(model, rank)
        before = [each.grad for each in model.parameters()]
        loss = torch.stack([self.loss(model, rank, k) for k in range(num_micro_batches)]).sum()
        made = torch.autograd.grad(loss, list(model.parameters()))
        return [new if old is None else new + old for new, old in zip(made, before, strict=True)]

    def whole_gradients(self, num_micro_batches: int = 1) -> list[Tensor]:
        """Gradients of the whole batch: the sum over all ranks."""
        every = [self.local_gradients(rank, num_micro_batches) for rank in range(self.num_ranks)]
        return [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]

    def ready(self) -> list[Ready]:
        """The gradients in the order in which they are complete on one rank.

        A hook all-reduces each on a cluster of one rank: this takes no time, and the log has it.
        """

        def step(comm: Comm) -> None:
            model = self.model()
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(lambda p: comm.all_reduce(p.grad))
            self.loss(model, 0).backward()

        log = self.cluster(1).run(step).of(0)
        return [Ready(event.num_bytes, seconds) for event, seconds in calls(log)]


def calls(log: Iterable[Event]) -> list[tuple[Event, float]]:
    """Each call of a rank that communicates, and the seconds it had computed by then."""
    made, computed = [], 0.0
    for event in log:
        if event.kind == "communication":
            made.append((event, computed))
        if event.kind == "compute":
            computed += event.end_seconds - event.start_seconds
    return made


def waits_in_backward(log: Sequence[Event]) -> int:
    """How often a rank waits and then still computes."""
    last = max((n for n, event in enumerate(log) if event.kind == "compute"), default=0)
    return sum(event.kind == "wait" for event in log[:last])


def num_wrong(results: Iterable[Sequence[Tensor | None]], theirs: Sequence[Tensor]) -> int:
    """How many gradients of all ranks are not those of the whole batch."""
    return sum(num_different(ours, theirs) for ours in results)


def gradients_of(model: nn.Module) -> list[Tensor | None]:
    """Copies of what is in ``grad``."""
    return [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]


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


def job_of(case: Case) -> Job:
    """The job of a case, which names its fields."""
    fields = {name: case[name] for name in Job.__dataclass_fields__ if name in case}
    return Job(**fields | {"widths": tuple(case["widths"])})


def grouped(sizes: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    """Sizes in groups; a group ends as soon as it has ``bucket_bytes``."""
    groups: list[list[int]] = []
    for size in sizes:
        if not groups or sum(groups[-1]) >= bucket_bytes:
            groups.append([])
        groups[-1].append(size)
    return groups


def fill_buckets(gradients: Buckets, bucket_bytes: float, *, has_rest: bool = True) -> list[Ready]:
    """Buckets as they should be: each leaves when it is full, and the rest at the end."""
    buckets, held = [], 0
    for number, (num_bytes, seconds) in enumerate(gradients, 1):
        held += num_bytes
        if held >= bucket_bytes or (has_rest and number == len(gradients)):
            buckets.append(Ready(held, seconds))
            held = 0
    return buckets


def at_most(gradients: Buckets, bucket_bytes: int) -> list[Ready]:
    """Wrong buckets: each leaves before the next gradient would make it larger than wanted."""
    buckets, held = [], 0
    for num_bytes, seconds in gradients:
        if held and held + num_bytes > bucket_bytes:
            buckets.append(Ready(held, seconds))
            held = 0
        held += num_bytes
    return [*buckets, Ready(held, gradients[-1].seconds)]


def never_reset(gradients: Buckets, bucket_bytes: int) -> list[Ready]:
    """Wrong buckets: from the first full one on, each gradient is sent by itself."""
    first, *_ = fill_buckets(gradients, bucket_bytes)
    rest = [each for each in gradients if each.seconds > first.seconds]
    return [first, *rest]


def never_cleared(gradients: Buckets, bucket_bytes: int) -> list[Ready]:
    """Wrong buckets: from the first full one on, each gradient sends everything again."""
    first, *rest = never_reset(gradients, bucket_bytes)
    made = [first]
    for num_bytes, seconds in rest:
        made.append(Ready(made[-1].num_bytes + num_bytes, seconds))
    return [*made, made[-1]]
