"""What the observations of many implementations share: errors as data, tensors, comparisons."""

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from autograder.checking import bounded_call, plain_data
from autograder.checking.exercise_check import Case
from autograder.observing.surroundings import settings_put_back, watched

LARGEST = 2  # of the whole numbers that are drawn


def length_of(tensors: Iterable[Tensor | None]) -> float:
    """Norm of some tensors as one vector; a missing one counts as zeros."""
    return math.hypot(
        *(float(each.detach().double().norm()) for each in tensors if each is not None)
    )


def drawn(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers between -1 and 1, the same on every machine: normal ones take a logarithm."""
    return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1


def whole_numbers(
    shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Whole numbers from -2 to 2 without 0: their products and sums are exact in any order."""
    drawn = torch.randint(2 * LARGEST, tuple(shape), generator=generator)
    return torch.where(drawn < LARGEST, drawn - LARGEST, drawn - LARGEST + 1).to(dtype)


def upstream(result: Tensor) -> Tensor:
    """An upstream gradient that differs from entry to entry and is nowhere one."""
    return torch.linspace(1.5, 2.5, result.numel(), dtype=result.dtype).view_as(result)


class _NotATensor(TypeError):
    """Something else came where a tensor was wanted; the message describes it."""


def require_tensor(value: object) -> Tensor:
    """Return the value, which must be a tensor.

    Raises:
        TypeError: If it is not a tensor.
    """
    if not isinstance(value, Tensor):
        raise _NotATensor(plain_data.describe(value))
    return value


def keep(results: list[Tensor], result: object) -> Tensor:
    """Append a result to a list; return the first of the list."""
    results.append(require_tensor(result))
    return results[0]


def errors_as_data(observe: Callable[[Any, Case], object]) -> Callable[[Any, Case], object]:
    """Make an ``observe`` return an error of the student's code as plain data: one case fails.

    What the answer leaves changed around it stands beside the observation as ``"left"``: a judge
    says it where nothing else is wrong.
    """

    @functools.wraps(observe)
    def observe_or_error(answer: Any, case: Case) -> object:
        complaints: list[str] = []
        try:
            with settings_put_back():
                observed = observe(watched(answer, complaints), case)
        except _NotATensor as error:
            kind = "nothing" if str(error) == "None" else "not plain"
            return {"trouble": kind, "what": str(error), "printed_characters": 0}
        except Exception as error:
            if bounded_call.is_unwritten(error):
                raise
            return bounded_call.describe_error(error)
        if not complaints:
            return observed
        left = {"trouble": "left", "what": complaints[0], "printed_characters": 0}
        return observed | {"left": left} if isinstance(observed, dict) else left

    return observe_or_error


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the random state afterwards; silence warnings, as missing gradients are counted."""
    with torch.random.fork_rng([]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
