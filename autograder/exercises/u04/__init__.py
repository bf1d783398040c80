"""The checks of unit 04: when does memory run out?"""

from autograder.exercises.u04 import allocator, leaks, recorded, snapshot, steps

__all__ = ["allocator", "leaks", "recorded", "snapshot", "steps"]
