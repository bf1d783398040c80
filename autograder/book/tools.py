"""Sphinx and its theme, in an environment of their own: `.venv-book`.

What builds the book is in no student's environment, and what notebooks pin does not hold it back.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from autograder.commands import CommandError, say

REQUIREMENTS = Path("docs", "book", "requirements.txt")


def sphinx_python(root: Path) -> Path:
    """The Python that has Sphinx; installed at the first call, and when its requirements change.

    Args:
        root: The full repository.

    Raises:
        CommandError: If the tools cannot be installed.
    """
    environment, wanted = root / ".venv-book", root / REQUIREMENTS
    python, stamp = environment / "bin" / "python", environment / "installed.txt"
    if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
        return python
    say("Installing what builds the book into .venv-book (0.3 GB, once)")
    _run([sys.executable, "-m", "venv", "--clear", str(environment)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--no-input", "-r", str(wanted)])
    shutil.copyfile(wanted, stamp)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise CommandError(
            f"{last}\nThe tools of {REQUIREMENTS} could not be installed, see the lines above: "
            "fix that and run `make book` again."
        )
