"""Check of micro-batches on each rank: one exchange for all, one at a time in memory."""

import random
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check, case_key
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from autograder.exercises.u08.shared.ragged_batches import length_of
from autograder.exercises.u09.shared.backward_steps import (
    COLLECTIVES,
    LENGTH,
    WRONG,
    Job,
    gradients_of,
    job_of,
    num_wrong,
)
from autograder.exercises.u09.shared.on_ranks import ROUNDING
from course_utils.distributed import Comm
from course_utils.reference.bucketing import accumulate_together, backward_in_buckets

FIELDS = ("widths", "num_ranks", "num_micro_batches", "trainer")
TRAINERS = ("one call for each", "buckets")

AT_ONCE = "micro-batches in memory at once"
FORWARDS = "forward passes"
BACKWARDS = "backward passes through micro-batches"
OUT_OF_ORDER = "micro-batches that run after one which follows them in the list"
EXCHANGES = "calls of the trainer"
IN_TRAINER = "micro-batches that run backward in the trainer"

Numbers = dict[str, Any]


def together_cases(seed: int) -> list[Case]:
    """One micro-batch and up to three, two ranks and three; each trainer with one and several."""
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 2, 3, TRAINERS[0])]
    for number, num_ranks in enumerate((2, 2, 3, 2)):
        for count in (1, 2, 3, 2, 3):
            widths = [rng.randint(2, 4) for _ in range(3)]
            cases.append(_case(widths, num_ranks, count, TRAINERS[1 - number % 2]))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


class _Monitor:
    """Counts forward and backward passes, and the most that wait for backward at once."""

    def __init__(self, job: Job, model: nn.Module, rank: int) -> None:
        self.job, self.model, self.rank = job, model, rank
        self.order: list[int] = []
        self.num_waiting = self.most_waiting = self.num_backwards = 0

    def micro_batch(self, number: int) -> Tensor:
        loss = self.job.loss(self.model, self.rank, number)
        self.order.append(number)
        self.num_waiting += 1
        self.most_waiting = max(self.most_waiting, self.num_waiting)
        loss.register_hook(self._note)
        return loss

    def _note(self, gradient: Tensor) -> None:
        self.num_waiting -= 1
        self.num_backwards += 1


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients, forward passes and collectives of the student's accumulation."""
    job = job_of(case)
    models = [job.model() for _ in range(job.num_ranks)]

    def step(comm: Comm) -> tuple[list[Tensor | None], _Monitor, int, int]:
        model = models[comm.rank]
        monitor, num_exchanges, num_inside = _Monitor(job, model, comm.rank), 0, 0

        def backward(comm: Comm, model: nn.Module, loss: Tensor) -> None:
            nonlocal num_exchanges, num_inside
            num_exchanges += 1
            num_before = monitor.num_backwards
            _train(case["trainer"], comm, model, loss)
            num_inside += monitor.num_backwards - num_before

        micro_batches = [partial(monitor.micro_batch, n) for n in range(case["num_micro_batches"])]
        answer(comm, model, micro_batches, backward)
        return gradients_of(model), monitor, num_exchanges, num_inside

    with undisturbed():
        run = job.run(step)
    gradients = [each for each, *_ in run.results]
    _, monitor, num_exchanges, num_inside = run.results[0]
    return {
        AT_ONCE: max(1, monitor.most_waiting),
        FORWARDS: len(monitor.order),
        OUT_OF_ORDER: sum(one > other for one, other in pairwise(monitor.order)),
        LENGTH: length_of(gradients[0]),
        WRONG: num_wrong(gradients, _whole(*case_key(case))),
        EXCHANGES: num_exchanges,
        IN_TRAINER: num_inside,
        BACKWARDS: monitor.num_backwards,
        COLLECTIVES: len(run.communications()),
    }


def _train(trainer: str, comm: Comm, model: nn.Module, loss: Tensor) -> None:
    """Backward, and a call for each parameter: afterwards, or while backward runs."""
    if trainer == "buckets":
        return backward_in_buckets(comm, model, loss, bucket_bytes=1)
    loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)  # type: ignore[arg-type]
    return None


@lru_cache(maxsize=1024)
def _whole(*key: Any) -> list[Tensor]:
    case = _case(*key)
    return job_of(case).whole_gradients(case["num_micro_batches"])


def wanted(**case: Any) -> Numbers:
    """The gradient of all micro-batches of all ranks, and each parameter exchanged once."""
    return {
        AT_ONCE: 1,
        FORWARDS: case["num_micro_batches"],
        OUT_OF_ORDER: 0,
        LENGTH: length_of(_whole(*case_key(case))),
        WRONG: 0,
        EXCHANGES: 1,
        IN_TRAINER: 1,
        BACKWARDS: case["num_micro_batches"],
        COLLECTIVES: len(case["widths"]) - 1,  # one for each matrix
    }


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    return lambda *values: formula(_case(*values))


def _each_exchanged(case: Case) -> float:
    """Length of the gradient if each exchange also sums what was summed before."""
    job = job_of(case)
    total = [torch.zeros_like(each) for each in job.model().parameters()]
    for number in range(case["num_micro_batches"]):
        every = [_gradients_of_one(job, rank, number) for rank in range(job.num_ranks)]
        new = [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]
        total = [job.num_ranks * old + more for old, more in zip(total, new, strict=True)]
    return length_of(total)


@lru_cache(maxsize=1024)
def _gradients_of_one(job: Job, rank: int, number: int) -> list[Tensor]:
    model = job.model()
    job.loss(model, rank, number).backward()
    return [each.grad for each in model.parameters() if each.grad is not None]


