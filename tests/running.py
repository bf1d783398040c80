"""Tests run in several processes and in lanes; what shares something costly stays together.

`make test` runs what a change breaks first. What drives whole programs (a browser, nbgrader's
commands, an attacked grader) and what takes times is a lane of its own: `make acceptance`, or a
folder that is named. `make test-hub` starts a JupyterHub with accounts of the machine. Times are
reported, never asserted: at the end of a run and in `test-results/`.
"""

import json
import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from autograder.__main__ import ACCEPTANCE, HUB

pytest_plugins = ["tests.needs"]

# In these folders no two tests share anything that takes long to make.
APART = (
    "checking",
    "formulas",
    "instruments",
    "distributed",
    "reference",
    "other_machine",
    "at_length",
)
# Tests of one exercise share what its cases measure.
SHARING = re.compile(r"/exercises/.*\[(u\d\d-[\w-]+)")
# What takes long comes first, so that no process works alone at the end.
LONG = (
    "tests/other_machine/",
    "solutions/",
    "tests/browser/",
    "tests/benchmarks/",
    "tests/autograder/grading/",
    "tests/autograder/exercises/",
    "tests/autograder/student/",
)
# One browser serves these,
BROWSER = ("benchmarks", "browser")
# and one of each process the pages of units, of which one is open at a time.
PAGE_OF_UNIT = re.compile(r"tests/browser/.*\[u?(\d\d)[_-]")
# Two threads of each of two processes on two cores wait for one another longer than they work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parents[1]
TIMES = ROOT / "test-results" / "benchmarks.json"
OTHER_LANE = [ROOT / folder for folder in (*ACCEPTANCE.split(), HUB)]
# What graders of this run have measured for the hidden cases, for all of its temporary courses.
MEASURED = "COURSE_TESTS_MEASURED"


def pytest_configure(config: pytest.Config) -> None:
    """Called in the first process and in those that it starts."""
    if MEASURED not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="measured-")
        config.add_cleanup(folder.cleanup)
        os.environ[MEASURED] = folder.name


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders of the other lane where none of them is named."""
    if collection_path not in OTHER_LANE:
        return None
    named = [Path(arg.split("::", maxsplit=1)[0]).resolve() for arg in config.args]
    is_named = any(path.is_relative_to(collection_path) for path in named)
    return None if is_named else True


class Together(LoadScopeScheduling):
    """Gives a process a file, an exercise, a unit's pages, or a test where none shares anything."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.split("::", maxsplit=1)[0])
        if page := PAGE_OF_UNIT.match(nodeid):
            return f"pages of unit {page[1]}"
        if file.parent.name in BROWSER:
            return "browser"
        if shared := SHARING.search(nodeid):
            return shared[1]
        return nodeid if file.parent.name in APART else str(file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by how long their kind takes, which the scheduler keeps; pages by unit."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> tuple[int, str]:
    kinds = (rank for rank, start in enumerate(LONG) if nodeid.startswith(start))
    page = PAGE_OF_UNIT.match(nodeid)
    return next(kinds, len(LONG)), page[1] if page else ""


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
