"""The checks of unit 14: which configuration?"""

from autograder.exercises.u14 import budget, counts, memory, plan, sweep

__all__ = ["budget", "counts", "memory", "plan", "sweep"]
