"""What an answer keeps from one call to the next, and what it gives without it.

A cache that looks at too few sizes, a list as default argument, an attribute that all instances
share: the formula is right, and what an earlier call has left is not. Found are containers, global
names, nonlocal names and class attributes that the answer's own code can reach.
"""

import functools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

CONTAINERS = (dict, list, set, deque, defaultdict, OrderedDict, Counter)
MAX_OBJECTS = 10_000  # that are followed; what lies behind them is not seen
_ABSENT = object()


class CallMemory:
    """What an answer's calls can change, as it was when this was made."""

    def __init__(self, answer: object) -> None:
        """Note the containers, the bound names and the caches that the answer's code reaches."""
        self._containers: list[tuple[Any, Any]] = []
        self._names: list[tuple[Callable[[], object], Callable[[Any], object], Any]] = []
        self._caches: list[Callable[[], object]] = []
        with suppress(Exception):  # whatever a student's class makes of being looked at
            self._note(answer)

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """For a while, nothing is left of calls; afterwards all is as it was in the beginning.

        What has only grown is emptied, since earlier calls may have filled it before, too.
        """
        try:
            for container, before in self._containers:
                if _has_only_grown(before, container):
                    container.clear()
                elif not _is_same(before, container):
                    _fill(container, before)
            self._put_names_back()
            yield
        finally:
            for container, before in self._containers:
                if not _is_same(before, container):
                    _fill(container, before)
            self._put_names_back()

    def _put_names_back(self) -> None:
        for clear in self._caches:
            clear()
        for read, write, before in self._names:
            if read() is not before:
                write(before)

    def _note(self, answer: object) -> None:
        module = getattr(answer, "__module__", "__main__")
        seen: dict[int, object] = {}
        waiting = [answer]
        while waiting and len(seen) < MAX_OBJECTS:
            each = waiting.pop()
            if id(each) not in seen:
                seen[id(each)] = each
                waiting.extend(self._reached_from(each, module))

    def _reached_from(self, each: Any, module: str) -> Iterable[object]:
        """Note what one object holds, and name what it leads to."""
        kind = type(each)
        if kind in CONTAINERS:
            self._containers.append((each, each.copy()))
            return [*each.values()] if isinstance(each, dict) else [*each]
        if kind is tuple or kind is frozenset:
            return each  # type: ignore[no-any-return]
        if kind in (staticmethod, classmethod, types.MethodType):
            return [each.__func__]
        if isinstance(each, functools.partial):
            return [each.func, each.args, each.keywords]
        if hasattr(each, "cache_clear") and getattr(each, "__module__", "") == module:
            self._caches.append(each.cache_clear)
            return [each.__wrapped__]
        if kind is types.FunctionType and each.__module__ == module:
            return self._reached_from_function(each)
        if isinstance(each, type) and each.__module__ == module:
            return self._named(vars(each), functools.partial(setattr, each), [*vars(each)])
        if kind.__module__ == module and hasattr(each, "__dict__"):
            return [vars(each), kind]
        return []

    def _reached_from_function(self, function: types.FunctionType) -> Iterator[object]:
        yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                yield cell.cell_contents
                read = functools.partial(getattr, cell, "cell_contents", _ABSENT)
                write = functools.partial(setattr, cell, "cell_contents")
                self._names.append((read, write, cell.cell_contents))
        names = function.__globals__
        read_names = [name for name in _names_in(function.__code__) if name in names]
        yield from self._named(names, names.__setitem__, read_names)

    def _named(
        self, space: Any, write: Callable[[str, Any], object], names: Iterable[str]
    ) -> list[object]:
        """Note what some names of a space stand for."""
        values = [space[name] for name in names]
        for name, value in zip(names, values, strict=True):
            read = functools.partial(space.get, name, _ABSENT)
            self._names.append((read, functools.partial(write, name), value))
        return values


def _fill(container: Any, contents: Any) -> None:
    container.clear()
    (container.update if hasattr(container, "update") else container.extend)(contents)


def _names_in(code: types.CodeType) -> set[str]:
    """The names that a function and the functions inside it read or bind."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two containers hold the same objects, in one order."""
    return len(one) == len(other) and _begins_with(one, other)


def _has_only_grown(before: Any, now: Any) -> bool:
    return len(now) > len(before) and _begins_with(before, now)


def _begins_with(before: Any, now: Any) -> bool:
    """Whether all that was in a container is still there."""
    if isinstance(before, dict):
        return all(key in now and now[key] is value for key, value in before.items())
    if isinstance(before, set):
        return bool(before <= now)
    return all(one is other for one, other in zip(before, now, strict=False))
