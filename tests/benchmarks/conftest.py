"""Times and ratios of times are taken down here and reported at the end of the run."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest


@pytest.fixture
def timed(
    record_property: Callable[[str, object], None],
) -> Callable[[str], AbstractContextManager[None]]:
    """A context that takes down how many seconds its body took, under a name."""

    @contextmanager
    def timing(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        record_property(name, round(time.perf_counter() - start, 1))

    return timing


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Takes down how many times as long as ``theirs`` ours takes, and both in milliseconds."""

    def comparing(name: str, *, ours: float, theirs: float) -> None:
        both = f"{1e3 * ours:.1f} / {1e3 * theirs:.1f} ms"
        record_property(name, f"{ours / theirs:.2f} = {both}")

    return comparing
