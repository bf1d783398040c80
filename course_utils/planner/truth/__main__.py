"""Print how far the planner is from measured runs, goal by goal; ``--write`` keeps the table."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from course_utils.planner.truth.figures import Line, as_text, read, write
from course_utils.planner.truth.measures import Measure, measures

TABLE = Path(__file__).with_name("table.csv")
TREES = Path(__file__).with_name("boosted_trees.csv")
COLUMNS = "".join(f"{name:>8}" for name in ("median", "90 %", "in 10 %", "second", "worst"))


def text(each: Measure, lines: list[Line]) -> Iterator[str]:
    """A paragraph of the table."""
    yield f"{each.on}; class: {each.rule}"
    yield from map(as_text, lines)
    for goal in each.wanted():
        met = [goal.is_met(figures) for figures in (lines[0].of_all, lines[0].of_class)]
        all_rows, of_class = ("yes" if each else "no" for each in met)
        yield f"      goal: {goal}. Met on all rows: {all_rows}; on the class: {of_class}"


def main() -> None:
    """Compute everything and print it."""
    parser = argparse.ArgumentParser(prog="course_utils.planner.truth", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    arguments = parser.parse_args()
    computed: list[Line] = []
    trees = read(TREES)
    print(f"errors in per cent{'':13}rows{COLUMNS}   | the same of the class")
    for each in measures():
        lines = list(each.lines())
        computed += lines
        print(*text(each, lines + [line for line in trees if line.on == each.on]), sep="\n")
    if arguments.write:
        write(TABLE, computed)


if __name__ == "__main__":
    main()
