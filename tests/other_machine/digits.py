"""Python's own functions, and random draws, as another machine might have them."""

import builtins
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch._dynamo  # compares the built-in `sum` with its own, so before that is another one

FUNCTIONS = ("exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tanh", "erf")
SHORT_BITS = 20  # a result of so few bits is exact everywhere, as that of exp(0)


def install(seed: int) -> None:
    """Give the functions of `math` and normal draws other last digits, for the whole process.

    Uniform draws are the same everywhere: they are whole numbers over a power of two.
    """
    for name in FUNCTIONS:
        setattr(math, name, _nudged(getattr(math, name), seed))
    for name in ("randn", "randn_like"):
        setattr(torch, name, _drawn(getattr(torch, name)))
    torch.Tensor.normal_ = _drawn(torch.Tensor.normal_)  # type: ignore[method-assign]


def _nudged(function: Callable[..., float], seed: int) -> Callable[..., float]:
    @functools.wraps(function)
    def other(*args: Any) -> float:
        value = function(*args)
        if not math.isfinite(value) or (value * 2**SHORT_BITS).is_integer():
            return value
        way = hash((value, seed)) % 3 - 1
        return math.nextafter(value, way * math.inf) if way else value

    return other


def _drawn(draw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        numbers = draw(*args, **kwargs)
        if numbers.dtype in (torch.float32, torch.float64) and type(numbers) is torch.Tensor:
            with torch.no_grad(), torch._C._DisableTorchDispatch():
                numbers.copy_(numbers.nextafter(2 * numbers))
        return numbers

    return drawn


def sum_otherwise() -> None:
    """Let the built-in `sum` add floats as another Python: compensated, as from 3.12 on, or not."""
    builtins.sum = _plain_sum if _compensates() else _compensated_sum  # type: ignore[assignment]


def _compensates() -> bool:
    return sum([0.1] * 10) == 1.0


_original = builtins.sum


def _compensated_sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    terms = list(iterable)
    has_floats = any(type(each) is float for each in terms)
    if has_floats and all(type(each) in (int, float, bool) for each in (start, *terms)):
        return math.fsum([start, *terms]) if all(map(math.isfinite, terms)) else _original(terms)
    return _original(terms, start)


def _plain_sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    return functools.reduce(lambda one, other: one + other, iterable, start)
