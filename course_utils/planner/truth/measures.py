"""What is measured, of which rows, by whom: every line of the table, the worst first."""

import functools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from course_utils.formulas.cluster_step import MEGATRON, NANOTRON, Pace, pace_of, step_work
from course_utils.formulas.rank_memory import RankMemory, megatron_memory, nanotron_memory
from course_utils.formulas.rates import NODE, Rates
from course_utils.formulas.stage_cut import refusal
from course_utils.planner.calibrated import held_out, settled_runs, step_of_run
from course_utils.planner.rates import H100, rates_of, simumax_rates
from course_utils.planner.truth import baselines
from course_utils.planner.truth.figures import Figures, Line
from course_utils.planner.truth.kinds import (
    CARRIED,
    FOUNDRY,
    KINDS,
    MEMORY,
    MODEL,
    MOST_NODES,
    TIME,
    WIDE,
)
from course_utils.planner.truth.measured import GIB, cases_of_choice, playbook, step_of
from course_utils.planner.truth.steps import held_out_steps
from course_utils.records import FoundryRun, one_node_runs
from course_utils.records.sweeps import Run, runs

TOLD = "this model, sleeps told"
NEAREST, THEIRS = "five nearest rows", "SimuMax itself"
REGRET, BOUND = "Playbook, regret of the plan that is chosen", "Playbook, the bound on memory holds"
RAN, RANKS = "Playbook, ran or failed", "SimuMax, memory of first and last ranks, 8 × B200"
ALONE = "rates alone, seconds of a step, 8 ×"
GRACE = 1.02  # of the bound: the column has two decimals, and a cache may have been flushed
LIMITS = range(40, 100)  # GiB, to choose among

# Figures of the class with their bounds in per cent.
GOALS: dict[str, dict[str, float]] = {
    f"{TIME}, at most 4 nodes": {"median": 5},
    f"{TIME}, 1 node": {"median": 3.5, "ninety": 10},
    REGRET: {"median": 2, "second_worst": 10},
    MEMORY: {"median": 3},
    BOUND: {"within_ten": 99.5},
    RAN: {"within_ten": 92},
    RANKS: {"worst": 0.7},
    f"{ALONE} A100-PCIe-80": {"worst": 3.5},
    f"{FOUNDRY} A100-80": {"median": 4.1, "worst": 7.3},
    f"{FOUNDRY} H100": {"median": 1.8, "worst": 8.5},
}

Predicted = Mapping[str, Sequence[float]]
"""By predictor, a number for each row."""


@dataclass(frozen=True)
class Measure:
    """One thing that is predicted.

    Attributes:
        on: What, of which rows.
        rule: Which of these rows are the class.
        errors: By predictor, the error of each row; the judged one first.
        is_in_class: Of each row.
    """

    on: str
    rule: str
    errors: Predicted
    is_in_class: Sequence[bool]

    def lines(self) -> list[Line]:
        """Figures of each predictor."""
        return [
            Line(self.on, by, Figures.of(each), Figures.of(np.array(each)[list(self.is_in_class)]))
            for by, each in self.errors.items()
        ]


def measures() -> Iterator[Measure]:
    """All of them, in the order of the table."""
    yield from time_measures(playbook_seconds())
    yield regret_measure(_wishes())
    yield memory_measure(_gib())
    yield _bound()
    yield _ran_or_failed()
    yield simumax_memory()
    one_node = [run for run in playbook() if run.nodes == 1]
    yield rates_alone("H100, Playbook", one_node, rates_of(H100))
    for device, table in (("B200", "simumax_b200"), ("A100-PCIe-80", "simumax_a100_pcie")):
        plain = [run for run in runs(table) if run.context == 1]
        yield rates_alone(device, plain, simumax_rates(device))
    yield from map(_foundry, ("A100-80", "H100"))


def off(predicted: Predicted, measured: Sequence[float]) -> Predicted:
    """Relative errors."""
    return {
        by: [x / y - 1 for x, y in zip(each, measured, strict=True)]
        for by, each in predicted.items()
    }


