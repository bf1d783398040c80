"""Write what `planner.predicted` reads: each of the Playbook's layouts by constants of other sizes.

They take minutes: `python -m course_utils.planner.truth --write`.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from course_utils.formulas.cluster_step import NANOTRON, Pace, stacked, step_work
from course_utils.formulas.stage_cut import refusal
from course_utils.planner.predicted import NUMBERS, TABLE
from course_utils.planner.rates import H100, rates_of
from course_utils.planner.truth.measured import step_of
from course_utils.planner.truth.steps import column, fitted
from course_utils.records.sweeps import Run, runs

TABLES = ("playbook_runs", "playbook_failed")
DIGITS = 4

Paces = Mapping[str, Pace]
"""By size, the constants that all other sizes give."""


def write() -> None:
    """Write the file."""
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines(held_out_paces()))


def held_out_paces() -> Paces:
    """The constants for each size; a fit takes a minute."""
    sizes = [run.model for run in runs(TABLES[0])]
    return {size: fitted(column("model") != float(size))[0] for size in dict.fromkeys(sizes)}


def lines(paces: Paces) -> Iterator[list[str]]:
    """All lines of the file."""
    yield ["table", "row", *NUMBERS]
    for table in TABLES:
        places = [n for n, run in enumerate(runs(table)) if starts(run)]
        numbers = computed(table, paces, places)
        yield from ([table, str(n), *row] for n, row in zip(places, numbers, strict=True))


def starts(run: Run) -> bool:
    """Whether nanotron's code starts such a layout, whatever the memory."""
    return not refusal(step_of(run).model, run.pipeline, run.num_micro_batches)


def computed(table: str, paces: Paces, places: Sequence[int]) -> list[list[str]]:
    """The numbers of some rows of a table, as they stand in the file."""
    rows = [runs(table)[n] for n in places]
    work = stacked([step_work(step_of(run), NANOTRON, rates_of(H100)) for run in rows])
    found = np.zeros((len(rows), len(NUMBERS)))
    for size, pace in paces.items():
        own = [run.model == size for run in rows]
        slowest = work.work(pace).max(axis=1), work.launches(pace).max(axis=1)
        found[own] = np.array([*slowest, work.seconds(pace)]).T[own]
    return [[f"{each:.{DIGITS}g}" for each in row] for row in found]
