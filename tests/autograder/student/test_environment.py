"""Old Pythons are refused; a good environment is left alone, a damaged one repaired.

Real environments made here install an empty list of packages and a tiny project that builds itself
(see `BACKEND`), so that pip needs no network.
"""

import errno
import importlib.util
import json
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

from autograder.student import environment, installing
from autograder.student.environment import ensure, reasons_to_repair, run
from autograder.student.errors import CommandError

REPOSITORY = Path(__file__).resolve().parents[3]

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


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace venv and pip by links to this Python; the list of the commands that were called."""
    called: list[str] = []

    def stream(command: list[str], cwd: Path) -> tuple[int, list[str]]:
        called.append(" ".join(command[1:]))
        if "venv" in command:
            bin_folder = cwd / ".venv" / "bin"
            bin_folder.mkdir(exist_ok=True)
            if not (bin_folder / "python").is_symlink():
                (bin_folder / "python").symlink_to(sys.executable)
            packages = environment.packages_of(cwd, environment.version_of(bin_folder / "python"))
            packages.mkdir(parents=True, exist_ok=True)
        return 0, []

    monkeypatch.setattr(environment, "stream", stream)
    monkeypatch.setattr(installing, "stream", stream)
    return called


def first_trouble(root: Path, profile: str = "student") -> str:
    return next(reasons_to_repair(root, profile), "")


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


# --- The stamp ------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_installed(project: Path, steps: list[str]) -> None:
    assert first_trouble(project) == environment.NOT_YET
    ensure(project, "student")
    assert steps[0] == "-m venv .venv"
    assert steps[1].endswith("-r requirements.txt")
    assert steps[2].endswith("--no-deps -e .")
    ensure(project, "student")
    assert len(steps) == 3


def test_the_developers_tools_serve_a_student_too(project: Path, steps: list[str]) -> None:
    ensure(project, "student")
    assert "tools for authors" in first_trouble(project, "dev")
    ensure(project, "dev")
    assert steps[-1].endswith("-e .[dev]")
    assert not first_trouble(project, "student")
    (project / "requirements.txt").write_text("# changed")
    ensure(project, "student")  # does not remove the tools again
    assert not first_trouble(project, "dev")


def spoil_stamp(root: Path) -> None:
    (root / ".venv" / environment.STAMP).write_text('{"profile": ')


def spoil_python(root: Path) -> None:
    (root / ".venv" / "bin" / "python").unlink()
    (root / ".venv" / "bin" / "python").symlink_to("/nowhere/python")


def spoil_requirements(root: Path) -> None:
    (root / "requirements.txt").write_text("# another pin")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(spoil_stamp, "half made", id="damaged stamp"),
        pytest.param(spoil_python, "Python is gone", id="dead interpreter"),
        pytest.param(spoil_requirements, "required packages changed", id="new pins"),
    ],
)
def test_damage_is_reported_and_repaired(
    project: Path,
    steps: list[str],
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    message: str,
) -> None:
    ensure(project, "student")
    capsys.readouterr()
    spoil(project)
    ensure(project, "student")
    assert message in capsys.readouterr().out
    assert not first_trouble(project)
    assert len(steps) == 6


def test_packages_of_another_python_are_removed(project: Path, steps: list[str]) -> None:
    ensure(project, "student")
    useless = project / ".venv" / "lib" / "python3.5" / "site-packages"
    useless.mkdir(parents=True)
    shutil.rmtree(environment.packages_of(project, environment.version_of(Path(sys.executable))))
    spoil_python(project)
    ensure(project, "student")
    assert not useless.exists()
    assert not first_trouble(project)


def test_a_half_installed_package_is_dropped(tmp_path: Path) -> None:
    for name in ("good", "cut"):
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "METADATA").write_text("")
    (tmp_path / "good-1.dist-info" / "RECORD").write_text("")
    environment.drop_half_installed(tmp_path)
    assert [info.name for info in tmp_path.iterdir()] == ["good-1.dist-info"]


def test_two_at_once_install_once(
    project: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(environment, "say", said.put)
    other = threading.Thread(target=ensure, args=(project, "student"))
    with environment.exclusive_lock(project):
        other.start()
        assert "waiting until it is done" in said.get(timeout=60)
        environment.make(project, "student", environment.NOT_YET)
    other.join()
    assert len(steps) == 3


# --- Failures are explained in one sentence -------------------------------------------------------


def test_python_without_venv(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ensurepip" else find(name)
    )
    assert run("student", [["-c", "pass"]], [], root=project) == 1
    said = capsys.readouterr().err
    assert "needs Python's module ensurepip" in said
    assert f"apt install python3.{sys.version_info[1]}-venv" in said


def leave_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    usage = SimpleNamespace(total=10**12, used=10**12 - free, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.mark.usefixtures("steps")
def test_a_full_disk_stops_before_the_download(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_free(monkeypatch, 1_500_000_000)
    with pytest.raises(CommandError, match=r"needs about 6 GB .* and 1\.5 GB are free"):
        ensure(project, "student")
    assert "half made" in first_trouble(project)


@pytest.mark.usefixtures("steps")
def test_a_disk_too_small_for_cuda_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_free(monkeypatch, 4_000_000_000)
    ensure(project, "student")
    assert "Disk space is low" in capsys.readouterr().out
    assert not first_trouble(project)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EROFS, "copy the course to a folder of your own"),
        (errno.ENOSPC, "make room"),
        (errno.EEXIST, "remove what is in its place"),
    ],
    ids=["read-only", "full", "a file named .venv"],
)
def test_a_folder_that_cannot_be_written(
    project: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(environment, "exclusive_lock", refuse)
    with pytest.raises(CommandError, match=message):
        ensure(project, "student")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ERROR: No matching distribution found for torch==2.13.0", "from the network"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("error: subprocess-exited-with-error", "see its lines above"),
    ],
    ids=["not found", "no space", "other"],
)
def test_why_pip_failed_is_explained(line: str, message: str) -> None:
    assert message in installing.explain_failure(["Collecting torch", line])


SILENT_INDEX = """
import time
print("Looking in indexes: http://a.example/simple, http://torch.example/whl/cpu", flush=True)
while True:
    print("WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
          "'NewConnectionError('<object at 0x1>: refused')': /whl/cpu/torch/", flush=True)
    time.sleep(0.05)
