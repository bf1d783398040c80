"""The parts of a new formula exercise, to be filled in: `make exercise UNIT=00 NAME=tensor-words`.

They hold a small exercise that works, so that every part can be run before it is replaced.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from autograder import mistake_file
from autograder.authoring.errors import BuildError
from autograder.commands import ROOT, stops_with_a_sentence
from autograder.files import write_whole

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LAST_PARTS = re.compile(r"^# %% \[markdown\].*\n# ## (Extras|What you know now)$", re.MULTILINE)

CELLS = '''\
# %% A title of its own [markdown] exercise="{id}" points=2 minutes=5 difficulty=2 importance=3
# **Write** `{function}`: what it computes, with its unit, an `int`.
#
# *By hand:* 2 rows of 3 numbers: **12** bytes.


# %% solution="{id}"
def {function}(rows: int, columns: int) -> int:
    """Bytes of a matrix in bf16.

    Args:
        rows: Its rows.
        columns: Its columns.
    """
    ### BEGIN SOLUTION
    return 2 * rows * columns
    ### END SOLUTION


# %%
try_it({function}, 2, 3)

# %% check="{id}"
# One row, one column, odd sizes, and more than a float holds.

'''
IMPORTS = """\
import random

import torch

from autograder.checking.exercise_check import Case
from autograder.exercises.declaring import declares_check
"""
CHECK = '''\


# === {id}
# A title of its own.


def {function}_cases(seed: int) -> list[Case]:
    """The worked case first; one row or column; odd sizes; more than a float holds."""
    rng = random.Random(seed)
    sizes = [(2, 3), (1, rng.randint(2, 99)), (rng.randint(2, 99), 1)]
    sizes += [(rng.randrange(3, 99, 2), rng.randrange(3, 99, 2)) for _ in range(17)]
    sizes += [(2**28 + 1, 2**27 + 1 + 2 * rng.randint(0, 99))]
    return [{{"rows": rows, "columns": columns}} for rows, columns in sizes]


@declares_check("{id}", {function}_cases)
def measured_{function}(rows: int, columns: int) -> int:
    """Bytes of a tensor of that shape, without its numbers."""
    return torch.empty(rows, columns, dtype=torch.bfloat16, device="meta").nbytes
'''
MISTAKES = """\

@@ {id}

? Exactly half. How many bytes does a bf16 number take?
2 * rows => rows

? Twice as many. In which precision is the matrix?
2 * rows => 4 * rows

? That is one row. How many are there?
2 * rows => 2

? That is one column. How many are there?
2 * rows * columns => 2 * rows

? You square the rows. Which other size is there?
* columns => * rows
"""
FEATURES = """\
    "{id}": {{
        "one row": lambda case: case["rows"] == 1 < case["columns"],
        "more than a float holds": lambda case: 2 * case["rows"] * case["columns"] > 2**53,
    }},
}}
"""
NEXT = """\
{id}: fill in
  {master}   (card, model answer, try it, check)
  {mistakes}   (questions, and changes of the model answer)
  {check}   (cases, measurement)
  {bank}   (which kinds of cases there are for every seed)
Its cells stand before the extras and the recap: move them to their place. In a unit that students
have already, add extra=true to its card, or the maximum grows for all.
then  make build UNIT={number}
then  .venv/bin/python -m tests.ledger {id}
and   ALL_ANSWERS=1 make test ARGS="tests/autograder/exercises -k {id}"
"""


def make_exercise(root: Path, unit: str, name: str) -> str:
    """Write the parts of a new exercise and say what to do next.

    Raises:
        BuildError: If there is no such unit, the name is none, or the exercise is there.
    """
    masters = sorted(root.glob(f"solutions/{unit}*/*.py"))
    if len(masters) != 1:
        there = ", ".join(path.parent.name[:2] for path in sorted(root.glob("solutions/*/*.py")))
        raise BuildError(f"there is no unit {unit!r}; name one of {there}, as in UNIT=01")
    if not NAME.fullmatch(name):
        raise BuildError(f"{name!r} is no name for an exercise; one is NAME=tensor-words")
    master, number = masters[0], masters[0].stem[:2]
    function = name.replace("-", "_")
    words = {"id": f"u{number}-{name}", "function": function}
    bank = root / "tests" / "answer_bank" / f"u{number}" / "features.py"
    if f'exercise="{words["id"]}"' in master.read_text(encoding="utf-8"):
        raise BuildError(
            f"{master.relative_to(root)} has {words['id']} already; choose another name"
        )
    mistakes, check = master.with_name(mistake_file.NAME), _module(root, number)
    _add_cells(master, CELLS.format(**words))
    write_whole(mistakes, f"{_text(mistakes)}{MISTAKES.format(**words)}".lstrip())
    write_whole(check, f"{_with_imports(_text(check))}{CHECK.format(**words)}")
    _sort_imports(check)
    write_whole(bank, f"{_without_end(bank)}{FEATURES.format(**words)}")
    paths = {"master": master, "mistakes": mistakes, "check": check, "bank": bank}
    where = {name: path.relative_to(root) for name, path in paths.items()}
    return NEXT.format(**words, **where, number=number)


def _module(root: Path, number: str) -> Path:
    """The module with the checks of a unit: the last one, if it has several."""
    room = root / "autograder" / "exercises"
    several = sorted(room.glob(f"u{number}/[!_]*.py"))
    return several[-1] if several else room / f"u{number}.py"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _without_end(features: Path) -> str:
    """A unit's module of features up to its last bracket."""
    return _text(features).rstrip().removesuffix("}")


def _with_imports(module: str) -> str:
    """A unit's module with what a new check needs after its docstring, still to be sorted."""
    front, end, rest = (module or '"""The checks of a unit."""\n').partition('"""\n')
    return f"{front}{end}\n{IMPORTS}{rest.lstrip()}"


def _sort_imports(path: Path) -> None:
    """Sort them, each once."""
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--select=I", "--fix", str(path)]
    subprocess.run(command, check=False)


def _add_cells(master: Path, cells: str) -> None:
    """Put cells before the extras of a master, or before its recap where it has none."""
    text = master.read_text(encoding="utf-8")
    found = LAST_PARTS.search(text)
    end = found.start() if found else len(text)
    write_whole(master, f"{text[:end].rstrip()}\n\n{cells}\n{text[end:]}".rstrip() + "\n")


@stops_with_a_sentence
def main(arguments: list[str] | None = None) -> int:
    """Make one exercise; 0 if it is there."""
    parser = argparse.ArgumentParser(prog="make exercise", description=__doc__)
    parser.add_argument("unit", help="as in UNIT=00")
    parser.add_argument("name", help="as in NAME=tensor-words")
    options = parser.parse_args(arguments)
    print(make_exercise(ROOT, options.unit, options.name), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
