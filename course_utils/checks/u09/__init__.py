"""Checks of unit 09: data parallelism."""

from course_utils.checks.u09 import begin, buckets, hidden, together, unused

CHECKS = {
    "u09-buckets": buckets.BACKWARD_IN_BUCKETS,
    "u09-no-sync": together.ACCUMULATE_TOGETHER,
    "u09-hidden": hidden.MIN_TOKENS,
    "u09-dropout": begin.START_EQUAL,
    "u09-unused": unused.BACKWARD_WITH_UNUSED,
}
