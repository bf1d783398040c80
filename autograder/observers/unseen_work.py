"""Work beside an instrument: numbers that leave torch, and threads and processes of an answer.

Instruments follow the operations of torch in the thread that calls an answer. While one of them
looks, an answer that works elsewhere is not counted: neither as a little work nor as none.
"""

import _thread
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from autograder.checking.bounded_call import NOT_STUDENTS

WAYS_OUT = ("numpy", "tolist", "item", "__float__", "__array__", "__dlpack__")
MOST_ELEMENTS = 64  # that an answer may read, as of a list of losses
OURS = NOT_STUDENTS[:2]  # the course's own packages
THREADS: tuple[tuple[ModuleType, str], ...] = (
    (_thread, "start_new_thread"),
    (threading, "_start_new_thread"),
    (threading, "_start_joinable_thread"),
)
PROCESSES = ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen")
"""Audit events of processes, which Python raises whatever name they are started by."""


class WaysOut(TorchFunctionMode):
    """Notes how an answer takes real numbers out of torch while an instrument looks.

    Arrays that share a tensor's memory are read-only: NumPy writes nothing into it.
    """

    def __init__(self, found: list[str]) -> None:
        """Begin with none."""
        super().__init__()
        self._found, self._num_elements = found, 0

    def __torch_function__(  # noqa: D105
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        is_out = name in WAYS_OUT and _is_of_many_numbers(args[0])
        is_out = is_out and _is_watched_students(sys._getframe(1))
        result = func(*args, **(kwargs or {}))
        if is_out:
            self._num_elements += args[0].numel()
            if self._num_elements > MOST_ELEMENTS and not self._found:
                self._found.append(f"takes numbers out of PyTorch with `{name.strip('_')}`")
            if isinstance(result, numpy.ndarray):
                result.flags.writeable = False
        return result


@contextmanager
def noted(found: list[str], *, may_copy: bool = False) -> Iterator[None]:
    """For a while, note what an answer does beside an instrument.

    Args:
        found: Gets a few words for each such thing.
        may_copy: Whether numbers may leave torch.
    """
    _listen()
    before = [(owner, name, getattr(owner, name, None)) for owner, name in THREADS]
    for owner, name, start in before:
        if start is not None:
            setattr(owner, name, _noting(start, found))
    _listening.append(found)
    try:
        with nullcontext() if may_copy else WaysOut(found):
            yield
    finally:
        _listening.pop()
        for owner, name, start in before:
            if start is not None:
                setattr(owner, name, start)


def _noting(start: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    def noting(*args: Any, **kwargs: Any) -> Any:
        if _is_watched_students(sys._getframe(1)):
            found.append("starts a thread")
        return start(*args, **kwargs)

    return noting


_listening: list[list[str]] = []


@functools.cache
def _listen() -> None:
    """From now on hear of processes; Python keeps an audit hook for as long as it runs."""
    sys.addaudithook(_hear)


def _hear(event: str, _: tuple[Any, ...]) -> None:
    if event in PROCESSES and _listening and _is_watched_students(sys._getframe(1)):
        _listening[-1].append("starts a process")


def _is_of_many_numbers(tensor: Any) -> bool:
    """Whether it holds real numbers, or is one of several in a larger tensor; no single loss."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        return False
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage().nbytes() > tensor.element_size()


def _is_watched_students(frame: FrameType | None) -> bool:
    """Whether an instrument looks, and a student's line asks, directly or through a library."""
    while frame is not None and frame.f_code.co_filename.startswith(NOT_STUDENTS[2:]):
        frame = frame.f_back
    is_students = frame is not None and not frame.f_code.co_filename.startswith(OURS)
    return is_students and torch._C._len_torch_dispatch_stack() > 0
