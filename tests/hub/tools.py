"""JupyterHub and its proxy, in a folder of their own: `.venv-hub`.

JupyterHub comes by pip, beside the packages of the environment that runs the tests, which it may
use; its proxy comes by npm.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.notebooks.filling import ROOT

REQUIREMENTS = ROOT / "tests" / "hub" / "requirements.txt"
PROXY = "configurable-http-proxy@4.6.3"
TOOLS = ROOT / ".venv-hub"
HUB_PYTHON = TOOLS / "bin" / "python"
HUB_PROXY = TOOLS / "proxy" / "node_modules" / ".bin" / "configurable-http-proxy"
PROGRAMS = ("useradd", "userdel", "node", "npm", "bwrap")
# What grading needs of the machine.
SANDBOX = ("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true")
NOBODY = 65534
INSTALLING_SECONDS = 300


class MissingPartError(Exception):
    """Something that the hub is made of cannot be had here; the message says what."""


def packages_of(environment: Path) -> Path:
    """An environment's folder of packages."""
    return environment / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"


def ensure() -> None:
    """Install what is not there yet.

    Raises:
        MissingPartError: If this is no machine for it, or the network gives nothing.
    """
    if not sys.platform.startswith("linux") or os.geteuid():
        raise MissingPartError("only root on Linux makes accounts, and this is another user")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        raise MissingPartError(f"not installed: {', '.join(missing)}")
    python_for_everybody()
    if subprocess.run(SANDBOX, user=NOBODY, capture_output=True, check=False).returncode:
        raise MissingPartError("an ordinary account may not make namespaces with bubblewrap")
    stamp, wanted = TOOLS / "installed.txt", f"{REQUIREMENTS.read_text()}{PROXY}\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    _run(sys.executable, "-m", "venv", "--clear", str(TOOLS))
    (packages_of(TOOLS) / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    _run(str(HUB_PYTHON), "-m", "pip", "install", "--quiet", "--no-input", "-r", str(REQUIREMENTS))
    _run("npm", "install", "--silent", "--prefix", str(TOOLS / "proxy"), PROXY)
    stamp.write_text(wanted)


def python_for_everybody() -> Path:
    """A Python of this version that every account can run: this one, or the system's.

    Raises:
        MissingPartError: If there is none.
    """
    version = f"python3.{sys.version_info[1]}"
    candidates = (Path(os.path.realpath(sys.executable)), Path("/usr/bin", version))
    for each in candidates:
        if each.exists() and _read_by_others(each):
            return each
    raise MissingPartError(f"other accounts cannot run {candidates[0]}, and there is no other")


def _read_by_others(program: Path) -> bool:
    """Whether every account can start a program."""
    return all(folder.stat().st_mode & 0o001 for folder in (program, *program.parents))


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALLING_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise MissingPartError(f"{' '.join(command[:4])}: no end") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise MissingPartError(f"{' '.join(command[:4])}: {last}")
