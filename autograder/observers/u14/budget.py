"""What somebody predicts of a cluster who has bought some measurements there, and how far off."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm, is_number
from autograder.observers.tools import errors_as_data
from course_utils.configs.shop import NotOnOffer, OverBudget, Shop, SweptRun
from course_utils.formulas.bought_runs import median_by_kind

ALLOWED_PERCENT = {"in the median": 12, "in each kind": 30}
IN_MEDIAN, IN_EACH_KIND = ALLOWED_PERCENT
FAR = 5  # times as much or as little, which tells of a wrong unit where one run is asked for
ALIKE = 1.2  # from the smallest to the largest ratio of what is predicted over what is right

PACES = {
    "gpu": (
        "the GPU sets the pace",
        "In which runs does the GPU set the pace even if it is twice as fast and the CPU twice as "
        "slow, and what do their seconds say of `gpu`?",
    ),
    "launch": (
        "the CPU sets the pace, without stages on several nodes",
        "In which runs does the CPU set the pace even if it is twice as fast and the GPU twice as "
        "slow, and what do their seconds say of `launch`?",
    ),
    "turn": (
        "the CPU sets the pace, with stages on several nodes",
        "Which runs have little work, many tensor ranks and stages on several nodes? What is left "
        "of their seconds without `launch`, and for how many tensor ranks is it?",
    ),
}


def run_of(row: Sequence[Any]) -> SweptRun:
    """The run of a row."""
    return SweptRun(**dict(zip(SweptRun.__dataclass_fields__, row, strict=True)))


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """Seconds of each run that is asked for, and which runs on offer were bought.

    Raises:
        WrongForm: If they are not as many numbers.
    """
    offers = {run_of(row): seconds for *row, seconds in case["offers"]}
    asked = [run_of(row) for row in case["asked"]]
    shop = Shop(offers, case["budget"])
    try:
        predicted: Any = answer(shop, asked)
    except OverBudget:
        return {"what": "over_budget"}
    except NotOnOffer:
        return {"what": "not_on_offer"}
    seconds = _seconds(predicted, len(asked))
    if any(map(math.isnan, seconds)):
        return {"what": "not_a_number"}
    bought = [n for n, run in enumerate(offers) if run in shop.bought]
    return {"what": "", "seconds": seconds, "bought": bought}


def _seconds(predicted: Any, count: int) -> list[float]:
    """The numbers of a list, a tuple or an array.

    Raises:
        WrongForm: If it is something else, or of another length.
    """
    wanted = f"a list of {count} number{'s' * (count != 1)}, one for each run in `asked`"
    values = predicted.tolist() if hasattr(predicted, "tolist") else predicted
    if not isinstance(values, list | tuple):
        raise WrongForm(wanted, describe(predicted))
    if len(values) != count:
        raise WrongForm(wanted, f"{len(values)} of them")
    numbers = [each.item() if hasattr(each, "item") else each for each in values]
    for each in numbers:
        if not is_number(each):
            raise WrongForm(wanted, f"{describe(each)} among them")
    return [float(each) for each in numbers]


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong: what was bought, or how far off the predictions are; the first of these."""
    first_wrong, number = _first_wrong(case, observed, right)
    allowed = ALLOWED_PERCENT[case["scenario"]]

    def fact(name: str, label: str, ask: str) -> Fact:
        return Fact(name, number if name == first_wrong else 0.0, label, ask)

    found = [
        fact(
            "over_budget",
            "You buy a run that costs more GPU-hours than are left.",
            "Where do you compare the `price` of a run with `shop.left`?",
        ),
        fact(
            "not_on_offer",
            "You buy a run that is not on offer.",
            "Which runs are for sale, and which ones are you asked to predict?",
        ),
        fact(
            "not_a_number",
            "A prediction is not a number, which is what the mean of no runs is.",
            "For which constant did you buy no run, and what had you spent before?",
        ),
        fact(
            "nothing_bought",
            "You buy nothing, and predict runs of a cluster of which you know nothing.",
            "Which three constants are this cluster's own, and what do its own runs say of them?",
        ),
        fact(
            "one_factor",
            f"All predictions are about {_number(number)} times the measured seconds.",
            "Seconds of what do you return, and for how many passes does a step wait?",
        ),
        fact(
            "median_percent",
            f"The median error of all runs is {_number(number)} %; at most {allowed} % are "
            "allowed.",
            "Of which kind are the runs that are furthest off, and which constant would they need?",
        ),
    ]
    for kind, (where, ask) in PACES.items():
        told = observed.get("bought", ())
        count = sum(right["tells"][n] == kind for n in told)
        label = (
            f"Where {where}, the median error is {_number(number)} %; at most {allowed} % are "
            f"allowed. You bought {count} such run{'s' * (count != 1)}."
        )
        found.append(fact(f"{kind}_percent", label, ask))
    return found


def _number(number: float) -> str:
    return f"{number:,.3g}"


def _first_wrong(case: Case, observed: Plain, right: Plain) -> tuple[str, float]:
    """The name of the first thing that is wrong, and its number; no name if nothing is."""
    if observed["what"]:
        return observed["what"], 1
    predicted, measured = observed["seconds"], right["seconds"]
    errors = [100 * abs(x / y - 1) for x, y in zip(predicted, measured, strict=True)]
    wrong = _too_large(case["scenario"], errors, right["kinds"])
    if not wrong[0]:
        return wrong
    if not observed["bought"]:
        return "nothing_bought", 1
    ratios = [x / y for x, y in zip(predicted, measured, strict=True)]
    is_far = len(ratios) > 1 or not 1 / FAR < ratios[0] < FAR
    if is_far and 0 < max(ratios) < ALIKE * min(ratios):
        return "one_factor", round(median(ratios), 3)
    return wrong


def _too_large(scenario: str, errors: list[float], kinds: list[str]) -> tuple[str, float]:
    """The first median that is larger than allowed."""
    medians = {"median": median(errors)}
    if scenario == IN_EACH_KIND:
        medians = median_by_kind(errors, kinds)
    for name, percent in medians.items():
        if percent > ALLOWED_PERCENT[scenario]:
            return f"{name}_percent", round(percent, 3)
    return "", 0.0
