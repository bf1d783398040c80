"""How do you measure a model that no machine at hand can hold? On tensors without data.

A fake tensor has a shape, a dtype, a storage size and a device, here the CPU, but no memory. Unlike
on the meta device, PyTorch chooses the same kernels as for real tensors, fused attention among
them, so autograd keeps what it keeps in a real run.

    >>> with fake_tensors():
    ...     layer = nn.Linear(2**14, 2**14)
    ...     saved = count_saved_bytes(lambda: layer(torch.ones(2**20, 2**14)), layer)
    >>> saved.total_bytes
    68719476736
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

NO_GPU = "there is no GPU here: leave the device out, or run this on a machine with one"

# Part of a message of torch 2.13, and what it means here.
MEANINGS = {
    "Couldn't swap": "a module of fake tensors cannot be converted: give the dtype when you build "
    "it, as in Linear(4, 4, dtype=torch.bfloat16)",
    "Torch not compiled with CUDA": NO_GPU,
    "not linked with support for cuda": NO_GPU,
    "Please convert all Tensors to FakeTensors": "real and fake tensors meet: build the model and "
    "its input inside `with fake_tensors():`, and use them there",
}
NO_NUMBERS = (
    "a fake tensor has no numbers: leave out what reads one, as item(), print or an if do, "
    "or measure a smaller model on real tensors"
)
ONLY_ON_THE_CPU = (
    "fake tensors stand for those on a CPU, and {device} was asked for: leave the device out"
)


class _OnTheCPU(FakeTensorMode):
    """Refuses other devices: the backward pass of a fake GPU tensor would end the process."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = torch.device(kwargs.get("device") or "cpu")
        if device.type not in ("cpu", "meta"):
            raise ValueError(ONLY_ON_THE_CPU.format(device=device))
        return super().__torch_dispatch__(func, types, args, kwargs)


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Make every tensor created inside fake: no memory, no numbers, but a size to be counted.

    Only for the CPU.

    Raises:
        ValueError: If a module is converted inside, if real and fake tensors meet, if a number is
            read, or if another device is named.
    """
    with one_sentence_errors(), _silence(), _OnTheCPU():
        yield


@contextmanager
def _silence() -> Iterator[None]:
    """Mute torch's log: it prints an error before raising it, which looks like a failed run."""
    logger = logging.getLogger(FakeTensorMode.__module__)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Replace torch's long errors about fake tensors by one sentence each."""
    try:
        yield
    except DataDependentOutputException as error:
        raise ValueError(NO_NUMBERS) from error
    except (AssertionError, RuntimeError) as error:
        for part, meaning in MEANINGS.items():
            if part in str(error):
                raise ValueError(meaning) from error
        raise
