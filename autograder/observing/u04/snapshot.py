"""What a reader of memory snapshots gives, for the snapshot of a script of requests."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from autograder.checking.case_objects import ArgumentChanged
from autograder.checking.exercise_check import Case
from course_utils.reference.allocator_snapshot import snapshot_of, stacks_of


def written(script: list[int], functions: list[str], recorded_from: int) -> dict[str, Any]:
    """The snapshot that a case stands for."""
    return snapshot_of(script, stacks_of(functions), recorded_from)


def observe(answer: Callable[..., Any], case: Case) -> object:
    """The answer's value for the snapshot of a case.

    Raises:
        ArgumentChanged: If the snapshot is another one afterwards.
    """
    snapshot = written(**case)
    kept = deepcopy(snapshot)
    value = answer(snapshot)
    if snapshot != kept:
        raise ArgumentChanged("snapshot")
    return value
