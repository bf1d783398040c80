"""Files that appear whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a text file; whoever looks finds the old one or the new one.

    Raises:
        OSError: If it cannot be written; the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing")
    with beside.open("wb") as file:
        file.write(text.encode(errors="backslashreplace"))  # half a character stays readable
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
