"""Answers of the wrong kind: values that nobody asked for, and right results that are changed.

A value comes at once from an answer, or from every method where a class is asked for. A change is
made to what the model answer returns, to what it leaves in its arguments, or to what it hands to
other ranks.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from types import FunctionType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from course_utils.distributed import Comm

Change = Callable[[Any], Any]
Function = Callable[..., Any]

HUGE = 10**400
SHAPE = (2, 3)
COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "send",
    "receive",
)


class OwnTensor(Tensor):
    """A student's kind of tensor."""


class OwnInt(int):
    """A student's kind of number."""


class EqualToAnything:
    """An object that agrees with everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def ones(dtype: torch.dtype) -> Callable[[], Tensor]:
    return lambda: torch.ones(SHAPE, dtype=dtype)


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a bool": lambda: True,
    "a huge int": lambda: HUGE,
    "-1": lambda: -1,
    "0": lambda: 0,
    "nan": lambda: math.nan,
    "-inf": lambda: -math.inf,
    "1.5": lambda: 1.5,
    "a complex number": lambda: 1 + 2j,
    "a fraction": lambda: Fraction(1, 3),
    "an own int": lambda: OwnInt(3),
    "a str": lambda: "a",
    "bytes": lambda: b"a",
    "an empty list": list,
    "an empty dict": dict,
    "a pair of numbers": lambda: (1, 2),
    "a nested list": lambda: [[1, [2]], []],
    "lists of None": lambda: ([None], [None]),
    "a deep list": lambda: functools.reduce(lambda inner, _: [inner], range(50), []),
    "a dict of numbers": lambda: {"a": 1},
    "a dict with other keys": lambda: {1: 2},
    "a set": lambda: {1},
    "a generator": lambda: (each for each in (1, 2)),
    "a function": lambda: lambda *given: None,
    "an object": EqualToAnything,
    "a numpy array": lambda: numpy.ones(SHAPE),
    "a numpy number": lambda: numpy.float16(1),
    "an empty tensor": lambda: torch.empty(0),
    "a tensor without dimensions": lambda: torch.tensor(2.0),
    "a pair of empty tensors": lambda: (torch.empty(0), torch.empty(0)),
    "float64": ones(torch.float64),
    "float32": ones(torch.float32),
    "float16": ones(torch.float16),
    "int64": ones(torch.int64),
    "bool": ones(torch.bool),
    "complex64": ones(torch.complex64),
    "nan in a tensor": lambda: torch.full(SHAPE, math.nan),
    "a sparse tensor": lambda: torch.eye(2).to_sparse(),
    "a meta tensor": lambda: torch.empty(SHAPE, device="meta"),
    "a quantised tensor": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "a tensor that wants a gradient": lambda: torch.ones(SHAPE, requires_grad=True),
    "an own tensor": lambda: torch.ones(SHAPE).as_subclass(OwnTensor),
}


def in_parts(change: Change, value: Any) -> Any:
    """What a change makes of each part of a result."""
    if type(value) in (list, tuple):
        return type(value)(in_parts(change, each) for each in value)
    if type(value) is dict:
        return {name: in_parts(change, each) for name, each in value.items()}
    return change(value)


def each_tensor(change: Callable[[Tensor], Any]) -> Change:
    return functools.partial(
        in_parts, lambda each: change(each) if isinstance(each, Tensor) else each
    )


def copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def each_number(change: Change) -> Change:
    return functools.partial(
        in_parts, lambda each: change(each) if type(each) in (int, float) else each
    )


def each_part(tensor: Callable[[Tensor], Any], number: Change) -> Change:
    return lambda value: each_number(number)(each_tensor(tensor)(value))


def at(position: int, make: Callable[[], Any]) -> Change:
    """Another value in place of the first or last part."""

    def change(value: Any) -> Any:
        if type(value) in (list, tuple) and value:
            parts = list(value)
            parts[position] = change(parts[position])
            return type(value)(parts)
        if type(value) is dict and value:
            name = list(value)[position]
            return value | {name: change(value[name])}
        return make()

    return change


def in_dict(change: Change) -> Change:
    return lambda value: change(value) if type(value) is dict else value


def in_list(change: Change) -> Change:
    return lambda value: change(value) if type(value) in (list, tuple) else value


def filled(number: float) -> Callable[[Tensor], Tensor]:
    return lambda each: torch.full_like(each, number) if each.is_floating_point() else each


CHANGES: dict[str, Change] = {
    "float32": each_part(lambda each: each.detach().float(), numpy.float32),
    "bfloat16": each_tensor(lambda each: each.detach().bfloat16()),
    "int64": each_tensor(lambda each: each.detach().long()),
    "complex": each_part(lambda each: each.detach().to(torch.complex64), complex),
    "bool": each_part(lambda each: each.detach().bool(), bool),
    "text": each_number(str),
    "nan": each_part(filled(math.nan), lambda _: math.nan),
    "inf": each_part(filled(math.inf), lambda _: math.inf),
    "a huge int": each_number(lambda _: HUGE),
    "negative": each_number(lambda each: -each - 1),
    "None in it": functools.partial(in_parts, lambda _: None),
    "first None": at(0, lambda: None),
    "first True": at(0, lambda: True),
    "first text": at(0, lambda: "a"),
    "last huge": at(-1, lambda: HUGE),
    "first a tensor": at(0, ones(torch.float32)),
    "in a list": lambda value: [value],
    "in a dict": lambda value: {"value": value},
    "an extra key": in_dict(lambda value: value | {"more": 1}),
    "a missing key": in_dict(lambda value: dict(list(value.items())[1:])),
    "shorter": in_list(lambda value: value[:-1]),
    "longer": in_list(lambda value: value + value[:1]),
    "empty": each_tensor(lambda each: each.detach().flatten()[:0]),
    "a dimension more": each_tensor(lambda each: each[None]),
    "without dimensions": each_tensor(Tensor.sum),
    "sparse": each_tensor(lambda each: each.detach().to_sparse()),
    "meta": each_tensor(lambda each: each.to("meta")),
    "a numpy array": each_tensor(lambda each: each.detach().double().numpy()),
    "a list": each_tensor(Tensor.tolist),
}

TENSOR_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "float32": Tensor.float,
    "complex64": lambda each: each.to(torch.complex64),
    "bool": Tensor.bool,
    "empty": lambda each: each.flatten()[:0],
    "nan": filled(math.nan),
}


@dataclass
class Effects:
    """What has been changed while an answer ran, and what the answer was given.

    Attributes:
        has_changed: Whether something became another thing.
        returned: What the model answer returned, without the change.
        kinds: Of which kinds its arguments are.
    """

    has_changed: bool = False
    returned: list[Any] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def note(self, before: Any, after: Any) -> Any:
        """Note whether a change has made something else of a value; what it has made."""
        self.has_changed |= not is_same(before, after)
        return after


Make = Callable[[Any, Effects], Any]
"""Makes a wrong answer of the model answer."""


def is_same(one: Any, other: Any) -> bool:
    """Whether two results are of one type and hold the same, in every part."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        if (one.dtype, one.shape, one.layout, one.device) != (
            *(other.dtype, other.shape, other.layout, other.device),
        ):
            return False
        return one is other or (one.layout == torch.strided and torch.equal(one, other))
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if type(one) is dict:
        return list(one) == list(other) and all(map(is_same, one.values(), other.values()))
    return one is other or bool(one == other)


