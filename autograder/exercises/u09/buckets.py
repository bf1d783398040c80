"""Check of gradients in buckets: what is sent, when, and whether backward waits for it."""

import random
from itertools import pairwise
from typing import Any

from autograder.checking.error_hints import WHICH_HOOK
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    CHANGES_MODEL,
    ELEMENT_BYTES,
    LABELS,
    NO_BACKWARD,
    NONE_FILLED,
    STAY_AFTER_ERROR,
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


# Places of the model answer.
BEGIN, JOIN, GIVE_BACK = "travelling = []", "bucket.append(parameter)", "give_back(flat, members)"
FULL = "sum(each.grad.nbytes for each in bucket) >= bucket_bytes"
IF_FULL = f"        if {FULL}:\n            start()"
BACKWARD = "with hooks_on(model, hook):\n        loss.backward()"
SEND = "flat = joined(bucket)"
CLEAR = "        bucket.clear()\n"

# A count beside the list.
COUNT = {
    BEGIN: "travelling, held = [], 0",
    JOIN: f"nonlocal held\n        {JOIN}\n        held += parameter.grad.nbytes",
}
NEVER_RESET = COUNT | {FULL: "held >= bucket_bytes"}
RESET_ONLY = COUNT | {f"{FULL}:": "held >= bucket_bytes:\n            held = 0", CLEAR: ""}

LENGTH, OTHERS = ("gradient_length",), ("collectives", "other_buckets", "late_buckets")
ALONE = "Each gradient travels by itself. How many bytes have to wait before a bucket is sent?"
SENT_AGAIN = (
    "From the first full bucket on, what was sent is sent again. What must be gone from those "
    "waiting when a bucket leaves?"
)
EDITS = (
    Edit(
        "Models differ in how many bytes a number has. Who knows how many a gradient has?",
        {"each.grad.nbytes": "8 * each.grad.numel()"},
        shows=OTHERS,
    ),
    Edit(
        "Each rank still has the gradients of its own rows. How does what was summed up come "
        "back into grad, and at which moment is it the sum?",
        {GIVE_BACK: "pass"},
        shows=LENGTH,
    ),
    Edit(
        "Gradients are too small by a factor, the number of ranks. What is a rank's loss "
        "a share of, and who has divided already?",
        {GIVE_BACK: f"flat /= comm.size\n        {GIVE_BACK}"},
        shows=LENGTH,
    ),
    Edit(
        "Gradients are too large by a factor, the number of ranks: sums of what had been "
        "summed up. Which gradients are in two buckets, or in one and in an all-reduce "
        "besides?",
        {GIVE_BACK: f"comm.all_reduce(flat)\n        {GIVE_BACK}"},
        shows=LENGTH,
    ),
    Edit(
        "What was in grad before this backward pass is gone. Does a hook get only what this "
        "pass adds, or the sum with what was there?",
        {BACKWARD: f"model.zero_grad()\n    {BACKWARD}"},
        shows=LENGTH,
    ),
    Edit(
        "The sums are added to what each rank has of its own already. Which operation puts "
        "new numbers in the place of old ones?",
        {
            GIVE_BACK: "pieces = flat.split([each.numel() for each in members])\n"
            "        for each, piece in zip(members, pieces, strict=True):\n"
            "            each.grad += piece.view_as(each)"
        },
        shows=LENGTH,
    ),
    Edit(
        "Your buckets follow the model's parameters from the last to the first. That is the "
        "order of their making: who knows in which order gradients become ready?",
        {
            BEGIN: "travelling, complete, following = [], set(), list(model.parameters())",
            f"{JOIN}\n{IF_FULL}": "complete.add(parameter)\n"
            "        while following and following[-1] in complete:\n"
            "            bucket.append(following.pop())\n"
            f"            if {FULL}:\n                start()",
        },
        shows=OTHERS[:2],
    ),
    Edit(
        "A bucket that is exactly full waits for one gradient more. What does the exercise say "
        "of a bucket that has just as many bytes?",
        {FULL: FULL.replace(">=", ">")},
        shows=OTHERS,
    ),
    Edit(
        "All gradients travel in one bucket. How many bytes must wait before the first one is "
        "sent?",
        {f"\n{IF_FULL}": ""},
        shows=OTHERS,
    ),
    Edit(SENT_AGAIN, {CLEAR: ""}, shows=OTHERS),
    Edit(SENT_AGAIN, RESET_ONLY, shows=OTHERS),
    Edit(SENT_AGAIN, RESET_ONLY | {"if bucket:": "if held:"}, shows=OTHERS),
    Edit(
        "After the first full bucket each gradient travels by itself. What do you count, and "
        "where does the count go back to zero?",
        NEVER_RESET,
        shows=OTHERS,
    ),
    Edit(ALONE, {IF_FULL: "        start()"}, shows=OTHERS),
    Edit(
        ALONE,
        {
            BACKWARD: "loss.backward()\n    for each in model.parameters():\n"
            "        comm.all_reduce(each.grad)"
        },
    ),
    Edit(
        "Your buckets are eight times too large. Does the exercise count numbers or bytes?",
        {"each.grad.nbytes": "each.grad.numel()"},
        shows=OTHERS,
    ),
    Edit(
        "Your buckets never have more than so many bytes. Is the number in the exercise's text "
        "the largest size of a bucket, or the one from which on it is sent?",
        {
            f"{JOIN}\n{IF_FULL}": "held = sum(each.grad.nbytes for each in bucket)\n"
            "        if bucket and held + parameter.grad.nbytes > bucket_bytes:\n"
            f"            start()\n        {JOIN}"
        },
        shows=OTHERS,
    ),
    Edit(
        "Your buckets follow the order of the model's parameters, first to last. Which "
        "gradient is complete first?",
        {BACKWARD: "loss.backward()\n    for each in model.parameters():\n        hook(each)"},
        shows=OTHERS[:2],
    ),
    Edit(
        "Gradients that fill no bucket are never sent. What is still waiting when backward is "
        "over?",
        {"    if bucket:\n        start()\n": ""},
        shows=LENGTH,
    ),
    Edit(
        "Backward stands still until a bucket has arrived, for every one of them. Which form "
        "of the call comes back at once, and when is its result needed?",
        {CLEAR: f"{CLEAR}        travelling[-1][0].wait()\n"},
        points=2.0,
        shows=("waits",),
    ),
    Edit(
        "Before a bucket is sent your hook waits for the one before it. Who else takes care "
        "that they travel one after the other?",
        {SEND: f"if travelling:\n            travelling[-1][0].wait()\n        {SEND}"},
        points=2.0,
        shows=("waits",),
    ),
    Edit(
        "While backward runs, your hook waits for a bucket that is on its way. Who needs its "
        "sums before backward is over?",
        {JOIN: f"if travelling:\n            travelling[-1][0].wait()\n        {JOIN}"},
        points=2.0,
        shows=("waits",),
    ),
    Edit(
        "A full bucket leaves one gradient late, or when backward is over. At which moment do "
        "you look whether it is full: before a gradient joins those waiting, or afterwards?",
        {f"        {JOIN}\n{IF_FULL}": f"{IF_FULL}\n        {JOIN}"},
        points=2.0,
        shows=("late_buckets", "ready_behind"),
    ),
    Edit(
        "All buckets are sent only when backward is over, so that nothing overlaps. Who could "
        "start the call at the moment at which a bucket is full?",
        {
            BACKWARD: "complete = []\n    with hooks_on(model, complete.append):\n"
            "        loss.backward()\n    for each in complete:\n        hook(each)"
        },
        points=2.0,
        shows=("late_buckets",),
    ),
    Edit(
        "Backward is over before your first bucket leaves, and then the model's parameters "
        "are taken from the last to the first. Who knows, and when, which gradient is "
        "complete?",
        {
            BACKWARD: "loss.backward()\n    for each in reversed(list(model.parameters())):\n"
            "        hook(each)"
        },
        shows=OTHERS,
    ),
    Edit(
        "Your hooks are still there when the function returns: what will the next backward "
        "pass set off?",
        {
            BACKWARD: "for each in model.parameters():\n"
            "        each.register_post_accumulate_grad_hook(hook)\n    loss.backward()"
        },
        points=2.0,
        shows=("hooks_left",),
    ),
    Edit(
        STAY_AFTER_ERROR,
        {
            BACKWARD: "hooks = [p.register_post_accumulate_grad_hook(hook) for p in "
            "model.parameters()]\n    loss.backward()\n    for each in hooks:\n"
            "        each.remove()"
        },
        points=2.0,
    ),
    Edit(
        CHANGES_MODEL,
        {GIVE_BACK: f"{GIVE_BACK}\n    model.eval()"},
        points=2.0,
        shows=("changes_model",),
    ),
)

