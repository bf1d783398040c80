"""Print how far the planner is from measured runs, goal by goal; with ``--write`` keep the table."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from course_utils.planner.truth.figures import Line, as_text, read, write
from course_utils.planner.truth.measures import MODEL, Measure, measures

TABLE = Path(__file__).with_name("table.csv")
TREES = Path(__file__).with_name("boosted_trees.csv")
COLUMNS = "".join(f"{name:>8}" for name in ("median", "90 %", "in 10 %", "second", "worst"))


def text(each: Measure, lines: list[Line]) -> Iterator[str]:
    """A paragraph of the table."""
    yield f"{each.on}; class: {each.rule}"
    yield from map(as_text, lines)
    (model,) = (line for line in lines if line.by == MODEL)
    for goal in each.wanted():
        of_all, of_class = ("yes" if goal.is_met(x) else "no" for x in (model.of_all, model.of_class))
        yield f"      goal: {goal}. Met on all rows: {of_all}; on the class: {of_class}"


def main() -> None:
    """Compute everything and print it."""
    parser = argparse.ArgumentParser(prog="course_utils.planner.truth", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    arguments = parser.parse_args()
    trees = read(TREES) if TREES.exists() else []
    computed: list[Line] = []
    print(f"errors in per cent{'':13}rows{COLUMNS}   | the same of the class")
    for each in measures():
        lines = list(each.lines())
        computed += lines
        print(*text(each, lines + [line for line in trees if line.on == each.on]), sep="\n")
    if arguments.write:
        write(TABLE, computed)


if __name__ == "__main__":
    main()
