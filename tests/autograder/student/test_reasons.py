"""Why pip failed is said in one sentence."""

import tomllib

import pytest

from autograder.__main__ import WANTED
from autograder.commands import ROOT
from autograder.student.reasons import explain


def test_where_the_pins_have_packages_is_said() -> None:
    assert "\ntorch==2.13.0\n" in (ROOT / "requirements.txt").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">={}.{}".format(*WANTED)
    assert "needs Python {}.{} to 3.14, on macOS 14 ".format(*WANTED) in explain(NOT_FOUND)


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