# No gradient is filled: nothing to send, or an error where none was there before.
NEVER = (NO_BACKWARD, NONE_FILLED)

CHECK = Check(
    cases=bucket_cases,
    observe=buckets.observe,
    judge=Behaviour(
        measured,
        *(Symptom(hint, lambda *values: {"backward_passes": 0}) for hint in NEVER),
        Symptom(WHICH_HOOK, lambda *values: _all_hooks_early(**_case(*values))),
        *edited("u09-buckets", EDITS, observe=buckets.observe),
        scenarios=SCENARIOS,
        questions={
            "collectives": "The number of buckets is another one. When is a bucket full, and what "
            "of those that are left?",
            "other_buckets": "The buckets have other bytes. In which order do gradients become "
            "complete, and does the one that fills a bucket go with it?",
            "wrong_gradients": "Gradients are not the sum over all ranks. When do the sums come "
            "back, and into which tensors?",
            "gradient_length": "Gradients are not the sum over all ranks. When do the sums come "
            "back, and into which tensors?",
            "late_buckets": "A bucket leaves later than it could. Who notices that it is full?",
            "step_seconds": "The buckets are right, and the step takes longer. Who waits for "
            "them, and at which moment?",
        },
        labels=LABELS,
        summarise=buckets.summarise,
    ),
    fallback="course_utils.reference.bucketing.backward_in_buckets",
    answers=BUCKETERS,
)
