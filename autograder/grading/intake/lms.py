"""Put the download of a learning platform where nbgrader looks for submissions: `make collect`.

The platform's zip holds a file or folder for each student, named after the student: Canvas writes
`lastfirst_LATE_123_456_name.ipynb`, Moodle `First Last_123_assignsubmission_file_/name`. A
student's part may itself be a zip or tar. A problem with one student stops no other, and nothing
that was collected is lost: a later notebook replaces an earlier one, which is kept in the folder
`before` beside it. Whether one without an answer or of an earlier time may, a person is asked.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath

import nbformat
from nbformat import NotebookNode

from autograder.commands import ROOT, find_unit, stops_with_a_sentence
from autograder.grading.intake.archives import BadArchive, Budget, Member, inside, members
from autograder.grading.intake.destination import Destination, HandedIn
from autograder.grading.intake.folder import (
    MAX_BYTES,
    MAX_NOTEBOOKS,
    Candidate,
    choose,
    refuse_size,
)
from autograder.grading.intake.roster import Students, by_their_names, is_anonymous, roster
from autograder.grading.intake.wording import few, listed, shown
from autograder.grading.intake.work_in import WorkIn
from autograder.grading.release.archive import Archive

PERSON_BYTES = 2 * MAX_BYTES
"""An archive and the notebook in it, each as large as one may be."""
MADE_WITHIN = timedelta(minutes=10)
"""Canvas gives each file the moment in which it came into the zip."""
STEP = timedelta(seconds=2)
"""Times in a zip are even seconds."""
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".tbz2", ".xz", ".txz")

OWNER = re.compile(
    r"(?P<name>[^/]+?)_(?P<late>LATE_)?(?P<number>\d+)_"
    r"(?:(?P<canvas>\d+)_|assignsubmission_file_?/?)(?P<file>[^/].*)",
    re.DOTALL,
)
ANONYMOUS = re.compile(r"(?:LATE_)?(anon_[^\W_]+)_\d+_")  # Canvas
PLAIN = re.compile(r"(?![.\s])[^/\\*?\[\]\x00-\x1f\x7f]{1,100}(?<!\s)")


@dataclass(kw_only=True)
class Collected:
    """The outcome of collecting a download.

    Attributes:
        students: Whose notebook was put in place.
        unchanged: Whose notebook was there already.
        refused: Who or what was not collected and why, one sentence each.
        remarks: What a teacher should know of the collected ones, one sentence each.
        about_times: What is to know of their times, if anything is.
    """

    students: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    about_times: str = ""


@dataclass(frozen=True, order=True)
class _Person:
    """A person as the platform names them; Moodle's numbers change from unit to unit."""

    name: str
    number: str
    number_lasts: bool

    def __str__(self) -> str:
        return shown(self.name)

    @property
    def id_of_moodle(self) -> str:
        """As Moodle's tables of grades name the person."""
        return f"{self.name} {self.number}"


@dataclass
class _Part:
    """What a person handed in: the files by their own names, and whether the platform says LATE."""

    files: dict[str, Member] = field(default_factory=dict)
    is_late: bool = False

    @property
    def time(self) -> datetime | None:
        """The latest of the files'; times inside their own archives do not count."""
        return max((file.when for file in self.files.values() if file.when), default=None)


def never(question: str) -> bool:
    """The answer to a question when nobody is there to be asked."""
    return False


@dataclass(frozen=True)
class Replacing:
    """What decides whether a notebook takes the place of one that was collected before.

    Attributes:
        may_replace: Answers whether one that seems worse may; the question says why it seems so.
        releases: The texts of the unit's notebooks as released, the latest first.
    """

    may_replace: Callable[[str], bool] = never
    releases: Sequence[str] = ()

    @cached_property
    def _notebooks(self) -> list[NotebookNode]:
        return [nbformat.reads(text, as_version=4) for text in self.releases]

    def is_written(self, raw: bytes) -> bool:
        """Whether a notebook holds an answer, so that it counts before one that holds none."""
        return WorkIn(raw, self._notebooks).has_answers

    def doubt(self, destination: Destination, raw: bytes, handed_in: HandedIn) -> str:
        """Why a person should say whether a notebook replaces the present one; '' if it may."""
        present, time = destination.raw, destination.time
        if present is None or not WorkIn(present, self._notebooks).has_any:
            return ""
        if not self.is_written(raw):
            return "has no written answer, and the one that was collected before has work in it"
        if time is None:
            return "may be older than the one that lies there, whose time is unknown"
        if (handed_in.when or handed_in.by) <= time:
            return f"is not newer than the one that lies there, of {time:%Y-%m-%d %H:%M} UTC"
        return ""


