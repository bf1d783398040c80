"""Check of gradients in buckets: what is sent, when, and whether backward waits for it."""

import random
from itertools import pairwise
from typing import Any

from autograder.checking.error_hints import WHICH_HOOK
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    ELEMENT_BYTES,
    LABELS,
    NO_BACKWARD,
    NONE_FILLED,
    grouped,
    ready_gradients,
    whole_gradients,
)
from autograder.observing.observation import length_of
from autograder.observing.u09 import buckets
from autograder.observing.u09.backward_steps import job_of, state_of

SCENARIOS = ("buckets", "overlap")
FIELDS = (
    *("scenario", "widths", "num_ranks", "bucket_bytes", "bandwidth"),
    *("is_reordered", "has_gradients", "precision"),
)

# What each scenario looks at; overlap counts for nothing where gradients or buckets are wrong.
BUCKETS = (
    *("forged_calls", "backward_passes", "early_hooks", "gradient_length", "wrong_gradients"),
    *("collectives", "other_buckets"),
)
STATE = ("changes_model", "hooks_left", "hooks_after_error")
OVERLAP = ("waits", "late_buckets", "ready_behind", "step_seconds", "compute_seconds")
LOOKED_AT = {"buckets": (*BUCKETS, *STATE), "overlap": (*BUCKETS, *OVERLAP)}


def bucket_cases(seed: int) -> list[Case]:
    """Buckets of one gradient and of several, with and without a rest, on slow and fast links."""
    rng = random.Random(seed)
    cases = [_case("overlap", [2, 3, 4, 2], 2, 96, 8, False, False, "float64")]
    kinds = (
        *("exact", "rest", "several", "small", "reordered"),
        *("before", "all", "single", "float32"),
    )
    for scenario in SCENARIOS:
        for kind in (*kinds, "exact", "rest"):
            cases.append(_case_of_kind(rng, scenario, kind))
    return cases


def _case_of_kind(rng: random.Random, scenario: str, kind: str) -> Case:
    """Layers that grow, so that no two gradients have the same size."""
    widths = [rng.randint(1, 2)]
    while len(widths) < (5 if kind in ("several", "small", "reordered", "float32") else 4):
        widths.append(widths[-1] + rng.randint(1, 2))
    precision = "float32" if kind == "float32" else "float64"
    one = ELEMENT_BYTES[precision]
    sizes = [one * a * b for a, b in pairwise(widths)][::-1]
    threshold = {
        "exact": sizes[0] + sizes[1],
        "rest": sum(sizes[:2]) - one,
        "several": sum(sizes[:3]) - one,
        "small": sizes[-1] + one,
        "reordered": sizes[0] + one,
        "before": sizes[0] + sizes[1],
        "all": 2 * sum(sizes),
        "single": 1,
        "float32": sum(sizes),
    }[kind]
    ranks, bandwidth = 3 if kind == "before" else 2, rng.choice((2, 4, 16))
    is_kind = (kind == "reordered", kind == "before")
    return _case(scenario, widths, ranks, threshold, bandwidth, *is_kind, precision)


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, and buckets that leave as soon as they are full."""
    ready = ready_gradients(case["widths"], ELEMENT_BYTES[case["precision"]])
    moments = iter(ready)
    groups = grouped([each.num_bytes for each in ready], case["bucket_bytes"])
    filled = [[sum(group), [next(moments).seconds for _ in group][-1]] for group in groups]
    gradients = whole_gradients(job_of(case))
    numbers = {
        **dict.fromkeys((*BUCKETS, *STATE, *OVERLAP), 0),
        "backward_passes": 1,
        "gradient_length": length_of(gradients),
        "collectives": len(filled),
        "step_seconds": _step_seconds(case, filled, ready[-1].seconds),
        "compute_seconds": case["num_ranks"] * ready[-1].seconds,
    }
    looked_at = {name: numbers[name] for name in LOOKED_AT[case["scenario"]]}
    return looked_at | {
        "gradients": gradients,
        "state": state_of(job_of(case).model()),
        "buckets": filled,
        "ready": [each.seconds for each in ready],
    }


def _step_seconds(case: Case, filled: list[Any], compute_seconds: float) -> float:
    """Each bucket leaves when it is full and the one before it has arrived, by ring all-reduce."""
    n, free = case["num_ranks"], 0.0
    for num_bytes, seconds in filled:
        free = max(free, seconds) + 2 * (n - 1) * (1 + num_bytes / n / case["bandwidth"])
    return max(free, compute_seconds)


def _all_hooks_early(**case: Any) -> dict[str, int]:
    """If every parameter of every rank has a hook on its new gradient."""
    return {"early_hooks": case["num_ranks"] * (len(case["widths"]) - 1)}


# No gradient is filled: nothing to send, or an error where none was there before.
NEVER = (NO_BACKWARD, NONE_FILLED)

CHECK = Check(
    cases=bucket_cases,
    observe=buckets.observe,
    judge=Behaviour(
        measured,
        *(Symptom(hint, lambda *values: {"backward_passes": 0}) for hint in NEVER),
        Symptom(WHICH_HOOK, lambda *values: _all_hooks_early(**_case(*values))),
        *mistakes_of("u09-buckets", observe=buckets.observe),
        scenarios=SCENARIOS,
        questions=questions_of("u09-buckets"),
        labels=LABELS,
        summarise=buckets.summarise,
    ),
    fallback="course_utils.reference.bucketing.backward_in_buckets",
    answers=BUCKETERS,
)
