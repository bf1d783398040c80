"""Create or repair the project's own environment in `.venv`, and run commands in it.

Standard library only, since it runs before anything is installed. A stamp inside `.venv` records
what it was made from; while that still holds, nothing is installed and no network is needed.
Any other state (half made, moved, another Python) is repaired, reusing what still works.

    run("student", [["-m", "autograder.student.launch", "lab"]], [])
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.student.errors import CommandError, say
from autograder.student.installing import (
    CPU_BUILD_BYTES,
    CUDA_BUILD_BYTES,
    SPACE_WANTED,
    pip,
    stream,
)

ROOT = Path(__file__).resolve().parents[2]

# pip's arguments for the course itself; the dev extra holds what only authors and CI need.
TARGETS = {"student": ["--no-deps", "-e", "."], "dev": ["-e", ".[dev]"]}

LOCK = "setup.lock"
STAMP = "stamp.json"
NOT_YET = "there is none yet"


def python_of(root: Path) -> Path:
    """The environment's interpreter."""
    return root / ".venv" / "bin" / "python"


def version_of(python: Path) -> str:
    """The version of an interpreter; empty if it does not start."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def packages_of(root: Path, version: str) -> Path:
    """The environment's folder of packages for that version of Python."""
    return root / ".venv" / "lib" / ("python" + version.rpartition(".")[0]) / "site-packages"


def inputs_of(root: Path) -> str:
    """Fingerprint of the two files that say what must be installed."""
    names = ("requirements.txt", "pyproject.toml")
    return hashlib.sha256(b"\0".join((root / name).read_bytes() for name in names)).hexdigest()


