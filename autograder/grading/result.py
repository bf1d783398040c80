"""The result of grading one submission."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autograder.checking.verdict import Verdict

REMARKS_CELL = "remarks-of-the-grader"  # id of the cell of a graded notebook that holds them


@dataclass(frozen=True, kw_only=True)
class SubmissionResult:
    """The result of one submission, as plain data.

    Attributes:
        verdicts: One for each exercise that a check gives points for, in the notebook's order.
        remarks: What a person should know, one sentence each: what was repaired or looks odd.
        needs_human: Why a person has to look before anything of it counts, if so.
        answers: The source of every solution cell, by its exercise.
        cpu_seconds: Processor time of the student's code and the course's cells around it.
    """

    unit: str
    student: str
    verdicts: tuple[Verdict, ...] = ()
    remarks: tuple[str, ...] = ()
    needs_human: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The exercises whose check failed; the points of all others count."""
        return tuple(each.exercise for each in self.verdicts if not each.judged)

    @property
    def for_a_person(self) -> tuple[str, ...]:
        """Why a person has to look: at all of it, or else at single exercises."""
        alone = (each for each in self.verdicts if not each.judged)
        return self.needs_human or tuple(f"{e.exercise}: {e.sentence}" for e in alone)

    @property
    def state(self) -> str:
        """`needs a human`, `graded with remarks` or `graded`."""
        if self.for_a_person:
            return "needs a human"
        return "graded with remarks" if self.remarks else "graded"

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "SubmissionResult":
        """The result that `to_json` wrote."""
        entry: dict[str, Any] = json.loads(line)
        entry.pop("seconds", None)  # of earlier versions
        entry["verdicts"] = tuple(Verdict(**each) for each in entry["verdicts"])
        lists = {name: tuple(entry[name]) for name in ("remarks", "needs_human")}
        return cls(**entry | lists)
