"""Check of gradients summed after the backward pass, in one call for all."""

import functools
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data
from autograder.exercises.u09.shared.after_backward import (
    CALLS,
    LENGTH,
    MISTAKES,
    SCENARIOS,
    WRONG,
    cases_of,
    observe_gradients,
    own_gradient,
    prepared,
    sizes_of,
    wanted_of_each,
    whole_gradient,
)
from autograder.exercises.u09.shared.on_ranks import FLOAT64_BYTES, ROUNDING
from course_utils.distributed import NullComm
from course_utils.instruments import trace_memory
from course_utils.reference.gradient_sync import backward_flat

FLAT_SCENARIOS = (*SCENARIOS, "memory")

AT_PEAK, AFTER = "sets of gradients at the peak", "sets of gradients afterwards"

# The gradients and one buffer; less is fine.
SETS_AT_PEAK = 2


def wanted(**case: Any) -> dict[str, float]:
    """The gradient of the whole batch, in one call, with one buffer besides the gradients."""
    return wanted_of_each(**case) | {CALLS: 1, AT_PEAK: SETS_AT_PEAK, AFTER: 1}


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients of all ranks, calls, and how many sets of gradients are alive at once."""
    numbers = observe_gradients(answer, case)
    at_peak, after = SETS_AT_PEAK, 1
    if case["scenario"] == "memory":
        model, loss = prepared(case, rank=0)

        def step() -> None:
            answer(NullComm(), model, loss)
            torch.zeros(())  # one more step of the trace, after the answer has freed its memory

        trace = trace_memory(step, model, loss)
        set_bytes = FLOAT64_BYTES * sum(sizes_of(**case))
        before = trace.total_bytes[0]
        at_peak = max(at_peak, round((trace.peak_bytes - before) / set_bytes))
        after = round((trace.total_bytes[-1] - before) / set_bytes)
    return numbers | {AT_PEAK: at_peak, AFTER: after}


CHECK = Check(
    cases=functools.partial(cases_of, FLAT_SCENARIOS),
    reference=backward_flat,
    observe=observe,
    judge=Behaviour(
        wanted,
        *MISTAKES,
        Mistake(
            "There is still a call for each parameter. What is one tensor that holds them all?",
            lambda *values: {CALLS: len(sizes_of(*values))},
        ),
        Mistake(
            "Two calls. What does a sum that is summed again hold?",
            lambda *values: {CALLS: 2},
        ),
        Mistake(
            "The sums are added to what each rank has of its own already. Which operation puts "
            "new numbers in the place of old ones?",
            lambda *values: {
                LENGTH: float((whole_gradient(*values) + own_gradient(*values)).norm())
            },
        ),
        Mistake(
            "The gradient has the right length and points elsewhere: its numbers are in wrong "
            "places. In which order do they enter the buffer, and in which do they leave it?",
            lambda *values: {WRONG: values[1]},
        ),
        Mistake(
            "At the peak there are three sets of gradients. Which copy of them is neither the "
            "buffer nor what backward made?",
            lambda *values: {AT_PEAK: 3},
        ),
        Mistake(
            "Two sets of gradients are left when all is over. Who still holds the buffer?",
            lambda *values: {AFTER: 2},
        ),
        scenarios=FLAT_SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)
