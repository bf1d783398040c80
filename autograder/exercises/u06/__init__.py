"""The checks of unit 06: attention without the matrix."""

from autograder.exercises.u06 import counts, programs, rates

__all__ = ["counts", "programs", "rates"]
