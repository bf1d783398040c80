"""How many bytes are live at which moment of a training step, and at most?

Conventions: training is in fp32 with AdamW, whose running means come with its first step. The
allocator's rounding is left out.

    >>> peak_of_changes([(0, "state", 50), (1, "kept", 40), (2, "kept", 0)])["peak_bytes"]
    90
    >>> live_at_moments(10, 2, 100, 2, True)["after_forward"]
    228

Sources: lecture E (E6, E8), lecture S (S10).
"""

from collections.abc import Mapping, Sequence

from course_utils.configs import FP32_BYTES, ModelConfig


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


def peak_of_changes(
    changes: Sequence[tuple[int, str, int]], avoided: Sequence[str] = ()
) -> dict[str, int]:
    """Peak of a timeline by category, and how much lower it is without some of the categories.

    A category has the bytes of its last change, and none before its first; what changes at the same
    moment changes at once.

    Args:
        changes: In order of time: when, in microseconds, which category has how many bytes from
            then on.
        avoided: Categories that a fix never makes.

    Returns:
        ``peak_bytes``, ``peak_us``, the first moment at which they are live, and ``saved_bytes``.
    """
    live: dict[str, int] = {}
    totals: dict[int, int] = {}
    rests: dict[int, int] = {}
    for time_us, category, num_bytes in changes:
        live[category] = num_bytes
        totals[time_us] = sum(live.values())
        rests[time_us] = totals[time_us] - sum(live.get(name, 0) for name in {*avoided})
    peak_us = max(totals, key=totals.__getitem__)
    peak = totals[peak_us]
    return {"peak_bytes": peak, "peak_us": peak_us, "saved_bytes": peak - max(rests.values())}


def left_after_fixes(
    error: Mapping[str, int], live: Mapping[str, int], run: Mapping[str, int]
) -> dict[str, int]:
    """Bytes left on a device after a request that failed in the loss, under each of four fixes.

    ``free + saved - request``, less AdamW's two running averages from the second step on.

    Args:
        error: ``requested``, ``free``, ``reserved`` and ``allocated`` bytes.
        live: The allocated ones by what they are for: ``weights``, ``gathered weights``, and what
            grows with the tokens: ``layer inputs``, ``layers``, ``bf16 logits``, ``fp32 logits``
            and ``others``.
        run: ``num_layers``; ``num_checkpointed``, those of them that keep only their input;
            ``num_chunks`` of a loss that is computed one after the other; ``step``, from 1.

    Returns:
        ``expandable``, ``half_batch``, ``checkpoint_all`` and ``chunked_loss``; less than nothing
        where the request fails again.
    """
    num_checkpointed, num_chunks = run["num_checkpointed"], run["num_chunks"]
    averages = 2 * live["weights"] if run["step"] > 1 else 0
    free, request = error["free"] - averages, error["requested"]
    of_tokens = sum(live.values()) - live["weights"] - live["gathered weights"]
    new_inputs = (run["num_layers"] - num_checkpointed) * (live["layer inputs"] // num_checkpointed)
    chunk = live["fp32 logits"] // num_chunks
    return {
        "expandable": free + error["reserved"] - error["allocated"] - request,
        "half_batch": free + of_tokens // 2 - request // 2,
        "checkpoint_all": free + live["layers"] - new_inputs - request,
        "chunked_loss": free + live["fp32 logits"] - chunk - request // num_chunks,
    }
