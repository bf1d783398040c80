"""The check of unit 14 on a budget of measurements: what somebody predicts who has bought little.

Each case is a cluster of its own: the sweep's layouts with other GPUs, CPUs and turns, so that no
published time is an answer. What is asked is not on offer, and is of a size, or on a number of
nodes, of which nothing is.
"""

import functools
import itertools
import random
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from statistics import median
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.exercises.declaring import declares_check
from autograder.observers.u14 import budget as budget_observer
from course_utils.configs.shop import Shop, SweptRun
from course_utils.formulas.bought_runs import (
    KINDS,
    PUBLISHED,
    Constants,
    buy_in_order,
    fitted,
    median_by_kind,
    pace_by,
    predict_runs,
    seconds_of,
    that_tell,
    work_and_launches,
)
from course_utils.planner.swept import DEAREST, price_of, seconds_on, sizes, some_cluster, sweep

# === u14-budget
# Rows bought, constants fitted, rows of another size or on more nodes predicted.


SCENARIOS = (IN_MEDIAN, IN_EACH_KIND) = tuple(budget_observer.ALLOWED_PERCENT)
NUM_CASES = 10  # of a scenario, half of them with a size held out
SIZES = ("1.34", "3.57", "8.86")
HELD_NODES = 4
NUM_OFFERS = {"gpu": 24, "launch": 5, "turn": 5}
NUM_ASKED = 8  # of each kind
NUM_MADE = 5  # runs of a made case that are asked for
ON_NODES = ((2, 2, 8), (2, 4, 4), (4, 4, 8), (4, 8, 4))  # nodes, tensor ranks and stages
ON_ONE, WITHOUT_STAGES = ((1, 1, 4), (1, 1, 8), (1, 2, 4)), ((2, 4, 1), (4, 4, 1), (2, 8, 1))
MADE_PLACES = (ON_NODES, ON_ONE, WITHOUT_STAGES, ON_ONE)  # the last is paced by the GPU
NUM_SHAPES = len(MADE_PLACES)
CLEAR, NUM_CLEAR, CLEAR_ASKED = 1.4, 4, 1.15  # the pace of the one over that of the other
BOUGHT_OF_KIND = 2.5  # runs of each kind that a budget pays, at their median price
NUM_TELLING = 6  # runs of a kind among which somebody takes the cheapest
NEAR = 0.1  # what whoever buys with care is off by at most, in each kind
WORKED_RUNS: tuple[tuple[Any, ...], ...] = (
    ("much work", 1, 1, 1, 8, 10, 0.1, 0.30, 1.6),
    ("little work", 1, 1, 1, 8, 10, 0.01, 0.28, 0.8),
    ("two nodes", 2, 4, 2, 7, 10, 0.01, 0.63, 1.6),
)
WORKED_ASKED: tuple[Any, ...] = ("other", 6, 8, 6, 3, 20, 0.1, 4.8)
WORKED_BUDGET, WORKED_CLUSTER = 2.0, Constants(2, 0.01, 0.0025)


Place = tuple[str, int, int, int]
"""Name, nodes, tensor ranks and stages of a run."""


@dataclass(frozen=True)
class Task:
    """A cluster, what is on offer there, and what is asked.

    Attributes:
        offers: Seconds of each run on offer.
        asked: Seconds of each run that is asked for.
        budget: GPU-hours.
        cluster: Its constants.
    """

    offers: dict[SweptRun, float]
    asked: dict[SweptRun, float]
    budget: float
    cluster: Constants


@functools.cache
def task_of(draw: int) -> Task:
    """The task of a draw: an even one holds out a size, an odd one a number of nodes; 0 is by hand.

    Redrawn until there is enough to tell the constants by, and the course's own answer is near.
    Below 0 it is made.
    """
    if draw <= 0:
        return _made(random.Random(draw), -draw % NUM_SHAPES) if draw else _worked()
    rng = random.Random(draw)
    return next(each for each in iter(lambda: _tried(rng, draw % 2 == 0), 0) if each is not None)


def _worked() -> Task:
    offers = {SweptRun(*row): seconds for *row, seconds in WORKED_RUNS}
    *asked, seconds = WORKED_ASKED
    return Task(offers, {SweptRun(*asked): seconds}, WORKED_BUDGET, WORKED_CLUSTER)


