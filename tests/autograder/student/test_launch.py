"""JupyterLab for a student and for an author: really started, queried over HTTP, stopped."""

import contextlib
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from autograder.commands import ROOT, CommandError
from autograder.student import launch
from autograder.student.__main__ import main

NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
FIRST = "00_start_here"
HIDDEN = [
    "@jupyter/nbgrader:assignment-list",
    "@jupyter/nbgrader:course-list",
    "@jupyter/nbgrader:create-assignment",
    "@jupyter/nbgrader:formgrader",
    "@jupyter/nbgrader:menu",
    "jupyterlab-jupytext",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the packages, with one unit."""
    skip = shutil.ignore_patterns("__pycache__")
    for package in ("autograder", "course_utils"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=skip)
    (tmp_path / "notebooks" / FIRST).mkdir(parents=True)
    (tmp_path / "notebooks" / FIRST / f"{FIRST}.ipynb").write_text(json.dumps(NOTEBOOK))
    (tmp_path / "nbgrader_config.py").write_text("")
    (tmp_path / "solutions" / FIRST).mkdir(parents=True)
    (tmp_path / "solutions" / FIRST / f"{FIRST}.py").write_text("# %%\n1 + 1\n")
    return tmp_path


# --- What opens -----------------------------------------------------------------------------------


def test_the_first_unit_opens_the_first_time_only(root: Path) -> None:
    assert launch.student_page(root, "") == f"/lab/tree/{FIRST}/{FIRST}.ipynb"
    assert launch.student_page(root, "") == "/lab"
    assert launch.student_page(root, "0") == f"/lab/tree/{FIRST}/{FIRST}.ipynb"


def test_an_author_gets_the_text_master(root: Path) -> None:
    assert launch.author_page(root, "00") == f"/lab/tree/solutions/{FIRST}/{FIRST}.py"
    assert launch.author_page(root, "") == "/lab"
    with pytest.raises(CommandError, match="no unit `9`"):
        launch.author_page(root, "9")


def test_our_settings_come_before_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/theirs")
    launch.use_settings(tmp_path, "student")
    assert os.environ["JUPYTER_CONFIG_PATH"] == f"{launch.SETTINGS / 'student'}{os.pathsep}/theirs"


def test_a_home_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    for home, used in ((tmp_path, tmp_path), ("/nowhere", tmp_path / "work" / ".home")):
        monkeypatch.setenv("HOME", str(home))
        launch.use_settings(tmp_path, "student")
        assert os.environ["HOME"] == str(used)


def test_without_a_display_no_browser_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not launch.has_display()


# --- Started for real -----------------------------------------------------------------------------


class Lab(NamedTuple):
    process: subprocess.Popen[str]
    said: list[str]

    def get(self, path: str, token: bool = True) -> str:
        base, _, page = self.said[-1].partition("/lab")
        query = "?" + page.partition("?")[2] if token else ""
        with urllib.request.urlopen(base + path + query) as answer:
            assert answer.status == 200
            return str(answer.read().decode())

    def refusal(self, path: str, token: bool = True) -> int:
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.get(path, token)
        refused.value.close()
        return refused.value.code

    def page_config(self) -> dict[str, Any]:
        text = re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', self.get("/lab"), re.S)
        assert text
        config = json.loads(html.unescape(text[1]))
        assert isinstance(config, dict)
        return config


def private_environ(root: Path) -> dict[str, str]:
    """Variables that put Jupyter's folders inside the test's, and show no browser."""
    folders = ["CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shown = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return {
        **{key: value for key, value in os.environ.items() if key not in shown},
        **{f"JUPYTER_{name}": str(root / "jupyter" / name) for name in folders},
        "IPYTHONDIR": str(root / "ipython"),
        "PATH": programs,
    }


@contextlib.contextmanager
def started(root: Path, *words: str) -> Iterator[Lab]:
    """Start it, read its output up to the address, and stop it with Ctrl-C."""
    command = [sys.executable, "-m", "autograder.student", *words]
    with subprocess.Popen(
        command,
        cwd=root,
        env=private_environ(root),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line.strip())
                if "?token=" in line:
                    break
            assert said, "no output"
            assert "?token=" in said[-1], said
            yield Lab(process, said)
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait() == 0, rest
    assert "JupyterLab is stopped" in rest
    with pytest.raises(ProcessLookupError):  # nothing of its session is left
        os.killpg(process.pid, 0)


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def start_kernel(lab: Lab) -> int:
    """Start a kernel as the page would; its process id."""
    base, _, page = lab.said[-1].partition("/lab")
    token = page.partition("token=")[2]
    request = urllib.request.Request(
        base + "/api/kernels", data=b"{}", headers={"Authorization": f"token {token}"}
    )
    with urllib.request.urlopen(request) as answer:
        kernel = json.loads(answer.read())["id"]
    found = subprocess.run(["pgrep", "-f", kernel], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


@pytest.mark.skipif(not shutil.which("pgrep"), reason="pgrep finds the kernel's process")
def test_a_students_lab(root: Path) -> None:
    port = free_port()
    with started(root, "lab", "--port", str(port)) as lab:
        assert lab.said[0] == f"Copied into work/: {FIRST}"
        assert "if no browser opens it" in lab.said[1]
        assert lab.said[-1].startswith(f"http://127.0.0.1:{port}/lab/tree/{FIRST}/{FIRST}.ipynb?")
        assert len(lab.said) == 3
        disabled = lab.page_config()["disabledExtensions"]
        assert {*HIDDEN, "@jupyterlab/apputils-extension:announcements"} <= set(disabled)
        assert "@jupyter/nbgrader:validate-assignment" not in disabled
        assert [entry["name"] for entry in json.loads(lab.get("/api/contents"))["content"]] == [
            FIRST,
            "progress.json",
        ]
        assert (
            lab.refusal("/nbgrader_version") == 400
        )  # there, for *Validate*: it requires a version
        assert lab.refusal("/formgrader") == 404
        assert lab.refusal("/assignments") == 404
        assert lab.refusal("/api/contents", token=False) == 403
        kernel = start_kernel(lab)
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)


def test_a_second_lab_on_the_same_folder_leads_to_the_first(root: Path) -> None:
    with started(root, "lab", "--port", str(free_port())) as lab:
        done = subprocess.run(
            [sys.executable, "-m", "autograder.student", "lab", "--unit", "0"],
            cwd=root,
            env=private_environ(root),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        first, address = done.stdout.splitlines()
        assert first.startswith("JupyterLab runs on this folder already")
        assert address == lab.said[-1]


def test_an_authors_lab_on_a_busy_port(root: Path) -> None:
    pytest.importorskip("jupytext", reason="jupytext comes with the dev extra")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(root, "author", "--unit", "0", "--port", str(port)) as lab:
            assert lab.said[0].startswith(f"Port {port} is busy; using port ")
            assert f"/lab/tree/solutions/{FIRST}/{FIRST}.py?" in lab.said[-1]
            assert not set(HIDDEN) & set(lab.page_config()["disabledExtensions"])
            contents = lab.get(f"/api/contents/solutions/{FIRST}/{FIRST}.py")
            assert json.loads(contents)["type"] == "notebook"
            settings = lab.get("/lab/api/settings/@jupyterlab/docmanager-extension:plugin")
            viewers = json.loads(settings)["schema"]["properties"]["defaultViewers"]["default"]
            assert viewers["python"] == "Jupytext Notebook"


def test_a_blocked_work_folder_is_one_sentence(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "work").write_text("in the way")
    assert main(["lab"], root) == 1
    said = capsys.readouterr().err
    assert said.startswith("Nothing of yours was changed: ")
    assert said.count("\n") == 1
