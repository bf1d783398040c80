"""Check of gradients in buckets: what is sent, when, and whether backward waits for it."""

import math
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from torch import Tensor

from autograder.checking.error_hints import WHICH_HOOK
from autograder.checking.exercise_check import Case, Check, case_key
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from autograder.exercises.u08.shared.ragged_batches import length_of
from autograder.exercises.u09.shared.backward_steps import (
    COLLECTIVES,
    EARLY_HOOKS,
    HOOKS_LEFT,
    LATE,
    LENGTH,
    OTHER_BUCKETS,
    SECONDS,
    WAITS,
    WRONG,
    Buckets,
    Job,
    Ready,
    at_most,
    calls,
    explain_early_hooks,
    fill_buckets,
    gradients_of,
    job_of,
    never_cleared,
    never_reset,
    num_early_hooks,
    num_hooks,
    num_wrong,
    waits_in_backward,
)
from autograder.exercises.u09.shared.on_ranks import FLOAT64_BYTES, ROUNDING
from course_utils.distributed import Comm
from course_utils.reference.bucketing import backward_in_buckets

SCENARIOS = ("buckets", "overlap")
FIELDS = (
    *("scenario", "widths", "num_ranks", "bucket_bytes", "bandwidth"),
    *("is_reordered", "has_gradients"),
)

Numbers = dict[str, Any]

# What each scenario looks at; overlap counts for nothing where gradients or buckets are wrong.
BEHIND = "gradients that are complete between a bucket's moment and its leaving, in all"
BUCKETS = (EARLY_HOOKS, LENGTH, WRONG, COLLECTIVES, OTHER_BUCKETS)
LOOKED_AT = {
    "buckets": (*BUCKETS, HOOKS_LEFT),
    "overlap": (*BUCKETS, WAITS, LATE, BEHIND, SECONDS),
}


def bucket_cases(seed: int) -> list[Case]:
    """Buckets of one gradient and of several, with and without a rest, on slow and fast links."""
    rng = random.Random(seed)
    cases = [_case("overlap", [2, 3, 4, 2], 2, 96, 8, False, False)]
    kinds = ("exact", "rest", "several", "small", "reordered", "before", "all", "single")
    for scenario in SCENARIOS:
        for kind in (*kinds, "exact", "rest"):
            cases.append(_case_of_kind(rng, scenario, kind))
    return cases


def _case_of_kind(rng: random.Random, scenario: str, kind: str) -> Case:
    """Layers that grow, so that no two gradients have the same size."""
    widths = [rng.randint(1, 2)]
    while len(widths) < (5 if kind in ("several", "small", "reordered") else 4):
        widths.append(widths[-1] + rng.randint(1, 2))
    is_reordered = kind == "reordered"
    sizes = [ready.num_bytes for ready in _ready(tuple(widths), is_reordered)]
    threshold = {
        "exact": sizes[0] + sizes[1],
        "rest": sum(sizes[:2]) - FLOAT64_BYTES,
        "several": sum(sizes[:3]) - FLOAT64_BYTES,
        "small": sizes[-1] + FLOAT64_BYTES,
        "reordered": sizes[0] + FLOAT64_BYTES,
        "before": sizes[0] + sizes[1],
        "all": 2 * sum(sizes),
        "single": 1,
    }[kind]
    ranks, bandwidth = 3 if kind == "before" else 2, rng.choice((2, 4, 16))
    return _case(scenario, widths, ranks, threshold, bandwidth, is_reordered, kind == "before")


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


@lru_cache(maxsize=4096)
def _ready(widths: tuple[int, ...], is_reordered: bool) -> list[Ready]:
    return Job(widths=widths, num_ranks=1, is_reordered=is_reordered).ready()


def _ready_of(case: Case) -> list[Ready]:
    return _ready(tuple(case["widths"]), case["is_reordered"])


