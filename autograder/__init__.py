"""Checks, grades and everything around a student's notebook.

A notebook takes the calls of its cells from here: `check`, `grade`, `answer`, `predict`, `compare`,
`progress`, `original`. They are loaded at their first use: the command line starts with this file
too, before anything is installed, and with whatever Python a person has.
"""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from autograder.checking.notebook_calls import answer, check, grade
    from autograder.checking.prediction import compare, predict
    from autograder.checking.progress import progress
    from autograder.student.pristine_cells import original

__all__ = ["answer", "check", "compare", "grade", "original", "predict", "progress"]

HOMES = {
    "answer": "checking.notebook_calls",
    "check": "checking.notebook_calls",
    "compare": "checking.prediction",
    "grade": "checking.notebook_calls",
    "original": "student.pristine_cells",
    "predict": "checking.prediction",
    "progress": "checking.progress",
}


def __getattr__(name):
    # type: (str) -> object
    """Load a call of a notebook at its first use."""
    if name not in HOMES:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    value = getattr(importlib.import_module("autograder." + HOMES[name]), name)
    globals()[name] = value
    return value
