"""Checks of unit 09: data parallelism."""

from autograder.exercises.u09 import (
    after_backward,
    buckets,
    dropout,
    global_mean,
    hidden,
    memory,
    no_sync,
    ring,
    unused,
)

CHECKS = {
    "u09-global-mean": global_mean.SHARE_OF_MEAN,
    "u09-ring": ring.RING_ALL_REDUCE,
    "u09-each": after_backward.BACKWARD_EACH,
    "u09-flat": after_backward.BACKWARD_FLAT,
    "u09-buckets": buckets.BACKWARD_IN_BUCKETS,
    "u09-no-sync": no_sync.ACCUMULATE_TOGETHER,
    "u09-hidden": hidden.MIN_TOKENS,
    "u09-dropout": dropout.START_EQUAL,
    "u09-memory": memory.MAKE_BUCKETS,
    "u09-unused": unused.BACKWARD_WITH_UNUSED,
}
