"""The checks of unit 09: on gradients, and on their buckets."""

from autograder.exercises.u09 import buckets, gradients

__all__ = ["buckets", "gradients"]
