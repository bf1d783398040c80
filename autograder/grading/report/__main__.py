"""`make report UNIT=01`: write the report of a graded class as a page, and print a summary."""

import argparse
import sys
from pathlib import Path

from autograder.commands import ROOT, find_unit, stops_with_a_sentence
from autograder.files import write_whole
from autograder.grading.report.class_report import report_on


@stops_with_a_sentence
def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write `report/<unit>.html` and print the table of the unit's exercises."""
    parser = argparse.ArgumentParser(
        prog="make report", usage="make report UNIT=01", description=__doc__
    )
    parser.add_argument("unit", help="the unit: its folder's name or its number")
    options = parser.parse_args(arguments)
    unit = find_unit(root / "notebooks", options.unit)
    report = report_on(root, unit)
    path = root / "report" / f"{unit}.html"
    write_whole(path, report.page())
    print(report.in_short(), f"The whole report: {path}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
