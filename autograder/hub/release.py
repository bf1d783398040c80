"""nbgrader's release into the exchange, for a hub: notebooks in the words of the place."""

from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeReleaseAssignment

from autograder.hub import words


class ReleaseOnHub(ExchangeReleaseAssignment):  # type: ignore[misc]
    """`nbgrader release_assignment` and formgrader's button, on a hub."""

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy a unit as nbgrader does, then change what its notebooks say of handing in."""
        super().do_copy(src, dest, log)
        words.rewrite(Path(dest))
