"""A plan: how many layers take which option, and what that comes to."""

from typing import Any

from autograder.checking.exercise_check import call
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import DICTIONARIES, describe
from autograder.checking.result_form import WrongForm


def observe(answer: Any, case: Case) -> Plain:
    """The student's plan.

    Raises:
        WrongForm: If it is not a dictionary.
    """
    plan: Any = call(answer, case)
    if plan is not None and type(plan) not in DICTIONARIES:
        raise WrongForm("a dictionary from names to numbers of layers", describe(plan))
    return plan and dict(plan)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What a plan comes to: layers that it covers, bytes above the cap, and recomputed FLOPs."""
    by_name = {option["name"]: option for option in case["options"]}
    counts = {
        name: count
        for name, count in observed.items()
        if name in by_name and type(count) in (int, float) and count >= 0 and count % 1 == 0
    }
    kept, flops = (
        sum(count * by_name[name][field] for name, count in counts.items())
        for field in ("kept_bytes", "recomputed_flops")
    )
    unknown = observed.keys() - by_name.keys()
    return [
        Fact(
            "unknown_names",
            len(unknown),
            "names that no option has",
            "What are the keys of your dictionary, and where does an option say its name?",
        ),
        Fact(
            "odd_counts",
            len(observed) - len(unknown) - len(counts),
            "numbers of layers that are not whole numbers from 0 on",
            "What should the values of your dictionary count, and which line of yours makes one "
            "that cannot be such a count?",
        ),
        Fact(
            "planned_layers",
            sum(counts.values()),
            "planned layers",
            "To what do the values of your dictionary add up, and what should it hold where no "
            "plan fits under the cap?",
        ),
        Fact(
            "bytes_above_cap",
            max(0, kept - case["cap_bytes"]) if counts else 0,
            "bytes above the cap",
            "How many bytes do all layers of your plan keep together, and where do you compare "
            "that with the cap?",
        ),
        Fact(
            "recomputed_flops",
            flops,
            "recomputed FLOPs",
            "Your plan covers all layers and fits. Which plans does your function look at, and by "
            "what does it choose among those that fit?",
        ),
    ]
