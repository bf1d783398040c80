"""Read the cells of a notebook file, whatever else may be wrong with it.

Only what an answer needs is read: the kind, text and claimed names of each cell. Outputs and all
other metadata are dropped unseen.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

KINDS = ("code", "markdown", "raw")
MAX_PARTS = 15_000_000
"""Brackets and commas of a file; each takes at most about 120 bytes in memory."""
MAX_CELLS = 100_000


class Unreadable(ValueError):
    """Why a file is not a notebook, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell as it is in a file.

    Attributes:
        kind: `code`, `markdown` or `raw`.
        source: Its text, or None if that is no text.
        claims: The names that it claims, nbgrader's before the format's own.
        grading: Its nbgrader metadata.
        tags: Its tags.
        has_attachments: Whether pictures were pasted into it.
    """

    kind: str
    source: str | None
    claims: tuple[str, ...] = ()
    grading: Mapping[str, Any]
    tags: frozenset[str] = frozenset()
    has_attachments: bool = False

    def with_source(self, source: str) -> "Cell":
        """The same cell with another text."""
        return replace(self, source=source)


def read(raw: bytes) -> tuple[list[Cell], list[str]]:
    """The cells of a notebook file, and what was odd about the file.

    Raises:
        Unreadable: If it is not a notebook.
    """
    text, remarks = _text(raw)
    entries = _entries(_parsed(text))
    cells = [_cell(entry) for entry in entries if isinstance(entry, dict)]
    if len(cells) < len(entries):
        remarks.append(f"{len(entries) - len(cells)} entries among the cells are no cells.")
    return cells, remarks


def _text(raw: bytes) -> tuple[str, list[str]]:
    """The text of a file in UTF-8, 16 or 32, with or without byte order mark; else in Latin-1."""
    encoding = json.detect_encoding(raw)
    try:
        return raw.decode(encoding, "surrogatepass"), []
    except UnicodeDecodeError:
        return raw.decode("latin-1"), [
            f"The file is no {encoding.upper()}; it was read as Latin-1."
        ]


def _parsed(text: str) -> dict[str, Any]:
    if sum(map(text.count, "[{,")) > MAX_PARTS:
        raise Unreadable(f"it holds more than {MAX_PARTS:,} brackets and commas")
    try:
        content = json.loads(text, parse_int=_parse_int)
    except (RecursionError, MemoryError):
        raise Unreadable("it is nested too deeply or too large") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"it is no JSON (line {error.lineno}: {error.msg})") from None
    if not isinstance(content, dict):
        raise Unreadable(f"it holds a JSON {type(content).__name__} and no notebook")
    return content


def _parse_int(digits: str) -> int:
    """A whole number; zero if it is longer than any in the format, since parsing it is slow."""
    return int(digits) if len(digits) < 20 else 0


def _entries(content: dict[str, Any]) -> list[Any]:
    entries = content.get("cells")
    if not isinstance(entries, list):
        raise Unreadable("it has no list of cells")
    if len(entries) > MAX_CELLS:
        raise Unreadable(f"it has {len(entries):,} cells")
    return entries


def _cell(entry: dict[str, Any]) -> Cell:
    metadata = _table(entry.get("metadata"))
    grading, tags = _table(metadata.get("nbgrader")), metadata.get("tags")
    known_tags = tags if isinstance(tags, list) else []
    claims = (grading.get("grade_id"), entry.get("id"), metadata.get("id"))  # the last: Colab's
    kind = entry.get("cell_type")
    return Cell(
        kind=kind if isinstance(kind, str) and kind in KINDS else "raw",
        source=_source(entry.get("source", "")),
        claims=tuple(dict.fromkeys(each for each in claims if isinstance(each, str))),
        grading=grading,
        tags=frozenset(each for each in known_tags if isinstance(each, str)),
        has_attachments=bool(entry.get("attachments")),
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _source(value: object) -> str | None:
    """The text of a cell with plain line ends and without lone surrogates."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    if not isinstance(value, str):
        return None
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").replace("\r", "\n")
