"""Gradients summed in one call for all: also the bytes that are live meanwhile, on one rank."""

from typing import Any

import torch

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers import after_backward
from autograder.observers.tools import errors_as_data
from course_utils.distributed import NullComm
from course_utils.instruments import trace_memory


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """As for one call each.

    Where memory counts, also the bytes of a second model's call before,
    at the peak and afterwards, and the first one's gradients then.
    """
    ranks = after_backward.ranks_of(case)
    trained = after_backward.trained(ranks[0][0])
    observed = after_backward.observe_gradients(answer, ranks)
    if case["scenario"] != "memory":
        return observed
    model, loss = after_backward.prepared(case, rank=0)

    def step() -> None:
        answer(NullComm(), model, loss)
        torch.zeros(())  # one more step of the trace, after the answer has freed its memory

    trace = trace_memory(step, model, loss)
    live = trace.total_bytes
    return observed | {
        "live_bytes": [live[0], trace.peak_bytes, live[-1]],
        "gradients_later": after_backward.gradients_of(trained),
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Also bytes above those before the call, in sets of gradients; less is fine."""
    at_peak, afterwards = right["sets_at_peak"], right["sets_afterwards"]
    overwritten = 0
    if case["scenario"] == "memory":
        overwritten = after_backward.num_other(
            observed["gradients_later"], observed["gradients"][0]
        )
        before, peak, after = observed["live_bytes"]
        at_peak = max(at_peak, round((peak - before) / right["bytes"]))
        afterwards = max(afterwards, round((after - before) / right["bytes"]))
    of_gradients = after_backward.facts_of_gradients(
        case,
        observed,
        right,
        ask_calls="Which calls do you make, and what is sent?",
        ask_length="The gradient's norm is wrong. What is in the buffer, and which line brings "
        "sums back?",
    )
    return [
        *of_gradients,
        Fact(
            "overwritten",
            overwritten,
            "gradients of a first model that a call for a second one changes",
            "Whose memory holds the first model's gradients, and which memory does the call for "
            "the second model fill?",
        ),
        Fact(
            "sets_at_peak",
            at_peak,
            "sets of gradients at the peak",
            "Gradients and buffer are two sets. Which third one is there for a moment?",
        ),
        Fact(
            "sets_afterwards",
            afterwards,
            "sets of gradients afterwards",
            "One set should be left. Which variable of yours still holds the other?",
        ),
    ]
