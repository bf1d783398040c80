"""Old Pythons are refused; a good environment is left alone, any other is made anew or updated.

Real environments made here install an empty list of packages and a tiny project that builds itself
(see `BACKEND`), so that pip needs no network.
"""

import ast
import errno
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.commands import CommandError
from autograder.student import environment
from autograder.student.environment import LOG, NAMED, STAMP, ensure, is_ready, run

REPOSITORY = Path(__file__).resolve().parents[3]
STUDENT = REPOSITORY / "autograder" / "student"

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


VENV, PINS = "venv --clear .venv", f"pip --log {LOG} install -r requirements.txt"
COURSE, TOOLS = f"pip --log {LOG} install --no-deps -e .", f"pip --log {LOG} install -e .[dev]"


# --- Old Pythons ----------------------------------------------------------------------------------


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
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    wanted = f"This course needs Python 3.11 or newer and was started with Python {version}: "
    assert done.returncode == 1
    assert done.stderr.startswith(wanted)
    assert done.stderr.count("\n") == 1


def course(*words: str, root: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
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


def test_the_students_copy_says_what_it_lacks(tmp_path: Path) -> None:
    kept = ["__init__.py", "__main__.py", "student/__init__.py", "student/environment.py"]
    for name in kept:
        (tmp_path / "autograder" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "autograder" / name, tmp_path / "autograder" / name)
    done = course("build", root=tmp_path)
    assert done.returncode == 1
    assert "`build` belongs to the full repository" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_python_3_8_can_read_what_refuses_it() -> None:
    for name in ("environment", "reasons"):
        ast.parse((STUDENT / f"{name}.py").read_text("utf-8"), feature_version=(3, 8))


# --- The stamp ------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_installed(project: Path, steps: list[str]) -> None:
    ensure(project, "student")
    assert steps == [VENV, PINS, COURSE]
    ensure(project, "student")
    assert len(steps) == 3


def test_the_developers_tools_serve_a_student_too(project: Path, steps: list[str]) -> None:
    ensure(project, "student")
    assert not is_ready(project, "dev")
    ensure(project, "dev")
    assert steps[3:] == [PINS, TOOLS]
    assert is_ready(project, "student")
    (project / "requirements.txt").write_text("# changed")
    ensure(project, "student")  # does not remove the tools again
    assert is_ready(project, "dev")


def leave_half_made(root: Path) -> Path:
    (root / STAMP).unlink()
    return root


def damage_the_stamp(root: Path) -> Path:
    (root / STAMP).write_bytes(b"\xff\n")
    return root


def lose_python(root: Path) -> Path:
    (root / ".venv" / "bin" / "python").unlink()
    (root / ".venv" / "bin" / "python").symlink_to("/nowhere/python")
    return root


def break_python(root: Path) -> Path:
    (root / ".venv" / "bin" / "python").unlink()
    (root / ".venv" / "bin" / "python").write_bytes(b"of another processor")
    (root / ".venv" / "bin" / "python").chmod(0o755)
    return root


def move(root: Path) -> Path:
    return root.rename(root.parent / "moved")


@pytest.mark.parametrize(
    "spoil", [leave_half_made, damage_the_stamp, lose_python, break_python, move]
)
def test_what_cannot_be_used_is_made_anew(
    project: Path, steps: list[str], spoil: Callable[[Path], Path]
) -> None:
    ensure(project, "student")
    project = spoil(project)
    ensure(project, "student")
    assert steps[3:] == [VENV, PINS, COURSE]
    assert is_ready(project, "student")


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_new_pins_are_installed_into_what_is_there(
    project: Path, steps: list[str], name: str
) -> None:
    ensure(project, "student")
    with (project / name).open("a") as file:
        file.write("# changed")
    ensure(project, "student")
    assert steps[3:] == [PINS, COURSE]
    assert is_ready(project, "student")


def test_a_failure_leaves_it_half_made(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(project, "student")
    (project / "requirements.txt").write_text("# changed")

    def fail(root: Path, *command: str) -> None:
        raise CommandError("pip failed")

    with monkeypatch.context() as patch, pytest.raises(CommandError):
        patch.setattr(environment, "call", fail)
        ensure(project, "student")
    ensure(project, "student")
    assert steps[3:] == [VENV, PINS, COURSE]


def test_a_python_that_was_named_replaces_another(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(environment, "version_of", lambda _: "3.5")
        ensure(project, "student")
        assert is_ready(project, "student")  # whichever Python runs this
        patch.setenv(NAMED, "yes")
        assert not is_ready(project, "student")
    monkeypatch.setenv(NAMED, "yes")
    ensure(project, "student")
    assert steps[3:] == [VENV, PINS, COURSE]
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
            command, cwd=REPOSITORY, env={**environ, **more}, text=True
        ).strip()

    assert said() == "named:"
    assert said("PYTHON=python3") == "named: yes"
    assert said(PYTHON="python3") == "named: yes"


def test_an_environments_own_python_does_not_make_it_anew_from_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def call(root: Path, *command: str) -> None:
        made.append(command[0])
        raise CommandError("enough")

    monkeypatch.setattr(environment, "call", call)
    monkeypatch.setattr(sys, "_base_executable", "/usr/bin/python3.original")
    with pytest.raises(CommandError):
        ensure(project, "student")
    assert made == ["/usr/bin/python3.original"]


def test_two_at_once_install_once(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(environment, "say", said.put)
    going_on = threading.Event()
    call = environment.call

    def wait(root: Path, *command: str) -> None:
        assert going_on.wait(60)
        call(root, *command)

    monkeypatch.setattr(environment, "call", wait)
    both = [threading.Thread(target=ensure, args=(project, "student")) for _ in range(2)]
    for each in both:
        each.start()
    while "waiting until it is done" not in said.get(timeout=60):
        pass
    going_on.set()
    for each in both:
        each.join()
    assert steps == [VENV, PINS, COURSE]


def test_nothing_of_another_environment_comes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    for name in (NAMED, "PYTHONHOME", "PYTHONPATH", "PYTHONWARNINGS"):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("PATH", "/theirs")
    environ = environment.environ_of(tmp_path)
    assert "theirs" not in environ.values()
    assert "LC_ALL" not in environ
    assert environ["PATH"] == f"{tmp_path}/.venv/bin:/theirs"
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert environment.environ_of(tmp_path)["LC_ALL"] == "C.UTF-8"


# --- Failures are explained in one sentence -------------------------------------------------------


def test_a_machine_without_packages_is_refused_before_anything_is_touched(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(project, "student")
    monkeypatch.setattr(environment, "complaint_about", lambda _: "not here")
    monkeypatch.setattr(environment, "version_of", lambda _: "3.5")
    with pytest.raises(CommandError, match="not here"):
        ensure(project, "student")
    monkeypatch.undo()
    assert is_ready(project, "student")


def test_too_little_space_stops_before_the_download(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_500_000_000))
    with pytest.raises(CommandError, match=r"disk is too full.* about 6 GB .* 2 GB .*make room"):
        ensure(project, "student")
    assert steps == [VENV]


def test_a_disk_that_gets_full_is_said_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(CommandError, match="make room"):
        environment.call(tmp_path, sys.executable, "-c", "raise SystemExit(1)")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EROFS, "copy the course to a folder of your own"),
        (errno.EACCES, "copy the course to a folder of your own"),
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EIO, "fix that"),
    ],
)
def test_a_folder_that_cannot_be_written(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    message: str,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(environment, "make", refuse)
    assert run("student", [["-c", "pass"]], [], root=project) == 1
    said = capsys.readouterr().err
    assert os.strerror(code) in said
    assert message in said


@pytest.mark.usefixtures("steps")
def test_a_file_in_the_place_of_the_folder(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".venv").write_text("")
    assert run("student", [["-c", "pass"]], [], root=project) == 1
    assert "move away what is in its place" in capsys.readouterr().err


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
    pip = [sys.executable, "-m", "pip", "--log", LOG]
    with pytest.raises(CommandError, match=message):
        environment.call(tmp_path, *pip, "install", "--dry-run", "no-such-thing==1")
    assert "ERROR: No matching distribution" in capfd.readouterr().err


# --- Real environments, without a network ---------------------------------------------------------


def test_a_real_environment_is_made_moved_and_used(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
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
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "--no-deps -e ." in line:
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to pip as well
        _, said = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in said
    assert said.endswith("Run the same command again and it goes on from there.\n")
    (project / "backend.py").write_text(BACKEND)
    ensure(project, "student")
    assert is_ready(project, "student")
