"""What does it take to serve a model: memory for its cache, bytes for each step, tokens per second?

Letters: b sequences of t cached tokens, L layers, a query heads, a_kv key and value heads, d head
dimension, E experts of which each token chooses k.

    >>> cache_bytes(preset("Llama-3-8B"), 1, 8192, element_bytes=2)
    1073741824
    >>> expected_experts(num_experts=8, experts_per_token=2, num_tokens=4)
    5.46875

Conventions: weights and cache in bf16 unless a width is given; a step of decoding reads each weight
that it uses once for the whole batch; routing is uniform; latent attention is absorbed.

Sources: Ainslie et al. 2023 (grouped queries); DeepSeek-AI 2024, DeepSeek-V2, section 2.1 (latent
attention); Leviathan et al. 2023, section 3 (speculative decoding).
"""

import math
from collections.abc import Sequence

from course_utils.configs import BF16_BYTES, Device, ModelConfig
from course_utils.configs.validation import require_positive
from course_utils.formulas.parameters import active_parameters, parameters


def cached_numbers(model: ModelConfig) -> int:
    """Numbers that one layer caches for one token: ``2 a_kv d``, or a latent and a rotary key."""
    latent = model.latent_attention
    if latent is not None:
        return latent.kv_rank + latent.rope_head_dim
    return 2 * model.num_kv_heads * model.head_dim


def cache_bytes(
    model: ModelConfig, num_sequences: int, context: int, element_bytes: int, window: int = 0
) -> int:
    """Bytes of the cache of all layers and sequences: ``e b t L`` times the numbers of a token.

    Args:
        model: With grouped-query or latent attention.
        num_sequences: Sequences b.
        context: Tokens t of each.
        element_bytes: Bytes e of a number.
        window: Last tokens that a query may see, if not all; earlier ones are not kept.
    """
    require_positive("cache_bytes", num_sequences=num_sequences, context=context)
    kept = min(context, window) if window else context
    return element_bytes * num_sequences * kept * model.num_layers * cached_numbers(model)


def expected_experts(num_experts: int, experts_per_token: int, num_tokens: int) -> float:
    """Experts that some tokens reach together, if each chooses at random: ``E (1 - (1 - k/E)^n)``.

    Args:
        num_experts: Experts E.
        experts_per_token: Different experts k that each token chooses.
        num_tokens: Tokens n.
    """
    missed_fraction = (1 - experts_per_token / num_experts) ** num_tokens
    return num_experts * (1 - missed_fraction)


def speculation(acceptance: float, draft_cost: float, draft_length: int) -> dict[str, float]:
    """Tokens of a pass with drafts, and how many times as many tokens a second that makes.

    Args:
        acceptance: Chance that a drafted token is accepted, each on its own.
        draft_cost: Time of one pass of the draft model, in passes of the large one.
        draft_length: Tokens that are drafted before each pass of the large model.

    Returns:
        ``tokens``, the sum of ``acceptance**i`` up to the draft length, and ``speedup``.
    """
    tokens = math.fsum(acceptance**i for i in range(draft_length + 1))
    return {"tokens": tokens, "speedup": tokens / (draft_length * draft_cost + 1)}


def capacity_losses(
    choices: Sequence[Sequence[int]], num_experts: int, capacity: int
) -> dict[str, int]:
    """What is lost where each expert takes at most ``capacity`` tokens, first choices first.

    Args:
        choices: The experts of each token, the best first.
        num_experts: Experts that there are.
        capacity: Places of each expert.

    Returns:
        ``dropped`` choices; ``lost_tokens``, which no expert took; ``empty_places``.
    """
    places = [capacity] * num_experts
    taken = [0] * len(choices)
    for rank in range(max(map(len, choices), default=0)):
        for token, experts in enumerate(choices):
            if rank < len(experts) and places[experts[rank]]:
                places[experts[rank]] -= 1
                taken[token] += 1
    return {
        "dropped": sum(map(len, choices)) - sum(taken),
        "lost_tokens": taken.count(0),
        "empty_places": sum(places),
    }


def weights_read(model: ModelConfig, num_sequences: int) -> float:
    """Parameters that a step of decoding reads: all but the embedding and experts not reached."""
    parts = parameters(model)
    read: float = sum(parts.values()) - (0 if model.is_tied else parts["embedding"])
    if model.experts is not None:
        sizes = model.experts
        reached = expected_experts(sizes.num_experts, sizes.experts_per_token, num_sequences)
        layers = model.num_layers - sizes.num_dense_layers
        expert = 3 * model.hidden_size * sizes.expert_ffn_size
        read -= layers * (sizes.num_experts - reached) * expert
    return read


def served_bytes(model: ModelConfig, num_sequences: int, context: int) -> int:
    """Bytes that all parameters and the cache take on a device, in bf16."""
    cache = cache_bytes(model, num_sequences, context, BF16_BYTES)
    return BF16_BYTES * sum(parameters(model).values()) + cache


def served_tokens_per_second(
    model: ModelConfig, hardware: Device, num_sequences: int, context: int
) -> float:
    """Tokens per second of all sequences that a device can decode at best, in bf16.

    A step reads weights and cache and computes its products, whichever takes longer. Whether it
    fits is `served_bytes`.
    """
    weights = BF16_BYTES * weights_read(model, num_sequences)
    moved = weights + cache_bytes(model, num_sequences, context, BF16_BYTES)
    seconds = max(
        moved / hardware.bandwidth_bytes_per_second,
        num_sequences * _flops_per_token(model, context) / hardware.dense_flops_per_second("bf16"),
    )
    return num_sequences / seconds


def _flops_per_token(model: ModelConfig, context: int) -> int:
    parts = active_parameters(model)
    weights = sum(parts.values()) - (0 if model.is_tied else parts["embedding"])
    latent = model.latent_attention
    # A score and a weighted sum for each cached token and head.
    numbers = 2 * model.head_dim if latent is None else 2 * latent.kv_rank + latent.rope_head_dim
    return 2 * weights + 2 * model.num_layers * model.num_heads * numbers * context
