"""Checks of unit 04: memory profiling."""

from course_utils.checks.u04 import line, moments, optimizer, peak

CHECKS = {
    "u04-peak-of-line": line.PEAK_OF_LINE,
    "u04-moments": moments.MOMENTS,
    "u04-optimizer-temporaries": optimizer.TEMPORARIES,
    "u04-peak": peak.PEAKS,
}
