"""What must hold on a hub for the account that grades; `autograder.hub.doctor` asks it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from traitlets.config.loader import PyFileConfigLoader

from autograder.commands import ROOT
from autograder.grading.sandbox import bubblewrap
from autograder.hub import words
from autograder.hub.checks import START, nbgrader_config
from autograder.hub.finding import Finding
from autograder.hub.settings import Hub

RELEASE = "autograder.grading.hub_release.ReleaseOnHub"
SAME = ("autograder", "course_utils", "notebooks")
SUFFIXES = (".py", ".json", ".csv", ".ipynb")
# What nbconvert does with each page that it makes.
FIND_IMAGES = """
from bs4 import BeautifulSoup
print(len(BeautifulSoup("<img>", "html.parser").select("img:not([alt])")))
"""


def for_graders(hub: Hub) -> Iterator[Finding]:
    """Sandbox, privacy, and what students and grader must have in common."""
    yield sandbox()
    yield feedback()
    yield closed(ROOT)
    yield umask()
    found = shutil.which("alembic") or "nothing"
    remedy = f"Put {ROOT / '.venv' / 'bin'} first on PATH"
    yield Finding("alembic, which makes gradebooks", _alembic(found), found, remedy)
    config = nbgrader_config()
    yield Finding(
        "course id", course_id(hub.course), str(config["CourseDirectory"].get("course_id")),
        f"`c.CourseDirectory.course_id` in {ROOT} and in {hub.course} must be the same",
    )  # fmt: skip
    plugin = str(config.get("ExchangeFactory", {}).get("release_assignment", "nbgrader's own"))
    yield Finding("what releases a notebook", RELEASE, plugin, START)
    yield same_course(hub)


def sandbox() -> Finding:
    """Whether students' code can be run apart from everything else."""
    wanted = "it starts"
    try:
        bubblewrap.sandboxed()
    except bubblewrap.SandboxUnavailableError as error:
        return Finding("sandbox for students' code", wanted, "it does not", str(error))
    return Finding("sandbox for students' code", wanted, wanted, "")


def feedback() -> Finding:
    """Whether pages can be made: some versions of soupsieve do not run with Python 3.11.2."""
    command = [sys.executable, "-c", FIND_IMAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    remedy = f"`{sys.executable} -m pip install soupsieve==2.8`, or a newer Python"
    return Finding("images found in a page of feedback", "1", "".join(last), remedy)


def closed(course: Path) -> Finding:
    """Whether nobody else can enter the folder with the answers and grades."""
    way = (course, *course.parents)
    is_closed = any(not folder.stat().st_mode & 0o011 for folder in way)
    return Finding(
        "course folder closed to others", "yes", "yes" if is_closed else "no",
        f"`chmod 700 {course}`: it holds model answers, the seed and grades",
    )  # fmt: skip


def umask() -> Finding:
    """Whether others can read what is released: feedback keeps the mode of its file."""
    current = os.umask(0)
    os.umask(current)
    wanted = f"umask {current & ~0o044:03o}"
    return Finding("others read feedback", wanted, f"umask {current:03o}", f"`umask {0o022:03o}`")


def course_id(course: Path) -> str:
    """The id of the course in a copy of it."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    return str(config.CourseDirectory.course_id)


def same_course(hub: Hub) -> Finding:
    """Whether students practise with what they are graded by."""
    files = [file for name in SAME for file in (hub.course / name).rglob("*")
             if file.suffix in SUFFIXES]  # fmt: skip
    names = [file.relative_to(hub.course) for file in sorted(files)]
    other = [str(name) for name in names if not _is_same(ROOT / name, hub.course / name)]
    got = f"{len(other)} other files, as {other[0]}" if other else "the files of this repository"
    return Finding(
        "students' copy", "the files of this repository", got,
        f"`make student-bundle`, unpack it over {hub.course} and install again",
    )  # fmt: skip


def _is_same(ours: Path, theirs: Path) -> bool:
    """Whether a file of the students' copy is ours, a notebook in the words of a hub."""
    if not ours.exists():
        return False
    text = ours.read_text(encoding="utf-8")
    return theirs.read_text(encoding="utf-8") == (
        words.on_hub(text) if ours.suffix == ".ipynb" else text
    )


def _alembic(found: str) -> str:
    own = ROOT / ".venv" / "bin" / "alembic"
    return found if found != "nothing" else str(own)
