"""Checks of unit 07: mixed precision."""

from course_utils.checks.u07 import (
    autocast,
    best_scale,
    integers,
    master,
    peak,
    rounding,
    scaler,
    stochastic,
    stops,
    values,
)

CHECKS = {
    "u07-value": values.VALUE,
    "u07-round": rounding.ROUNDED,
    "u07-stops": stops.STOPS_AT,
    "u07-master": master.MASTER,
    "u07-scaler": scaler.SCALER,
    "u07-autocast-bytes": autocast.AUTOCAST_BYTES,
    "u07-peak": peak.PEAK,
    "u07-int8": integers.QUANTISED,
    "u07-stochastic": stochastic.ROUNDED_BY_CHANCE,
    "u07-best-scale": best_scale.BEST_SCALE,
}
