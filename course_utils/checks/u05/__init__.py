"""Checks of unit 05: activation recomputation."""

from course_utils.checks.u05 import checkpoint, pieces, segments

CHECKS = {
    "u05-checkpoint": checkpoint.CHECKPOINT,
    "u05-segments": segments.SEGMENTS,
    "u05-loss-in-pieces": pieces.LOSS_IN_PIECES,
}