def read_stamp(root: Path) -> dict[str, str]:
    """What the environment was made from; empty if there is no readable stamp."""
    try:
        stamp = json.loads((root / ".venv" / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(root: Path, profile: str) -> None:
    """Record what the environment is made from; an empty profile means unfinished."""
    stamp = {
        "profile": profile,
        "root": str(root),
        "python": version_of(python_of(root)),
        "inputs": inputs_of(root),
    }
    part = root / ".venv" / (STAMP + ".part")
    part.write_text(json.dumps(stamp, indent=1))
    part.replace(root / ".venv" / STAMP)


def reasons_to_repair(root: Path, profile: str) -> Iterator[str]:
    """Why the environment cannot be used, the worst first; nothing if it can.

    The version that counts is that of the environment's own Python: starting the course with
    another one is no reason to install everything again.
    """
    stamp = read_stamp(root)
    if not (root / ".venv" / "bin").is_dir():
        yield NOT_YET
    if not stamp.get("profile"):
        yield "it was left half made"
    if stamp.get("root") != str(root):
        yield "the project folder was moved or copied"
    if version_of(python_of(root)) != stamp.get("python"):
        yield "its Python is gone or was replaced"
    if inputs_of(root) != stamp.get("inputs"):
        yield "the list of required packages changed"
    if stamp["profile"] not in ("dev", profile):  # the dev profile contains the student's
        yield "the tools for authors are not in it yet"


def ensure(root: Path, profile: str) -> None:
    """Leave a working environment of that profile in `.venv`, reporting each step.

    Raises:
        CommandError: If it cannot be made; the next call continues from what is there.
    """
    if not any(reasons_to_repair(root, profile)):
        return
    try:
        with exclusive_lock(root):
            why = next(reasons_to_repair(root, profile), "")
            if why:  # empty if the command that we waited for did the work
                make(root, profile, why)
    except KeyboardInterrupt:
        raise CommandError(
            "Stopped while setting up .venv, which is now half made: "
            "run the same command again and it goes on from there."
        ) from None
    except OSError as error:
        raise CommandError(explain(error, root)) from error


@contextlib.contextmanager
def exclusive_lock(root: Path) -> Iterator[None]:
    """Let one command at a time work on `.venv`; the system frees the lock of a dead one."""
    (root / ".venv").mkdir(exist_ok=True)
    with (root / ".venv" / LOCK).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another command is setting up .venv: waiting until it is done.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def make(root: Path, profile: str, why: str) -> None:
    """Create or repair the environment in three steps, whatever state `.venv` is in."""
    check_venv_module()
    if why != NOT_YET:
        say(f"Repairing the environment in .venv ({why}), keeping what still works.")
    before = read_stamp(root)
    profile = "dev" if before.get("profile") == "dev" else profile
    say("1/3 creating the environment in .venv")
    create(root)
    relocate(root, before.get("root", str(root)))
    write_stamp(root, profile="")
    check_disk(root)
    say(f"2/3 installing the packages of requirements.txt ({size_of_download(root)})")
    pip(root, "-r", "requirements.txt")
    say("3/3 installing the course itself" + (" and the tools for authors" * (profile == "dev")))
    pip(root, *TARGETS[profile])
    write_stamp(root, profile)
    say("The environment is ready.")


def create(root: Path) -> None:
    """Run `python -m venv`, keeping installed packages if a Python of their version is here."""
    version = version_of(python_of(root))
    creator = python_of(root) if version else Path(base_python())
    version = version or version_of(creator)
    if not packages_of(root, version).is_dir():
        creator = Path(base_python())
        clear(root / ".venv")
    elif creator != python_of(root):
        for dead in (root / ".venv" / "bin").glob("python*"):
            dead.unlink()
    drop_half_installed(packages_of(root, version))
    status, tail = stream([str(creator), "-m", "venv", ".venv"], root)
    if status:
        raise CommandError(
            "\n".join([*tail, f"Creating .venv with {creator} failed, see the lines above: "])
            + "remove the folder .venv and start again, perhaps with another Python, as in "
            "`make lab PYTHON=python3.12`."
        )


def base_python() -> str:
    """This Python, or its original if it runs in an environment that may be cleared."""
    return sys.executable if sys.prefix == sys.base_prefix else os.path.realpath(sys.executable)


def clear(folder: Path) -> None:
    """Empty the folder except for the lock, which is held."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()


def drop_half_installed(packages: Path) -> None:
    """Drop packages whose installation was cut off, so that pip installs them again.

    Their list of files, RECORD, is the last thing that pip writes.
    """
    for info in packages.glob("*.dist-info"):
        if not (info / "RECORD").is_file():
            shutil.rmtree(info)


def relocate(root: Path, old_root: str) -> None:
    """Point the installed scripts (jupyter, alembic) at this folder after a move."""
    if old_root == str(root):
        return
    old, new = (f"{place}/.venv/bin/".encode() for place in (old_root, root))
    for script in (root / ".venv" / "bin").iterdir():
        text = script.read_bytes() if script.is_file() and not script.is_symlink() else b""
        if text.startswith(b"#!") and old in text:
            script.write_bytes(text.replace(old, new))


def check_venv_module() -> None:
    """Stop if Python lacks the two modules that make an environment, as on Debian."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        package = f"python3.{sys.version_info[1]}-venv"
        raise CommandError(
            f"Making the environment needs Python's module {missing[0]}, which {sys.executable} "
            f"does not have: install it (Debian and Ubuntu: `sudo apt install {package}`) and run "
            "the same command again."
        )


def check_disk(root: Path) -> None:
    """Stop if there is too little space for torch, unless it is installed already."""
    free = shutil.disk_usage(root).free
    if has_torch(root):
        return
    if free < CPU_BUILD_BYTES:
        raise CommandError(
            f"{SPACE_WANTED}, and {free / 10**9:.1f} GB are free on the disk of {root}: "
            "make room and run the same command again."
        )
    if free < CUDA_BUILD_BYTES and sys.platform == "linux":
        say(f"Disk space is low: {SPACE_WANTED}; {free / 10**9:.1f} GB are free.")


def has_torch(root: Path) -> bool:
    """Whether the one large package is installed already."""
    return any((root / ".venv").glob("lib/*/site-packages/torch-*.dist-info"))


def size_of_download(root: Path) -> str:
    """How much has to be downloaded, for users with a slow connection."""
    if has_torch(root):
        return "only what is missing or changed"
    return (
        "to download: about 3 GB on Linux, where torch includes CUDA; 0.4 GB on a Mac or with "
        "torch's CPU build; a few minutes"
    )


def explain(error: OSError, root: Path) -> str:
    """A file-system error in one sentence, with what to do."""
    if error.errno == errno.ENOSPC:
        return f"The disk of {root} is full. {SPACE_WANTED}: make room and run it again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"The environment has to be written to {root / '.venv'}, which is not allowed "
            f"({error.strerror}): copy the course to a folder of your own and run it there."
        )
    return (
        f"The environment in {root / '.venv'} could not be written ({error}): "
        "remove what is in its place and run the same command again."
    )


def environ_of(root: Path) -> dict[str, str]:
    """The user's variables, with the environment's programs first on the PATH.

    nbgrader starts `alembic` by its bare name.
    """
    venv = root / ".venv"
    path = os.pathsep.join([str(venv / "bin"), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "VIRTUAL_ENV": str(venv)}


def run(
    profile: str, programs: Sequence[Sequence[str]], arguments: Sequence[str], root: Path = ROOT
) -> int:
    """Run programs with the environment's Python, from the root; 0 if all went well."""
    try:
        ensure(root, profile)
        return enter(root, [[str(python_of(root)), *program, *arguments] for program in programs])
    except CommandError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
    return 1


def enter(root: Path, commands: Sequence[list[str]]) -> int:
    """Replace this process by a single command, so that Ctrl-C reaches it; run several in order."""
    environ = environ_of(root)
    if len(commands) == 1:
        os.chdir(root)
        os.execve(commands[0][0], commands[0], environ)
    statuses = [subprocess.call(command, cwd=root, env=environ) for command in commands]
    return int(any(statuses))
