"""Look up students by the number or name that a learning platform gives them.

The list is the one that `nbgrader db student import` takes: a column `id`, and `first_name`,
`last_name` and `lms_user_id` where they are known. A name that could mean two students means none.
"""

import csv
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from autograder.commands import CommandError

PARTICIPANT = "Participant"

Students = Callable[[str], str | None]
"""From a student's number or name on the platform to the course's id, or None."""


def by_their_names(who: str) -> str | None:
    """The lookup without a list of students: the platform's names are their ids."""
    return None if who.isdecimal() or is_anonymous(who) else who


def is_anonymous(who: str) -> bool:
    """Whether a platform shows a number in place of a name: Moodle's ``Participant 123``."""
    name, _, number = who.partition(" ")
    return name == PARTICIPANT and number.isdecimal()


def roster(file: Path) -> Students:
    """The lookup in a list of students.

    Raises:
        CommandError: If the file is no such list.
    """
    names: dict[str, set[str]] = defaultdict(set)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, skipinitialspace=True)
            for line in table:
                row = {str(key).strip(): str(each or "").strip() for key, each in line.items()}
                first, last = row.get("first_name", ""), row.get("last_name", "")
                if not row["id"] and any(row.values()):
                    raise ValueError(f"line {table.line_num} has no id")
                number = _key(row.get("lms_user_id", ""))
                for name in (number, *map(_letters, (row["id"], first + last, last + first))):
                    names[name].add(row["id"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise CommandError(
            f"{file} is no list of students ({error}): it needs a column id, and may have "
            "first_name, last_name and lms_user_id."
        ) from None
    known = {name: min(ids) for name, ids in names.items() if name and len(ids) == 1}
    return lambda who: known.get(_key(who))


def _key(who: str) -> str:
    """What a number or a name on the platform is looked up by."""
    return f"number {who}" if who.isdecimal() else _letters(who)


def _letters(name: str) -> str:
    """A name without case, spaces and punctuation, as platforms write it."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", name).casefold()))
