"""Check of gradients summed after the backward pass, in one call for each parameter."""

import functools

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data
from autograder.exercises.u09.shared.after_backward import (
    CALLS,
    EMPTY,
    LENGTH,
    MISTAKES,
    SCENARIOS,
    cases_of,
    gradient_before,
    last_gradient,
    observe_gradients,
    sizes_of,
    wanted_of_each,
)
from autograder.exercises.u09.shared.on_ranks import ROUNDING
from course_utils.reference.gradient_sync import backward_each

CHECK = Check(
    cases=functools.partial(cases_of, SCENARIOS),
    reference=backward_each,
    observe=errors_as_data(observe_gradients),
    judge=Behaviour(
        wanted_of_each,
        Mistake(
            "Afterwards grad is None. What gives back a call that works in place, and where do you "
            "put it?",
            lambda *values: {EMPTY: values[1] * len(sizes_of(*values))},
        ),
        Mistake(
            "The ranks make one call more than there are gradients to sum. Which number of the "
            "ranks does nobody need?",
            lambda *values: {CALLS: len(sizes_of(*values)) + 1},
        ),
        Mistake(
            "What was in grad before stays on its rank, and only the new part is summed. Which "
            "tensor has both, and from when on?",
            lambda *values: (
                {LENGTH: float((last_gradient(*values) + gradient_before(*values)).norm())}
                if values[0] == "gradients before"
                else {}
            ),
        ),
        *MISTAKES,
        Mistake(
            "Twice as many calls as parameters. What does a sum that is summed again hold?",
            lambda *values: {CALLS: 2 * len(sizes_of(*values))},
        ),
        Mistake(
            "One call where the exercise asks for one for each parameter. Which exercise does "
            "that?",
            lambda *values: {CALLS: 1},
        ),
        scenarios=SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)
