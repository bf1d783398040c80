"""Put names that students chose, and lists of names, into sentences for a teacher."""

import reprlib
from collections.abc import Iterable

MAX_LISTED = 6

_short = reprlib.Repr()
_short.maxstring = 80
_short.maxother = 80


def shown(name: str) -> str:
    """A name in quotes, escaped and shortened."""
    return _short.repr(name)


def listed(names: Iterable[str]) -> str:
    """Names with commas between them; of many only the first few and the number of others."""
    every = list(names)
    more = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    return ", ".join(every[:MAX_LISTED]) + more
