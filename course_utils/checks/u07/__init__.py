"""Checks of unit 07: mixed precision."""

from course_utils.checks.u07 import integers, rounding, stochastic, stops, values

CHECKS = {
    "u07-value": values.VALUE,
    "u07-round": rounding.ROUNDED,
    "u07-stops": stops.STOPS_AT,
    "u07-int8": integers.QUANTISED,
    "u07-stochastic": stochastic.ROUNDED_BY_CHANCE,
}
