"""The container is made by the README's commands, and holds nothing that is not for students."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.__main__ import COMMANDS
from autograder.authoring.student_files import FOR_STAFF

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
IGNORED = (ROOT / ".dockerignore").read_text("utf-8").split()

SETUP, START = "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make setup", "make lab"


def steps(instruction):
    return re.findall(rf"^{instruction} (.+)$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)


def test_readme_names_the_two_commands():
    for command in (SETUP, START):
        assert f"`{command}`" in README
    # and the first is the one for a laptop without NVIDIA, with nothing started
    assert f"`{SETUP.replace('setup', 'lab')}`" in README


def test_image_runs_the_two_commands():
    *_, setup = steps("RUN")
    assert setup.replace("PIP_NO_CACHE_DIR=1 ", "") == SETUP
    (start,) = steps("CMD")
    assert json.loads(start) == START.split()


def test_codespace_runs_the_two_commands():
    assert DEVCONTAINER["onCreateCommand"] == SETUP
    assert DEVCONTAINER["postAttachCommand"] == START


def test_what_they_call_is_a_target_of_the_makefile():
    for command in (SETUP, START):
        target = command.split()[-1]
        assert target in COMMANDS
        assert re.search(
            rf"^(\w+ )*{target}( \w+)*:$", (ROOT / "Makefile").read_text(), re.MULTILINE
        )


def test_image_has_what_the_setup_asks_of_debian():
    (packages,) = [each for each in steps("RUN") if "apt-get install" in each]
    assert {"make", "python3", "python3-venv", "ca-certificates"} <= set(packages.split())


@pytest.mark.parametrize("folder", [*FOR_STAFF, "solutions", "tests", "docs/book", ".git"])
def test_nothing_of_staff_is_sent_to_the_image(folder):
    assert (ROOT / folder).exists()
    assert folder in IGNORED


def test_setup_copies_the_units_and_starts_nothing(tmp_path):
    (tmp_path / "notebooks" / "00_unit").mkdir(parents=True)
    (tmp_path / "notebooks" / "00_unit" / "00_unit.ipynb").write_text("{}")
    code = (
        "import sys; from pathlib import Path; from autograder.student.launch import main; "
        "sys.exit(main(['setup'], Path.cwd()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Copied into work/: 00_unit\n"
    assert (tmp_path / "work" / "00_unit" / "00_unit.ipynb").read_text() == "{}"
    assert (tmp_path / "work" / "progress.json").exists()
