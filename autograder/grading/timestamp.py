"""When was something handed in? One line beside the notebook says it, as nbgrader reads it."""

from datetime import UTC, datetime
from pathlib import Path

from nbgrader.utils import parse_utc

from autograder.files import line_of

NAME = "timestamp.txt"


def text_of(submitted: Path) -> str:
    """The line in a student's folder, or nothing if it does not say a time."""
    text = line_of(submitted / NAME)
    return text if _parsed(text) else ""


def time_of(submitted: Path) -> datetime | None:
    """The time that the line says."""
    return _parsed(line_of(submitted / NAME))


def _parsed(text: str) -> datetime | None:
    try:
        time: datetime | None = parse_utc(text)  # in UTC, without saying so
    except (ValueError, OverflowError):
        return None
    return time.replace(tzinfo=UTC) if time else None
