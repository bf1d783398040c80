"""Tests run in several processes; those that share something costly stay together in one of them.

Times are reported, never asserted: at the end of a run and in `test-results/`. `make test` names
this plugin.
"""

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# In these folders no two tests share anything that takes long to make.
APART = ("checking", "exercises", "formulas", "instruments", "distributed", "reference")
# One browser serves these.
BROWSER = ("benchmarks", "browser")
TIMES = Path(__file__).parents[1] / "test-results" / "benchmarks.json"


class Together(LoadScopeScheduling):
    """Gives a process whole files, but single tests where none shares anything."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.split("::", maxsplit=1)[0])
        if file.parent.name in BROWSER:
            return "browser"
        return nodeid if file.parent.name in APART else str(file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Called where tests run in several processes."""
    return Together(config, log)


def solved_notebooks(reports: list[pytest.TestReport]) -> dict[str, float]:
    """Seconds that nbval needed for all cells of each notebook, and to start its kernel."""
    seconds: dict[str, float] = {}
    for report in reports:
        file = PurePosixPath(report.nodeid.split("::", maxsplit=1)[0])
        if file.suffix == ".ipynb":
            name = f"{file.stem} solved, from a clean kernel"
            seconds[name] = seconds.get(name, 0.0) + report.duration
    return {name: round(taken, 1) for name, taken in seconds.items()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say the times that tests took down, and ratios of times; keep them."""
    reports = terminalreporter.getreports("passed")
    seconds = solved_notebooks(reports)
    seconds |= {name: taken for report in reports for name, taken in report.user_properties}
    if not seconds:
        return
    terminalreporter.section("seconds taken")
    for name, taken in seconds.items():
        terminalreporter.write_line(f"{taken!s:>6}  {name}")
    TIMES.parent.mkdir(exist_ok=True)
    TIMES.write_text(json.dumps(seconds, indent=1), encoding="utf-8")
