"""Checks of unit 08: gradient accumulation and batch size."""

from course_utils.checks.u08 import (
    accumulation,
    buffers,
    configuration,
    noise,
    schedule,
    tradeoff,
    training,
    weights,
)

CHECKS = {
    "u08-mean-of-means": weights.TOKEN_WEIGHTS,
    "u08-accumulate": accumulation.ACCUMULATE,
    "u08-train": training.TRAIN,
    "u08-configure": configuration.CONFIGURATION,
    "u08-noise-scale": noise.NOISE_SCALE,
    "u08-two-batch": noise.TWO_BATCH,
    "u08-tradeoff": tradeoff.TRADEOFF,
    "u08-power-law": tradeoff.POWER_LAW,
    "u08-buffer": buffers.SUM_IN_FP32,
    "u08-schedule": schedule.SCHEDULE,
}
