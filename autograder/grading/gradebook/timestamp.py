"""The time of a submission: one line in a file beside the notebook, in nbgrader's format."""

from datetime import UTC, datetime
from pathlib import Path

from nbgrader.utils import parse_utc

from autograder.files import read_line

NAME = "timestamp.txt"


def text_of(submitted: Path) -> str:
    """The line in a student's folder, or nothing if it holds no time."""
    text = read_line(submitted / NAME)
    return text if _parsed(text) else ""


def time_of(submitted: Path) -> datetime | None:
    """The time in a student's folder, if there is one."""
    return _parsed(read_line(submitted / NAME))


def _parsed(text: str) -> datetime | None:
    try:
        time: datetime | None = parse_utc(text)  # in UTC, but naive
    except (ValueError, OverflowError):
        return None
    return time.replace(tzinfo=UTC) if time else None
