"""A plan that was chosen, and what it costs by the case's own table."""

from typing import Any

from autograder.checking.exercise_check import Case, call
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data
from course_utils.configs import PLAN_TAKES_NAMES, Costs, NoSuchPlan, Plan

LABELS = {
    "without_names": f"{PLAN_TAKES_NAMES}.",
    "not_all_devices": "d · t · p of a plan is not the number of devices.",
    "heads_left_over": "The tensor ranks of a plan do not divide the key-value heads.",
    "layers_left_over": "The stages of a plan do not divide the layers.",
    "sequences_left_over": "The replicas of a plan do not divide the sequences of a step.",
    "micro_batch_left_over": "A micro-batch does not divide a replica's share of the sequences.",
    "nothing_to_share": "A plan with one replica alone has a stage above 0.",
    "percent_too_large": "The plan does not fit: the fullest device has not enough memory.",
    "percent_slower": "per cent more seconds than the best plan, beyond what is allowed",
}
ALLOWED_PERCENT = {"within 2 %": 2, "within 10 %": 10}


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The numbers of the student's plan, or of one that `costs` refuses on the way.

    Raises:
        TypeError: If it is no plan.
    """
    sizes = {name: each for name, each in case.items() if name != "scenario"}
    try:
        chosen: Any = call(answer, sizes)
    except NoSuchPlan as refused:
        chosen = refused.plan
    except TypeError as error:
        if not str(error).startswith(PLAN_TAKES_NAMES):
            raise
        return {"plan": None}
    if not isinstance(chosen, Plan):
        raise TypeError(f"wanted a Plan, got {describe(chosen)}")
    return {"plan": {name: int(each) for name, each in vars(chosen).items()}}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """What is wrong with a plan: its names, a size, its bytes, its seconds; the first of these."""
    numbers = dict.fromkeys(LABELS, 0.0)
    if observed["plan"] is None:
        return numbers | {"without_names": 1}
    plan = Plan(**observed["plan"])
    row = case["costs"].get(Costs.key(plan))
    if row is None:
        return numbers | {_broken_rule(case, plan): 1}
    num_bytes, seconds = row
    memory = case["machine"]["memory_bytes"]
    if num_bytes > memory:
        return numbers | {"percent_too_large": round(100 * (num_bytes / memory - 1), 3)}
    slower = 100 * (seconds / right["best"]["seconds"] - 1)
    is_near = slower <= ALLOWED_PERCENT[case["scenario"]]
    return numbers | {"percent_slower": 0.0 if is_near else round(slower, 3)}


def _broken_rule(case: Case, plan: Plan) -> str:
    """Which rule a plan breaks that is not in the table."""
    num_sequences = case["num_sequences"]
    rules = {
        "not_all_devices": plan.num_devices == case["machine"]["num_devices"],
        "heads_left_over": case["model"]["num_kv_heads"] % plan.tensor == 0,
        "layers_left_over": case["model"]["num_layers"] % plan.pipeline == 0,
        "sequences_left_over": num_sequences % plan.data == 0,
        "micro_batch_left_over": num_sequences // plan.data % plan.micro_batch == 0,
    }
    return next((name for name, holds in rules.items() if not holds), "nothing_to_share")
