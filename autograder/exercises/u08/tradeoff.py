"""Checks of what a batch size buys: the hyperbola of steps and examples, and a power law."""

import itertools
import math
import random
from collections.abc import Callable

from autograder.checking.check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.batch_size import power_law, steps_and_examples

ROUNDING = 1e-9  # another order of operations, and what a search leaves over


def tradeoff_cases(seed: int) -> list[Case]:
    """Batches at, far below and far above the critical size; sizes that are no whole numbers."""
    rng = random.Random(seed)
    names = ("min_steps", "critical_batch_size", "batch_size")
    cases = [(100.0, 30.0, 10)]
    for power in (-10, -7, -4, -2, -1, 1, 2, 4, 7, 10):
        for _ in range(2):
            batch_size = rng.randint(1, 999)
            critical = round(batch_size * 2**-power * rng.uniform(0.8, 1.2), 4)
            cases.append((float(rng.randint(5, 90_000)), critical, batch_size))
    sizes = [rng.randint(2, 5000) for _ in range(3)]
    cases += [(float(rng.randint(5, 900)), float(size), size) for size in sizes]
    return [dict(zip(names, each, strict=True)) for each in cases]


def on_the_hyperbola(
    min_steps: float, critical_batch_size: float, batch_size: int
) -> dict[str, float]:
    """The same two numbers by bisection: where E = B S meets the hyperbola, S above S_min."""

    def is_beyond(excess: float) -> bool:
        """Whether (S / S_min - 1) (E / E_min - 1) >= 1 for S = S_min (1 + excess)."""
        return excess * (batch_size * (1 + excess) / critical_batch_size - 1) >= 1

    low, high = 0.0, 1.0
    while not is_beyond(high):
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    steps = min_steps * (1 + high)
    return {"steps": steps, "examples": batch_size * steps}


Pair = dict[str, float]


def _with_steps(steps: Callable[[float, float, float], float]) -> Callable[..., Pair]:
    """Wrong steps, and the examples that follow from them."""

    def formula(least: float, critical: float, size: float) -> Pair:
        count = steps(least, critical, size)
        return {"steps": count, "examples": size * count}

    return formula


TRADEOFF = Check(
    cases=tradeoff_cases,
    reference=steps_and_examples,
    judge=EqualTo(
        on_the_hyperbola,
        Mistake(
            "Your examples are the fewest, whatever the batch. How many steps of how many examples "
            "did you take?",
            lambda least, critical, size: {"examples": least * critical},
        ),
        Mistake(
            "Your examples are steps of the critical batch size. How many examples does each step "
            "take?",
            lambda least, critical, size: {
                "examples": critical * steps_and_examples(least, critical, size)["steps"]
            },
        ),
        Mistake(
            "Your examples are as few as steps. By which number, with E_min, do you multiply?",
            lambda least, critical, size: {"examples": least * (1 + size / critical)},
        ),
        Mistake(
            "Your examples are those of the fewest steps. Is that how many steps this batch takes?",
            lambda least, critical, size: {"examples": least * size},
        ),
        Mistake(
            "Your steps are those of perfect scaling. Below which number do they never come, "
            "however large the batch is?",
            _with_steps(lambda least, critical, size: least * critical / size),
        ),
        Mistake(
            "Your line has a corner at the critical batch size. How many steps does the hyperbola "
            "give there, the fewest or more?",
            _with_steps(lambda least, critical, size: least * max(1, critical / size)),
        ),
        Mistake(
            "Your steps grow with the batch. Which of B and B_c belongs below the other?",
            _with_steps(lambda least, critical, size: least * (1 + size / critical)),
        ),
        Mistake(
            "You have the fewest steps for every batch. What do you get for S / S_min when you "
            "put E = B S into the hyperbola?",
            _with_steps(lambda least, critical, size: least),
        ),
        Mistake(
            "Your hyperbola has a root in it. What remains of the product of the two brackets "
            "when E = B S stands in it, and what cancels?",
            _with_steps(lambda least, critical, size: least * (1 + math.sqrt(critical / size))),
        ),
        relative_tolerance=ROUNDING,
    ),
)


def power_law_cases(seed: int) -> list[Case]:
    """Exact laws and scattered points, two of them and more, rising and falling."""
    rng = random.Random(seed)
    cases: list[tuple[list[float], list[float]]] = [([1.0, 2.0, 4.0], [4096.0, 512.0, 8.0])]
    for count in (2, 3, 4, 5, 6, 8):
        for scatter in (0.0, 0.3, 0.6):
            exponent = rng.choice((-1, -1, -1, 1)) * rng.uniform(1.2, 7)
            cases.append(_points(rng, count, exponent, scatter))
    cases += [_points(rng, 5, rng.uniform(1.5, 3), 0.4), _points(rng, 6, -5.0, 0.4)]
    return [{"losses": losses, "batch_sizes": sizes} for losses, sizes in cases]


def _points(
    rng: random.Random, count: int, exponent: float, scatter: float
) -> tuple[list[float], list[float]]:
    """Points around a law, at losses in unequal steps."""
    losses = [round(1.3 + 0.37 * n + rng.uniform(0, 0.3), 3) for n in range(count)]
    losses.reverse()
    scale = rng.uniform(1e3, 1e8)
    sizes = [scale * each**exponent * math.exp(rng.uniform(-scatter, scatter)) for each in losses]
    return losses, [float(round(each, 2)) for each in sizes]