def _buckets(case: Case) -> list[Ready]:
    """Bytes of each bucket, and the moment at which its last gradient is complete."""
    return fill_buckets(_ready_of(case), case["bucket_bytes"])


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients, collectives and their moments, under the student's backward."""
    job = job_of(case)
    models = [job.model() for _ in range(job.num_ranks)]

    def step(comm: Comm) -> tuple[list[Tensor | None], int]:
        model = models[comm.rank]
        job.fill(model, comm.rank)
        answer(comm, model, job.loss(model, comm.rank), case["bucket_bytes"])
        return gradients_of(model), num_hooks(model)

    with undisturbed(), explain_early_hooks(models):
        run = job.run(step)
    gradients = [each for each, _ in run.results]
    sent = [Ready(event.num_bytes, seconds) for event, seconds in calls(run.of(0))]
    buckets = _buckets(case)
    num_wrong_ones = num_wrong(gradients, _whole(*case_key(case)))
    numbers = {
        EARLY_HOOKS: num_early_hooks(models) if num_wrong_ones else 0,
        LENGTH: length_of(gradients[0]),
        WRONG: num_wrong_ones,
        COLLECTIVES: len(sent),
        OTHER_BUCKETS: _num_other(sent, buckets),
        WAITS: max(waits_in_backward(run.of(rank)) for rank in range(run.num_ranks)),
        LATE: _num_late(sent, buckets),
        BEHIND: _num_behind(sent, buckets, _ready_of(case)),
        SECONDS: run.step_seconds,
        HOOKS_LEFT: run.results[0][1],
    }
    return _looked_at(case, numbers)


def _looked_at(case: Case, numbers: Numbers) -> Numbers:
    """Those of the numbers that the case's scenario looks at."""
    names = LOOKED_AT[case["scenario"]]
    return {name: number for name, number in numbers.items() if name in names}


def _num_other(sent: Buckets, buckets: Buckets) -> int:
    pairs = zip(sent, buckets, strict=False)
    return sum(one.num_bytes != other.num_bytes for one, other in pairs)


def _num_late(sent: Buckets, buckets: Buckets) -> int:
    pairs = zip(sent, buckets, strict=False)
    return sum(one.seconds > other.seconds for one, other in pairs)


def _num_behind(sent: Buckets, buckets: Buckets, gradients: Buckets) -> int:
    """Gradients that are complete after a bucket is full and before it leaves, for all buckets."""
    pairs = zip(sent, buckets, strict=False)
    return sum(
        other.seconds < each.seconds <= one.seconds for one, other in pairs for each in gradients
    )


@lru_cache(maxsize=1024)
def _whole(*key: Any) -> list[Tensor]:
    return job_of(_case(*key)).whole_gradients()


@lru_cache(maxsize=1024)
def _local(*key: Any) -> list[Tensor]:
    return job_of(_case(*key)).local_gradients(0)


def wanted(**case: Any) -> Numbers:
    """The gradient of the whole batch, and buckets that leave as soon as they are full."""
    buckets = _buckets(case)
    numbers = {
        EARLY_HOOKS: 0,
        LENGTH: length_of(_whole(*case_key(case))),
        WRONG: 0,
        COLLECTIVES: len(buckets),
        OTHER_BUCKETS: 0,
        WAITS: 0,
        LATE: 0,
        BEHIND: 0,
        SECONDS: _step_seconds(job_of(case), buckets, _ready_of(case)[-1].seconds),
        HOOKS_LEFT: 0,
    }
    return _looked_at(case, numbers)


def _step_seconds(job: Job, buckets: Buckets, compute_seconds: float) -> float:
    """Each bucket leaves when it is full and the one before it has arrived, by ring all-reduce."""
    n, free = job.num_ranks, 0.0
    for num_bytes, seconds in buckets:
        free = max(free, seconds) + 2 * (n - 1) * (1 + num_bytes / n / job.bandwidth)
    return max(free, compute_seconds)


def _num_early(case: Case) -> int:
    """Buckets that are full before backward is over."""
    end = _ready_of(case)[-1].seconds
    return sum(bucket.seconds < end for bucket in _buckets(case))


def _of_case(formula: Callable[[Case], Numbers]) -> Callable[..., Numbers]:
    """A mistake's numbers, of which a case shows those that its scenario looks at."""
    return lambda *values: _looked_at(_case(*values), formula(_case(*values)))


