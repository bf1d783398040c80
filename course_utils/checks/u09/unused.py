"""Check of buckets that ranks know beforehand, where some have no gradient for a parameter."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks.check import Case, Check
from course_utils.checks.counted import tells_errors, undisturbed
from course_utils.checks.judges import Behaviour, Mistake
from course_utils.checks.u08.trials import length_of
from course_utils.checks.u09.on_ranks import ROUNDING, run_on
from course_utils.checks.u09.steps import (
    NUM_ROWS,
    Job,
    Ready,
    calls,
    gradients_of,
    num_hooks,
    num_wrong,
    random_rows,
    waits_in_backward,
)
from course_utils.instruments import Comm, Event
from course_utils.reference.bucketing import backward_with_unused

FIELDS = ("widths", "bucket_bytes", "unused", "is_shared")
BANDWIDTH = 8
FLOAT64_BYTES = 8
NUM_WIDTHS = 6

Numbers = dict[str, Any]
Order = list[tuple[int, float]]


def unused_cases(seed: int) -> list[Case]:
    """A parameter that one rank does without, or two each another one; all in use; a shared one."""
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96, [[], [1]], False)]
    for number in range(5):
        widths = [rng.randint(1, 2)]
        while len(widths) < NUM_WIDTHS:
            widths.append(widths[-1] + rng.randint(1, 2))
        last_bytes = FLOAT64_BYTES * widths[-1] * widths[-2]
        threshold = last_bytes + FLOAT64_BYTES  # so that no bucket has one parameter alone
        cases += [
            _case(widths, threshold, [[], [rng.randint(1, 3)]], False),
            _case(widths, threshold, [[2], [1], []], False),
            _case(widths, threshold, [[3], []] if number % 2 else [[], [0]], False),
            _case(widths, _exact(widths, number), [[], []], False),
            _case(
                [2, 4, 4, 4, 3], rng.choice((88, 104)), [[1], []] if number % 2 else [[], []], True
            ),
        ]
    return cases


def _exact(widths: list[int], number: int) -> int:
    """Bytes of the last two matrices together, or of all: a bucket that is exactly full."""
    sizes = [FLOAT64_BYTES * a * b for a, b in pairwise(widths)]
    return sum(sizes if number % 2 else sizes[-2:])


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


class _Model(nn.Module):
    """Matrices in a row, of which two may be one and the same; those left out do not learn."""

    def __init__(self, widths: list[int], is_shared: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(sum(widths))
        shapes = list(zip(widths[1:], widths, strict=False))
        weights = [torch.randn(each, generator=generator, dtype=torch.float64) for each in shapes]
        parameters = [nn.Parameter(weight) for weight in weights]
        if is_shared:
            parameters[2] = parameters[1]
        self.weights = nn.ParameterList(parameters)

    def forward(self, x: Tensor, unused: list[int]) -> Tensor:
        for place, weight in enumerate(self.weights):
            used = weight.detach() if place in unused else weight
            x = torch.tanh(F.linear(x, used))
        return x


@dataclass(frozen=True)
class _Job:
    """A case's model, losses and cluster."""

    case: Case

    @property
    def num_ranks(self) -> int:
        return len(self.case["unused"])

    def model(self) -> _Model:
        return _Model(self.case["widths"], self.case["is_shared"])

    def cluster(self, num_ranks: int | None = None) -> Any:
        """Virtual, as that of other backward passes."""
        return Job(widths=(), num_ranks=num_ranks or self.num_ranks, bandwidth=BANDWIDTH).cluster()

    def loss(self, model: nn.Module, rank: int) -> Tensor:
        rows = random_rows(self.case["widths"][0], rank)
        squares: Tensor = model(rows, self.case["unused"][rank]).square().sum()
        return squares / (self.num_ranks * NUM_ROWS)

    def gradients(self, rank: int) -> list[Tensor]:
        """Of one rank alone, zeros for what it does not use."""
        model = self.model()
        parameters = list(model.parameters())
        made = torch.autograd.grad(self.loss(model, rank), parameters, allow_unused=True)
        pairs = zip(made, parameters, strict=True)
        return [torch.zeros_like(p) if each is None else each for each, p in pairs]

    def whole(self) -> list[Tensor]:
        every = [self.gradients(rank) for rank in range(self.num_ranks)]
        return [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]

    def order(self, rank: int) -> tuple[Order, float]:
        """Which gradient is complete when on one rank, and when it is done.

        Each is told to a group of one, in a message as long as its place.
        """

        def step(comm: Comm) -> None:
            model = self.model()
            for place, parameter in enumerate(model.parameters()):
                told = torch.zeros(place + 1, dtype=torch.float64)
                parameter.register_post_accumulate_grad_hook(lambda _, x=told: comm.all_reduce(x))
            self.loss(model, rank).backward()

        log = self.cluster(1).run(step).of(0)
        order = [(event.num_bytes // FLOAT64_BYTES - 1, clock) for event, clock in calls(log)]
        return order, max(event.end_seconds for event in log)

    def buckets(self) -> list[list[int]]:
        """Places of the parameters of each bucket."""
        sizes = [parameter.nbytes for parameter in self.model().parameters()]
        made: list[list[int]] = []
        for place in range(len(sizes) - 1, -1, -1):
            if not made or sum(sizes[each] for each in made[-1]) >= self.case["bucket_bytes"]:
                made.append([])
            made[-1].append(place)
        return made

    def sent(self, rank: int) -> list[Ready]:
        """When each bucket leaves a rank: complete, and after those before it."""
        order, end = self.order(rank)
        moments = dict(order)
        sizes = [parameter.nbytes for parameter in self.model().parameters()]
        sent, clock = [], 0.0
        for bucket in self.buckets():
            clock = max(clock, *(moments.get(place, end) for place in bucket))
            sent.append(Ready(sum(sizes[place] for place in bucket), clock))
        return sent


@tells_errors
def probe(answer: Any, case: Case) -> object:
    """Gradients, buckets and their moments on all ranks, under the student's backward."""
    job = _Job(case)

    def step(comm: Comm, model: nn.Module) -> tuple[list[Tensor | None], int]:
        answer(comm, model, job.loss(model, comm.rank), case["bucket_bytes"])
        return gradients_of(model), num_hooks(model)

    with undisturbed():
        run = run_on(job.cluster(), step, job.model())
    gradients = [each for each, _ in run.results]
    logs = [run.of(rank) for rank in range(run.num_ranks)]
    return {
        "collectives": len(run.communications()),
        "other_buckets": _num_different(logs, case, "num_bytes"),
        "missing_gradients": sum(each is None for ours in gradients for each in ours),
        "gradient_length": length_of(gradients[0]),
        "wrong_gradients": num_wrong(gradients, _whole(*_key(case))),
        "waits_in_backward": max(map(waits_in_backward, logs)),
        "started_late": _num_different(logs, case, "seconds"),
        "hooks_left": run.results[0][1],
    }


def _num_different(logs: Iterable[tuple[Event, ...]], case: Case, name: str) -> int:
    """Buckets of all ranks with another size than wanted, or that left at another moment."""
    pairs = []
    for log, sent in zip(logs, _sent(*_key(case)), strict=True):
        seen = [Ready(event.num_bytes, seconds) for event, seconds in calls(log)]
        pairs += list(zip(seen, sent, strict=False))
    return sum(getattr(one, name) != getattr(other, name) for one, other in pairs)


def _key(case: Case) -> tuple[Any, ...]:
    unused = tuple(map(tuple, case["unused"]))
    return tuple(case["widths"]), case["bucket_bytes"], unused, case["is_shared"]


def _job_of(*key: Any) -> _Job:
    widths, bucket_bytes, unused, is_shared = key
    return _Job(_case(list(widths), bucket_bytes, list(map(list, unused)), is_shared))


@lru_cache(maxsize=1024)
def _whole(*key: Any) -> list[Tensor]:
    return _job_of(*key).whole()


@lru_cache(maxsize=1024)
def _sent(*key: Any) -> list[list[Ready]]:
    job = _job_of(*key)
    return [job.sent(rank) for rank in range(job.num_ranks)]


def wanted(**case: Any) -> Numbers:
    """The sums of all ranks, in buckets of parameters that leave at their moments."""
    return {
        "collectives": len(_Job(case).buckets()),
        "other_buckets": 0,
        "missing_gradients": 0,
        "gradient_length": length_of(_whole(*_key(case))),
        "wrong_gradients": 0,
        "waits_in_backward": 0,
        "started_late": 0,
        "hooks_left": 0,
    }


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    return lambda *values: formula(_case(*values))


@lru_cache(maxsize=1024)
def _early(*key: Any) -> list[int]:
    """Buckets of each rank that leave before backward is over."""
    job = _job_of(*key)
    ends = [job.order(rank)[1] for rank in range(job.num_ranks)]
    pairs = zip(ends, _sent(*key), strict=True)
    return [sum(bucket.seconds < end for bucket in sent) for end, sent in pairs]


def _num_params(case: Case) -> int:
    return len(list(_Job(case).model().parameters()))


def _more_than_full(case: Case) -> Numbers:
    """Buckets that end only when they have more bytes than asked for."""
    job = _Job({**case, "bucket_bytes": case["bucket_bytes"] + 1})
    made = [bucket.num_bytes for bucket in job.sent(0)]
    theirs = [bucket.num_bytes for bucket in _sent(*_key(case))[0]]
    differing = sum(one != other for one, other in zip(made, theirs, strict=False))
    return {"collectives": len(made), "other_buckets": job.num_ranks * differing}


def _first_to_last(case: Case) -> Numbers:
    """Buckets from the first parameter to the last."""
    sizes = [parameter.nbytes for parameter in _Job(case).model().parameters()]
    made = [0]
    for size in sizes:
        if made[-1] >= case["bucket_bytes"]:
            made.append(0)
        made[-1] += size
    differing = [
        size != bucket.num_bytes
        for sent in _sent(*_key(case))
        for size, bucket in zip(made, sent, strict=False)
    ]
    return {"collectives": len(made), "other_buckets": sum(differing)}


BACKWARD_WITH_UNUSED = Check(
    cases=unused_cases,
    reference=backward_with_unused,
    probe=probe,
    judge=Behaviour(
        wanted,
        Mistake(
            "Each parameter travels by itself. Where does a bucket end?",
            _of_case(lambda case: {"collectives": _num_params(case)}),
        ),
        Mistake(
            "A bucket that is exactly full waits for one parameter more. What does the card say of "
            "a bucket that has just as many bytes?",
            _of_case(_more_than_full),
        ),
        Mistake(
            "Gradients are too small by a factor, the number of ranks. What is a rank's loss a "
            "share of?",
            _of_case(
                lambda case: {
                    "gradient_length": length_of(_whole(*_key(case))) / len(case["unused"])
                }
            ),
        ),
        Mistake(
            "Buckets begin with the first parameter. Which gradient is complete first, and with "
            "which parameter does the card begin?",
            _of_case(_first_to_last),
        ),
        Mistake(
            "Backward stands still until a bucket has arrived. Which form of the call comes back "
            "at once?",
            _of_case(lambda case: {"waits_in_backward": max(_early(*_key(case)))}),
        ),
        Mistake(
            "All buckets are sent only when backward is over. Which of them could have left "
            "before, without a gradient missing?",
            _of_case(
                lambda case: {"waits_in_backward": 0, "started_late": sum(_early(*_key(case)))}
            ),
        ),
        Mistake(
            "Your hooks are still there when the function returns: what will the next backward "
            "pass set off?",
            _of_case(lambda case: {"hooks_left": _num_params(case)}),
        ),
        relative_tolerance=ROUNDING,
    ),
)