@functools.cache
def playbook_seconds() -> Predicted:
    """Seconds of each of the Playbook's rows."""
    steps = held_out_steps()
    return {
        MODEL: list(steps.seconds),
        TOLD: list(steps.told),
        **{by: list(each) for by, each in baselines.predictions(playbook()).items()},
    }


def time_measures(seconds: Predicted) -> Iterator[Measure]:
    """Seconds of the Playbook's steps, by what they run on."""
    errors = off(seconds, [run.step_seconds for run in playbook()])
    awake = [not each for each in held_out_steps().is_polled]
    rule = "not polled by the rule of other sizes"
    for kind, is_of_kind in KINDS.items():
        here = [n for n, run in enumerate(playbook()) if is_of_kind(run.nodes, run.tensor)]
        is_wide = kind == WIDE
        yield Measure(
            f"{TIME}, {kind}",
            rule if is_wide else f"{rule}, tensor ranks in a node",
            {by: [each[n] for n in here] for by, each in errors.items()},
            [awake[n] and (is_wide or playbook()[n].tensor <= NODE) for n in here],
        )


def _wishes() -> Predicted:
    """What is to be small in the plan that is chosen; one utilisation for all chooses none."""
    seconds = playbook_seconds()
    return {
        **{by: seconds[by] for by in (MODEL, NEAREST)},
        f"{MODEL}, no sleeps": list(held_out_steps().awake),
        "tensor ranks first": [_tensor_ranks_first(run) for run in playbook()],
    }


def _tensor_ranks_first(run: Run) -> float:
    """The Playbook's first advice, least number first: tensor ranks to a node, then replicas."""
    ranks = -run.tensor if run.tensor <= NODE else run.tensor
    return ranks + run.pipeline / 1e3 - run.micro_batch / 1e6


def regret_measure(wishes: Predicted) -> Measure:
    """How much slower the chosen one of the measured plans is than the fastest."""
    cases = cases_of_choice()
    chosen = {
        by: [min(places, key=wish.__getitem__) for places in cases] for by, wish in wishes.items()
    }
    fastest = [min(playbook()[n].step_seconds for n in places) for places in cases]
    seconds = {by: [playbook()[n].step_seconds for n in each] for by, each in chosen.items()}
    is_small = [playbook()[places[0]].nodes <= MOST_NODES for places in cases]
    return Measure(REGRET, "at most 32 nodes", off(seconds, fastest), is_small)


def rank_memory(run: Run) -> RankMemory:
    """The first rank of one of the Playbook's rows."""
    return nanotron_memory(step_of(run), stage=0)


def _gib() -> Predicted:
    logs = [math.log(run.first_rank_gib) for run in playbook()]
    return {
        MODEL: [rank_memory(run).expected / GIB for run in playbook()],
        NEAREST: list(np.exp(baselines.nearest_of_other_sizes(playbook(), logs))),
    }


def memory_measure(gib: Predicted) -> Measure:
    """Reserved memory of the Playbook's first ranks."""
    errors = off(gib, [run.first_rank_gib for run in playbook()])
    return Measure(MEMORY, "no tensor ranks", errors, [run.tensor == 1 for run in playbook()])


def wrong(said: Mapping[str, Sequence[bool]], right: Sequence[bool]) -> Predicted:
    """Zero where a yes or no is right, one where it is not."""
    return {
        by: [float(x != y) for x, y in zip(each, right, strict=True)] for by, each in said.items()
    }


def _bound() -> Measure:
    most = [GRACE * GIB * run.first_rank_gib for run in playbook()]
    bounds = {
        MODEL: [rank_memory(run).at_least for run in playbook()],
    }
    holds = {by: [x <= y for x, y in zip(each, most, strict=True)] for by, each in bounds.items()}
    every = [True] * len(playbook())
    return Measure(BOUND, "all of them", wrong(holds, every), every)


