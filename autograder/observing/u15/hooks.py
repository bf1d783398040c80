"""What is observed of gradients that are sent in hooks, one by one."""

from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data, length_of, undisturbed
from autograder.observing.replay import replay
from autograder.observing.u09.backward_steps import (
    calls,
    explain_early_hooks,
    job_of,
    most_waits_in_backward,
    num_wrong,
    observe_step,
)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients, hooks and calls of all ranks."""
    job = job_of(case)
    models, others = ([job.model() for _ in range(job.num_ranks)] for _ in range(2))
    for rank, model in enumerate(models):
        job.fill(model, rank)
    with undisturbed(), explain_early_hooks(models):
        return observe_step(answer, job.cluster(), models, others, job.loss)


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Gradients, calls and their moments, beside what is right."""
    run, forged_calls = replay(observed["logs"], job_of(case).cluster())
    gradients, sent = observed["gradients"], calls(run.of(0))
    pairs = list(zip(sent, right["sent"], strict=False))
    return {
        "forged_calls": forged_calls,
        "backward_passes": observed["passes"][0][0],
        "length": length_of(gradients[0]),
        "wrong_gradients": num_wrong(gradients, right["gradients"]),
        "calls": len(sent),
        "other_bytes": sum(one.num_bytes != num_bytes for one, (num_bytes, _) in pairs),
        "waits": most_waits_in_backward(run),
        "late_calls": sum(one.seconds > seconds for one, (_, seconds) in pairs),
        "step_seconds": run.step_seconds,
        "hooks_left": observed["num_hooks"],
    }
