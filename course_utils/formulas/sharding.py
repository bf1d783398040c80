"""What does a rank keep and send if the state is sharded, and what hides a gather?

Stages as in ZeRO: 0 shards nothing, 1 the optimizer's state, 2 gradients too, 3 weights too. Each
of d ranks holds a part of ``ceil(N / d)`` numbers, the last ones padded.

    >>> sharded_state_bytes(7_500_000_000, 64, 2, "bf16")["gradients"]
    234375000
    >>> step_sent_bytes(1000, 4, 3, 1, 2)
    4500

Sources: Rajbhandari et al. 2020, ZeRO, sections 5 and 7; Zhao et al. 2023, PyTorch FSDP.
"""

from fractions import Fraction
from math import ceil

from course_utils.configs import BF16_BYTES
from course_utils.formulas.memory import state_bytes_of_recipe


def sharded_state_bytes(num_params: int, num_ranks: int, stage: int, recipe: str) -> dict[str, int]:
    """Bytes that a rank keeps from step to step: in bf16 from ``16 N`` down to ``16 N / d``.

    Args:
        num_params: Parameters N.
        num_ranks: Ranks d that share them.
        stage: From 0 to 3.
        recipe: Name of a precision.

    Returns:
        ``weights``, ``gradients`` and ``optimizer``.
    """
    part = -(-num_params // num_ranks)
    numbers = {
        "weights": part if stage == 3 else num_params,
        "gradients": part if stage >= 2 else num_params,
        "optimizer": part if stage >= 1 else num_params,
    }
    of_one = state_bytes_of_recipe(1, recipe)
    return {name: of_one[name] * numbers[name] for name in numbers}


def step_sent_bytes(
    num_params: int, num_ranks: int, stage: int, num_micro_batches: int, element_bytes: int
) -> int:
    """Bytes that a rank sends in a step: ``(d - 1) / d`` of the weights' bytes, 2 to 3 m times.

    Args:
        num_params: Parameters, a multiple of the ranks.
        num_ranks: Ranks d.
        stage: From 0 to 3.
        num_micro_batches: Micro-batches m of a rank in the step.
        element_bytes: Of a weight and of a gradient.

    Raises:
        ValueError: If there is no such stage.
    """
    if stage not in range(4):
        raise ValueError(f"wanted a stage from 0 to 3, got {stage}")
    rounds = (2, 2, num_micro_batches + 1, 3 * num_micro_batches)[stage]
    return rounds * (num_ranks - 1) * (num_params // num_ranks) * element_bytes


def gather_hiding_tokens(
    num_weights: int,
    num_ranks: int,
    bytes_per_second: int,
    latency_ns: int,
    flops_per_second: int,
) -> int:
    """Fewest tokens of a rank whose product with a weight is as long as gathering the next one.

    ``((d - 1) L + (d - 1) / d S / W) F / (2 n)``, rounded up.

    Args:
        num_weights: Numbers n of a weight matrix, S = 2 n bytes in bf16.
        num_ranks: Ranks d that share it.
        bytes_per_second: Bandwidth W of a link.
        latency_ns: Latency L of a message, in nanoseconds.
        flops_per_second: Rate F of a device.
    """
    messages = num_ranks - 1
    latency = Fraction(messages * latency_ns, 10**9)
    passing = Fraction(messages * num_weights * BF16_BYTES, num_ranks * bytes_per_second)
    return ceil((latency + passing) * flops_per_second / (2 * num_weights))
