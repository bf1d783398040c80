"""The checks of unit 14 on rows of a sweep: what sets the pace, and who waits beyond that."""

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import linear_regression, mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from course_utils.formulas.rates import NODE
from course_utils.planner.predicted import Prediction, predictions
from course_utils.planner.truth.measured import STEP_SEQUENCES

# === for both
# Layouts of the Playbook that say something of a micro-batch.

SIZES = ("1.34", "3.57", "8.86")
FEWEST_PASSES = 8  # with fewer, what a step does once is no longer small
DIGITS = 5


@functools.cache
def layouts() -> tuple[Prediction, ...]:
    """Rows of some passes, tensor ranks within a node, each layout that stands there once."""
    every = predictions("playbook_runs")
    times = Counter(each.run.name for each in every)
    return tuple(
        each
        for each in every
        if each.run.model in SIZES
        and each.run.tensor <= NODE
        and each.run.num_micro_batches >= FEWEST_PASSES
        and each.run.num_sequences == STEP_SEQUENCES
        and times[each.run.name] == 1
    )


def drawn(draw: Callable[[], Any], is_wanted: Callable[[Any], bool]) -> Any:
    """The first draw that is as wanted."""
    return next(each for each in iter(draw, None) if is_wanted(each))


# === u14-pace
# A constant inside of a maximum, against a search in steps of a microsecond.


ONE_PER_CENT = 0.01
PACE_WORKED = [[10, 0.02, 0.05], [10, 0.03, 0.05], [10, 0.09, 0.09]]
PACE_NAMES = ("rows", "num_layers", "work_seconds")
MICROSECOND, LONGEST, TENTHS = 1e-6, 20_000, 10
# The second best constant is so much worse, and a GPU that waits does so for so long.
CLEAR, NEAR, CLEARLY_IDLE, CLEARLY_BUSY = 1.05, 0.01, 0.3, 0.9
QUICK_LAUNCH, COARSE, OFF = 3e-3, 1e-4, 0.011  # a coarse search is off by more than a per cent
MOST_NODES = 2
Rows = list[list[float]]


def pace_cases(seed: int) -> list[Case]:
    """Rows of the sweep, of one size for another one; then rows of other software, one quick."""
    rng = random.Random(seed)
    cases = [named(PACE_NAMES, (PACE_WORKED, 20, 0.04))]
    for draw in (_measured_rows, _made_rows):
        for number in range(12):
            says = functools.partial(_says, is_idle=number % 3 > 0)
            cases.append(drawn(functools.partial(draw, rng), says))
    cases.append(drawn(lambda: _made_rows(rng, QUICK_LAUNCH), _is_between))
    return cases


@functools.cache
def _one_stage() -> dict[tuple[str, int], list[Prediction]]:
    """Rows of one stage on one or two nodes, by size and tensor ranks."""
    found: dict[tuple[str, int], list[Prediction]] = {}
    for each in layouts():
        if each.run.pipeline == 1 < each.run.tensor and each.run.nodes <= MOST_NODES:
            found.setdefault((each.run.model, each.run.tensor), []).append(each)
    return found


def _measured_rows(rng: random.Random) -> Case:
    pools = _one_stage()
    kind, other = rng.choice(sorted(pools)), rng.choice(sorted(pools))
    pool = pools[kind]
    rows = [_as_row(each) for each in rng.sample(pool, min(len(pool), rng.randint(3, 6)))]
    layers, work, _ = _as_row(rng.choice(pools[other]))
    return named(PACE_NAMES, (rows, int(layers), work))


def _as_row(each: Prediction) -> list[float]:
    """Layers, seconds of work and measured seconds of a micro-batch."""
    measured = each.run.step_seconds / each.run.num_micro_batches
    return [each.run.num_layers, round(each.work_seconds, DIGITS), round(measured, DIGITS)]


