"""What does the installed PyTorch say, and in which line?

    >>> installed_lines("nn/parallel/distributed.py", "list(reversed(bucket_indices)),").line
    1439

So a page quotes the release that it runs on: a line that has changed is an error, not a rumour.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

FOLDER = Path(torch.__file__).parent


@dataclass(frozen=True, kw_only=True)
class SourceLines:
    """Some lines of an installed file.

    Attributes:
        file: Path inside the package, with forward slashes.
        line: Number of the first line.
        text: The lines, without the indentation that they share.
    """

    file: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """Name of the file, without its folder, and number of the first line."""
        return f"{Path(self.file).name}:{self.line}"


def installed_lines(file: str, first: str, num_lines: int = 1) -> SourceLines:
    """The lines of PyTorch that begin with a given one.

    Args:
        file: Path inside the package `torch`.
        first: The first line without its indentation, as it stands there once.
        num_lines: How many lines.

    Raises:
        ValueError: If the line does not stand there exactly once.
    """
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines) if line.strip() == first]
    if len(found) != 1:
        raise ValueError(
            f"torch {torch.__version__}: {file} has the line {first!r} {len(found)} times, not once"
        )
    chosen = lines[found[0] : found[0] + num_lines]
    margin = min(len(line) - len(line.lstrip()) for line in chosen)
    text = "\n".join(line[margin:].rstrip() for line in chosen)
    return SourceLines(file=file, line=found[0] + 1, text=text)
