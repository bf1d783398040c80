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
    "Every gradient is too short by a factor, the number of ranks. Each rank's loss is its share "
    "of the whole batch's: what does your division divide?"
)
NOT_REACHED = (
    "The calls are right, and each rank still has the gradient of its own rows. Into which tensor "
    "does a call write, and what is it to the parameter?"
)