def _made_rows(rng: random.Random, launch_seconds: float | None = None) -> Case:
    """Rows of several models and of a CPU that is quicker or slower, or takes about so long."""
    launch, rows = launch_seconds or rng.uniform(3e-3, 15e-3), []
    for _ in range(rng.randint(3, 7)):
        layers = rng.randint(4, 80)
        work = launch * layers * rng.uniform(0.1, 2)
        measured = max(work, launch * layers) * rng.uniform(0.93, 1.07)
        rows.append([layers, round(work, DIGITS), round(measured, DIGITS)])
    others = rng.randint(4, 80)
    return named(PACE_NAMES, (rows, others, round(launch * others * rng.uniform(0.1, 2), DIGITS)))


def _says(case: Case, is_idle: bool) -> bool:
    """Whether one constant is best by far, and who waits is clear."""
    rows, launched = case["rows"], [row[2] > 1.1 * row[1] for row in case["rows"]]
    if sum(launched) < 2 or len({tuple(row) for row in rows}) < len(rows):
        return False
    launches = TENTHS * MICROSECOND * np.arange(LONGEST // TENTHS)
    errors = _errors(rows, launches)
    best = int(errors.argmin())
    far = np.abs(np.arange(len(errors)) - best) > NEAR * best
    if errors[far].min() < CLEAR * errors[best] + 1e-7:
        return False
    seconds = launches[best] * case["num_layers"]
    if is_idle:
        return bool(case["work_seconds"] < (1 - CLEARLY_IDLE) * seconds)
    return bool(seconds < CLEARLY_BUSY * case["work_seconds"])


def _is_between(case: Case) -> bool:
    """Whether the GPU waits, and the best launch lies between those of a coarse search."""
    launch = searched(**case)["launch"]
    off = abs(launch - COARSE * round(launch / COARSE))
    return off > OFF * launch and _says(case, is_idle=True)


def _errors(rows: Rows, launches: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The sum of squared relative errors for each launch."""
    found: NDArray[np.floating[Any]] = np.zeros(len(launches))
    for layers, work, measured in rows:
        is_launched = launches * layers > work
        found += np.where(is_launched, launches * layers / measured - 1, work / measured - 1) ** 2
    return found


@declares_check(
    "u14-pace",
    pace_cases,
    relative_tolerance=ONE_PER_CENT,
    labels={
        "launch": "seconds of the CPU for a layer",
        "seconds": "seconds of the other micro-batch",
        "idle": "seconds in which its GPU waits",
    },
    fallback="course_utils.formulas.pace.pace",
)
def searched(rows: Rows, num_layers: int, work_seconds: float) -> dict[str, float]:
    """The constant in whole microseconds; then whichever of the two ends later."""
    tried = MICROSECOND * np.arange(LONGEST)
    launch = float(tried[_errors(rows, tried).argmin()])
    launches = launch * num_layers
    is_launched = launches > work_seconds
    return {
        "launch": launch,
        "seconds": launches if is_launched else work_seconds,
        "idle": launches - work_seconds if is_launched else 0.0,
    }


# === u14-waits
# Which rows pay, how much, for which line of code, against slopes.


PAYS, SLEEP, FLUSH, COPY, BARRIER = 0.2, 1, 2, 3, 4
WAITS_WORKED = [(2, 1, 1, 15, 1.6, 8.0), (4, 1, 1, 13, 1.6, 16.0), (1, 1, 1, 16, 2.0, 2.1)]
WAITS_NAMES = ("stages", "nodes", "micro_batch", "num_micro_batches", "predicted", "measured")
NUM_ROWS, NUM_PAYING, WAITING_NODES = 11, 9, 32
CENTS = 2  # digits of a second: a verdict shows all rows of a case, so they have to be short
SLOW = 1.2  # a share, which says nothing of who pays
STEEP = 0.5  # in logarithms: in proportion is 1, without any influence 0
EVEN = 1.4  # times as much at most, from the least to the most, where a size has no influence
NOT_DOUBLE = 1.9  # twice as much is taken for an influence


def waits_cases(seed: int) -> list[Case]:
    """A few rows in which a number or a line is decided; rows of the sweep by size; made ones.

    The few come first, since the first case that fails is the one that is shown.
    """
    rng = random.Random(seed)
    lines = (SLEEP, FLUSH, COPY, BARRIER)
    cases: list[Case] = [{"rows": [named(WAITS_NAMES, each) for each in WAITS_WORKED]}]
    cases += [{"rows": list(_rows_on_one_node(rng))}]
    cases += [{"rows": list(_rows_with(rng, line, (2,)))} for line in lines]
    cases += [{"rows": _rows_of(rng, size)} for size in SIZES * 2]
    for line in lines:
        # Where messages are to blame, no row with two stages runs the old code in the last case.
        last = (4, 8) if line in (COPY, BARRIER) else (2, 16)
        for old in ((2, 4), (2, 8), last):
            cases.append({"rows": list(_rows_with(rng, line, old))})
    return cases


@functools.cache
def _waiting() -> tuple[Prediction, ...]:
    return tuple(each for each in layouts() if each.run.nodes <= WAITING_NODES)


def _rows_of(rng: random.Random, size: str) -> list[Case]:
    """Some rows of a size, nine of those that pay among them."""
    own = [each for each in _waiting() if each.run.model == size]
    paying = [each for each in own if each.extra_seconds > PAYS and _is_slow(each)]
    others = [each for each in own if each.extra_seconds <= PAYS and not _is_slow(each)]
    chosen = drawn(lambda: rng.sample(paying, NUM_PAYING), _is_even)
    chosen += rng.sample(others, NUM_ROWS - NUM_PAYING)
    chosen.sort(key=lambda each: (each.run.nodes, each.run.name))
    return [_measured_row(each) for each in chosen]


def _is_slow(each: Prediction) -> bool:
    """Whether it took much longer than predicted, as a share of that."""
    return each.run.step_seconds > SLOW * each.step_seconds


def _is_even(paying: list[Prediction]) -> bool:
    """Whether no comparison of the least with the most says that a size has an influence.

    Nor does one by somebody who divides by the micro-batches alone: that is another mistake.
    """
    of_one = [each.num_passes / each.run.num_micro_batches for each in paying]
    extra = [each.extra_seconds for each in paying]
    longer = [seconds * factor for seconds, factor in zip(extra, of_one, strict=True)]
    return _largest_ratio(paying, extra) <= EVEN and _largest_ratio(paying, longer) <= NOT_DOUBLE


def _largest_ratio(paying: list[Prediction], seconds: list[float]) -> float:
    """How many times as long the rows with the most nodes or sequences pay as those with least."""
    ratios = []
    for name in ("nodes", "micro_batch"):
        sizes = [getattr(each.run, name) for each in paying]
        least, most = (
            [paid for size, paid in zip(sizes, seconds, strict=True) if size == limit]
            for limit in (min(sizes), max(sizes))
        )
        ratios += [mean(most) / mean(least), median(most) / median(least)]
    return max(ratios)


def _measured_row(each: Prediction) -> Case:
    run = each.run
    sizes = (run.pipeline, run.nodes, run.micro_batch, run.num_micro_batches)
    seconds = round(each.step_seconds, CENTS), round(run.step_seconds, CENTS)
    return named(WAITS_NAMES, (*sizes, *seconds))


def _rows_on_one_node(rng: random.Random) -> Iterator[Case]:
    """One node and one sequence throughout: three rows with two stages pay, three with more.

    They pay less than those of other cases, so that this one is shown where a second one is.
    """
    cost = rng.uniform(0.28, 0.33)
    yield _slow_row(rng, (2, 1, 1))
    for stages in (2, 2, 2, 8, 8, 8):
        yield _layout_row(rng, (stages, 1, 1), min(2, stages - 1) * cost)


def _rows_with(rng: random.Random, line: int, old: tuple[int, ...]) -> Iterator[Case]:
    """Layouts with some numbers of stages run the old code, and those of one where it shows.

    Each number of stages has both numbers of nodes with both micro-batches, so that a size on which
    nothing depends differs between no two groups. What grows does so at least sixteenfold: whoever
    asks for twice as much sees it, and so does whoever asks for four times.
    """
    cost = rng.uniform(0.8, 1.0) if line == FLUSH else rng.uniform(0.4, 0.6)
    nodes, micro_batch = rng.choice((16, 32)), rng.choice((16, 32))
    yield _slow_row(rng, (2, 2, 2))  # neither the least nor the most
    sizes = [*itertools.product(old, (1, nodes), (1, micro_batch)), (1, nodes, micro_batch)]
    rng.shuffle(sizes)
    for stages, n, b in sizes:
        borders = min(2, stages - 1)
        waiting = {SLEEP: borders, FLUSH: 1, COPY: borders * b, BARRIER: borders * n}[line]
        each = (stages, n, b)
        yield _layout_row(rng, each, cost * waiting) if waiting else _late_row(rng, each)


def _slow_row(rng: random.Random, sizes: tuple[int, int, int]) -> Case:
    """A row that does not pay, and is slow all the same beside the little that was predicted."""
    return named(WAITS_NAMES, (*sizes, 16, 1.7, round(1.7 * rng.uniform(1.3, 1.7), CENTS)))


def _late_row(rng: random.Random, sizes: tuple[int, int, int]) -> Case:
    """A row that does not pay, though its whole step is some tenths of a second late."""
    predicted = 64 * rng.uniform(0.2, 0.3)
    late = predicted * rng.uniform(1.02, 1.03)
    return named(WAITS_NAMES, (*sizes, 64, round(predicted, CENTS), round(late, CENTS)))


def _layout_row(rng: random.Random, sizes: tuple[int, int, int], seconds: float) -> Case:
    """A layout whose micro-batches take about so many seconds more than predicted."""
    count, plain = rng.choice((8, 16, 32, 64)), rng.uniform(0.05, 0.3)
    passes = count + sizes[0] - 1
    took = plain * rng.uniform(0.97, 1.03) + seconds * rng.uniform(0.9, 1.1)
    predicted = round(passes * plain, CENTS)
    return named(WAITS_NAMES, (*sizes, count, predicted, round(passes * took, CENTS)))


@declares_check(
    "u14-waits",
    waits_cases,
    relative_tolerance=PROMISED,
    labels={
        "paying": "rows that pay",
        "two": "seconds that a micro-batch pays with two stages",
        "more": "seconds that a micro-batch pays with more",
        "line": "the line of code",
    },
    fallback="course_utils.formulas.pace.who_waits",
)
def sloped(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Whether what a micro-batch pays goes with its sequences, with the nodes, or with neither."""
    paying = []
    for row in rows:
        passes = len(range(row["num_micro_batches"])) + row["stages"] - 1
        extra = row["measured"] / passes - row["predicted"] / passes
        if extra > PAYS:
            paying.append((row, extra))
    two = [extra for row, extra in paying if row["stages"] == 2]
    more = [extra for row, extra in paying if row["stages"] > 2]
    return {
        "paying": len(paying),
        "two": median(two) if two else 0.0,
        "more": median(more) if more else 0.0,
        "line": _line(paying),
    }


def _line(paying: list[tuple[dict[str, Any], float]]) -> int:
    if min(row["stages"] for row, _ in paying) == 1:
        return FLUSH
    for line, name in ((COPY, "micro_batch"), (BARRIER, "nodes")):
        sizes = [math.log(row[name]) for row, _ in paying]
        extras = [math.log(extra) for _, extra in paying]
        if len({*sizes}) > 1 and linear_regression(sizes, extras).slope > STEEP:
            return line
    return SLEEP
