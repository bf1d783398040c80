"""Make the project's own environment in `.venv`, and run programs in it.

Standard library only, since it runs before anything is installed. A stamp inside `.venv`, written
last, says what it was made from: while that holds, nothing is installed and no network is needed.
New pins are installed into the environment as it is; in any other state it is made anew, from what
pip's cache has kept of the downloads.

    run("student", [["-m", "autograder.student.launch", "lab"]], [])
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from autograder.commands import ROOT, CommandError, say
from autograder.student.reasons import AGAIN, SPACE, complaint_about, explain, this_machine

# The log is that of the last step, in full, and what one command at a time locks.
STAMP, LOG = ".venv/stamp", ".venv.log"

# pip's arguments for the course itself; the dev extra holds what only authors and CI need.
TARGETS = {"student": ["--no-deps", "-e", "."], "dev": ["-e", ".[dev]"]}

# Set by the Makefile where the user named a Python, which then counts. Else the environment keeps
# its own: starting the course with another one is no reason to install everything again.
NAMED = "COURSE_PYTHON_NAMED"
# These lead to another environment's packages, or make pip or Jupyter stop at a warning. In the C
# locale, if it is by LC_ALL, Python 3.11 and 3.12 stop at a folder with letters beyond ASCII.
FOREIGN = {NAMED, "PYTHONHOME", "PYTHONPATH", "PYTHONWARNINGS", "LC_ALL=C", "LC_ALL=POSIX"}


def python_of(root: Path) -> Path:
    """The environment's interpreter."""
    return root / ".venv" / "bin" / "python"


def version_of(root: Path) -> str:
    """Major and minor version of the environment's interpreter; empty if it does not start."""
    command = [str(python_of(root)), "-ISc", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def stamp_of(root: Path, profile: str) -> list[str]:
    """What a good environment of that profile says about itself."""
    texts = [(root / name).read_bytes() for name in ("requirements.txt", "pyproject.toml")]
    return [str(root), version_of(root), hashlib.sha256(b"\0".join(texts)).hexdigest(), profile]


def write_stamp(root: Path, profile: str) -> None:
    """Record what the environment is made from, once it is complete."""
    (root / STAMP).write_bytes(os.fsencode("\n".join(stamp_of(root, profile))))


def read_stamp(root: Path) -> list[str]:
    """What a complete environment says about itself, if it is in its place and has its Python."""
    path, version = root / STAMP, version_of(root)
    stamp = os.fsdecode(path.read_bytes()).split("\n") if path.is_file() else []
    named = "{}.{}".format(*sys.version_info) if NAMED in os.environ else version
    return stamp if stamp[:2] == [str(root), version] and version == named else []


def is_ready(root: Path, profile: str) -> bool:
    """Whether it can be used as it is; the author's profile contains the student's."""
    stamp = stamp_of(root, profile)
    return read_stamp(root) in (stamp, [*stamp[:-1], "dev"])


def ensure(root: Path, profile: str) -> None:
    """Leave a working environment of that profile in `.venv`, reporting each step."""
    if is_ready(root, profile):
        return
    with (root / LOG).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another command is setting up .venv: waiting until it is done.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(root, profile):
            make(root, profile)


def make(root: Path, profile: str) -> None:
    """Bring a usable environment up to date; make any other anew."""
    stamp = read_stamp(root)
    if not stamp and (complaint := complaint_about(this_machine())):
        raise CommandError(complaint)
    (root / STAMP).unlink(missing_ok=True)
    if not stamp:
        say(f"Making the environment in .venv: there is none that can be used. {SPACE}.")
        # If this Python is that of `.venv` itself: the one that made it. mypy lacks the name.
        call(root, vars(sys)["_base_executable"], "-m", "venv", "--clear", ".venv")
        if shutil.disk_usage(root).free < 2 * 10**9:
            raise CommandError(explain("No space left"))
    profile = "dev" if "dev" in stamp else profile
    for arguments in (["-r", "requirements.txt"], TARGETS[profile]):
        call(root, str(python_of(root)), "-m", "pip", "--log", LOG, "install", *arguments)
    write_stamp(root, profile)


def call(root: Path, *command: str) -> None:
    """Run venv or pip, which show their own progress, with the user's own settings of pip."""
    say("Running python " + " ".join(command[1:]))
    (root / LOG).write_text("")
    # A silent index is asked for each of some hundred packages: not six times each, if the user
    # does not want that. `user` in the settings of pip would bypass the environment.
    environ = {"PIP_RETRIES": "2", **environ_of(root), "PIP_USER": "0"}
    if subprocess.call(command, cwd=root, env=environ, stdin=subprocess.DEVNULL):
        full = shutil.disk_usage(root).free < 10**8  # venv does not say so; pip has no log then
        words = "No space left" if full else (root / LOG).read_text(errors="replace")
        raise CommandError(explain(words))


def environ_of(root: Path) -> dict[str, str]:
    """The user's variables, with the environment's programs first on the PATH.

    nbgrader starts `alembic` by its bare name.
    """
    kept = {key: text for key, text in os.environ.items() if not {key, f"{key}={text}"} & FOREIGN}
    path = f"{root}/.venv/bin:{os.environ.get('PATH', os.defpath)}"
    return {**kept, "PATH": path, "VIRTUAL_ENV": f"{root}/.venv"}


def run(profile: str, programs: list[list[str]], arguments: list[str], root: Path = ROOT) -> int:
    """Run programs with the environment's Python, from the root; 0 if all went well.

    A single one replaces this process, so that Ctrl-C reaches it alone.
    """
    commands = [[str(python_of(root)), *program, *arguments] for program in programs]
    try:
        ensure(root, profile)
        if len(commands) == 1:
            os.chdir(root)
            os.execve(commands[0][0], commands[0], environ_of(root))
        return int(
            any([subprocess.call(each, cwd=root, env=environ_of(root)) for each in commands])
        )
    except CommandError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(error, explain(str(error)), sep="\n", file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped.", AGAIN, file=sys.stderr)
    return 1
