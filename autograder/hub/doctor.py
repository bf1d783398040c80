"""What is wrong with the course on this hub and is said by nobody else, for the account that asks.

JupyterHub names versions that differ, nbgrader an exchange that it cannot write into, `make grade`
a machine without a sandbox. What is left goes wrong in silence: answers within reach, homes that
are open, lists that are empty, students who practise with something else than they are graded by.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbgrader.apps import NbGrader
from traitlets.config.loader import PyFileConfigLoader

from autograder.commands import ROOT, CommandError
from autograder.hub import words
from autograder.hub.install import FOR_STAFF
from autograder.hub.settings import Hub
from autograder.hub.start import account

COPIED = ("autograder", "course_utils", "notebooks")
SUFFIXES = (".py", ".json", ".csv", ".ipynb")
OURS = "the files of this repository"
ONLY_THE_BUNDLE = (
    "Students' environments hold the archive of `make student-bundle` and nothing else"
)
START = "Start this server with `python -m autograder.hub start`, as docs/hub.md says"


@dataclass(frozen=True)
class Finding:
    """What was wanted of something and what came.

    Attributes:
        subject: What was looked at.
        wanted: What must be there.
        got: What is there.
        remedy: What to do where they differ.
    """

    subject: str
    wanted: str
    got: str
    remedy: str

    @property
    def is_right(self) -> bool:
        """Whether it is as wanted."""
        return self.wanted == self.got

    def __str__(self) -> str:
        """One line for a person."""
        if self.is_right:
            return f"ok     {self.subject}: {self.got}"
        return f"WRONG  {self.subject}: wanted {self.wanted}, got {self.got}. {self.remedy}"


def main(hub: Hub) -> int:
    """Print a line for each finding; 0 if nothing is wrong.

    Raises:
        CommandError: As root, who may do all that nobody else may.
    """
    if os.geteuid() == 0:
        raise CommandError("root may read and write all: run this as a student and as the grader.")
    num_wrong = 0
    for each in findings(hub):
        print(each, flush=True)
        num_wrong += not each.is_right
    print(f"{num_wrong} wrong." if num_wrong else "Nothing is wrong.")
    return int(num_wrong > 0)


def findings(hub: Hub) -> Iterator[Finding]:
    """All that was looked at for this account."""
    config = NbGrader()
    config.load_config_file()
    root = str(config.config["Exchange"].get("root", "nbgrader's own"))
    yield Finding("nbgrader's exchange", str(hub.exchange), root, START)
    yield from (for_graders if account() in hub.graders else for_students)(hub)


def for_students(hub: Hub) -> Iterator[Finding]:
    """What a student must not find, and must not write."""
    yield Finding("model answers", "none", _listed(answers(hub.course), "none"), ONLY_THE_BUNDLE)
    places = (Path(sysconfig.get_path("purelib")), hub.course, *map(hub.course.joinpath, COPIED))
    writable = [str(place) for place in places if os.access(place, os.W_OK)]
    remedy = f"`sudo chown -R root` and `sudo chmod -R go-w`: {' '.join(writable)}"
    yield Finding("course and environment read-only", "yes", _listed(writable, "yes"), remedy)
    yield home()


def answers(course: Path) -> list[str]:
    """Rooms of staff that are in the students' copy or can be imported."""
    modules = [each.replace("/", ".") for each in FOR_STAFF if "/" in each]
    importable = [name for name in modules if importlib.util.find_spec(name) is not None]
    return [*(str(course / name) for name in FOR_STAFF if (course / name).exists()), *importable]


def home() -> Finding:
    """Whether nobody else reads the home; a group that is the account's own does not count."""
    mode = stat.S_IMODE(Path.home().stat().st_mode)
    others = 0o007 if Path.home().group() == Path.home().owner() else 0o077
    got = f"mode {mode:o} of group {Path.home().group()}" if mode & others else "yes"
    return Finding("home closed to others", "yes", got, f"`chmod 700 {Path.home()}`")


def for_graders(hub: Hub) -> Iterator[Finding]:
    """What must be closed to students, and what must be the same for them."""
    is_closed = any(not folder.stat().st_mode & 0o011 for folder in (ROOT, *ROOT.parents))
    remedy = f"`chmod 700 {ROOT}`: it holds model answers, the seed and grades"
    yield Finding("course folder closed to others", "yes", "yes" if is_closed else "no", remedy)
    remedy = f"`c.CourseDirectory.course_id` in {ROOT} and in {hub.course} must be the same"
    yield Finding("course id of students", course_id(ROOT), course_id(hub.course), remedy)
    found = _listed(other_files(hub.course), OURS)
    remedy = f"`make student-bundle`, unpack it over {hub.course} and install again"
    yield Finding("students' copy", OURS, found, remedy)


def course_id(course: Path) -> str:
    """The id of the course in a copy of it."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    return str(config.CourseDirectory.course_id)


def other_files(course: Path) -> list[str]:
    """Files of the students' copy that are not ours, notebooks in the words of a hub."""
    files = (file for name in COPIED for file in (course / name).rglob("*"))
    names = (file.relative_to(course) for file in sorted(files) if file.suffix in SUFFIXES)
    return [str(name) for name in names if not _is_same(ROOT / name, course / name)]


def _is_same(ours: Path, theirs: Path) -> bool:
    if not ours.exists():
        return False
    text = ours.read_text(encoding="utf-8")
    expected = words.on_hub(text) if ours.suffix == ".ipynb" else text
    return theirs.read_text(encoding="utf-8") == expected


def _listed(found: list[str], otherwise: str) -> str:
    """What was found, the first ones by name."""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more if found else otherwise