def _in_other_buckets(group: Callable[[Case], Buckets]) -> Callable[..., Numbers]:
    def formula(case: Case) -> Numbers:
        made, buckets = group(case), _buckets(case)
        numbers = {COLLECTIVES: len(made), OTHER_BUCKETS: _num_other(made, buckets)}
        is_same = [each.num_bytes for each in made] == [each.num_bytes for each in buckets]
        return numbers | ({LATE: _num_late(made, buckets)} if is_same else {})

    return _of_case(formula)


def _all_again(case: Case, *, also_at_end: bool) -> list[Ready]:
    """Each full bucket holds all that was sent before, and so does one at the end, if asked for."""
    made: list[Ready] = []
    for num_bytes, seconds in _buckets(case):
        made.append(Ready(num_bytes + (made[-1].num_bytes if made else 0), seconds))
    full = fill_buckets(_ready_of(case), case["bucket_bytes"], has_rest=False)
    is_rest = len(made) > len(full)
    return [*made, made[-1]] if also_at_end and not is_rest else made


def _without_rest(case: Case) -> list[Tensor]:
    """Sums of what full buckets sent, and rank 0's own gradients of what was left."""
    full = fill_buckets(_ready_of(case), case["bucket_bytes"], has_rest=False)
    sent = sum(bucket.num_bytes for bucket in full)
    held, is_sent = 0, {}
    for ready in _ready_of(case):
        held += ready.num_bytes
        is_sent[ready.num_bytes] = held <= sent
    pairs = zip(_whole(*case_key(case)), _local(*case_key(case)), strict=True)
    return [whole if is_sent[whole.nbytes] else own for whole, own in pairs]


def _added_to_own(case: Case) -> list[Tensor]:
    """Sums of all ranks, added to what rank 0 has in grad."""
    pairs = zip(_whole(*case_key(case)), _local(*case_key(case)), strict=True)
    return [whole + own for whole, own in pairs]


def _reversed_afterwards(case: Case) -> Numbers:
    """Buckets of the model's parameters from the last to the first, when backward is over."""
    end = _ready_of(case)[-1].seconds
    gradients = [Ready(each.num_bytes, end) for each in _in_model_order(case)[::-1]]
    made, buckets = fill_buckets(gradients, case["bucket_bytes"]), _buckets(case)
    return {
        COLLECTIVES: len(made),
        OTHER_BUCKETS: _num_other(made, buckets),
        LATE: _num_late(made, buckets),
    }


def _in_model_order(case: Case) -> list[Ready]:
    """The gradients in the order of the model's parameters; their moments do not matter."""
    return [Ready(parameter.nbytes, 0.0) for parameter in job_of(case).model().parameters()]


SENT_AGAIN = (
    "From the first full bucket on, what was sent is sent again. What must be gone from those "
    "waiting when a bucket leaves?"
)

