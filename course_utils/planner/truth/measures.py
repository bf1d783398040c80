"""What is measured, of which rows, by whom: every line of the table, the worst first."""

import functools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from course_utils.formulas.cluster_step import NANOTRON, Pace, step_work
from course_utils.formulas.rank_memory import RankMemory, nanotron_memory
from course_utils.formulas.stage_cut import refusal
from course_utils.planner.calibrated import held_out, settled_runs
from course_utils.planner.rates import h100_rates, simumax_rates
from course_utils.planner.truth import baselines, present, simumax
from course_utils.planner.truth.figures import Figures, Goal, Line
from course_utils.planner.truth.playbook import (
    GIB,
    NODE,
    cases_of_choice,
    model_of,
    step_of,
    tensor_ranks_first,
)
from course_utils.planner.truth.steps import held_out_steps
from course_utils.records import one_node_runs
from course_utils.records.sweeps import PlaybookRun, playbook_failures, playbook_runs

MODEL, PRESENT, TOLD = "this model", "planner of unit 14", "this model, sleeps told"
TWO_CONSTANTS = "two constants, as today"
NEAREST, THEIRS = "five nearest rows", "SimuMax itself"
GRACE = 1.02  # of the bound: the column has two decimals, and a cache may have been flushed
MOST_NODES = 32
LIMITS = range(40, 100)  # GiB, to choose among
ALL = "all of them"
NOT_POLLED = "not polled by the rule of other sizes"

Predicted = dict[str, list[float]]
"""By predictor, a number for each row."""


@dataclass(frozen=True)
class Measure:
    """One thing that is predicted.

    Attributes:
        on: What, of which rows.
        rule: Which of these rows are the class.
        errors: By predictor, the error of each row, the judged one first; computed when called.
        is_in_class: Of each row; none given, all are.
        goals: Figures of the class with their bounds.
    """

    on: str
    rule: str
    errors: Callable[[], Predicted]
    is_in_class: Callable[[], Sequence[bool]] | None = None
    goals: tuple[tuple[str, float], ...] = ()

    def lines(self) -> Iterator[Line]:
        """Figures of each predictor."""
        chosen = self.is_in_class() if self.is_in_class else None
        for by, errors in self.errors().items():
            of_class = [each for n, each in enumerate(errors) if chosen is None or chosen[n]]
            yield Line(self.on, by, Figures.of(errors), Figures.of(of_class))

    def wanted(self) -> list[Goal]:
        """The goals as such."""
        return [Goal(self.on, *each) for each in self.goals]


def off(predicted: float, measured: float) -> float:
    """A relative error."""
    return predicted / measured - 1


@functools.cache
def playbook_seconds() -> Predicted:
    """Seconds of each of the Playbook's rows, by predictor."""
    runs, steps = playbook_runs(), held_out_steps()
    ours = {MODEL: list(steps.seconds), TOLD: list(steps.told)}
    ours[PRESENT] = [present.step_seconds(run) for run in runs]
    return ours | {by: list(each) for by, each in baselines.predictions(runs).items()}


def time_measures(seconds: Callable[[], Predicted]) -> list[Measure]:
    """Seconds of the Playbook's steps."""
    kinds = functools.partial(_time, seconds)
    return [
        kinds("64 nodes", lambda run: run.nodes > MOST_NODES),
        kinds("tensor ranks beyond a node", lambda run: run.tensor > NODE),
        kinds("at most 32 nodes", lambda run: run.nodes <= MOST_NODES),
        kinds("at most 4 nodes", lambda run: run.nodes <= 4, ("median", 5)),
        kinds("1 node", lambda run: run.nodes == 1, ("median", 3.5), ("ninety", 10)),
    ]


def _time(
    seconds: Callable[[], Predicted],
    on: str,
    is_here: Callable[[PlaybookRun], bool],
    *goals: tuple[str, float],
) -> Measure:
    here = [(n, run) for n, run in enumerate(playbook_runs()) if is_here(run)]
    may_be_wide = on == "tensor ranks beyond a node"

    def errors() -> Predicted:
        return {
            by: [off(each[n], run.step_seconds) for n, run in here]
            for by, each in seconds().items()
        }

    def is_in_class() -> list[bool]:
        is_polled = held_out_steps().is_polled
        return [not is_polled[n] and (may_be_wide or run.tensor <= NODE) for n, run in here]

    rule = NOT_POLLED if may_be_wide else f"{NOT_POLLED}, tensor ranks in a node"
    return Measure(f"Playbook, seconds of a step, {on}", rule, errors, is_in_class, goals)


