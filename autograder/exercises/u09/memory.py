"""Check of gradients that are views of their buckets: bytes, and which memory backward fills."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check, case_key
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import (
    errors_as_data,
    num_different,
    require_tensor,
    undisturbed,
)
from autograder.exercises.u08.shared.ragged_batches import length_of
from autograder.exercises.u09.shared.backward_steps import (
    LENGTH,
    OTHER_BUCKETS,
    Job,
    gradients_of,
    grouped,
)
from autograder.exercises.u09.shared.on_ranks import FLOAT64_BYTES, ROUNDING
from course_utils.instruments import trace_memory
from course_utils.reference.bucketing import make_buckets

FIELDS = ("widths", "bucket_bytes")
BUCKETS = "buckets"
APART = "gradients that backward fills outside of the buckets"
WRONG = "wrong gradients after backward"
PEAK = "bytes that the call takes at its peak"
AFTER = "bytes that are left of it"

Numbers = dict[str, Any]


def memory_cases(seed: int) -> list[Case]:
    """The last bucket full or not; exactly full buckets; one for all, one for each parameter.

    Layers grow, so that no two have the same size.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96)]
    for kind in ("rest", "exact", "all", "single", "several") * 4:
        widths = [rng.randint(1, 3)]
        while len(widths) < 6:
            widths.append(widths[-1] + rng.randint(1, 2))
        sizes = _sizes({"widths": widths})
        threshold = {
            "rest": sizes[0] + FLOAT64_BYTES,
            "exact": sum(sizes[:2]),
            "all": sum(sizes) + FLOAT64_BYTES,
            "single": FLOAT64_BYTES,
            "several": sum(sizes[:3]) - FLOAT64_BYTES,
        }[kind]
        cases.append(_case(widths, threshold))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def _job(case: Case) -> Job:
    return Job(widths=tuple(case["widths"]), num_ranks=1)


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Bytes that the student's call takes, and what backward puts into its buckets."""
    job, buckets = _job(case), list[Tensor]()
    model = job.model()

    def call() -> None:
        buckets.extend(require_tensor(each) for each in _returned(answer, model, case))
        torch.empty(0)  # one more step of the trace, after the call has freed its memory

    with undisturbed(), _empty_is_not_zero():
        trace = trace_memory(call, model)
        job.loss(model, 0).backward()
    gradients = gradients_of(model)
    storages = {each.untyped_storage().data_ptr() for each in buckets}
    pairs = zip((each.nbytes for each in buckets), _bytes(case), strict=False)
    return {
        BUCKETS: len(buckets),
        OTHER_BUCKETS: sum(one != other for one, other in pairs),
        APART: sum(_storage(each.grad) not in storages for each in model.parameters()),
        LENGTH: length_of(gradients),
        WRONG: num_different(gradients, _wanted_gradients(*case_key(case))),
        PEAK: trace.peak_bytes - trace.total_bytes[0],
        AFTER: trace.total_bytes[-1] - trace.total_bytes[0],
    }


def _returned(answer: Any, model: nn.Module, case: Case) -> list[object]:
    """The items that were returned; anything but a list or a tuple is one item."""
    returned = answer(model, case["bucket_bytes"])
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def _storage(gradient: Tensor | None) -> int | None:
    return None if gradient is None else gradient.untyped_storage().data_ptr()


@contextmanager
def _empty_is_not_zero() -> Iterator[None]:
    """Fill uninitialised memory with nan inside, since by chance it is often zero."""
    was_strict = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_strict)


@lru_cache(maxsize=1024)
def _wanted_gradients(*key: Any) -> list[Tensor]:
    return _job(_case(*key)).local_gradients(0)


def _sizes(case: Case) -> list[int]:
    """Bytes of the parameters, from the last to the first."""
    return [FLOAT64_BYTES * a * b for a, b in pairwise(case["widths"])][::-1]


def _bytes(case: Case) -> list[int]:
    """Bytes of each bucket."""
    return [sum(each) for each in grouped(_sizes(case), case["bucket_bytes"])]


