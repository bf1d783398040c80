"""Instruments are never nested: each sees what another one does, and counts it too."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_RUNNING = ContextVar("the instrument that runs", default="")


def exclusive(instrument: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """An instrument that refuses to start while another one runs.

    Raises:
        ValueError: From the instrument, if one runs already.
    """

    @functools.wraps(instrument)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if running := _RUNNING.get():
            raise ValueError(
                f"{instrument.__qualname__} cannot run inside {running}, which would see its work "
                f"too: call one after the other"
            )
        token = _RUNNING.set(instrument.__qualname__)
        try:
            return instrument(*args, **kwargs)
        finally:
            _RUNNING.reset(token)

    return guarded
