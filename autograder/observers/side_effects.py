"""What every answer finds and must leave as it found it: one list for all exercises.

An answer that changes a setting of torch, or what the tensors that it was given want, works by
itself and spoils what runs next. No exercise asks for that, so none has to look for it.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from autograder.observers.unseen_work import WaysOut
from course_utils.instruments.operands import tensors_in


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


def watched(answer: Any, complaints: list[str], unseen: list[str]) -> Any:
    """The answer, which adds a sentence to the complaints for all that it leaves changed.

    In the thread of a rank it also notes what no instrument sees.

    Nothing is put back here: what an exercise observes afterwards may be that very change.
    """
    if not inspect.isfunction(answer):
        return answer

    @functools.wraps(answer)
    def noted(*args: Any, **kwargs: Any) -> Any:
        settings = [(setting, setting.get()) for setting in SETTINGS]
        wants = [(leaf, leaf.requires_grad) for leaf in _leaves(args, kwargs)]
        is_main = threading.current_thread() is threading.main_thread()
        with nullcontext() if is_main else WaysOut(unseen):
            result = answer(*args, **kwargs)
        complaints.extend(each.changed for each, value in settings if each.get() != value)
        if any(leaf.is_leaf and leaf.requires_grad != wanted for leaf, wanted in wants):
            complaints.append(WANTS_GRADIENTS)
        return result

    return noted


@contextmanager
def settings_put_back() -> Iterator[None]:
    """Give all settings their values of before, so that the next case is not spoiled."""
    before = [(setting, setting.get()) for setting in SETTINGS]
    try:
        yield
    finally:
        for setting, value in before:
            setting.put(value)


def _leaves(positional: Sequence[Any], named: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Leaves among what was given: tensors, also in lists and dictionaries, and parameters."""
    yield from (each for each in tensors_in([positional, dict(named)]) if each.is_leaf)
    for module in (*positional, *named.values()):
        if isinstance(module, nn.Module):
            yield from module.parameters()
