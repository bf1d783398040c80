"""Checks of unit 08: gradient accumulation and batch size."""

from autograder.exercises.u08 import (
    accumulate,
    buffer,
    configure,
    mean_of_means,
    noise,
    schedule,
    tradeoff,
    train,
)

CHECKS = {
    "u08-mean-of-means": mean_of_means.TOKEN_WEIGHTS,
    "u08-accumulate": accumulate.ACCUMULATE,
    "u08-train": train.TRAIN,
    "u08-configure": configure.CONFIGURATION,
    "u08-noise-scale": noise.NOISE_SCALE,
    "u08-two-batch": noise.TWO_BATCH,
    "u08-tradeoff": tradeoff.TRADEOFF,
    "u08-power-law": tradeoff.POWER_LAW,
    "u08-buffer": buffer.SUM_IN_FP32,
    "u08-schedule": schedule.SCHEDULE,
}
