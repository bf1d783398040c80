"""The wrong answers that people give to each exercise, and right answers in other styles.

An answer bank holds sources, not functions, so that the same answers can be judged here and put
into a notebook for nbgrader.
"""

import linecache
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Case = dict[str, Any]


@dataclass(frozen=True)
class Wrong:
    """A wrong answer.

    Attributes:
        name: What is wrong, in a few words.
        source: Code that defines the answer.
        hint: Words of the hint that it must trigger.
        points: Points that it still earns.
    """

    name: str
    source: str
    hint: str
    points: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AnswerBank:
    """The answers to one exercise.

    Attributes:
        function: Name of the function or class that the exercise asks for.
        wrong: At least five wrong answers.
        right: At least two right answers in another style than the solution.
        features: Kinds of cases that must occur for every seed.
    """

    function: str
    wrong: Sequence[Wrong]
    right: Sequence[str]
    features: Mapping[str, Callable[[Case], bool]]


def make(source: str, name: str) -> Any:
    """The object called `name` that a source defines, as if typed into a notebook."""
    text = textwrap.dedent(source)
    filename = f"<answer {hash(text)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, filename, "exec"), namespace)
    return namespace[name]
