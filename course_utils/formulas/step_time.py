"""How long do a training step and a whole run take at a steady rate?

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


def days_and_cost(
    num_tokens: int,
    tokens_per_step: int,
    step_seconds: float,
    num_devices: int,
    usd_per_device_hour: float,
) -> dict[str, float]:
    """What a whole run takes, in steps of which the last may not be full.

    Args:
        num_tokens: Tokens to train on.
        tokens_per_step: After which the weights change once.
        step_seconds: Of one step, all devices at work.
        num_devices: How many.
        usd_per_device_hour: Price of one of them.

    Returns:
        ``days``, ``device_hours`` and ``usd``.
    """
    hours = -(-num_tokens // tokens_per_step) * step_seconds / 3600
    device_hours = hours * num_devices
    return {
        "days": hours / 24,
        "device_hours": device_hours,
        "usd": device_hours * usd_per_device_hour,
    }
