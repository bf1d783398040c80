"""Old Pythons are refused; a good environment is left alone, any other is made anew or updated.

Real environments made here install an empty list of packages and a tiny project that builds itself
(see `BACKEND`), so that pip needs no network.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.commands import ROOT, CommandError
from autograder.student import environment
from autograder.student.environment import NAMED, STAMP, ensure, is_ready, run, write_stamp

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = '''
"""The least that pip accepts as an editable project."""
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    info = "tiny-1.dist-info/"
    with zipfile.ZipFile(pathlib.Path(folder, "tiny-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("tiny.pth", str(pathlib.Path.cwd()))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "entry_points.txt", "[console_scripts]\\ntiny = tiny:main\\n")
        wheel.writestr(info + "RECORD", "")
    return "tiny-1-py3-none-any.whl"
'''  # noqa: E501


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "a project"  # a space in the path, as on many laptops
    root.mkdir()
    (root / "requirements.txt").write_text("")
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "backend.py").write_text(BACKEND)
    (root / "tiny.py").write_text("def main():\n    print('tiny runs')\n")
    return root


@pytest.fixture(autouse=True)
def _no_python_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAMED, raising=False)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace venv and pip by links to this Python; the list of the commands that were called."""
    called: list[str] = []

    def call(root: Path, *command: str) -> None:
        called.append(" ".join(command[2:]))
        if "venv" in command:
            shutil.rmtree(root / ".venv", ignore_errors=True)
            (root / ".venv" / "bin").mkdir(parents=True)
            (root / ".venv" / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environment, "call", call)
    return called


VENV, COURSE, TOOLS = "venv --clear .venv", "pip install -e .", "pip install -e .[dev]"


# --- The stamp ------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_installed(project: Path, steps: list[str]) -> None:
    ensure(project, "student")
    assert steps == [VENV, COURSE]
    ensure(project, "student")
    assert len(steps) == 2


def test_the_developers_tools_serve_a_student_too(project: Path, steps: list[str]) -> None:
    ensure(project, "student")
    assert not is_ready(project, "dev")
    ensure(project, "dev")
    assert steps[2:] == [TOOLS]
    assert is_ready(project, "student")
    (project / "requirements.txt").write_text("# changed")
    ensure(project, "student")  # does not remove the tools again
    assert is_ready(project, "dev")


def leave_half_made(root: Path) -> Path:
    (root / STAMP).unlink()
    return root


def break_python(root: Path) -> Path:
    (root / ".venv" / "bin" / "python").unlink()
    (root / ".venv" / "bin" / "python").write_bytes(b"of another processor")
    (root / ".venv" / "bin" / "python").chmod(0o755)
    return root


def move(root: Path) -> Path:
    return root.rename(root.parent / "moved")


