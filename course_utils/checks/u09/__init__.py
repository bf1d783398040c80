"""Checks of unit 09: data parallelism."""

from course_utils.checks.u09 import after_backward, mean, ring

CHECKS = {
    "u09-global-mean": mean.SHARE_OF_MEAN,
    "u09-ring": ring.RING_ALL_REDUCE,
    "u09-each": after_backward.BACKWARD_EACH,
    "u09-flat": after_backward.BACKWARD_FLAT,
}
