"""What is observed of a backward pass that sends gradients in buckets."""

from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data, length_of, undisturbed
from autograder.observing.replay import replay
from autograder.observing.u09.backward_steps import (
    calls,
    changes_model,
    compute_seconds,
    explain_early_hooks,
    job_of,
    most_waits_in_backward,
    num_early_hooks,
    num_wrong,
    observe_step,
)


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


def summarise(case: Case, observed: Plain, right: Plain) -> Plain:
    """Gradients, collectives and their moments, beside what is right."""
    run, forged_calls = replay(observed["logs"], job_of(case).cluster())
    gradients = observed["gradients"]
    sent, wrong = calls(run.of(0)), num_wrong(gradients, right["gradients"])
    pairs = list(zip(sent, right["buckets"], strict=False))
    return {
        "forged_calls": forged_calls,
        "backward_passes": observed["passes"][0][0],
        "early_hooks": observed["num_early_hooks"] if wrong else 0,
        "gradient_length": length_of(gradients[0] if wrong else right["gradients"]),
        "wrong_gradients": wrong,
        "collectives": len(sent),
        "other_buckets": sum(one.num_bytes != num_bytes for one, (num_bytes, _) in pairs),
        "waits": most_waits_in_backward(run),
        "late_buckets": sum(one.seconds > seconds for one, (_, seconds) in pairs),
        "ready_behind": sum(
            seconds < each <= one.seconds for one, (_, seconds) in pairs for each in right["ready"]
        ),
        "step_seconds": run.step_seconds,
        "compute_seconds": compute_seconds(run),
        "changes_model": changes_model(observed["states"], right["state"]),
        "hooks_left": observed["num_hooks"],
        "hooks_after_error": observed["num_hooks_after_error"],
    }
