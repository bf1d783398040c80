"""Checks judge answers: cases, probes, judges and the hints that they give."""

from course_utils.checks.prediction import compare, predict
from course_utils.checks.progress import progress
from course_utils.checks.run import answer, check, grade

__all__ = ["answer", "check", "compare", "grade", "predict", "progress"]
