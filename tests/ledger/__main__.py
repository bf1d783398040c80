"""Write down what the answers to exercises are told, where no table says so yet.

    python -m tests.ledger u05                        of all exercises of a unit that are new
    python -m tests.ledger --again u05-segment-peak   of one that is there and was changed

What a table says of an exercise that nobody meant to change is not written again: it is what its
answers were told before.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby

from tests import ledger
from tests.answer_bank.every import ANSWER_BANKS


def rows_of(exercise: str) -> list[ledger.Row]:
    """What each answer to an exercise is told."""
    return [ledger.row_of(answer) for answer in ledger.answers(exercise)]


def main() -> None:
    """Write the rows of the exercises that are named, a unit at a time."""
    parser = argparse.ArgumentParser(prog="python -m tests.ledger", description=__doc__)
    parser.add_argument("of", nargs="?", default="", help="a unit or an exercise; else all")
    parser.add_argument("--again", action="store_true", help="write those that are there, too")
    options = parser.parse_args()
    named = [n for n in sorted(ANSWER_BANKS) if options.of in ("", n, n.partition("-")[0])]
    if not named:
        parser.error(f"wanted a unit such as u05 or the id of an exercise, got {options.of!r}")
    with ProcessPoolExecutor() as pool:
        for path, names in groupby(named, ledger.table_of):
            known = ledger.read(path)
            there = set() if options.again else {row.exercise for row in known}
            new = [name for name in names if name not in there]
            rows = [row for rows in pool.map(rows_of, new) for row in rows]
            others = [
                row for row in known if row.exercise in ANSWER_BANKS and row.exercise not in new
            ]
            ledger.write(path, sorted([*others, *rows], key=lambda row: row.exercise))
            print(f"{path.name}: {len(rows)} rows of {len(new)} exercises", flush=True)


if __name__ == "__main__":
    main()