def rank_memory(run: PlaybookRun) -> RankMemory:
    """The first rank of a row."""
    return nanotron_memory(step_of(run), stage=0)


def _gib() -> Predicted:
    """GiB of the first rank of each of the Playbook's rows, by predictor."""
    runs = playbook_runs()
    near = baselines.nearest_of_other_sizes(runs, [math.log(run.memory_gib) for run in runs])
    return {
        MODEL: [rank_memory(run).expected / GIB for run in runs],
        PRESENT: [present.rank_gib(run) for run in runs],
        NEAREST: list(np.exp(near)),
    }


def memory_measure(gib: Callable[[], Predicted]) -> Measure:
    """Reserved memory of the Playbook's first ranks."""
    runs = playbook_runs()

    def errors() -> Predicted:
        return {
            by: [off(each, run.memory_gib) for each, run in zip(predicted, runs, strict=True)]
            for by, predicted in gib().items()
        }

    return Measure(
        "Playbook, memory of rank 0",
        "no tensor ranks",
        errors,
        lambda: [run.tensor == 1 for run in runs],
        (("median", 3),),
    )


def _bound_errors() -> Predicted:
    """Zero where the bound holds, one where it does not."""
    runs = playbook_runs()
    bounds = {
        MODEL: [rank_memory(run).at_least / GIB for run in runs],
        PRESENT: [present.rank_gib(run) for run in runs],
    }
    return {
        by: [float(gib > GRACE * run.memory_gib) for gib, run in zip(each, runs, strict=True)]
        for by, each in bounds.items()
    }


def _tried() -> list[PlaybookRun]:
    return [*playbook_runs(), *playbook_failures()]


def _verdict_errors() -> Predicted:
    """Zero where a layout is rightly said to run or to fail, one where it is not."""
    tried = _tried()
    ran = [n < len(playbook_runs()) for n in range(len(tried))]
    starts = [not refusal(model_of(x), x.pipeline, x.num_micro_batches) for x in tried]
    ours = [rank_memory(run).at_least / GIB for run in tried]
    said = {
        MODEL: [a and b for a, b in zip(_below_limit(ours, tried, ran), starts, strict=True)],
        f"{MODEL}, memory alone": _below_limit(ours, tried, ran),
        PRESENT: _below_limit([present.rank_gib(run) for run in tried], tried, ran),
        NEAREST: list(baselines.nearest_of_other_sizes(tried, ran) > 0.5),
    }
    return {
        by: [float(a != b) for a, b in zip(each, ran, strict=True)] for by, each in said.items()
    }


def _below_limit(
    gib: Sequence[float], tried: Sequence[PlaybookRun], ran: Sequence[bool]
) -> list[bool]:
    """Whether each is below the limit that is right most often on other sizes."""
    rows = list(zip(gib, (run.size for run in tried), ran, strict=True))
    limits = {
        left_out: _best_limit([(each, is_run) for each, size, is_run in rows if size != left_out])
        for left_out in {run.size for run in tried}
    }
    return [each <= limits[run.size] for each, run in zip(gib, tried, strict=True)]


def _best_limit(rows: Sequence[tuple[float, bool]]) -> int:
    """The limit that is right most often."""
    return max(LIMITS, key=lambda most: sum((gib <= most) == ran for gib, ran in rows))


def _is_in_one_list() -> list[bool]:
    both = {run.name for run in playbook_runs()} & {run.name for run in playbook_failures()}
    return [run.name not in both for run in _tried()]


def _wishes() -> Predicted:
    """What is to be small in the plan that is chosen; one utilisation for all chooses none."""
    seconds = playbook_seconds()
    return {
        **{by: seconds[by] for by in (MODEL, PRESENT, NEAREST)},
        f"{MODEL}, no sleeps": list(held_out_steps().awake),
        "tensor ranks first": [tensor_ranks_first(run) for run in playbook_runs()],
    }


