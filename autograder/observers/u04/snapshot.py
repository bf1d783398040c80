"""What a reader of memory snapshots gives for a snapshot that comes as a file.

The snapshot is written where the judge is: beside a student's code there is no allocator that could
write one.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from autograder.checking import plain_data
from autograder.checking.case_objects import ArgumentChanged
from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Message


def as_file(snapshot: dict[str, Any]) -> Tensor:
    """A snapshot as the bytes of a file, so that a case in words names only a few of them."""
    return torch.tensor([*plain_data.pack(snapshot).json.encode()], dtype=torch.uint8)


def observe(answer: Callable[..., Any], case: Case) -> object:
    """The answer's value for the snapshot in the file of a case.

    Raises:
        ArgumentChanged: If the snapshot is another one afterwards.
    """
    snapshot = plain_data.unpack(Message(bytes(case["file"].tolist()).decode(), b""))
    kept = deepcopy(snapshot)
    value = answer(snapshot)
    if snapshot != kept:
        raise ArgumentChanged("snapshot")
    return value
