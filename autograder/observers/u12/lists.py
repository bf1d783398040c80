"""The lists of a schedule as they came, and what the simulator of pipelines makes of them."""

from typing import Any

from autograder.checking.exercise_check import call
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data
from course_utils.configs import Placement
from course_utils.instruments import PassSeconds, PipelineRun, simulate_pipeline

WANTED = "a list of actions for each stage"
TIMES = 4  # an answer with that many times the actions is not followed


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The student's lists."""
    sizes = {name: each for name, each in case.items() if name != "scenario"}
    schedule: Any = call(answer, sizes)
    if schedule is None:
        raise WrongForm(WANTED, "nothing")
    if not isinstance(schedule, list | tuple):
        raise WrongForm(WANTED, describe(schedule))
    for each in schedule:
        if not isinstance(each, list | tuple):
            raise WrongForm(WANTED, f"{describe(each)} in it")
    return [[*each] for each in schedule]


def follow(case: Case, schedule: Plain, seconds: PassSeconds | None = None) -> PipelineRun:
    """What the lists of the stages come to; those that are too many are left out."""
    placement = Placement(case["num_stages"], case.get("num_chunks", 1))
    most = TIMES * 3 * case["num_micro_batches"] * placement.num_chunks
    lists = [each[:most] for each in schedule[: placement.num_stages]]
    lists += [[] for _ in range(placement.num_stages - len(lists))]
    return simulate_pipeline(lists, case["num_micro_batches"], placement, seconds)


WHAT_COMES_BEFORE = (
    "Your stages wait for each other. Which action does one of them wait for, and what comes "
    "before it on its stage?"
)


def facts_of_run(  # noqa: PLR0913  questions by name
    schedule: Plain,
    run: PipelineRun,
    *,
    ask_unknown: str,
    ask_repeated: str,
    ask_missing: str,
    ask_waiting: str = WHAT_COMES_BEFORE,
    ask_seconds: str,
) -> list[Fact]:
    """What is wrong with the lists, and how long they take; questions are an exercise's own."""
    return [
        Fact(
            "lists",
            len(schedule),
            "lists, one for each stage",
            "How many lists does a schedule have?",
        ),
        Fact(
            "unknown",
            len(run.unknown),
            "entries other than actions of this pipeline",
            ask_unknown,
        ),
        Fact("repeated", len(run.repeated), "actions that occur twice", ask_repeated),
        Fact("missing", len(run.missing), "actions that are missing", ask_missing),
        Fact(
            "waiting",
            len(run.waiting),
            "A deadlock: the caption of your picture names the actions that wait.",
            ask_waiting,
        ),
        Fact("seconds", int(run.seconds), "seconds of the step", ask_seconds),
    ]


def held(run: PipelineRun, stage: int, right: Plain, ask: str) -> Fact:
    """The most passes that a stage holds; one that holds less than it may is right."""
    name, most = f"held_{stage}", max((number for _, number in run.flights(stage)), default=0)
    return Fact(name, max(most, right[name]), f"passes in flight on stage {stage}", ask)