def regret_measure(wishes: Callable[[], Predicted]) -> Measure:
    """How much slower the chosen one of the Playbook's measured plans is than the fastest."""
    places, cases = {id(run): n for n, run in enumerate(playbook_runs())}, cases_of_choice()

    def regret(plans: list[PlaybookRun], wish: list[float]) -> float:
        chosen = min(plans, key=lambda run: wish[places[id(run)]])
        return off(chosen.step_seconds, min(run.step_seconds for run in plans))

    return Measure(
        "Playbook, regret of the plan that is chosen",
        "at most 32 nodes",
        lambda: {by: [regret(plans, wish) for plans in cases] for by, wish in wishes().items()},
        lambda: [plans[0].nodes <= MOST_NODES for plans in cases],
        (("median", 2), ("second_worst", 10)),
    )


def simumax_memory() -> Measure:
    """Ranks of Megatron-LM on B200, nothing fitted."""
    ranks = simumax.measured_ranks()

    def errors() -> Predicted:
        return {
            MODEL: [off(simumax.rank_gib(run, stage), gib) for run, stage, gib in ranks],
            THEIRS: [run.simulated_memory_percent / 100 for run, _, _ in ranks],
        }

    return Measure(
        "SimuMax, memory of first and last ranks, 8 × B200",
        "no context ranks",
        errors,
        lambda: [run.context == 1 for run, _, _ in ranks],
        (("worst", 0.7),),
    )


def rates_alone(device: str, *goals: tuple[str, float]) -> Measure:
    """Steps of Megatron-LM from tables of rates."""
    runs = simumax.timed_runs(device)

    def errors() -> Predicted:
        rates = simumax_rates(device)
        predicted = [simumax.step_seconds(run, rates) for run in runs]
        measured = [simumax.measured_seconds(run) for run in runs]
        return {
            MODEL: list(map(off, predicted, measured)),
            THEIRS: [run.simulated_time_percent / 100 for run in runs],
        }

    return Measure(f"rates alone, seconds of a step, 8 × {device}", ALL, errors, None, goals)


def _rates_alone_on_h100() -> Measure:
    runs = [run for run in playbook_runs() if run.nodes == 1]

    def seconds(run: PlaybookRun) -> float:
        return float(step_work(step_of(run), NANOTRON, h100_rates()).seconds(Pace()))

    return Measure(
        "rates alone, seconds of a step, 8 × H100, Playbook",
        "no tensor ranks",
        lambda: {MODEL: [off(seconds(run), run.step_seconds) for run in runs]},
        lambda: [run.tensor == 1 for run in runs],
    )


def _foundry(device: str, *goals: tuple[str, float]) -> Measure:
    runs = one_node_runs(device)
    settled = set(settled_runs(device))

    def of_other_models(size: str) -> float:
        return statistics.median(run.published_mfu_percent for run in runs if run.model != size)

    def errors() -> Predicted:
        ours = held_out(runs) | held_out(settled_runs(device))
        one_mfu = [off(of_other_models(run.model), run.published_mfu_percent) for run in runs]
        return {TWO_CONSTANTS: [ours[run] for run in runs], "one MFU": one_mfu}

    return Measure(
        f"llm-foundry, tokens a second, 8 × {device}",
        "where the source does not contradict itself",
        errors,
        lambda: [run in settled for run in runs],
        goals,
    )


def measures() -> list[Measure]:
    """All of them, in the order of the table."""
    return [
        *time_measures(playbook_seconds),
        regret_measure(_wishes),
        memory_measure(_gib),
        Measure(
            "Playbook, the bound on memory holds",
            ALL,
            _bound_errors,
            goals=(("within_ten", 99.5),),
        ),
        Measure(
            "Playbook, ran or failed",
            "in one of both lists alone",
            _verdict_errors,
            _is_in_one_list,
            (("within_ten", 92),),
        ),
        simumax_memory(),
        _rates_alone_on_h100(),
        rates_alone("B200"),
        rates_alone("A100-PCIe-80", ("worst", 3.5)),
        _foundry("A100-80", ("median", 4.1), ("worst", 7.3)),
        _foundry("H100", ("median", 1.8), ("worst", 8.5)),
    ]
