"""A cache on disk of what the judges measure for the hidden cases.

For some units measuring takes longer than grading a submission. The files lie in `grading/`,
where no student's code can read them, and hold for the same cases and the same course only.
"""

import contextlib
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable
from pathlib import Path

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import ValueJudge
from autograder.checking.plain_data import Message, Plain
from autograder.files import write_whole
from autograder.grading import course_version

_folders: list[Path] = []


def use_folder(folder: Path) -> None:
    """Cache in this folder what this process measures."""
    _folders[:] = [folder]


def measure(check: Check, name: str, cases: Iterable[Case]) -> None:
    """Have the judge of a check measure these cases, or read the values from the cache."""
    folder, judge = next(iter(_folders), None), check.judge
    if not isinstance(judge, ValueJudge):
        return  # it measures each case when it judges it
    case_of = {plain_data.key_of(case): case for case in cases}
    if folder is None:
        for case in case_of.values():
            judge.measurement(case)
        return
    path, fingerprint = folder / f"{name}.json", _fingerprint(case_of)
    judge.cache |= _read(path, fingerprint)
    if case_of.keys() <= judge.cache.keys():
        return
    values = {key: plain_data.pack(judge.measurement(case)).json for key, case in case_of.items()}
    with contextlib.suppress(OSError):  # without a cache it is measured again
        write_whole(path, json.dumps({"of": fingerprint, "measured": values}))


def _fingerprint(names: Iterable[str]) -> str:
    parts = [course_version.of_course(), importlib.metadata.version("torch"), *names]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read(path: Path, fingerprint: str) -> dict[str, Plain]:
    """The cached values, or nothing if they belong to other cases or cannot be read."""
    try:
        cached = json.loads(path.read_text(encoding="utf-8"))
        if cached["of"] != fingerprint:
            return {}
        return {
            case: plain_data.unpack(Message(text, b"")) for case, text in cached["measured"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
