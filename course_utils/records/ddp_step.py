"""One real step of DistributedDataParallel on two processes, recorded by the course.

`python -m course_utils.distributed.ddp_trace course_utils/records/ddp_step.json` records it again;
the record says when, on what and with which versions it was made.
"""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "ddp_step.json"
FIELDS = ("name", "thread", "start_ns", "end_ns", "bytes")


def recorded_ddp_step() -> dict[str, Any]:
    """The record, with ``events`` of each rank and DDP's own log of its ``buckets``, in bytes."""
    record: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    record["events"] = {
        int(rank): [dict(zip(FIELDS, each, strict=True)) for each in events]
        for rank, events in record["events"].items()
    }
    return record