CHECK = Check(
    cases=bucket_cases,
    reference=backward_in_buckets,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            WHICH_HOOK,
            _of_case(lambda case: {EARLY_HOOKS: case["num_ranks"] * len(_ready_of(case))}),
        ),
        Mistake(
            "Each rank still has the gradients of its own rows. How does what was summed up come "
            "back into grad, and at which moment is it the sum?",
            _of_case(lambda case: {LENGTH: length_of(_local(*case_key(case)))}),
        ),
        Mistake(
            "Gradients are too small by a factor, the number of ranks. What is a rank's loss "
            "a share of, and who has divided already?",
            _of_case(lambda case: {LENGTH: length_of(_whole(*case_key(case))) / case["num_ranks"]}),
        ),
        Mistake(
            "Gradients are too large by a factor, the number of ranks: sums of what had been "
            "summed up. Which gradients are in two buckets, or in one and in an all-reduce "
            "besides?",
            _of_case(lambda case: {LENGTH: length_of(_whole(*case_key(case))) * case["num_ranks"]}),
        ),
        Mistake(
            "What was in grad before this backward pass is gone. Does a hook get only what this "
            "pass adds, or the sum with what was there?",
            _of_case(
                lambda case: {
                    LENGTH: length_of(
                        _whole(*case_key({**case, "has_gradients": False}))
                        if case["has_gradients"]
                        else []
                    )
                }
            ),
        ),
        Mistake(
            "The sums are added to what each rank has of its own already. Which operation puts "
            "new numbers in the place of old ones?",
            _of_case(lambda case: {LENGTH: length_of(_added_to_own(case))}),
        ),
        Mistake(
            "Your buckets follow the model's parameters from the last to the first. That is the "
            "order of their making: who knows in which order gradients become ready?",
            _in_other_buckets(
                lambda case: fill_buckets(_in_model_order(case)[::-1], case["bucket_bytes"])
            ),
        ),
        Mistake(
            "A bucket that is exactly full waits for one gradient more. What does the exercise say "
            "of a bucket that has just as many bytes?",
            _in_other_buckets(lambda case: fill_buckets(_ready_of(case), case["bucket_bytes"] + 1)),
        ),
        Mistake(
            "All gradients travel in one bucket. How many bytes must wait before the first one is "
            "sent?",
            _in_other_buckets(lambda case: fill_buckets(_ready_of(case), math.inf)),
        ),
        Mistake(
            SENT_AGAIN,
            _in_other_buckets(lambda case: never_cleared(_ready_of(case), case["bucket_bytes"])),
        ),
        Mistake(SENT_AGAIN, _in_other_buckets(lambda case: _all_again(case, also_at_end=False))),
        Mistake(SENT_AGAIN, _in_other_buckets(lambda case: _all_again(case, also_at_end=True))),
        Mistake(
            "After the first full bucket each gradient travels by itself. What do you count, and "
            "where does the count go back to zero?",
            _in_other_buckets(lambda case: never_reset(_ready_of(case), case["bucket_bytes"])),
        ),
        Mistake(
            "Each gradient travels by itself. How many bytes have to wait before a bucket is sent?",
            _in_other_buckets(_ready_of),
        ),
        Mistake(
            "Your buckets are eight times too large. Does the exercise count numbers or bytes?",
            _in_other_buckets(
                lambda case: fill_buckets(_ready_of(case), FLOAT64_BYTES * case["bucket_bytes"])
            ),
        ),
        Mistake(
            "Your buckets never have more than so many bytes. Is the number in the exercise's text "
            "the largest size of a bucket, or the one from which on it is sent?",
            _in_other_buckets(lambda case: at_most(_ready_of(case), case["bucket_bytes"])),
        ),
        Mistake(
            "Your buckets follow the order of the model's parameters, first to last. Which "
            "gradient is complete first?",
            _in_other_buckets(
                lambda case: fill_buckets(_in_model_order(case), case["bucket_bytes"])
            ),
        ),
        Mistake(
            "Gradients that fill no bucket are never sent. What is still waiting when backward is "
            "over?",
            _of_case(lambda case: {LENGTH: length_of(_without_rest(case))}),
        ),
        Mistake(
            "Backward stands still until a bucket has arrived, for every one of them. Which form "
            "of the call comes back at once, and when is its result needed?",
            _of_case(lambda case: {WAITS: _num_early(case)}),
        ),
        Mistake(
            "Before a bucket is sent your hook waits for the one before it. Who else takes care "
            "that they travel one after the other?",
            _of_case(lambda case: {WAITS: max(0, _num_early(case) - 1)}),
        ),
        Mistake(
            "A full bucket leaves one gradient late, or when backward is over. At which moment do "
            "you look whether it is full: before a gradient joins those waiting, or afterwards?",
            _of_case(lambda case: {LATE: _num_early(case), BEHIND: _num_early(case)}),
        ),
        Mistake(
            "All buckets are sent only when backward is over, so that nothing overlaps. Who could "
            "start the call at the moment at which a bucket is full?",
            _of_case(lambda case: {LATE: _num_early(case)}),
        ),
        Mistake(
            "Backward is over before your first bucket leaves, and then the model's parameters "
            "are taken from the last to the first. Who knows, and when, which gradient is "
            "complete?",
            _of_case(_reversed_afterwards),
        ),
        Mistake(
            "Your hooks are still there when the function returns: what will the next backward "
            "pass set off?",
            _of_case(lambda case: {HOOKS_LEFT: len(_ready_of(case))}),
        ),
        scenarios=SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)
