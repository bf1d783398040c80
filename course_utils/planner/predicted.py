"""What the model says of each of the Playbook's layouts, with the constants of other sizes.

Kept in a file, since fits and work take minutes: `python -m course_utils.planner.truth --write`
writes it anew. Nobody sleeps here, so that layouts that were polled took longer than this.

    >>> first = predictions("playbook_runs")[0]
    >>> first.run.name, round(first.step_seconds, 1)
    ('1.34 on 1: d 4 p 2 t 1, stage 1, b 4, m 16', 3.3)
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from course_utils.records.sweeps import Run, runs

TABLE = Path(__file__).with_name("predicted.csv")
NUMBERS = ("work_seconds", "launch_seconds", "step_seconds")


@dataclass(frozen=True)
class Prediction:
    """What the model says of a layout.

    Attributes:
        run: The layout, and what was measured of it.
        work_seconds: Of the GPU for a micro-batch, on the stage with the most.
        launch_seconds: Of the CPU for a micro-batch, on the stage with the most.
        step_seconds: Of a step in which nobody sleeps.
    """

    run: Run
    work_seconds: float
    launch_seconds: float
    step_seconds: float

    @property
    def num_passes(self) -> int:
        """Micro-batches, one after the other, that a step waits for: ``m + p - 1``."""
        return self.run.num_micro_batches + self.run.pipeline - 1

    @property
    def extra_seconds(self) -> float:
        """What a micro-batch took beyond the model."""
        return (self.run.step_seconds - self.step_seconds) / self.num_passes


@functools.cache
def predictions(table: str) -> tuple[Prediction, ...]:
    """Of all rows of a table that nanotron starts at all.

    Args:
        table: ``"playbook_runs"`` or ``"playbook_failed"``.
    """
    rows = runs(table)
    with TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(
            Prediction(rows[int(row["row"])], *(float(row[name]) for name in NUMBERS))
            for row in csv.DictReader(file)
            if row["table"] == table
        )
