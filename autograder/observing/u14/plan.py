"""A plan that was chosen, and what it costs by the case's own table."""

from typing import Any

from autograder.checking.exercise_check import Case, call
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data
from course_utils.configs import Costs, Plan

LABELS = {
    "no_such_plan": "The plan does not use all devices, or does not divide what it cuts.",
    "too_large": "The plan does not fit: the fullest device has not enough memory.",
    "percent_slower": "per cent more seconds than the best plan, beyond what is allowed",
}
NO_SUCH_PLAN = "no such plan"  # what `Costs` says of it
ALLOWED_PERCENT = {"within 2 %": 2, "within 10 %": 10}


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The numbers of the student's plan; of one that `costs` refuses on the way, its refusal.

    Raises:
        TypeError: If it is no plan.
    """
    sizes = {name: each for name, each in case.items() if name != "scenario"}
    try:
        chosen: Any = call(answer, sizes)
    except ValueError as error:
        if NO_SUCH_PLAN not in str(error):
            raise
        return {"key": NO_SUCH_PLAN}
    if not isinstance(chosen, Plan):
        raise TypeError(f"wanted a Plan, got {describe(chosen)}")
    return {"key": Costs.key(chosen)}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Whether there is such a plan, whether it fits, how much slower than the best it is."""
    row = case["costs"].get(observed["key"])
    if row is None:
        return {"no_such_plan": 1, "too_large": 0, "percent_slower": 0.0}
    num_bytes, seconds = row
    is_too_large = num_bytes > case["machine"]["memory_bytes"]
    slower = 100 * (seconds / right["best"]["seconds"] - 1)
    is_near = slower <= ALLOWED_PERCENT[case["scenario"]]
    return {
        "no_such_plan": 0,
        "too_large": int(is_too_large),
        "percent_slower": 0.0 if is_too_large or is_near else round(slower, 3),
    }
