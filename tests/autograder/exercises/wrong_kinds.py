"""Answers of the wrong kind: values that nobody asked for, and right results that are changed.

A value comes from every function and method of an answer. A change is made to what the model
answer returns, to what it leaves in its arguments, or to what it hands to other ranks.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import FunctionType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from course_utils.distributed import Comm

Change = Callable[[Any], Any]
Answer = Any

NUMBER = 10**400
SHAPE = (2, 3)
COLLECTIVES = (
    *("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send", "receive"),
)


class OwnTensor(Tensor):
    """A student's kind of tensor."""


class OwnInt(int):
    """A student's kind of number."""


class Anything:
    """An object that agrees with everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _full(dtype: torch.dtype) -> Callable[[], Tensor]:
    return lambda: torch.ones(SHAPE, dtype=dtype)


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "a huge int": lambda: NUMBER,
    "a large int": lambda: 10**40,
    "-1": lambda: -1,
    "0": lambda: 0,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1.5": lambda: 1.5,
    "a complex number": lambda: 1 + 2j,
    "a fraction": lambda: Fraction(1, 3),
    "an own int": lambda: OwnInt(3),
    "a str": lambda: "a",
    "bytes": lambda: b"a",
    "an empty list": list,
    "an empty dict": dict,
    "an empty tuple": tuple,
    "a list of a number": lambda: [1],
    "a pair of numbers": lambda: (1, 2),
    "a nested list": lambda: [[1, [2]], []],
    "lists of None": lambda: ([None], [None]),
    "a deep list": lambda: functools.reduce(lambda inner, _: [inner], range(50), []),
    "a dict of numbers": lambda: {"a": 1},
    "a dict with other keys": lambda: {1: 2},
    "a set": lambda: {1},
    "a generator": lambda: (each for each in (1, 2)),
    "a function": lambda: lambda *given: None,
    "a class": lambda: Anything,
    "an object": Anything,
    "a model": lambda: nn.Linear(2, 2),
    "a numpy array": lambda: numpy.ones(SHAPE),
    "a numpy number": lambda: numpy.float16(1),
    "an empty tensor": lambda: torch.empty(0),
    "a tensor without dimensions": lambda: torch.tensor(2.0),
    "a pair of empty tensors": lambda: (torch.empty(0), torch.empty(0)),
    "a list of tensors": lambda: [torch.ones(SHAPE), torch.ones(())],
    "float64": _full(torch.float64),
    "float32": _full(torch.float32),
    "float16": _full(torch.float16),
    "bfloat16": _full(torch.bfloat16),
    "int64": _full(torch.int64),
    "bool": _full(torch.bool),
    "complex64": _full(torch.complex64),
    "complex128": _full(torch.complex128),
    "nan in a tensor": lambda: torch.full(SHAPE, math.nan),
    "a sparse tensor": lambda: torch.eye(2).to_sparse(),
    "a meta tensor": lambda: torch.empty(SHAPE, device="meta"),
    "a quantised tensor": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "a tensor that wants a gradient": lambda: torch.ones(SHAPE, requires_grad=True),
    "an own tensor": lambda: torch.ones(SHAPE).as_subclass(OwnTensor),
    "a parameter": lambda: nn.Parameter(torch.ones(SHAPE)),
}


def _of_tensors(change: Callable[[Tensor], Any]) -> Change:
    """The change of every tensor in a result; nothing else is changed."""
    return lambda value: _mapped(
        lambda each: change(each) if isinstance(each, Tensor) else each, value
    )


def _cast(dtype: torch.dtype, number: Callable[[Any], Any]) -> Change:
    """Every tensor in another dtype, and every number of another type."""

    def cast(each: Any) -> Any:
        if isinstance(each, Tensor):
            return each.detach().to(dtype)
        return number(each) if type(each) in (int, float) else each

    return lambda value: _mapped(cast, value)


def _mapped(change: Change, value: Any) -> Any:
    """What a change makes of the parts of a result."""
    if type(value) in (list, tuple):
        return type(value)(_mapped(change, each) for each in value)
    if type(value) is dict:
        return {name: _mapped(change, each) for name, each in value.items()}
    return change(value)


def _at(position: int, change: Change) -> Change:
    """The change of one part of a result alone."""

    def at(value: Any) -> Any:
        if type(value) in (list, tuple) and value:
            parts = list(value)
            parts[position] = at(parts[position])
            return type(value)(parts)
        if type(value) is dict and value:
            name = list(value)[position]
            return value | {name: at(value[name])}
        return change(value)

    return at


def _filled(number: float) -> Change:
    def fill(each: Any) -> Any:
        if isinstance(each, Tensor):
            if each.dtype.is_floating_point or abs(number) < 2:
                return torch.full_like(each, number if number != NUMBER else math.inf)
            return each
        return number if type(each) in (int, float) else each

    return lambda value: _mapped(fill, value)


def _with_key(value: Any) -> Any:
    return value | {"more": 1} if type(value) is dict else value


def _without_key(value: Any) -> Any:
    return dict(list(value.items())[1:]) if type(value) is dict else value


def _shorter(value: Any) -> Any:
    return value[:-1] if type(value) in (list, tuple) else value


def _longer(value: Any) -> Any:
    return value + value[:1] if type(value) in (list, tuple) else value


CHANGES: dict[str, Change] = {
    "float64": _cast(torch.float64, float),
    "float32": _cast(torch.float32, numpy.float32),
    "bfloat16": _cast(torch.bfloat16, lambda number: numpy.float16(1)),
    "int64": _cast(torch.int64, lambda number: int(number) if math.isfinite(number) else number),
    "complex": _cast(torch.complex64, complex),
    "bool": _cast(torch.bool, bool),
    "text": _cast(torch.float64, str),
    "nan": _filled(math.nan),
    "inf": _filled(math.inf),
    "a huge int": _filled(NUMBER),
    "negative": lambda value: _mapped(lambda e: -e if type(e) in (int, float) else e, value),
    "0": _filled(0),
    "None in it": lambda value: _mapped(lambda each: None, value),
    "first None": _at(0, lambda each: None),
    "last None": _at(-1, lambda each: None),
    "first True": _at(0, lambda each: True),
    "first text": _at(0, lambda each: "a"),
    "first huge": _at(0, lambda each: NUMBER),
    "last huge": _at(-1, lambda each: NUMBER),
    "first nan": _at(0, lambda each: math.nan),
    "first a tensor": _at(0, lambda each: torch.ones(SHAPE)),
    "first a list": _at(0, lambda each: [each]),
    "in a list": lambda value: [value],
    "in a tuple": lambda value: (value,),
    "in a dict": lambda value: {"value": value},
    "an extra key": _with_key,
    "a missing key": _without_key,
    "shorter": _shorter,
    "longer": _longer,
    "empty": _of_tensors(lambda each: each.detach().flatten()[:0]),
    "one dimension": _of_tensors(lambda each: each.flatten()),
    "a dimension more": _of_tensors(lambda each: each[None]),
    "without dimensions": _of_tensors(lambda each: each.sum()),
    "transposed": _of_tensors(lambda each: each.mT if each.dim() > 1 else each),
    "expanded": _of_tensors(lambda each: each.expand(2, *each.shape)),
    "detached": _of_tensors(lambda each: each.detach()),
    "wants a gradient": _of_tensors(
        lambda each: each.detach().requires_grad_() if each.is_floating_point() else each
    ),
    "sparse": _of_tensors(lambda each: each.detach().to_sparse()),
    "meta": _of_tensors(lambda each: each.to("meta")),
    "an own tensor": _of_tensors(lambda each: each.as_subclass(OwnTensor)),
    "a numpy array": _of_tensors(lambda each: each.detach().double().numpy()),
    "a list": _of_tensors(lambda each: each.tolist()),
}

LEAVES: dict[str, Callable[[Tensor], None]] = {}


def _leaves(name: str) -> Callable[[Callable[[Tensor], None]], Callable[[Tensor], None]]:
    def register(change: Callable[[Tensor], None]) -> Callable[[Tensor], None]:
        LEAVES[name] = change
        return change

    return register


@_leaves("no gradient")
def _(each: Tensor) -> None:
    each.grad = None


def _with_gradient(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], None]:
    def leave(each: Tensor) -> None:
        if each.grad is not None:
            each.grad.data = change(each.grad.data)

    return leave


def _with_numbers(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], None]:
    def leave(each: Tensor) -> None:
        each.data = change(each.data)

    return leave


TENSOR_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "float32": lambda each: each.to(torch.float32),
    "float16": lambda each: each.to(torch.float16),
    "double": lambda each: each.to(torch.float64),
    "complex64": lambda each: each.to(torch.complex64),
    "int64": lambda each: torch.ones_like(each, dtype=torch.int64),
    "bool": lambda each: each != 0,
    "empty": lambda each: each.flatten()[:0],
    "flat": lambda each: each.flatten(),
    "deep": lambda each: each[None],
    "nan": lambda each: torch.full_like(each, math.nan) if each.is_floating_point() else each,
}


def leaves() -> dict[str, Callable[[Tensor], None]]:
    found = dict(LEAVES)
    for name, change in TENSOR_CHANGES.items():
        found[f"gradients: {name}"] = _with_gradient(change)
        found[f"numbers: {name}"] = _with_numbers(change)
    return found


def constant(model: Answer, make: Callable[[], Any]) -> Answer:
    """An answer that returns a value at once, from every method where a class is asked for."""
    return _rewritten(model, lambda function: lambda *given, **named: make())


def changed(model: Answer, change: Change) -> Answer:
    """The model answer, whose results are changed."""

    def rewrite(function: Callable[..., Any]) -> Callable[..., Any]:
        def rewritten(*given: Any, **named: Any) -> Any:
            value = function(*given, **named)
            return _mapped(lambda e: changed(e, change) if _is_function(e) else e, change(value))

        return rewritten

    return _rewritten(model, rewrite)


def leaving(model: Answer, leave: Callable[[Tensor], None]) -> Answer:
    """The model answer, which leaves something in all tensors that it was given."""

    def rewrite(function: Callable[..., Any]) -> Callable[..., Any]:
        def rewritten(*given: Any, **named: Any) -> Any:
            value = function(*given, **named)
            for each in _tensors_in([*given, *named.values()]):
                leave(each)
            return value

        return rewritten

    return _rewritten(model, rewrite)


def emptying(model: Answer, *, fill: Any) -> Answer:
    """The model answer, which leaves other things in the lists and dictionaries it was given."""

    def rewrite(function: Callable[..., Any]) -> Callable[..., Any]:
        def rewritten(*given: Any, **named: Any) -> Any:
            value = function(*given, **named)
            for each in (*given, *named.values()):
                if type(each) is list:
                    each[:] = fill
                if type(each) is dict:
                    each.clear()
            return value

        return rewritten

    return _rewritten(model, rewrite)


def sending(model: Answer, change: Callable[[Tensor], Tensor]) -> Answer:
    """The model answer, whose calls to other ranks take changed tensors."""

    def rewrite(function: Callable[..., Any]) -> Callable[..., Any]:
        def rewritten(*given: Any, **named: Any) -> Any:
            for comm in (each for each in given if isinstance(each, Comm)):
                for name in COLLECTIVES:
                    setattr(comm, name, _of_changed(getattr(comm, name), change))
            return function(*given, **named)

        return rewritten

    return _rewritten(model, rewrite)


def _of_changed(call: Callable[..., Any], change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def with_changed(*given: Any, **named: Any) -> Any:
        given = tuple(
            change(each.detach()).contiguous() if isinstance(each, Tensor) else each
            for each in given
        )
        return call(*given, **named)

    return with_changed


def _rewritten(
    model: Answer, rewrite: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Answer:
    if not inspect.isclass(model):
        return rewrite(model)
    methods = {
        name: _method(each, rewrite)
        for name, each in vars(model).items()
        if isinstance(each, FunctionType | staticmethod) and name != "__init__"
    }
    return type(model)(model.__name__, (model,), methods)


def _method(
    method: FunctionType | staticmethod, rewrite: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Any:
    if isinstance(method, staticmethod):
        return staticmethod(rewrite(method.__func__))
    return rewrite(method)


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType)


def _tensors_in(values: Any) -> Iterator[Tensor]:
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, nn.Module):
            yield from each.parameters()
        elif isinstance(each, list | tuple):
            yield from _tensors_in(each)
        elif isinstance(each, dict):
            yield from _tensors_in(each.values())
