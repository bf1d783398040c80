"""What is measured, of which rows, by whom: every line of the table."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from course_utils.planner.calibrated import held_out, settled_runs
from course_utils.planner.truth import baselines, present
from course_utils.planner.truth.figures import Figures, Goal, Line
from course_utils.planner.truth.playbook import cases_of_choice
from course_utils.records import one_node_runs
from course_utils.records.sweeps import (
    PlaybookRun,
    playbook_failures,
    playbook_runs,
    simumax_runs,
)

MODEL = "planner of unit 14"
GRACE = 1.02  # of the bound: measured columns have two decimals, and caches are flushed
MOST_TENSOR_RANKS, MOST_NODES = 8, 32
CHOOSING = (MODEL, "five nearest rows")  # one utilisation for all plans chooses none

Errors = dict[str, list[float]]


@dataclass(frozen=True)
class Measure:
    """One thing that is predicted.

    Attributes:
        on: What, of which rows.
        rule: Which of these rows are the class.
        errors: By predictor, the error of each row; computed when it is called.
        is_in_class: Of each row.
        goals: Of the class.
    """

    on: str
    rule: str
    errors: Callable[[], Errors]
    is_in_class: Callable[[], Sequence[bool]]
    goals: tuple[tuple[str, float], ...] = ()

    def lines(self) -> Iterator[Line]:
        """Figures of each predictor."""
        chosen = self.is_in_class()
        for by, errors in self.errors().items():
            of_class = [each for each, is_in in zip(errors, chosen, strict=True) if is_in]
            yield Line(self.on, by, Figures.of(errors), Figures.of(of_class))

    def wanted(self) -> list[Goal]:
        """The goals as such."""
        return [Goal(self.on, *each) for each in self.goals]


def off(predicted: float, measured: float) -> float:
    """A relative error."""
    return predicted / measured - 1


Seconds = Callable[[], dict[str, list[float]]]
"""Of each of the Playbook's rows, by predictor."""


@functools.cache
def _seconds() -> dict[str, list[float]]:
    runs = playbook_runs()
    found = {MODEL: [present.step_seconds(run) for run in runs]}
    return found | {by: list(each) for by, each in baselines.predictions(runs).items()}


def time_measures(seconds: Seconds) -> list[Measure]:
    """Seconds of the Playbook's steps, the most nodes first."""
    small, kinds = MOST_NODES, functools.partial(_time, seconds)
    return [
        kinds("64 nodes", lambda run: run.nodes > MOST_NODES),
        kinds(f"at most {small} nodes", lambda run: run.nodes <= MOST_NODES),
        kinds("at most 4 nodes", lambda run: run.nodes <= 4, ("median", 5)),
        kinds("1 node", lambda run: run.nodes == 1, ("median", 3.5), ("ninety", 10)),
    ]


def _time(
    seconds: Seconds, on: str, is_here: Callable[[PlaybookRun], bool], *goals: tuple[str, float]
) -> Measure:
    here = [n for n, run in enumerate(playbook_runs()) if is_here(run)]
    runs = [playbook_runs()[n] for n in here]

    def errors() -> Errors:
        return {
            by: [off(each[n], run.step_seconds) for n, run in zip(here, runs, strict=True)]
            for by, each in seconds().items()
        }

    rule = f"at most {MOST_TENSOR_RANKS} tensor ranks"
    return Measure(
        f"Playbook, seconds of a step, {on}",
        rule,
        errors,
        lambda: [run.tensor <= MOST_TENSOR_RANKS for run in runs],
        goals,
    )


def _memory_errors() -> Errors:
    return {MODEL: [off(present.rank_gib(run), run.memory_gib) for run in playbook_runs()]}


def _bound_errors() -> Errors:
    """Zero where the bound holds, one where it does not."""
    runs = playbook_runs()
    return {MODEL: [float(present.rank_gib(run) > GRACE * run.memory_gib) for run in runs]}


def _one_rank_a_layer() -> list[bool]:
    return [run.tensor == 1 for run in playbook_runs()]


