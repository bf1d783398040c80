"""What was measured on real devices, for readers without one.

A record holds where, when and how its numbers were measured; without a record there is no number.
`tests/gpu/measure.py` writes them.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

RECORDS = Path(__file__).parents[1] / "records"


def recorded(part: str, columns: Sequence[str], *, folder: Path = RECORDS) -> pd.DataFrame | None:
    """The rows of all records of one part, after a line on each record; None if there is none.

    Args:
        part: Which record: ``"memory"``, ``"counts"``, ``"times"`` or ``"utilisation"``.
        columns: Those to show, in order, of rows that have all of them.
        folder: Where records lie.
    """
    records = [_read(path) for path in sorted(folder.glob(f"{part}-*.json"))]
    records = [each for each in records if each["is_from_gpu"]]
    if not records:
        print("Nothing has been recorded on a GPU yet: without a record there is no number here.")
        return None
    for each in records:
        print(
            f"Recorded on {each['device']} (driver {each['driver']}, torch {each['torch']}) on "
            f"{each['date']} by `{each['command']}`."
        )
    rows = pd.concat([_rows(each) for each in records], ignore_index=True)
    return rows[list(columns)].dropna(ignore_index=True)


def _read(path: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _rows(record: dict[str, object]) -> pd.DataFrame:
    """A column for each number, those of parts as ``part.number``."""
    return pd.json_normalize(record["results"]).assign(device=record["device"])
