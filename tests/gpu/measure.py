"""Measure on a GPU what the course claims about GPUs, and record it.

    python -m tests.gpu.measure                      all parts, some minutes on an H200
    python -m tests.gpu.measure --part memory        one part
    python -m tests.gpu.measure --device cpu --tiny --out folder     tries the code without a GPU

Each part writes one JSON record and rewrites it after each row, so an interrupted run loses
nothing. A record from a CPU says that it is not from a GPU; never commit one.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from course_utils.instruments.device_record import empty_record, write_record
from course_utils.instruments.fake import NO_GPU
from tests.gpu import counts, memory, times, traces, utilisation
from tests.gpu.setting import Row, Setting

PARTS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "memory": memory.measure,
    "counts": counts.measure,
    "times": times.measure,
    "traces": traces.measure,
    "utilisation": utilisation.measure,
}
RECORDS = Path(__file__).parents[2] / "course_utils" / "records"


def main(arguments: list[str]) -> None:
    """Measure the parts named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="all without it")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="toy sizes")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of the records")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error(f"{NO_GPU}; to try the code, give --device cpu --tiny")
    if options.device == "cpu" and not options.tiny:
        parser.error("real sizes take a GPU: give --tiny with --device cpu")
    setting = Setting(device=options.device, is_tiny=options.tiny)
    for part in options.part or PARTS:
        measure_part(part, setting, options.out)


def measure_part(part: str, setting: Setting, folder: Path) -> None:
    """Measure one part and keep its record up to date."""
    options = f"--part {part}" + " --device cpu" * (setting.device == "cpu")
    command = f"python -m tests.gpu.measure {options}{' --tiny' * setting.is_tiny}"
    record = empty_record(part, device=setting.device, command=command, is_tiny=setting.is_tiny)
    start = time.monotonic()
    for row in PARTS[part](setting):
        record["results"].append(row)
        record["took_seconds"] = round(time.monotonic() - start, 1)
        path = write_record(record, folder)
        print(part, summary(row), flush=True)
    print(f"{len(record['results'])} rows in {path.name}, {record['took_seconds']} s", flush=True)


def summary(row: Row) -> str:
    """A row without its nested values."""
    nested = dict | list | tuple
    flat = {name: value for name, value in row.items() if not isinstance(value, nested)}
    return json.dumps(flat)


if __name__ == "__main__":
    main(sys.argv[1:])
