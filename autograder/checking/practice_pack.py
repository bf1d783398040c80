"""What a student's check knows of an exercise: practice cases, what is right, what mistakes give.

The build records a pack from the staff's check, which measures and has the model answer. A check
made of a pack measures nothing but the student's answer; the pack holds numbers, and no code.
"""

import importlib
from copy import deepcopy
from pathlib import Path
from typing import Any

from autograder import catalogue
from autograder.checking import plain_data
from autograder.checking.exercise_check import Check, call
from autograder.checking.judges import Behaviour, EqualTo
from autograder.checking.mistakes import Recorded
from autograder.checking.plain_data import Message, Plain

ROOT = Path(__file__).parents[2]
KEPT = ("fallback", "answers", "allowed_names", "forbidden_modules")
OF_MISTAKE = ("hint", "is_whole", "is_generated")
OF_JUDGE = ("relative_tolerance", "labels", "questions")


def load(exercise: str) -> Check:
    """The check of an exercise that is made of its pack.

    Raises:
        FileNotFoundError: If there is no pack of it.
    """
    path = path_of(exercise)
    tensors = path.with_suffix(".safetensors")
    message = Message(path.read_text("utf-8"), tensors.read_bytes() if tensors.exists() else b"")
    pack = plain_data.unpack(message)
    observer = importlib.import_module(pack["observer"]) if pack["observer"] else None
    return Check(
        cases=lambda seed: deepcopy(pack["cases"]),
        judge=_judge(pack, getattr(observer, "summarise", None)),
        observe=observer.observe if observer else call,
        **{name: pack[name] for name in KEPT},
    )


def _judge(pack: Plain, summarise: Any) -> EqualTo:
    keys = [plain_data.pack(case).json for case in pack["cases"]]
    mistakes = [
        Recorded(
            **{name: each[name] for name in OF_MISTAKE},
            recorded=dict(zip(keys, each["numbers"], strict=True)),
        )
        for each in pack["mistakes"]
    ]
    settings = {name: pack[name] for name in OF_JUDGE}
    judge = (
        EqualTo(_not_recorded, *mistakes, **settings)
        if pack["scenarios"] is None
        else Behaviour(
            _not_recorded,
            *mistakes,
            **settings,
            scenarios=pack["scenarios"],
            summarise=summarise,
        )
    )
    judge.cache |= dict(zip(keys, pack["right"], strict=True))
    return judge


def _not_recorded(**case: Plain) -> Plain:
    raise LookupError(f"no practice case is {case}")


def path_of(exercise: str) -> Path:
    """Where the pack of an exercise lies."""
    return ROOT / catalogue.exercise(exercise).practice_pack