def _made(rng: random.Random, shape: int) -> Task:
    """One run on offer for each constant, and runs of one shape in which the formula shows.

    By shape: stages on several nodes; stages on one; nodes without stages; and stages on one that
    the GPU paces. They have few micro-batches, and who does not set the pace is not much quicker.
    """
    factor = rng.choice((rng.uniform(0.5, 0.7), rng.uniform(1.4, 2)))
    cluster = Constants(factor, rng.uniform(2e-3, 9e-3), rng.uniform(2e-3, 4.5e-3))
    wide: Place = ("several nodes", rng.choice((2, 4)), rng.choice((2, 4)), 2)
    telling: tuple[tuple[Place, float], ...] = (
        (("much work", 1, 1, 1), rng.uniform(3, 6)),
        (("little work", 1, 1, 1), rng.uniform(0.05, 0.15)),
        (wide, rng.uniform(0.05, 0.15)),
    )
    offers = [_made_run(rng, cluster, place, rng.randint(8, 32), ratio) for place, ratio in telling]
    asked = []
    for n in range(NUM_MADE):
        place = (f"asked {n}", *rng.choice(MADE_PLACES[shape]))
        ratio = 1 / rng.uniform(0.6, 0.8) if shape == NUM_SHAPES - 1 else rng.uniform(0.6, 0.8)
        asked.append(_made_run(rng, cluster, place, rng.randint(1, 3), ratio))
    took = {
        run: float(f"{seconds_of(run, cluster) * rng.uniform(0.98, 1.02):.4g}")
        for run in (*offers, *asked)
    }
    budget = round(sum(run.price for run in offers) + rng.uniform(0, 1), 2)
    return Task({r: took[r] for r in offers}, {r: took[r] for r in asked}, budget, cluster)


def _made_run(
    rng: random.Random,
    cluster: Constants,
    place: Place,
    num_micro_batches: int,
    ratio: float,
) -> SweptRun:
    """A run whose GPU works so many times as long as its CPU launches."""
    run = SweptRun(*place, num_micro_batches, rng.randint(4, 40), work_seconds=0.0)
    _, launches = work_and_launches(run, cluster)
    run = replace(run, work_seconds=float(f"{ratio * launches / cluster.gpu:.4g}"))
    return replace(run, price=price_of(run.nodes, seconds_of(run, PUBLISHED)))


def _tried(rng: random.Random, is_by_size: bool) -> Task | None:
    """A draw, if it is as wanted."""
    cluster = some_cluster(rng)
    held = rng.choice(SIZES)
    seconds = dict(zip(sweep(), seconds_on(cluster), strict=True))
    sold: dict[str, list[SweptRun]] = {kind: [] for kind in KINDS}
    asked: dict[str, list[SweptRun]] = {kind: [] for kind in KINDS}
    for run, size in zip(sweep(), sizes(), strict=True):
        is_held = size == held if is_by_size else run.nodes == HELD_NODES
        kind = pace_by(run, cluster)
        if is_held and _clearness(run, cluster) >= CLEAR_ASKED:
            asked[kind].append(run)
        elif not is_held and run.price <= DEAREST:
            sold[kind].append(run)
    if any(len(sold[kind]) < NUM_OFFERS[kind] or len(asked[kind]) < NUM_ASKED for kind in KINDS):
        return None
    offers = {kind: rng.sample(sold[kind], NUM_OFFERS[kind]) for kind in KINDS}
    clear = {
        kind: [run.price for run in own if _clearness(run, cluster) >= CLEAR]
        for kind, own in offers.items()
    }
    if min(map(len, clear.values())) < NUM_CLEAR:
        return None
    budget = round(BOUGHT_OF_KIND * sum(median(prices) for prices in clear.values()), 1)
    shown = [run for own in offers.values() for run in own]
    rng.shuffle(shown)
    wanted = [run for kind in KINDS for run in rng.sample(asked[kind], NUM_ASKED)]
    rng.shuffle(wanted)
    task = Task(
        {run: seconds[run] for run in shown}, {run: seconds[run] for run in wanted}, budget, cluster
    )
    return task if _is_fair(task) else None


