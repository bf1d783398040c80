"""`make late UNIT=05 STUDENT=ada DAYS=2`: give late days; without a student, say who was late.

Either way all penalties of the unit are worked out again.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.commands import ROOT, CommandError, find_unit
from autograder.grading.errors import GradingError
from autograder.grading.gradebook_writer import GradebookWriter
from autograder.grading.run import configuration

USAGE = "make late UNIT=05 [STUDENT=ada DAYS=2]"
EXAMPLE = "make late UNIT=05 STUDENT=ada DAYS=2"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Give the days and say how things stand; 1 if that cannot be."""
    parser = argparse.ArgumentParser(prog="make late", usage=USAGE, description=__doc__)
    parser.add_argument("unit", help="number or folder of the unit")
    parser.add_argument("--student", default="", help="who gets the days")
    parser.add_argument(
        "--days", type=number_of_days, help="days after the due date; 0 takes them back"
    )
    options = parser.parse_args(arguments)
    if bool(options.student) != (options.days is not None):
        parser.error(f"a student and a number of days belong together, as in `{EXAMPLE}`")
    try:
        unit = find_unit(root / "notebooks", options.unit)
        store = GradebookWriter(root, configuration(root), secret="")
        if options.student:
            store.extend(unit, options.student, options.days)
        if store.due_date(unit):
            store.renew_penalties(unit)
        for line in _lines(store, unit):
            print(line)
    except (CommandError, GradingError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def number_of_days(text: str) -> float:
    """The days that a text names, as ``2`` or ``1.5``."""
    try:
        days = float(text)
    except ValueError:
        days = -1
    if not 0 <= days <= 366:
        raise argparse.ArgumentTypeError(f"wanted a number from 0 to 366, as 2 or 1.5, got {text}")
    return days


def _lines(store: GradebookWriter, unit: str) -> Iterator[str]:
    """Due date, then everybody who was late or has late days."""
    due, found, given = store.due_date(unit), store.standings(unit), store.days_given()
    if not due:
        yield (
            f"{unit} has no due date, so nobody is late: `nbgrader db assignment add {unit} "
            '--duedate="2027-03-01 23:59 UTC"` sets one.'
        )
    else:
        yield f"{unit} was due at {due:%Y-%m-%d %H:%M} UTC."
    told = {each.student: each.about_time for each in found if each.about_time}
    for student in sorted({*told, *(who for who, days in given.items() if unit in days)}):
        days = given.get(student, {})
        here = told.get(student, f"extension of {days.get(unit, 0):g} d, nothing handed in yet")
        total = f"; in all units {sum(days.values()):g} d" if days else ""
        yield f"  {student}: {here}{total}"
    if not told and due:
        yield "Nobody was late."


if __name__ == "__main__":
    sys.exit(main())
