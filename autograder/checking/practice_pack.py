"""What a student's check knows of an exercise: practice cases, what is right, what mistakes give.

The build records a pack from the staff's check, which measures and has the model answer. A check
made of a pack measures nothing but the student's answer; the pack holds numbers, and no code.

Beside it lie new sizes, for an exercise that was passed: cases of another seed and what is right.
What mistakes give there is not recorded, since the answer was right before. The packs of a unit are
one file (`practice_files`).
"""

import importlib
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from autograder import practice_files
from autograder.checking import plain_data
from autograder.checking.exercise_check import Check, call
from autograder.checking.judges import ImplementationJudge, ValueJudge, as_observed
from autograder.checking.mistakes import Number, Numbers, Recorded
from autograder.checking.plain_data import Message, Plain

ROOT = Path(__file__).parents[2]
KEPT = ("observer", "fallback", "give_away", "allowed_names", "forbidden_modules")
OF_MISTAKE = ("hint", "is_complete", "is_generated")
OF_JUDGE = ("relative_tolerance", "questions")


def is_recorded(exercise: str, *, again: bool = False) -> bool:
    """Whether an exercise has a pack, or one with new sizes."""
    return practice_files.is_there(ROOT, exercise, again=again)


def load(exercise: str, *, again: bool = False) -> Check:
    """The check of an exercise that is made of its pack.

    Args:
        exercise: Its id.
        again: Whether on its new sizes.

    Raises:
        FileNotFoundError: If there is no pack of it.
    """
    pack = read(exercise)
    return made_of(pack, read(exercise, again=True) if again else pack)


def made_of(pack: Plain, asked: Plain) -> Check:
    """The check that is made of what packs hold.

    Args:
        pack: Of the exercise.
        asked: The pack with the cases that are asked: the same, or that of new sizes.
    """
    judge = _judge(pack, getattr(_observer(pack), "facts", as_observed))
    judge.cache |= _by_case(asked, asked["right"])
    return Check(cases=lambda seed: deepcopy(asked["cases"]), judge=judge, **_how_observed(pack))


def how_observed(exercise: str) -> dict[str, Any]:
    """The parts of an exercise's check that are about its answer, and not about what is right.

    All else stays packed: numbers and tensors of all exercises take seconds to read.

    Raises:
        FileNotFoundError: If there is no pack of it.
    """
    text, _ = practice_files.text_and_tensors(ROOT, exercise)
    pack = json.loads(text)
    head = json.dumps({name: pack[name] for name in KEPT})
    return _how_observed(plain_data.unpack(Message(head, b"")))


def read(exercise: str, *, again: bool = False) -> Plain:
    """What the pack of an exercise holds, or that of its new sizes.

    Raises:
        FileNotFoundError: If there is none.
    """
    found = practice_files.text_and_tensors(ROOT, exercise, again=again)
    return plain_data.unpack(Message(*found))


def in_columns(numbers: Sequence[Numbers]) -> dict[str, list[Number | None]]:
    """What a mistake gives in each case, by part of the answer; None where it gives nothing."""
    parts = dict.fromkeys(part for each in numbers for part in each)
    return {part: [each.get(part) for each in numbers] for part in parts}


def _how_observed(pack: Plain) -> dict[str, Any]:
    observer = _observer(pack)
    observe = observer.observe if observer else call
    return {"observe": observe} | {name: pack[name] for name in KEPT}


def _observer(pack: Plain) -> Any:
    """The module that observes an answer, or nothing where it is called."""
    return importlib.import_module(pack["observer"]) if pack["observer"] else None


def _judge(pack: Plain, facts: Any) -> ValueJudge:
    mistakes = [
        Recorded(
            **{name: each[name] for name in OF_MISTAKE},
            recorded=_by_case(pack, _by_row(each["numbers"], len(pack["cases"]))),
        )
        for each in pack["mistakes"]
    ]
    settings = {name: pack[name] for name in OF_JUDGE}
    if pack["scenarios"] is None:
        return ValueJudge(_not_recorded, *mistakes, labels=pack["labels"], **settings)
    return ImplementationJudge(
        _not_recorded, *mistakes, facts=facts, scenarios=pack["scenarios"], **settings
    )


def _by_row(columns: dict[str, list[Number | None]], num_cases: int) -> list[Numbers]:
    """What a mistake gives in each case: `in_columns`, undone."""
    rows: list[Numbers] = [{} for _ in range(num_cases)]
    for part, column in columns.items():
        for row, number in zip(rows, column, strict=True):
            if number is not None:
                row[part] = number
    return rows


def _by_case(pack: Plain, values: list[Plain]) -> dict[str, Plain]:
    """Something of each case of a pack, by the case's JSON."""
    keys = [plain_data.key_of(case) for case in pack["cases"]]
    return dict(zip(keys, values, strict=True))


def _not_recorded(**case: Plain) -> Plain:
    raise LookupError(f"no practice case is {case}")
