"""How many bytes are live at which moment of a training step, and at most?

Conventions: an operation has a number from 1, and 0 is the moment before the first; training is in
fp32 with AdamW, whose running means come with its first step. The allocator's rounding is left out.

    >>> peak_of_storages([(0, None, 60), (1, 4, 24), (3, 6, 40)], 5)
    {'peak_bytes': 124, 'operation': 3, 'end_bytes': 100}
    >>> live_at_moments(10, 2, 100, 2, True)["after_forward"]
    228

Sources: lecture E (E6, E8), lecture S (S10).
"""

from collections.abc import Sequence
from itertools import accumulate

from course_utils.configs import FP32_BYTES, ModelConfig


def peak_of_storages(
    storages: Sequence[tuple[int, int | None, int]], num_operations: int
) -> dict[str, int]:
    """Peak and end of the line of live bytes that storages draw.

    Args:
        storages: Of each the operation that made it, the first one after it was freed or None if it
            outlives them all, and its bytes.
        num_operations: Number of the last operation.

    Returns:
        ``peak_bytes``, the first ``operation`` at which they are live, and ``end_bytes``.
    """
    changes = [0] * (num_operations + 2)
    for born, died, num_bytes in storages:
        changes[born] += num_bytes
        if died is not None:
            changes[died] -= num_bytes
    live = list(accumulate(changes[:-1]))
    peak = max(live)
    return {"peak_bytes": peak, "operation": live.index(peak), "end_bytes": live[-1]}


def live_at_moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_freed: bool
) -> dict[str, int]:
    """Bytes live at four moments of a training step in fp32 with AdamW.

    Weights ``4 N``, gradients ``4 N``, running means ``8 N`` and a count of steps for each tensor.

    Args:
        num_params: Parameters N.
        num_tensors: Tensors in which they lie.
        kept_bytes: What the forward pass leaves live.
        step: Number of the training step, from 1.
        is_grad_freed: Whether gradients are freed after each step, or set to zero.

    Returns:
        ``before_forward``, ``after_forward``, ``after_backward`` and ``after_step``.
    """
    weights = gradients = FP32_BYTES * num_params
    states = FP32_BYTES * (2 * num_params + num_tensors)
    left_gradients = 0 if is_grad_freed else gradients
    there = weights + (states if step > 1 else 0)
    before = there + (left_gradients if step > 1 else 0)
    return {
        "before_forward": before,
        "after_forward": before + kept_bytes,
        "after_backward": there + gradients,
        "after_step": weights + states + left_gradients,
    }


def live_at_candidates(
    model: ModelConfig, num_params: int, kept_bytes: int, num_tokens: int, temporary_bytes: int
) -> dict[str, int]:
    """Bytes live at the three moments where a step of a Llama in fp32 with AdamW can peak.

    At the loss two gradients as large as the logits; at the end of the backward pass all gradients
    and what the embedding's was made from: two parts where it is tied, else the hidden states'.

    Args:
        model: Supplies ``vocab_size``, ``hidden_size`` and ``is_tied``.
        num_params: Parameters N.
        kept_bytes: What the forward pass leaves live.
        num_tokens: Tokens of the batch.
        temporary_bytes: What the optimizer needs for a moment.

    Returns:
        ``loss``, ``backward`` and ``step``; tensors of a single number are left out.
    """
    state, gradients = 3 * FP32_BYTES * num_params, FP32_BYTES * num_params
    rows = 2 * model.vocab_size if model.is_tied else num_tokens
    return {
        "loss": state + kept_bytes + 2 * FP32_BYTES * num_tokens * model.vocab_size,
        "backward": state + gradients + FP32_BYTES * model.hidden_size * rows,
        "step": state + gradients + temporary_bytes,
    }