def _clearness(run: SweptRun, cluster: Constants) -> float:
    """How many times as long as the other the one takes that sets the pace."""
    one, other = work_and_launches(run, cluster)
    return max(one / other, other / one)


def _is_fair(task: Task) -> bool:
    """Whether constants without error are near in each kind, and those that careful people buy.

    So a case is lost by what was bought, and not by the luck of one row.
    """
    asked = list(task.asked)

    def is_near(predicted: list[float]) -> bool:
        return max(errors_by_kind(task, predicted).values()) <= NEAR

    def with_constants(constants: Constants) -> list[float]:
        return [seconds_of(run, constants) for run in asked]

    if not is_near(with_constants(task.cluster)):
        return False
    if not is_near(predict_runs(Shop(task.offers, task.budget), asked)):
        return False
    return all(
        is_near(with_constants(fitted(buy_in_order(Shop(task.offers, task.budget), order))))
        for order in (
            _most_telling(task.offers),
            _cheapest_of_kinds(task.offers),
            _cheapest_that_tell(task.offers),
        )
    )


def _most_telling(offers: Iterable[SweptRun]) -> list[SweptRun]:
    """Runs of three kinds by turns, the most work first, and the least."""
    return _by_turns(*that_tell(offers).values())


def _cheapest_that_tell(offers: Iterable[SweptRun]) -> list[SweptRun]:
    """Of each of three kinds the few runs that tell most, by turns, the cheapest first."""
    few = (own[:NUM_TELLING] for own in that_tell(offers).values())
    return _by_turns(*(sorted(own, key=lambda run: run.price) for own in few))


def _cheapest_of_kinds(offers: Iterable[SweptRun]) -> list[SweptRun]:
    """Runs of three kinds by turns, told by the published constants, the cheapest first."""
    by_price = sorted(offers, key=lambda run: run.price)
    return _by_turns(
        *([run for run in by_price if pace_by(run, PUBLISHED) == kind] for kind in KINDS)
    )


def _by_turns(*kinds: list[SweptRun]) -> list[SweptRun]:
    places = itertools.zip_longest(*kinds)
    return [run for each in places for run in each if run]


def errors_by_kind(task: Task, predicted: list[float]) -> dict[str, float]:
    """The median error of the runs of each kind."""
    kinds = [pace_by(run, task.cluster) for run in task.asked]
    errors = [abs(x / y - 1) for x, y in zip(predicted, task.asked.values(), strict=True)]
    return median_by_kind(errors, kinds)


def budget_cases(seed: int) -> list[Case]:
    """Runs by hand and made ones; then clusters, by turns with a size and some nodes held out."""
    rng = random.Random(seed)
    cases = [_case(0, IN_MEDIAN)]
    for scenario in SCENARIOS:
        cases += [
            _case(-NUM_SHAPES * rng.randrange(1, 10**9) - shape, scenario)
            for shape in range(NUM_SHAPES)
        ]
    for scenario in SCENARIOS:
        firsts = (2 * rng.randrange(1, 10**9) for _ in range(NUM_CASES))
        cases += [_case(first + n % 2, scenario) for n, first in enumerate(firsts)]
    return cases


def _case(draw: int, scenario: str) -> Case:
    task = task_of(draw)
    return {
        "draw": draw,
        "offers": [[*astuple(run), seconds] for run, seconds in task.offers.items()],
        "asked": [list(astuple(run)) for run in task.asked],
        "budget": task.budget,
        "scenario": scenario,
    }


@declares_check(
    "u14-budget",
    budget_cases,
    observer=budget_observer,
    scenarios=SCENARIOS,
    fallback="course_utils.formulas.bought_runs.predict_runs",
    give_away=(
        "course_utils.formulas.bought_runs",
        "course_utils.planner.predicted",
        "course_utils.planner.swept",
        "course_utils.records.sweeps",
    ),
)
def measured_there(
    draw: int,
    offers: list[list[Any]],
    asked: list[list[Any]],
    budget: float,
    scenario: str,
) -> dict[str, Any]:
    """What the runs that are asked for took, and which constant paces each, bought ones besides."""
    task = task_of(draw)
    return {
        "seconds": list(task.asked.values()),
        "kinds": [pace_by(run, task.cluster) for run in task.asked],
        "tells": [pace_by(run, task.cluster) for run in task.offers],
    }
