"""What is observed of a backward pass that sends gradients in buckets."""

from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.backward_steps import (
    WHEN_SUMS_COME_BACK,
    Ready,
    backward_passes,
    calls,
    compute_seconds,
    explain_early_hooks,
    gradient_length,
    job_of,
    left_behind,
    num_early_hooks,
    num_wrong,
    observe_step,
    other_buckets,
    step_seconds,
    waits,
    wrong_gradients,
)
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, undisturbed
from course_utils.distributed import ClusterRun


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients, hooks and calls of all ranks, and the hooks on gradients that are not whole."""
    job = job_of(case)
    models, others = ([job.model() for _ in range(job.num_ranks)] for _ in range(2))
    for rank, model in enumerate(models):
        job.fill(model, rank)
    with undisturbed(), explain_early_hooks(models):
        observed = observe_step(
            lambda comm, model, loss: answer(comm, model, loss, case["bucket_bytes"]),
            job.cluster(),
            models,
            others,
            job.loss,
        )
    return observed | {"num_early_hooks": num_early_hooks(models)}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients, collectives and their moments, beside what is right.

    Overlap counts for nothing where gradients or buckets are wrong.
    """
    run, forged_calls = replay(observed["logs"], job_of(case).cluster())
    gradients = observed["gradients"]
    sent, wrong = calls(run.of(0)), num_wrong(gradients, right["gradients"])
    pairs = list(zip(sent, right["buckets"], strict=False))
    of_buckets = [
        forged(forged_calls),
        backward_passes(observed),
        Fact(
            "early_hooks",
            observed["num_early_hooks"] if wrong else 0,
            "hooks that run before grad is filled",
            "A parameter has one kind of hook that runs before `grad` is filled, and one that runs "
            "afterwards. Which kind do you set, and which does `hooks_on`?",
        ),
        gradient_length(
            length_of(gradients[0] if wrong else right["gradients"]), WHEN_SUMS_COME_BACK
        ),
        wrong_gradients(wrong, WHEN_SUMS_COME_BACK),
        Fact(
            "collectives",
            len(sent),
            ask="The number of buckets is wrong. When is a bucket full, and which gradients are "
            "left over?",
        ),
        other_buckets(
            sum(one.num_bytes != num_bytes for one, (num_bytes, _) in pairs),
            "The buckets have other bytes. In which order do gradients become complete, and does "
            "the one that fills a bucket go with it?",
        ),
    ]
    if case["scenario"] == "overlap":
        return [*of_buckets, *_overlap(run, pairs, right["ready"])]
    return [*of_buckets, *left_behind(observed, right)]


def _overlap(
    run: ClusterRun, pairs: list[tuple[Ready, tuple[int, float]]], ready: list[float]
) -> list[Fact]:
    """When buckets leave, and what the step takes.

    Args:
        run: What the ranks did.
        pairs: The calls of rank 0, each with the bytes and the moment of its bucket.
        ready: The moments at which gradients are complete.
    """
    return [
        waits(run),
        Fact(
            "late_buckets",
            sum(one.seconds > seconds for one, (_, seconds) in pairs),
            "buckets that leave later than they could",
            "A bucket leaves later than it could. Which line notices that it is full?",
        ),
        Fact(
            "ready_behind",
            sum(seconds < each <= one.seconds for one, (_, seconds) in pairs for each in ready),
            "gradients that are complete between a bucket's moment and its leaving, in all",
            "How many gradients become complete while a full bucket has not left yet, and what is "
            "it waiting for?",
        ),
        step_seconds(
            run,
            "The buckets are right, but the step takes too long. Which line waits, and when?",
        ),
        compute_seconds(run),
    ]
