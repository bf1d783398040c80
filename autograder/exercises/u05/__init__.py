"""Checks of unit 05: activation recomputation."""

from autograder.exercises.u05 import (
    checkpoint,
    loss_in_pieces,
    plan,
    policy,
    recomputed_flops,
    segment_peak,
    segments,
    selective_bytes,
)

CHECKS = {
    "u05-checkpoint": checkpoint.CHECKPOINT,
    "u05-segments": segments.SEGMENTS,
    "u05-loss-in-pieces": loss_in_pieces.LOSS_IN_PIECES,
    "u05-segment-peak": segment_peak.SEGMENT_BYTES,
    "u05-recomputed-flops": recomputed_flops.RECOMPUTED_FLOPS,
    "u05-policy": policy.POLICY,
    "u05-plan": plan.PLAN,
    "u05-best-segment": segment_peak.BEST_SEGMENT,
    "u05-selective-bytes": selective_bytes.KEPT_BYTES,
}