def _tried() -> list[PlaybookRun]:
    return [*playbook_runs(), *playbook_failures()]


def verdict_errors(gib: Sequence[float], sizes: Sequence[float], ran: Sequence[bool]) -> list[float]:
    """One where a layout's bytes are on the wrong side of the limit that other sizes choose."""
    limits = {size: _best_limit(gib, sizes, ran, size) for size in set(sizes)}
    return [
        float((each <= limits[size]) != is_run)
        for each, size, is_run in zip(gib, sizes, ran, strict=True)
    ]


def _best_limit(
    gib: Sequence[float], sizes: Sequence[float], ran: Sequence[bool], left_out: float
) -> float:
    """The whole number of GiB below which most that ran lies and most that failed does not."""
    others = [
        (each, is_run)
        for each, size, is_run in zip(gib, sizes, ran, strict=True)
        if size != left_out
    ]
    return max(range(40, 100), key=lambda most: sum((x <= most) == is_run for x, is_run in others))


def _verdict_errors() -> Errors:
    tried = _tried()
    ran = [True] * len(playbook_runs()) + [False] * len(playbook_failures())
    sizes = [run.size for run in tried]
    return {MODEL: verdict_errors([present.rank_gib(run) for run in tried], sizes, ran)}


def _is_in_one_list() -> list[bool]:
    both = {run.name for run in playbook_runs()} & {run.name for run in playbook_failures()}
    return [run.name not in both for run in _tried()]


def _regret(plans: Sequence[PlaybookRun], key: Callable[[PlaybookRun], float]) -> float:
    best = min(run.step_seconds for run in plans)
    return min(plans, key=key).step_seconds / best - 1


def _regret_errors() -> Errors:
    runs, cases = playbook_runs(), cases_of_choice()
    found = {}
    for by in CHOOSING:
        of_run = dict(zip(map(id, runs), _seconds()[by], strict=True))
        found[by] = [_regret(plans, lambda run, of=of_run: of[id(run)]) for plans in cases]
    found["tensor ranks to a node"] = [_regret(plans, _tensor_first) for plans in cases]
    return found


def _tensor_first(run: PlaybookRun) -> float:
    """The Playbook's first advice: tensor ranks up to the node, then few stages, large passes."""
    inside = run.tensor <= MOST_TENSOR_RANKS
    order = -run.tensor if inside else MOST_TENSOR_RANKS + run.tensor
    return order + run.pipeline / 1e3 - run.micro_batch / 1e6


def _foundry(device: str, *goals: tuple[str, float]) -> Measure:
    runs = one_node_runs(device)
    settled = set(settled_runs(device))

    def errors() -> Errors:
        of_settled = held_out(settled_runs(device)) if settled else {}
        return {MODEL: list((held_out(runs) | of_settled).values())}

    return Measure(
        f"llm-foundry, seconds of a token, 8 × {device}",
        "where the source does not contradict itself",
        errors,
        lambda: [run in settled for run in runs],
        goals,
    )


def measures() -> list[Measure]:
    """All of them, in the order of the table."""
    return [
        *time_measures(_seconds),
        Measure(
            "Playbook, memory of rank 0",
            "no tensor ranks",
            _memory_errors,
            _one_rank_a_layer,
            (("median", 3),),
        ),
        Measure(
            "Playbook, the bound on memory holds",
            "no tensor ranks",
            _bound_errors,
            _one_rank_a_layer,
            (("within_ten", 99.5),),
        ),
        Measure(
            "Playbook, ran or failed",
            "not in both lists",
            _verdict_errors,
            _is_in_one_list,
            (("within_ten", 92),),
        ),
        Measure(
            "Playbook, regret of the plan that is chosen",
            f"at most {MOST_NODES} nodes",
            _regret_errors,
            lambda: [plans[0].nodes <= MOST_NODES for plans in cases_of_choice()],
            (("median", 2), ("second_worst", 10)),
        ),
        _foundry("A100-80", ("median", 4.1), ("worst", 7.3)),
        _foundry("H100", ("median", 1.8), ("worst", 8.5)),
    ]
