"""Check of gradients summed after the backward pass, one call for all."""

import functools
from typing import Any

import torch

from autograder.checking.check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.counted_layers import tells_errors
from autograder.exercises.u09.after_backward import (
    CALLS,
    LENGTH,
    MISTAKES,
    SCENARIOS,
    WRONG,
    _observed,
    _own,
    _prepared,
    _sizes,
    _whole,
    cases_of,
    wanted_of_each,
)
from autograder.exercises.u09.on_ranks import FLOAT64_BYTES, ROUNDING
from course_utils.distributed import NullComm
from course_utils.instruments import trace_memory
from course_utils.reference.gradient_sync import backward_flat

FLAT_SCENARIOS = (*SCENARIOS, "memory")

AT_PEAK, AFTER = "sets of gradients at the peak", "sets of gradients afterwards"

# The gradients and one buffer; whoever needs less does no harm.
SETS_AT_PEAK = 2


def wanted_of_flat(**case: Any) -> dict[str, float]:
    """The same in one call, with one buffer beside the gradients."""
    memory = {AT_PEAK: SETS_AT_PEAK, AFTER: 1}
    return wanted_of_each(**case) | {CALLS: 1} | memory


@tells_errors
def observe_flat(answer: Any, case: Case) -> object:
    """The same, and how many sets of gradients are there at once."""
    seen = _observed(answer, case)
    at_peak, after = SETS_AT_PEAK, 1
    if case["scenario"] == "memory":
        model, loss = _prepared(case, rank=0)

        def step() -> None:
            answer(NullComm(), model, loss)
            torch.zeros(())  # what the answer let go of is gone by then

        trace = trace_memory(step, model, loss)
        a_set = FLOAT64_BYTES * sum(_sizes(**case))
        before = trace.total_bytes[0]
        at_peak = max(at_peak, round((trace.peak_bytes - before) / a_set))
        after = round((trace.total_bytes[-1] - before) / a_set)
    return seen | {AT_PEAK: at_peak, AFTER: after}


CHECK = Check(
    cases=functools.partial(cases_of, FLAT_SCENARIOS),
    reference=backward_flat,
    observe=observe_flat,
    judge=Behaviour(
        wanted_of_flat,
        *MISTAKES,
        Mistake(
            "There is still a call for each parameter. What is one tensor that holds them all?",
            lambda *values: {CALLS: len(_sizes(*values))},
        ),
        Mistake(
            "Two calls. What does a sum that is summed again hold?",
            lambda *values: {CALLS: 2},
        ),
        Mistake(
            "The sums are added to what each rank has of its own already. Which operation puts "
            "new numbers in the place of old ones?",
            lambda *values: {LENGTH: float((_whole(*values) + _own(*values)).norm())},
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
