"""How long does a run take on a cluster of which only some runs were measured, each for its price?

A micro-batch takes the longer of the GPU's work and the CPU's launches, and a step waits for
``m + p - 1`` of them. Three constants are a cluster's own:

    gpu     how many times as long as predicted its GPUs work
    launch  seconds of its CPUs for a layer
    turn    seconds more for a layer and tensor rank, where stages lie on several nodes

    >>> run = SweptRun("one", 1, 1, 1, 8, num_layers=10, work_seconds=0.1)
    >>> seconds_of(run, Constants(gpu=2, launch=0.004, turn=0)), pace_by(run, PUBLISHED)
    (1.6, 'gpu')
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_utils.configs import machine_of
from course_utils.configs.shop import Shop, SweptRun
from course_utils.formulas.least_squares import fit
from course_utils.formulas.rates import NODE

H100 = machine_of("H100-SXM", num_devices=NODE)
KINDS = ("gpu", "launch", "turn")
SHARE = 8  # one in so many offers is of the few that tell most of a constant

Predictor = Callable[[Shop, Sequence[SweptRun]], list[float]]
"""Seconds of a step of the runs that are asked for, with what it buys."""


class Constants(NamedTuple):
    """What is a cluster's own; the sweep's by the course's planner in `PUBLISHED`."""

    gpu: float
    launch: float
    turn: float


PUBLISHED = Constants(1.0, H100.launch_seconds, H100.turn_seconds)


def num_passes(run: SweptRun) -> int:
    """Micro-batches, one after the other, that a step waits for: ``m + p - 1``."""
    return run.num_micro_batches + run.stages - 1


def spans_nodes(run: SweptRun) -> bool:
    """Whether stages lie on several nodes."""
    return run.stages > 1 and run.nodes > 1


def layer_work(run: SweptRun) -> float:
    """Seconds of the GPU for a layer."""
    return run.work_seconds / run.num_layers


def work_and_launches(run: SweptRun, constants: Constants) -> tuple[float, float]:
    """Seconds of the GPU and of the CPU for a micro-batch."""
    turn = constants.turn * run.tensor * spans_nodes(run)
    return constants.gpu * run.work_seconds, (constants.launch + turn) * run.num_layers


def seconds_of(run: SweptRun, constants: Constants) -> float:
    """Seconds of a step."""
    return num_passes(run) * max(work_and_launches(run, constants))


def pace_by(run: SweptRun, constants: Constants) -> str:
    """Which constant sets the pace of a run: one of `KINDS`."""
    work, launches = work_and_launches(run, constants)
    if work >= launches:
        return "gpu"
    return "turn" if spans_nodes(run) else "launch"


def that_tell(offers: Iterable[SweptRun]) -> dict[str, list[SweptRun]]:
    """Runs of three kinds, by the constant that they may tell: those first that tell most of it."""
    every = list(offers)
    across = sorted(filter(spans_nodes, every), key=lambda run: layer_work(run) / run.tensor)
    within = sorted(filterfalse(spans_nodes, every), key=layer_work)
    return {"turn": across, "launch": within, "gpu": within[::-1]}


def median_by_kind(errors: Sequence[float], kinds: Sequence[str]) -> dict[str, float]:
    """The median error of the runs of each of `KINDS` that is there."""
    of_kind = {
        kind: [error for error, each in zip(errors, kinds, strict=True) if each == kind]
        for kind in KINDS
    }
    return {kind: median(own) for kind, own in of_kind.items() if own}


