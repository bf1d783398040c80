"""Seconds of the Playbook's steps by the model of `formulas.cluster_step`, each size held out.

Some pipeline rows are slowed by code that has since been replaced: nanotron's stages waited for
each message of shapes with ``while not work.is_completed(): time.sleep(0.1)``. A row of a size that
is held out counts as *polled* if most of the five layouts nearest to it are, among other sizes.
There a row is polled if its own time is nearer to the model with those sleeps than without.
"""

import functools
from dataclasses import dataclass, fields

import numpy as np

from course_utils.formulas.cluster_step import NANOTRON, Pace, StepWork, stacked, step_work
from course_utils.formulas.least_squares import fit
from course_utils.planner.rates import H100, rates_of
from course_utils.planner.truth.baselines import LAYOUT, Array, Mask, features, mean_of_nearest
from course_utils.planner.truth.measured import playbook, step_of

START = (3, 4e-3, 2e-3, 0.4e-3, 0.7)  # elementwise, launch, turn, hop, replicas
SETTLED_NODES = 16  # beyond them a single step says more of the network's luck than of constants
SLEEP_SECONDS = 0.1
# Of a micro-batch: two tensors forward and one back, two messages of shapes each, are six at most
# at a border of two stages, twice that on a stage between two others.
SLEEPS_OF_TWO, SLEEPS_OF_MORE = 5.5, 9.5
ROUNDS = 4  # who is polled hangs on the constants, and they on who is


@dataclass(frozen=True)
class HeldOut:
    """What is said of all rows, by constants and a rule of other sizes.

    Attributes:
        seconds: With sleeps, where the rule says so.
        awake: Without any.
        told: With sleeps, where a row's own time says so.
        is_polled: What the rule says.
    """

    seconds: Array
    awake: Array
    told: Array
    is_polled: Mask


@functools.cache
def playbook_work() -> StepWork:
    """The work of all rows."""
    return stacked([step_work(step_of(run), NANOTRON, rates_of(H100)) for run in playbook()])


def column(name: str) -> Array:
    """A number of each row."""
    return np.array([float(getattr(run, name)) for run in playbook()])


def sleep_seconds() -> Array:
    """Seconds that each step sleeps, if it is polled."""
    stages = column("pipeline")
    sleeps = np.where(stages == 2, SLEEPS_OF_TWO, SLEEPS_OF_MORE) * (stages > 1)
    seconds: Array = SLEEP_SECONDS * sleeps * (column("num_micro_batches") + stages - 1)
    return seconds


@functools.cache
def held_out_steps() -> HeldOut:
    """Each row, with constants and rule from all other sizes."""
    sizes, work = column("model"), playbook_work()
    awake, rule = np.zeros(len(sizes)), sizes < 0
    for size in np.unique(sizes):
        seen = sizes != size
        pace, polled = fitted(seen)
        awake[~seen] = work.seconds(pace)[~seen]
        rule[~seen] = nearest_are_polled(polled, seen)[~seen]
    asleep = awake + sleep_seconds()
    told = np.where(is_nearer(asleep, awake), asleep, awake)
    return HeldOut(np.where(rule, asleep, awake), awake, told, rule)


def fitted(seen: Mask) -> tuple[Pace, Mask]:
    """Constants from rows that may be seen, and which of those are polled."""
    work, settled = playbook_work(), seen & (column("nodes") <= SETTLED_NODES)
    polled, pace = ~seen, Pace()
    for _ in range(ROUNDS):
        used = settled & ~polled
        part = {each.name: getattr(work, each.name)[used] for each in fields(StepWork)}
        pace = constants_of(StepWork(**part), column("step_seconds")[used])
        awake = work.seconds(pace)
        polled = is_nearer(awake + sleep_seconds(), awake)
    return pace, polled & seen


def constants_of(work: StepWork, measured: Array) -> Pace:
    """The constants of some rows; attention's cannot be told from the others and is given."""

    def pace(constants: Array) -> Pace:
        return Pace(*constants)._replace(attention=H100.attention)

    return pace(fit(lambda constants: work.seconds(pace(constants)), measured, START))


def is_nearer(one: Array, other: Array) -> Mask:
    """Where the first is strictly nearer to what was measured than the second."""
    measured = column("step_seconds")
    return np.abs(np.log(one / measured)) < np.abs(np.log(other / measured))


def nearest_are_polled(polled: Mask, seen: Mask) -> Mask:
    """The rule: most of the nearest layouts with stages that may be seen are polled."""
    staged, places = column("pipeline") > 1, features(playbook(), LAYOUT)
    return staged & (mean_of_nearest(places, polled.astype(float), seen & staged) > 0.5)
