"""The checks of unit 09: on gradients, on their buckets, and on the rank that comes late."""

from autograder.exercises.u09 import buckets, gradients, late

__all__ = ["buckets", "gradients", "late"]
