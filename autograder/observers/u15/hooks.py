"""What is observed of gradients that are sent in hooks, one by one."""

from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.after_backward import length
from autograder.observers.backward_steps import (
    backward_passes,
    calls,
    explain_early_hooks,
    job_of,
    num_wrong,
    observe_step,
    step_seconds,
    waits,
    wrong_gradients,
)
from autograder.observers.on_ranks import calls_made
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, undisturbed


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients, hooks and calls of all ranks."""
    job = job_of(case)
    models, others = ([job.model() for _ in range(job.num_ranks)] for _ in range(2))
    for rank, model in enumerate(models):
        job.fill(model, rank)
    with undisturbed(), explain_early_hooks(models):
        return observe_step(answer, job.cluster(), models, others, job.loss)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients, calls and their moments, beside what is right."""
    run, forged_calls = replay(observed["logs"], job_of(case).cluster())
    gradients, sent = observed["gradients"], calls(run.of(0))
    pairs = list(zip(sent, right["sent"], strict=False))
    return [
        forged(forged_calls),
        backward_passes(observed),
        calls_made(len(sent), "How many gradients are there, and how many calls does each need?"),
        Fact(
            "other_bytes",
            sum(one.num_bytes != num_bytes for one, (num_bytes, _) in pairs),
            "calls out of order",
            "Which gradient does each call send, and in which order do gradients become complete?",
        ),
        length(gradients, "When may a gradient be read, and is anything divided?"),
        wrong_gradients(
            num_wrong(gradients, right["gradients"]),
            "Rank 0's gradient has the right length. On which ranks does every `grad` hold the sum "
            "when your function returns, and which tensor does each call fill?",
        ),
        waits(run, "Which line waits while backward could go on?"),
        Fact(
            "late_calls",
            sum(one.seconds > seconds for one, (_, seconds) in pairs),
            "calls made later than possible",
            "What runs at the very moment when a gradient is complete?",
        ),
        step_seconds(
            run, "The calls are right, but the step takes longer. Which line waits, and when?"
        ),
        Fact(
            "hooks_left",
            observed["num_hooks"],
            "hooks left behind",
            "What do you register on the model, and which line takes each of these hooks off "
            "again?",
        ),
    ]
