"""Instruments are never nested: one inside another would have its own work counted."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_RUNNING = ContextVar("running instrument", default="")


def exclusive(instrument: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make an instrument refuse to start while another one is running.

    Raises:
        ValueError: From the instrument, if another one is running.
    """
    return _exclusive(instrument, inside="")


def exclusive_on_a_rank(instrument: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """As `exclusive`, but a rank of a virtual cluster may start it: it sees that rank alone.

    Raises:
        ValueError: From the instrument, if another one is running, but for the cluster.
    """
    return _exclusive(instrument, inside="VirtualCluster.run")


def _exclusive(instrument: Callable[Arguments, Result], inside: str) -> Callable[Arguments, Result]:

    @functools.wraps(instrument)
    def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if (running := _RUNNING.get()) not in ("", inside):
            raise ValueError(
                f"{instrument.__qualname__} cannot run inside {running}, which would see its work "
                f"too: call one after the other"
            )
        token = _RUNNING.set(instrument.__qualname__)
        try:
            return instrument(*args, **kwargs)
        finally:
            _RUNNING.reset(token)

    return wrapper
