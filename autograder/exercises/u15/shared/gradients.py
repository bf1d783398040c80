"""What several checks say of gradients that ranks share."""

from autograder.observing.replay import LABELS as REPLAY_LABELS

LABELS = REPLAY_LABELS | {
    "calls": "calls to the other ranks",
    "bytes": "bytes in these calls",
    "missing": "gradients that are None afterwards",
    "length": "the length of rank 0's gradient",
    "length_on_last": "the length of the last rank's gradient",
    "wrong_ranks": "ranks without the gradient of the whole batch",
}

# What sums gradients, and so answers these exercises.
TRAINERS = (
    "course_utils.reference.gradient_sync",
    "course_utils.reference.bucketing",
    "torch.nn.parallel.DistributedDataParallel",
)

TOO_SHORT = (
    "Every gradient is too small by a factor of the number of ranks. Each rank's loss is already "
    "its share of the whole batch's: what is left to divide?"
)
NOT_REACHED = (
    "The calls are right, yet each rank still has the gradient of its own rows. Which tensor does "
    "your call write into, and is it the parameter's `grad`?"
)
