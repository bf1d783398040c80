"""What tests need of a machine besides Python; the end of a run says what was missing.

    pytestmark = needs(SANDBOX)    # tests of a module, or one as a decorator
    require(BROWSER)               # in a fixture

A test that lacks something is skipped. With `--require-all` the run then fails.
"""

import functools
import importlib.util
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder.grading.sandbox import bubblewrap, seccomp

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CAP_SYS_ADMIN = 21


@dataclass(frozen=True)
class Need:
    """Something that not every machine has.

    Attributes:
        name: What it is.
        how_to_get: The line that installs it, or what else helps.
        is_there: Whether this machine has it.
        is_optional: Whether a run in which everything is required goes without.
    """

    name: str
    how_to_get: str
    is_there: Callable[[], bool]
    is_optional: bool = False

    @property
    def reason(self) -> str:
        """Why a test is skipped that needs it."""
        return f"needs {self.name}"


def find_browser() -> str | None:
    """Path of a browser of Chromium's kind."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@functools.cache  # of a sandbox that cannot be made, too, which takes a trial each time
def _can_isolate() -> bool:
    try:
        bubblewrap.sandboxed()
    except bubblewrap.SandboxUnavailableError:
        return False
    return True


def _can_browse() -> bool:
    return bool(find_browser() and importlib.util.find_spec("playwright"))


def _is_root() -> bool:
    """Whether this process may do all that root may: a container's root often may not mount."""
    if os.geteuid() or sys.platform != "linux":
        return False
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    rights = int(status.split("CapEff:")[1].split()[0], base=16)
    return bool(rights >> CAP_SYS_ADMIN & 1)


SANDBOX = Need(
    "bubblewrap",
    "apt-get install bubblewrap; if it is there, the system lets nobody make user namespaces",
    _can_isolate,
)
SECCOMP = Need("libseccomp", "apt-get install libseccomp2", seccomp.is_supported)
BROWSER = Need("a browser", "apt-get install chromium", _can_browse)
ROOT = Need("root", "run the tests as root, in a container with --privileged", _is_root)
GPU = Need("a GPU", "a machine with a GPU of NVIDIA's", torch.cuda.is_available, is_optional=True)
ALL = (SANDBOX, SECCOMP, BROWSER, ROOT, GPU)


def needs(*wanted: Need) -> pytest.MarkDecorator:
    """A mark for tests that are skipped where one of these is missing."""
    return pytest.mark.needs(*wanted)


def require(*wanted: Need) -> None:
    """Skip the test that runs, or that asks for a fixture, where one of these is missing."""
    for each in wanted:
        if not each.is_there():
            pytest.skip(each.reason)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called before the tests are collected."""
    parser.addoption(
        "--require-all", action="store_true", help="fail where tests lack something of the machine"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Called once, before the tests are collected."""
    config.addinivalue_line("markers", "needs(*wanted): skipped where something is missing")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Called before the fixtures of a test are made."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


def _skipped(terminal: Any) -> Counter[Need]:
    """How many tests were skipped for each need."""
    reasons = Counter(str(each.longrepr[2]) for each in terminal.getreports("skipped"))
    found = {need: reasons[f"Skipped: {need.reason}"] for need in ALL}
    return Counter({need: count for need, count in found.items() if count})


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where everything was required and something is missing."""
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if not (terminal and session.config.getoption("require_all")):
        return
    if any(not need.is_optional for need in _skipped(terminal)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was missing, how many tests were skipped for it, and how to get it."""
    missing = _skipped(terminalreporter)
    if not missing:
        return
    terminalreporter.section("missing on this machine")
    for need, count in missing.items():
        terminalreporter.write_line(f"{count:>6} tests skipped  {need.reason}: {need.how_to_get}")
