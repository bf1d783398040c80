"""One thing that was looked at on a hub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What was wanted and what came.

    Attributes:
        subject: What was looked at.
        wanted: What must be there.
        got: What is there.
        remedy: What to do where they differ.
    """

    subject: str
    wanted: str
    got: str
    remedy: str

    @property
    def is_right(self) -> bool:
        """Whether it is as wanted."""
        return self.wanted == self.got

    def __str__(self) -> str:
        """One line for a person."""
        if self.is_right:
            return f"ok     {self.subject}: {self.got}"
        return f"WRONG  {self.subject}: wanted {self.wanted}, got {self.got}. {self.remedy}"