def unpack(
    archive: Path,
    submitted: Path,
    unit: str,
    students: Students,
    replacing: Replacing | None = None,
) -> Collected:
    """Put every student's notebook of a download into `submitted/<student>/<unit>/`.

    Args:
        archive: The zip of Canvas or Moodle.
        submitted: nbgrader's folder of submissions.
        unit: Name of the unit's folder.
        students: Looks up the lasting number of a student, then the name.
        replacing: What decides whether a notebook takes the place of another.
    """
    try:
        with archive.open("rb") as file:
            collecting = _Collecting(archive, submitted, unit, replacing or Replacing())
            return collecting.collect(members(file), students)
    except OSError as error:
        reason = f"it cannot be read ({error.strerror})"
    except BadArchive as error:
        reason = str(error)
    return Collected(refused=(f"{shown(str(archive))} is not collected: {reason}.",))


@dataclass
class _Collecting:
    """A download that is being collected, and its outcome so far."""

    archive: Path
    submitted: Path
    unit: str
    replacing: Replacing
    outcome: Collected = field(default_factory=Collected)

    def collect(self, files: Sequence[Member], students: Students) -> Collected:
        parts = self._by_person(files)
        times = self._times(parts)
        for person, student in self._identified(parts, students).items():
            try:
                self._place(student, parts[person], times[person])
            except OSError as error:
                self._refuse(f"{student}: not collected: {error.strerror or error}.")
        return self.outcome

    def _refuse(self, sentence: str) -> None:
        self.outcome.refused += (sentence,)

    def _by_person(self, files: Sequence[Member]) -> dict[_Person, _Part]:
        """Each person's files."""
        parts: dict[_Person, _Part] = defaultdict(_Part)
        strangers, anonymous = [], []
        for member in files:
            if _is_hidden(member.path):
                continue
            if nobody := ANONYMOUS.match(member.path):
                anonymous.append(shown(nobody[1]))
            elif owner := OWNER.fullmatch(member.path):
                person = _Person(owner["name"], owner["number"], bool(owner["canvas"]))
                parts[person].files[owner["file"]] = member
                parts[person].is_late |= bool(owner["late"])
            else:
                strangers.append(shown(member.path))
        if strangers:
            self._refuse(f"Of no student, by their names: {listed(strangers)}.")
        self._refuse_anonymous(anonymous)
        return parts

    def _refuse_anonymous(self, names: Sequence[str]) -> None:
        if names:
            every = listed(sorted(set(names)))
            self._refuse(
                f"Not collected, since the platform hides whose they are: {every}. Let it show "
                "names, and download again."
            )

    def _times(self, parts: Mapping[_Person, _Part]) -> Mapping[_Person, HandedIn]:
        """When each person handed in; unknown where several have the time of the download."""
        times = {person: part.time for person, part in parts.items()}
        known = [time for time in times.values() if time]
        download = max(known, default=datetime.fromtimestamp(self.archive.stat().st_mtime, UTC))
        span = MADE_WITHIN if all(person.number_lasts for person in parts) else STEP
        if len(known) > 1 and max(known) - min(known) <= span:
            self.outcome.about_times = (
                "When each was handed in is unknown: the download gives them all one time, "
                f"{download:%Y-%m-%d %H:%M}. Nobody counts as late here."
            )
            return {person: HandedIn(None, download) for person in parts}
        files = (file for part in parts.values() for file in part.files.values())
        if not all(file.has_zone for file in files):
            self.outcome.about_times = "The times of this zip name no time zone: they count as UTC."
        return {person: HandedIn(time, time or download) for person, time in times.items()}

    def _identified(
        self, parts: Mapping[_Person, object], students: Students
    ) -> dict[_Person, str]:
        """The people whose student id is known, can name a folder, and is theirs alone."""
        ids, anonymous = {}, []
        for person in sorted(parts):
            hidden = is_anonymous(person.id_of_moodle)
            number = person.id_of_moodle if hidden else person.number * person.number_lasts
            ids[person] = students(number) or students(person.name)
            if hidden and not students(number):
                anonymous.append(shown(person.id_of_moodle))
                del ids[person]
        self._refuse_anonymous(anonymous)
        counts = Counter(ids.values())
        known = {}
        for person, student in ids.items():
            if student is None:
                self._refuse(f"{person}: not collected, no student is known by this name.")
            elif not PLAIN.fullmatch(student):
                self._refuse(f"{person}: not collected, {shown(student)} is no plain name.")
            elif counts[student] > 1:
                several = f"{counts[student]} people of the download are taken for {student}"
                self._refuse(f"{person}: not collected, {several}.")
            else:
                known[person] = student
        return known

    def _place(self, student: str, part: _Part, handed_in: HandedIn) -> None:
        """Write a student's notebook, if there is one and it may replace the present one."""
        remarks: list[str] = []
        files = islice(_candidates(part.files, remarks), MAX_NOTEBOOKS)
        found = choose(files, self.unit, self.replacing.is_written)
        remarks = few([*found.remarks, *remarks])
        if found.raw is None:
            self._refuse(f"{student}: not collected. {' '.join(remarks)}")
            return
        destination = Destination(self.submitted / student / self.unit)
        if destination.holds(found.raw):
            self.outcome.unchanged += (student,)
            return
        why = self.replacing.doubt(destination, found.raw, handed_in)
        if why and not self.replacing.may_replace(f"{student}: the file in the download {why}."):
            self._refuse(
                f"{student}: not collected, since the file in the download {why}; ARGS=--replace "
                "takes it."
            )
            return
        destination.put(found.raw, handed_in)
        if part.is_late:
            remarks.append("LATE, says the platform.")
        if part.time is None:
            remarks.append("The time in the download is none, so when it came is unknown.")
        self.outcome.students += (student,)
        self.outcome.remarks += tuple(f"{student}: {remark}" for remark in remarks)


