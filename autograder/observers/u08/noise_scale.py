"""The noise scale of a matrix of gradients."""

from typing import Any

import torch

from autograder.checking.case_objects import ArgumentChanged
from autograder.checking.exercise_check import Case


def observe(answer: Any, case: Case) -> object:
    """What the answer returns for the gradients of a case as a float64 matrix.

    Raises:
        ArgumentChanged: If it writes into the matrix.
    """
    rows = case["gradients"]
    gradients = torch.tensor(rows, dtype=torch.float64)
    noise_scale = answer(gradients)
    if gradients.tolist() != rows:
        raise ArgumentChanged("gradients")
    return noise_scale
