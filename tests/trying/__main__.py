"""What an author wants to know at once, each finding as a sentence.

    make try UNIT=05               budgets, style and cells of what changed, all exercises
    make try CELL=u05-checkpoint   one exercise, and more of its wrong answers

Nothing is written, and nothing need be built before. `make build` and `make test` go further.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from autograder.authoring import master
from autograder.authoring.errors import BuildError, MasterError
from tests.trying import exercises, page
from tests.trying.changed import changed_files, style

ROOT = Path(__file__).parents[2]
MOST_WRONG, MOST_WRONG_OF_ONE = 3, 8  # answers to an exercise that are tried


def findings(named: str) -> Iterator[str]:
    """What is wrong with a unit, or with an exercise and its card.

    Raises:
        BuildError: If there is no such unit.
        MasterError: If its master cannot be read.
    """
    number, is_exercise = named.partition("-")[0].removeprefix("u"), "-" in named
    path = next(iter(sorted(ROOT.glob(f"solutions/{number}_*/*.py"))), None)
    if path is None:
        raise BuildError(f"wanted a unit such as 05 or an exercise such as u05-plan, got {named!r}")
    unit = master.read(path)
    yield from page.over_budget(unit, named)
    files = changed_files(ROOT)
    yield from style(ROOT, files)
    coded = [item.id for item in unit.unit.exercises if not item.manual]
    if is_exercise and named not in coded:
        raise BuildError(f"unit {number} has no exercise {named!r}; it has {', '.join(coded)}")
    for name in [named] if is_exercise else coded:
        yield from exercises.findings(name, MOST_WRONG_OF_ONE if is_exercise else MOST_WRONG)
    if not is_exercise:
        yield from page.failing_cells(ROOT, unit, files)


def main() -> int:
    """Print what is found; 1 if there is something."""
    parser = argparse.ArgumentParser(prog="make try", description=__doc__)
    parser.add_argument("of", nargs="+", help="a unit such as 05, or the id of an exercise")
    named = parser.parse_args().of[-1]
    started, count = time.monotonic(), 0
    torch.set_num_threads(1)
    try:
        for sentence in findings(named):
            print(sentence, flush=True)
            count += 1
    except (BuildError, MasterError) as error:
        print(f"make try: {error}", file=sys.stderr)
        return 1
    print(f"{named}: {count or 'no'} finding(s), {time.monotonic() - started:.0f} s.")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
