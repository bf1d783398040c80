"""Errors about which an exercise can ask more than about any error: observed as a number."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain

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


def numbers_of_error(name: str, observed: Mapping[str, Plain], right: Plain) -> dict[str, Any]:
    """The numbers to compare where an error was observed: only its own is wrong; else none."""
    if "ranks" in observed:
        return {}
    return {key: each for key, each in right.items() if isinstance(each, int | float)} | {name: 1}