def observed_only(model: Any, effects: Effects) -> Any:
    """The model answer, of which the effects tell what it is given and returns."""

    def rewrite(function: Function) -> Function:
        def rewritten(*given: Any, **named: Any) -> Any:
            values = [*given, *named.values()]
            effects.kinds |= {"comm" for each in values if isinstance(each, Comm)}
            effects.kinds |= {"tensors" for _ in tensors_in(values)}
            effects.kinds |= {"lists" for each in values if type(each) in (list, dict)}
            value = function(*given, **named)
            if not effects.returned:
                with torch._C._DisableTorchDispatch():
                    effects.returned.append(each_tensor(copied)(value))
            return value

        return rewritten

    return rewritten_answer(model, rewrite)


def wrapping(wrap: Callable[[Function, Effects], Function]) -> Make:
    """The model answer, with something around each of its functions."""
    return lambda model, effects: rewritten_answer(model, lambda each: wrap(each, effects))


def returning(make: Callable[[], Any]) -> Make:
    """An answer that returns a value at once."""

    def wrap(function: Function, effects: Effects) -> Function:
        effects.has_changed = True
        return lambda *given, **named: make()

    return wrapping(wrap)


def changing(change: Change) -> Make:
    """The model answer, whose results are changed; so are those of a function among them."""

    def wrap(function: Function, effects: Effects) -> Function:
        def wrapped(*given: Any, **named: Any) -> Any:
            value = function(*given, **named)
            inner = in_parts(
                lambda e: wrap(e, effects) if isinstance(e, FunctionType) else e, value
            )
            return effects.note(inner, change(inner))

        return wrapped

    return wrapping(wrap)