def wanted(**case: Any) -> Numbers:
    """One set of gradients, in the buckets and nowhere else."""
    total = sum(_sizes(case))
    return {
        BUCKETS: len(_bytes(case)),
        OTHER_BUCKETS: 0,
        APART: 0,
        LENGTH: length_of(_wanted_gradients(*case_key(case))),
        WRONG: 0,
        PEAK: total,
        AFTER: total,
    }


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    return lambda *values: formula(_case(*values))


def _in_other_buckets(case: Case, sizes: Sequence[int], bucket_bytes: int) -> Numbers:
    made = [sum(each) for each in grouped(sizes, bucket_bytes)]
    pairs = zip(made, _bytes(case), strict=False)
    return {BUCKETS: len(made), OTHER_BUCKETS: sum(one != other for one, other in pairs)}


def _last_is_full(case: Case) -> bool:
    return bool(_bytes(case)[-1] >= case["bucket_bytes"])


def _without_rest(case: Case) -> Numbers:
    """If the last bucket is returned only when it is full."""
    if _last_is_full(case):
        return {}
    *_, rest = grouped(_sizes(case), case["bucket_bytes"])
    return {BUCKETS: len(_bytes(case)) - 1, OTHER_BUCKETS: 0, APART: len(rest)}


def _peak_of_copies(case: Case) -> int:
    """Peak if each bucket is copied from something that is freed before the next one is made."""
    sizes = _bytes(case)
    return max(sum(sizes[:number]) + 2 * size for number, size in enumerate(sizes))


COPIED = (
    "Afterwards there is one set of gradients, but at its peak the call takes more. What is made "
    "only to be copied from?"
)

CHECK = Check(
    cases=memory_cases,
    reference=make_buckets,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "An empty bucket comes last. When is the next one begun, if the last parameter has "
            "filled the one before?",
            _of_case(lambda case: {BUCKETS: len(_bytes(case)) + 1} if _last_is_full(case) else {}),
        ),
        Mistake(
            "The last bucket is missing where it does not become full. What is still waiting when "
            "your loop is over?",
            _of_case(_without_rest),
        ),
        Mistake(
            "A bucket that is exactly full waits for one parameter more. What does the exercise "
            "say of a bucket that has just as many bytes?",
            _of_case(lambda case: _in_other_buckets(case, _sizes(case), case["bucket_bytes"] + 1)),
        ),
        Mistake(
            "Your buckets begin with the first parameter. With which one does the exercise begin, "
            "and whose gradient is complete first?",
            _of_case(
                lambda case: _in_other_buckets(case, _sizes(case)[::-1], case["bucket_bytes"])
            ),
        ),
        Mistake(
            "Your buckets are eight times too large. Does the exercise count numbers or bytes?",
            _of_case(
                lambda case: _in_other_buckets(
                    case, _sizes(case), FLOAT64_BYTES * case["bucket_bytes"]
                )
            ),
        ),
        Mistake(
            "All parameters are in one bucket. How many bytes end the first one?",
            _of_case(lambda case: {BUCKETS: 1}),
        ),
        Mistake(
            "Each parameter has a bucket of its own. Where does a bucket end?",
            _of_case(lambda case: {BUCKETS: len(_sizes(case))}),
        ),
        Mistake(
            "The sizes are right, and backward fills other memory than your buckets. Which of your "
            "operations makes a copy where a view would do, and what is in grad?",
            _of_case(lambda case: {APART: len(_sizes(case))}),
        ),
        Mistake(
            "After backward gradients are no numbers. Backward adds to what is in grad: what "
            "stands in your buckets before?",
            _of_case(lambda case: {LENGTH: float("nan")}),
        ),
        Mistake(COPIED, _of_case(lambda case: {PEAK: 2 * sum(_sizes(case))})),
        Mistake(COPIED, _of_case(lambda case: {PEAK: _peak_of_copies(case)})),
        Mistake(COPIED, _of_case(lambda case: {PEAK: sum(_sizes(case)) + max(_bytes(case))})),
        relative_tolerance=ROUNDING,
    ),
)
