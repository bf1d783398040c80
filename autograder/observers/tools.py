"""What the observations of many implementations share: errors as data, tensors, comparisons."""

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from autograder.checking import bounded_call, plain_data
from autograder.checking.exercise_check import Case
from autograder.checking.result_form import NotCounted, WrongForm, require_number
from autograder.observers.side_effects import settings_put_back, watched
from autograder.observers.unseen_work import noted


def length_of(tensors: Iterable[Tensor | None]) -> float:
    """Norm of some tensors as one vector; a missing one counts as zeros.

    Raises:
        WrongForm: If numbers are complex.
    """
    present = [each.detach() for each in tensors if each is not None]
    for each in present:
        if each.is_complex():
            raise WrongForm("real numbers", plain_data.describe(each))
    return math.hypot(*(float(each.double().norm()) for each in present))


def upstream(result: Tensor) -> Tensor:
    """An upstream gradient that differs from entry to entry and is nowhere one.

    Raises:
        WrongForm: If the result can have no gradient.
    """
    if not result.is_floating_point():
        raise WrongForm("a tensor of floats", plain_data.describe(result))
    return torch.linspace(1.5, 2.5, result.numel(), dtype=result.dtype).view_as(result)


class _NotATensor(TypeError):
    """Something else came where a tensor was wanted; the message describes it."""


def require_tensor(value: object) -> Tensor:
    """Return the value, which must be a dense tensor of real numbers.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(value, Tensor):
        raise _NotATensor(plain_data.describe(value))
    is_dense = value.layout == torch.strided and not value.is_meta and not value.is_quantized
    if not is_dense or value.is_complex():
        raise WrongForm("a tensor of real numbers", plain_data.describe(value))
    return value


def require_one_number(value: object, wanted: str) -> float:
    """Return a number, which may be a tensor of one, as a float.

    Raises:
        WrongForm: If it is something else.
    """
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(require_tensor(value).detach())
    if isinstance(value, float):  # as NumPy's float64 is
        return float(value)
    return require_number(value, wanted)


def require_pair(value: object, wanted: str) -> tuple[Any, Any]:
    """Return the two parts of a tuple or list.

    Raises:
        WrongForm: If it is something else.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise WrongForm(wanted, plain_data.describe(value))
    first, second = value
    return first, second


def keep(results: list[Tensor], result: object) -> Tensor:
    """Append a result to a list; return the first of the list."""
    results.append(require_tensor(result))
    return results[0]


def errors_as_data(
    observe: Callable[[Any, Case], object], *, may_copy: bool = False
) -> Callable[[Any, Case], object]:
    """Make an ``observe`` return an error of the student's code as plain data: one case fails.

    What the answer leaves changed around it stands beside the observation as ``"left"``: a judge
    says it where nothing else is wrong.

    Args:
        observe: The function.
        may_copy: Whether numbers may leave torch, as a right way to make a copy.

    Raises:
        NotCounted: By what is returned, if the answer works beside an instrument.
    """

    @functools.wraps(observe)
    def observe_or_error(answer: Any, case: Case) -> object:
        complaints: list[str] = []
        unseen: list[str] = []
        try:
            with settings_put_back(), noted(unseen, may_copy=may_copy):
                observed = observe(watched(answer, complaints, unseen), case)
        except _NotATensor as error:
            kind = "nothing" if str(error) == "None" else "not plain"
            return {"trouble": kind, "what": str(error), "printed_characters": 0}
        except Exception as error:
            if unseen:
                raise NotCounted(unseen[0]) from None
            if bounded_call.is_unwritten(error):
                raise
            return bounded_call.describe_error(error)
        if unseen:
            raise NotCounted(unseen[0])
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
