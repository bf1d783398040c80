"""Checks of unit 04: memory profiling."""

from course_utils.checks.u04 import allocator, loops

CHECKS = {
    "u04-repair-evaluation": loops.REPAIR_EVALUATION,
    "u04-repair-average": loops.REPAIR_AVERAGE,
    "u04-repair-samples": loops.REPAIR_SAMPLES,
    "u04-allocator": allocator.ALLOCATOR,
    "u04-fragment": allocator.FRAGMENT,
}
