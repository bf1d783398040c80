"""Checks of unit 07: mixed precision."""

from course_utils.checks.u07 import autocast, best_scale, master, peak, scaler

CHECKS = {
    "u07-master": master.MASTER,
    "u07-scaler": scaler.SCALER,
    "u07-autocast-bytes": autocast.AUTOCAST_BYTES,
    "u07-peak": peak.PEAK,
    "u07-best-scale": best_scale.BEST_SCALE,
}