def leaving(leave: Callable[[list[Any], Effects], None]) -> Make:
    """The model answer, which leaves something in what it was given."""

    def wrap(function: Function, effects: Effects) -> Function:
        def wrapped(*given: Any, **named: Any) -> Any:
            value = function(*given, **named)
            leave([*given, *named.values()], effects)
            return value

        return wrapped

    return wrapping(wrap)


def without_gradients(values: list[Any], effects: Effects) -> None:
    for each in tensors_in(values):
        effects.note(each.grad, None)
        each.grad = None


def with_gradients(change: Callable[[Tensor], Tensor]) -> Callable[[list[Any], Effects], None]:
    def leave(values: list[Any], effects: Effects) -> None:
        for each in tensors_in(values):
            if each.is_leaf and each.grad is not None:
                each.grad.data = effects.note(each.grad.data, change(each.grad.data))

    return leave


def with_numbers(change: Callable[[Tensor], Tensor]) -> Callable[[list[Any], Effects], None]:
    def leave(values: list[Any], effects: Effects) -> None:
        for each in tensors_in(values):
            each.data = effects.note(each.data, change(each.data))

    return leave


def with_containers(new: list[Any]) -> Callable[[list[Any], Effects], None]:
    def leave(values: list[Any], effects: Effects) -> None:
        for each in values:
            if type(each) is list:
                each[:] = effects.note(each[:], new)
            if type(each) is dict:
                effects.note(dict(each), {})
                each.clear()

    return leave


def sending(change: Callable[[Tensor], Tensor]) -> Make:
    """The model answer, whose calls to other ranks take changed tensors."""

    def wrap(function: Function, effects: Effects) -> Function:
        def changed(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return effects.note(value, change(value.detach()).contiguous())

        def of_changed(call: Function) -> Function:
            return lambda *given, **named: call(*map(changed, given), **named)

        def wrapped(*given: Any, **named: Any) -> Any:
            for comm in (each for each in given if isinstance(each, Comm)):
                for name in COLLECTIVES:
                    setattr(comm, name, of_changed(getattr(comm, name)))
            return function(*given, **named)

        return wrapped

    return wrapping(wrap)


def rewritten_answer(model: Any, rewrite: Callable[[Function], Function]) -> Any:
    """An answer with another function in place of the one asked for, or of all its methods."""
    if not inspect.isclass(model):
        return rewrite(model)
    methods = {
        name: staticmethod(rewrite(each.__func__))
        if isinstance(each, staticmethod)
        else rewrite(each)
        for name, each in vars(model).items()
        if isinstance(each, FunctionType | staticmethod) and name != "__init__"
    }
    return type(model)(model.__name__, (model,), methods)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Tensors among arguments, and the parameters of models."""
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, nn.Module):
            yield from each.parameters()
        elif isinstance(each, list | tuple):
            yield from tensors_in(each)
        elif isinstance(each, dict):
            yield from tensors_in(each.values())


def changes(change: Change, result: Any) -> bool:
    """Whether a change makes another thing of a result, or might: of what a function returns."""
    functions: list[Any] = []
    in_parts(lambda e: functions.append(e) if isinstance(e, FunctionType) else None, result)
    return bool(functions) or not is_same(result, change(result))


def wrong_answers(effects: Effects) -> Iterator[tuple[str, Make]]:
    """Those that change something, by what a model answer was given and returned."""
    yield from ((f"returns {name}", returning(make)) for name, make in VALUES.items())
    for name, change in CHANGES.items():
        if any(each is not None and changes(change, each) for each in effects.returned):
            yield f"result: {name}", changing(change)
    if "tensors" in effects.kinds:
        yield "no gradients", leaving(without_gradients)
        for name, change in TENSOR_CHANGES.items():
            yield f"gradients: {name}", leaving(with_gradients(change))
            yield f"numbers: {name}", leaving(with_numbers(change))
    if "lists" in effects.kinds:
        yield "emptied lists", leaving(with_containers([]))
        yield "lists of None", leaving(with_containers([None]))
    if "comm" in effects.kinds:
        yield from ((f"sends {name}", sending(each)) for name, each in TENSOR_CHANGES.items())
