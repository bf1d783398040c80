"""Checks, grades and everything around a student's notebook.

Notebooks import `check`, `grade`, `answer`, `predict`, `compare`, `progress`, `plan`, `report` and
`original` from here. Each is loaded on first use, because the command line imports this file too,
before anything is installed. Every Python since 2.7 must be able to read it: types in comments, no
f-string.
"""

import importlib

# For mypy, and for `authoring.dependencies`, which follows these imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from autograder.checking.check import answer, check, grade
    from autograder.checking.prediction import compare, predict
    from autograder.checking.progress import progress
    from autograder.planning.card import plan, report
    from autograder.student.pristine_cells import original

__all__ = [
    "answer",
    "check",
    "compare",
    "grade",
    "original",
    "plan",
    "predict",
    "progress",
    "report",
]

MODULES = {
    "answer": "checking.check",
    "check": "checking.check",
    "compare": "checking.prediction",
    "grade": "checking.check",
    "original": "student.pristine_cells",
    "plan": "planning.card",
    "predict": "checking.prediction",
    "progress": "checking.progress",
    "report": "planning.card",
}


def __getattr__(name):
    # type: (str) -> object
    """Load one of the notebooks' functions on first use."""
    if name not in MODULES:
        raise AttributeError("module 'autograder' has no attribute " + repr(name))
    value = getattr(importlib.import_module("autograder." + MODULES[name]), name)
    globals()[name] = value
    return value
