"""What do layers take that keep fewer keys and values, or send a token to few of their experts?

Letters: h hidden size, b sequences of s tokens.

    >>> sum(latent_attention_flops(preset("DeepSeek-V3"), num_sequences=1, seq_len=4096).values())
    2907155988480
    >>> expert_parameters(4, 3, 1, 5, 0)
    {'total_parameters': 192, 'active_parameters': 72}

Source: DeepSeek-AI 2024, DeepSeek-V2, section 2 (latent attention, shared experts).
"""

from course_utils.configs import ModelConfig
from course_utils.configs.validation import require_not_negative, require_positive
from course_utils.formulas.flops import attention_core_flops, projection_flops_per_token


def latent_attention_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """FLOPs of one layer's latent attention in a forward pass of training.

    Args:
        model: A model with latent attention.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.

    Returns:
        ``projection_flops`` and ``core_flops``: keys and values are widened for every head.

    Raises:
        ValueError: If a size is not above zero, or if the model has another attention.
    """
    require_positive("latent_attention_flops", num_sequences=num_sequences, seq_len=seq_len)
    if model.latent_attention is None:
        raise ValueError("latent_attention_flops: the model has no latent_attention; give it one")
    return {
        "projection_flops": num_sequences * seq_len * projection_flops_per_token(model),
        "core_flops": attention_core_flops(model, num_sequences, seq_len),
    }


def expert_parameters(
    hidden_size: int,
    num_experts: int,
    experts_per_token: int,
    expert_ffn_size: int,
    num_shared_experts: int,
) -> dict[str, int]:
    """Parameters of one layer of gated experts: all of them, and those that one token uses.

    Args:
        hidden_size: Width h.
        num_experts: Experts that the router chooses among.
        experts_per_token: Experts that it sends a token to.
        expert_ffn_size: Inner width of one expert.
        num_shared_experts: Experts that see every token.

    Returns:
        ``total_parameters`` and ``active_parameters``, both with the router.

    Raises:
        ValueError: If a size is not above zero, or if there are fewer than no shared experts.
    """
    require_positive(
        "expert_parameters",
        hidden_size=hidden_size,
        num_experts=num_experts,
        experts_per_token=experts_per_token,
        expert_ffn_size=expert_ffn_size,
    )
    require_not_negative("expert_parameters", num_shared_experts=num_shared_experts)
    up = gate = down = hidden_size * expert_ffn_size
    router, shared = hidden_size * num_experts, num_shared_experts * (up + gate + down)
    return {
        "total_parameters": router + shared + num_experts * (up + gate + down),
        "active_parameters": router + shared + experts_per_token * (up + gate + down),
    }
