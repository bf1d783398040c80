"""A picture of every open notebook when a test fails."""

import re
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    """Keep a picture of every open notebook when a test fails."""
    report = yield
    if report.when == "call" and report.failed:
        for unit, notebook in getattr(item, "funcargs", {}).get("notebooks", {}).items():
            notebook.screenshot(re.sub(r"\W+", "-", f"failed {item.name} {unit}"))
    return report
