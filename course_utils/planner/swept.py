"""Layouts of the Playbook as runs for sale: on up to four nodes, with what they took there.

Left out are layouts whose code sleeps, those of 80B, of which there are three, and those that the
model of a step misses by more than `MOST_OFF` with the constants of its own planner: a single step,
which is all that a row has, may have had bad luck.

On *another cluster* each row takes as many times as long as the model of a step says, with the GPUs
and links, the launches and the turns of that cluster; what the model misses of a row stays.

    >>> len(sweep()), sweep()[0].name
    (324, '1.34 on 1: d 4 p 2 t 1, stage 1, b 4, m 16')
"""

import functools
import math
import random
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from course_utils.configs.shop import CENTS, Shop, SweptRun
from course_utils.formulas.bought_runs import (
    PUBLISHED,
    Constants,
    Predictor,
    median_by_kind,
    pace_by,
)
from course_utils.formulas.cluster_step import NANOTRON, StepWork, pace_of, stacked, step_work
from course_utils.formulas.rates import NODE
from course_utils.planner.predicted import Prediction, predictions
from course_utils.planner.rates import H100, rates_of
from course_utils.planner.truth.baselines import PEAK, seconds_at_peak
from course_utils.planner.truth.measured import STEP_SEQUENCES, step_of

MOST_NODES, LARGEST = 4, "80.0"
SLEEPS, MOST_OFF = 0.1, 0.15  # seconds of a micro-batch; a share of the step
DEAREST, NUM_OFFERS = 2.5, 34  # GPU-hours of a run on offer; runs
FACTORS, ALIKE = (0.5, 2.0), 1.2  # of each constant: never within so much of the published one
START_SECONDS, NUM_STEPS = 120, 20  # that a measurement pays for
PACE = pace_of(H100)

Array = NDArray[np.float64]


@functools.cache
def _rows() -> tuple[tuple[Prediction, ...], StepWork, Array]:
    """The rows, their work, and measured seconds over those of the model."""
    every = [each for each in predictions("playbook_runs") if _is_candidate(each)]
    work = [step_work(step_of(each.run), NANOTRON, rates_of(H100)) for each in every]
    missed = np.array([each.run.step_seconds for each in every]) / stacked(work).seconds(PACE)
    kept = [n for n in range(len(every)) if abs(1 / missed[n] - 1) <= MOST_OFF]
    return tuple(every[n] for n in kept), stacked([work[n] for n in kept]), missed[kept]


def _is_candidate(each: Prediction) -> bool:
    run = each.run
    is_small = run.nodes <= MOST_NODES and run.tensor <= NODE and run.model != LARGEST
    return is_small and run.num_sequences == STEP_SEQUENCES and each.extra_seconds <= SLEEPS


def sizes() -> list[str]:
    """The model of each row, as the Playbook names it."""
    return [each.run.model for each in _rows()[0]]


@functools.cache
def sweep() -> tuple[SweptRun, ...]:
    """All rows, each with its price: devices for a start and some steps, as the model predicts."""
    rows, work, _ = _rows()
    seconds, busy = work.seconds(PACE), work.work(PACE).max(axis=1)
    runs = [each.run for each in rows]
    at_peak = seconds_at_peak(runs)
    return tuple(
        SweptRun(
            name=run.name,
            nodes=run.nodes,
            tensor=run.tensor,
            stages=run.pipeline,
            num_micro_batches=run.num_micro_batches,
            num_layers=round(work.num_layers[n].max()),
            work_seconds=float(f"{busy[n]:.4g}"),
            price=price_of(run.nodes, float(seconds[n])),
            step_flops=float(f"{at_peak[n] * NODE * run.nodes * PEAK:.4g}"),
        )
        for n, run in enumerate(runs)
    )


def price_of(nodes: int, step_seconds: float) -> float:
    """GPU-hours of a start and some steps."""
    return round(NODE * nodes * (START_SECONDS + NUM_STEPS * step_seconds) / 3600, CENTS)


def seconds_on(cluster: Constants) -> list[float]:
    """Seconds of a step of each row on another cluster; with `PUBLISHED`, as they were measured.

    Args:
        cluster: How many times as long its GPUs and links take, and its CPU's seconds.
    """
    _, work, missed = _rows()
    # `gpu` times all that is not the CPU's: the pace in units of so many seconds.
    pace = PACE._replace(launch=cluster.launch / cluster.gpu, turn=cluster.turn / cluster.gpu)
    return [float(f"{each:.4g}") for each in cluster.gpu * work.seconds(pace) * missed]


@dataclass(frozen=True)
class Sale:
    """Runs that are sold on a cluster, and runs of a size that is not.

    Attributes:
        offers: Seconds of a step of each run on offer.
        asked: Seconds of a step of each run of the other size.
        cluster: Its constants.
    """

    offers: Mapping[SweptRun, float]
    asked: Mapping[SweptRun, float]
    cluster: Constants

    def percent(self, predict: Predictor, budget: float) -> float:
        """Error in the kind that is furthest off, each by its median, of what a budget buys.

        Infinite where so little can be bought that `predict` raises a `ValueError`, or that an
        error is not a number.
        """
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # mean of no runs
            try:
                predicted = predict(Shop(self.offers, budget), list(self.asked))
            except ValueError:
                return math.inf
        errors = [abs(x / y - 1) for x, y in zip(predicted, self.asked.values(), strict=True)]
        kinds = [pace_by(run, self.cluster) for run in self.asked]
        percents = [100 * each for each in median_by_kind(errors, kinds).values()]
        return math.inf if any(map(math.isnan, percents)) else max(percents)


def sale(draw: int, held: str = "8.86", cluster: Constants | None = None) -> Sale:
    """Some runs of other sizes on offer, and all of one asked.

    Args:
        draw: Which ones, and on which cluster; the same number gives the same.
        held: The size that is asked for, as the Playbook names it.
        cluster: Where they are measured, if it is not drawn.
    """
    rng = random.Random(draw)
    own = cluster or some_cluster(rng)
    seconds = dict(zip(sweep(), seconds_on(own), strict=True))
    size_of = dict(zip(sweep(), sizes(), strict=True))
    others = [run for run in sweep() if size_of[run] != held and run.price <= DEAREST]
    offers = rng.sample(others, NUM_OFFERS)
    asked = [run for run in sweep() if size_of[run] == held]
    return Sale({run: seconds[run] for run in offers}, {run: seconds[run] for run in asked}, own)


def some_cluster(rng: random.Random) -> Constants:
    """Constants of a cluster that nobody has published, none of them near the Playbook's."""
    return Constants(*(_factor(rng) * each for each in PUBLISHED))


def _factor(rng: random.Random) -> float:
    while True:
        factor = math.exp(rng.uniform(*map(math.log, FACTORS)))
        if max(factor, 1 / factor) >= ALIKE:
            return factor
