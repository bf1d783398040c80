"""Published and measured runs as data; each record says where, when and how it was made.

Measured records are JSON files beside this module, written by `python -m tests.gpu.measure`;
published ones are CSV files, read by `published`, `sweeps` and `traces`.
"""

import json
from pathlib import Path
from typing import Any

from course_utils.records.published import (
    SOURCES,
    FoundryRun,
    Source,
    foundry_runs,
    one_node_runs,
    published,
)

__all__ = [
    "FOLDER",
    "SOURCES",
    "FoundryRun",
    "Record",
    "Source",
    "foundry_runs",
    "measured",
    "one_node_runs",
    "published",
]

FOLDER = Path(__file__).parent

Record = dict[str, Any]


def measured(part: str, folder: Path = FOLDER) -> list[Record]:
    """All records of one part that were measured on a GPU, sorted by file name.

    Args:
        part: ``"memory"``, ``"counts"``, ``"times"``, ``"traces"`` or ``"utilisation"``.
        folder: Folder of the records.
    """
    files = sorted(folder.glob(f"{part}-*.json"))
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [record for record in records if record["is_from_gpu"]]
