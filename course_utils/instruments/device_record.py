"""The record of a measurement: which device, which software, when, by which command, what.

Whatever measures for the course writes this form: `python -m tests.gpu.measure` and the page for a
GPU. `course_utils.records.measured` reads it.

    >>> record = empty_record("times", device="cuda", command="python -m tests.gpu.measure")
    >>> record["results"].append({"what": "copy", "num_bytes": 2**28, "bytes_per_second": rate})
    >>> path = write_record(record, folder)
"""

import json
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from course_utils.configs import device as device_named

Record = dict[str, Any]

# Part of the name that a GPU reports, and its data sheet.
DATA_SHEETS = {
    "H200": "H200",
    "B200": "B200",
    "H100 PCIe": "H100-PCIe",
    "H100 NVL": "H100-NVL",
    "H100 80GB HBM3": "H100-SXM",
    "A100": "A100-80",
}


def empty_record(part: str, *, device: str, command: str, is_tiny: bool = False) -> Record:
    """A record without results: device, software, date and command.

    Args:
        part: What is measured; the first word of the file's name.
        device: ``"cuda"`` or ``"cpu"``; a record from a CPU says that it is not from a GPU.
        command: What measures it.
        is_tiny: Whether sizes are toys, to try the code.
    """
    is_from_gpu = device == "cuda"
    return {
        "part": part,
        "is_from_gpu": is_from_gpu,
        "is_tiny": is_tiny,
        "device": torch.cuda.get_device_name() if is_from_gpu else "CPU",
        "driver": driver_version() if is_from_gpu else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
        "results": [],
    }


def write_record(record: Record, folder: Path) -> Path:
    """Write a record as ``part-device.json`` into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    words = record["device"].lower().replace("nvidia", "").split()
    tiny = ["tiny"] if record["is_tiny"] else []
    path = folder / f"{'-'.join([record['part'], *words, *tiny])}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def driver_version() -> str | None:
    """Version of the driver from its own tool; None if that is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def dense_peak_flops_per_second(name: str) -> int | None:
    """Dense bf16 peak by the data sheet of a GPU; None for a CPU or a GPU without one here.

    Args:
        name: As the GPU reports it, such as ``"NVIDIA H200"``.
    """
    for part, sheet in DATA_SHEETS.items():
        if part in name:
            return device_named(sheet).dense_flops_per_second("bf16")
    return None
