"""Check of buckets fixed beforehand, where some ranks have no gradient for a parameter."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from autograder.exercises.u08.shared.ragged_batches import length_of
from autograder.exercises.u09.shared.backward_steps import (
    COLLECTIVES,
    HOOKS_LEFT,
    LATE,
    LENGTH,
    NUM_ROWS,
    OTHER_BUCKETS,
    WAITS,
    WRONG,
    Job,
    Ready,
    calls,
    gradients_of,
    grouped,
    num_hooks,
    num_wrong,
    random_rows,
    waits_in_backward,
)
from autograder.exercises.u09.shared.on_ranks import FLOAT64_BYTES, ROUNDING
from course_utils.distributed import ClusterRun, Comm, Event
from course_utils.reference.bucketing import backward_with_unused

FIELDS = ("widths", "bucket_bytes", "unused", "kind")
MISSING = "gradients that are None afterwards"
BANDWIDTH = 8

EACH_KIND = ("one rank", "two ranks", "all ranks", "exact", "shared", "reordered")
KINDS = (*EACH_KIND, *EACH_KIND, *EACH_KIND, "one rank", "exact")

Numbers = dict[str, Any]
Order = list[tuple[int, float]]


def unused_cases(seed: int) -> list[Case]:
    """Parameters unused on one rank, on two, on all; none unused; shared; out of order.

    Where all ranks leave a parameter unused, one leaves another one unused too. Where parameters
    are reordered, the second bucket is complete before the first on the rank that uses both.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96, [[], [1]], "one rank")]
    cases += [
        _case_of_kind(rng, kind, number // len(EACH_KIND)) for number, kind in enumerate(KINDS)
    ]
    return cases


def _case_of_kind(rng: random.Random, kind: str, number: int) -> Case:
    widths = [rng.randint(1, 2)]
    while len(widths) < 5:
        widths.append(widths[-1] + rng.randint(1, 2))
    sizes = [FLOAT64_BYTES * a * b for a, b in pairwise(widths)]
    threshold = sizes[-1] + FLOAT64_BYTES  # so that no bucket has one parameter alone
    index = rng.randint(0, 2)
    if kind == "one rank":
        return _case(widths, threshold, [[], [index]] if number % 2 else [[index], []], kind)
    if kind == "two ranks":
        return _case(widths, threshold, [[2], [1], []], kind)
    if kind == "all ranks":
        return _case(widths, threshold, [[1], [1, 2]] if number % 2 else [[0, 2], [0]], kind)
    if kind == "exact":  # the last two matrices together, or all
        return _case(widths, sum(sizes if number % 2 else sizes[-2:]), [[], []], kind)
    if kind == "shared":
        unused = [[1], []] if number % 2 else [[], []]
        return _case([2, 4, 4, 4, 3], rng.choice((88, 104)), unused, kind)
    k = rng.randint(3, 5)
    widths = [rng.randint(1, 2), k, k + 1, k, k + 1, k + 2]
    threshold = FLOAT64_BYTES * (widths[-2] * widths[-1] + 1)
    return _case(widths, threshold, [[2], []] if number % 2 else [[], [2]], kind)


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


class _Matrix(nn.Module):
    """One weight, which another matrix may share."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight


class _Model(nn.Module):
    """Matrices in a row; unused ones get no gradient.

    If shared, two matrices in the middle have the same weight. If reordered, two pairs of matrices
    are made in one order and used in the other.
    """

    def __init__(self, widths: list[int], kind: str) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(sum(widths))
        shapes = list(zip(widths[1:], widths, strict=False))
        weights = [torch.randn(each, generator=generator, dtype=torch.float64) for each in shapes]
        parameters = [nn.Parameter(weight) for weight in weights]
        self.order = list(range(len(parameters)))
        if kind == "shared":
            parameters[2] = parameters[1]
        if kind == "reordered":
            parameters = [parameters[n] for n in (0, 3, 4, 1, 2)]
            self.order = [0, 3, 4, 1, 2]
        self.matrices = nn.ModuleList(_Matrix(each) for each in parameters)

    def forward(self, x: Tensor, unused: list[int]) -> Tensor:
        for n in self.order:
            weight: Tensor = self.matrices[n].weight  # type: ignore[assignment]
            x = F.linear(x, weight.detach() if n in unused else weight)
        return x


@dataclass(frozen=True)
class _Job:
    """A case's model, losses, cluster and buckets."""

    case: Case

    @property
    def num_ranks(self) -> int:
        return len(self.case["unused"])

    def model(self) -> _Model:
        return _Model(self.case["widths"], self.case["kind"])

    def run(self, step: Callable[[Comm], Any]) -> ClusterRun:
        return Job(widths=(), num_ranks=self.num_ranks, bandwidth=BANDWIDTH).run(step)

    def loss(self, model: nn.Module, rank: int) -> Tensor:
        rows = random_rows(self.case["widths"][0], rank)
        squares: Tensor = model(rows, self.case["unused"][rank]).square().sum()
        return squares / (self.num_ranks * NUM_ROWS)

    def gradients(self, rank: int) -> list[Tensor]:
        """Gradients of one rank alone; zeros for what it does not use."""
        model = self.model()
        parameters = list(model.parameters())
        made = torch.autograd.grad(self.loss(model, rank), parameters, allow_unused=True)
        pairs = zip(made, parameters, strict=True)
        return [torch.zeros_like(p) if each is None else each for each, p in pairs]

    def whole(self) -> list[Tensor]:
        every = [self.gradients(rank) for rank in range(self.num_ranks)]
        return [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]

    def sizes(self) -> list[int]:
        """Bytes of each parameter, in the model's order."""
        return [parameter.nbytes for parameter in self.model().parameters()]

    def buckets(self) -> list[list[int]]:
        """Indices of the parameters of each bucket, the last parameter first."""
        sizes = self.sizes()
        indices = iter(range(len(sizes) - 1, -1, -1))
        buckets = grouped(sizes[::-1], self.case["bucket_bytes"])
        return [[next(indices) for _ in bucket] for bucket in buckets]

    def order(self, rank: int) -> tuple[Order, float]:
        """When each gradient is complete on one rank, and when backward is over."""
        return _order(tuple(self.case["widths"]), self.case["kind"], *self.case["unused"][rank])

    def sent(self, rank: int) -> list[Ready]:
        """Each bucket with the moment when it leaves: it and those before it are complete."""
        order, end = self.order(rank)
        moments, sizes = dict(order), self.sizes()
        sent, clock = [], 0.0
        for bucket in self.buckets():
            clock = max(clock, *(moments.get(n, end) for n in bucket))
            sent.append(Ready(sum(sizes[n] for n in bucket), clock))
        return sent

    def sent_one_by_one(self, rank: int) -> list[float]:
        """When each bucket leaves if a hook sends at most one."""
        order, end = self.order(rank)
        buckets, complete, moments = self.buckets(), set(), list[float]()
        for n, clock in order:
            complete.add(n)
            if len(moments) < len(buckets) and complete.issuperset(buckets[len(moments)]):
                moments.append(clock)
        return moments + [end] * (len(buckets) - len(moments))


@lru_cache(maxsize=1024)
def _order(widths: tuple[int, ...], kind: str, *unused: int) -> tuple[Order, float]:
    """When each gradient is complete, in that order, and when backward is over.

    A hook all-reduces a message on one rank; its length tells which parameter it is.
    """
    job = _Job(_case(list(widths), 0, [list(unused)], kind))

    def step(comm: Comm) -> None:
        model = job.model()
        for n, parameter in enumerate(model.parameters()):
            message = torch.zeros(n + 1, dtype=torch.float64)
            parameter.register_post_accumulate_grad_hook(lambda _, x=message: comm.all_reduce(x))
        job.loss(model, 0).backward()

    log = job.run(step).of(0)
    order = [(event.num_bytes // FLOAT64_BYTES - 1, clock) for event, clock in calls(log)]
    return order, max(event.end_seconds for event in log)


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients, buckets and their moments on all ranks, under the student's backward."""
    job = _Job(case)
    models = [job.model() for _ in range(job.num_ranks)]

    def step(comm: Comm) -> tuple[list[Tensor | None], int]:
        model = models[comm.rank]
        answer(comm, model, job.loss(model, comm.rank), case["bucket_bytes"])
        return gradients_of(model), num_hooks(model)

    with undisturbed():
        run = job.run(step)
    gradients = [each for each, _ in run.results]
    logs = [run.of(rank) for rank in range(run.num_ranks)]
    return {
        COLLECTIVES: len(run.communications()),
        OTHER_BUCKETS: _num_other(logs, case, "num_bytes"),
        MISSING: sum(each is None for ours in gradients for each in ours),
        LENGTH: length_of(gradients[0]),
        WRONG: num_wrong(gradients, _whole(*_key(case))),
        WAITS: max(map(waits_in_backward, logs)),
        LATE: _num_other(logs, case, "seconds"),
        HOOKS_LEFT: run.results[0][1],
    }


def _num_other(logs: Iterable[tuple[Event, ...]], case: Case, name: str) -> int:
    """Buckets of all ranks with another size or moment than wanted, by the field's name."""
    pairs = []
    for log, sent in zip(logs, _sent(*_key(case)), strict=True):
        seen = [Ready(event.num_bytes, seconds) for event, seconds in calls(log)]
        pairs += list(zip(seen, sent, strict=False))
    return sum(getattr(one, name) != getattr(other, name) for one, other in pairs)


def _key(case: Case) -> tuple[Any, ...]:
    unused = tuple(map(tuple, case["unused"]))
    return tuple(case["widths"]), case["bucket_bytes"], unused, case["kind"]


def _job_of(*key: Any) -> _Job:
    widths, bucket_bytes, unused, kind = key
    return _Job(_case(list(widths), bucket_bytes, list(map(list, unused)), kind))


@lru_cache(maxsize=1024)
def _whole(*key: Any) -> list[Tensor]:
    return _job_of(*key).whole()


@lru_cache(maxsize=1024)
def _own(*key: Any) -> list[Tensor]:
    return _job_of(*key).gradients(0)


@lru_cache(maxsize=1024)
def _sent(*key: Any) -> list[list[Ready]]:
    job = _job_of(*key)
    return [job.sent(rank) for rank in range(job.num_ranks)]


def wanted(**case: Any) -> Numbers:
    """The sums of all ranks, in fixed buckets that leave as soon as they can."""
    return {
        COLLECTIVES: len(_Job(case).buckets()),
        OTHER_BUCKETS: 0,
        MISSING: 0,
        LENGTH: length_of(_whole(*_key(case))),
        WRONG: 0,
        WAITS: 0,
        LATE: 0,
        HOOKS_LEFT: 0,
    }


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    return lambda *values: formula(_case(*values))


def _early(case: Case) -> list[int]:
    """Buckets of each rank that leave before backward is over."""
    job, sent = _Job(case), _sent(*_key(case))
    ends = [job.order(rank)[1] for rank in range(job.num_ranks)]
    pairs = zip(ends, sent, strict=True)
    return [sum(bucket.seconds < end for bucket in buckets) for end, buckets in pairs]


def _one_by_one(case: Case) -> Numbers:
    """If a hook sends the next bucket, but not those after it that are complete too."""
    late = 0
    for rank, buckets in enumerate(_sent(*_key(case))):
        pairs = zip(_Job(case).sent_one_by_one(rank), buckets, strict=True)
        late += sum(moment != bucket.seconds for moment, bucket in pairs)
    return {WAITS: 0, LATE: late}


def _in_other_buckets(case: Case, sizes: Sequence[int], more_bytes: int = 0) -> Numbers:
    """If parameters have other sizes or another order, or a bucket needs more bytes."""
    made = [sum(each) for each in grouped(sizes, case["bucket_bytes"] + more_bytes)]
    theirs = [bucket.num_bytes for bucket in _sent(*_key(case))[0]]
    differing = sum(one != other for one, other in zip(made, theirs, strict=False))
    return {COLLECTIVES: len(made), OTHER_BUCKETS: len(case["unused"]) * differing}


def _sizes_by_module(case: Case) -> list[int]:
    """Bytes of each module's weight, last to first; a shared one is there twice."""
    modules = _Job(case).model().matrices
    return [each.nbytes for module in modules for each in module.parameters()][::-1]


def _num_unused(case: Case, *, by_all: bool) -> int:
    """Gradients that a rank does not have, or only those that no rank has, over all ranks."""
    unused = case["unused"]
    if by_all:
        return len(unused) * len(set.intersection(*map(set, unused)))
    return sum(map(len, unused))


def _added_to_own(case: Case) -> list[Tensor]:
    """Sums of all ranks, added to what rank 0 has in grad."""
    pairs = zip(_whole(*_key(case)), _own(*_key(case)), strict=True)
    return [whole + own for whole, own in pairs]


CHECK = Check(
    cases=unused_cases,
    reference=backward_with_unused,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "Each parameter travels by itself. Where does a bucket end?",
            _of_case(lambda case: {COLLECTIVES: len(_Job(case).sizes())}),
        ),
        Mistake(
            "A bucket that is exactly full waits for one parameter more. What does the exercise "
            "say of a bucket that has just as many bytes?",
            _of_case(lambda case: _in_other_buckets(case, _Job(case).sizes()[::-1], more_bytes=1)),
        ),
        Mistake(
            "A parameter that two modules share travels twice. Which list of a model's parameters "
            "names each one once?",
            _of_case(lambda case: _in_other_buckets(case, _sizes_by_module(case))),
        ),
        Mistake(
            "No rank has used the parameter, and afterwards it has no gradient. What does the "
            "exercise say every rank has then, and what is a sum of zeros?",
            _of_case(lambda case: {MISSING: _num_unused(case, by_all=True)}),
        ),
        Mistake(
            "A rank that did not use a parameter has no gradient for it afterwards, though others "
            "have sent theirs. Into what do you write the sum there?",
            _of_case(lambda case: {MISSING: _num_unused(case, by_all=False)}),
        ),
        Mistake(
            "The sums are added to what each rank has of its own already. Which operation puts "
            "new numbers in the place of old ones?",
            _of_case(lambda case: {MISSING: 0, LENGTH: length_of(_added_to_own(case))}),
        ),
        Mistake(
            "Gradients are too small by a factor, the number of ranks. What is a rank's loss a "
            "share of?",
            _of_case(lambda case: {LENGTH: length_of(_whole(*_key(case))) / len(case["unused"])}),
        ),
        Mistake(
            "Buckets begin with the first parameter. Which gradient is complete first, and with "
            "which parameter does the exercise begin?",
            _of_case(lambda case: _in_other_buckets(case, _Job(case).sizes())),
        ),
        Mistake(
            "Backward stands still until a bucket has arrived. Which form of the call comes back "
            "at once?",
            _of_case(lambda case: {WAITS: max(_early(case))}),
        ),
        Mistake(
            "All buckets are sent only when backward is over. Which of them could have left "
            "before, without a gradient missing?",
            _of_case(lambda case: {WAITS: 0, LATE: sum(_early(case))}),
        ),
        Mistake(
            "A bucket that was complete before its turn leaves one gradient late. When the one "
            "before it is sent, how many may follow at once?",
            _of_case(_one_by_one),
        ),
        Mistake(
            "Your hooks are still there when the function returns: what will the next backward "
            "pass set off?",
            _of_case(lambda case: {HOOKS_LEFT: len(_Job(case).sizes())}),
        ),
        relative_tolerance=ROUNDING,
    ),
)
