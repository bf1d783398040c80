"""Print the wrong answers to an exercise: `python -m tests.answer_bank u09-buckets "a hook"`."""

import argparse

from tests.answer_bank import bank_of


def main() -> None:
    """Print those whose name has the words that are given."""
    parser = argparse.ArgumentParser(prog="python -m tests.answer_bank", description=__doc__)
    parser.add_argument("exercise")
    parser.add_argument("words", nargs="?", default="")
    options = parser.parse_args()
    for each in bank_of(options.exercise).wrong:
        if options.words in each.name:
            print(f"# {each.name} ({each.points:g} points): {each.hint}\n{each.source}\n")


if __name__ == "__main__":
    main()
