"""What every answer finds and must leave as it found it: one list for all exercises.

An answer that changes a setting of torch, or what the tensors that it was given want, works by
itself and spoils what runs next. No exercise asks for that, so none has to look for it.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from course_utils.instruments.operands import tensors_in


class LeftChanged(Exception):
    """An answer left something changed; the message is a sentence that says what."""


@dataclass(frozen=True)
class Setting:
    """A setting that whatever runs next depends on, too.

    Attributes:
        changed: What is said where an answer leaves it changed.
        get: Its value.
        put: Gives it a value.
    """

    changed: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


SETTINGS = (
    Setting(
        "After your function, torch records gradients where it did not before, or no longer does",
        torch.is_grad_enabled,
        torch.set_grad_enabled,
    ),
    Setting(
        "After your function, new tensors have another default type",
        torch.get_default_dtype,
        torch.set_default_dtype,
    ),
    Setting(
        "After your function, autocast is on where it was off, or off where it was on",
        lambda: torch.is_autocast_enabled("cpu"),
        lambda is_on: torch.set_autocast_enabled("cpu", is_on),
    ),
)
WANTS_GRADIENTS = "Your function changes whether a tensor that it was given wants a gradient"


def left_as_found(answer: Any) -> Any:
    """The answer, which raises `LeftChanged` where it leaves changed what it found."""
    if not inspect.isfunction(answer):
        return answer

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        with _compared(args, kwargs):
            return answer(*args, **kwargs)

    return watched


@contextmanager
def _compared(*given: Any) -> Iterator[None]:
    """Put back what is found changed, so that the next case is not spoiled; then say so."""
    settings = [(setting, setting.get()) for setting in SETTINGS]
    wants = [(leaf, leaf.requires_grad) for leaf in _leaves(given)]
    complaints = []
    try:
        yield
    finally:
        for setting, value in settings:
            if setting.get() != value:
                setting.put(value)
                complaints.append(setting.changed)
        for leaf, wanted in wants:
            if leaf.is_leaf and leaf.requires_grad != wanted:
                leaf.requires_grad_(wanted)
                complaints.append(WANTS_GRADIENTS)
    if complaints:
        raise LeftChanged(complaints[0])


def _leaves(given: Any) -> Iterator[torch.Tensor]:
    """Leaves among what was given: tensors, also in lists and dictionaries, and parameters."""
    yield from (each for each in tensors_in(given) if each.is_leaf)
    positional, named = given
    for module in (*positional, *named.values()):
        if isinstance(module, nn.Module):
            yield from module.parameters()