def predict_runs(shop: Shop, asked: Sequence[SweptRun]) -> list[float]:
    """Seconds of a step of runs that are not on offer.

    Buys runs of each of three kinds by turns, of the few that tell most of a constant the cheapest
    first; each constant is the median of what its own runs say.

    Args:
        shop: What is on offer.
        asked: Runs on the same cluster.
    """
    few = max(1, len(shop.offers) // SHARE)
    telling = {kind: own[:few] for kind, own in that_tell(shop.offers).items()}
    telling["gpu"].reverse()  # of two prices that are equal, that of less work
    taken: dict[str, dict[SweptRun, float]] = {kind: {} for kind in telling}
    by_price = [sorted(own, key=lambda run: run.price) for own in telling.values()]
    for chosen in zip(*by_price, strict=False):
        for kind, run in zip(telling, chosen, strict=True):
            if run.price <= shop.left:
                taken[kind][run] = shop.buy(run) / num_passes(run)
    gpu = median(seconds / run.work_seconds for run, seconds in taken["gpu"].items())
    launch = median(seconds / run.num_layers for run, seconds in taken["launch"].items())
    turn = median(
        (seconds / run.num_layers - launch) / run.tensor for run, seconds in taken["turn"].items()
    )
    return [seconds_of(run, Constants(gpu, launch, turn)) for run in asked]


# What is simpler, for comparison.


def buy_in_order(shop: Shop, runs: Sequence[SweptRun]) -> dict[SweptRun, float]:
    """Buy every run that can still be paid, one after the other."""
    for run in runs:
        if run.price <= shop.left:
            shop.buy(run)
    return shop.bought


def fitted(bought: Mapping[SweptRun, float]) -> Constants:
    """Constants by least squares, from the published ones on."""
    work, layers, turns, passes = (
        np.array([each(run) for run in bought], dtype=float)
        for each in (
            lambda run: run.work_seconds,
            lambda run: run.num_layers,
            lambda run: run.tensor * spans_nodes(run),
            num_passes,
        )
    )
    return Constants(
        *fit(
            lambda c: passes * np.maximum(c[0] * work, (c[1] + c[2] * turns) * layers),
            np.array(list(bought.values())),
            PUBLISHED,
        )
    )


def at_random(shop: Shop, asked: Sequence[SweptRun]) -> list[float]:
    """Seconds by the same model, fitted to runs that are bought as they come.

    They are shuffled by the GPU-hours that are left, so that the same shop sells the same.
    """
    runs = random.Random(shop.left).sample(shop.offers, len(shop.offers))
    constants = fitted(buy_in_order(shop, runs))
    return [seconds_of(run, constants) for run in asked]


def one_rate(shop: Shop, asked: Sequence[SweptRun]) -> list[float]:
    """Seconds at the median FLOP/s of a device, of the cheapest runs."""
    bought = _cheapest(shop)
    rate = median(flops_per_second(run, seconds) for run, seconds in bought.items())
    return [run.step_flops / (NODE * run.nodes) / rate for run in asked]


def nearest_rates(shop: Shop, asked: Sequence[SweptRun]) -> list[float]:
    """Seconds at the FLOP/s of the nearest of the cheapest runs, by the logarithms of sizes."""
    bought = _cheapest(shop)
    rates = np.array([flops_per_second(run, seconds) for run, seconds in bought.items()])
    distances = ((_places(asked)[:, None] - _places(list(bought))) ** 2).sum(axis=2)
    flops = np.array([run.step_flops / (NODE * run.nodes) for run in asked])
    seconds: list[float] = (flops / rates[distances.argmin(axis=1)]).tolist()
    return seconds


def flops_per_second(run: SweptRun, seconds: float) -> float:
    """Rate of a device in a step of so many seconds."""
    return run.step_flops / (NODE * run.nodes) / seconds


def _cheapest(shop: Shop) -> dict[SweptRun, float]:
    return buy_in_order(shop, sorted(shop.offers, key=lambda run: run.price))


def _places(runs: Sequence[SweptRun]) -> NDArray[np.float64]:
    """Logarithms of what is known of each run."""
    names = ("nodes", "tensor", "stages", "num_micro_batches", "num_layers", "work_seconds")
    return np.log([[float(getattr(run, name)) for name in names] for run in runs])
