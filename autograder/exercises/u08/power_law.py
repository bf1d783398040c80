"""Check of a power law through measured points."""

import itertools
import math
import random
from collections.abc import Callable

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from course_utils.formulas.batch_size import power_law


def power_law_cases(seed: int) -> list[Case]:
    """Exact laws and scattered points, two or more, rising and falling."""
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


def from_all_pairs(losses: list[float], batch_sizes: list[float]) -> dict[str, float]:
    """The least-squares law without means: slopes of all pairs, weighted by squared distance."""
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


def _exp(power: float) -> float:
    return math.exp(min(power, 700))  # from 710 on it overflows


def _logs(values: list[float]) -> list[float]:
    return [math.log(each) for each in values]


def _ends(losses: list[float], sizes: list[float]) -> dict[str, float]:
    xs, ys = _logs(losses), _logs(sizes)
    slope = (ys[-1] - ys[0]) / (xs[-1] - xs[0])
    return {"exponent": slope, "batch_at_loss_1": _exp(ys[0] - slope * xs[0])}


def _neighbours(losses: list[float], sizes: list[float]) -> dict[str, float]:
    points = list(zip(_logs(losses), _logs(sizes), strict=True))
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points)]
    return {"exponent": sum(slopes) / len(slopes)}


def _back_with_e(base: float) -> Callable[[list[float], list[float]], dict[str, float]]:
    """Logarithms to another base, undone with e."""

    def formula(losses: list[float], sizes: list[float]) -> dict[str, float]:
        _, height = _line(_logs(losses), _logs(sizes))
        return {"batch_at_loss_1": _exp(height / math.log(base))}

    return formula


def _back_with_ten(losses: list[float], sizes: list[float]) -> dict[str, float]:
    _, height = _line(_logs(losses), _logs(sizes))
    return {"batch_at_loss_1": 10 ** min(height, 300)}


def _through_origin(losses: list[float], sizes: list[float]) -> dict[str, float]:
    xs, ys = _logs(losses), _logs(sizes)
    slope = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs)
    return {"exponent": slope}


CHECK = Check(
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
            lambda losses, sizes: {"exponent": _line(_logs(sizes), _logs(losses))[0]},
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
            _neighbours,
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
            lambda losses, sizes: {"exponent": 1 / _line(_logs(sizes), _logs(losses))[0]},
        ),
        Mistake(
            "You went to logarithms in twos and came back with e. Which base do yours have?",
            _back_with_e(2),
        ),
        Mistake(
            "You went to logarithms with one base and came back with another. Which one do they "
            "have?",
            _back_with_e(10),
        ),
        Mistake(
            "You came back from natural logarithms with powers of ten. Which base do they have?",
            _back_with_ten,
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
