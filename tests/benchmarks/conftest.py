"""Times are reported, never asserted: they stand at the end of a run and in `test-results/`."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.notebooks.filling import ROOT

SECONDS: dict[str, float] = {}


@pytest.fixture
def timed() -> Callable[[str], AbstractContextManager[None]]:
    """A context that keeps how many seconds its body took, under a name."""

    @contextmanager
    def timing(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        SECONDS[name] = round(time.perf_counter() - start, 1)

    return timing


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say the times, and keep them."""
    if not SECONDS:
        return
    terminalreporter.section("seconds taken")
    for name, seconds in SECONDS.items():
        terminalreporter.write_line(f"{seconds:6.1f}  {name}")
    file = ROOT / "test-results" / "benchmarks.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(SECONDS, indent=1), encoding="utf-8")
