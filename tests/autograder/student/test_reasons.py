"""Where the pins have no packages is said in one sentence, and so is why pip failed."""

import platform
import sys
import tomllib

import pytest

from autograder.__main__ import WANTED
from autograder.commands import ROOT
from autograder.student import reasons
from autograder.student.reasons import NEWEST, TORCH, complaint, explain

MAC = "macOS-{}-{}-64bit"
LINUX = "Linux-6.1.0-13-amd64-{}-with-{}"


def on(monkeypatch: pytest.MonkeyPatch, here: str, python: tuple[int, ...] = (3, 12, 1)) -> str:
    """What is said on a machine."""
    monkeypatch.setattr(platform, "platform", lambda: here)
    monkeypatch.setattr(sys, "version_info", python)
    return complaint()


@pytest.mark.parametrize(
    "here",
    [
        *(LINUX.format(processor, "glibc2.28") for processor in ("x86_64", "aarch64")),
        *(LINUX.format("x86_64", f"glibc{version}") for version in ("2.31", "2.41")),
        "Linux-5.15.90.1-microsoft-standard-WSL2-x86_64-with-glibc2.35",
        *(MAC.format(version, "arm64-arm") for version in ("14.0", "14.6.1", "26.1")),
    ],
)
def test_where_the_pins_have_packages(monkeypatch: pytest.MonkeyPatch, here: str) -> None:
    for minor in range(11, 15):
        assert on(monkeypatch, here, (3, minor, 1)) == ""


def test_this_machine_is_one_of_them() -> None:
    assert complaint() == ""


@pytest.mark.parametrize(
    "here",
    [
        MAC.format("14.1", "x86_64-i386"),
        MAC.format("13.6", "arm64-arm"),
        LINUX.format("i686", "glibc2.31"),
        LINUX.format("x86_64", "glibc2.27"),
        LINUX.format("x86_64", "glibc2.4"),
        LINUX.format("x86_64", "musl"),
    ],
)
def test_where_they_have_none(monkeypatch: pytest.MonkeyPatch, here: str) -> None:
    said = on(monkeypatch, here)
    assert f", and this is {here}: name another Python" in said
    assert "in its container" in said
    assert "\n" not in said


def test_a_python_without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    here = platform.platform()
    said = on(monkeypatch, here, (3, 15, 0))
    assert "needs Python 3.11 to 3.14, and this is Python 3.15: name another" in said
    monkeypatch.setattr(reasons, "find_spec", lambda _: None)
    assert "sudo apt install python3.12-venv`" in on(monkeypatch, here)


def test_the_table_is_that_of_the_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"\ntorch=={TORCH}\n" in (ROOT / "requirements.txt").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">={}.{}".format(*WANTED)
    said = on(monkeypatch, "", (4, 0, 0))
    assert "Python {}.{} to {}.{},".format(*WANTED, *NEWEST) in said


RETRY = (
    "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError("
    "HTTPSConnection(host='slow.example', port=443): Failed')': /simple/torch/\n"
)
NO_PAGE = (
    "Could not fetch URL https://a.example/simple/torch/: 404 Client Error: Not Found for url: "
    "https://a.example/simple/torch/ - skipping\n"
)
NO_NAME = (  # as pip 26 has it
    "Could not fetch URL https://me:secret@a.example:8/simple/torch/: connection error: Failed to "
    "resolve IP address for 'a.example' ([Errno -2] Name or service not known) - skipping\n"
)
NOT_FOUND = "ERROR: No matching distribution found for torch==2.13.0 (from course-utils)"


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (NOT_FOUND, "has torch==2.13.0 for this Python and platform"),
        (NO_NAME + NOT_FOUND, "a.example does not answer"),
        (RETRY + NO_PAGE + NOT_FOUND, "has torch==2.13.0 for this Python and platform"),
        ("ReadTimeoutError: HTTPSConnectionPool(host='b.example'): Read timed out.", "b.example"),
        ("OSError: [Errno 28] No space left on device", "The disk is full, or that of TMPDIR"),
        ("error: subprocess-exited-with-error", "see the lines above"),
    ],
)
def test_why_pip_failed(log: str, message: str) -> None:
    said = explain(log)
    assert message in said
    assert "secret" not in said
    assert said.endswith("Run the same command again and it goes on from there.")
