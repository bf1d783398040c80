"""Checks of unit 04: memory profiling."""

from course_utils.checks.u04 import (
    allocator,
    average,
    evaluation,
    fragment,
    line,
    moments,
    optimizer,
    peak,
    samples,
)

CHECKS = {
    "u04-peak-of-line": line.PEAK_OF_LINE,
    "u04-moments": moments.MOMENTS,
    "u04-optimizer-temporaries": optimizer.TEMPORARIES,
    "u04-peak": peak.PEAKS,
    "u04-repair-evaluation": evaluation.REPAIR_EVALUATION,
    "u04-repair-average": average.REPAIR_AVERAGE,
    "u04-repair-samples": samples.REPAIR_SAMPLES,
    "u04-allocator": allocator.ALLOCATOR,
    "u04-fragment": fragment.FRAGMENT,
}
