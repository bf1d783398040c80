"""A real JupyterLab as a student starts it, and a real browser to look at it.

One server for all tests, in a folder of its own that ends with them: released notebooks, a new
`work/`, and Jupyter's, IPython's and the person's settings apart from those of this machine. One
browser window, for the unit that a test asks for; tests of a unit come together.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest

from tests.needs import BROWSER, find_browser, require

from .lab_page import Cell, LabPage

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "test-results" / "browser"
LAPTOP = {"width": 1366, "height": 768}

# A whole notebook on a busy machine takes its time; nobody waits this long when all is well.
PATIENCE_SECONDS = 300
END_SECONDS = 30

# Settings of whoever runs the tests that must not reach the student's server.
NOT_OURS = ("JUPYTER", "IPYTHON", "XDG_", "NBGRADER", "COURSE_", "PYTEST", "DISPLAY", "WAYLAND")

START = """
import sys
from pathlib import Path
from autograder.student.__main__ import main
sys.exit(main([sys.argv[1], "--port", sys.argv[2]], Path.cwd()))
"""


class Server(NamedTuple):
    """A running JupyterLab: where it listens, its token, the folder that it shows."""

    origin: str
    token: str
    work: Path

    def address(self, unit: str) -> str:
        """Address of a unit's notebook, in a workspace of its own."""
        page = f"lab/workspaces/{unit}/tree/{unit}/{unit}.ipynb"
        return f"{self.origin}/{page}?token={self.token}"


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def student_environ(home: Path) -> dict[str, str]:
    """The variables of somebody who starts Jupyter for the first time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_OURS)}
    folders = {
        name: str(home / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    # `true` is the browser that opens nothing.
    return kept | folders | {"HOME": str(home), "BROWSER": "true", "PYTHONUNBUFFERED": "1"}


def course_in(folder: Path) -> None:
    """What a student's copy of the course holds, as far as the server looks at it."""
    shutil.copytree(
        ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*", "progress*")
    )
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    (folder / "home").mkdir()


def started(process: subprocess.Popen[bytes], printed: Path) -> Any:
    """The address that the launcher prints when the notebook is ready."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+\n", printed.read_text())
        if address:
            return urlsplit(address.group().strip())
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start; it printed:\n{printed.read_text()}")


def stop(process: subprocess.Popen[bytes]) -> list[str]:
    """End the server by its own id, as a closed terminal does; what should have ended with it."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(children, timeout=END_SECONDS)
    names = [f"{child.pid} {child.name()}" for child in left]
    for child in left:
        child.kill()
    return names


@contextmanager
def running(command: str, folder: Path) -> Iterator[Any]:
    """The address of JupyterLab as `make lab` or `make author` starts it; at the end it is gone."""
    printed = folder / "printed.txt"
    with printed.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", START, command, str(free_port())],
            cwd=folder,
            env=student_environ(folder / "home"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield started(process, printed)
    finally:
        left = stop(process)
        shutil.copy(printed, PICTURES / f"{command}.txt")
    assert not left, f"these outlived the server: {left}"


@pytest.fixture(scope="session")
def server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab as `make lab` starts it; at the end it and its kernels are gone."""
    folder = tmp_path_factory.mktemp("course")
    course_in(folder)
    with running("lab", folder) as address:
        token = address.query.removeprefix("token=")
        yield Server(f"http://{address.netloc}", token, folder / "work")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window; skipped where it or playwright is missing."""
    require(BROWSER)
    playwright, program = importlib.import_module("playwright.sync_api"), find_browser()
    PICTURES.mkdir(parents=True, exist_ok=True)  # several processes of a run share it
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class FirstRun(NamedTuple):
    """What a release showed when it was opened and run for the first time.

    Attributes:
        height: Pixels from its first cell to the end of the last one, as opened.
        errors: Outputs that are errors or go to stderr.
        prompts: What stands before each code cell that is not folded.
        checks: What each check shows, by the id of its cell.
    """

    height: float
    errors: list[str]
    prompts: list[str]
    checks: dict[str, str]


def is_check(cell: Cell) -> bool:
    """Whether a cell of a release is one that checks an answer."""
    return cell.kind == "code" and cell.id.endswith("-test")


class Notebooks(dict[str, LabPage]):
    """The open notebook by its unit; another one is opened in its place and run from the top.

    Each open page asks its server for news all the time and holds half a gigabyte.
    """

    def __init__(self, browser: Any, server: Server) -> None:
        self.browser = browser
        self.server = server
        self.first_runs: dict[str, FirstRun] = {}

    def __missing__(self, unit: str) -> LabPage:
        self._close()
        page = self.browser.new_page(viewport=LAPTOP)
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        notebook = LabPage(page, self.server.work / unit / f"{unit}.ipynb", PICTURES)
        self[unit] = notebook
        notebook.open(self.server.address(unit))
        height = notebook.height()
        notebook.run_all()
        self.first_runs[unit] = FirstRun(
            height,
            notebook.errors(),
            notebook.prompts(),
            {cell.id: notebook.outputs(cell.id) for cell in notebook.released if is_check(cell)},
        )
        return notebook

    def _close(self) -> None:
        """Close what is open, page and kernel."""
        sessions, token = f"{self.server.origin}/api/sessions", f"?token={self.server.token}"
        for notebook in self.values():
            for session in notebook.page.request.get(sessions + token).json():
                notebook.page.request.delete(f"{sessions}/{session['id']}{token}")
            notebook.page.close()
        self.clear()


@pytest.fixture(scope="session")
def notebooks(browser: Any, server: Server) -> Notebooks:
    """The notebooks of all units, one at a time."""
    return Notebooks(browser, server)
