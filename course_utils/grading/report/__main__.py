"""`make report UNIT=01`: the report of a graded class as a page, and in short."""

import argparse
import sys
from pathlib import Path

from course_utils.desk.environment import ROOT
from course_utils.desk.errors import DeskError
from course_utils.desk.workfolder import find_unit
from course_utils.grading.report.class_report import report_on
from course_utils.grading.report.journal import JournalError


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write `report/<unit>.html` of a course and print the table of its exercises."""
    parser = argparse.ArgumentParser(prog="make report", description=__doc__)
    parser.add_argument("unit", help="the unit: its folder's name or its number")
    options = parser.parse_args(arguments)
    try:
        unit = find_unit(root / "notebooks", options.unit)
        report = report_on(root, unit)
    except (DeskError, JournalError) as error:
        print(error, file=sys.stderr)
        return 1
    path = root / "report" / f"{unit}.html"
    _write(path, report.page())
    print(report.in_short(), f"The whole report: {path}", sep="\n")
    return 0


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".writing")
    beside.write_text(text, encoding="utf-8", errors="backslashreplace")
    beside.replace(path)


if __name__ == "__main__":
    sys.exit(main())
