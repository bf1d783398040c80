"""Checks of unit 08: gradient accumulation and batch size."""

from course_utils.checks.u08 import noise, schedule, tradeoff

CHECKS = {
    "u08-noise-scale": noise.NOISE_SCALE,
    "u08-two-batch": noise.TWO_BATCH,
    "u08-tradeoff": tradeoff.TRADEOFF,
    "u08-power-law": tradeoff.POWER_LAW,
    "u08-schedule": schedule.SCHEDULE,
}
