"""What was measured on real devices, for readers without one.

A record holds where, when and how its numbers were measured; without a record there is no number.
`tests/gpu/measure.py` writes them.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from course_utils import records
from course_utils.records import Record


def recorded(
    part: str, columns: Sequence[str], *, folder: Path = records.FOLDER
) -> pd.DataFrame | None:
    """The rows of all records of one part, after a line on each record; None if there is none.

    Args:
        part: Which record: ``"memory"``, ``"counts"``, ``"times"`` or ``"utilisation"``.
        columns: Those to show, in order, of rows that have all of them.
        folder: Where records lie.
    """
    found = records.measured(part, folder)
    if not found:
        print("Nothing has been recorded on a GPU yet: without a record there is no number here.")
        return None
    for each in found:
        print(
            f"Recorded on {each['device']} (driver {each['driver']}, torch {each['torch']}) on "
            f"{each['date']} by `{each['command']}`."
        )
    rows = pd.concat([_rows(each) for each in found], ignore_index=True)
    return rows[list(columns)].dropna(ignore_index=True)


def _rows(record: Record) -> pd.DataFrame:
    """A column for each number, those of parts as ``part.number``."""
    return pd.json_normalize(record["results"]).assign(device=record["device"])
