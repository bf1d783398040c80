"""Where the pins have no packages is said in one sentence, and so is why pip failed."""

import re
import tomllib
from pathlib import Path

import pytest

from autograder.__main__ import WANTED
from autograder.student.reasons import (
    NEWEST,
    OLDEST,
    TORCH,
    Machine,
    complaint_about,
    explain,
    this_machine,
)

ROOT = Path(__file__).resolve().parents[3]

LINUX = Machine("Linux", "x86_64", (3, 12), glibc=(2, 28))
MAC = Machine("Darwin", "arm64", (3, 12), macos=(14, 0))


@pytest.mark.parametrize(
    "machine",
    [
        LINUX,
        MAC,
        LINUX._replace(processor="aarch64"),
        LINUX._replace(glibc=(2, 41)),
        MAC._replace(macos=(26, 1)),
        *(LINUX._replace(python=(3, minor)) for minor in range(11, 15)),
    ],
    ids=str,
)
def test_where_the_pins_have_packages(machine: Machine) -> None:
    assert complaint_about(machine) == ""


def test_this_machine_is_one_of_them() -> None:
    assert complaint_about(this_machine()) == ""


@pytest.mark.parametrize(
    ("machine", "needed", "found", "remedy"),
    [
        (LINUX._replace(python=(3, 15)), "Python 3.11 to 3.14", "Python 3.15", "make lab PYTHON="),
        (LINUX._replace(python=(3, 10)), "Python 3.11 to 3.14", "Python 3.10", "make lab PYTHON="),
        (MAC._replace(processor="x86_64"), "Apple silicon", "Python for x86_64", "container"),
        (MAC._replace(macos=(13, 6)), "macOS 14 or newer", "macOS 13.6", "container"),
        (LINUX._replace(processor="i686"), "x86_64 or aarch64", "i686", "on another machine"),
        (LINUX._replace(glibc=(2, 27)), "glibc 2.28 or newer", "glibc 2.27", "container"),
        (LINUX._replace(glibc=()), "glibc", "musl", "container"),
        (LINUX._replace(lacking="ensurepip"), "module ensurepip", "without it", "python3.12-venv`"),
    ],
    ids=[
        "new Python", "old Python", "Intel Mac", "old macOS", "32 bits", "old glibc", "musl",
        "no ensurepip",
    ],
)  # fmt: skip
def test_where_they_have_none(machine: Machine, needed: str, found: str, remedy: str) -> None:
    said = complaint_about(machine)
    wanted = (
        f"needs .*{re.escape(needed)}, and this is .*{re.escape(found)}.*: .*{re.escape(remedy)}"
    )
    assert re.search(wanted, said)
    assert said.endswith(".")
    assert "\n" not in said


def test_the_table_is_that_of_the_pins() -> None:
    assert f"\ntorch=={TORCH}\n" in (ROOT / "requirements.txt").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">={}.{}".format(*OLDEST)
    assert OLDEST == WANTED
    assert f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}," in complaint_about(
        LINUX._replace(python=(2, 7))
    )


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
NOT_FOUND = "ERROR: No matching distribution found for torch==2.13.0 (from -r requirements.txt)"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (NOT_FOUND, "has torch==2.13.0 for this Python and platform"),
        (NO_NAME + NOT_FOUND, "a.example does not answer"),
        (RETRY + NO_PAGE + NOT_FOUND, "has torch==2.13.0 for this Python and platform"),
        (
            "Could not fetch URL https://a.example/simple/torch/: connection error: "
            "HTTPSConnectionPool(host='a.example', port=443): Max retries exceeded\n" + NOT_FOUND,
            "a.example does not answer",
        ),
        ("ReadTimeoutError: HTTPSConnectionPool(host='b.example'): Read timed out.", "b.example"),
        ("ProtocolError('Connection broken: ConnectionResetError(104)')", "index broke"),
        ("OSError: [Errno 28] No space left on device", "disk is too full"),
        ("OSError: [Errno 122] Disk quota exceeded", "disk is too full"),
        ("[Errno 13] Permission denied: '/srv/course/.venv'", "folder of your own"),
        ("error: subprocess-exited-with-error", "see the lines above"),
    ],
)
def test_why_pip_failed(words: str, message: str) -> None:
    said = explain(words)
    assert message in said
    assert "secret" not in said
    assert said.endswith("Run the same command again and it goes on from there.")
