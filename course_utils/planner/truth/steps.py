"""Seconds of the Playbook's steps by the model of `formulas.cluster_step`, each size held out.

Some pipeline rows are slowed by code that has since been replaced: nanotron's stages waited for
each message of shapes with ``while not work.is_completed(): time.sleep(0.1)``. A row of a size that
is held out counts as *polled* if most of the five layouts nearest to it are, among other sizes.
There a row is polled if its own time is nearer to the model with those sleeps than without.
"""

import functools
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from course_utils.formulas.cluster_step import NANOTRON, Pace, StepWork, stacked, step_work
from course_utils.formulas.least_squares import fit
from course_utils.planner.rates import H100_CLUSTER
from course_utils.planner.truth.baselines import NUM_NEAREST, features, mean_of_nearest
from course_utils.planner.truth.playbook import step_of
from course_utils.records.sweeps import playbook_runs

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

START = Pace(elementwise=3, launch=4e-3, turn=2e-3, hop=0.4e-3, replicas=0.7)
SETTLED_NODES = 16  # beyond them a single step says more of the network's luck than of constants
SLEEP_SECONDS = 0.1
# Of a micro-batch: two tensors forward and one back, two messages of shapes each, are six at most
# at a border of two stages, twice that on a stage between two others.
SLEEPS_OF_TWO, SLEEPS_OF_MORE = 5.5, 9.5
LAYOUT = slice(3, None)  # of the features: nodes, layout, passes
ROUNDS = 4  # who is polled hangs on the constants, and they on who is


@dataclass(frozen=True)
class HeldOut:
    """What is said of all rows, by constants and a rule of other sizes.

    Attributes:
        seconds: With sleeps, where the rule says so.
        awake: Without any.
        told: With sleeps, where a row's own time says so.
        is_polled: What the rule says.
        paces: The constants, by the size that was left out.
    """

    seconds: Array
    awake: Array
    told: Array
    is_polled: Mask
    paces: dict[float, Pace]


@functools.cache
def playbook_work() -> StepWork:
    """The work of all rows."""
    return stacked([step_work(step_of(run), NANOTRON, H100_CLUSTER) for run in playbook_runs()])


def only(work: StepWork, rows: Mask) -> StepWork:
    """Some rows of it."""
    return StepWork(**{each.name: getattr(work, each.name)[rows] for each in fields(StepWork)})


@functools.cache
def held_out_steps() -> HeldOut:
    """Each row, with constants and rule from all other sizes."""
    runs, work = playbook_runs(), playbook_work()
    sizes = np.array([run.size for run in runs])
    measured = np.array([run.step_seconds for run in runs])
    awake, rule, paces = np.zeros(len(runs)), sizes < 0, {}
    for size in sorted(set(sizes)):
        seen = sizes != size
        pace, polled = fitted(seen)
        awake[~seen] = work.seconds(pace)[~seen]
        rule[~seen] = nearest_are_polled(polled, seen)[~seen]
        paces[float(size)] = pace
    asleep = awake + sleep_seconds()
    told = np.where(_nearer(asleep, awake, measured), asleep, awake)
    return HeldOut(np.where(rule, asleep, awake), awake, told, rule, paces)


def sleep_seconds() -> Array:
    """Seconds that a step sleeps, if it is polled."""
    stages = np.array([run.pipeline for run in playbook_runs()])
    sleeps = np.where(stages == 2, SLEEPS_OF_TWO, SLEEPS_OF_MORE) * (stages > 1)
    seconds: Array = SLEEP_SECONDS * sleeps * (playbook_work().num_micro_batches + stages - 1)
    return seconds


def fitted(seen: Mask) -> tuple[Pace, Mask]:
    """Constants from rows that may be seen, and which of those are polled."""
    runs, work = playbook_runs(), playbook_work()
    measured = np.array([run.step_seconds for run in runs])
    settled = seen & np.array([run.nodes <= SETTLED_NODES for run in runs])
    polled, pace = np.zeros(len(runs), bool), START
    for _ in range(ROUNDS):
        used = settled & ~polled
        pace = pace_of(only(work, used), measured[used])
        awake = work.seconds(pace)
        polled = _nearer(awake + sleep_seconds(), awake, measured)
    return pace, polled & seen


def pace_of(work: StepWork, measured: Array) -> Pace:
    """The constants of some rows."""
    return Pace(*fit(lambda constants: work.seconds(Pace(*constants)), measured, START))


def _nearer(one: Array, other: Array, measured: Array) -> Mask:
    """Where the first is strictly nearer to what was measured."""
    return np.abs(np.log(one / measured)) < np.abs(np.log(other / measured))


def nearest_are_polled(polled: Mask, seen: Mask) -> Mask:
    """The rule: most of the nearest layouts with stages that may be seen are polled."""
    runs = playbook_runs()
    staged = np.array([run.pipeline > 1 for run in runs])
    places = features(runs)[:, LAYOUT]
    shares = mean_of_nearest(places, polled.astype(float), seen & staged, NUM_NEAREST)
    return staged & (shares > 0.5)