@pytest.mark.parametrize("spoil", [leave_half_made, break_python, move])
def test_what_cannot_be_used_is_made_anew(
    project: Path, steps: list[str], spoil: Callable[[Path], Path]
) -> None:
    ensure(project, "student")
    project = spoil(project)
    ensure(project, "student")
    assert steps[2:] == [VENV, COURSE]
    assert is_ready(project, "student")


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_new_pins_are_installed_into_what_is_there(
    project: Path, steps: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(project, "student")
    (project / name).write_text("# changed")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(environment, "call", lambda *_: 1 / 0)
        ensure(project, "student")
    assert not (project / STAMP).exists()  # half made now
    write_stamp(project, "student")
    (project / name).write_text("# changed again")
    ensure(project, "student")
    assert steps[2:] == [COURSE]
    assert is_ready(project, "student")


def test_a_python_that_was_named_replaces_another(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(environment, "version_of", lambda root: "3.5")
        ensure(project, "student")
        assert is_ready(project, "student")  # whichever Python runs this
        patch.setenv(NAMED, "yes")
        assert not is_ready(project, "student")
    monkeypatch.setenv(NAMED, "yes")
    ensure(project, "student")
    assert steps[2:] == [VENV, COURSE]
    assert is_ready(project, "student")


def test_the_makefile_says_when_a_python_was_named(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\necho "named: ${NAMED}"\n')
    python.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHON", NAMED)}
    environ = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "MAKEFLAGS": ""}

    def said(*words: str, **more: str) -> str:
        command = ["make", "--no-print-directory", "help", *words]
        return subprocess.check_output(
            command, cwd=ROOT, env={**environ, **more}, text=True
        ).strip()

    assert said() == "named:"
    assert said("PYTHON=python3") == "named: yes"
    assert said(PYTHON="python3") == "named: yes"


def test_two_at_once_install_once(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, said = environment.call, list[str]()

    def wait_for_both(root: Path, *command: str) -> None:
        while sum(line.startswith("Setting up") for line in said) < 2:
            time.sleep(0.01)
        call(root, *command)

    monkeypatch.setattr(environment, "call", wait_for_both)
    monkeypatch.setattr(environment, "say", said.append)
    both = [threading.Thread(target=ensure, args=(project, "student")) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert steps == [VENV, COURSE]


# --- Failures are explained in one sentence -------------------------------------------------------


def test_a_machine_without_packages_is_refused_before_anything_is_touched(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(project, "student")
    with monkeypatch.context() as patch:
        patch.setattr(environment, "complaint", lambda: "not here")
        patch.setattr(environment, "read_stamp", lambda root: [])
        with pytest.raises(CommandError, match="not here"):
            ensure(project, "student")
    assert is_ready(project, "student")


def test_a_folder_that_cannot_be_written_is_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".venv.log").mkdir()
    assert run("student", [["-c", "pass"]], [], root=project) == 1
    said = capsys.readouterr().err
    assert "a project/.venv.log" in said
    assert said.count("\n") == 1


def test_a_full_disk_is_named_where_the_program_that_failed_does_not_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "FEW_BYTES", 2**62)
    with pytest.raises(CommandError, match="The disk is full"):
        environment.call(tmp_path, sys.executable, "-c", "raise SystemExit(1)")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"PIP_NO_INDEX": "1"}, "has no-such-thing==1 for this Python and platform"),
        (
            {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"},
            "127.0.0.1 does not answer: check the network",
        ),
    ],
    ids=["no distribution", "no connection"],
)
def test_real_pip_finds_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    settings: dict[str, str],
    message: str,
) -> None:
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_RETRIES": "0", "PIP_USER": "1"}
    for name, value in {**own, **settings}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CommandError, match=message):
        environment.call(tmp_path, sys.executable, "-m", "pip", "install", "no-such-thing==1")
    assert "ERROR: No matching distribution" in capfd.readouterr().err


# --- Real environments, without a network ---------------------------------------------------------


def test_a_real_environment_is_made_in_odd_places(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = project.parent / "theirs"
    theirs.mkdir()
    (theirs / "tiny.py").write_text("raise SystemExit('of somebody else')")
    places = {"PYTHONPATH": theirs, "TMPDIR": theirs, "HOME": "/proc/self", "LC_ALL": "C"}
    for name, place in places.items():
        monkeypatch.setenv(name, str(place))
    long = project.parent / ("größer" * 25)  # longer than a script's first line may be
    for root in (project, long):
        project = project.rename(root)
        ensure(root, "student")
        for program in ("tiny", "pip"):
            command = [str(root / ".venv" / "bin" / program), "--version"]
            subprocess.run(command, check=True, env=environment.environ_of(root))
        assert "tiny runs" in capfd.readouterr().out


def test_ctrl_c_while_installing_is_one_sentence(project: Path) -> None:
    (project / "backend.py").write_text("import time\nprint('building')\ntime.sleep(600)\n")
    program = f"from autograder.student import environment as e; from pathlib import Path\n\
raise SystemExit(e.run('student', [], [], root=Path({str(project)!r})))"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "editable" in line:
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to pip as well
        _, said = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in said
    assert said.endswith("Run the same command again and it goes on from there.\n")
    (project / "backend.py").write_text(BACKEND)
    ensure(project, "student")
    assert is_ready(project, "student")
