"""What all commands share, and what is answered before anything is installed."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.commands import ROOT, CommandError, find_unit, port_number


@pytest.mark.parametrize("wanted", ["1", "01", "01_flops"])
def test_a_unit_is_found_by_number_or_name(tmp_path: Path, wanted: str) -> None:
    for name in ("00_start_here", "01_flops", "notes"):
        (tmp_path / name).mkdir()
    assert find_unit(tmp_path, wanted) == "01_flops"
    with pytest.raises(CommandError, match=r"no unit `7`.*: 00_start_here, 01_flops\.$"):
        find_unit(tmp_path, "7")
    with pytest.raises(CommandError, match="No unit is named"):
        find_unit(tmp_path, "")


@pytest.mark.parametrize("text", ["0", "65536", "http"])
def test_a_port_is_a_number_in_its_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="wanted a port from 1 to 65535"):
        port_number(text)


def old_pythons() -> dict[str, str]:
    """Interpreters before 3.11 on this machine, by version."""
    found = {str(path) for path in Path.home().glob(".pyenv/versions/*/bin/python")}
    names = ["python2.7", *(f"python3.{minor}" for minor in range(6, 11))]
    found |= {path for path in map(shutil.which, names) if path}
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    answers = {}
    for path in sorted(found):
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and tuple(map(int, done.stdout.split("."))) < (3, 11):
            answers[done.stdout.strip()] = path
    return answers


@pytest.mark.skipif(not old_pythons(), reason="no Python before 3.11 on this machine")
@pytest.mark.parametrize("version", old_pythons())
def test_an_old_python_gets_one_sentence(version: str) -> None:
    done = subprocess.run(
        [old_pythons()[version], "-m", "autograder", "lab"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    wanted = f"This course needs Python 3.11 or newer and was started with Python {version}: "
    assert done.returncode == 1
    assert done.stderr.startswith(wanted)
    assert done.stderr.count("\n") == 1


def course(*words: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autograder", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    done = course("tset")
    assert done.returncode == 1
    assert "Did you mean `test`?" in done.stderr
    assert "student-bundle" in done.stderr


def test_no_command_shows_the_list() -> None:
    done = course()
    assert (done.returncode, done.stderr) == (0, "")
    assert "make lab" in done.stdout
