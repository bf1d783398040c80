"""How long does a training step take at a steady rate?

>>> step_seconds(4, 1000, flops_per_token=6 * 10**9, flops_per_second=10**14)
0.24
"""


def step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """Seconds of one training step: ``b * s * FLOPs per token / (FLOP/s)``.

    Assumes that the rate is the one achieved, not a peak.

    Args:
        num_sequences: Sequences b in the step's batch.
        seq_len: Tokens s of each sequence.
        flops_per_token: FLOPs, a count, spent on one token.
        flops_per_second: FLOP/s, the rate achieved.

    Returns:
        A time in seconds.
    """
    return num_sequences * seq_len * flops_per_token / flops_per_second
