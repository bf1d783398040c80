"""Checks before a measurement, and settings that hold while it runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from course_utils.instruments.fake import NO_GPU

FAKE_MODE = torch._C._TorchDispatchModeKey.FAKE
_collector = {"users": 0, "was_enabled": False}


def require_call(instrument: str, call: object) -> None:
    """Refuse what is not callable, such as the result of a call.

    Raises:
        TypeError: If it is not callable.
    """
    if not callable(call):
        raise TypeError(
            f"{instrument} wants a function that takes nothing, got {type(call).__name__}: "
            f"write `lambda:` before the call"
        )


def require_real_tensors(instrument: str) -> None:
    """Refuse to measure inside `fake_tensors`, where nothing is computed.

    Raises:
        ValueError: If tensors made here are fake.
    """
    if torch._C._get_dispatch_mode(FAKE_MODE) is not None:
        raise ValueError(
            f"{instrument} measures real work and fake tensors do none: call it outside of "
            f"`with fake_tensors():`"
        )


def device_to_measure(device: str | torch.device | None = None) -> torch.device:
    """The named device; by default the GPU if there is one, else the CPU.

    Raises:
        ValueError: If the device is neither CPU nor GPU, if a GPU is named and there is none, or if
            it is not the current GPU, whose clock and streams are read.
    """
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"a device to measure is 'cpu' or 'cuda', got {str(chosen)!r}")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(NO_GPU)
    if chosen.type == "cuda" and chosen.index not in (None, torch.cuda.current_device()):
        raise ValueError(f"make {str(chosen)!r} the current GPU first: torch.cuda.set_device")
    return chosen


def device_name(device: torch.device) -> str:
    """Name of the GPU, or ``"CPU"``."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


@contextmanager
def collector_disabled() -> Iterator[None]:
    """Turn the garbage collector off: when it runs depends on the past, and traces would differ.

    Ranks of a virtual cluster may come and go in any order: the last one turns it on again.
    """
    if not _collector["users"]:
        _collector["was_enabled"] = gc.isenabled()
    _collector["users"] += 1
    gc.disable()
    try:
        yield
    finally:
        _collector["users"] -= 1
        if _collector["was_enabled"] and not _collector["users"]:
            gc.enable()


@contextmanager
def older_objects_frozen() -> Iterator[None]:
    """Let the garbage collector search only objects made inside, not all of torch."""
    is_frozen = gc.get_freeze_count() > 0
    if is_frozen:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def torch_settings_restored() -> Iterator[None]:
    """Run torch on one thread inside, and restore its settings afterwards."""
    dtype, num_threads = torch.get_default_dtype(), torch.get_num_threads()
    is_warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    finds_anomalies = torch.is_anomaly_enabled()
    checks_for_nan = torch.is_anomaly_check_nan_enabled()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
        torch.set_default_dtype(dtype)
        torch.use_deterministic_algorithms(is_deterministic, warn_only=is_warn_only)
        torch.autograd.set_detect_anomaly(finds_anomalies, checks_for_nan)
