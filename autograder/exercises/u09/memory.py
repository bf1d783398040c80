"""Check of gradients that are views of their buckets: bytes, and which memory backward fills."""

import itertools
import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    ELEMENT_BYTES,
    LABELS,
    grouped,
    local_gradients,
)
from autograder.observing.observation import length_of
from autograder.observing.u09 import memory
from autograder.observing.u09.backward_steps import state_of

FIELDS = ("widths", "bucket_bytes", "precision")


def memory_cases(seed: int) -> list[Case]:
    """The last bucket full or not; exactly full buckets; one for all, one for each parameter.

    All in double and in single precision. Layers grow, so that no two have the same size.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96, "float64")]
    kinds = ("rest", "exact", "all", "single", "several")
    for kind, precision in 2 * list(itertools.product(kinds, ELEMENT_BYTES)):
        widths = [rng.randint(1, 3)]
        while len(widths) < 6:
            widths.append(widths[-1] + rng.randint(1, 2))
        sizes, one = _sizes(widths, precision), ELEMENT_BYTES[precision]
        threshold = {
            "rest": sizes[0] + one,
            "exact": sum(sizes[:2]),
            "all": sum(sizes) + one,
            "single": one,
            "several": sum(sizes[:3]) - one,
        }[kind]
        cases.append(_case(widths, threshold, precision))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def _sizes(widths: list[int], precision: str) -> list[int]:
    """Bytes of the parameters, from the last to the first."""
    return [ELEMENT_BYTES[precision] * a * b for a, b in itertools.pairwise(widths)][::-1]


def measured(**case: Any) -> dict[str, Any]:
    """One set of gradients, in the buckets and nowhere else."""
    sizes = _sizes(case["widths"], case["precision"])
    bucket_bytes = [sum(each) for each in grouped(sizes, case["bucket_bytes"])]
    gradients = local_gradients(memory.job_of(case), 0)
    return {
        "buckets": len(bucket_bytes),
        "other_buckets": 0,
        "followed_buckets": 0,
        "gradients_apart": 0,
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "peak_bytes": sum(sizes),
        "bytes_left": sum(sizes),
        "changes_model": 0,
        "state": state_of(memory.job_of(case).model()),
        "bucket_bytes": bucket_bytes,
        "gradients": gradients,
    }


CHECK = Check(
    cases=memory_cases,
    observe=memory.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u09-memory", observe=memory.observe),
        labels=LABELS
        | {
            "followed_buckets": "buckets that autograd follows",
            "gradients_apart": "gradients that backward fills outside of the buckets",
            "wrong_gradients": "wrong gradients after backward",
            "peak_bytes": "bytes that the call takes at its peak",
            "bytes_left": "bytes that are left of it",
        },
        summarise=memory.summarise,
    ),
    fallback="course_utils.reference.bucketing.make_buckets",
    answers=BUCKETERS,
)
