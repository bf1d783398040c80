"""Checks of unit 07: mixed precision."""

from autograder.exercises.u07 import (
    autocast_bytes,
    best_scale,
    int8,
    master,
    peak,
    round,
    scaler,
    stochastic,
    stops,
    value,
)

CHECKS = {
    "u07-value": value.VALUE,
    "u07-round": round.ROUNDED,
    "u07-stops": stops.STOPS_AT,
    "u07-master": master.MASTER,
    "u07-scaler": scaler.SCALER,
    "u07-autocast-bytes": autocast_bytes.AUTOCAST_BYTES,
    "u07-peak": peak.PEAK,
    "u07-int8": int8.QUANTISED,
    "u07-stochastic": stochastic.ROUNDED_BY_CHANCE,
    "u07-best-scale": best_scale.BEST_SCALE,
}
