"""Make the students' copy of the course ready for all accounts of a hub.

The environment is that of the Python which runs this: it learns where the course is. The copy's
notebooks are put into the words of a hub. The exchange is made with the permissions that nbgrader
wants, and the sticky bit, so that nobody takes away a folder of somebody else. Nothing is
downloaded, and nothing outside of these three is written.
"""

from __future__ import annotations

import compileall
import importlib.util
import sys
import sysconfig
from pathlib import Path

from autograder.commands import ROOT, CommandError, say
from autograder.hub import words
from autograder.hub.settings import Hub

POINTER = "efficient_llm_training.pth"
FOR_STAFF = ("solutions", "autograder/exercises", "autograder/grading", "autograder/authoring")
EXCHANGE_MODE = 0o1777


def install(hub: Hub) -> None:
    """Write what the environment and the accounts have to know; a second time changes nothing.

    Raises:
        CommandError: If this is no copy for students, or packages are missing.
    """
    refuse_the_full_repository(hub.course)
    for name in ("jupyterhub", "nbgrader", "torch"):
        if importlib.util.find_spec(name) is None:
            raise CommandError(
                f"The environment {sys.prefix} has no {name}: "
                f"`{sys.executable} -m pip install -r requirements.txt jupyterhub==VERSION`, "
                "with the version of your hub, then this again."
            )
    pointer = Path(sysconfig.get_path("purelib")) / POINTER
    pointer.write_text(f"{hub.course}\n", encoding="utf-8")
    pointer.chmod(0o644)
    hub.write()
    words.rewrite(hub.course / "notebooks")
    hub.exchange.mkdir(parents=True, exist_ok=True)
    hub.exchange.chmod(EXCHANGE_MODE)
    for package in ("autograder", "course_utils"):
        compileall.compile_dir(hub.course / package, quiet=2)
    say(f"The environment {sys.prefix} holds the course of {hub.course}.")
    say(f"The exchange is {hub.exchange}.")
    for name, folder in hub.graders.items():
        say(f"{name} grades in {folder}.")
    say("In the configuration of the hub:")
    say(f"    c.Spawner.cmd = {[sys.executable, '-P', '-m', 'autograder.hub', 'start']}")


def refuse_the_full_repository(course: Path) -> None:
    """Stop where students could read answers."""
    found = [name for name in FOR_STAFF if (course / name).exists()]
    if found:
        raise CommandError(
            f"{course} has {', '.join(found)}: students would read model answers there. Unpack the "
            "archive of `make student-bundle` and run this in it."
        )


def main(exchange: Path, graders: list[str]) -> None:
    """Install with what the command line says.

    Args:
        exchange: nbgrader's exchange.
        graders: Each an account of the system, or with its folder, as ``ada=/home/ada/course``.
    """
    folders = {}
    for grader in graders:
        name, _, folder = grader.partition("=")
        folders[name] = Path(folder) if folder else Path(f"~{name}").expanduser() / "course"
    install(Hub(ROOT, exchange.absolute(), folders))
