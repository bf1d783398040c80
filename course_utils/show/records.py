"""Measurements from real devices, for readers without one.

A record says where, when and how its numbers were measured; no number is shown without a record.
`tests/gpu/measure.py` writes them.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from course_utils import records


def recorded(
    part: str, columns: Sequence[str], *, folder: Path = records.FOLDER
) -> pd.DataFrame | None:
    """Print the source of each record of one part and return their rows.

    Without records nothing is printed and None is returned: a cell that ends with this call then
    shows nothing.

    Args:
        part: ``"memory"``, ``"counts"``, ``"times"`` or ``"utilisation"``.
        columns: Columns to show, in order; rows without all of them are left out. A nested number
            is named ``outer.inner``.
        folder: Folder of the records.
    """
    found = records.measured(part, folder)
    if not found:
        return None
    for each in found:
        print(
            f"Recorded on {each['device']} (driver {each['driver']}, torch {each['torch']}) on "
            f"{each['date']} by `{each['command']}`."
        )
    tables = [pd.json_normalize(each["results"]).assign(device=each["device"]) for each in found]
    return pd.concat(tables, ignore_index=True)[list(columns)].dropna(ignore_index=True)
