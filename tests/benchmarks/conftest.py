"""Times are taken down here and reported at the end of the run."""

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
