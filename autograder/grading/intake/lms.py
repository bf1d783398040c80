"""Put the download of a learning platform where nbgrader looks for submissions: `make collect`.

The platform's zip holds a file or folder for each student, named after the student: Canvas writes
`lastfirst_LATE_123_456_name.ipynb`, Moodle `First Last_123_assignsubmission_file_/name`. A
student's part may itself be a zip or tar. A problem with one student stops no other, and nothing
that was collected is lost: a later notebook replaces an earlier one, which is kept in the folder
`before` beside it.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath

from autograder.commands import ROOT, find_unit, stops_with_a_sentence
from autograder.grading.intake.archives import BadArchive, Member, members
from autograder.grading.intake.destination import Destination
from autograder.grading.intake.folder import MAX_NOTEBOOKS, Candidate, choose
from autograder.grading.intake.roster import Students, by_their_names, roster
from autograder.grading.intake.wording import listed, shown

MAX_TOTAL_BYTES = 4 * 2**30
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".tbz2", ".xz", ".txz")

OWNER = re.compile(
    r"(?P<name>[^/]+?)_(?:LATE_)?(?P<number>\d+)_"
    r"(?:(?P<canvas>\d+)_|assignsubmission_file_?/?)(?P<file>[^/].*)"
)
PLAIN = re.compile(r"(?![.\s])[^/\\*?\[\]\x00-\x1f\x7f]{1,100}(?<!\s)")


@dataclass(kw_only=True)
class Collected:
    """The outcome of collecting a download.

    Attributes:
        students: Whose notebook was put in place.
        unchanged: Whose notebook was there already.
        refused: Who or what was not collected and why, one sentence each.
        remarks: What a teacher should know of the collected ones, one sentence each.
    """

    students: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class _Person:
    """A person as the platform names them; Moodle's numbers change from unit to unit."""

    name: str
    number: str
    number_lasts: bool

    def __str__(self) -> str:
        return shown(self.name)


def unpack(archive: Path, submitted: Path, unit: str, students: Students) -> Collected:
    """Put every student's notebook of a download into `submitted/<student>/<unit>/`.

    Args:
        archive: The zip of Canvas or Moodle.
        submitted: nbgrader's folder of submissions.
        unit: Name of the unit's folder.
        students: Looks up the lasting number of a student, then the name.
    """
    try:
        with archive.open("rb") as file:
            return _Collecting(archive, submitted, unit).collect(members(file), students)
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
    num_bytes: int = 0
    outcome: Collected = field(default_factory=Collected)

    def collect(self, files: Sequence[Member], students: Students) -> Collected:
        parts = self._by_person(files)
        for person, student in self._identified(parts, students).items():
            try:
                self._place(student, parts[person])
            except OSError as error:
                self._refuse(f"{student}: not collected: {error.strerror or error}.")
        return self.outcome

    def _refuse(self, sentence: str) -> None:
        self.outcome.refused += (sentence,)

    def _by_person(self, files: Sequence[Member]) -> dict[_Person, dict[str, Member]]:
        """Each person's files by their own names."""
        parts: dict[_Person, dict[str, Member]] = defaultdict(dict)
        strangers = []
        for member in files:
            if _is_hidden(member.path):
                continue
            if owner := OWNER.fullmatch(member.path):
                person = _Person(owner["name"], owner["number"], bool(owner["canvas"]))
                parts[person][owner["file"]] = member
            else:
                strangers.append(shown(member.path))
        if strangers:
            self._refuse(f"Of no student, by their names: {listed(strangers)}.")
        return parts

    def _identified(
        self, parts: Mapping[_Person, object], students: Students
    ) -> dict[_Person, str]:
        """The people whose student id is known, can name a folder, and is theirs alone."""
        ids = {}
        for person in sorted(parts):
            by_number = students(person.number) if person.number_lasts else None
            ids[person] = by_number or students(person.name)
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

    def _place(self, student: str, files: Mapping[str, Member]) -> None:
        """Write a student's notebook, if there is one and it is later than the present one."""
        remarks: list[str] = []
        found = choose(islice(self._candidates(files, remarks), MAX_NOTEBOOKS), self.unit)
        remarks = [*found.remarks, *remarks]
        if found.raw is None:
            self._refuse(f"{student}: not collected. {' '.join(remarks)}")
            return
        destination = Destination(self.submitted / student / self.unit)
        if destination.holds(found.raw):
            self.outcome.unchanged += (student,)
            return
        destination.put(found.raw, self._when(files, remarks))
        self.outcome.students += (student,)
        self.outcome.remarks += tuple(f"{student}: {remark}" for remark in remarks)

    def _candidates(self, files: Mapping[str, Member], remarks: list[str]) -> Iterator[Candidate]:
        """The notebooks among files and in archives among them."""
        for name, member in files.items():
            if _is_notebook(member):
                yield name, partial(self._read, member)
            elif name.lower().endswith(ARCHIVES):
                try:
                    inside = members(BytesIO(self._read(member)))
                except (BadArchive, OSError) as error:
                    remarks.append(f"{shown(name)} was not opened: {error}.")
                    continue
                for each in filter(_is_notebook, inside):
                    yield f"{name}/{each.path}", partial(self._read, each)

    def _read(self, member: Member) -> bytes:
        if self.num_bytes > MAX_TOTAL_BYTES:
            raise OSError("the download holds too much in all")
        raw = member.read()
        self.num_bytes += len(raw)
        return raw

    def _when(self, files: Mapping[str, Member], remarks: list[str]) -> datetime:
        """The latest time of a student's files; times inside their own archives do not count."""
        times = [member.when for member in files.values() if member.when]
        if times:
            return max(times)
        remarks.append("The time in the download is none; that of the download itself was taken.")
        return datetime.fromtimestamp(self.archive.stat().st_mtime, UTC)


def _is_hidden(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any(part == "__MACOSX" or (part[0] == "." and part != "..") for part in parts)


def _is_notebook(member: Member) -> bool:
    return member.path.lower().endswith(".ipynb") and not _is_hidden(member.path)


@stops_with_a_sentence
def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Collect a download and print what happened; 0 if everybody was collected."""
    parser = argparse.ArgumentParser(
        prog="make collect", usage="make collect UNIT=01 ZIP=download.zip", description=__doc__
    )
    parser.add_argument("unit", help="the unit: its folder's name or its number")
    parser.add_argument("archive", type=Path, help="the zip that the platform gave")
    parser.add_argument("--students", type=Path, help="list of students; else students.csv")
    options = parser.parse_args(arguments)
    file = options.students or root / "students.csv"
    unit = find_unit(root / "notebooks", options.unit)
    students = roster(file) if options.students or file.exists() else by_their_names
    collected = unpack(options.archive, root / "submitted", unit, students)
    for line in (*collected.remarks, *collected.refused):
        print(line)
    numbers = (len(each) for each in (collected.students, collected.unchanged, collected.refused))
    print("{} collected, {} lay there already, {} refused.".format(*numbers))
    return 1 if collected.refused else 0


if __name__ == "__main__":
    sys.exit(main())