def _of_the_last(case: Case, number: int = 1) -> float:
    """Length of the gradient of the last ``number`` micro-batches, summed over all ranks."""
    job, numbers = job_of(case), range(_num_micro_batches(case))[-number:]
    made = [_gradients_of_one(job, rank, each) for rank in range(job.num_ranks) for each in numbers]
    return length_of([torch.stack(parts).sum(0) for parts in zip(*made, strict=True)])


def _first_exchanged(case: Case) -> float:
    """Length of rank 0's gradient: the first micro-batch of all ranks, the others only its own."""
    job = job_of(case)
    made = [_gradients_of_one(job, rank, 0) for rank in range(job.num_ranks)]
    made += [_gradients_of_one(job, 0, number) for number in range(1, _num_micro_batches(case))]
    return length_of([torch.stack(parts).sum(0) for parts in zip(*made, strict=True)])


def _own(case: Case) -> float:
    """Length of rank 0's own gradient."""
    job, numbers = job_of(case), range(_num_micro_batches(case))
    made = [_gradients_of_one(job, 0, number) for number in numbers]
    return length_of([torch.stack(parts).sum(0) for parts in zip(*made, strict=True)])


def _num_micro_batches(case: Case) -> int:
    return int(case["num_micro_batches"])


OTHER_ORDER = "Micro-batches run in another order than they stand in the list. Where do you begin?"

CHECK = Check(
    cases=together_cases,
    reference=accumulate_together,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "All micro-batches run forward before the first one runs backward, so that all "
            "activations are in memory. When is the first moment at which one can go?",
            _of_case(lambda case: {AT_ONCE: _num_micro_batches(case)}),
        ),
        Mistake(
            "Two micro-batches are in memory: the next one runs forward before the last one has "
            "run backward. How else can you know which one is the last?",
            _of_case(lambda case: {AT_ONCE: min(2, _num_micro_batches(case))}),
        ),
        Mistake(
            "Micro-batches run forward twice. How often do you call each function?",
            _of_case(lambda case: {FORWARDS: 2 * _num_micro_batches(case)}),
        ),
        Mistake(
            "One forward pass too many. Which micro-batch do you call once for its own backward "
            "pass, and once more for the trainer?",
            _of_case(lambda case: {FORWARDS: _num_micro_batches(case) + 1}),
        ),
        Mistake(
            "One micro-batch is missing. What becomes of the last one, and what of a list of one?",
            _of_case(lambda case: {FORWARDS: _num_micro_batches(case) - 1}),
        ),
        Mistake(
            OTHER_ORDER,
            _of_case(lambda case: {OUT_OF_ORDER: _num_micro_batches(case) - 1}),
        ),
        Mistake(OTHER_ORDER, _of_case(lambda case: {OUT_OF_ORDER: 1})),
        Mistake(
            "Every micro-batch is exchanged, and every exchange sums up what is in grad, what "
            "was summed up before included. After which one do the ranks need each other's?",
            _of_case(lambda case: {LENGTH: _each_exchanged(case)}),
        ),
        Mistake(
            "Every micro-batch is exchanged. After which one do the ranks need each other's "
            "gradients?",
            _of_case(lambda case: {EXCHANGES: _num_micro_batches(case)}),
        ),
        Mistake(
            "The first micro-batch is exchanged, and the others stay on their ranks. What is in "
            "grad at the moment at which the trainer sums it up?",
            _of_case(lambda case: {LENGTH: _first_exchanged(case)}),
        ),
        Mistake(
            "The gradient is too short by a factor, the number of ranks. What is each loss a share "
            "of, and who has divided already?",
            _of_case(lambda case: {LENGTH: length_of(_whole(*case_key(case))) / case["num_ranks"]}),
        ),
        Mistake(
            "The trainer is never called, and each rank has its own gradients. Who exchanges what "
            "is in grad?",
            _of_case(lambda case: {LENGTH: _own(case)}),
        ),
        Mistake(
            "You exchange gradients by yourself, and the trainer is never called. Who starts its "
            "buckets while backward still runs?",
            _of_case(lambda case: {EXCHANGES: 0}),
        ),
        Mistake(
            "The trainer gets a loss that no micro-batch has made. Which hook fires in its "
            "backward pass, and which loss does the exercise hand to it?",
            _of_case(lambda case: {LENGTH: _own(case), IN_TRAINER: 0, EXCHANGES: 1}),
        ),
        Mistake(
            "A micro-batch runs backward once by itself and once more in the trainer. Through "
            "which of them does the trainer go, and who has gone there before?",
            _of_case(lambda case: {IN_TRAINER: 1, BACKWARDS: _num_micro_batches(case) + 1}),
        ),
        Mistake(
            "Gradients are exchanged once more than the trainer does. What does it leave in grad?",
            _of_case(lambda case: {LENGTH: case["num_ranks"] * length_of(_whole(*case_key(case)))}),
        ),
        Mistake(
            "Only the last micro-batch is in your gradients. Who throws away those of the others?",
            _of_case(lambda case: {LENGTH: _of_the_last(case)}),
        ),
        Mistake(
            "Only the last two micro-batches are in your gradients. Which line throws away those "
            "of the others, and how often does it run?",
            _of_case(lambda case: {LENGTH: _of_the_last(case, number=2)}),
        ),
        Mistake(
            "The gradient is too short by a factor, the number of micro-batches. What is "
            "each loss a share of, and who has divided already?",
            _of_case(
                lambda case: {LENGTH: length_of(_whole(*case_key(case))) / _num_micro_batches(case)}
            ),
        ),
        relative_tolerance=ROUNDING,
    ),
)
