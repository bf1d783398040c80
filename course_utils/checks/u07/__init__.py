"""Checks of unit 07: mixed precision."""

from course_utils.checks.u07 import rounding, stops, values

CHECKS = {
    "u07-value": values.VALUE,
    "u07-round": rounding.ROUNDED,
    "u07-stops": stops.STOPS_AT,
}
