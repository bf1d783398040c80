"""The checks of unit 14: which configuration?"""

from autograder.exercises.u14 import counts, memory, plan, sweep

__all__ = ["counts", "memory", "plan", "sweep"]