def _ran_or_failed() -> Measure:
    tried = [*playbook(), *runs("playbook_failed")]
    ran = [n < len(playbook()) for n in range(len(tried))]
    steps = [step_of(run) for run in tried]
    below = _below_limit([rank_memory(run).at_least / GIB for run in tried], tried, ran)
    starts = [not refusal(x.model, x.plan.pipeline, x.num_micro_batches) for x in steps]
    said = {
        MODEL: [x and y for x, y in zip(below, starts, strict=True)],
        f"{MODEL}, memory alone": below,
        NEAREST: list(baselines.nearest_of_other_sizes(tried, ran) > 0.5),
    }
    both = {run.name for run in playbook()} & {run.name for run in runs("playbook_failed")}
    in_one = [run.name not in both for run in tried]
    return Measure(RAN, "in one of both lists alone", wrong(said, ran), in_one)


def _below_limit(gib: Sequence[float], tried: Sequence[Run], ran: Sequence[bool]) -> list[bool]:
    """Whether each is below the limit that is right most often on other sizes."""
    rows = list(zip(gib, (run.model for run in tried), ran, strict=True))
    limits = {
        left_out: _best_limit([(each, is_run) for each, size, is_run in rows if size != left_out])
        for left_out in {run.model for run in tried}
    }
    return [each <= limits[size] for each, size, _ in rows]


def _best_limit(rows: Sequence[tuple[float, bool]]) -> int:
    return max(LIMITS, key=lambda most: sum((gib <= most) == ran for gib, ran in rows))


def simumax_memory() -> Measure:
    """Ranks of Megatron-LM on B200, nothing fitted."""
    rows = [run for run in runs("simumax_b200") if run.first_rank_gib]
    ranks = [(run, stage) for run in rows for stage in (0, run.pipeline - 1)]
    measured = [gib for run in rows for gib in (run.first_rank_gib, run.last_rank_gib)]
    gib = [megatron_memory(step_of(run), stage).expected / GIB for run, stage in ranks]
    errors = {
        **off({MODEL: gib}, measured),
        THEIRS: [run.simulated_memory_percent / 100 for run, _ in ranks],
    }
    return Measure(RANKS, "no context ranks", errors, [run.context == 1 for run, _ in ranks])


def rates_alone(device: str, rows: Sequence[Run], rates: Rates) -> Measure:
    """Steps from tables of rates: no constant is fitted on a run."""
    is_playbook = rows[0].device == "H100"
    framework = NANOTRON if is_playbook else MEGATRON
    pace = Pace(attention=H100.attention) if is_playbook else Pace()
    seconds = [float(step_work(step_of(run), framework, rates).seconds(pace)) for run in rows]
    errors = dict(off({MODEL: seconds}, [run.step_seconds for run in rows]))
    if not is_playbook:
        errors[THEIRS] = [run.simulated_time_percent / 100 for run in rows]
    in_class = [run.tensor == 1 for run in rows]
    return Measure(f"{ALONE} {device}", "no tensor ranks", errors, in_class)


def _foundry(device: str) -> Measure:
    rows = one_node_runs(device)
    settled = settled_runs(device)
    ours = held_out(rows) | held_out(settled)
    others = [
        statistics.median(each.published_mfu_percent for each in rows if each.model != run.model)
        for run in rows
    ]
    errors = {
        MODEL: [ours[run] for run in rows],
        **off({"one MFU": others}, [run.published_mfu_percent for run in rows]),
    }
    if device == "H100":
        errors[CARRIED] = [_with_constants_of_the_playbook(run) for run in rows]
    rule = "where the source does not contradict itself"
    return Measure(f"{FOUNDRY} {device}", rule, errors, [run in settled for run in rows])


def _with_constants_of_the_playbook(run: FoundryRun) -> float:
    step = step_of_run(run)
    seconds = float(step_work(step, NANOTRON, rates_of(H100)).seconds(pace_of(H100)))
    rate = step.num_micro_batches * step.num_tokens / seconds
    return rate / run.tokens_per_second_per_device - 1