def from_all_pairs(losses: list[float], batch_sizes: list[float]) -> Pair:
    """The same law without means: the slopes of all pairs, weighted by their squared distance."""
    points = [(math.log(x), math.log(y)) for x, y in zip(losses, batch_sizes, strict=True)]
    pairs = list(itertools.combinations(points, 2))
    weights = [(one[0] - other[0]) ** 2 for one, other in pairs]
    slopes = [(one[1] - other[1]) / (one[0] - other[0]) for one, other in pairs]
    products = (weight * slope for weight, slope in zip(weights, slopes, strict=True))
    exponent = math.fsum(products) / math.fsum(weights)
    at_one = math.prod(math.exp((y - exponent * x) / len(points)) for x, y in points)
    return {"exponent": exponent, "batch_at_loss_1": at_one}


def _line(xs: list[float], ys: list[float]) -> tuple[float, float]:
    """Slope and height at zero of the line of least squares."""
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    slope = above / sum((x - x_mean) ** 2 for x in xs)
    return slope, y_mean - slope * x_mean


def _law(exponent: float, log_at_one: float) -> Pair:
    return {"exponent": exponent, "batch_at_loss_1": _exp(log_at_one)}


def _exp(power: float) -> float:
    return math.exp(min(power, 700))


def _logs(values: list[float]) -> list[float]:
    return [math.log(each) for each in values]


def _ends(losses: list[float], sizes: list[float]) -> Pair:
    xs, ys = _logs(losses), _logs(sizes)
    slope = (ys[-1] - ys[0]) / (xs[-1] - xs[0])
    return _law(slope, ys[0] - slope * xs[0])


def _neighbours(losses: list[float], sizes: list[float]) -> float:
    points = list(zip(_logs(losses), _logs(sizes), strict=True))
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points)]
    return sum(slopes) / len(slopes)


def _swapped(losses: list[float], sizes: list[float]) -> Pair:
    return {"exponent": _line(_logs(sizes), _logs(losses))[0]}


def _swapped_back(losses: list[float], sizes: list[float]) -> Pair:
    return {"exponent": 1 / _line(_logs(sizes), _logs(losses))[0]}


def _from_twos(losses: list[float], sizes: list[float]) -> Pair:
    _, height = _line(_logs(losses), _logs(sizes))
    return {"batch_at_loss_1": _exp(height / math.log(2))}


def _through_origin(losses: list[float], sizes: list[float]) -> Pair:
    xs, ys = _logs(losses), _logs(sizes)
    slope = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs)
    return {"exponent": slope}


def _wrong_base(losses: list[float], sizes: list[float]) -> Pair:
    _, height = _line(_logs(losses), _logs(sizes))
    return {"batch_at_loss_1": _exp(height / math.log(10))}


def _too_large_base(losses: list[float], sizes: list[float]) -> Pair:
    _, height = _line(_logs(losses), _logs(sizes))
    return {"batch_at_loss_1": 10 ** min(height, 300)}


POWER_LAW = Check(
    cases=power_law_cases,
    reference=power_law,
    judge=EqualTo(
        from_all_pairs,
        Mistake(
            "You fit a straight line to the numbers themselves. In which quantities is a power law "
            "a straight line?",
            lambda losses, sizes: {"exponent": _line(losses, sizes)[0]},
        ),
        Mistake(
            "You took the logarithm of one of the two only. What becomes of B = c · L^k when you "
            "take the logarithm of both sides?",
            lambda losses, sizes: {"exponent": _line(losses, _logs(sizes))[0]},
        ),
        Mistake(
            "Your slope is that of loss over batch size. Which of the two is raised to the "
            "exponent?",
            _swapped,
        ),
        Mistake(
            "Your exponent has the other sign. Does the batch grow or shrink as the loss falls?",
            lambda losses, sizes: {"exponent": -_line(_logs(losses), _logs(sizes))[0]},
        ),
        Mistake(
            "You draw the line through the first and the last point. What have the points between "
            "them to say?",
            _ends,
        ),
        Mistake(
            "Your exponent is a mean of the slopes between neighbours. Do near and far neighbours "
            "tell a slope equally well?",
            lambda losses, sizes: {"exponent": _neighbours(losses, sizes)},
        ),
        Mistake(
            "Your line goes through log B = 0 at a loss of 1. What is the batch size there?",
            _through_origin,
        ),
        Mistake(
            "Your batch at loss 1 is a logarithm still. How do you get back from log B to B?",
            lambda losses, sizes: {"batch_at_loss_1": _line(_logs(losses), _logs(sizes))[1]},
        ),
        Mistake(
            "You fit the loss over the batch and turn the slope over. Whose deviations are to be "
            "small, those of log L or of log B?",
            _swapped_back,
        ),
        Mistake(
            "You went to logarithms in twos and came back with e. Which base do yours have?",
            _from_twos,
        ),
        Mistake(
            "You went to logarithms with one base and came back with another. Which one do they "
            "have?",
            _wrong_base,
        ),
        Mistake(
            "You came back from natural logarithms with powers of ten. Which base do they have?",
            _too_large_base,
        ),
        relative_tolerance=ROUNDING,
    ),
)
