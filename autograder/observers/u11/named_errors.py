"""Errors about which an exercise can ask more than about any error: observed as a number."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from autograder.checking.fact import Case, Fact, Plain

Observe = Callable[[Any, Case], object]


def error_as_number(name: str, kind: type[Exception], words: str) -> Callable[[Observe], Observe]:
    """Make an ``observe`` return ``{name: 1}`` for an error of a kind that has these words."""

    def decorate(observe: Observe) -> Observe:
        @functools.wraps(observe)
        def observe_or_name(answer: Any, case: Case) -> object:
            try:
                return observe(answer, case)
            except kind as error:
                if words not in str(error):
                    raise
                return {name: 1}

        return observe_or_name

    return decorate


def silent_ranks(num_ranks: int, rank: dict[str, Any]) -> dict[str, Any]:
    """What is looked at where an error was observed: ranks that called nobody and have nothing."""
    return {"ranks": [rank] * num_ranks, "logs": [[]] * num_ranks}


def with_error(error: Fact, others: Iterable[Fact], right: Plain) -> list[Fact]:
    """All facts, an error's last; where it was observed, all others are right: it alone counts."""
    if error.value:
        others = [each._replace(value=right.get(each.name, 0)) for each in others]
    return [*others, error]
