"""What would answer exercises of this unit, and sizes beyond what a float holds."""

import random

# What counts saved bytes, builds a whole layer or a whole state, or is asked for itself.
COUNTERS = (
    "course_utils.instruments.saved_bytes",
    "course_utils.reference.transformer",
    "course_utils.reference.layers",
    "course_utils.reference.mixed_precision",
)


def just_above(power: int, rng: random.Random) -> int:
    """An odd size a little larger than a power of two, whose products no float holds."""
    return int(2**power + rng.randrange(1, 511, 2))
