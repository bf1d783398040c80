"""Check of gradients that travel several in one call, the last of them too."""

import random
from itertools import pairwise
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.backward_steps import grouped
from autograder.exercises.u15.shared.gradients import (
    LABELS,
    RETURNS_NOTHING,
    TOO_SHORT,
    TRAINERS,
    on_every_rank,
)
from autograder.observing.u09.after_backward import gradients_of
from autograder.observing.u09.on_ranks import FLOAT64_BYTES
from autograder.observing.u15 import drift

KINDS = ("rest", "exact", "never full", "single", "last alone")
FIELDS = ("widths", "num_ranks", "bucket_bytes")


def bucket_cases(seed: int) -> list[Case]:
    """Buckets with a remainder or none, one that is never full, one for each gradient."""
    rng = random.Random(seed)
    cases = [dict(zip(FIELDS, ([2, 3, 4], 2, 72), strict=True))]
    for num_ranks in (2, 3, 4, 1):
        for kind in KINDS:
            widths = [rng.randint(2, 3)]
            while len(widths) < 4:
                widths.append(widths[-1] + rng.randint(1, 2))
            if num_ranks % 2:
                widths.reverse()
            values = (widths, num_ranks, _bucket_bytes(widths, kind))
            cases.append(dict(zip(FIELDS, values, strict=True)))
    return cases


def sizes_of(widths: list[int]) -> list[int]:
    """Bytes of each weight and bias, first to last."""
    return [FLOAT64_BYTES * each for a, b in pairwise(widths) for each in (a * b, b)]


def _bucket_bytes(widths: list[int], kind: str) -> int:
    sizes = sizes_of(widths)
    return {
        "rest": sum(sizes[:3]),
        "exact": sum(sizes),
        "never full": sum(sizes) + FLOAT64_BYTES,
        "single": FLOAT64_BYTES,
        "last alone": sizes[-1],
    }[kind]


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch by one rank, in buckets that end when they are full."""
    model = drift.model_of(case)
    for rank in range(case["num_ranks"]):
        drift.loss_of(model, case, rank).backward()
    gradients = gradients_of(list(model.parameters()))
    buckets = [sum(each) for each in grouped(sizes_of(case["widths"]), case["bucket_bytes"])]
    return on_every_rank(gradients, buckets, other_buckets=0, buckets=buckets)


BACKWARD, FULL = "loss.backward()", "num_bytes >= bucket_bytes"
REST = "    if waiting:\n        send(comm, waiting)"
IF_FULL = f"if {FULL}:\n            send(comm, waiting)\n            waiting, num_bytes = [], 0"
LOST = (
    "The last gradients are never sent: each rank keeps its own. What is still in the bucket "
    "when the loop is over?"
)
ALONE = (
    "Every gradient gets a call of its own. The bug is gone, and so are the buckets: how many "
    "bytes should a bucket hold before you send it?"
)
EDITS = (
    Edit(
        "You send what remains with one call per gradient. How many calls does a bucket take?",
        {REST: "    for one in waiting:\n        send(comm, [one])"},
    ),
    Edit(
        "You send a bucket before it would get too full. When does the exercise send it?",
        {
            f"waiting.append(each)\n        num_bytes += each.grad.nbytes\n        {IF_FULL}": ""
            "if waiting and num_bytes + each.grad.nbytes > bucket_bytes:\n"
            "            send(comm, waiting)\n            waiting, num_bytes = [], 0\n"
            "        waiting.append(each)\n        num_bytes += each.grad.nbytes"
        },
    ),
    Edit(
        "You fill buckets from the last parameter to the first. Which order does the exercise "
        "ask for?",
        {"in model.parameters()": "in reversed(list(model.parameters()))"},
    ),
    Edit(
        "You count four bytes per element. Which dtype do these gradients have?",
        {"each.grad.nbytes": "4 * each.grad.numel()"},
    ),
    Edit(
        "After the first full bucket, every gradient gets a call of its own. What else must start "
        "from zero when a bucket has been sent?",
        {IF_FULL: IF_FULL.replace("waiting, num_bytes = [], 0", "waiting = []")},
    ),
    Edit(
        "What remains becomes rank 0's gradient on every rank. Which call adds up?",
        {
            REST: "    for one in waiting:\n        comm.broadcast(one.grad, source=0)",
        },
    ),
    Edit(
        "After the loop you send a single gradient. How many may be waiting there?",
        {REST: "    if waiting:\n        send(comm, waiting[-1:])"},
        shows=("other_buckets", "bytes"),
    ),
    Edit(
        "After the loop you always send the last gradient, and only that one. Which ones are "
        "still waiting?",
        {REST: "    send(comm, [each])"},
    ),
    Edit(LOST, {f"\n{REST}": ""}),
    Edit(ALONE, {FULL: "waiting"}, shows=("calls",)),
    Edit(
        "Nothing is sent before the loop is over. How many bytes make a bucket full?",
        {FULL: "False"},
        shows=("calls",),
    ),
    Edit(
        "Your last bucket repeats gradients that were already sent. What should be left in the "
        "bucket after it has been sent?",
        {IF_FULL: IF_FULL.replace("waiting, num_bytes = [], 0", "num_bytes = 0")},
        shows=("calls", "other_buckets", "bytes"),
    ),
    Edit(
        "After the loop you send all gradients, although most were sent before. Which ones are "
        "still waiting?",
        {REST: "    send(comm, list(model.parameters()))"},
        shows=("calls", "other_buckets", "bytes"),
    ),
    Edit(
        "A bucket that is exactly full waits for one more gradient. What does the exercise say "
        "about a bucket with exactly that many bytes?",
        {FULL: "num_bytes > bucket_bytes"},
        shows=("calls", "other_buckets"),
    ),
    Edit(
        "You fill each bucket with the same number of parameters. What should decide that a "
        "bucket is full?",
        {FULL: "len(waiting) == 2"},
        shows=("calls", "other_buckets"),
    ),
    Edit(
        "Your buckets are eight times too large. Does `bucket_bytes` count elements or bytes?",
        {"each.grad.nbytes": "each.grad.numel()"},
        shows=("calls",),
    ),
    Edit(TOO_SHORT, {BACKWARD: "(loss / comm.size).backward()"}, shows=("length",)),
)

CHECK = Check(
    cases=bucket_cases,
    observe=drift.observe,
    judge=Behaviour(
        measured,
        *edited("u15-drift", EDITS, observe=drift.observe),
        summarise=drift.summarise,
        questions={
            "missing": RETURNS_NOTHING,
            "calls": "How many buckets are there, with the one that is not full?",
            "other_buckets": "Which gradients belong to which bucket, from first to last?",
            "bytes": "How often is each gradient sent?",
            "length": "Which gradients are the sum over all ranks, and which still one rank's own?",
        },
        labels=LABELS | {"other_buckets": "buckets of the wrong size"},
    ),
    answers=TRAINERS,
)
