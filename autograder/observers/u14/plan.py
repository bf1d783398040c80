"""A plan that was chosen, and what it costs by the case's own table."""

from collections.abc import Iterator
from typing import Any

from autograder.checking.exercise_check import call
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data
from course_utils.configs import PLAN_TAKES_NAMES, Costs, NoSuchPlan, Plan

ALLOWED_PERCENT = {"by the model": 2, "by the clock": 10}


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The numbers of the student's plan, or of one that `costs` refuses on the way.

    Raises:
        WrongForm: If it is no plan.
    """
    sizes = {name: each for name, each in case.items() if name != "scenario"}
    try:
        chosen: Any = call(answer, sizes)
    except NoSuchPlan as refused:
        chosen = refused.plan
    except ValueError:
        if any(_fitting(case)):
            raise
        return {"plan": None, "what": "refused"}
    except TypeError as error:
        if not str(error).startswith(PLAN_TAKES_NAMES):
            raise
        return {"plan": None, "what": "without names"}
    if chosen is None and not any(_fitting(case)):
        return {"plan": None, "what": "nothing"}
    if not isinstance(chosen, Plan):
        raise WrongForm("a Plan", describe(chosen))
    return {"plan": {name: int(each) for name, each in vars(chosen).items()}, "what": "a plan"}


def _fitting(case: Case) -> Iterator[bool]:
    """Of each plan in the table, whether it fits."""
    memory = case["machine"]["memory_bytes"]
    return (num_bytes <= memory for num_bytes, _ in case["costs"].values())


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong with a plan: its names, a size, its bytes, its seconds; the first of these."""
    first_wrong, number = _first_wrong(case, observed, right)
    scenario = case["scenario"]

    def fact(name: str, label: str, ask: str) -> Fact:
        return Fact(name, number if name == first_wrong else 0.0, label, ask)

    return [
        fact(
            "without_names", f"{PLAN_TAKES_NAMES}.", "Which name belongs to each of your numbers?"
        ),
        fact(
            "not_refused",
            "No plan fits this machine, and your function raised no ValueError.",
            "What do you return where no plan fits, and who would believe it?",
        ),
        fact(
            "never_run",
            "Nobody ran the plan, so no clock can say what it takes.",
            "What are the seconds of a plan that nobody ran, and which plan has fewer?",
        ),
        fact(
            "not_all_devices",
            "d · t · p of a plan is not the number of devices.",
            "What do your three sizes multiply to?",
        ),
        fact(
            "heads_left_over",
            "The tensor ranks of a plan do not divide the key-value heads.",
            "Which numbers of tensor ranks divide the key-value heads?",
        ),
        fact(
            "layers_left_over",
            "The pipeline stages of a plan do not divide the layers.",
            "Which numbers of pipeline stages divide the layers?",
        ),
        fact(
            "sequences_left_over",
            "The replicas of a plan do not divide the sequences of a step.",
            "Which numbers of replicas divide the sequences of a step?",
        ),
        fact(
            "micro_batch_left_over",
            "A micro-batch does not divide a replica's share of the sequences.",
            "How many sequences has a replica, and does your micro-batch divide them?",
        ),
        fact(
            "nothing_to_share",
            "A plan with one replica alone has a ZeRO stage above 0.",
            "With whom would a single replica share its state?",
        ),
        fact(
            "percent_too_large",
            "The plan does not fit: the fullest device has not enough memory.",
            "Do you compare the bytes of a plan with the memory of a device?",
        ),
        fact(
            "percent_slower",
            f"A step of the plan takes {number:.1f} % longer than the best plan's; {scenario}, at "
            f"most {ALLOWED_PERCENT[scenario]} % are allowed.",
            "Some plan that fits is faster than yours. Which sizes do you not try: tensor ranks, "
            "pipeline stages, ZeRO stages, larger micro-batches, or layers that run again?",
        ),
    ]


def _first_wrong(case: Case, observed: Plain, right: Plain) -> tuple[str, float]:
    """The name of the first thing that is wrong, and its number; no name if nothing is."""
    if observed["plan"] is None:
        name = {"without names": "without_names", "nothing": "not_refused"}
        return (name[observed["what"]], 1) if observed["what"] in name else ("", 0.0)
    plan = Plan(**observed["plan"])
    key = Costs.key(plan)
    if key not in case["costs"]:
        return _broken_rule(case, plan), 1
    num_bytes, _ = case["costs"][key]
    memory = case["machine"]["memory_bytes"]
    if num_bytes > memory:
        return "percent_too_large", 100 * (num_bytes / memory - 1)
    slower = 100 * (right["seconds"][key] / right["best"] - 1)
    if slower > ALLOWED_PERCENT[case["scenario"]]:
        return "percent_slower", round(slower, 3)
    return "", 0.0


def _broken_rule(case: Case, plan: Plan) -> str:
    """Which rule a plan breaks that is not in the table, or that nobody ran it."""
    num_sequences = case["num_sequences"]
    rules = {
        "not_all_devices": plan.num_devices == case["machine"]["num_devices"],
        "heads_left_over": case["model"]["num_kv_heads"] % plan.tensor == 0,
        "layers_left_over": case["model"]["num_layers"] % plan.pipeline == 0,
        "sequences_left_over": num_sequences % plan.data == 0,
        "micro_batch_left_over": num_sequences // plan.data % plan.micro_batch == 0,
    }
    shares = plan.data > 1 or not plan.zero_stage
    last = "never_run" if shares and Costs.OTHERS in case["costs"] else "nothing_to_share"
    return next((name for name, holds in rules.items() if not holds), last)
