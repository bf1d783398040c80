"""Print how far the planner is from measured runs, goal by goal; ``--write`` keeps the table."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from course_utils.planner.truth import predict
from course_utils.planner.truth.figures import Line, read, verdict, write
from course_utils.planner.truth.kinds import TABLE
from course_utils.planner.truth.measures import GOALS, Measure, measures

TREES = Path(__file__).with_name("boosted_trees.csv")
COLUMNS = "".join(f"{name:>8}" for name in ("median", "90 %", "in 10 %", "second", "worst"))


def text(measure: Measure, lines: list[Line]) -> Iterator[str]:
    """A paragraph of the table."""
    yield f"{measure.on}; class: {measure.rule}"
    yield from map(str, lines)
    for figure, percent in GOALS.get(measure.on, {}).items():
        yield verdict(figure, percent, lines[0])


def main() -> None:
    """Compute everything and print it."""
    parser = argparse.ArgumentParser(prog="course_utils.planner.truth", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help=f"write {TABLE.name} and what is predicted"
    )
    arguments = parser.parse_args()
    computed: list[Line] = []
    trees = read(TREES)
    print(f"errors in per cent{'':9}  rows{COLUMNS}   | the same of the class")
    for measure in measures():
        lines = measure.lines()
        computed += lines
        beside = [line for line in trees if line.on == measure.on]
        print(*text(measure, lines + beside), sep="\n")
    if arguments.write:
        write(TABLE, computed)
        predict.write()


if __name__ == "__main__":
    main()
