"""Start the server of one account, as that account: a student's, or the one that grades.

A student gets the folder `work` in their home, in which progress is kept, with *Validate* and
*Assignment List*. A grader gets the full repository with its own environment, as `make author`
opens it. Settings are put before those of the account, as in `student.launch`; what is started
replaces this process, and inherits programs, settings and umask.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder import progress_file
from autograder.commands import CommandError
from autograder.hub import settings
from autograder.hub.settings import Hub
from autograder.student.launch import SETTINGS as STUDENT_SETTINGS

SETTINGS = Path(__file__).resolve().parent / "jupyter"
OF_IMAGES = "jovyan"  # the account in Jupyter's container images, whoever is logged in
# What a student writes is their own; feedback is read by others, and copied with its mode.
STUDENTS_UMASK, GRADERS_UMASK = 0o077, 0o022


@dataclass(frozen=True)
class Server:
    """How the server of an account is started.

    Attributes:
        folder: What it shows, and where it starts.
        python: Its environment's interpreter.
        settings: Folders of settings, the first one before the others.
        umask: What new files do not allow.
    """

    folder: Path
    python: Path
    settings: Sequence[Path]
    umask: int

    def environ(self, hub: Hub) -> dict[str, str]:
        """The variables of its process."""
        programs = [str(self.python.parent), os.environ.get("PATH", os.defpath)]
        theirs = filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])
        return {
            **os.environ,
            "PATH": os.pathsep.join(programs),
            "JUPYTER_CONFIG_PATH": os.pathsep.join([*map(str, self.settings), *theirs]),
            "JUPYTERHUB_ROOT_DIR": str(self.folder),
            settings.VARIABLE: str(hub.folder),
        }


def account() -> str:
    """The system's name of this account, or the hub's where all are one: nbgrader's student id."""
    name = pwd.getpwuid(os.getuid()).pw_name
    return os.environ.get("JUPYTERHUB_USER", name) if name == OF_IMAGES else name


def student(hub: Hub, python: Path) -> Server:
    """A student's server, in the shared environment."""
    work = Path.home() / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    progress_file.create(work)
    folders = (SETTINGS / "student", hub.folder, hub.course)
    return Server(work, python, folders, STUDENTS_UMASK)


def grader(hub: Hub, course: Path) -> Server:
    """The server of who grades, in the full repository.

    Raises:
        CommandError: If its environment is not there.
    """
    python = course / ".venv" / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise CommandError(
            f"{account()} grades on this hub and has no environment: wanted {python}; "
            "`make author` in that folder makes it."
        )
    folders = (STUDENT_SETTINGS / "author", SETTINGS / "grader", hub.folder, course)
    return Server(course, python, folders, GRADERS_UMASK)


def start(hub: Hub, python: Path, arguments: Sequence[str]) -> None:
    """Become the server of this account; its log is the hub's."""
    course = hub.graders.get(account())
    server = student(hub, python) if course is None else grader(hub, course)
    os.umask(server.umask)
    os.chdir(server.folder)
    # -P: modules that somebody wrote into this folder are not those that the server imports.
    command = [str(server.python), "-P", "-m", "jupyterhub.singleuser", *arguments]
    os.execve(command[0], command, server.environ(hub))