def _candidates(files: Mapping[str, Member], remarks: list[str]) -> Iterator[Candidate]:
    """The notebooks among a person's files and in archives among them."""
    budget = Budget(PERSON_BYTES)
    for name, member in files.items():
        if _is_notebook(member):
            yield name, partial(_read, member, budget)
        elif name.lower().endswith(ARCHIVES):
            try:
                packed = inside(_read(member, budget), budget)
            except (BadArchive, OSError) as error:
                remarks.append(f"{shown(name)} was not opened: {error}.")
                continue
            for each in filter(_is_notebook, packed):
                yield f"{name}/{each.path}", partial(_read, each, budget)


def _read(member: Member, budget: Budget) -> bytes:
    refuse_size(member.num_bytes)
    budget.spend(member.num_bytes)
    return member.read()


def _is_hidden(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any(part == "__MACOSX" or (part[0] == "." and part != "..") for part in parts)


def _is_notebook(member: Member) -> bool:
    return member.path.lower().endswith(".ipynb") and not _is_hidden(member.path)


def _releases(root: Path, unit: str) -> list[str]:
    """The unit's notebooks as students have them, the latest first."""
    built = root / "notebooks" / unit / f"{unit}.ipynb"
    present = [built.read_text(encoding="utf-8")] if built.exists() else []
    return [*present, *Archive(root, unit).others(0)]


def _decided(options: argparse.Namespace) -> Callable[[str], bool]:
    """Who says whether a notebook that seems worse replaces another: an option, or a person."""
    if options.replace or options.keep or not sys.stdin.isatty():
        return lambda question: bool(options.replace)
    return _ask


def _ask(question: str) -> bool:
    try:
        return input(f"{question} Replace what lies there? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


@stops_with_a_sentence
def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Collect a download and print what happened; 0 if everybody was collected."""
    parser = argparse.ArgumentParser(
        prog="make collect", usage="make collect UNIT=01 ZIP=download.zip", description=__doc__
    )
    parser.add_argument("unit", help="the unit: its folder's name or its number")
    parser.add_argument("archive", type=Path, help="the zip that the platform gave")
    parser.add_argument("--students", type=Path, help="list of students; else students.csv")
    decided = parser.add_mutually_exclusive_group()
    decided.add_argument(
        "--replace",
        action="store_true",
        help="notebooks without an answer or of an earlier time replace what was collected before",
    )
    decided.add_argument("--keep", action="store_true", help="they replace nothing")
    options = parser.parse_args(arguments)
    file = options.students or root / "students.csv"
    unit = find_unit(root / "notebooks", options.unit)
    students = roster(file) if options.students or file.exists() else by_their_names
    replacing = Replacing(_decided(options), _releases(root, unit))
    collected = unpack(options.archive, root / "submitted", unit, students, replacing)
    for line in (*collected.remarks, *collected.refused, collected.about_times):
        if line:
            print(line)
    numbers = (len(each) for each in (collected.students, collected.unchanged, collected.refused))
    print("{} collected, {} lay there already, {} refused.".format(*numbers))
    return 1 if collected.refused else 0


if __name__ == "__main__":
    sys.exit(main())
