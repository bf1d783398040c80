"""The lists of a schedule as they came, and what the simulator of pipelines makes of them."""

from typing import Any

from autograder.checking.exercise_check import Case, call
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data
from course_utils.configs import Placement
from course_utils.instruments import PassSeconds, PipelineRun, simulate_pipeline

MOST_STAGES = 8
TIMES = 4  # an answer with that many times the actions is not followed
LABELS = {
    "lists": "lists, one for each stage",
    "unknown": "entries other than actions of this pipeline",
    "repeated": "actions that stand there twice",
    "missing": "actions that are missing",
    "waiting": "A deadlock: the caption of your picture names the actions that wait.",
    "late_forwards": "forward passes after a backward pass, on all stages",
    "seconds": "seconds of the step",
    "tenths": "tenths of a second of the step, with messages of a tenth",
    **{f"held_{stage}": f"passes in flight on stage {stage}" for stage in range(MOST_STAGES)},
}


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The student's lists.

    Raises:
        TypeError: If it is no list of lists.
    """
    sizes = {name: each for name, each in case.items() if name != "scenario"}
    schedule: Any = call(answer, sizes)
    if schedule is None:
        raise TypeError("wanted a list of actions for each stage, got nothing")
    if not isinstance(schedule, list | tuple):
        raise TypeError(f"wanted a list of actions for each stage, got {describe(schedule)}")
    for each in schedule:
        if not isinstance(each, list | tuple):
            raise TypeError(f"wanted a list of actions for each stage, got {describe(each)} in it")
    return [[*each] for each in schedule]


def follow(case: Case, schedule: Plain, seconds: PassSeconds | None = None) -> PipelineRun:
    """What the lists of the stages come to; those that are too many are left out."""
    placement = Placement(case["num_stages"], case.get("num_chunks", 1))
    most = TIMES * 3 * case["num_micro_batches"] * placement.num_chunks
    lists = [each[:most] for each in schedule[: placement.num_stages]]
    lists += [[] for _ in range(placement.num_stages - len(lists))]
    return simulate_pipeline(lists, case["num_micro_batches"], placement, seconds)


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """What is wrong with the lists, how long they take, and what each stage holds.

    A stage that holds less than it may is right.
    """
    run = follow(case, observed)
    held = {
        f"held_{stage}": max([number for _, number in run.flights(stage)], default=0)
        for stage in run.stages
    }
    return {
        "lists": len(observed),
        "unknown": len(run.unknown),
        "repeated": len(run.repeated),
        "missing": len(run.missing),
        "waiting": len(run.waiting),
        "late_forwards": sum(map(_late_forwards, observed)),
        "seconds": int(run.seconds),
        **_tenths(case, observed, right),
        **{name: max(each, right[name]) if name in right else each for name, each in held.items()},
    }


def _tenths(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """Tenths of a second with messages of a tenth, where they are asked for; fewer are right."""
    if "tenths" not in right:
        return {}
    times = PassSeconds(forward=10, input_gradient=10, weight_gradient=10, message=1)
    return {"tenths": max(int(follow(case, observed, times).seconds), right["tenths"])}


def _late_forwards(actions: Plain) -> int:
    """Forward passes of a stage after its first backward pass."""
    kinds = [each[0] for each in actions if isinstance(each, list | tuple) and each]
    first = next((n for n, kind in enumerate(kinds) if kind == "B"), len(kinds))
    return kinds[first:].count("F")
