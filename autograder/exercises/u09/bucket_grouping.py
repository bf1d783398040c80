"""Gradients to buckets: as the exercise wants it, and as people get it wrong."""

from collections.abc import Sequence

from autograder.exercises.u09.backward_steps import Ready

Buckets = Sequence[Ready]


def greedy(gradients: Buckets, bucket_bytes: float, *, has_rest: bool = True) -> list[Ready]:
    """As the exercise wants them: a bucket is sent when it is full, and what is left at the end."""
    buckets, held = [], 0
    for number, (num_bytes, seconds) in enumerate(gradients, 1):
        held += num_bytes
        if held >= bucket_bytes or (has_rest and number == len(gradients)):
            buckets.append(Ready(held, seconds))
            held = 0
    return buckets


def at_most(gradients: Buckets, bucket_bytes: int) -> list[Ready]:
    """A bucket is sent when the next gradient would make it larger than wanted."""
    buckets, held = [], 0
    for num_bytes, seconds in gradients:
        if held and held + num_bytes > bucket_bytes:
            buckets.append(Ready(held, seconds))
            held = 0
        held += num_bytes
    return [*buckets, Ready(held, gradients[-1].seconds)]


def never_reset(gradients: Buckets, bucket_bytes: int) -> list[Ready]:
    """From the first full bucket on each gradient is sent by itself."""
    first, *_ = greedy(gradients, bucket_bytes)
    rest = [each for each in gradients if each.seconds > first.seconds]
    return [first, *rest]


def never_cleared(gradients: Buckets, bucket_bytes: int) -> list[Ready]:
    """From the first full bucket on everything is sent again with each gradient, and at the end."""
    first, *rest = never_reset(gradients, bucket_bytes)
    made = [first]
    for num_bytes, seconds in rest:
        made.append(Ready(made[-1].num_bytes + num_bytes, seconds))
    return [*made, made[-1]]
