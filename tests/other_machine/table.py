"""What is compared between the machine that recorded a pack and a student's, as a table.

python -m tests.other_machine.table > docs/other-machines.md

A second table says what came of all answers on all imitated machines when that was last tried, as
`tried.csv` has it: a row for each run of `python -m tests.other_machine MACHINE --exercises UNIT
--answers model right wrong edits`.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from autograder import catalogue
from autograder.checking import practice_pack
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import ImplementationJudge
from autograder.checking.lookup import practice_check_of
from autograder.checking.mistakes import Numbers
from autograder.checking.plain_data import Plain
from autograder.checking.precision import PROMISED, tolerance
from autograder.exercises.model_answers import model_answer
from autograder.observers.comparing import ALLOWED

HEAD = """# The same verdict on every machine

A student's machine has another processor, other libraries and another Python than the one that
recorded what is right for the practice cases. So whatever is compared between the two is exact on
every machine, or it is compared within the rounding of its number format:
`autograder/checking/precision.py` holds the one function that says how far two right results may
lie apart, `autograder/observers/comparing.py` the one that compares tensors.

- **Whole numbers** (counts, bytes, FLOPs, calls, rows that are wrong) are equal or not.
- **Fractions over powers of two** (number formats, virtual seconds) are exact in float64 and are
  equal or not, where the table says *exact*.
- **Floats of formulas** are right to the nine digits that their statements promise.
- **Floats of implementations** (norms, checksums, seconds of a link) may differ by {float64:.1e},
  which is what rounding explains in a sum of 256 float64 numbers that are 4,096 times larger than
  it.
- **Tensors** in float64 likewise, beside their largest number; those in float32 by
  {float32:.1e}, unless they are drawn from small whole numbers, whose products and sums are exact
  in any order. What is rounded to bf16 is one product for each number, or it is compared with what
  the same machine gives, within {bfloat16:.1e}.

`make test` tries all model answers, right answers in other styles and a twentieth of the wrong ones
on imitated machines (`tests/other_machine`): kernels whose sums run in another order and whose
rounded results move by one unit in the last place, processors with old and new instructions,
another number of threads, the sums of another Python. `make acceptance` tries all of them.

Of an implementation the table counts what is compared in one case of each scenario.

| exercise | whole numbers | floats | tensors |
|---|---|---|---|
"""


TRIED = Path(__file__).parent / "tried.csv"
TRIED_HEAD = """
## All answers, on all imitated machines

Tried by hand on an Intel Xeon with AVX-512: every model answer, right answer in another style,
wrong answer and known mistake, on each machine of `tests/other_machine/machines.py`, against packs
that were recorded without imitation. A cell holds how many verdicts (points or hint) differed.

"""


def page() -> str:
    """The page with a row for each exercise, and one of what was tried for each unit."""
    limits = {str(kind).removeprefix("torch."): each for kind, each in ALLOWED.items()}
    items = (each for unit in catalogue.units() for each in unit.exercises if not each.manual)
    compared = "".join(f"{_row(each.id)}\n" for each in items)
    return HEAD.format(**limits) + compared + _tried()


def _tried() -> str:
    with TRIED.open(encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    machines = [*dict.fromkeys(run["machine"] for run in runs)]
    units: dict[str, dict[str, str]] = {}
    for run in runs:
        units.setdefault(f"{run['unit']} | {run['answers']}", {})[run["machine"]] = run["differ"]
    head = (
        " | ".join(["| unit | answers", *machines]) + " |\n" + "|---" * (2 + len(machines)) + "|\n"
    )
    rows = (
        f"| {unit} | {' | '.join(differ[m] for m in machines)} |\n"
        for unit, differ in units.items()
    )
    return TRIED_HEAD + head + "".join(rows)


def _row(exercise: str) -> str:
    check, pack = practice_check_of(exercise), practice_pack.read(exercise)
    judge, right = check.judge, pack["right"]
    kinds: dict[str, set[type]] = {}
    for each in _compared(exercise, check, pack["cases"]):
        for name, number in each.items():
            kinds.setdefault(name, set()).add(type(number))
    whole = sorted(name for name, found in kinds.items() if found == {int})
    floats = sorted(name or "the result" for name, found in kinds.items() if float in found)
    allowed = judge.relative_tolerance
    limit = _limit(allowed, isinstance(judge, ImplementationJudge)) if floats else ""
    tensors = sorted({str(each.dtype).removeprefix("torch.") for each in _tensors(right)})
    count = "the result" if whole == [""] else str(len(whole) or "")
    listed = f"{', '.join(floats)}: {limit}" if floats else ""
    return f"| `{exercise}` | {count} | {listed} | {', '.join(tensors)} |"


def _compared(exercise: str, check: Check, cases: list[Case]) -> Iterator[Numbers]:
    """The right numbers of the cases; of an implementation, of one case of each scenario.

    What an implementation must not do is no number of a measurement: it is counted where one runs.
    """
    if check.is_formula:
        yield from (check.judge.wanted(case) for case in cases)
        return
    for case in {case.get("scenario", ""): case for case in reversed(cases)}.values():
        observed = check.observe(model_answer(exercise), case)
        yield check.judge.comparison(case, observed).wanted


def _limit(allowed: float, is_implementation: bool) -> str:
    if not allowed:
        return "exact"
    if allowed == PROMISED:
        return "nine digits, as stated"
    return "rounding" if is_implementation and allowed == tolerance() else f"{allowed:.1e}"


def _tensors(value: Plain) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)


if __name__ == "__main__":
    print(page(), end="")