"""


def test_an_index_that_does_not_answer_is_named_once_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installing, "GIVE_UP_SECONDS", 0.3)
    with pytest.raises(CommandError, match=r"^torch\.example does not answer.*leave an extra"):
        installing.stream([sys.executable, "-c", SILENT_INDEX], tmp_path)
    assert capsys.readouterr().out.count("torch.example does not answer; pip is retrying") == 1


def test_a_network_that_falters_now_and_then_is_no_reason_to_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "GIVE_UP_SECONDS", 0.3)
    falters = SILENT_INDEX.replace("while True:", "for _ in range(3):").replace(
        "    time.sleep(0.05)", "    print('Downloading torch', flush=True); time.sleep(0.2)"
    )
    assert installing.stream([sys.executable, "-c", falters], tmp_path)[0] == 0


def test_an_extra_index_of_the_variable_is_added_to_those_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(installing, "stream", lambda command, cwd: seen.append(command) or (0, []))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://one.example http://two.example")
    installing.pip(tmp_path, "-r", "requirements.txt")
    text = " ".join(seen[0])
    assert "--extra-index-url http://one.example --extra-index-url http://two.example" in text


# --- Real environments, without a network ---------------------------------------------------------


def test_a_real_environment_is_made_moved_and_repaired(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ensure(project, "student")
    assert "1/3" in capfd.readouterr().out
    moved = project.rename(project.parent / "moved")
    assert "moved or copied" in first_trouble(moved)
    ensure(moved, "student")
    for program in ("tiny", "pip"):  # one script of step 3, one that only relocation repairs
        command = [str(moved / ".venv" / "bin" / program), "--version"]
        subprocess.run(command, check=True, env=environment.environ_of(moved))
    assert "tiny runs" in capfd.readouterr().out


def test_pips_last_lines_are_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (project / "requirements.txt").write_text("no-such-package-of-this-course==1\n")
    assert run("student", [["-c", "pass"]], [], root=project) == 1
    said = capsys.readouterr().err
    assert "No matching distribution found for no-such-package-of-this-course==1" in said
    assert said.rstrip().endswith("it goes on from there.")
    (project / "requirements.txt").write_text("")
    assert "half made" in first_trouble(project)


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
            if line.startswith("3/3"):
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to pip as well
        _, said = process.communicate()
    assert process.returncode == 1
    assert said.count("\n") == 1
    assert "run the same command again" in said
    (project / "backend.py").write_text(BACKEND)
    ensure(project, "student")
    assert json.loads((project / ".venv" / environment.STAMP).read_text())["profile"] == "student"
