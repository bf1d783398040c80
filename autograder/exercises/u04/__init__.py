"""Checks of unit 04: memory profiling."""

from autograder.exercises.u04 import (
    allocator,
    fragment,
    moments,
    optimizer_temporaries,
    peak,
    peak_of_line,
    repair_average,
    repair_evaluation,
    repair_samples,
)

CHECKS = {
    "u04-peak-of-line": peak_of_line.PEAK_OF_LINE,
    "u04-moments": moments.MOMENTS,
    "u04-optimizer-temporaries": optimizer_temporaries.TEMPORARIES,
    "u04-peak": peak.PEAKS,
    "u04-repair-evaluation": repair_evaluation.REPAIR_EVALUATION,
    "u04-repair-average": repair_average.REPAIR_AVERAGE,
    "u04-repair-samples": repair_samples.REPAIR_SAMPLES,
    "u04-allocator": allocator.ALLOCATOR,
    "u04-fragment": fragment.FRAGMENT,
}
