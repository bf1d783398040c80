"""`make read UNIT=05`: open the answers of a class in the browser, one exercise at a time."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.commands import ROOT, find_unit, port_number, stops_with_a_sentence
from autograder.grading.gradebook.course_table import results_of
from autograder.student.launch import serve


@stops_with_a_sentence
def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Serve the pages until Ctrl-C, or say where a server of this folder does it already."""
    parser = argparse.ArgumentParser(
        prog="make read", usage='make read UNIT=05 [ARGS="--port 8890"]', description=__doc__
    )
    parser.add_argument("unit", help="the unit: its folder's name or its number")
    parser.add_argument("--port", type=port_number, help="port to use if it is free")
    options = parser.parse_args(arguments)
    unit = find_unit(root / "notebooks", options.unit)
    results_of(root, unit)
    farewell = f"Reading is stopped; points and comments are in {root / 'gradebook.db'}"
    serve(root, "author", f"/course/read/{unit}", options.port, farewell)
    return 0


if __name__ == "__main__":
    sys.exit(main())
