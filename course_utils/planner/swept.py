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

import numpy as np
from numpy.typing import NDArray

from course_utils.configs.shop import CENTS, SweptRun
from course_utils.formulas.bought_runs import PUBLISHED, Constants
from course_utils.formulas.cluster_step import NANOTRON, StepWork, pace_of, stacked, step_work
from course_utils.formulas.rates import NODE
from course_utils.planner.predicted import Prediction, predictions
from course_utils.planner.rates import H100, rates_of
from course_utils.planner.truth.baselines import PEAK, seconds_at_peak
from course_utils.planner.truth.measured import STEP_SEQUENCES, step_of

MOST_NODES, LARGEST = 4, "80.0"
SLEEPS, MOST_OFF = 0.1, 0.15  # seconds of a micro-batch; a share of the step
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
            price=_price(run.nodes, float(seconds[n])),
            step_flops=float(f"{at_peak[n] * NODE * run.nodes * PEAK:.4g}"),
        )
        for n, run in enumerate(runs)
    )


def _price(nodes: int, step_seconds: float) -> float:
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


__all__ = ["PUBLISHED", "seconds_on", "sizes", "sweep"]
