"""Make the project's own environment in `.venv`, and run programs in it.

Standard library only, since it runs before anything is installed. A stamp inside `.venv`, written
last, says what it was made from: while that holds, nothing is installed and no network is needed.
New pins are installed into the environment as it is; in any other state it is made anew, from what
pip's cache has kept of the downloads.

    run("student", [["-m", "autograder.student.launch", "lab"]], [])
"""

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from autograder.commands import ROOT, CommandError, say
from autograder.student.reasons import AGAIN, FULL, SPACE, complaint, explain

# The log is that of the last step, in full, and what one command at a time locks.
STAMP, LOG = ".venv/stamp", ".venv.log"
# The course, with its requirements.txt; the dev extra holds what only authors and CI need.
TARGETS = {"student": ".", "dev": ".[dev]"}
FEW_BYTES = 2**24  # a disk with fewer is full
# Set by the Makefile where the user named a Python, which then counts. Else the environment keeps
# its own: starting the course with another one is no reason to install everything again.
NAMED = "COURSE_PYTHON_NAMED"
# These lead to another environment's packages, or make pip or Jupyter stop at a warning. In the C
# locale, if it is by LC_ALL, Python 3.11 and 3.12 stop at a folder with letters beyond ASCII.
FOREIGN = {NAMED, "PYTHONHOME", "PYTHONPATH", "PYTHONWARNINGS", "LC_ALL=C", "LC_ALL=POSIX"}


def python_of(root: Path) -> str:
    """The environment's interpreter."""
    return f"{root}/.venv/bin/python"


def version_of(root: Path) -> str:
    """The version of the environment's Python, as 3.12; of one that does not start, why."""
    asks = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.getoutput(shlex.join([python_of(root), "-ISc", asks]), errors="replace")


def pins_of(root: Path) -> list[str]:
    """The texts that say what is installed."""
    return [(root / name).read_text("utf-8") for name in ("requirements.txt", "pyproject.toml")]


def write_stamp(root: Path, profile: str) -> None:
    """Record what the environment is made from, once it is complete."""
    parts = [str(root), version_of(root), *pins_of(root), profile]
    (root / STAMP).write_bytes(os.fsencode("\0".join(parts)))


def read_stamp(root: Path) -> list[str]:
    """Pins and profile of a complete environment, if it is in its place and has its Python."""
    stamp, here = root / STAMP, [str(root), version_of(root)]
    parts = os.fsdecode(stamp.read_bytes()).split("\0") if stamp.is_file() else []
    is_right = NAMED not in os.environ or here[1] == "{}.{}".format(*sys.version_info)
    return parts[2:] if is_right and parts[:2] == here else []


def is_ready(root: Path, profile: str) -> bool:
    """Whether it can be used as it is; the author's profile contains the student's."""
    *pins, made_for = read_stamp(root) or [""]
    return pins == pins_of(root) and made_for in (profile, "dev")


def ensure(root: Path, profile: str) -> None:
    """Leave a working environment of that profile in `.venv`, reporting each step."""
    if is_ready(root, profile):
        return
    with (root / LOG).open("a") as lock:
        say("Setting up .venv, as soon as no other command does.")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(root, profile):
            make(root, profile)


def make(root: Path, profile: str) -> None:
    """Bring a usable environment up to date; make any other anew."""
    if made_of := read_stamp(root):
        (root / STAMP).unlink()
    elif why := complaint():
        raise CommandError(why)
    else:
        say(f"Making the environment in .venv: there is none that can be used. {SPACE}.")
        # If this Python is that of `.venv` itself: the one that made it. mypy lacks the name.
        call(root, vars(sys)["_base_executable"], "-m", "venv", "--clear", ".venv")
    profile = "dev" if made_of[-1:] == ["dev"] else profile
    call(root, python_of(root), "-m", "pip", "install", "-e", TARGETS[profile])
    write_stamp(root, profile)


def call(root: Path, *command: str) -> None:
    """Run venv or pip, which show their own progress, with the user's own settings of pip."""
    (root / LOG).write_text("")
    # A silent index is asked for each of some hundred packages: not six times each, if the user
    # does not want that. `user` in the settings of pip would bypass the environment.
    ours = {"PIP_USER": "0", "PIP_LOG": f"{root}/{LOG}"}
    environ = {"PIP_RETRIES": "2", **environ_of(root), **ours}
    if subprocess.call(command, cwd=root, env=environ, stdin=subprocess.DEVNULL):
        free = shutil.disk_usage(root).free  # venv does not say what stopped it
        log = FULL if free < FEW_BYTES else (root / LOG).read_text(errors="replace")
        raise CommandError(explain(log))


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
    python, environ = python_of(root), environ_of(root)
    commands = [[python, *program, *arguments] for program in programs]
    try:
        ensure(root, profile)
        if len(commands) == 1:
            os.chdir(root)
            os.execve(python, commands[0], environ)
        return int(any([subprocess.call(each, cwd=root, env=environ) for each in commands]))
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped.", AGAIN, file=sys.stderr)
    return 1
